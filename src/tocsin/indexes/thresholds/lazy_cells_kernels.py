"""Kernels of the cells: one-dimensional subscriptions over counters that lie between their bounds.

The bounds cut the line into cells, and each event adds its weight to the counter of its cell. What
a subscription holds is a difference of two sums over counters, at any time and whenever it was
registered, so nothing has to be kept of an event once it is counted. Sums are made when somebody
asks, from two levels: cells, and blocks of cells.

Cells are many, and an event's is rarely in the cache. So events are first counted by *stretch*, of
which there are few, and into the cells only when that cannot rule out that somebody has matured.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.thresholds.lazy_columns import (
    ABSORBED,
    CLOCK,
    COUNTED,
    GROUP,
    IN_CELLS,
    LARGEST,
    LENGTH,
    SILENT,
    LogColumns,
    SlotColumns,
    find_bucket,
)
from tocsin.indexes.thresholds.scan_kernels import Maturities

#: Bits of a cell's number that tell its place in its block.
BLOCK_BITS = 5
#: Stretches of the line; their counters fit the smallest cache.
STRETCHES = 1024
#: Edges that are compared with a value without a branch.
AHEAD = 4
#: Groups whose due times are compared at a time.
STRIDE = 64


class CellColumns(NamedTuple):
    """The line. Cell c holds the values with c edges at or below them."""

    #: float64 (edges + AHEAD,): where cells begin, ascending and distinct; then NaN.
    edges: Floats
    #: int32 (buckets + 1,): edges in the buckets before; buckets are equally long pieces of the line.
    bucket_edges: Ints
    #: float64 (2,): where buckets begin, and how many there are to a unit of length.
    bucket_scale: Floats
    #: float64 (2,): the same of stretches.
    stretch_scale: Floats
    #: int32 (ticks + 2,): the cell of each tick, from before the first to beyond the last. Bounds are often
    #: whole multiples of some unit, and so are values, whose cells then are here.
    ticks: Ints
    #: float64 (2,): ticks to a unit of length, and the number of the first.
    tick_scale: Floats
    #: int64 (blocks << BLOCK_BITS,): weight counted, by cell.
    weights: Longs
    #: int64 (blocks,): weight counted, by block.
    block_weights: Longs
    #: int64 (blocks,): sum of the weights before the block, as of the last `sum_blocks`.
    block_sums: Longs
    #: int64 (STRETCHES,): weight by stretch, of all events, in the cells or not yet.
    stretch_weights: Longs
    #: int64 (STRETCHES + 1,): sums of the weights before, as of the last `count_stretches`.
    stretch_sums: Longs


class RangeColumns(NamedTuple):
    """The subscriptions. Members lie group by group; the member at place p is in group p // GROUP."""

    #: int32 (places,): first cell inside, and first cell beyond.
    begin: Ints
    end: Ints
    #: uint64 (places,): the weight between `begin` and `end` at which the member matures.
    mark: NDArray[np.uint64]
    #: int32 (places,): slot of the subscription; -1 at a free place.
    slot: Ints
    #: int32 (groups,): cells from the first member's begin to the last one's end.
    cover_begin: Ints
    cover_end: Ints
    #: int32 (groups,): first stretch of the cover, and first beyond.
    stretch_begin: Ints
    stretch_end: Ints
    #: int64 (groups,): what the nearest member needed when the group was last checked, or less.
    slack: Longs
    #: int64 (groups,): the weight of the cover then, and of its stretches.
    base: Longs
    stretch_base: Longs
    #: int64 (groups,): the clock before which no member can mature.
    due: Longs
    #: int64 (groups,): halfway there. From here on it is checked along with others that are due.
    ripe: Longs


class Crossings(NamedTuple):
    """Members that have matured, on the way to where."""

    #: int32 (members,): their places.
    place: Ints
    #: int32 (members,): what they hold of the batch, from the first event by cell to the one beyond the last.
    begin: Ints
    end: Ints
    #: int64 (members,): what that weighs, and how much of it has been spent on maturing already.
    total: Longs
    spent: Longs
    #: int64 (members,): weight missing when `spent` was, and weight there.
    need: Longs
    reached: Longs
    #: int32 (members,): the event at which the need is met.
    event: Ints
    #: int64 (members,): what the member holds of the batch up to and without that event.
    before: Longs


