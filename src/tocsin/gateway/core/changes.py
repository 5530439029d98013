"""Outgoing changes: rendering a table of changes as JSON by subscription, and coalescing batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.text import json_rows
from tocsin.gateway.core.history import DeliveredBatch

#: One change as clients see it: `op`, `seq`, `key`, `score`, `rank`, and for rows that came `row`.
Change: TypeAlias = dict[str, Any]


#: Operations that happen once and are not part of an answer.
EVENTS = ("match", "mature")


def texts(changes: pa.Table) -> pa.Array:
    """Each change as JSON. Cost: linear, vectorized by Arrow."""
    rendered = json_rows(changes.select(["op", "seq", "key", "score", "rank"]))
    if "row" in changes.column_names:
        row = one_array(changes.column("row"))
        opened = pc.utf8_slice_codeunits(rendered, 0, -1)
        rendered = pc.if_else(
            pc.is_null(row), rendered, pc.binary_join_element_wise(opened, ', "row": ', row, "}", "")
        )
    return rendered


def newest_events(changes: pa.Table, rendered: pa.Array, count: int) -> list[tuple[str, str]]:
    """The latest `count` matches or firings of each subscription, as JSON. Cost: linear."""
    is_event = pc.is_in(one_array(changes.column("op")), pa.array(EVENTS)).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(is_event)
    if not len(places):
        return []
    owners = one_array(changes.column("subscription")).take(pa.array(places)).dictionary_encode()
    owner = owners.indices.to_numpy()
    order = np.argsort(owner, kind="stable")
    # Number of later events of the same subscription.
    after = np.cumsum(np.bincount(owner))[owner[order]] - 1 - np.arange(len(order))
    newest = np.sort(order[after < count])
    names = owners.dictionary.take(pa.array(owner[newest])).to_pylist()
    return list(zip(names, rendered.take(pa.array(places[newest])).to_pylist(), strict=True))


def by_subscription(changes: pa.Table, rendered: pa.Array | None = None) -> list[tuple[str, str]]:
    """The changes of each subscription as a JSON array, in order. Cost: linear.

    `rendered` has each change as JSON already.
    """
    if not changes.num_rows:
        return []
    if rendered is None:
        rendered = texts(changes)
    owners = one_array(changes.column("subscription")).dictionary_encode()
    owner = owners.indices.to_numpy()
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner))]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), rendered.take(pa.array(order)))
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return list(zip(owners.dictionary.to_pylist(), joined.to_pylist(), strict=True))


class ChangeCoalescer:
    """Coalesces queued batches of changes into one.

    Its size is bounded by the client's answer plus the current one, however long the queue grows. Matches and
    maturities are not part of an answer: the latest is retained and the others are counted.
    """

    def __init__(self) -> None:
        #: by key: whether the client holds it
        self._held: dict[str, bool] = {}
        self._last: Change | None = None
        #: events left out in favour of the latest
        self.missed = 0

    def add(self, changes: Sequence[Change]) -> None:
        """Add one batch. Cost: linear in it."""
        for change in changes:
            op = change["op"]
            if op in EVENTS and self._last is not None:
                self.missed += 1
            elif op == "leave" and self._held.get(change["key"]) is False:
                # Entered and left again before the client received either change.
                del self._held[change["key"]]
            elif op in ("leave", "update", "enter"):
                self._held.setdefault(change["key"], op != "enter")
            self._last = change

    def fold(self, batches: Iterable[DeliveredBatch]) -> ChangeCoalescer:
        """Add batches. Cost: linear, in Python: keep it off the event loop."""
        for batch in batches:
            self.add(json.loads(batch.changes))
        return self

    def net_text(self, answer: str) -> tuple[str, int]:
        """`net` as JSON, and the number of events that it leaves out; `answer` is JSON too."""
        return json.dumps(self.net(json.loads(answer)), separators=(",", ":")), self.missed

    def net(self, answer: Sequence[Change]) -> list[Change]:
        """All batches as one, given the answer after the last of them as enters. Cost: linear.

        Applied to the answer that the client held before the first batch, it yields `answer`.
        """
        if self._last is None:
            return []
        if self._last["op"] in ("value", *EVENTS):
            return [self._last]
        now = {change["key"]: change for change in answer}
        seq = self._last["seq"]
        leaves, updates, enters = [], [], []
        for key, is_held in self._held.items():
            if key not in now:
                if is_held:
                    leaves.append({"op": "leave", "seq": seq, "key": key})
            elif is_held:
                updates.append({**now[key], "op": "update", "seq": seq})
            else:
                enters.append({**now[key], "op": "enter", "seq": seq})
        return [*leaves, *sorted(updates, key=_rank), *sorted(enters, key=_rank)]


def _rank(change: Change) -> int:
    return int(change.get("rank") or 0)
