"""Kernels of the cells: one-dimensional subscriptions over counters that lie between their bounds.

The bounds cut the line into cells, and each event adds its weight to the counter of its cell. What
a subscription holds is a difference of two sums over counters, at any time and whenever it was
registered, so nothing has to be kept of an event once it is counted. Sums are made when somebody
asks, from two levels: cells, and blocks of cells.

Cells are many, and an event's is rarely in the cache. So events are first counted by *stretch*, of
which there are few, and into the cells only when that cannot rule out that somebody has matured:
then many at a time, for which it pays to fetch the cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bytes, Floats, Ints, Longs
from tocsin.indexes.shared.jit import inlined, lean_kernel
from tocsin.indexes.shared.kept import Kept, opened
from tocsin.indexes.shared.prefetch import prefetch
from tocsin.indexes.thresholds.lazy_cells_columns import (
    AHEAD,
    BLOCK,
    BLOCK_BITS,
    EVEN,
    CellColumns,
    LateColumns,
    RangeColumns,
    set_due,
)
from tocsin.indexes.thresholds.lazy_columns import (
    GROUP,
    IN_CELLS,
    LARGEST,
    SlotColumns,
    find_bucket,
    is_set,
    weigh_plain,
)

#: How far ahead what is written to is fetched.
AHEAD_OF_IT = 16
#: Groups whose due times are compared at a time.
STRIDE = 64


class Looks(NamedTuple):
    """Members of a group that is looked at."""

    #: int32 (GROUP,): their places, and where their cells begin and end.
    place: Ints
    begin: Ints
    end: Ints
    #: int64 (GROUP,): the weight of these.
    held: Longs


@lean_kernel
def fill_buckets(cells: CellColumns) -> None:
    """Count the edges of each bucket, and add up."""
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
    """Whether all finite bounds are whole multiples of a unit, of which there are so many to 1; and the
    numbers of the first and the last. Without any they are none.
    """
    first, last = np.inf, -np.inf
    n_off = 0
    # Nothing is decided on the way: so it is done for several bounds at a time.
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
def find_ticks(cells: CellColumns, values: Floats, out_cells: Ints) -> None:
    """As `find_cells`, where edges lie at ticks."""
    per_unit, first = cells.tick_scale[0], 2.0 - 2.0 * cells.tick_scale[1]
    last = float(cells.edges.shape[0] - AHEAD)
    # All in doubles, and each choice by itself: so it is done for several values at a time.
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
def find_cells(cells: CellColumns, values: Floats, out_cells: Ints) -> None:
    """The number of edges that are not above each value. Cost: mostly constant a value."""
    if cells.tick_scale[0] > 0:
        find_ticks(cells, values, out_cells)
        return
    edges, buckets = cells.edges, cells.bucket_edges
    floor, per_unit = cells.bucket_scale[0], cells.bucket_scale[1]
    n_buckets, n_values = buckets.shape[0] - 1, values.shape[0]
    # Three loops, each simple enough to keep many loads under way.
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
def count_stretches(cells: CellColumns, values: Floats, event_weights: Longs, out_cells: Ints) -> None:
    """Count events by stretch, and tell their cells."""
    find_cells(cells, values, out_cells)
    weights, bits = cells.stretch_weights, np.uint32(cells.stretch_bits[0])
    for event in range(values.shape[0]):
        # Unsigned: else each index is held against 0.
        weights[np.uint32(out_cells[event]) >> bits] += event_weights[event]


@lean_kernel
def absorb_events(cells: CellColumns, event_cells: Ints, event_weights: Longs) -> None:
    """Count events, of which the stretches know, into the cells."""
    weights, block_weights = cells.weights, cells.block_weights
    for event in range(event_cells.shape[0]):
        cell, weight = np.uint32(event_cells[event]), event_weights[event]
        block, place = cell >> np.uint32(BLOCK_BITS), cell & np.uint32(BLOCK - 1)
        weights[block, place & np.uint32(1), place >> np.uint32(1)] += weight
        block_weights[block] += weight


@lean_kernel
def sum_blocks(cells: CellColumns) -> None:
    """Bring the sums over blocks up to date."""
    total = 0
    for block in range(cells.block_weights.shape[0]):
        total += cells.block_weights[block]
        cells.block_sums[block + 1] = total


@lean_kernel
def sum_stretches(cells: CellColumns) -> None:
    """Bring the sums over stretches up to date."""
    total = 0
    for stretch in range(cells.stretch_weights.shape[0]):
        total += cells.stretch_weights[stretch]
        cells.stretch_sums[stretch + 1] = total


@lean_kernel
def weigh_cells(weights: Longs, cell: int) -> int:
    """Weight of the cells of its block that come before this one."""
    block, place = cell >> BLOCK_BITS, cell & (BLOCK - 1)
    n_even, n_odd = (place + 1) >> 1, place >> 1
    weight = 0
    # As many steps for any cell: they are done side by side, and nothing has to be guessed.
    for index in range(EVEN):
        weight += weights[block, 0, index] if index < n_even else 0
        weight += weights[block, 1, index] if index < n_odd else 0
    return weight


@lean_kernel
def sum_cells(cells: CellColumns, out_sums: Longs) -> None:
    """The weight before each cell. Pays where many ask."""
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
def weigh_ranges(cells: CellColumns, cell_sums: Longs, begins: Ints, ends: Ints, out_weights: Longs) -> None:
    """Weight counted from each begin to each end. Call `sum_blocks` first, or `sum_cells` to have sums."""
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
def weigh_cover(cells: CellColumns, ranges: RangeColumns, group: int) -> int:
    """Weight of the blocks that the group's members meet. Call `sum_blocks` first."""
    sums = cells.block_sums
    return int(sums[ranges.cover_end[group]] - sums[ranges.cover_begin[group]])