class Looks(NamedTuple):
    """Members of a group that is looked at."""

    #: int32 (GROUP,): their places, and where their cells begin and end.
    place: Ints
    begin: Ints
    end: Ints
    #: int64 (GROUP,): the weight of these.
    held: Longs


class Wavelet(NamedTuple):
    """The events of a batch by cell, each level sorted by one more bit of their arrival number.

    Row b of a level tells of the first b events in the level's order.
    """

    #: int32 (levels, events + 1): how many of them have the level's bit clear,
    zeros: Ints
    #: int64 (levels, events + 1): and what those weigh.
    zero_weights: Longs
    #: int64 (events + 1,): what the first events by cell weigh, bit or no bit.
    weights: Longs
    #: int32 (events,): cells, ascending.
    cells: Ints
    #: int32 (pieces + 2,): events before each piece; a piece is 1 << `shift[0]` cells.
    starts: Ints
    #: int64 (1,): see `starts`.
    shift: Longs


@kernel
def fill_buckets(cells: CellColumns) -> None:
    """Count the edges of each bucket, and add up."""
    counts, scale = cells.bucket_edges, cells.bucket_scale
    n_buckets = counts.shape[0] - 1
    n_edges = cells.edges.shape[0] - AHEAD
    for edge in range(n_edges):
        counts[find_bucket(cells.edges[edge], scale[0], scale[1], n_buckets) + 1] += 1
    for bucket in range(n_buckets):
        counts[bucket + 1] += counts[bucket]


@kernel
def search_edges(edges: Floats, begin: int, value: float) -> int:
    """The first edge from `begin` on that is above `value`; the edges before `begin` are not."""
    low, step = begin, 1
    n_edges = edges.shape[0] - AHEAD
    while low + step < n_edges and edges[low + step] <= value:
        low += step
        step *= 2
    high = min(low + step, n_edges)
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def find_cells(cells: CellColumns, values: Floats, out_cells: Ints) -> None:
    """The number of edges that are not above each value.

    Three loops, each simple enough to keep many loads under way. Cost: mostly constant a value.
    """
    edges, buckets = cells.edges, cells.bucket_edges
    floor, per_unit = cells.bucket_scale[0], cells.bucket_scale[1]
    n_buckets, n_values = buckets.shape[0] - 1, values.shape[0]
    for index in range(n_values):
        out_cells[index] = find_bucket(values[index], floor, per_unit, n_buckets)
    for index in range(n_values):
        out_cells[index] = buckets[out_cells[index]]
    for index in range(n_values):
        low, value = int(np.int64(out_cells[index])), values[index]
        cell = low
        for ahead in range(AHEAD):
            cell += edges[low + ahead] <= value
        if cell == low + AHEAD:
            cell = search_edges(edges, cell, value)
        out_cells[index] = cell


@kernel
def find_ticks(cells: CellColumns, values: Floats, out_cells: Ints) -> None:
    """As `find_cells`, faster for values that lie on ticks."""
    ticks, per_unit, first = cells.ticks, cells.tick_scale[0], cells.tick_scale[1]
    beyond = float(ticks.shape[0] - 2)
    n_between = int(beyond == 0)
    for index in range(values.shape[0]):
        value = values[index]
        number = np.rint(value * per_unit)
        tick = min(max(number - first, -1.0), beyond)
        is_between = (number / per_unit != value) & (tick >= 0) & (tick < beyond)
        n_between += is_between
        out_cells[index] = np.int32(-1) if is_between else np.int32(tick + 1.0)
    if n_between:
        find_cells(cells, values, out_cells)
        return
    for index in range(values.shape[0]):
        out_cells[index] = ticks[out_cells[index]]


