"""Kernels of the box groups, which are compared with the log only when necessary.

A group has a cover, the smallest box around its members, and a core, the box inside all of them. An
event in the core counts for every member, one outside the cover for none. Most events in between are
beyond some members' bound on one side only: then it is enough to count how many, in the order of that
bound. None of this happens before the weight that fell into the cover since the last evaluation, of
which a coarse grid gives an upper bound, could bring some member to its threshold.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.thresholds.deferred.common_kernels import add_saturated, is_set, set_due
from tocsin.indexes.thresholds.deferred.layout import (
    BATCH,
    BLOCK,
    CHUNK,
    CLOCK,
    GRID,
    GRIDDED,
    GROUP,
    LENGTH,
    MATURED,
    SORTED,
    BoxGroupColumns,
    GroupScratch,
    LogColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.layout import LARGEST, Maturities

#: Groups whose due times are compared at a time.
STRIDE = 64
#: Binary search steps from a group to one member.
GROUP_BITS = 8


@lean_kernel
def clear(values: Longs) -> None:
    """Set all to 0."""
    for index in range(values.shape[0]):
        values[index] = 0


@lean_kernel
def find_grid_cell(edges: Floats, value: float) -> int:
    """Number of edges that are not above `value`, branch-free."""
    cell, step = 0, GRID // 2
    while step > 0:
        cell += step * (edges[cell + step - 1] <= value)
        step //= 2
    return cell


@lean_kernel
def fill_grid(boxes: BoxGroupColumns, log: LogColumns) -> None:
    """Add the new events of the log to the grid."""
    length = log.state[LENGTH]
    if log.state[GRIDDED] == length:
        return
    edges, weights, sums = boxes.grid_edges, boxes.grid_weights, boxes.grid_sums
    for event in range(log.state[GRIDDED], length):
        column = find_grid_cell(edges[0], log.values[0, event])
        row = find_grid_cell(edges[1], log.values[1, event])
        weights[column, row] += log.weights[event]
    log.state[GRIDDED] = length
    for column in range(GRID):
        total = 0
        for row in range(GRID):
            total += weights[column, row]
            sums[column + 1, row + 1] = sums[column, row + 1] + total


@lean_kernel
def grid_weight(boxes: BoxGroupColumns, group: int) -> int:
    """Weight in the grid cells that the group's cover intersects."""
    cells, sums = boxes.cover_cells, boxes.grid_sums
    left, right, bottom, top = cells[0, group], cells[1, group] + 1, cells[2, group], cells[3, group] + 1
    return int(sums[right, top] - sums[left, top] - sums[right, bottom] + sums[left, bottom])


@lean_kernel
def least_missing(boxes: BoxGroupColumns, slots: SlotColumns, group: int) -> int:
    """A lower bound of what any member of a group still needs; with 0 or less, one may have matured.

    The weight in the grid cells that a member's own box intersects is an upper bound of what the log brought
    it. A cover is much larger where members are few and far between. `covers_log` must hold for the group.
    """
    edges, sums = boxes.grid_edges, boxes.grid_sums
    least = LARGEST
    for place in range(group * GROUP, (group + 1) * GROUP):
        slot = boxes.slot[place]
        if slot < 0 or not is_set(slots.is_there, slot):
            continue
        left = find_grid_cell(edges[0], boxes.bound[0, place])
        right = find_grid_cell(edges[0], -boxes.bound[1, place]) + 1
        bottom = find_grid_cell(edges[1], boxes.bound[2, place])
        top = find_grid_cell(edges[1], -boxes.bound[3, place]) + 1
        weight = sums[right, top] - sums[left, top] - sums[right, bottom] + sums[left, bottom]
        least = min(least, boxes.need[place] - (weight - boxes.counted[place]))
        if least <= 0:
            break
    return least


