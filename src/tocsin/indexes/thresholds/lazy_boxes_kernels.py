"""Kernels of the boxes: groups of subscriptions that are held against the log when they must be.

A group knows its cover, the smallest box around its members, and its core, the box inside all of
them. An event in the core counts for every member, one outside the cover for none. Most of those in
between are beyond some members' bound on one side only: then it is enough to count how many, in the
order of that bound. And none of this happens before the weight that fell into the cover since the
last look, which a coarse grid bounds from above, could bring some member to its threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bytes, Floats, Ints, Longs
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.thresholds.lazy_columns import (
    BATCH,
    BLOCK,
    CHUNK,
    CLOCK,
    GRIDDED,
    GROUP,
    LARGEST,
    LENGTH,
    SILENT,
    SORTED,
    LogColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.scan_kernels import Maturities

#: Cells of the grid along an axis.
GRID = 64
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
    #: float64 (2 * axes, places): each group's `low` and `high` on each axis, ascending, when its cover was fitted,
    sorted_bounds: Floats
    #: uint8 (2 * axes, places): and where among them the member's own is.
    bound_ranks: Bytes
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
    edges, weights, sums = boxes.grid_edges, boxes.grid_weights, boxes.grid_sums
    for event in range(log.state[GRIDDED], length):
        column = find_grid_cell(edges, 0, log.values[0, event])
        row = find_grid_cell(edges, 1, log.values[1, event])
        weights[column, row] += log.weights[event]
    log.state[GRIDDED] = length
    for column in range(GRID):
        total = 0
        for row in range(GRID):
            total += weights[column, row]
            sums[column + 1, row + 1] = sums[column, row + 1] + total


@kernel
def grid_weight(boxes: BoxColumns, group: int) -> int:
    """Weight in the grid cells that the group's cover meets."""
    cells, sums = boxes.cover_cells, boxes.grid_sums
    left, right, bottom, top = cells[0, group], cells[1, group] + 1, cells[2, group], cells[3, group] + 1
    return sums[right, top] - sums[left, top] - sums[right, bottom] + sums[left, bottom]


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
def sort_bounds(bounds: Floats, out_sorted: Floats, out_ranks: Bytes) -> None:
    """Sort the bounds of a group."""
    order = np.argsort(bounds)
    for rank in range(GROUP):
        out_sorted[rank] = bounds[order[rank]]
        out_ranks[order[rank]] = rank


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
        for side, bounds in ((2 * axis, boxes.low), (2 * axis + 1, boxes.high)):
            sort_bounds(
                bounds[axis, first:last], boxes.sorted_bounds[side, first:last], boxes.bound_ranks[side, first:last]
            )
        if axis < 2:
            boxes.cover_cells[2 * axis, group] = find_grid_cell(boxes.grid_edges, axis, cover_low)
            boxes.cover_cells[2 * axis + 1, group] = find_grid_cell(boxes.grid_edges, axis, cover_high)
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
def gather_events(
    boxes: BoxColumns, log: LogColumns, group: int, begin: int, end: int, since: int, out_events: Ints
) -> int:
    """List the events from `begin` to `end` that are in the group's cover on two axes; how many they are.

    Without those of a sorted chunk that were logged before event number `since`.
    """
    ones, twos, steps = log.values[0], log.values[1], log.steps
    low, high = boxes.cover_low[0, group], boxes.cover_high[0, group]
    low_2, high_2 = boxes.cover_low[1, group], boxes.cover_high[1, group]
    count = 0
    for event in range(begin, end):
        one, two = ones[event], twos[event]
        out_events[count] = event
        count += (low <= one) & (one <= high) & (low_2 <= two) & (two <= high_2)
    if since > begin and begin < log.state[SORTED]:
        n_before, count = count, 0
        for index in range(n_before):
            event = out_events[index]
            out_events[count] = event
            count += steps[event] >= since
    return count


