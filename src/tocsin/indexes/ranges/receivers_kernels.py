"""Which subscriptions, as points of the grid, the rectangle of a message holds."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.ranges.messages import Messages
from tocsin.indexes.ranges.points_kernels import Grid, Rectangle, count_points, report_points
from tocsin.indexes.shared.jit import inlined, lean_kernel


@inlined
def area_of(inner_lo: float, inner_hi: float, outer_lo: float, outer_hi: float) -> Rectangle:
    """A tile as closed bounds; an outer bound of NaN is none."""
    low = np.nextafter(outer_lo, np.inf) if outer_lo == outer_lo else -np.inf
    high = np.nextafter(outer_hi, -np.inf) if outer_hi == outer_hi else np.inf
    return Rectangle(low, inner_lo, inner_hi, high)


@inlined
def tile_area(messages: Messages, tile: int) -> Rectangle:
    """The rectangle of a message, as closed bounds."""
    return area_of(
        messages.inner_lo[tile], messages.inner_hi[tile], messages.outer_lo[tile], messages.outer_hi[tile]
    )


@lean_kernel
def count_receivers(grid: Grid, messages: Messages, out_count: Longs) -> None:
    """How many subscriptions each message reaches."""
    for tile in range(len(messages.note)):
        out_count[tile] = count_points(grid, tile_area(messages, tile))


@lean_kernel
def list_receivers(grid: Grid, messages: Messages, first: int, out_slot: Ints, out_end: Longs) -> int:
    """Who each message from `first` on reaches, up to its `out_end`. Answers the tile that did not fit."""
    n_out = 0 if first == 0 else out_end[first - 1]
    for tile in range(first, len(messages.note)):
        n_out = report_points(grid, tile_area(messages, tile), out_slot, n_out)
        if n_out < 0:
            return tile
        out_end[tile] = n_out
    return len(messages.note)