@lean_kernel
def find_due(
    boxes: BoxGroupColumns,
    slots: SlotColumns,
    log: LogColumns,
    n_groups: int,
    member_check_lag: int,
    out_groups: Ints,
) -> int:
    """List the groups in which some member may have matured; returns how many.

    A group that lags behind by more than `member_check_lag` events has its members checked one by one first.
    """
    fill_grid(boxes, log)
    clock, length = log.state[CLOCK], log.state[LENGTH]
    n_due = 0
    for first in range(0, n_groups, STRIDE):
        last = min(first + STRIDE, n_groups)
        n_half_due = 0
        for group in range(first, last):
            n_half_due += boxes.half_due[group] <= clock
        if n_half_due == 0:
            continue
        for group in range(first, last):
            if boxes.half_due[group] > clock:
                continue
            weight = grid_weight(boxes, group) - boxes.base_weight[group]
            missing = boxes.slack[group] - weight
            if (
                missing <= 0
                and boxes.covers_log[group]
                and length - boxes.log_position[group] > member_check_lag
            ):
                missing = least_missing(boxes, slots, group)
            if missing > 0:
                set_due(boxes.due, boxes.half_due, group, clock, missing)
            else:
                out_groups[n_due] = group
                n_due += 1
    return n_due


@lean_kernel
def fit_group(boxes: BoxGroupColumns, group: int) -> None:
    """Compute the group's cover and core."""
    first, last = group * GROUP, (group + 1) * GROUP
    for side in range(boxes.bound.shape[0]):
        bounds = boxes.bound[side, first:last]
        cover, core = np.inf, -np.inf
        for member in range(GROUP):
            if boxes.slot[first + member] >= 0:
                cover, core = min(cover, bounds[member]), max(core, bounds[member])
        boxes.cover[side, group], boxes.core[side, group] = cover, core


@lean_kernel
def find_cover_cells(boxes: BoxGroupColumns, group: int) -> None:
    """Find the grid cells that the group's cover intersects."""
    for axis in range(2):
        low, high = boxes.cover[2 * axis, group], -boxes.cover[2 * axis + 1, group]
        # Without members the cover is inverted, and intersects no cell.
        first = find_grid_cell(boxes.grid_edges[axis], low) if low <= high else 0
        last = find_grid_cell(boxes.grid_edges[axis], high) if low <= high else -1
        boxes.cover_cells[2 * axis, group], boxes.cover_cells[2 * axis + 1, group] = first, last


@lean_kernel
def is_member(boxes: BoxGroupColumns, slots: SlotColumns, place: int) -> bool:
    """Whether a member is at this place; one that has left it is removed."""
    slot = boxes.slot[place]
    if slot >= 0 and is_set(slots.is_there, slot) and slots.place[slot] == place:
        return True
    boxes.slot[place] = -1
    boxes.need[place] = LARGEST
    return False


@lean_kernel
def list_places(boxes: BoxGroupColumns, slots: SlotColumns, groups: Ints, out_places: Ints) -> int:
    """List the places of the members of these groups; returns how many."""
    own_slots, is_there, slot_places = boxes.slot, slots.is_there, slots.place
    count = 0
    for index in range(groups.shape[0]):
        first = groups[index] * GROUP
        for place in range(first, first + GROUP):
            slot = own_slots[place]
            out_places[count] = place
            count += slot >= 0 and is_set(is_there, slot) and slot_places[slot] == place
    return count


@lean_kernel
def reschedule_group(boxes: BoxGroupColumns, slots: SlotColumns, log: LogColumns, group: int) -> None:
    """The members were compared with the whole log: schedule the next evaluation."""
    slack = LARGEST
    for place in range(group * GROUP, (group + 1) * GROUP):
        # A terminated member has left its slot, not its place; only places with a small need are checked.
        if boxes.need[place] < slack and is_member(boxes, slots, place):
            slack = boxes.need[place]
    boxes.slack[group] = slack
    boxes.log_position[group] = log.state[LENGTH]
    boxes.base_weight[group] = grid_weight(boxes, group)
    set_due(boxes.due, boxes.half_due, group, log.state[CLOCK], slack)


@lean_kernel
def fit_groups(
    boxes: BoxGroupColumns, slots: SlotColumns, log: LogColumns, first: int, last: int, has_new: bool
) -> None:
    """Fit the groups from `first` to `last` to their members, which were compared with the whole log.

    Without new members, only the grid has changed.
    """
    fill_grid(boxes, log)
    for group in range(first, last):
        if has_new:
            fit_group(boxes, group)
        find_cover_cells(boxes, group)
        reschedule_group(boxes, slots, log, group)


