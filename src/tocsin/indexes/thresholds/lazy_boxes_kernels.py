"""Kernels of the boxes: groups of subscriptions that are held against the log when they must be.

A group knows its cover, the smallest box around its members, and its core, the box inside all of
them. An event in the core counts for every member, one outside the cover for none. Most of those in
between are beyond some members' bound on one side only: then it is enough to count how many, in the
order of that bound. And none of this happens before the weight that fell into the cover since the
last look, which a coarse grid bounds from above, could bring some member to its threshold.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.thresholds.lazy_boxes_columns import BoxColumns, LookRoom
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
    is_set,
)
from tocsin.indexes.thresholds.scan_kernels import Maturities

#: Cells of the grid along an axis.
GRID = 128
#: Groups whose due times are compared at a time.
STRIDE = 64
#: Halvings from a group to one member.
GROUP_BITS = 8


@lean_kernel
def clear(values: Longs) -> None:
    """Set all to 0."""
    for index in range(values.shape[0]):
        values[index] = 0


@lean_kernel
def find_grid_cell(edges: Floats, value: float) -> int:
    """Number of edges that are not above `value`, without a branch that could be guessed wrong."""
    cell, step = 0, GRID // 2
    while step > 0:
        cell += step * (edges[cell + step - 1] <= value)
        step //= 2
    return cell


@lean_kernel
def fill_grid(boxes: BoxColumns, log: LogColumns) -> None:
    """Take the events that are new in the log into the grid."""
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
def grid_weight(boxes: BoxColumns, group: int) -> int:
    """Weight in the grid cells that the group's cover meets."""
    cells, sums = boxes.cover_cells, boxes.grid_sums
    left, right, bottom, top = cells[0, group], cells[1, group] + 1, cells[2, group], cells[3, group] + 1
    return int(sums[right, top] - sums[left, top] - sums[right, bottom] + sums[left, bottom])


@lean_kernel
def add_saturated(one: int, other: int) -> int:
    """The sum of two that are not negative, or the largest int64."""
    return one + other if one <= LARGEST - other else LARGEST


@lean_kernel
def set_due(boxes: BoxColumns, group: int, clock: int, missing: int) -> None:
    """The group is due when the clock has gone on by what is missing."""
    boxes.due[group] = add_saturated(clock, missing)
    boxes.ripe[group] = add_saturated(clock, missing >> 1)


@lean_kernel
def least_missing(boxes: BoxColumns, slots: SlotColumns, group: int) -> int:
    """What the nearest member of a group still needs, or less; with 0 or less it may have matured.

    The weight in the grid cells that a member's own box meets is what the log brought it, or more. A cover is
    much larger where members are few and far between. The group is whole.
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
        least = min(least, boxes.need[place] - (weight - boxes.held[place]))
        if least <= 0:
            break
    return least


@lean_kernel
def find_due(
    boxes: BoxColumns,
    slots: SlotColumns,
    log: LogColumns,
    n_groups: int,
    far_behind: int,
    out_groups: Ints,
) -> int:
    """List the groups in which some member may have matured; how many they are.

    With more than `far_behind` events to look at, members are checked one by one first.
    """
    fill_grid(boxes, log)
    clock, length = log.state[CLOCK], log.state[LENGTH]
    n_due = 0
    for first in range(0, n_groups, STRIDE):
        last = min(first + STRIDE, n_groups)
        n_maybe = 0
        for group in range(first, last):
            n_maybe += boxes.ripe[group] <= clock
        if n_maybe == 0:
            continue
        for group in range(first, last):
            if boxes.ripe[group] > clock:
                continue
            weight = grid_weight(boxes, group) - boxes.base[group]
            missing = boxes.slack[group] - weight
            if missing <= 0 and boxes.is_whole[group] and length - boxes.since[group] > far_behind:
                missing = least_missing(boxes, slots, group)
            if missing > 0:
                set_due(boxes, group, clock, missing)
            else:
                out_groups[n_due] = group
                n_due += 1
    return n_due


@lean_kernel
def fit_group(boxes: BoxColumns, group: int) -> None:
    """Set the group's cover and core to its members'."""
    first, last = group * GROUP, (group + 1) * GROUP
    for side in range(boxes.bound.shape[0]):
        bounds = boxes.bound[side, first:last]
        cover, core = np.inf, -np.inf
        for member in range(GROUP):
            if boxes.slot[first + member] >= 0:
                cover, core = min(cover, bounds[member]), max(core, bounds[member])
        boxes.cover[side, group], boxes.core[side, group] = cover, core


@lean_kernel
def find_cover_cells(boxes: BoxColumns, group: int) -> None:
    """Find the grid cells that the group's cover meets."""
    for axis in range(2):
        low, high = boxes.cover[2 * axis, group], -boxes.cover[2 * axis + 1, group]
        # Without members the cover is turned inside out, and meets no cell.
        first = find_grid_cell(boxes.grid_edges[axis], low) if low <= high else 0
        last = find_grid_cell(boxes.grid_edges[axis], high) if low <= high else -1
        boxes.cover_cells[2 * axis, group], boxes.cover_cells[2 * axis + 1, group] = first, last


