"""Columns that the parts of the lazy threshold index share, and the kernel that logs events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bools, Bytes, Floats, Ints, Longs
from tocsin.indexes.shared.jit import inlined, kernel, lean_kernel

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
#: … of one that waits to be given a place.
WAITING = -4
#: Places from here on are in the cells, smaller ones in the boxes,
IN_CELLS = 0x40000000
#: and all of them are below this.
ANYWHERE = 0x7FFFFFFF

#: Entries of `LogColumns.state`: events in the log,
LENGTH = 0
#: weight of all events since the clock was last set back,
CLOCK = 1
#: the clock at which some group may have matured,
DUE = 2
#: where the current batch begins in the log,
BATCH = 3
#: how many events of the batch have been read,
READ = 4
#: how many events of the log the grid of the boxes has taken in,
GRIDDED = 5
#: and how many have been sorted into chunks.
SORTED = 6
STATE = 7


class SlotColumns(NamedTuple):
    """One row a subscription slot."""

    #: uint8 (slots / 8,): a bit each, whether it holds a subscription. So few bytes stay in the cache.
    is_there: Bytes
    #: int32 (slots,): where it is counted: a place in the boxes or the cells, or a negative code. Who is
    #: terminated leaves its place later: to go there at once costs more. One in the boxes is forgotten when
    #: members are counted; one in the cells when its slot is taken again, or the cells are built or packed.
    place: Ints
    #: int64 (slots,): scaled weight to reach.
    tau: Longs
    #: uint8 (slots / 8,): a bit each, whether it starts again from 0 after maturing.
    is_repeating: Bytes


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
    #: int64 (STATE,): see LENGTH … SORTED.
    state: Longs


@lean_kernel
def find_bucket(value: float, floor: float, per_unit: float, n_buckets: int) -> int:
    """The bucket of a value: never a smaller one for a larger value."""
    place = (value - floor) * per_unit
    if place >= n_buckets:
        return n_buckets - 1
    return int(place) if place > 0 else 0


@lean_kernel
def are_plain(values: Floats, weights: Longs, room: int) -> bool:
    """Whether all these events count, and weigh no more than `room` together."""
    # Smallest, largest and counts, not conditions: those are found for several events at a time.
    smallest, largest = 1, 1
    for event in range(weights.shape[0]):
        smallest, largest = min(smallest, weights[event]), max(largest, weights[event])
    n_nulls = 0
    for place in range(values.shape[0]):
        n_nulls += values[place] != values[place]
    return bool(n_nulls == 0 and smallest > 0 and largest <= room // max(weights.shape[0], 1))


@lean_kernel
def weigh_plain(values: Floats, weights: Longs, room: int) -> int:
    """The weight of these events, if all of them count and weigh no more than `room`; else -1."""
    if not are_plain(values, weights, room):
        return -1
    total = 0
    for event in range(weights.shape[0]):
        total += weights[event]
    return total


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

    Stops where the log is full, and where the clock would pass an int64.
    """
    n_axes = values.shape[1]
    length, clock, limit = state[LENGTH], state[CLOCK], log_weights.shape[0]
    event = state[READ]
    is_stopped = False
    count = min(weights.shape[0] - event, limit - length)
    flat = values.ravel()[event * n_axes : (event + count) * n_axes]
    ahead = weights[event : event + count]
    if are_plain(flat, ahead, LARGEST - clock):
        # Nearly always so, and simple loops are several times as fast as one that decides.
        steps = log_steps[length : length + count]
        for index in range(count):
            steps[index] = event + index
        for index in range(count):
            clock += ahead[index]
        log_weights[length : length + count] = ahead
        for axis in range(n_axes):
            log_values[axis, length : length + count] = flat[axis::n_axes]
        length += count
        event += count
        is_stopped = event < weights.shape[0]
    while event < weights.shape[0] and not is_stopped:
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


@inlined
def is_set(bits: Bytes, slot: int) -> bool:
    """Whether the slot's bit is set."""
    return bool((bits[slot >> 3] >> (slot & 7)) & 1)


def are_set(bits: Bytes, slots: Ints) -> Bools:
    """Whether the bits of these slots are set."""
    found: Bools = (bits[slots >> 3] >> (slots & 7)) & 1 != 0
    return found


@lean_kernel
def set_bits(bits: Bytes, slots: Ints) -> None:
    """Set the bits of these slots."""
    for index in range(slots.shape[0]):
        # Unsigned: else each index is held against 0.
        slot = np.uint32(slots[index])
        bits[slot >> np.uint32(3)] |= np.uint8(1 << (slot & np.uint32(7)))


@lean_kernel
def clear_bits(bits: Bytes, slots: Ints) -> int:
    """Clear the bits of these slots; how many of them were set."""
    n_set = 0
    for index in range(slots.shape[0]):
        slot = np.uint32(slots[index])
        place, bit = slot >> np.uint32(3), np.uint8(1 << (slot & np.uint32(7)))
        byte = bits[place]
        n_set += (byte & bit) != 0
        bits[place] = byte & ~bit
    return n_set


@lean_kernel
def forget_gone(is_there: Bytes, places: Ints, limit: int) -> tuple[int, int]:
    """Let empty slots with a place below `limit` be nowhere; how many others are in the boxes and the cells.

    `is_there` is 0 or 1 a slot, not a bit: then this is done for many slots at a time.
    """
    n_places, n_cells = 0, 0
    for slot in range(places.shape[0]):
        # All bits of one that is gone are set: NOWHERE.
        is_gone = np.int32(is_there[slot]) - np.int32(1)
        place = places[slot]
        places[slot] = place | (is_gone if place < limit else np.int32(0))
        n_places += int((place | is_gone) >= 0)
        n_cells += int((place | is_gone) >= IN_CELLS)
    return n_places - n_cells, n_cells


def leave_places(columns: SlotColumns, limit: int) -> tuple[int, int]:
    """Let empty slots leave their places below `limit`; how many others are in the boxes and the cells.

    Cost: linear in all slots, less than a nanosecond each.
    """
    places = columns.place
    is_there = np.unpackbits(columns.is_there, count=len(places), bitorder="little")
    return forget_gone(is_there, places, limit)


@lean_kernel
def forget_silent(places: Ints, slots: Ints) -> int:
    """Let those of these slots be nowhere that have matured for good; how many they are."""
    n_silent = 0
    for slot in slots:
        if places[slot] == SILENT:
            places[slot] = NOWHERE
            n_silent += 1
    return n_silent
