"""Columns that the parts of the lazy threshold index share, and the kernel that logs events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.jit import kernel

#: The largest int64.
LARGEST = 0x7FFFFFFFFFFFFFFF
#: Subscriptions of a group.
GROUP = 256
#: Events of a chunk of the log, and of a block of a chunk.
CHUNK = 4096
BLOCK = 64

#: `SlotColumns.place` of a slot that holds no subscription.
NOWHERE = -1
#: … of one that has matured for good; its `tau` is the weight that it reached.
SILENT = -2
#: … of one with an empty box, which counts nothing.
NEVER = -3
#: Places from here on are in the cells, smaller ones in the boxes.
IN_CELLS = 0x40000000

#: Entries of `LogColumns.state`: events in the log,
LENGTH = 0
#: weight of all events since the clock was last set back,
CLOCK = 1
#: the clock at which some group may have matured,
DUE = 2
#: how long the log may grow before it needs attention,
LIMIT = 3
#: where the current batch begins in the log,
BATCH = 4
#: how many events the cells have taken in,
ABSORBED = 5
#: how many events the grid of the boxes has taken in,
GRIDDED = 6
#: how many events of the log have been sorted into chunks,
SORTED = 7
#: and how many events of the batch have been read.
READ = 8
STATE = 9


class SlotColumns(NamedTuple):
    """One row a subscription slot."""

    #: int32 (slots,): where it is counted: a place in the boxes or the cells, or a negative code.
    place: Ints
    #: int64 (slots,): scaled weight to reach.
    tau: Longs
    #: bool (slots,): start again from 0 after maturing.
    is_repeating: Bools


class LogColumns(NamedTuple):
    """Events that some subscription has not been held against yet.

    In order of arrival, but for the first SORTED: those lie in chunks of CHUNK, which are in order.
    A chunk's events are sorted by the first axis into blocks of BLOCK, and a block's by the second.
    """

    #: float64 (axes, capacity): coordinates, never NaN.
    values: Floats
    #: int64 (capacity,): positive weights.
    weights: Longs
    #: int32 (capacity,): position in the batch, of the current batch's events; of a sorted event, the number
    #: of events that were logged before it.
    steps: Ints
    #: int64 (capacity,): of a sorted event, the weight of those before it in its block.
    sums: Longs
    #: float64 (capacity / BLOCK,): smallest and largest first coordinate of a sorted block.
    block_low: Floats
    block_high: Floats
    #: int64 (STATE,): see LENGTH … READ.
    state: Longs


@kernel
def append_events(
    values: Floats,
    weights: Longs,
    log_values: Floats,
    log_weights: Longs,
    log_steps: Ints,
    state: Longs,
) -> bool:
    """Log the batch's events from READ on that count; whether that needs attention.

    Stops at the limit of the log, and where the clock would pass an int64.
    """
    n_axes = values.shape[1]
    length, clock, limit = state[LENGTH], state[CLOCK], state[LIMIT]
    event = state[READ]
    is_stopped = False
    while event < weights.shape[0]:
        weight = weights[event]
        is_counted = weight > 0
        for axis in range(n_axes):
            is_counted &= not np.isnan(values[event, axis])
        if is_counted:
            if length == limit or weight > LARGEST - clock:
                is_stopped = True
                break
            for axis in range(n_axes):
                log_values[axis, length] = values[event, axis]
            log_weights[length] = weight
            log_steps[length] = event
            length += 1
            clock += weight
        event += 1
    state[LENGTH], state[CLOCK], state[READ] = length, clock, event
    return is_stopped or clock >= state[DUE]
