"""Kernels of the histogram cells: one-dimensional subscriptions over event counters between their bounds.

The bounds cut the line into cells, and each event adds its weight to the counter of its cell. The
weight that a subscription holds is a difference of two prefix sums over counters, at any time and
whenever it was registered, so events need not be stored once they are counted. Sums are computed on
demand, from two levels: cells, and blocks of cells.

Cells are many, and an event's cell is rarely in the cache. So events are first counted by *segment*, of
which there are few, and are pending until that cannot rule out that a member has matured. Then they are
counted into the cells, many at a time, for which fetching the cells pays.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.argument_packs import ArgumentPack, unpack
from tocsin.arrays.intrinsics import prefetch
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bytes, Floats, Ints, Longs
from tocsin.indexes.thresholds.deferred.common_kernels import is_set, set_due, weigh_countable
from tocsin.indexes.thresholds.deferred.layout import (
    AHEAD,
    BLOCK_BITS,
    CELL_BLOCK,
    EVEN,
    GROUP,
    IN_CELLS,
    CellRangeColumns,
    HistogramColumns,
    PendingColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.layout import LARGEST

#: How far ahead the targets of writes are prefetched.
PREFETCH_DISTANCE = 16
#: Groups whose due times are compared at a time.
STRIDE = 64


class MemberScratch(NamedTuple):
    """Scratch: the members of the group being evaluated."""

    #: places, first cell inside, first cell beyond.
    place: Annotated[Ints, Column(GROUP, fill=None)]
    begin: Annotated[Ints, Column(GROUP, fill=None)]
    end: Annotated[Ints, Column(GROUP, fill=None)]
    #: the weight of these cells.
    weight: Annotated[Longs, Column(GROUP, fill=None)]


@lean_kernel
def find_bucket(value: float, floor: float, per_unit: float, n_buckets: int) -> int:
    """The bucket of a value, monotone in the value."""
    place = (value - floor) * per_unit
    if place >= n_buckets:
        return n_buckets - 1
    return int(place) if place > 0 else 0


@lean_kernel
def fill_buckets(cells: HistogramColumns) -> None:
    """Count the edges of each bucket, as prefix sums."""
    counts, scale = cells.bucket_edges, cells.bucket_scale
    n_buckets = counts.shape[0] - 1
    n_edges = cells.edges.shape[0] - AHEAD
    for edge in range(n_edges):
        counts[find_bucket(cells.edges[edge], scale[0], scale[1], n_buckets) + 1] += 1
    for bucket in range(n_buckets):
        counts[bucket + 1] += counts[bucket]


@lean_kernel
def search_edges(edges: Floats, begin: int, value: float) -> int:
    """The first edge from `begin` on that is above `value`; the edges before `begin` are not."""
    # Unlike in `kernels.search`, steps that double come first: a bucket begins near the edge sought.
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


@lean_kernel
def find_extent(low: Floats, high: Floats, per_unit: float) -> tuple[bool, float, float]:
    """Whether all finite bounds are multiples of 1 / `per_unit`, and the smallest and the largest multiple.

    False without any finite bound.
    """
    first, last = np.inf, -np.inf
    n_off = 0
    # Branch-free, so that it is vectorised.
    for bounds in (low, high):
        for index in range(bounds.shape[0]):
            bound = bounds[index]
            is_finite = bound - bound == 0.0
            number = np.rint(bound * per_unit)
            n_off += is_finite & (number / per_unit != bound)
            first = min(first, number if is_finite else np.inf)
            last = max(last, number if is_finite else -np.inf)
    return bool(n_off == 0 and first <= last), first, last


@lean_kernel
def find_ticks(cells: HistogramColumns, values: Floats, out_cells: Ints) -> None:
    """Compute the cells of values where edges are at ticks; `find_cells` calls this."""
    per_unit, first = cells.tick_scale[0], 2.0 - 2.0 * cells.tick_scale[1]
    last = float(cells.edges.shape[0] - AHEAD)
    # All in doubles and branch-free, so that it is vectorised.
    for index in range(values.shape[0]):
        value = values[index]
        number = np.rint(value * per_unit)
        tick = number / per_unit
        cell = 2.0 * number + first
        cell += 1.0 if value > tick else 0.0
        cell -= 1.0 if value < tick else 0.0
        cell = cell if cell > 1.0 else 1.0
        out_cells[index] = np.int32(cell if cell < last else last)


@lean_kernel
def find_cells(cells: HistogramColumns, values: Floats, out_cells: Ints) -> None:
    """The cell of each value: the number of edges not above it. Cost: mostly constant a value."""
    if cells.tick_scale[0] > 0:
        find_ticks(cells, values, out_cells)
        return
    edges, buckets = cells.edges, cells.bucket_edges
    floor, per_unit = cells.bucket_scale[0], cells.bucket_scale[1]
    n_buckets, n_values = buckets.shape[0] - 1, values.shape[0]
    # Three loops, each simple enough to keep many loads in flight.
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


@lean_kernel
def count_segments(cells: HistogramColumns, values: Floats, event_weights: Longs, out_cells: Ints) -> None:
    """Find the cells of events, and count them by segment."""
    find_cells(cells, values, out_cells)
    weights, bits = cells.segment_weights, np.uint32(cells.segment_bits[0])
    for event in range(values.shape[0]):
        # Unsigned: else each index is compared with 0.
        weights[np.uint32(out_cells[event]) >> bits] += event_weights[event]


@lean_kernel
def absorb_events(cells: HistogramColumns, event_cells: Ints, event_weights: Longs) -> None:
    """Count events, which are counted by segment already, into the cells."""
    weights, block_weights = cells.weights, cells.block_weights
    for event in range(event_cells.shape[0]):
        cell, weight = np.uint32(event_cells[event]), event_weights[event]
        block, place = cell >> np.uint32(BLOCK_BITS), cell & np.uint32(CELL_BLOCK - 1)
        weights[block, place & np.uint32(1), place >> np.uint32(1)] += weight
        block_weights[block] += weight


@lean_kernel
def sum_blocks(cells: HistogramColumns) -> None:
    """Bring the sums over blocks up to date."""
    total = 0
    for block in range(cells.block_weights.shape[0]):
        total += cells.block_weights[block]
        cells.block_sums[block + 1] = total


@lean_kernel
def sum_segments(cells: HistogramColumns) -> None:
    """Bring the sums over segments up to date."""
    total = 0
    for segment in range(cells.segment_weights.shape[0]):
        total += cells.segment_weights[segment]
        cells.segment_sums[segment + 1] = total


@lean_kernel
def weigh_cells(weights: Longs, cell: int) -> int:
    """Weight of the preceding cells in the cell's block."""
    block, place = cell >> BLOCK_BITS, cell & (CELL_BLOCK - 1)
    n_even, n_odd = (place + 1) >> 1, place >> 1
    weight = 0
    # The same steps for any cell: vectorised, and no branch to mispredict.
    for index in range(EVEN):
        weight += weights[block, 0, index] if index < n_even else 0
        weight += weights[block, 1, index] if index < n_odd else 0
    return weight


