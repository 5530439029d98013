"""Reports of kernels, and maturities and values as changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.changes import MATURE, VALUE, ChangeSet
from tocsin.arrays.layout import empty
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.thresholds.layout import Maturities

#: Integers up to here are exact as doubles.
EXACT_DOUBLE = 2**53


def matured_changes(slots: Ints, reached: Longs | NDArray[np.uint64], steps: Ints, scale: int) -> ChangeSet:
    """Maturities with the scaled weight reached, each at its row of the batch."""
    return _changes(MATURE, slots, reached, steps, steps, scale)


def value_changes(slots: Ints, reached: Longs, scale: int) -> ChangeSet:
    """The scaled weight that each has reached."""
    count = len(slots)
    no_rows = np.full(count, -1, np.int32)
    return _changes(VALUE, slots.astype(np.int32), reached, np.zeros(count, np.int32), no_rows, scale)


def _changes(
    op: int, slots: Ints, reached: Longs | NDArray[np.uint64], steps: Ints, rows: Ints, scale: int
) -> ChangeSet:
    count = len(slots)
    return ChangeSet(
        step=steps,
        subscription=slots,
        op=np.full(count, op, np.int8),
        row=rows,
        other=np.full(count, -1, np.int32),
        score=_unscaled(reached, scale),
        rank=np.zeros(count, np.int32),
    )


def _unscaled(reached: Longs | NDArray[np.uint64], scale: int) -> Floats:
    """`reached / scale`, rounded once."""
    is_power_of_two = scale & (scale - 1) == 0
    if is_power_of_two or (scale <= EXACT_DOUBLE and not (reached > EXACT_DOUBLE).any()):
        return reached.astype(np.float64) / float(scale)
    # Python divides integers with a single rounding; only huge decimals get here.
    return (reached.astype(object) / scale).astype(np.float64)


class MaturityReport:
    """The output buffer for maturities."""

    def __init__(self, capacity: int) -> None:
        self.rows = empty(Maturities, rows=capacity)

    def reserve(self, count: int) -> None:
        """Grow for `count` more rows."""
        rows = self.rows
        n_rows = int(rows.n_rows[0])
        if n_rows + count <= len(rows.step):
            return
        capacity = max(n_rows + count, 2 * len(rows.step))
        self.rows = Maturities(
            _extended(rows.step, n_rows, capacity),
            _extended(rows.subscription, n_rows, capacity),
            _extended(rows.reached, n_rows, capacity),
            rows.n_rows,
        )

    def fill(self, run: Callable[[int, Maturities], int], end: int) -> None:
        """Call a kernel until it reaches `end`, and grow the buffer whenever it stops with that full."""
        done = run(0, self.rows)
        while done < end:
            self.reserve(2 * len(self.rows.step))
            done = run(done, self.rows)


def _extended(column: np.ndarray, n_rows: int, capacity: int) -> np.ndarray:
    """A copy of a column's first rows with this capacity. The rest is not touched until it is needed."""
    extended = np.empty(capacity, column.dtype)
    extended[:n_rows] = column[:n_rows]
    return extended