@lean_kernel
def gather_events(
    boxes: BoxGroupColumns,
    log: LogColumns,
    group: int,
    begin: int,
    end: int,
    log_position: int,
    out_events: Ints,
) -> int:
    """List the events from `begin` to `end` that are in the group's cover on two axes; returns how many.

    Events of a sorted chunk that were logged before event number `log_position` are left out.
    """
    ones, twos, steps = log.values[0], log.values[1], log.steps
    low, high = boxes.cover[0, group], -boxes.cover[1, group]
    low_2, high_2 = boxes.cover[2, group], -boxes.cover[3, group]
    count = 0
    for event in range(begin, end):
        one, two = ones[event], twos[event]
        out_events[count] = event
        count += (low <= one) & (one <= high) & (low_2 <= two) & (two <= high_2)
    if log_position > begin and begin < log.state[SORTED]:
        n_before, count = count, 0
        for index in range(n_before):
            event = out_events[index]
            out_events[count] = event
            count += steps[event] >= log_position
    return count


@lean_kernel
def count_below(values: Floats, value: float) -> int:
    """How many of a block's ascending values are below `value`."""
    count, step = 0, BLOCK >> 1
    while step > 0:
        count += step * (values[count + step - 1] < value)
        step >>= 1
    return count + int(values[count] < value)


@lean_kernel
def count_up_to(values: Floats, value: float) -> int:
    """How many of a block's ascending values are not above `value`."""
    count, step = 0, BLOCK >> 1
    while step > 0:
        count += step * (values[count + step - 1] <= value)
        step >>= 1
    return count + int(values[count] <= value)


