"""Range DISTINCT by the Mar of a value: one message to each range that gets or loses it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.distinct_kernels import (
    CHANGE,
    FREE,
    HEAD,
    LEVELS,
    N_MADE,
    N_TOUCHED,
    SkipList,
    change_counts,
    find_edges,
    forget_nodes,
)
from tocsin.indexes.ranges.messages.messages import Messages
from tocsin.indexes.ranges.messages.receivers import fit_messages
from tocsin.indexes.ranges.structures.points import Points


class Values(NamedTuple):
    """Rows of a table, one entry each: a row whose code or x is NaN is absent."""

    #: float64 (rows,): a whole number from 0 on
    code: Floats
    x: Floats
    #: float64 (rows,): what the messages say the value is
    y: Floats


class DistinctMessages:
    """Reformulates batches for `SELECT DISTINCT y` over ranges of x; `apply` takes one batch.

    Values are codes, whole numbers from 0 on. The Mar of a row that comes or goes is the widest range around
    it without another row of its value: ranges inside it that hold the row get or lose the value. Of a batch
    only the net change is sent, to each range at most once per value; a message's row is the code.
    """

    def __init__(self, capacity: int = 16) -> None:
        #: the subscriptions, for sparse messages; maintained by the caller
        self.points = Points(capacity)
        self.nodes = empty(SkipList, nodes=capacity + 1)
        self.nodes.heads[[N_MADE, FREE]] = HEAD + 1, -1
        self._path: Ints = np.empty(LEVELS, np.int32)

    def __len__(self) -> int:
        """How many pairs of a value and an x there are. Cost: linear."""
        return int((self.nodes.now[: self.nodes.heads[N_MADE]] > 0).sum())

    def apply(self, before: Values, after: Values, *, is_sparse: bool = False) -> Messages:
        """Messages of a batch, given its rows before and after. Cost: a logarithmic search each."""
        messages = self._emitted(before, after)
        return fit_messages(self.points, messages) if is_sparse else messages

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        nodes = self.nodes
        check_layout(nodes)
        self.points.check_invariants()
        assert not nodes.is_touched.any()
        for level in range(LEVELS):
            at, last = int(nodes.after[HEAD, level]), (-1, -np.inf)
            while at >= 0:
                here = int(nodes.code[at]), float(nodes.x[at])
                assert last < here
                assert nodes.now[at] > 0
                assert level > 0 or nodes.after[nodes.before[at], 0] == at
                at, last = int(nodes.after[at, level]), here

    def _emitted(self, before: Values, after: Values) -> Messages:
        # Before and after of each row alternate: messages come in the order of the rows.
        code, x, y = (
            np.stack(pair, axis=1).reshape(-1).astype(np.float64) for pair in zip(before, after, strict=True)
        )
        is_there = ~np.isnan(code) & ~np.isnan(x)
        codes = np.where(is_there, code, ABSENT).astype(np.int64)
        by = np.tile(np.array([-1, 1], np.int32), len(before.code))
        touched, change = self._change(codes, x + 0.0, by)
        nodes = self.nodes
        is_changed = (nodes.was[touched] > 0) != (nodes.now[touched] > 0)
        changed, change = touched[is_changed], change[is_changed]
        descending = np.lexsort((-nodes.x[changed], -nodes.code[changed]))
        outer_lo, outer_hi = np.empty(len(changed)), np.empty(len(changed))
        find_edges(nodes, changed[descending], outer_lo, outer_hi)
        in_order = np.empty(len(changed), np.int64)
        in_order[descending] = np.arange(len(changed))
        changed_x, numbers = nodes.x[changed], np.arange(len(changed), dtype=np.int32)
        messages = Messages(
            changed_x, changed_x, outer_lo[in_order], outer_hi[in_order], numbers,
            np.zeros(len(changed), np.int32), nodes.code[changed].astype(np.int32), changed_x, y[change],
            np.full(len(changed), ABSENT, np.int64), nodes.now[changed] == 0,
        )  # fmt: skip
        forget_nodes(nodes, touched, self._path)
        return messages

    def _change(self, code: Longs, x: Floats, by: Ints) -> tuple[Longs, Ints]:
        """Nodes touched, and the first change of each."""
        node, change = np.empty(len(code), np.int64), np.empty(len(code), np.int32)
        cursor = np.zeros(2, np.int64)
        while not change_counts(self.nodes, code, x, by, self._path, node, change, cursor):
            self.nodes = grow(self.nodes, nodes=2 * len(self.nodes.code))
        assert cursor[CHANGE] == len(code)
        return node[: cursor[N_TOUCHED]], change[: cursor[N_TOUCHED]]
