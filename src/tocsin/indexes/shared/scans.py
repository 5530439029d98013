"""What the scans share: column-wise arrays that widen, and the buffer that kernels write changes to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import ChangeSet, Floats, Ints, Longs, Ops, RowDelta
from tocsin.indexes.shared.columns import grown

#: What a kernel answers: it is through, or it stopped in front of a change that does not fit.
DONE = 0
FULL = 1


class ChangeColumns(NamedTuple):
    """The columns of a `ChangeSet` that a kernel writes; all of one length."""

    step: Ints
    subscription: Ints
    op: Ops
    row: Ints
    score: Floats
    rank: Ints


class ChangeBuffer:
    """Room for changes that doubles when a kernel answers FULL."""

    def __init__(self, capacity: int) -> None:
        ints = [np.empty(capacity, np.int32) for _ in range(4)]
        ops, scores = np.empty(capacity, np.int8), np.empty(capacity, np.float64)
        self.columns = ChangeColumns(ints[0], ints[1], ops, ints[2], scores, ints[3])

    def grow(self) -> None:
        """Twice the room, with what was written. Cost: linear, amortised constant a change."""
        self.columns = ChangeColumns(*(grown(column, len(column) + 1) for column in self.columns))

    def changes(self, count: int) -> ChangeSet:
        """The first `count` changes, copied out."""
        written = ChangeColumns._make(column[:count].copy() for column in self.columns)
        other = np.full(count, -1, np.int32)
        return ChangeSet(
            written.step, written.subscription, written.op, written.row, other, written.score, written.rank
        )


def widened(array: np.ndarray, width: int, fill: float | int | bool = 0) -> np.ndarray:
    """`array` (rows, columns) with at least `width` columns: itself, or a copy of twice the width.

    New columns hold `fill`. Cost: amortised constant a column.
    """
    have = array.shape[1]
    if width <= have:
        return array
    larger = np.full((array.shape[0], max(width, 2 * have)), fill, array.dtype)
    larger[:, :have] = array
    return larger


def writable(array: np.ndarray, dtype: type[np.generic]) -> np.ndarray:
    """`array` as kernels take it: of `dtype`, contiguous and writable. A copy only where it must be."""
    if array.dtype is np.dtype(dtype) and array.flags.carray:
        return array
    return np.require(array, dtype, ["C_CONTIGUOUS", "WRITEABLE"])


def column_wise(values: np.ndarray) -> Floats:
    """A float64 copy of `values` (n, columns), turned to (columns, n)."""
    return np.array(np.asarray(values, np.float64).T, order="C", copy=True)


def step_bounds(delta: RowDelta) -> Longs:
    """int64 (steps + 1,): step `s` holds the entries from `bounds[s]` up to `bounds[s + 1]`."""
    if len(delta.seq) == 1:
        return np.array([0, len(delta.step)], np.int64)
    steps = np.arange(len(delta.seq) + 1, dtype=np.int32)
    return np.searchsorted(delta.step, steps).astype(np.int64)
