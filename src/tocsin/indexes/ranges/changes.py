"""The output of reporting kernels: a buffer that doubles, and a cursor to go on from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tocsin.indexes.contract import ChangeSet, Longs
from tocsin.indexes.ranges.step_kernels import CURSOR_SIZE, FULL, N_OUT
from tocsin.indexes.shared.columns import grown


def empty_buffer(capacity: int) -> ChangeSet:
    """Columns of changes, not yet written."""
    return ChangeSet(
        step=np.empty(capacity, np.int32),
        subscription=np.empty(capacity, np.int32),
        op=np.empty(capacity, np.int8),
        row=np.empty(capacity, np.int32),
        other=np.empty(capacity, np.int32),
        score=np.empty(capacity, np.float64),
        rank=np.empty(capacity, np.int32),
    )


def new_cursor() -> Longs:
    """A cursor at the beginning."""
    return np.zeros(CURSOR_SIZE, np.int64)


def run_reporting(report: Callable[[ChangeSet, Longs], int], cursor: Longs, capacity: int) -> ChangeSet:
    """Call `report` until it is done, with twice the room whenever it finds the output full."""
    out = empty_buffer(capacity)
    while report(out, cursor) == FULL:
        room = 2 * len(out.step)
        out = ChangeSet._make(grown(column, room) for column in out)
    return ChangeSet._make(column[: cursor[N_OUT]] for column in out)