@kernel
def count_stretches(cells: CellColumns, log: LogColumns) -> None:
    """Count the events that are new in the log by stretch, and add up."""
    first, last = log.state[COUNTED], log.state[LENGTH]
    if first == last:
        return
    weights, sums = cells.stretch_weights, cells.stretch_sums
    floor, per_unit = cells.stretch_scale[0], cells.stretch_scale[1]
    values, log_weights = log.values[0, first:last], log.weights[first:last]
    for event in range(last - first):
        weights[find_bucket(values[event], floor, per_unit, STRETCHES)] += log_weights[event]
    for stretch in range(STRETCHES):
        sums[stretch + 1] = sums[stretch] + weights[stretch]
    log.state[COUNTED] = last


@kernel
def absorb_events(cells: CellColumns, log: LogColumns, out_cells: Ints) -> None:
    """Count the events that the cells have not yet, and tell their cells."""
    count_stretches(cells, log)
    first, last = log.state[ABSORBED], log.state[LENGTH]
    log_weights = log.weights[first:last]
    find_ticks(cells, log.values[0, first:last], out_cells)
    weights, block_weights = cells.weights, cells.block_weights
    for event in range(last - first):
        cell, weight = out_cells[event], log_weights[event]
        weights[cell] += weight
        block_weights[cell >> BLOCK_BITS] += weight
    log.state[ABSORBED] = last


@kernel
def sum_blocks(cells: CellColumns) -> None:
    """Bring the sums over blocks up to date."""
    total = 0
    for block in range(cells.block_weights.shape[0]):
        cells.block_sums[block] = total
        total += cells.block_weights[block]


@kernel
def weigh_ranges(cells: CellColumns, begins: Ints, ends: Ints, out_weights: Longs) -> None:
    """Weight counted from each begin to each end. Call `sum_blocks` first."""
    weights, block_sums = cells.weights, cells.block_sums
    for index in range(begins.shape[0]):
        begin, end = begins[index], ends[index]
        weight = block_sums[end >> BLOCK_BITS] - block_sums[begin >> BLOCK_BITS]
        for cell in range(end >> BLOCK_BITS << BLOCK_BITS, end):
            weight += weights[cell]
        for cell in range(begin >> BLOCK_BITS << BLOCK_BITS, begin):
            weight -= weights[cell]
        out_weights[index] = weight


@kernel
def add_saturated(one: int, other: int) -> int:
    """The sum of two that are not negative, or the largest int64."""
    return one + other if one <= LARGEST - other else LARGEST


@kernel
def set_due(ranges: RangeColumns, group: int, clock: int, missing: int) -> None:
    """The group is due when the clock has gone on by what is missing."""
    ranges.due[group] = add_saturated(clock, missing)
    ranges.ripe[group] = add_saturated(clock, missing >> 1)


@kernel
def weigh_stretches(cells: CellColumns, ranges: RangeColumns, group: int) -> int:
    """Weight of the stretches that the group's cover meets."""
    sums = cells.stretch_sums
    return int(sums[ranges.stretch_end[group]] - sums[ranges.stretch_begin[group]])


@kernel
def rest_group(cells: CellColumns, ranges: RangeColumns, clock: int, group: int, slack: int) -> None:
    """The group needs `slack` from now on: work out when to check it again."""
    ranges.slack[group] = slack
    ranges.stretch_base[group] = weigh_stretches(cells, ranges, group)
    set_due(ranges, group, clock, slack)


@kernel
def no_looks() -> Looks:
    """Room for one look."""
    ints = np.empty((3, GROUP), np.int32)
    return Looks(ints[0], ints[1], ints[2], np.empty(GROUP, np.int64))


@kernel
def remove_gone(own_slots: Ints, is_there: Bools, places: Ints, first: int) -> None:
    """Remove from the places from `first` on whoever was terminated."""
    for place in range(own_slots.shape[0]):
        slot = own_slots[place]
        if slot >= 0 and not (is_there[slot] and places[slot] == IN_CELLS + first + place):
            own_slots[place] = -1