@lean_kernel
def gather_blocks(
    boxes: BoxGroupColumns, log: LogColumns, group: int, begin: int, end: int, out_events: Ints
) -> tuple[int, int]:
    """Sum the events of sorted blocks that are certainly in the core, and list the others that may count.

    Returns how many are listed, and the sum.
    """
    twos, sums, weights = log.values[1], log.sums, log.weights
    block_lows, block_highs = log.block_low, log.block_high
    cover_low, cover_high = boxes.cover[0, group], -boxes.cover[1, group]
    core_low, core_high = boxes.core[0, group], -boxes.core[1, group]
    low, high = boxes.cover[2, group], -boxes.cover[3, group]
    inner_low, inner_high = boxes.core[2, group], -boxes.core[3, group]
    has_core = log.values.shape[0] == 2 and inner_low <= inner_high
    count, in_core = 0, 0
    for block in range(begin, end, BLOCK):
        smallest, largest = block_lows[block // BLOCK], block_highs[block // BLOCK]
        if largest < cover_low or smallest > cover_high:
            continue
        values = twos[block : block + BLOCK]
        first, last = count_below(values, low), count_up_to(values, high)
        if has_core and core_low <= smallest and largest <= core_high:
            inner_first, inner_last = count_below(values, inner_low), count_up_to(values, inner_high)
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


@lean_kernel
def count_members(bounds: Floats, side: int, value: float) -> int:
    """How many members of a group have a bound on this side that is not above `value`."""
    # Unsigned, so that the compiler need not handle negative indices.
    first, step = np.uint64(side * GROUP), np.uint64(GROUP >> 1)
    place = first
    for _ in range(GROUP_BITS):
        place += step if bounds[place + step - np.uint64(1)] <= value else np.uint64(0)
        step >>= np.uint64(1)
    return int(np.int64(place - first)) + int(bounds[place] <= value)


@lean_kernel
def count_events(
    boxes: BoxGroupColumns, log: LogColumns, group: int, scratch: GroupScratch, n_events: int
) -> int:
    """Sum the weight of the first `n_events` events in scratch for the members that hold them.

    Returns what counts for all members. What counts for a prefix of them in the order of a bound is added
    to `gains`, anything else directly to `sums`. The events are overwritten.
    """
    values, weights = log.values, log.weights
    events, singles, single_sides, core = scratch.events, scratch.singles, scratch.single_sides, scratch.core
    gains, sums, is_inside = scratch.gains, scratch.sums, scratch.is_inside
    bounds, ranks = boxes.sorted_bounds[group], boxes.bound_ranks[group]
    n_axes = values.shape[0]
    for side in range(2 * n_axes):
        core[side] = boxes.core[side, group]
    in_core, n_single, n_several = 0, 0, 0
    # An event is in the core, or outside of some member on one side or several. A branch-free pass that
    # separates the three is faster than handling each at once.
    for index in range(n_events):
        event = events[index]
        n_sides, side = 0, 0
        for axis in range(n_axes):
            value = values[axis, event]
            is_low, is_high = int(value < core[2 * axis]), int(-value < core[2 * axis + 1])
            n_sides += is_low + is_high
            side += 2 * axis * is_low + (2 * axis + 1) * is_high
        in_core += weights[event] if n_sides == 0 else 0
        singles[n_single], single_sides[n_single] = event, side
        n_single += n_sides == 1
        events[n_several] = event
        n_several += n_sides > 1
    for index in range(n_single):
        event, side = singles[index], single_sides[index]
        value = values[side >> 1, event]
        value = -value if side & 1 else value
        gains[side, count_members(bounds, int(np.int64(side)), value)] += weights[event]
    for index in range(n_several):
        event = events[index]
        for member in range(GROUP):
            is_inside[member] = True
        for side in range(2 * n_axes):
            value = values[side >> 1, event] if side & 1 == 0 else -values[side >> 1, event]
            if value < core[side]:
                # Less than GROUP, so that it fits the ranks' uint8, and many are compared at once.
                count = np.uint8(count_members(bounds, side, value))
                of_side = ranks[side * GROUP : (side + 1) * GROUP]
                for member in range(GROUP):
                    is_inside[member] &= of_side[member] < count
        weight = weights[event]
        for member in range(GROUP):
            sums[member] += weight if is_inside[member] else 0
    return in_core


@lean_kernel
def spread_gains(boxes: BoxGroupColumns, group: int, in_core: int, scratch: GroupScratch) -> None:
    """Add what `count_events` found to each member's sum, and clear `gains`."""
    gains, sums = scratch.gains, scratch.sums
    for member in range(GROUP):
        sums[member] += in_core
    for side in range(gains.shape[0]):
        of_side = gains[side]
        ranks = boxes.bound_ranks[group, side * GROUP : (side + 1) * GROUP]
        for rank in range(GROUP - 1, -1, -1):
            of_side[rank] += of_side[rank + 1]
        # A member gains from each event that a longer prefix of members holds than its own rank.
        for member in range(GROUP):
            sums[member] += of_side[np.int64(ranks[member]) + 1]
        clear(of_side)


@lean_kernel
def replay_into_member(
    boxes: BoxGroupColumns,
    slots: SlotColumns,
    log: LogColumns,
    place: int,
    scratch: GroupScratch,
    n_events: int,
    out: Maturities,
) -> None:
    """Count the first `n_events` events in scratch one by one into one member, reporting each maturity.

    Their coordinates and weights are contiguous, so that blocks without a maturity are summed quickly.
    """
    slot = boxes.slot[place]
    goal, need = max(slots.tau[slot], 1), boxes.need[place]
    events, values, weights, bound = scratch.events, scratch.near_values, scratch.near_weights, scratch.bound
    for side in range(bound.shape[0]):
        bound[side] = boxes.bound[side, place]
    low, high, low_2, high_2 = bound[0], -bound[1], bound[2], -bound[3]
    n_axes = values.shape[0]
    begin = 0
    while begin < n_events:
        end = min(begin + BLOCK, n_events)
        ones, twos, block_weights = values[0, begin:end], values[1, begin:end], weights[begin:end]
        # The weight inside on two axes is an upper bound of the weight inside on all.
        total = 0
        for index in range(end - begin):
            one, two = ones[index], twos[index]
            is_inside = (low <= one) & (one <= high) & (low_2 <= two) & (two <= high_2)
            total += block_weights[index] if is_inside else 0
        if n_axes == 2 and total < need:
            need -= total
            begin = end
            continue
        for index in range(begin, end):
            is_inside = True
            for axis in range(n_axes):
                value = values[axis, index]
                is_inside &= (bound[2 * axis] <= value) & (bound[2 * axis + 1] <= -value)
            weight = weights[index] * is_inside
            if weight < need:
                need -= weight
                continue
            row = out.n_rows[0]
            out.step[row] = log.steps[events[index]]
            out.subscription[row] = slot
            out.reached[row] = np.uint64(goal - need) + np.uint64(weight)
            out.n_rows[0] += 1
            if not is_set(slots.is_repeating, slot):
                slots.place[slot] = MATURED
                slots.tau[slot] = add_saturated(goal - need, weight)
                boxes.slot[place] = -1
                boxes.need[place] = LARGEST
                return
            need = goal
        begin = end
    boxes.need[place] = need


@lean_kernel
def replay_log(boxes: BoxGroupColumns, log: LogColumns, group: int, end: int, scratch: GroupScratch) -> None:
    """Compare the group with the log up to event `end`, in which no member has matured yet."""
    sums = scratch.sums
    clear(sums)
    in_core = 0
    log_position = boxes.log_position[group]
    while log_position < end:
        if log_position >= log.state[SORTED]:
            begin, after = log_position, min(log_position + CHUNK, end)
        else:
            begin = log_position // CHUNK * CHUNK
            after = begin + CHUNK
        if log_position == begin and log_position < log.state[SORTED]:
            n_events, weight = gather_blocks(boxes, log, group, begin, after, scratch.events)
            in_core += weight
        else:
            n_events = gather_events(boxes, log, group, begin, after, log_position, scratch.events)
        in_core += count_events(boxes, log, group, scratch, n_events)
        log_position = after
    spread_gains(boxes, group, in_core, scratch)
    boxes.log_position[group] = log_position
    for member in range(GROUP):
        boxes.counted[group * GROUP + member] += sums[member]
        if boxes.slot[group * GROUP + member] >= 0:
            boxes.need[group * GROUP + member] -= sums[member]


@lean_kernel
def evaluate_groups(
    boxes: BoxGroupColumns,
    slots: SlotColumns,
    log: LogColumns,
    batch: LogColumns,
    groups: Ints,
    begin: int,
    scratch: GroupScratch,
    out: Maturities,
) -> int:
    """Compare the groups from `begin` on with the log; returns the first that did not fit into `out`.

    `batch` holds the current batch's events once more, in sorted blocks, or is empty.
    """
    fill_grid(boxes, log)
    length, batch_begin = log.state[LENGTH], log.state[BATCH]
    n_sorted = batch.weights.shape[0]
    events, sums, near_values, near_weights = (
        scratch.events,
        scratch.sums,
        scratch.near_values,
        scratch.near_weights,
    )
    for index in range(begin, groups.shape[0]):
        group = int(np.int64(groups[index]))
        if boxes.log_position[group] < batch_begin:
            replay_log(boxes, log, group, batch_begin, scratch)
        log_position = boxes.log_position[group]
        if log_position < length:
            clear(sums)
            if n_sorted > 0 and log_position == batch_begin:
                n_events, in_core = gather_blocks(boxes, batch, group, 0, n_sorted, events)
                in_core += count_events(boxes, batch, group, scratch, n_events)
            else:
                n_events = gather_events(boxes, log, group, log_position, length, 0, events)
                in_core = count_events(boxes, log, group, scratch, n_events)
            spread_gains(boxes, group, in_core, scratch)
            n_rows = 0
            for member in range(GROUP):
                place = group * GROUP + member
                if sums[member] >= boxes.need[place] and is_member(boxes, slots, place):
                    is_repeating = is_set(slots.is_repeating, boxes.slot[place])
                    n_rows += length - log_position if is_repeating else 1
            if out.n_rows[0] + n_rows > out.step.shape[0]:
                return index
            n_near = 0
            if n_rows > 0:
                n_near = gather_events(boxes, log, group, log_position, length, 0, events)
                for axis in range(log.values.shape[0]):
                    for near in range(n_near):
                        near_values[axis, near] = log.values[axis, events[near]]
                for near in range(n_near):
                    near_weights[near] = log.weights[events[near]]
            for member in range(GROUP):
                place = group * GROUP + member
                boxes.counted[place] += sums[member]
                if boxes.slot[place] < 0:
                    continue
                if sums[member] >= boxes.need[place]:
                    replay_into_member(boxes, slots, log, place, scratch, n_near, out)
                else:
                    boxes.need[place] -= sums[member]
        reschedule_group(boxes, slots, log, group)
    return len(groups)
