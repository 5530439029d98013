"""Changes on their way out: an Arrow table of changes cut up by subscription, and several batches as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.arrow import one_array
from tocsin.engine.text import json_rows

#: One change as clients see it: `op`, `seq`, `key`, `score`, `rank`, and for rows that came `row`.
Change: TypeAlias = dict[str, Any]


#: What happens once and is part of no answer.
EVENTS = ("match", "mature")


def texts(changes: pa.Table) -> pa.Array:
    """Each change as JSON. Cost: linear, in Arrow's own loops."""
    told = json_rows(changes.select(["op", "seq", "key", "score", "rank"]))
    if "row" in changes.column_names:
        row = one_array(changes.column("row"))
        opened = pc.utf8_slice_codeunits(told, 0, -1)
        told = pc.if_else(
            pc.is_null(row), told, pc.binary_join_element_wise(opened, ', "row": ', row, "}", "")
        )
    return told


def newest_events(changes: pa.Table, told: pa.Array, count: int) -> list[tuple[str, str]]:
    """The last `count` matches or firings of each subscription, each with its text. Cost: linear."""
    is_event = pc.is_in(one_array(changes.column("op")), pa.array(EVENTS)).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(is_event)
    if not len(places):
        return []
    owners = one_array(changes.column("subscription")).take(pa.array(places)).dictionary_encode()
    owner = owners.indices.to_numpy()
    order = np.argsort(owner, kind="stable")
    # How many of the same subscription come after each.
    after = np.cumsum(np.bincount(owner))[owner[order]] - 1 - np.arange(len(order))
    kept = np.sort(order[after < count])
    names = owners.dictionary.take(pa.array(owner[kept])).to_pylist()
    return list(zip(names, told.take(pa.array(places[kept])).to_pylist(), strict=True))


def by_subscription(changes: pa.Table, told: pa.Array | None = None) -> list[tuple[str, str]]:
    """The changes of each subscription as a JSON array, in order; `told` are their texts. Cost: linear."""
    if not changes.num_rows:
        return []
    if told is None:
        told = texts(changes)
    owners = one_array(changes.column("subscription")).dictionary_encode()
    owner = owners.indices.to_numpy()
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner))]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), told.take(pa.array(order)))
    joined = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return list(zip(owners.dictionary.to_pylist(), joined.to_pylist(), strict=True))


class Pending:
    """Batches of changes that wait to be told as one.

    What is kept is bounded by the answer that the client holds and the one that there is now, however long
    it waits. Matches and maturities happen once and are part of no answer: the last stays, the others are
    counted.
    """

    def __init__(self) -> None:
        #: by key: whether the client holds it
        self._held: dict[str, bool] = {}
        self._last: Change | None = None
        #: events that a single one stands for
        self.missed = 0

    def add(self, changes: Sequence[Change]) -> None:
        """Take in one batch. Cost: linear in it."""
        for change in changes:
            op = change["op"]
            if op in EVENTS and self._last is not None:
                self.missed += 1
            elif op == "leave" and self._held.get(change["key"]) is False:
                # It came and went before the client heard of it.
                del self._held[change["key"]]
            elif op in ("leave", "update", "enter"):
                self._held.setdefault(change["key"], op != "enter")
            self._last = change

    def net(self, answer: Sequence[Change]) -> list[Change]:
        """All batches as one, given the answer after the last of them as enters. Cost: linear.

        Applied to what the client held before the first batch, it gives the same list.
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
