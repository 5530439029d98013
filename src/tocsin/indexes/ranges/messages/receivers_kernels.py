"""Kernels that match messages with subscriptions: the points of the grid inside a rectangle."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Ints, Longs
from tocsin.indexes.ranges.messages.messages import N_PAYLOADS, N_RECTANGLES, Messages
from tocsin.indexes.ranges.structures.points_kernels import (
    Grid,
    Rectangle,
    count_points,
    join,
    next_above,
    next_below,
    no_box,
    report_points,
    snap_points,
)


@inlined
def area_of(inner_lo: float, inner_hi: float, outer_lo: float, outer_hi: float) -> Rectangle:
    """A rectangle as closed bounds; an outer bound of NaN is none."""
    low = next_above(outer_lo) if outer_lo == outer_lo else -np.inf
    high = next_below(outer_hi) if outer_hi == outer_hi else np.inf
    return Rectangle(low, inner_lo, inner_hi, high)


@inlined
def message_area(messages: Messages, at: int) -> Rectangle:
    """The rectangle of a message, as closed bounds."""
    return area_of(messages.inner_lo[at], messages.inner_hi[at], messages.outer_lo[at], messages.outer_hi[at])


@lean_kernel
def count_receivers(grid: Grid, messages: Messages, out_count: Longs) -> None:
    """How many subscriptions each message reaches."""
    for at in range(len(messages.payload)):
        out_count[at] = count_points(grid, message_area(messages, at))


@lean_kernel
def list_receivers(grid: Grid, messages: Messages, first: int, out_slot: Ints, out_end: Longs) -> int:
    """List the receivers of each message from `first` on, up to its `out_end`. Returns the first message
    whose receivers did not fit."""
    n_out = 0 if first == 0 else out_end[first - 1]
    for at in range(first, len(messages.payload)):
        n_out = report_points(grid, message_area(messages, at), out_slot, n_out)
        if n_out < 0:
            return at
        out_end[at] = n_out
    return len(messages.payload)


@lean_kernel
def fit_rectangles(grid: Grid, given: Messages, out: Messages, cursor: Longs) -> None:
    """Snap rectangles to the points in them, and drop empty ones; `out` has capacity for all of `given`.

    One joins the one before it if both carry the same payload and the joined rectangle holds no other point:
    rectangles of a payload are disjoint, so that counting decides. Payloads without a rectangle are dropped.
    """
    box = no_box()
    held = 0
    payload = -1
    for message in range(len(given.payload)):
        area = message_area(given, message)
        count = count_points(grid, area)
        if count == 0:
            continue
        snapped = snap_points(grid, area)
        is_same = given.payload[message] == payload
        joined = join(box, snapped)
        if is_same and count_points(grid, joined) == held + count:
            box = joined
            held += count
            at = cursor[N_RECTANGLES] - 1
        else:
            box = snapped
            held = count
            at = cursor[N_RECTANGLES]
            cursor[N_RECTANGLES] = at + 1
        if not is_same:
            payload = int(given.payload[message])
            new = cursor[N_PAYLOADS]
            out.payload_event[new] = given.payload_event[payload]
            out.payload_row[new] = given.payload_row[payload]
            out.payload_x[new] = given.payload_x[payload]
            out.payload_y[new] = given.payload_y[payload]
            out.payload_born[new] = given.payload_born[payload]
            out.payload_gone[new] = given.payload_gone[payload]
            cursor[N_PAYLOADS] = new + 1
        out.payload[at] = cursor[N_PAYLOADS] - 1
        out.inner_lo[at] = box.lo_max
        out.inner_hi[at] = box.hi_min
        out.outer_lo[at] = next_below(box.lo_min)
        out.outer_hi[at] = next_above(box.hi_max)
