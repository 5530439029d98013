"""Regions of Paint-Batch: a row's region before and after, and the rectangles of its receivers.

Notation: the *outline* of a row is the x of the k nearest rows that rank before it, on its left and on its
right, nearest first, NaN where there are fewer. A subscription [l, r] that holds the row has it among its k
best if l is right of the (u + 1)-th on the left and r left of the (k - u)-th on the right, for some u < k. So
an outline gives, for every l, the *top* that r stays below: NaN is no top, the row's own x leaves nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs, Ops
from tocsin.indexes.ranges.messages.messages import EVENT, N_RECTANGLES, Messages, RowEvents
from tocsin.indexes.ranges.messages.painters.events_kernels import write_payload, write_rectangle
from tocsin.indexes.ranges.structures.blocked_rows_kernels import (
    find_last,
    first_left,
    first_place,
    first_right,
    place_after,
)
from tocsin.indexes.ranges.structures.blocked_rows_layout import BlockedColumns
from tocsin.kernels.status import DONE, FULL

#: Why a row is sent: it was inserted or improved; rows that got worse passed it; it got worse itself; it was
#: removed.
BETTER = 0
SHOWN = 1
WORSE = 2
GONE = 3


class EmittedRows(NamedTuple):
    """Rows to send, in order, with the outlines that determine their receivers; one entry each."""

    #: int8 (rows,): BETTER … GONE
    why: Ops
    #: what is sent
    rows: RowEvents
    #: float64 (rows, 2, k): outline after the batch, by the new y
    after: Floats
    #: float64 (rows, 2, k): outline before the batch, by the old y
    before: Floats
    #: float64 (rows, 2, k): outline after the batch, by the old y
    stale: Floats


@lean_kernel
def outline_rows(
    blocked: BlockedColumns, x: Floats, y: Floats, born: Longs, k: int, near: Ints, out_outline: Floats
) -> None:
    """The outlines of rows, existing or not. Cost: two searches each."""
    for row in range(len(x)):
        left = find_last(blocked, x[row], False)
        right = first_place(blocked) if left < 0 else place_after(blocked, left)
        n = first_left(blocked, left, y[row], born[row], k, near)
        for u in range(k):
            out_outline[row, 0, u] = blocked.x[near[u]] if u < n else np.nan
        n = first_right(blocked, right, y[row], born[row], k, near)
        for v in range(k):
            out_outline[row, 1, v] = blocked.x[near[v]] if v < n else np.nan


@inlined
def higher_top(top: float, other: float) -> float:
    """The higher of two tops; NaN, for no top, is the highest."""
    return top if top != top or top > other else other


@inlined
def lower_top(top: float, other: float) -> float:
    return top if other != other or top < other else other


@inlined
def top_at(outline: Floats, u: int, x: float, k: int) -> float:
    """The top where `u` of the left rows are inside."""
    return float(outline[1, k - 1 - u]) if u < k else x


@inlined
def count_inside(outline: Floats, u: int, edge: float, k: int) -> int:
    """How many left rows are inside once l is at or left of `edge`, when `u` were."""
    while u < k and outline[0, u] >= edge:
        u += 1
    return u


@inlined
def next_edge(outline: Floats, u: int, edge: float, k: int) -> float:
    """The nearer of `edge` and the next left row; NaN is none."""
    if u < k and (edge != edge or outline[0, u] > edge):
        return float(outline[0, u])
    return edge


@inlined
def paint_row(emitted: EmittedRows, row: int, k: int, out: Messages, cursor: Longs) -> None:
    """Write the rectangles of one row's receivers, at most 3k + 1, by columns of l leftwards from its x."""
    x, why = emitted.rows.x[row], emitted.why[row]
    after, before, stale = emitted.after[row], emitted.before[row], emitted.stale[row]
    n_after = n_before = n_stale = 0
    # The rectangle being written: l from `begin` to the left, r in [low, high).
    begin = low = high = x
    edge = x
    is_left = True
    while is_left:
        n_after = count_inside(after, n_after, edge, k)
        n_before = count_inside(before, n_before, edge, k)
        n_stale = count_inside(stale, n_stale, edge, k)
        bottom, top = x, top_at(after, n_after, x, k) if why != GONE else x
        if why == SHOWN:
            bottom = top_at(before, n_before, x, k)
        elif why != BETTER:
            kept = lower_top(top_at(before, n_before, x, k), top_at(stale, n_stale, x, k))
            top = higher_top(top, kept)
        if bottom != bottom or top <= bottom:
            bottom = top = x
        if bottom != low or not (top == high or (top != top and high != high)):
            if high != low:
                write_rectangle(out, cursor, begin, low, edge, high)
            begin, low, high = edge, bottom, top
        following = next_edge(after, n_after, np.nan, k)
        following = next_edge(before, n_before, following, k)
        following = next_edge(stale, n_stale, following, k)
        is_left = following == following
        edge = following if is_left else edge
    if high != low:
        write_rectangle(out, cursor, begin, low, np.nan, high)


@lean_kernel
def paint_rows(emitted: EmittedRows, k: int, out: Messages, cursor: Longs) -> int:
    """Write the messages of all rows from the cursor on, as one event: DONE or FULL."""
    while cursor[EVENT] < len(emitted.why):
        row = cursor[EVENT]
        if cursor[N_RECTANGLES] + 3 * k + 1 > len(out.payload):
            return FULL
        paint_row(emitted, row, k, out, cursor)
        rows = emitted.rows
        is_gone = emitted.why[row] == GONE
        write_payload(out, cursor, 0, rows.slot[row], rows.x[row], rows.y[row], rows.born[row], is_gone)
        cursor[EVENT] = row + 1
    return DONE
