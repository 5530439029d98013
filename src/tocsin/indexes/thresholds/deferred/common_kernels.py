"""Kernels that box groups, cells and the log share: flags and places of slots, clocks, events to log."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import inlined, kernel, lean_kernel
from tocsin.arrays.types import Bools, Bytes, Floats, Ints, Longs
from tocsin.indexes.thresholds.deferred.layout import (
    CLOCK,
    DUE,
    IN_CELLS,
    LENGTH,
    MATURED,
    NO_PLACE,
    READ,
    SlotColumns,
)
from tocsin.indexes.thresholds.layout import LARGEST


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
        # Unsigned: else each index is compared with 0.
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
def clear_terminated_places(is_there: Bytes, places: Ints, limit: int) -> tuple[int, int]:
    """Set the places below `limit` of empty slots to NO_PLACE; returns the members in boxes and in cells.

    `is_there` is 0 or 1 a slot, not a bit, so that it is vectorised.
    """
    n_places, n_cells = 0, 0
    for slot in range(places.shape[0]):
        # All bits set are NO_PLACE.
        is_gone = np.int32(is_there[slot]) - np.int32(1)
        place = places[slot]
        places[slot] = place | (is_gone if place < limit else np.int32(0))
        n_places += int((place | is_gone) >= 0)
        n_cells += int((place | is_gone) >= IN_CELLS)
    return n_places - n_cells, n_cells


def release_places(columns: SlotColumns, limit: int) -> tuple[int, int]:
    """Release the places below `limit` of empty slots; returns the members in box groups and in cells.

    Cost: linear in all slots, less than a nanosecond each.
    """
    places = columns.place
    is_there = np.unpackbits(columns.is_there, count=len(places), bitorder="little")
    return clear_terminated_places(is_there, places, limit)


@lean_kernel
def clear_matured_places(places: Ints, slots: Ints) -> int:
    """Set the places of those of these slots that have matured for good to NO_PLACE; returns how many."""
    n_matured = 0
    for slot in slots:
        if places[slot] == MATURED:
            places[slot] = NO_PLACE
            n_matured += 1
    return n_matured


@lean_kernel
def add_saturated(one: int, other: int) -> int:
    """The sum of two non-negative numbers, at most the largest int64."""
    return one + other if one <= LARGEST - other else LARGEST


@lean_kernel
def set_due(due: Longs, half_due: Longs, group: int, clock: int, missing: int) -> None:
    """The group is due when the clock has advanced by what is missing."""
    due[group] = add_saturated(clock, missing)
    half_due[group] = add_saturated(clock, missing >> 1)


@lean_kernel
def are_countable(values: Floats, weights: Longs, max_total: int) -> bool:
    """Whether all these events count, and together certainly weigh at most `max_total`."""
    # Minimum, maximum and counts instead of conditions, so that it is vectorised.
    smallest, largest = 1, 1
    for event in range(weights.shape[0]):
        smallest, largest = min(smallest, weights[event]), max(largest, weights[event])
    n_nulls = 0
    for place in range(values.shape[0]):
        n_nulls += values[place] != values[place]
    return bool(n_nulls == 0 and smallest > 0 and largest <= max_total // max(weights.shape[0], 1))


@lean_kernel
def weigh_countable(values: Floats, weights: Longs, max_total: int) -> int:
    """The weight of these events, if `are_countable`; else -1."""
    if not are_countable(values, weights, max_total):
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
    """Log the batch's events from READ on that count; whether it stopped early or the clock is due.

    Stops where the log is full, and where the clock would overflow int64.
    """
    n_axes = values.shape[1]
    length, clock, limit = state[LENGTH], state[CLOCK], log_weights.shape[0]
    event = state[READ]
    is_stopped = False
    count = min(weights.shape[0] - event, limit - length)
    flat = values.ravel()[event * n_axes : (event + count) * n_axes]
    ahead = weights[event : event + count]
    if are_countable(flat, ahead, LARGEST - clock):
        # Nearly always so, and simple loops are several times as fast as one with branches.
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
