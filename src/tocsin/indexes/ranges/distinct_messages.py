"""Range DISTINCT by the Mar of a value: one message to each range that gets or loses it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import ABSENT, Floats, Ints, Longs
from tocsin.indexes.ranges.distinct_messages_kernels import (
    CHANGE,
    FREE,
    HEAD,
    LEVELS,
    N_MADE,
    N_TOUCHED,
    Nodes,
    change_counts,
    forget_nodes,
    tell_nodes,
)
from tocsin.indexes.ranges.messages import Messages
from tocsin.indexes.shared.columns import grown


class Values(NamedTuple):
    """Rows of a table, one each: a row whose code or x is NaN is not there."""

    #: float64 (rows,): a whole number from 0 on
    code: Floats
    x: Floats
    #: float64 (rows,): what the messages say the value is
    y: Floats


class DistinctMessages:
    """Reformulates batches for `SELECT DISTINCT y` over ranges of x; `apply` takes one batch.

    Values are codes, whole numbers from 0 on. The Mar of a row that comes or goes is the widest range around
    it without another row of its value: ranges inside it that hold the row get or lose the value. Of a batch
    the net change is told, to each range at most once a value; a message's row is the code.
    """

    def __init__(self, capacity: int = 16) -> None:
        self.nodes = _empty_nodes(capacity + 1)
        self._path: Ints = np.empty(LEVELS, np.int32)

    def __len__(self) -> int:
        """How many pairs of a value and an x there are. Cost: linear."""
        return int((self.nodes.now[: self.nodes.heads[N_MADE]] > 0).sum())

    def apply(self, before: Values, after: Values) -> Messages:
        """The rows of a batch before and after it. Cost: a logarithmic search each."""
        # Before and after of each row in turn: the order of messages is that of the rows.
        code, x, y = (
            np.stack(pair, axis=1).reshape(-1).astype(np.float64) for pair in zip(before, after, strict=True)
        )
        is_there = ~np.isnan(code) & ~np.isnan(x)
        codes = np.where(is_there, code, ABSENT).astype(np.int64)
        by = np.tile(np.array([-1, 1], np.int32), len(before.code))
        touched, change = self._change(codes, x + 0.0, by)
        nodes = self.nodes
        is_told = (nodes.was[touched] > 0) != (nodes.now[touched] > 0)
        told, change = touched[is_told], change[is_told]
        descending = np.lexsort((-nodes.x[told], -nodes.code[told]))
        outer_lo, outer_hi = np.empty(len(told)), np.empty(len(told))
        tell_nodes(nodes, told[descending], outer_lo, outer_hi)
        in_turn = np.empty(len(told), np.int64)
        in_turn[descending] = np.arange(len(told))
        told_x, numbers = nodes.x[told], np.arange(len(told), dtype=np.int32)
        messages = Messages(
            told_x, told_x, outer_lo[in_turn], outer_hi[in_turn], numbers,
            np.zeros(len(told), np.int32), nodes.code[told].astype(np.int32), told_x, y[change],
            np.full(len(told), ABSENT, np.int64), nodes.now[told] == 0,
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
            self.nodes = _larger(self.nodes)
        assert cursor[CHANGE] == len(code)
        return node[: cursor[N_TOUCHED]], change[: cursor[N_TOUCHED]]


def _empty_nodes(room: int) -> Nodes:
    """Room for so many nodes; there is only the head."""
    nodes = Nodes(
        code=np.full(room, -1, np.int64),
        x=np.zeros(room),
        was=np.zeros(room, np.int32),
        now=np.zeros(room, np.int32),
        is_touched=np.zeros(room, np.bool_),
        after=np.full((room, LEVELS), -1, np.int32),
        before=np.full(room, -1, np.int32),
        edge=np.empty(room),
        heads=np.zeros(2, np.int64),
    )
    nodes.heads[N_MADE] = HEAD + 1
    nodes.heads[FREE] = -1
    return nodes


def _larger(nodes: Nodes) -> Nodes:
    """Twice the room, with what is there."""
    room = 2 * len(nodes.code)
    columns = {name: grown(column, room) for name, column in nodes._asdict().items() if name != "heads"}
    columns["after"][len(nodes.code) :] = -1
    return nodes._replace(**columns)
