"""Kernels of the boxes: groups of subscriptions that are held against the log when they must be.

A group knows its cover, the smallest box around its members, and its core, the box inside all of
them. An event in the core counts for every member, one outside the cover for none; only the few in
between are held against each member. And none of this happens before the weight that fell into the
cover since the last look, which a coarse grid bounds from above, could bring some member to its
threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.thresholds.lazy_columns import (
    CLOCK,
    GRIDDED,
    GROUP,
    LARGEST,
    LENGTH,
    SILENT,
    LogColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.scan_kernels import Maturities

#: Cells of the grid along an axis.
GRID = 64
#: Events that a group is held against at a time: their coordinates stay in the first-level cache.
CHUNK = 1024
#: Groups whose due times are compared at a time.
STRIDE = 64


class BoxColumns(NamedTuple):
    """Members lie group by group; the member at place p is in group p // GROUP."""

    #: float64 (axes, places): smallest value inside; +inf at a free place.
    low: Floats
    #: float64 (axes, places): largest value inside; -inf at a free place.
    high: Floats
    #: int64 (places,): scaled weight missing when the group was last looked at; positive.
    need: Longs
    #: int32 (places,): slot of the subscription; -1 at a free place.
    slot: Ints
    #: float64 (axes, groups): the cover's bounds.
    cover_low: Floats
    cover_high: Floats
    #: float64 (axes, groups): the core's bounds; the core may be empty, low beyond high.
    core_low: Floats
    core_high: Floats
    #: int64 (groups,): smallest need of the members, or less.
    slack: Longs
    #: int64 (groups,): the clock before which no member can mature.
    due: Longs
    #: int64 (groups,): events of the log that the members have been held against.
    since: Longs
    #: int64 (groups,): what `grid_weight` gave for the cover when the group was last looked at.
    base: Longs
    #: int32 (4, groups): first and last grid cell of the cover, on the first and on the second axis.
    cover_cells: Ints
    #: float64 (2, GRID - 1): where grid cells begin, ascending; a cell holds its begin.
    grid_edges: Floats
    #: int64 (GRID, GRID): weight by cell of the first GRIDDED events of the log.
    grid_weights: Longs
    #: int64 (GRID + 1, GRID + 1): its sums from the origin.
    grid_sums: Longs


@kernel
def find_grid_cell(edges: Floats, axis: int, value: float) -> int:
    """Number of edges that are not above `value`, without a branch that could be guessed wrong."""
    cell, step = 0, GRID // 2
    while step > 0:
        cell += step * (edges[axis, cell + step - 1] <= value)
        step //= 2
    return cell


@kernel
def fill_grid(boxes: BoxColumns, log: LogColumns) -> None:
    """Take the events that are new in the log into the grid."""
    length = log.state[LENGTH]
    if log.state[GRIDDED] == length:
        return
    n_axes = min(log.values.shape[0], 2)
    edges, weights, sums = boxes.grid_edges, boxes.grid_weights, boxes.grid_sums
    for event in range(log.state[GRIDDED], length):
        column = find_grid_cell(edges, 0, log.values[0, event])
        row = find_grid_cell(edges, 1, log.values[1, event]) if n_axes > 1 else 0
        weights[column, row] += log.weights[event]
    log.state[GRIDDED] = length
    n_rows = GRID if n_axes > 1 else 1
    for column in range(GRID):
        total = 0
        for row in range(n_rows):
            total += weights[column, row]
            sums[column + 1, row + 1] = sums[column, row + 1] + total


@kernel
def grid_weight(boxes: BoxColumns, group: int) -> int:
    """Weight in the grid cells that the group's cover meets."""
    cells, sums = boxes.cover_cells, boxes.grid_sums
    left, right, bottom, top = cells[0, group], cells[1, group] + 1, cells[2, group], cells[3, group] + 1
    return sums[right, top] - sums[left, top] - sums[right, bottom] + sums[left, bottom]


@kernel
def grid_weights(boxes: BoxColumns, n_groups: int) -> Longs:
    """`grid_weight` of the first groups, since the log began."""
    weights = np.empty(n_groups, np.int64)
    for group in range(n_groups):
        weights[group] = grid_weight(boxes, group)
    return weights


@kernel
def add_saturated(one: int, other: int) -> int:
    """The sum of two that are not negative, or the largest int64."""
    return one + other if one <= LARGEST - other else LARGEST


