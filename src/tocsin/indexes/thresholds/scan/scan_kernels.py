"""Kernels of the threshold scan.

A block of subscriptions stays in the first-level cache while all events of a batch pass over it. The pass
only sums what the whole batch contributes, branch-free, so that it is vectorised; for the few subscriptions
that this brings to their threshold, the events are then replayed one by one.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.indexes.thresholds.layout import LARGEST, Maturities

#: Subscriptions per block.
BLOCK = 512


class ThresholdColumns(NamedTuple):
    """By subscription slot; bounds dimension by dimension, so that a pass is contiguous."""

    #: smallest value inside; +inf where the slot is inactive.
    low: Annotated[Floats, Column("axes", "slots", fill=np.inf)]
    #: largest value inside; -inf where the slot is inactive.
    high: Annotated[Floats, Column("axes", "slots", fill=-np.inf)]
    #: scaled weight to reach.
    tau: Annotated[Longs, Column("slots", fill=1)]
    #: scaled weight so far, below `tau` while the slot counts.
    reached: Annotated[Longs, Column("slots")]
    #: start again from 0 after maturing.
    is_repeating: Annotated[Bools, Column("slots")]


@kernel
def replay_into_slot(
    columns: ThresholdColumns, slot: int, values: Floats, weights: Longs, positions: Ints, out: Maturities
) -> None:
    """Count the events one by one into one subscription, reporting each maturity."""
    for event in range(weights.shape[0]):
        is_inside = True
        for axis in range(values.shape[0]):
            value = values[axis, event]
            if not (columns.low[axis, slot] <= value <= columns.high[axis, slot]):
                is_inside = False
                break
        if not is_inside:
            continue
        before, weight = columns.reached[slot], weights[event]
        if weight < columns.tau[slot] - before:
            columns.reached[slot] = before + weight
            continue
        row = out.n_rows[0]
        out.step[row] = positions[event]
        out.subscription[row] = slot
        out.reached[row] = np.uint64(before) + np.uint64(weight)
        out.n_rows[0] += 1
        if columns.is_repeating[slot]:
            columns.reached[slot] = 0
        else:
            columns.reached[slot] = before + weight if weight <= LARGEST - before else LARGEST
            columns.low[:, slot] = np.inf
            columns.high[:, slot] = -np.inf
            return


@kernel
def count_events(
    columns: ThresholdColumns,
    begin: int,
    end: int,
    values: Floats,
    weights: Longs,
    positions: Ints,
    out: Maturities,
) -> int:
    """Count all events into the slots from `begin` to `end`; returns the first slot that did not fit.

    `values` is (dimensions, events). The weights are positive and their sum is below 2**63.
    """
    n_axes, n_events = values.shape
    totals = np.empty(BLOCK, np.int64)
    is_inside = np.empty(BLOCK, np.bool_)
    touched = np.empty(BLOCK, np.int64)
    for first in range(begin, end, BLOCK):
        size = min(BLOCK, end - first)
        totals[:size] = 0
        for event in range(n_events):
            value, weight = values[0, event], weights[event]
            low, high = columns.low[0, first : first + size], columns.high[0, first : first + size]
            if n_axes == 1:
                for place in range(size):
                    totals[place] += weight * ((low[place] <= value) & (value <= high[place]))
                continue
            for place in range(size):
                is_inside[place] = (low[place] <= value) & (value <= high[place])
            for axis in range(1, n_axes):
                value = values[axis, event]
                low, high = columns.low[axis, first : first + size], columns.high[axis, first : first + size]
                for place in range(size):
                    is_inside[place] &= (low[place] <= value) & (value <= high[place])
            for place in range(size):
                totals[place] += weight * is_inside[place]
        # A small batch touches few slots: listing them branch-free, and loading no other sums, is fastest.
        n_touched = 0
        for place in range(size):
            touched[n_touched] = place
            n_touched += totals[place] != 0
        for place in touched[:n_touched]:
            slot = first + int(place)
            if totals[place] < columns.tau[slot] - columns.reached[slot]:
                columns.reached[slot] += totals[place]
            elif out.n_rows[0] + n_events > out.step.shape[0]:
                return slot
            else:
                replay_into_slot(columns, slot, values, weights, positions, out)
    return end
