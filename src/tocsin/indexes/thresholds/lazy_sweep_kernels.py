"""The kernel of the sweep: many boxes of two dimensions against many events, in one pass.

Events are entered in the order of the first axis, into running sums over the second. What a box
holds is what lies between its bounds on the second axis when the pass leaves it, less what lay
there when the pass came to it. An event and a box cost about the same, a few dozen nanoseconds,
however many there are of the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.shared.jit import kernel

#: Bits of a rank that tell its place in its block, and of a block's number that tell its place in its span.
BLOCK_BITS = 6
SPAN_BITS = 6
BLOCK = 1 << BLOCK_BITS
SPAN = 1 << SPAN_BITS


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
def chain_boxes(ranks: Ints, n_events: int) -> tuple[Ints, Ints]:
    """For each rank the first box that has it, and for each box the next that has the same; -1 for none."""
    heads = np.full(n_events + 1, -1, np.int32)
    nexts = np.empty(ranks.shape[0], np.int32)
    for box in range(ranks.shape[0]):
        nexts[box] = heads[ranks[box]]
        heads[ranks[box]] = box
    return heads, nexts


@kernel
def sweep_boxes(sweep: Sweep, out_held: Longs) -> None:
    """The weight of the events in each box."""
    ranks, weights, lows, highs = sweep.rank, sweep.weight, sweep.low, sweep.high
    n_events = ranks.shape[0]
    begin_heads, begin_nexts = chain_boxes(sweep.begin, n_events)
    end_heads, end_nexts = chain_boxes(sweep.end, n_events)
    n_blocks = (n_events >> BLOCK_BITS) + 1
    n_spans = (n_blocks - 1 >> SPAN_BITS) + 1
    # Sums of what was entered: before a rank in its block, before a block in its span, before a span.
    sums = np.zeros(n_blocks << BLOCK_BITS, np.int64)
    block_sums = np.zeros(n_spans << SPAN_BITS, np.int64)
    span_sums = np.zeros(n_spans, np.int64)
    out_held[:] = 0
    for event in range(n_events + 1):
        for is_end in range(2):
            box = end_heads[event] if is_end else begin_heads[event]
            while box >= 0:
                low, high = lows[box], highs[box]
                low_block, high_block = low >> BLOCK_BITS, high >> BLOCK_BITS
                held = sums[high] + block_sums[high_block] + span_sums[high_block >> SPAN_BITS]
                held -= sums[low] + block_sums[low_block] + span_sums[low_block >> SPAN_BITS]
                out_held[box] += held if is_end else -held
                box = end_nexts[box] if is_end else begin_nexts[box]
        if event == n_events:
            break
        rank, weight = ranks[event], weights[event]
        block = rank >> BLOCK_BITS
        span = block >> SPAN_BITS
        for place in range(rank + 1, (block + 1) << BLOCK_BITS):
            sums[place] += weight
        for place in range(block + 1, (span + 1) << SPAN_BITS):
            block_sums[place] += weight
        for place in range(span + 1, n_spans):
            span_sums[place] += weight