@kernel
def find_due(boxes: BoxColumns, log: LogColumns, n_groups: int, out_groups: Ints) -> int:
    """List the groups in which some member may have matured; how many they are."""
    fill_grid(boxes, log)
    clock = log.state[CLOCK]
    n_due = 0
    for first in range(0, n_groups, STRIDE):
        last = min(first + STRIDE, n_groups)
        n_maybe = 0
        for group in range(first, last):
            n_maybe += boxes.due[group] <= clock
        if n_maybe == 0:
            continue
        for group in range(first, last):
            if boxes.due[group] > clock:
                continue
            weight = grid_weight(boxes, group) - boxes.base[group]
            if weight < boxes.slack[group]:
                boxes.due[group] = add_saturated(clock, boxes.slack[group] - weight)
            else:
                out_groups[n_due] = group
                n_due += 1
    return n_due


@kernel
def fit_group(boxes: BoxColumns, log: LogColumns, group: int) -> None:
    """Set the group's cover and core to its members'."""
    first, last = group * GROUP, (group + 1) * GROUP
    n_axes = boxes.low.shape[0]
    for axis in range(n_axes):
        cover_low, core_low = np.inf, -np.inf
        cover_high, core_high = -np.inf, np.inf
        for place in range(first, last):
            if boxes.slot[place] >= 0:
                low, high = boxes.low[axis, place], boxes.high[axis, place]
                cover_low, core_low = min(cover_low, low), max(core_low, low)
                cover_high, core_high = max(cover_high, high), min(core_high, high)
        boxes.cover_low[axis, group], boxes.cover_high[axis, group] = cover_low, cover_high
        boxes.core_low[axis, group], boxes.core_high[axis, group] = core_low, core_high
        if axis < 2:
            boxes.cover_cells[2 * axis, group] = find_grid_cell(boxes.grid_edges, axis, cover_low)
            boxes.cover_cells[2 * axis + 1, group] = find_grid_cell(boxes.grid_edges, axis, cover_high)
    if n_axes == 1:
        boxes.cover_cells[2:, group] = 0
    if boxes.cover_cells[1, group] < boxes.cover_cells[0, group]:
        # No member at all: the cover is turned inside out, and meets no cell.
        boxes.cover_cells[1, group] = boxes.cover_cells[0, group] - 1


@kernel
def rest_group(boxes: BoxColumns, log: LogColumns, group: int) -> None:
    """The members have been held against the whole log: work out when to look again."""
    slack = LARGEST
    for place in range(group * GROUP, (group + 1) * GROUP):
        slack = min(slack, boxes.need[place])
    boxes.slack[group] = slack
    boxes.since[group] = log.state[LENGTH]
    boxes.base[group] = grid_weight(boxes, group)
    boxes.due[group] = add_saturated(log.state[CLOCK], slack)


@kernel
def fit_groups(boxes: BoxColumns, log: LogColumns, first: int, last: int) -> None:
    """Make the groups from `first` to `last` what their members say, who count from now on."""
    fill_grid(boxes, log)
    for group in range(first, last):
        fit_group(boxes, log, group)
        rest_group(boxes, log, group)


@kernel
def gather_chunk(
    boxes: BoxColumns, log: LogColumns, group: int, begin: int, end: int, out_events: Longs
) -> int:
    """List the events from `begin` to `end` that are in the group's cover; how many they are."""
    values = log.values
    low, high = boxes.cover_low[0, group], boxes.cover_high[0, group]
    count = 0
    if values.shape[0] == 1:
        for event in range(begin, end):
            out_events[count] = event
            count += (low <= values[0, event]) & (values[0, event] <= high)
        return count
    low_2, high_2 = boxes.cover_low[1, group], boxes.cover_high[1, group]
    for event in range(begin, end):
        one, two = values[0, event], values[1, event]
        out_events[count] = event
        count += (low <= one) & (one <= high) & (low_2 <= two) & (two <= high_2)
    for axis in range(2, values.shape[0]):
        n_before, count = count, 0
        low, high = boxes.cover_low[axis, group], boxes.cover_high[axis, group]
        for index in range(n_before):
            event = out_events[index]
            out_events[count] = event
            count += (low <= values[axis, event]) & (values[axis, event] <= high)
    return count