@kernel
def look_at_group(
    cells: CellColumns,
    ranges: RangeColumns,
    slots: SlotColumns,
    clock: int,
    group: int,
    is_thin: bool,
    looks: Looks,
    n_found: int,
    out_places: Ints,
    out_held: Longs,
) -> int:
    """List the members that have reached their mark, and work out when to look at the others again.

    Of a group that is not thin it is enough to know who is there of those that matter.
    """
    members, begins, ends, held = looks
    first, last = group * GROUP, (group + 1) * GROUP
    own_slots, marks, is_there, places = ranges.slot[first:last], ranges.mark, slots.is_there, slots.place
    if is_thin:
        remove_gone(own_slots, is_there, places, first)
    n_members = 0
    for member in range(GROUP):
        members[n_members] = first + member
        n_members += own_slots[member] >= 0
    for index in range(n_members):
        begins[index], ends[index] = ranges.begin[members[index]], ranges.end[members[index]]
    weigh_ranges(cells, begins[:n_members], ends[:n_members], held)
    slack = LARGEST
    for index in range(n_members):
        place = members[index]
        mark, weight = marks[place], np.uint64(held[index])
        missing = int(np.int64(mark - weight)) if mark > weight else 0
        if missing >= slack:
            continue
        slot = own_slots[place - first]
        if not (is_there[slot] and places[slot] == IN_CELLS + place):
            own_slots[place - first] = -1
        elif missing > 0:
            slack = missing
        else:
            out_places[n_found] = place
            out_held[n_found] = held[index]
            n_found += 1
    rest_group(cells, ranges, clock, group, slack)
    return n_found


@kernel
def list_due(
    cells: CellColumns, ranges: RangeColumns, log: LogColumns, n_groups: int, out_groups: Ints
) -> int:
    """List the groups in which some member may have matured, as far as stretches tell; how many they are."""
    count_stretches(cells, log)
    clock, ripe = log.state[CLOCK], ranges.ripe
    n_due = 0
    for first in range(0, n_groups, STRIDE):
        last = min(first + STRIDE, n_groups)
        n_ripe = 0
        for group in range(first, last):
            n_ripe += ripe[group] <= clock
        if n_ripe == 0:
            continue
        for group in range(first, last):
            if ripe[group] > clock:
                continue
            weight = weigh_stretches(cells, ranges, group) - ranges.stretch_base[group]
            if weight < ranges.slack[group]:
                set_due(ranges, group, clock, ranges.slack[group] - weight)
            else:
                out_groups[n_due] = group
                n_due += 1
    return n_due


@kernel
def find_matured(
    cells: CellColumns,
    ranges: RangeColumns,
    slots: SlotColumns,
    log: LogColumns,
    groups: Ints,
    is_thin: bool,
    out_places: Ints,
    out_held: Longs,
) -> int:
    """List the members of these groups that have reached their mark, and what they hold; how many they are.

    All events have been absorbed.
    """
    sum_blocks(cells)
    clock = log.state[CLOCK]
    looks = no_looks()
    held = looks.held
    n_found = 0
    for index in range(groups.shape[0]):
        group = int(np.int64(groups[index]))
        weigh_ranges(cells, ranges.cover_begin[group : group + 1], ranges.cover_end[group : group + 1], held)
        slack = ranges.slack[group] - (held[0] - ranges.base[group])
        ranges.base[group] = held[0]
        if slack > 0:
            rest_group(cells, ranges, clock, group, slack)
        else:
            n_found = look_at_group(
                cells, ranges, slots, clock, group, is_thin, looks, n_found, out_places, out_held
            )
    return n_found


