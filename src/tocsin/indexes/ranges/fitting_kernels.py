"""Tiles that fit the subscriptions there are: those of one note that follow each other, told as one."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Longs
from tocsin.indexes.ranges.messages import N_NOTES, N_TILES, Messages
from tocsin.indexes.ranges.points_kernels import Grid, Rectangle, count_points, snap_points
from tocsin.indexes.shared.jit import inlined, lean_kernel


@inlined
def next_above(x: float) -> float:
    """The least double above x; NaN, which is no bound, above infinity."""
    return float(np.nextafter(x, np.inf)) if x < np.inf else np.nan


@inlined
def next_below(x: float) -> float:
    """The largest double below x; NaN below minus infinity."""
    return float(np.nextafter(x, -np.inf)) if x > -np.inf else np.nan


@inlined
def area_of(given: Messages, tile: int) -> Rectangle:
    """A tile with closed bounds."""
    low, high = given.outer_lo[tile], given.outer_hi[tile]
    return Rectangle(
        next_above(low) if low == low else -np.inf,
        given.inner_lo[tile],
        given.inner_hi[tile],
        next_below(high) if high == high else np.inf,
    )


@lean_kernel
def fit_tiles(grid: Grid, given: Messages, out: Messages, cursor: Longs) -> None:
    """Write what is left of `given`, which `out` has room for: tiles snapped to the points in them.

    A tile joins the one before it if both carry one note and no point comes in that neither had: tiles of a
    note are disjoint, so that counting tells. Notes without a tile are left out.
    """
    box = Rectangle(np.inf, -np.inf, np.inf, -np.inf)
    held = 0
    note = -1
    for tile in range(len(given.note)):
        area = area_of(given, tile)
        count = count_points(grid, area)
        if count == 0:
            continue
        snapped = snap_points(grid, area)
        is_same = given.note[tile] == note
        joined = Rectangle(
            min(box.lo_min, snapped.lo_min),
            max(box.lo_max, snapped.lo_max),
            min(box.hi_min, snapped.hi_min),
            max(box.hi_max, snapped.hi_max),
        )
        if is_same and count_points(grid, joined) == held + count:
            box = joined
            held += count
            at = cursor[N_TILES] - 1
        else:
            box = snapped
            held = count
            at = cursor[N_TILES]
            cursor[N_TILES] = at + 1
        if not is_same:
            note = int(given.note[tile])
            new = cursor[N_NOTES]
            out.note_event[new] = given.note_event[note]
            out.note_row[new] = given.note_row[note]
            out.note_x[new] = given.note_x[note]
            out.note_y[new] = given.note_y[note]
            out.note_born[new] = given.note_born[note]
            out.note_gone[new] = given.note_gone[note]
            cursor[N_NOTES] = new + 1
        out.note[at] = cursor[N_NOTES] - 1
        out.inner_lo[at] = box.lo_max
        out.inner_hi[at] = box.hi_min
        out.outer_lo[at] = next_below(box.lo_min)
        out.outer_hi[at] = next_above(box.hi_max)
