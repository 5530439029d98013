"""Running a reporting kernel until it is done: its cursor, and its output buffer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tocsin.arrays.changes import ChangeBuffer, ChangeSet
from tocsin.arrays.types import Longs
from tocsin.indexes.ranges.steps.step_kernels import CURSOR_SIZE
from tocsin.kernels.status import FULL, N_OUT


def new_cursor() -> Longs:
    """A cursor at the beginning."""
    return np.zeros(CURSOR_SIZE, np.int64)


def run_reporting(report: Callable[[ChangeSet, Longs], int], cursor: Longs, capacity: int) -> ChangeSet:
    """Call `report` until it is done, with twice the capacity whenever it finds the output full."""
    buffer = ChangeBuffer(capacity)
    while report(buffer.columns, cursor) == FULL:
        buffer.grow()
    return buffer.take(int(cursor[N_OUT]))