@lean_kernel
def weigh_stretches(cells: CellColumns, ranges: RangeColumns, group: int) -> int:
    """Weight of the stretches that the group's members meet. Call `sum_stretches` first."""
    sums = cells.stretch_sums
    return int(sums[ranges.stretch_end[group]] - sums[ranges.stretch_begin[group]])


@lean_kernel
def rest_group(cells: CellColumns, ranges: RangeColumns, clock: int, group: int, slack: int) -> None:
    """The group needs `slack` from now on: work out when to check it again."""
    ranges.slack[group] = slack
    ranges.base[group] = weigh_cover(cells, ranges, group)
    ranges.stretch_base[group] = weigh_stretches(cells, ranges, group)
    set_due(ranges, group, clock, slack)


@inlined
def list_members(own_slots: Ints, is_there: Bytes, first: int, out_places: Ints) -> int:
    """List the places from `first` on whose slots hold a subscription; how many they are.

    Without a branch, which would be guessed wrong all the time.
    """
    n_members = 0
    for member in range(GROUP):
        slot = own_slots[member]
        out_places[n_members] = first + member
        n_members += is_set(is_there, max(slot, 0)) & (slot >= 0)
    return n_members


@lean_kernel
def look_at_group(
    cells: CellColumns,
    ranges: RangeColumns,
    slots: SlotColumns,
    clock: int,
    group: int,
    cell_sums: Longs,
    looks: Looks,
    n_found: int,
    out_places: Ints,
    out_held: Longs,
) -> int:
    """List the members that have reached their mark, and work out when to look at the others again."""
    members, begins, ends, held = looks
    first, last = group * GROUP, (group + 1) * GROUP
    marks = ranges.mark
    n_members = list_members(ranges.slot[first:last], slots.is_there, first, members)
    # Where many have gone, the others are far apart.
    for index in range(n_members):
        place = members[index]
        prefetch(ranges.begin, place)
        prefetch(ranges.end, place)
        prefetch(marks, place)
    for index in range(n_members):
        begins[index], ends[index] = ranges.begin[members[index]], ranges.end[members[index]]
    weigh_ranges(cells, cell_sums, begins[:n_members], ends[:n_members], held)
    slack = LARGEST
    for index in range(n_members):
        place, weight = members[index], held[index]
        mark = marks[place]
        is_matured = mark <= np.uint64(weight)
        out_places[n_found], out_held[n_found] = place, weight
        n_found += is_matured
        slack = min(slack, LARGEST if is_matured else int(np.int64(mark - np.uint64(weight))))
    rest_group(cells, ranges, clock, group, slack)
    return n_found


@lean_kernel
def list_due(cells: CellColumns, ranges: RangeColumns, clock: int, n_groups: int, out_groups: Ints) -> int:
    """List the groups in which some member may have matured, as far as stretches tell; how many they are."""
    sum_stretches(cells)
    ripe = ranges.ripe
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
            missing = ranges.slack[group] - weight
            if missing > 0:
                set_due(ranges, group, clock, missing)
            else:
                out_groups[n_due] = group
                n_due += 1
    return n_due


@lean_kernel
def note_events(
    cells: CellColumns,
    ranges: RangeColumns,
    late: LateColumns,
    values: Floats,
    event_weights: Longs,
    clock: int,
    n_groups: int,
    n_late: int,
) -> int:
    """As `count_events`."""
    count_stretches(cells, values, event_weights, late.cells[n_late:])
    noted = late.weights[n_late:]
    for event in range(event_weights.shape[0]):
        noted[event] = event_weights[event]
    if clock < late.due[0]:
        return 0
    n_due = list_due(cells, ranges, clock, n_groups, late.groups)
    if n_due == 0:
        late.due[0] = first_due(ranges)
    return n_due