@kernel
def fit_groups(
    cells: CellColumns, ranges: RangeColumns, slots: SlotColumns, clock: int, n_groups: int
) -> None:
    """Make all groups what their members say. No mark may have been reached."""
    sum_blocks(cells)
    floor, per_unit = cells.stretch_scale[0], cells.stretch_scale[1]
    n_edges = cells.edges.shape[0] - AHEAD
    looks = no_looks()
    held = looks.held
    for group in range(n_groups):
        begin, end = n_edges + 1, 0
        for place in range(group * GROUP, (group + 1) * GROUP):
            if ranges.slot[place] >= 0:
                begin, end = min(begin, ranges.begin[place]), max(end, ranges.end[place])
        ranges.cover_begin[group], ranges.cover_end[group] = begin, max(begin, end)
        if begin < end:
            # Cells are counted by the edges at or below them, so one begins at the edge before.
            first = find_bucket(cells.edges[begin - 1], floor, per_unit, STRETCHES)
            last = STRETCHES - 1
            if end <= n_edges:
                last = find_bucket(cells.edges[end - 1], floor, per_unit, STRETCHES)
            ranges.stretch_begin[group], ranges.stretch_end[group] = first, last + 1
        weigh_ranges(cells, ranges.cover_begin[group : group + 1], ranges.cover_end[group : group + 1], held)
        ranges.base[group] = held[0]
        look_at_group(cells, ranges, slots, clock, group, False, looks, 0, looks.place, held)


@kernel
def pack_members(ranges: RangeColumns, slots: SlotColumns) -> int:
    """Move all members to the first places, in their order; how many they are."""
    remove_gone(ranges.slot, slots.is_there, slots.place, 0)
    count = 0
    for place in range(ranges.slot.shape[0]):
        slot = ranges.slot[place]
        if slot >= 0:
            ranges.begin[count], ranges.end[count] = ranges.begin[place], ranges.end[place]
            ranges.mark[count], ranges.slot[count] = ranges.mark[place], slot
            slots.place[slot] = IN_CELLS + count
            count += 1
    return count


@kernel
def weigh_places(cells: CellColumns, ranges: RangeColumns, places: Ints, out_weights: Longs) -> None:
    """Weight between begin and end of each of these members."""
    sum_blocks(cells)
    weigh_ranges(cells, ranges.begin[places], ranges.end[places], out_weights)


@kernel
def build_wavelet(order: Ints, weights: Longs, wavelet: Wavelet) -> None:
    """Sort the events, which come ordered by cell, level by level by the bits of their numbers."""
    n_levels, n_events = wavelet.zeros.shape[0], order.shape[0]
    starts, shift = wavelet.starts, wavelet.shift[0]
    wavelet.weights[0] = 0
    starts[:] = 0
    for index in range(n_events):
        wavelet.weights[index + 1] = wavelet.weights[index] + weights[order[index]]
        starts[(wavelet.cells[index] >> shift) + 1] += 1
    for piece in range(starts.shape[0] - 1):
        starts[piece + 1] += starts[piece]
    events, others = order.copy(), np.empty_like(order)
    for level in range(n_levels):
        bit = n_levels - 1 - level
        n_zeros = 0
        weight = 0
        for index in range(n_events):
            wavelet.zeros[level, index] = n_zeros
            wavelet.zero_weights[level, index] = weight
            is_zero = 1 - ((events[index] >> bit) & 1)
            n_zeros += is_zero
            weight += weights[events[index]] * is_zero
        wavelet.zeros[level, n_events] = n_zeros
        wavelet.zero_weights[level, n_events] = weight
        for index in range(n_events):
            event = events[index]
            before = wavelet.zeros[level, index]
            is_one = (event >> bit) & 1
            others[n_zeros + index - before if is_one else before] = event
        events, others = others, events


@kernel
def count_below(wavelet: Wavelet, cell: int) -> int:
    """How many of the events are in cells below `cell`."""
    starts, cells = wavelet.starts, wavelet.cells
    piece = min(cell >> wavelet.shift[0], starts.shape[0] - 2)
    low, high = starts[piece], starts[piece + 1]
    while low < high:
        middle = (low + high) >> 1
        if cells[middle] < cell:
            low = middle + 1
        else:
            high = middle
    return int(low)