@lean_kernel
def sum_cells(cells: HistogramColumns, out_sums: Longs) -> None:
    """The weight before each cell. Pays for many lookups."""
    weights = cells.weights
    total, cell = 0, 0
    for block in range(weights.shape[0]):
        for index in range(EVEN):
            out_sums[cell] = total
            total += weights[block, 0, index]
            out_sums[cell + 1] = total
            total += weights[block, 1, index]
            cell += 2


@lean_kernel
def weigh_ranges(
    cells: HistogramColumns, cell_sums: Longs, begins: Ints, ends: Ints, out_weights: Longs
) -> None:
    """Weight counted from each begin to each end. Call `sum_blocks` first, or pass sums of `sum_cells`."""
    if cell_sums.shape[0]:
        for index in range(begins.shape[0]):
            out_weights[index] = cell_sums[np.uint32(ends[index])] - cell_sums[np.uint32(begins[index])]
        return
    weights, sums = cells.weights, cells.block_sums
    for index in range(begins.shape[0]):
        begin, end = int(np.int64(begins[index])), int(np.int64(ends[index]))
        whole = sums[end >> BLOCK_BITS] - sums[begin >> BLOCK_BITS]
        out_weights[index] = whole + weigh_cells(weights, end) - weigh_cells(weights, begin)


@lean_kernel
def weigh_cover(cells: HistogramColumns, ranges: CellRangeColumns, group: int) -> int:
    """Weight of the blocks that the group's members intersect. Call `sum_blocks` first."""
    sums = cells.block_sums
    return int(sums[ranges.cover_end[group]] - sums[ranges.cover_begin[group]])


@lean_kernel
def weigh_segments(cells: HistogramColumns, ranges: CellRangeColumns, group: int) -> int:
    """Weight of the segments that the group's members intersect. Call `sum_segments` first."""
    sums = cells.segment_sums
    return int(sums[ranges.segment_end[group]] - sums[ranges.segment_begin[group]])