@lean_kernel
def is_member(boxes: BoxColumns, slots: SlotColumns, place: int) -> bool:
    """Whether somebody is at this place; who has left it is removed."""
    slot = boxes.slot[place]
    if slot >= 0 and is_set(slots.is_there, slot) and slots.place[slot] == place:
        return True
    boxes.slot[place] = -1
    boxes.need[place] = LARGEST
    return False


@lean_kernel
def list_places(boxes: BoxColumns, slots: SlotColumns, groups: Ints, out_places: Ints) -> int:
    """List the places of these groups where somebody is; how many they are."""
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
def rest_group(boxes: BoxColumns, slots: SlotColumns, log: LogColumns, group: int) -> None:
    """The members have been held against the whole log: work out when to look again."""
    slack = LARGEST
    for place in range(group * GROUP, (group + 1) * GROUP):
        # Who was terminated has left its slot, but not its place; it is enough to know of those who matter.
        if boxes.need[place] < slack and is_member(boxes, slots, place):
            slack = boxes.need[place]
    boxes.slack[group] = slack
    boxes.since[group] = log.state[LENGTH]
    boxes.base[group] = grid_weight(boxes, group)
    set_due(boxes, group, log.state[CLOCK], slack)


@lean_kernel
def fit_groups(
    boxes: BoxColumns, slots: SlotColumns, log: LogColumns, first: int, last: int, has_new: bool
) -> None:
    """Make the groups from `first` to `last` what their members say, who have seen all of the log.

    Without new members, only the grid is new.
    """
    fill_grid(boxes, log)
    for group in range(first, last):
        if has_new:
            fit_group(boxes, group)
        find_cover_cells(boxes, group)
        rest_group(boxes, slots, log, group)


