"""Range DISTINCT by the Mar of a value: one message to each range that gets or loses it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.columns import ensure_capacity
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
        self.nodes = _empty_nodes(capacity + 1)
        self._path: Ints = np.empty(LEVELS, np.int32)

    def __len__(self) -> int:
        """How many pairs of a value and an x there are. Cost: linear."""
        return int((self.nodes.now[: self.nodes.heads[N_MADE]] > 0).sum())

    def apply(self, before: Values, after: Values) -> Messages:
        """Messages of a batch, given its rows before and after. Cost: a logarithmic search each."""
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

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        nodes = self.nodes
        assert not nodes.is_touched.any()
        for level in range(LEVELS):
            at, last = int(nodes.after[HEAD, level]), (-1, -np.inf)
            while at >= 0:
                here = int(nodes.code[at]), float(nodes.x[at])
                assert last < here
                assert nodes.now[at] > 0
                assert level > 0 or nodes.after[nodes.before[at], 0] == at
                at, last = int(nodes.after[at, level]), here

    def _change(self, code: Longs, x: Floats, by: Ints) -> tuple[Longs, Ints]:
        """Nodes touched, and the first change of each."""
        node, change = np.empty(len(code), np.int64), np.empty(len(code), np.int32)
        cursor = np.zeros(2, np.int64)
        while not change_counts(self.nodes, code, x, by, self._path, node, change, cursor):
            self.nodes = _grown_nodes(self.nodes)
        assert cursor[CHANGE] == len(code)
        return node[: cursor[N_TOUCHED]], change[: cursor[N_TOUCHED]]


def _empty_nodes(capacity: int) -> SkipList:
    """Capacity for this many nodes; only the head exists."""
    nodes = SkipList(
        code=np.full(capacity, -1, np.int64),
        x=np.zeros(capacity),
        was=np.zeros(capacity, np.int32),
        now=np.zeros(capacity, np.int32),
        is_touched=np.zeros(capacity, np.bool_),
        after=np.full((capacity, LEVELS), -1, np.int32),
        before=np.full(capacity, -1, np.int32),
        edge=np.empty(capacity),
        heads=np.zeros(2, np.int64),
    )
    nodes.heads[N_MADE] = HEAD + 1
    nodes.heads[FREE] = -1
    return nodes


def _grown_nodes(nodes: SkipList) -> SkipList:
    """Twice the capacity, with the same contents."""
    capacity = 2 * len(nodes.code)
    columns = {
        name: ensure_capacity(column, capacity) for name, column in nodes._asdict().items() if name != "heads"
    }
    columns["after"][len(nodes.code) :] = -1
    return nodes._replace(**columns)