@lean_kernel
def reschedule_group(
    cells: HistogramColumns, ranges: CellRangeColumns, clock: int, group: int, slack: int
) -> None:
    """The group is missing `slack` from now on: schedule its next check."""
    ranges.slack[group] = slack
    ranges.base_weight[group] = weigh_cover(cells, ranges, group)
    ranges.segment_base_weight[group] = weigh_segments(cells, ranges, group)
    set_due(ranges.due, ranges.half_due, group, clock, slack)


@inlined
def list_members(own_slots: Ints, is_there: Bytes, first: int, out_places: Ints) -> int:
    """List the places from `first` on whose slots hold a subscription; returns how many.

    Branch-free, because a branch would be mispredicted all the time.
    """
    n_members = 0
    for member in range(GROUP):
        slot = own_slots[member]
        out_places[n_members] = first + member
        n_members += is_set(is_there, max(slot, 0)) & (slot >= 0)
    return n_members


@lean_kernel
def evaluate_group(
    cells: HistogramColumns,
    ranges: CellRangeColumns,
    slots: SlotColumns,
    clock: int,
    group: int,
    cell_sums: Longs,
    scratch: MemberScratch,
    n_found: int,
    out_places: Ints,
    out_weights: Longs,
) -> int:
    """List the members that reached their target, and schedule the next evaluation of the others.

    Returns the new number of listed members.
    """
    members, begins, ends, weights = scratch
    first, last = group * GROUP, (group + 1) * GROUP
    targets = ranges.target
    n_members = list_members(ranges.slot[first:last], slots.is_there, first, members)
    # Where many have left, the others are far apart in memory.
    for index in range(n_members):
        place = members[index]
        prefetch(ranges.begin, place)
        prefetch(ranges.end, place)
        prefetch(targets, place)
    for index in range(n_members):
        begins[index], ends[index] = ranges.begin[members[index]], ranges.end[members[index]]
    weigh_ranges(cells, cell_sums, begins[:n_members], ends[:n_members], weights)
    slack = LARGEST
    for index in range(n_members):
        place, weight = members[index], weights[index]
        target = targets[place]
        is_matured = target <= np.uint64(weight)
        out_places[n_found], out_weights[n_found] = place, weight
        n_found += is_matured
        slack = min(slack, LARGEST if is_matured else int(np.int64(target - np.uint64(weight))))
    reschedule_group(cells, ranges, clock, group, slack)
    return n_found


@lean_kernel
def list_due(
    cells: HistogramColumns, ranges: CellRangeColumns, clock: int, n_groups: int, out_groups: Ints
) -> int:
    """List the groups in which, by segment sums, some member may have matured; returns how many."""
    sum_segments(cells)
    half_due = ranges.half_due
    n_due = 0
    for first in range(0, n_groups, STRIDE):
        last = min(first + STRIDE, n_groups)
        n_half_due = 0
        for group in range(first, last):
            n_half_due += half_due[group] <= clock
        if n_half_due == 0:
            continue
        for group in range(first, last):
            if half_due[group] > clock:
                continue
            weight = weigh_segments(cells, ranges, group) - ranges.segment_base_weight[group]
            missing = ranges.slack[group] - weight
            if missing > 0:
                set_due(ranges.due, ranges.half_due, group, clock, missing)
            else:
                out_groups[n_due] = group
                n_due += 1
    return n_due


@lean_kernel
def record_events(
    cells: HistogramColumns,
    ranges: CellRangeColumns,
    pending: PendingColumns,
    values: Floats,
    event_weights: Longs,
    clock: int,
    n_groups: int,
    n_pending: int,
) -> int:
    """Do the work of `count_events`, with the columns unpacked."""
    count_segments(cells, values, event_weights, pending.cells[n_pending:])
    noted = pending.weights[n_pending:]
    for event in range(event_weights.shape[0]):
        noted[event] = event_weights[event]
    if clock < pending.due[0]:
        return 0
    n_due = list_due(cells, ranges, clock, n_groups, pending.groups)
    if n_due == 0:
        pending.due[0] = first_due(ranges)
    return n_due


@lean_kernel
def count_events(
    packed: ArgumentPack, values: Floats, event_weights: Longs, clock: int, n_groups: int, n_pending: int
) -> int:
    """Count events by segment and append them to the pending ones; if the clock is due, list the due groups.

    Returns how many groups are due; if none is, `pending.due` advances to the next time. One kernel does all
    this, because for a single event a call costs more than the work.
    """
    cells, ranges, pending = unpack(packed)
    return record_events(cells, ranges, pending, values, event_weights, clock, n_groups, n_pending)


