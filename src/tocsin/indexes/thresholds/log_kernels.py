"""Kernels that append a batch's events to the log of deferred thresholds."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import kernel, lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.thresholds.layout import CLOCK, DUE, LARGEST, LENGTH, READ


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
