"""Changes in columnar form, and the growable buffer that kernels write them to."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from tocsin.arrays.columns import ensure_capacity, ensure_width
from tocsin.arrays.types import Floats, Ints, Ops

#: Change operations, in the order in which one subscription's changes are reported within a step.
LEAVE = 0
UPDATE = 1
ENTER = 2
VALUE = 3
MATURE = 4
MATCH = 5
OP_NAMES = ("leave", "update", "enter", "value", "mature", "match")

#: Larger outputs give their buffer away instead of copying it: 30 MB.
RETAINED = 1 << 20


class ChangeSet(NamedTuple):
    """Changes as an index reports them: parallel columns, in reporting order.

    Ordered by step, then by subscription slot, then `op`, then rank: leaves by the rank they had.
    Unranked entries of one op are ordered by the row's `born`, those of DISTINCT by code. The best
    matches of an event come by rank alone.
    """

    #: int32: index into the delta's `seq`, or the event's position in its batch.
    step: Ints
    #: int32: slot of the subscription.
    subscription: Ints
    #: int8: LEAVE … MATCH.
    op: Ops
    #: int32: slot of the row (a join's left row; an event's position in its batch); -1 for none.
    row: Ints
    #: int32: slot of a join's right row; -1 otherwise.
    other: Ints
    #: float64: score or value; NaN for null.
    score: Floats
    #: int32: 1-based rank; 0 for none.
    rank: Ints

    @classmethod
    def empty(cls) -> Self:
        """No changes."""
        ints = np.empty(0, np.int32)
        return cls(ints, ints, np.empty(0, np.int8), ints, ints, np.empty(0, np.float64), ints)

    @classmethod
    def concat(cls, parts: list[Self]) -> Self:
        """The parts, concatenated in order."""
        if not parts:
            return cls.empty()
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def part(self, begin: int, end: int) -> Self:
        """The changes from `begin` to before `end`: views."""
        cut = slice(begin, end)
        return type(self)(
            self.step[cut], self.subscription[cut], self.op[cut], self.row[cut],
            self.other[cut], self.score[cut], self.rank[cut],
        )  # fmt: skip

    def __bool__(self) -> bool:
        return len(self.step) > 0


class ChangeBuffer:
    """Change columns that a kernel writes, reused from step to step.

    Columns of one type share an array, so that a step with few changes allocates little. `other` is -1 where
    no kernel writes it.
    """

    def __init__(self, capacity: int) -> None:
        #: int32 (5, capacity): step, subscription, row, other, rank
        self._ints: Ints = np.full((5, capacity), -1, np.int32)
        self._op: Ops = np.empty(capacity, np.int8)
        self._score: Floats = np.empty(capacity)
        #: the columns that a kernel writes
        self.columns = self._columns()

    @property
    def capacity(self) -> int:
        return len(self._op)

    def grow(self) -> None:
        """Double the capacity, keeping what was written. Cost: linear, amortised constant a change."""
        capacity = 2 * self.capacity
        self._ints = ensure_width(self._ints, capacity, -1)
        self._op, self._score = ensure_capacity(self._op, capacity), ensure_capacity(self._score, capacity)
        self.columns = self._columns()

    def take(self, count: int) -> ChangeSet:
        """The first `count` changes: a copy, or the buffer itself if it is large. Cost: linear."""
        if not count:
            return _NO_CHANGES
        if count > RETAINED:
            changes = ChangeSet._make(column[:count] for column in self.columns)
            ChangeBuffer.__init__(self, self.capacity)
            return changes
        step, subscription, row, other, rank = self._ints[:, :count].copy()
        op, score = self._op[:count].copy(), self._score[:count].copy()
        return ChangeSet(step, subscription, op, row, other, score, rank)

    def _columns(self) -> ChangeSet:
        step, subscription, row, other, rank = self._ints
        return ChangeSet(step, subscription, self._op, row, other, self._score, rank)


_NO_CHANGES = ChangeSet.empty()