@lean_kernel
def count_countable(
    packed: ArgumentPack, values: Floats, event_weights: Longs, clock: int, n_groups: int, n_pending: int
) -> tuple[int, int]:
    """Count events as `count_events` does, if all of them count and the clock does not overflow.

    `clock` is the one before them. Returns their weight, -1 if nothing was counted, and how many groups are
    due.
    """
    weight = weigh_countable(values, event_weights, LARGEST - clock)
    if weight < 0:
        return weight, 0
    return weight, count_events(packed, values, event_weights, clock + weight, n_groups, n_pending)


@lean_kernel
def first_due(ranges: CellRangeColumns) -> int:
    """The clock before which no member can mature."""
    first = LARGEST
    for group in range(ranges.due.shape[0]):
        first = min(first, ranges.due[group])
    return first


@lean_kernel
def absorb_pending(
    cells: HistogramColumns,
    ranges: CellRangeColumns,
    pending: PendingColumns,
    clock: int,
    n_pending: int,
    n_due: int,
) -> int:
    """Do the work of `narrow_due`, with the columns unpacked."""
    absorb_events(cells, pending.cells[:n_pending], pending.weights[:n_pending])
    sum_blocks(cells)
    groups = pending.groups
    n_left = 0
    for index in range(n_due):
        group = int(np.int64(groups[index]))
        slack = ranges.slack[group] - (weigh_cover(cells, ranges, group) - ranges.base_weight[group])
        if slack > 0:
            reschedule_group(cells, ranges, clock, group, slack)
        else:
            groups[n_left] = group
            n_left += 1
    return n_left


@lean_kernel
def narrow_due(packed: ArgumentPack, clock: int, n_pending: int, n_due: int) -> int:
    """Count the pending events by cell, and drop due groups whose cover sums show that no member matured.

    Returns how many groups are left.
    """
    cells, ranges, pending = unpack(packed)
    return absorb_pending(cells, ranges, pending, clock, n_pending, n_due)


@lean_kernel
def find_matured(
    packed: ArgumentPack,
    slots: SlotColumns,
    clock: int,
    first: int,
    n_due: int,
    cell_sums: Longs,
    scratch: MemberScratch,
    out_places: Ints,
    out_weights: Longs,
) -> tuple[int, int]:
    """List the members that reached their target, and what they hold, in the groups from `first` on.

    Returns the next group when the output is full, and how many members were listed. No event may be pending.
    """
    cells, ranges, pending = unpack(packed)
    n_found = 0
    while first < n_due and n_found + GROUP <= out_places.shape[0]:
        group = int(np.int64(pending.groups[first]))
        first += 1
        n_found = evaluate_group(
            cells, ranges, slots, clock, group, cell_sums, scratch, n_found, out_places, out_weights
        )
    return first, n_found


@lean_kernel
def fit_groups(
    cells: HistogramColumns,
    ranges: CellRangeColumns,
    slots: SlotColumns,
    clock: int,
    n_groups: int,
    cell_sums: Longs,
    scratch: MemberScratch,
) -> None:
    """Fit all groups to their members. No target may have been reached."""
    sum_blocks(cells)
    sum_segments(cells)
    bits = cells.segment_bits[0]
    for group in range(n_groups):
        begin, end = LARGEST, 0
        for place in range(group * GROUP, (group + 1) * GROUP):
            if ranges.slot[place] >= 0:
                begin, end = min(begin, ranges.begin[place]), max(end, ranges.end[place])
        if begin < end:
            ranges.cover_begin[group] = begin >> BLOCK_BITS
            ranges.cover_end[group] = ((end - 1) >> BLOCK_BITS) + 1
            ranges.segment_begin[group] = begin >> bits
            ranges.segment_end[group] = ((end - 1) >> bits) + 1
        evaluate_group(
            cells, ranges, slots, clock, group, cell_sums, scratch, 0, scratch.place, scratch.weight
        )


@lean_kernel
def pack_members(ranges: CellRangeColumns, slot_places: Ints, places: Ints) -> None:
    """Move the members at these ascending places to the first places, and update their slots."""
    n_places = places.shape[0]
    begins, ends, targets, slots = ranges.begin, ranges.end, ranges.target, ranges.slot
    for index in range(n_places):
        place = np.uint32(places[index])
        slot = slots[place]
        prefetch(slot_places, slots[np.uint32(places[min(index + PREFETCH_DISTANCE, n_places - 1)])])
        begins[index], ends[index] = begins[place], ends[place]
        targets[index], slots[index] = targets[place], slot
        slot_places[slot] = IN_CELLS + index


@lean_kernel
def weigh_members(
    cells: HistogramColumns, cell_sums: Longs, begins: Ints, ends: Ints, out_weights: Longs
) -> None:
    """Weight counted from each begin to each end."""
    sum_blocks(cells)
    weigh_ranges(cells, cell_sums, begins, ends, out_weights)