@lean_kernel
def count_events(
    kept: Kept, values: Floats, event_weights: Longs, clock: int, n_groups: int, n_late: int
) -> int:
    """Count events by stretch and note them after the late ones; list who may have matured if someone is due.

    How many groups that are; without any, `due` is set to when the next one is. All in one call, because for
    a single event a call costs more than the work.
    """
    cells, ranges, late = opened(kept)
    return note_events(cells, ranges, late, values, event_weights, clock, n_groups, n_late)


@lean_kernel
def count_plain(
    kept: Kept, values: Floats, event_weights: Longs, clock: int, n_groups: int, n_late: int
) -> tuple[int, int]:
    """As `count_events`, from this clock on, if all events count and the clock has room; tells their weight.

    Else that is -1, and nothing is counted.
    """
    weight = weigh_plain(values, event_weights, LARGEST - clock)
    if weight < 0:
        return weight, 0
    return weight, count_events(kept, values, event_weights, clock + weight, n_groups, n_late)


@lean_kernel
def first_due(ranges: RangeColumns) -> int:
    """The clock before which no member can mature."""
    first = LARGEST
    for group in range(ranges.due.shape[0]):
        first = min(first, ranges.due[group])
    return first


@lean_kernel
def absorb_late(
    cells: CellColumns, ranges: RangeColumns, late: LateColumns, clock: int, n_late: int, n_due: int
) -> int:
    """As `narrow_due`."""
    absorb_events(cells, late.cells[:n_late], late.weights[:n_late])
    sum_blocks(cells)
    groups = late.groups
    n_left = 0
    for index in range(n_due):
        group = int(np.int64(groups[index]))
        slack = ranges.slack[group] - (weigh_cover(cells, ranges, group) - ranges.base[group])
        if slack > 0:
            rest_group(cells, ranges, clock, group, slack)
        else:
            groups[n_left] = group
            n_left += 1
    return n_left


@lean_kernel
def narrow_due(kept: Kept, clock: int, n_late: int, n_due: int) -> int:
    """Absorb the late events; then move those of the first groups to the front in which some member may have
    matured, as far as covers tell. How many they are.
    """
    cells, ranges, late = opened(kept)
    return absorb_late(cells, ranges, late, clock, n_late, n_due)


@lean_kernel
def find_matured(
    kept: Kept,
    slots: SlotColumns,
    clock: int,
    first: int,
    n_due: int,
    cell_sums: Longs,
    looks: Looks,
    out_places: Ints,
    out_held: Longs,
) -> tuple[int, int]:
    """List the members that have reached their mark, and what they hold, in the groups from `first` on.

    How many groups are through when there is no room for more, and how many members that gave. All events
    have been absorbed.
    """
    cells, ranges, late = opened(kept)
    n_found = 0
    while first < n_due and n_found + GROUP <= out_places.shape[0]:
        group = int(np.int64(late.groups[first]))
        first += 1
        n_found = look_at_group(
            cells, ranges, slots, clock, group, cell_sums, looks, n_found, out_places, out_held
        )
    return first, n_found


@lean_kernel
def fit_groups(
    cells: CellColumns,
    ranges: RangeColumns,
    slots: SlotColumns,
    clock: int,
    n_groups: int,
    cell_sums: Longs,
    looks: Looks,
) -> None:
    """Make all groups what their members say. No mark may have been reached."""
    sum_blocks(cells)
    sum_stretches(cells)
    bits = cells.stretch_bits[0]
    for group in range(n_groups):
        begin, end = LARGEST, 0
        for place in range(group * GROUP, (group + 1) * GROUP):
            if ranges.slot[place] >= 0:
                begin, end = min(begin, ranges.begin[place]), max(end, ranges.end[place])
        if begin < end:
            ranges.cover_begin[group] = begin >> BLOCK_BITS
            ranges.cover_end[group] = ((end - 1) >> BLOCK_BITS) + 1
            ranges.stretch_begin[group] = begin >> bits
            ranges.stretch_end[group] = ((end - 1) >> bits) + 1
        look_at_group(cells, ranges, slots, clock, group, cell_sums, looks, 0, looks.place, looks.held)


@lean_kernel
def pack_members(ranges: RangeColumns, slot_places: Ints, places: Ints) -> None:
    """Move the members at these places, which ascend, to the first ones, and let their slots know."""
    n_places = places.shape[0]
    begins, ends, marks, slots = ranges.begin, ranges.end, ranges.mark, ranges.slot
    for index in range(n_places):
        place = np.uint32(places[index])
        slot = slots[place]
        prefetch(slot_places, slots[np.uint32(places[min(index + AHEAD_OF_IT, n_places - 1)])])
        begins[index], ends[index] = begins[place], ends[place]
        marks[index], slots[index] = marks[place], slot
        slot_places[slot] = IN_CELLS + index


@lean_kernel
def weigh_members(cells: CellColumns, cell_sums: Longs, begins: Ints, ends: Ints, out_weights: Longs) -> None:
    """Weight counted from each begin to each end."""
    sum_blocks(cells)
    weigh_ranges(cells, cell_sums, begins, ends, out_weights)