@kernel
def prepare_crossings(
    ranges: RangeColumns, slots: SlotColumns, wavelet: Wavelet, crossings: Crossings
) -> None:
    """Work out what the members at `place` hold of the batch, and what they needed before it.

    Their `total` comes as all that they hold, and becomes what they hold of the batch.
    """
    places, event_weights = crossings.place, wavelet.weights
    for index in range(places.shape[0]):
        place, held = places[index], crossings.total[index]
        begin = count_below(wavelet, ranges.begin[place])
        end = count_below(wavelet, ranges.end[place])
        total = event_weights[end] - event_weights[begin]
        need = np.int64(ranges.mark[place] - np.uint64(held - total))
        crossings.begin[index], crossings.end[index] = begin, end
        crossings.total[index], crossings.spent[index] = total, 0
        crossings.need[index] = need
        crossings.reached[index] = max(slots.tau[ranges.slot[place]], 1) - need
        # Should the member go on, it is from the weight that it holds now.
        ranges.mark[place] = np.uint64(held)


@kernel
def find_crossings(wavelet: Wavelet, crossings: Crossings, n_crossings: int) -> None:
    """Find the earliest event of the batch at which each of the first members' need is met.

    All members go down the levels together: a level's rows stay in the cache, and nobody waits.
    """
    n_levels, n_events = wavelet.zeros.shape[0], wavelet.cells.shape[0]
    spent, need, events, befores = crossings.spent, crossings.need, crossings.event, crossings.before
    begins, ends = crossings.begin[:n_crossings].copy(), crossings.end[:n_crossings].copy()
    events[:n_crossings] = 0
    befores[:n_crossings] = 0
    for level in range(n_levels):
        zeros, zero_weights = wavelet.zeros[level], wavelet.zero_weights[level]
        n_zeros = zeros[n_events]
        for index in range(n_crossings):
            begin, end = begins[index], ends[index]
            zeros_begin, zeros_end = zeros[begin], zeros[end]
            weight = zero_weights[end] - zero_weights[begin]
            is_one = befores[index] + weight < spent[index] + need[index]
            begins[index] = n_zeros + begin - zeros_begin if is_one else zeros_begin
            ends[index] = n_zeros + end - zeros_end if is_one else zeros_end
            befores[index] += weight * is_one
            events[index] = 2 * events[index] + is_one


@kernel
def report_crossings(
    ranges: RangeColumns,
    slots: SlotColumns,
    log: LogColumns,
    wavelet: Wavelet,
    crossings: Crossings,
    n_crossings: int,
    out: Maturities,
) -> int:
    """Report the first members once each; those that mature again go first, and how many they are.

    `out` has room for all of them.
    """
    find_crossings(wavelet, crossings, n_crossings)
    clock = log.state[CLOCK]
    first_event = log.state[ABSORBED] - wavelet.cells.shape[0]
    row, n_again = out.n_rows[0], 0
    for index in range(n_crossings):
        place, event = crossings.place[index], first_event + crossings.event[index]
        slot, weight, before = ranges.slot[place], log.weights[event], crossings.before[index]
        reached = crossings.reached[index] + before - crossings.spent[index]
        out.step[row] = log.steps[event]
        out.subscription[row] = slot
        out.reached[row] = np.uint64(reached) + np.uint64(weight)
        row += 1
        if not slots.is_repeating[slot]:
            slots.place[slot] = SILENT
            slots.tau[slot] = add_saturated(reached, weight)
            ranges.slot[place] = -1
            continue
        need, spent = max(slots.tau[slot], 1), before + weight
        total = crossings.total[index]
        if need <= total - spent:
            crossings.place[n_again] = place
            crossings.begin[n_again], crossings.end[n_again] = crossings.begin[index], crossings.end[index]
            crossings.total[n_again], crossings.spent[n_again] = total, spent
            crossings.need[n_again], crossings.reached[n_again] = need, 0
            n_again += 1
        else:
            need -= total - spent
            group = int(np.int64(place // GROUP))
            ranges.mark[place] += np.uint64(need)
            ranges.slack[group] = min(ranges.slack[group], need)
            set_due(ranges, group, clock, ranges.slack[group])
    out.n_rows[0] = row
    return n_again
