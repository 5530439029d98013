"""The client of messages: maintains one subscription's answer by the protocol, exactly.

It needs neither the engine nor the table, only a snapshot of the table and the messages since.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tocsin.errors import ParameterError

Bound: TypeAlias = float | Sequence[float]
Message: TypeAlias = Mapping[str, Any]

KINDS = ("top-k", "min", "max", "distinct")


class Entry(NamedTuple):
    """A row, or for DISTINCT a value, of an answer."""

    key: str
    y: Any
    born: int


class Subscriber:
    """The subscription `[lo, hi]` of one space: its kind, its k, its direction.

    With several dimensions, `lo` and `hi` have one entry each. `space` is the name of its space;
    without one, every message is taken to be of its space.
    """

    def __init__(
        self,
        lo: Bound,
        hi: Bound,
        *,
        kind: str = "top-k",
        k: int = 1,
        descending: bool = False,
        space: str | None = None,
    ) -> None:
        if kind not in KINDS:
            raise ParameterError(f"unknown kind {kind!r}; known are {', '.join(KINDS)}")
        if kind == "min" and descending:
            raise ParameterError("descending applies to top-k; the largest value is kind='max'")
        self.lo, self.hi = _bounds(lo), _bounds(hi)
        if len(self.lo) != len(self.hi):
            raise ParameterError("lo and hi must have the same number of dimensions")
        self.kind = kind
        self.k = k if kind == "top-k" else 1
        self.space = space
        self._sign = -1.0 if descending or kind == "max" else 1.0
        self._entries: dict[str, Entry] = {}
        #: the number of the last row in the snapshot
        self._seq: int | None = None

    def start(self, rows: Iterable[Mapping[str, Any]] | Any, *, seq: int | None = None) -> None:
        """Start again from a snapshot: an Arrow table or a list of rows with `key, x, y, born, seq`.

        For DISTINCT, the key is the value as text. Messages up to `seq`, by default that of the rows, are
        ignored from then on. Cost: linear in the rows.
        """
        self._entries.clear()
        self._seq = seq
        for row in rows.to_pylist() if hasattr(rows, "to_pylist") else rows:
            self._seq = row.get("seq", seq) if seq is None else seq
            x = _bounds(row["x"])
            is_inside = all(map(operator.le, self.lo, x)) and all(map(operator.le, x, self.hi))
            if is_inside and self._is_in_space(row) and (self.kind == "distinct" or _is_number(row.get("y"))):
                self._upsert(self._entry(row))

    def receives(self, message: Message) -> bool:
        """Whether the message is newer than the snapshot, and for this subscription. Cost: constant."""
        return (
            self._is_in_space(message)
            and (self._seq is None or message.get("seq", self._seq + 1) > self._seq)
            and all(map(operator.le, self.lo, _bounds(message["inner_lo"])))
            and all(map(operator.le, _bounds(message["inner_hi"]), self.hi))
            and all(map(_is_left, self._outer(message["outer_lo"]), self.lo))
            and all(map(_is_right, self._outer(message["outer_hi"]), self.hi))
        )

    def apply(self, messages: Message | Iterable[Message] | Any) -> int:
        """Apply a message, or an Arrow table or list of them in order; how many were for this subscription.

        Others are ignored. Cost of one that is applied: linear in k.
        """
        if isinstance(messages, Mapping):
            messages = [messages]
        elif hasattr(messages, "to_pylist"):
            messages = messages.to_pylist()
        count = 0
        for message in messages:
            if self.receives(message):
                self._apply_one(message)
                count += 1
        return count

    def result(self) -> list[Entry]:
        """The answer, best first; of MIN and MAX, at most one entry; of DISTINCT, by key."""
        if self.kind == "distinct":
            return sorted(self._entries.values())
        return sorted(self._entries.values(), key=self._rank)

    def _apply_one(self, message: Message) -> None:
        if self.kind in ("min", "max"):
            # Each message is the whole answer.
            self._entries.clear()
        if message["gone"]:
            self._entries.pop(message["key"], None)
        else:
            self._upsert(self._entry(message))

    def _upsert(self, entry: Entry) -> None:
        """The protocol: insert or update the entry, then retain the k best."""
        self._entries[entry.key] = entry
        if self.kind != "distinct" and len(self._entries) > self.k:
            del self._entries[max(self._entries.values(), key=self._rank).key]

    def _is_in_space(self, row: Message) -> bool:
        return self.space is None or row.get("space", self.space) == self.space

    def _entry(self, row: Message) -> Entry:
        """The entry of a row or a message; values have no insertion number. JSON omits nulls."""
        return Entry(row["key"], row.get("y"), 0 if self.kind == "distinct" else row["born"])

    def _outer(self, bound: Bound | None) -> tuple[float | None, ...]:
        """Outer bounds, one for each dimension; None means unbounded in each."""
        return (None,) * len(self.lo) if bound is None else _bounds(bound)

    def _rank(self, entry: Entry) -> tuple[float, int]:
        return self._sign * entry.y, entry.born


def _is_number(y: float | None) -> bool:
    return y is not None and not math.isnan(y)


def _bounds(bound: Bound) -> tuple[float, ...]:
    return tuple(bound) if isinstance(bound, Sequence) else (bound,)


def _is_left(bound: float | None, value: float) -> bool:
    """Whether an outer bound lies left of a value; None and NaN are unbounded."""
    return bound is None or not bound >= value


def _is_right(bound: float | None, value: float) -> bool:
    return bound is None or not bound <= value
