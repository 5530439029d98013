"""The kernels of the sweep: many boxes of two dimensions against many events, in one pass.

Events are entered in the order of the first axis, into running sums over the second. What a box
holds is what lies between its bounds on the second axis when the pass leaves it, less what lay
there when the pass came to it. An event and a box cost about the same, however many there are of
the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.jit import inlined, lean_kernel
from tocsin.indexes.thresholds.lazy_columns import find_bucket

#: Bits of a rank that tell its place in its block, of a block's number that tell its place in its span, and
#: of a span's that tell its place in its reach.
BLOCK_BITS = 6
SPAN_BITS = 5
REACH_BITS = 5
#: Values that are compared with a bound without a branch.
AHEAD = 4


class Pieces(NamedTuple):
    """The line of the events' values, cut into as many equal pieces as there are."""

    #: float64 (2,): where pieces begin, and how many there are to a unit of length.
    scale: Floats
    #: int32 (events + 2,): how many values come before the piece.
    begins: Ints


class Sweep(NamedTuple):
    """Events in order of the first axis; boxes as ranks among the events."""

    #: int32 (events,): rank on the second axis.
    rank: Ints
    #: int64 (events,): weight.
    weight: Longs
    #: int32 (boxes,): events before the box on the first axis, and before its end.
    begin: Ints
    end: Ints
    #: int32 (boxes,): the same on the second axis.
    low: Ints
    high: Ints


@lean_kernel
def fill_pieces(values: Floats, pieces: Pieces) -> None:
    """Cut the line of the ascending values into as many equal pieces; tell where each one's values begin."""
    n_values = pieces.begins.shape[0] - 2
    first, last = 0, n_values - 1
    while first < last and values[first] == -np.inf:
        first += 1
    while first < last and values[last] == np.inf:
        last -= 1
    floor = values[first] if n_values > 0 else 0.0
    length = values[last] / 2 - floor / 2 if n_values > 0 else 0.0
    per_unit = n_values / 2 / length if length > 0 else 1.0
    pieces.scale[0], pieces.scale[1] = floor, per_unit
    pieces.begins[0] = 0
    n_pieces = 1
    for index in range(n_values):
        piece = find_bucket(values[index], floor, per_unit, n_values)
        while n_pieces <= piece:
            pieces.begins[n_pieces] = index
            n_pieces += 1
    pieces.begins[n_pieces:] = n_values


@inlined
def find_rank(values: Floats, pieces: Pieces, bound: float, is_high: bool) -> int:
    """How many of the ascending values are below the bound, or at it where that is a high one."""
    piece = find_bucket(bound, pieces.scale[0], pieces.scale[1], pieces.begins.shape[0] - 2)
    begin, end = pieces.begins[piece], pieces.begins[piece + 1]
    # A piece rarely holds more than that, so there is nothing to guess.
    rank = begin
    for index in range(begin, begin + AHEAD):
        rank += (values[index] < bound) | (is_high & (values[index] == bound))
    if rank == begin + AHEAD:
        while rank < end:
            middle = (rank + end) >> 1
            if values[middle] < bound or (is_high and values[middle] == bound):
                rank = middle + 1
            else:
                end = middle
    return int(rank)


@lean_kernel
def rank_bounds(
    values: Floats, pieces: Pieces, lows: Floats, highs: Floats, out_low: Ints, out_high: Ints
) -> None:
    """How many of the ascending values are below each low, and how many are not above each high.

    Cost: about constant a bound where values are spread evenly, at worst the logarithm of their number.
    """
    fill_pieces(values, pieces)
    for box in range(lows.shape[0]):
        out_low[box] = find_rank(values, pieces, lows[box], False)
        out_high[box] = find_rank(values, pieces, highs[box], True)


@lean_kernel
def sort_boxes(ranks: Ints, out_starts: Ints, out_boxes: Ints) -> None:
    """List the boxes by their ranks; those of rank r begin at `out_starts[r]`, which has two entries more.

    All starts are 0 before.
    """
    for box in range(ranks.shape[0]):
        out_starts[ranks[box] + 2] += 1
    for rank in range(out_starts.shape[0] - 1):
        out_starts[rank + 1] += out_starts[rank]
    for box in range(ranks.shape[0]):
        out_boxes[out_starts[ranks[box] + 1]] = box
        out_starts[ranks[box] + 1] += 1


@lean_kernel
def add_to(sums: Longs, weight: int) -> None:
    """Add a weight to all these sums. A plain loop is several times as fast as NumPy's words for it."""
    for index in range(sums.shape[0]):
        sums[index] += weight


class SweepRoom(NamedTuple):
    """Room that a sweep works in, all 0."""

    #: int32 (2, events + 3): where boxes that begin, and those that end, before an event are in `boxes`.
    starts: Ints
    #: int32 (2, boxes): the boxes by where they begin, and by where they end.
    boxes: Ints
    #: int64: sums of what was entered, before a rank in its block, before a block in its span, before a span
    #: in its reach, before a reach.
    sums: Longs
    block_sums: Longs
    span_sums: Longs
    reach_sums: Longs


def sweep_room(n_events: int, n_boxes: int) -> SweepRoom:
    """Room for so many events and boxes."""
    n_blocks = (n_events >> BLOCK_BITS) + 1
    n_spans = ((n_blocks - 1) >> SPAN_BITS) + 1
    n_reaches = ((n_spans - 1) >> REACH_BITS) + 1
    return SweepRoom(
        starts=np.zeros((2, n_events + 3), np.int32),
        boxes=np.zeros((2, n_boxes), np.int32),
        sums=np.zeros(n_blocks << BLOCK_BITS, np.int64),
        block_sums=np.zeros(n_spans << SPAN_BITS, np.int64),
        span_sums=np.zeros(n_reaches << REACH_BITS, np.int64),
        reach_sums=np.zeros(n_reaches, np.int64),
    )


@lean_kernel
def sweep_boxes(sweep: Sweep, room: SweepRoom, out_held: Longs) -> None:
    """Add the weight of the events in each box."""
    ranks, weights, lows, highs = sweep.rank, sweep.weight, sweep.low, sweep.high
    starts, boxes, sums, block_sums, span_sums, reach_sums = room
    n_events = ranks.shape[0]
    sort_boxes(sweep.begin, starts[0], boxes[0])
    sort_boxes(sweep.end, starts[1], boxes[1])
    for event in range(n_events + 1):
        for is_end in range(2):
            for index in range(starts[is_end, event], starts[is_end, event + 1]):
                box = boxes[is_end, index]
                low, high = lows[box], highs[box]
                held = sums[high] - sums[low]
                low, high = low >> BLOCK_BITS, high >> BLOCK_BITS
                held += block_sums[high] - block_sums[low]
                low, high = low >> SPAN_BITS, high >> SPAN_BITS
                held += span_sums[high] - span_sums[low]
                held += reach_sums[high >> REACH_BITS] - reach_sums[low >> REACH_BITS]
                out_held[box] += held if is_end else -held
        if event < n_events:
            rank, weight = ranks[event], weights[event]
            block = rank >> BLOCK_BITS
            span = block >> SPAN_BITS
            add_to(sums[rank + 1 : (block + 1) << BLOCK_BITS], weight)
            add_to(block_sums[block + 1 : (span + 1) << SPAN_BITS], weight)
            reach = span >> REACH_BITS
            add_to(span_sums[span + 1 : (reach + 1) << REACH_BITS], weight)
            add_to(reach_sums[reach + 1 :], weight)
