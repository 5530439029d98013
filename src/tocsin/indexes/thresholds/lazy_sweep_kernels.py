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
from tocsin.indexes.shared.jit import kernel, lean_kernel
from tocsin.indexes.thresholds.lazy_columns import find_bucket

#: Bits of a rank that tell its place in its block, and of a block's number that tell its place in its span.
BLOCK_BITS = 6
SPAN_BITS = 6
#: Values in one piece of the line from which on it is faster to compare.
CROWDED = 64


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


@kernel
def order_spread(values: Floats, floor: float, per_unit: float, out_order: Ints) -> bool:
    """The order of the values, if they are spread so evenly that few share a piece of the line.

    Cost: linear, a few times as fast as to compare them.
    """
    n_values = values.shape[0]
    begins, pieces = np.zeros(n_values + 1, np.int32), np.empty(n_values, np.int32)
    n_placed = np.zeros(n_values, np.uint8)
    for index in range(n_values):
        pieces[index] = find_bucket(values[index], floor, per_unit, n_values)
        begins[pieces[index] + 1] += 1
    most = 0
    for piece in range(n_values):
        most = max(most, begins[piece + 1])
        begins[piece + 1] += begins[piece]
    if most > CROWDED:
        return False
    for index in range(n_values):
        value, piece = values[index], pieces[index]
        begin = begins[piece]
        place = begin + n_placed[piece]
        n_placed[piece] += 1
        while place > begin and values[out_order[place - 1]] > value:
            out_order[place] = out_order[place - 1]
            place -= 1
        out_order[place] = index
    return True


@kernel
def rank_bounds(values: Floats, lows: Floats, highs: Floats, out_low: Ints, out_high: Ints) -> None:
    """How many of the ascending values are below each low, and how many are not above each high.

    Cost: about constant a bound where values are spread evenly, at worst the logarithm of their number.
    """
    n_values = values.shape[0]
    first, last = 0, n_values - 1
    while first < last and values[first] == -np.inf:
        first += 1
    while first < last and values[last] == np.inf:
        last -= 1
    floor = values[first] if n_values > 0 else 0.0
    length = values[last] / 2 - floor / 2 if n_values > 0 else 0.0
    per_unit = n_values / 2 / length if length > 0 else 1.0
    # Where the values of each of as many equal pieces of the line begin.
    begins = np.empty(n_values + 2, np.int32)
    begins[0] = 0
    n_pieces = 1
    for index in range(n_values):
        piece = find_bucket(values[index], floor, per_unit, n_values)
        while n_pieces <= piece:
            begins[n_pieces] = index
            n_pieces += 1
    begins[n_pieces:] = n_values
    for box in range(lows.shape[0]):
        piece = find_bucket(lows[box], floor, per_unit, n_values)
        begin, end = begins[piece], begins[piece + 1]
        while begin < end:
            middle = (begin + end) >> 1
            if values[middle] < lows[box]:
                begin = middle + 1
            else:
                end = middle
        out_low[box] = begin
        piece = find_bucket(highs[box], floor, per_unit, n_values)
        begin, end = begins[piece], begins[piece + 1]
        while begin < end:
            middle = (begin + end) >> 1
            if values[middle] <= highs[box]:
                begin = middle + 1
            else:
                end = middle
        out_high[box] = begin


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
    #: int64: sums of what was entered, before a rank in its block, before a block in its span, before a span.
    sums: Longs
    block_sums: Longs
    span_sums: Longs


def sweep_room(n_events: int, n_boxes: int) -> SweepRoom:
    """Room for so many events and boxes."""
    n_blocks = (n_events >> BLOCK_BITS) + 1
    n_spans = ((n_blocks - 1) >> SPAN_BITS) + 1
    return SweepRoom(
        starts=np.zeros((2, n_events + 3), np.int32),
        boxes=np.zeros((2, n_boxes), np.int32),
        sums=np.zeros(n_blocks << BLOCK_BITS, np.int64),
        block_sums=np.zeros(n_spans << SPAN_BITS, np.int64),
        span_sums=np.zeros(n_spans, np.int64),
    )


@lean_kernel
def sweep_boxes(sweep: Sweep, room: SweepRoom, out_held: Longs) -> None:
    """Add the weight of the events in each box."""
    ranks, weights, lows, highs = sweep.rank, sweep.weight, sweep.low, sweep.high
    starts, boxes, sums, block_sums, span_sums = room
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
                held += span_sums[high >> SPAN_BITS] - span_sums[low >> SPAN_BITS]
                out_held[box] += held if is_end else -held
        if event < n_events:
            rank, weight = ranks[event], weights[event]
            block = rank >> BLOCK_BITS
            span = block >> SPAN_BITS
            add_to(sums[rank + 1 : (block + 1) << BLOCK_BITS], weight)
            add_to(block_sums[block + 1 : (span + 1) << SPAN_BITS], weight)
            add_to(span_sums[span + 1 :], weight)