@lean_kernel
def gather_events(
    boxes: BoxColumns, log: LogColumns, group: int, begin: int, end: int, since: int, out_events: Ints
) -> int:
    """List the events from `begin` to `end` that are in the group's cover on two axes; how many they are.

    Without those of a sorted chunk that were logged before event number `since`.
    """
    ones, twos, steps = log.values[0], log.values[1], log.steps
    low, high = boxes.cover[0, group], -boxes.cover[1, group]
    low_2, high_2 = boxes.cover[2, group], -boxes.cover[3, group]
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
    boxes: BoxColumns, log: LogColumns, group: int, begin: int, end: int, out_events: Ints
) -> tuple[int, int]:
    """Sum the events of sorted blocks that are surely in the core, and list the others that may count.

    How many are listed, and the sum.
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
    # Unsigned, because then the compiler need not think of counting from the end.
    first, step = np.uint64(side * GROUP), np.uint64(GROUP >> 1)
    place = first
    for _ in range(GROUP_BITS):
        place += step if bounds[place + step - np.uint64(1)] <= value else np.uint64(0)
        step >>= np.uint64(1)
    return int(np.int64(place - first)) + int(bounds[place] <= value)


@lean_kernel
def count_events(boxes: BoxColumns, log: LogColumns, group: int, room: LookRoom, n_events: int) -> int:
    """Add up the weight of the first of the room's events for the members of the group that hold them.

    What counts for all of them is returned; what counts for the first so many in the order of a bound
    goes to `gains`, and anything else directly to `sums`. The events are overwritten.
    """
    values, weights = log.values, log.weights
    events, singles, single_sides, core = room.events, room.singles, room.single_sides, room.core
    gains, sums, is_inside = room.gains, room.sums, room.is_inside
    bounds, ranks = boxes.sorted_bounds[group], boxes.bound_ranks[group]
    n_axes = values.shape[0]
    for side in range(2 * n_axes):
        core[side] = boxes.core[side, group]
    in_core, n_single, n_several = 0, 0, 0
    # An event is in the core, or outside of some member on one side or several. To tell them apart first,
    # without a branch, is faster than to go on with each at once.
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
                # Not all, so the number fits the ranks' own narrow type, and many are compared at once.
                count = np.uint8(count_members(bounds, side, value))
                of_side = ranks[side * GROUP : (side + 1) * GROUP]
                for member in range(GROUP):
                    is_inside[member] &= of_side[member] < count
        weight = weights[event]
        for member in range(GROUP):
            sums[member] += weight if is_inside[member] else 0
    return in_core


@lean_kernel
def spread_gains(boxes: BoxColumns, group: int, in_core: int, room: LookRoom) -> None:
    """Give each member its share of what `count_events` found, and clear `gains`."""
    gains, sums = room.gains, room.sums
    for member in range(GROUP):
        sums[member] += in_core
    for side in range(gains.shape[0]):
        of_side = gains[side]
        ranks = boxes.bound_ranks[group, side * GROUP : (side + 1) * GROUP]
        for rank in range(GROUP - 1, -1, -1):
            of_side[rank] += of_side[rank + 1]
        # The member of a rank gains from all events that more members hold than have a smaller rank.
        for member in range(GROUP):
            sums[member] += of_side[np.int64(ranks[member]) + 1]
        clear(of_side)


@lean_kernel
def walk_events(
    boxes: BoxColumns,
    slots: SlotColumns,
    log: LogColumns,
    place: int,
    room: LookRoom,
    n_events: int,
    out: Maturities,
) -> None:
    """Count the first of the room's events one by one into one member, reporting each time it matures.

    Where they are and what they weigh lies side by side, so that what comes before is summed quickly.
    """
    slot = boxes.slot[place]
    goal, need = max(slots.tau[slot], 1), boxes.need[place]
    events, values, weights, bound = room.events, room.near_values, room.near_weights, room.bound
    for side in range(bound.shape[0]):
        bound[side] = boxes.bound[side, place]
    low, high, low_2, high_2 = bound[0], -bound[1], bound[2], -bound[3]
    n_axes = values.shape[0]
    begin = 0
    while begin < n_events:
        end = min(begin + BLOCK, n_events)
        ones, twos, block_weights = values[0, begin:end], values[1, begin:end], weights[begin:end]
        # What the block weighs on two axes is what it weighs, or more.
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
                slots.place[slot] = SILENT
                slots.tau[slot] = add_saturated(goal - need, weight)
                boxes.slot[place] = -1
                boxes.need[place] = LARGEST
                return
            need = goal
        begin = end
    boxes.need[place] = need


@lean_kernel
def catch_up(boxes: BoxColumns, log: LogColumns, group: int, end: int, room: LookRoom) -> None:
    """Hold the group against the log up to the event `end`, where nobody has matured yet."""
    sums = room.sums
    clear(sums)
    in_core = 0
    since = boxes.since[group]
    while since < end:
        if since >= log.state[SORTED]:
            begin, after = since, min(since + CHUNK, end)
        else:
            begin = since // CHUNK * CHUNK
            after = begin + CHUNK
        if since == begin and since < log.state[SORTED]:
            n_events, weight = gather_blocks(boxes, log, group, begin, after, room.events)
            in_core += weight
        else:
            n_events = gather_events(boxes, log, group, begin, after, since, room.events)
        in_core += count_events(boxes, log, group, room, n_events)
        since = after
    spread_gains(boxes, group, in_core, room)
    boxes.since[group] = since
    for member in range(GROUP):
        boxes.held[group * GROUP + member] += sums[member]
        if boxes.slot[group * GROUP + member] >= 0:
            boxes.need[group * GROUP + member] -= sums[member]


@lean_kernel
def look_at_groups(
    boxes: BoxColumns,
    slots: SlotColumns,
    log: LogColumns,
    batch: LogColumns,
    groups: Ints,
    begin: int,
    room: LookRoom,
    out: Maturities,
) -> int:
    """Hold the groups from `begin` on against the log; the first of them that found `out` too full.

    `batch` has the current batch's events once more, in sorted blocks, or none.
    """
    fill_grid(boxes, log)
    length, batch_begin = log.state[LENGTH], log.state[BATCH]
    n_sorted = batch.weights.shape[0]
    events, sums, near_values, near_weights = room.events, room.sums, room.near_values, room.near_weights
    for index in range(begin, groups.shape[0]):
        group = int(np.int64(groups[index]))
        if boxes.since[group] < batch_begin:
            catch_up(boxes, log, group, batch_begin, room)
        since = boxes.since[group]
        if since < length:
            clear(sums)
            if n_sorted > 0 and since == batch_begin:
                n_events, in_core = gather_blocks(boxes, batch, group, 0, n_sorted, events)
                in_core += count_events(boxes, batch, group, room, n_events)
            else:
                n_events = gather_events(boxes, log, group, since, length, 0, events)
                in_core = count_events(boxes, log, group, room, n_events)
            spread_gains(boxes, group, in_core, room)
            n_rows = 0
            for member in range(GROUP):
                place = group * GROUP + member
                if sums[member] >= boxes.need[place] and is_member(boxes, slots, place):
                    is_repeating = is_set(slots.is_repeating, boxes.slot[place])
                    n_rows += length - since if is_repeating else 1
            if out.n_rows[0] + n_rows > out.step.shape[0]:
                return index
            n_near = 0
            if n_rows > 0:
                n_near = gather_events(boxes, log, group, since, length, 0, events)
                for axis in range(log.values.shape[0]):
                    for near in range(n_near):
                        near_values[axis, near] = log.values[axis, events[near]]
                for near in range(n_near):
                    near_weights[near] = log.weights[events[near]]
            for member in range(GROUP):
                place = group * GROUP + member
                boxes.held[place] += sums[member]
                if boxes.slot[place] < 0:
                    continue
                if sums[member] >= boxes.need[place]:
                    walk_events(boxes, slots, log, place, room, n_near, out)
                else:
                    boxes.need[place] -= sums[member]
        rest_group(boxes, slots, log, group)
    return len(groups)