@kernel
def count_in_block(values: Floats, value: float, is_open: bool) -> int:
    """How many of a block's BLOCK ascending values are below `value`, or, unless open, equal to it."""
    count, step = 0, BLOCK // 2
    while step > 0:
        other = values[count + step - 1]
        count += step * ((other < value) | ((other == value) & (not is_open)))
        step //= 2
    other = values[count]
    return count + ((other < value) | ((other == value) & (not is_open)))


@kernel
def gather_blocks(
    boxes: BoxColumns, log: LogColumns, group: int, begin: int, out_events: Ints
) -> tuple[int, int]:
    """Sum the events of a sorted chunk that are surely in the core, and list the others that may count.

    How many are listed, and the sum.
    """
    twos, sums, weights = log.values[1], log.sums, log.weights
    cover_low, cover_high = boxes.cover_low[0, group], boxes.cover_high[0, group]
    core_low, core_high = boxes.core_low[0, group], boxes.core_high[0, group]
    low, high = boxes.cover_low[1, group], boxes.cover_high[1, group]
    inner_low, inner_high = boxes.core_low[1, group], boxes.core_high[1, group]
    is_flat = log.values.shape[0] == 2
    count, in_core = 0, 0
    for block in range(begin, begin + CHUNK, BLOCK):
        smallest, largest = log.block_low[block // BLOCK], log.block_high[block // BLOCK]
        if largest < cover_low or smallest > cover_high:
            continue
        values = twos[block : block + BLOCK]
        first, last = count_in_block(values, low, True), count_in_block(values, high, False)
        if is_flat and core_low <= smallest and largest <= core_high and inner_low <= inner_high:
            inner_first = count_in_block(values, inner_low, True)
            inner_last = count_in_block(values, inner_high, False)
            if inner_first < inner_last:
                final = block + inner_last - 1
                in_core += sums[final] + weights[final] - sums[block + inner_first]
                for event in range(block + first, block + inner_first):
                    out_events[count] = event
                    count += 1
                first = inner_last
        for event in range(block + first, block + last):
            out_events[count] = event
            count += 1
    return count, in_core


@kernel
def count_events(
    boxes: BoxColumns, log: LogColumns, group: int, events: Ints, gains: Longs, sums: Longs
) -> int:
    """Add up the weight of these events for the members of the group that hold them.

    What counts for all of them is returned; what counts for those before, or from, some rank of a
    bound goes to `gains` (2 * axes, GROUP + 1), and anything else directly to `sums`.
    """
    first, last = group * GROUP, (group + 1) * GROUP
    values, weights = log.values, log.weights
    core_low, core_high = boxes.core_low[:, group].copy(), boxes.core_high[:, group].copy()
    bounds, ranks = boxes.sorted_bounds[:, first:last], boxes.bound_ranks[:, first:last]
    is_inside = np.empty(GROUP, np.bool_)
    n_axes = values.shape[0]
    in_core = 0
    for event in events:
        n_tests = 0
        for axis in range(n_axes):
            value = values[axis, event]
            n_tests += (value < core_low[axis]) + np.int64(value > core_high[axis])
        if n_tests == 0:
            in_core += weights[event]
            continue
        if n_tests > 1:
            is_inside[:] = True
        for side in range(2 * n_axes):
            value = values[side >> 1, event]
            # The members that hold the value on this side have a low up to it, or a high from it on.
            if side & 1 == 0:
                if value >= core_low[side >> 1]:
                    continue
                rank = np.int64(bounds[side, GROUP - 1] <= value)
                step = GROUP >> 1
                while step > 0:
                    rank += step * (bounds[side, rank + step - 1] <= value)
                    step >>= 1
            else:
                if value <= core_high[side >> 1]:
                    continue
                rank = np.int64(bounds[side, GROUP - 1] < value)
                step = GROUP >> 1
                while step > 0:
                    rank += step * (bounds[side, rank + step - 1] < value)
                    step >>= 1
            if n_tests == 1:
                gains[side, rank] += weights[event]
            elif side & 1 == 0:
                for member in range(GROUP):
                    is_inside[member] &= ranks[side, member] < rank
            else:
                for member in range(GROUP):
                    is_inside[member] &= ranks[side, member] >= rank
        if n_tests > 1:
            weight = weights[event]
            for member in range(GROUP):
                sums[member] += weight * is_inside[member]
    return in_core


@kernel
def spread_gains(boxes: BoxColumns, group: int, in_core: int, gains: Longs, sums: Longs) -> None:
    """Give each member its share of what `count_events` found, and clear `gains`."""
    first, last = group * GROUP, (group + 1) * GROUP
    sums += in_core
    for side in range(gains.shape[0]):
        ranks = boxes.bound_ranks[side, first:last]
        # From here on the row holds what the member of each rank gains on this side.
        gain = 0
        if side & 1 == 0:
            for rank in range(GROUP - 1, -1, -1):
                gain += gains[side, rank + 1]
                gains[side, rank + 1] = gain
            for member in range(GROUP):
                sums[member] += gains[side, np.int64(ranks[member]) + 1]
        else:
            for rank in range(GROUP):
                gain += gains[side, rank]
                gains[side, rank] = gain
            for member in range(GROUP):
                sums[member] += gains[side, ranks[member]]
    gains[:] = 0


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
def catch_up(
    boxes: BoxColumns, log: LogColumns, group: int, end: int, events: Ints, gains: Longs, sums: Longs
) -> None:
    """Hold the group against the log up to the event `end`, where nobody has matured yet."""
    sums[:] = 0
    in_core = 0
    since = boxes.since[group]
    while since < end:
        if since >= log.state[SORTED]:
            begin, after = since, min(since + CHUNK, end)
        else:
            begin = since // CHUNK * CHUNK
            after = begin + CHUNK
        if since == begin and since < log.state[SORTED]:
            n_events, weight = gather_blocks(boxes, log, group, begin, events)
            in_core += weight
        else:
            n_events = gather_events(boxes, log, group, begin, after, since, events)
        in_core += count_events(boxes, log, group, events[:n_events], gains, sums)
        since = after
    spread_gains(boxes, group, in_core, gains, sums)
    boxes.since[group] = since
    for member in range(GROUP):
        if boxes.slot[group * GROUP + member] >= 0:
            boxes.need[group * GROUP + member] -= sums[member]


@kernel
def look_at_groups(
    boxes: BoxColumns, slots: SlotColumns, log: LogColumns, groups: Ints, begin: int, out: Maturities
) -> int:
    """Hold the groups from `begin` on against the log; the first of them that found `out` too full."""
    fill_grid(boxes, log)
    length, batch = log.state[LENGTH], log.state[BATCH]
    events = np.empty(max(CHUNK, length - batch), np.int32)
    gains = np.zeros((2 * boxes.low.shape[0], GROUP + 1), np.int64)
    sums = np.empty(GROUP, np.int64)
    for index in range(begin, groups.shape[0]):
        group = groups[index]
        if boxes.since[group] < batch:
            catch_up(boxes, log, group, batch, events, gains, sums)
        if boxes.since[group] < length:
            n_events = gather_events(boxes, log, group, boxes.since[group], length, 0, events)
            sums[:] = 0
            in_core = count_events(boxes, log, group, events[:n_events], gains, sums)
            spread_gains(boxes, group, in_core, gains, sums)
            n_rows = 0
            for member in range(GROUP):
                slot = boxes.slot[group * GROUP + member]
                if slot >= 0 and sums[member] >= boxes.need[group * GROUP + member]:
                    n_rows += n_events if slots.is_repeating[slot] else 1
            if out.n_rows[0] + n_rows > out.step.shape[0]:
                return index
            for member in range(GROUP):
                place = group * GROUP + member
                if boxes.slot[place] < 0:
                    continue
                if sums[member] >= boxes.need[place]:
                    walk_events(boxes, slots, log, place, events[:n_events], out)
                else:
                    boxes.need[place] -= sums[member]
        rest_group(boxes, log, group)
    return groups.shape[0]