@kernel
def sum_chunk(
    boxes: BoxColumns, log: LogColumns, group: int, events: Longs, is_inside: np.ndarray, out_sums: Longs
) -> None:
    """Add up, for each member of the group, the weight of these events of its cover that it holds."""
    first, last = group * GROUP, (group + 1) * GROUP
    n_axes = log.values.shape[0]
    in_core = 0
    out_sums[:] = 0
    for event in events:
        weight = log.weights[event]
        # On most axes most events are beyond no member's bound, and there is nothing to compare.
        n_tests, test_axis, is_low = 0, 0, False
        for axis in range(n_axes):
            value = log.values[axis, event]
            if value < boxes.core_low[axis, group]:
                n_tests, test_axis, is_low = n_tests + 1, axis, True
            if value > boxes.core_high[axis, group]:
                n_tests, test_axis, is_low = n_tests + 1, axis, False
        if n_tests == 0:
            in_core += weight
        elif n_tests == 1:
            value = log.values[test_axis, event]
            if is_low:
                low = boxes.low[test_axis, first:last]
                for member in range(GROUP):
                    out_sums[member] += weight * (low[member] <= value)
            else:
                high = boxes.high[test_axis, first:last]
                for member in range(GROUP):
                    out_sums[member] += weight * (value <= high[member])
        else:
            is_inside[:] = True
            for axis in range(n_axes):
                value = log.values[axis, event]
                low, high = boxes.low[axis, first:last], boxes.high[axis, first:last]
                for member in range(GROUP):
                    is_inside[member] &= (low[member] <= value) & (value <= high[member])
            for member in range(GROUP):
                out_sums[member] += weight * is_inside[member]
    for member in range(GROUP):
        out_sums[member] += in_core


@kernel
def walk_events(
    boxes: BoxColumns, slots: SlotColumns, log: LogColumns, place: int, events: Longs, out: Maturities
) -> None:
    """Count the events one after the other into one member, reporting each time it matures."""
    slot = boxes.slot[place]
    goal = max(slots.tau[slot], 1)
    for event in events:
        is_inside = True
        for axis in range(log.values.shape[0]):
            value = log.values[axis, event]
            is_inside &= (boxes.low[axis, place] <= value) & (value <= boxes.high[axis, place])
        if not is_inside:
            continue
        weight = log.weights[event]
        if weight < boxes.need[place]:
            boxes.need[place] -= weight
            continue
        row = out.n_rows[0]
        reached = np.uint64(goal - boxes.need[place]) + np.uint64(weight)
        out.step[row] = log.steps[event]
        out.subscription[row] = slot
        out.reached[row] = reached
        out.n_rows[0] += 1
        if slots.is_repeating[slot]:
            boxes.need[place] = goal
            continue
        slots.place[slot] = SILENT
        slots.tau[slot] = add_saturated(goal - boxes.need[place], weight)
        boxes.slot[place] = -1
        boxes.need[place] = LARGEST
        boxes.low[:, place] = np.inf
        boxes.high[:, place] = -np.inf
        return


@kernel
def look_at_groups(
    boxes: BoxColumns, slots: SlotColumns, log: LogColumns, groups: Ints, begin: int, out: Maturities
) -> int:
    """Hold the groups from `begin` on against the log; the first of them that found `out` too full."""
    fill_grid(boxes, log)
    length = log.state[LENGTH]
    events = np.empty(CHUNK, np.int64)
    sums = np.empty(GROUP, np.int64)
    is_inside = np.empty(GROUP, np.bool_)
    for index in range(begin, groups.shape[0]):
        group = groups[index]
        first = group * GROUP
        while boxes.since[group] < length:
            end = min(boxes.since[group] + CHUNK, length)
            n_events = gather_chunk(boxes, log, group, boxes.since[group], end, events)
            if n_events > 0:
                sum_chunk(boxes, log, group, events[:n_events], is_inside, sums)
                n_rows = 0
                for member in range(GROUP):
                    slot = boxes.slot[first + member]
                    if slot >= 0 and sums[member] >= boxes.need[first + member]:
                        n_rows += n_events if slots.is_repeating[slot] else 1
                if out.n_rows[0] + n_rows > out.step.shape[0]:
                    return index
                for member in range(GROUP):
                    place = first + member
                    if boxes.slot[place] < 0:
                        continue
                    if sums[member] >= boxes.need[place]:
                        walk_events(boxes, slots, log, place, events[:n_events], out)
                    else:
                        boxes.need[place] -= sums[member]
            boxes.since[group] = end
        rest_group(boxes, log, group)
    return groups.shape[0]
