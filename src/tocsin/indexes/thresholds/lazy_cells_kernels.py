"""Kernels of the cells: one-dimensional subscriptions over counters that lie between their bounds.

The bounds cut the line into cells, and each event adds its weight to the counter of its cell. What
a subscription holds is a difference of two sums over counters, at any time and whenever it was
registered, so nothing has to be kept of an event once it is counted. Sums are made when somebody
asks, from three levels: cells, blocks of cells, and spans of blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Bytes, Floats, Ints, Longs
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.thresholds.lazy_columns import (
    ABSORBED,
    CLOCK,
    GROUP,
    LARGEST,
    LENGTH,
    SILENT,
    LogColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.scan_kernels import Maturities

#: Bits of a cell's number that tell its place in its block, and of a block's that tell its place in its span.
BLOCK_BITS = 8
SPAN_BITS = 6
BLOCK = 1 << BLOCK_BITS
SPAN = 1 << SPAN_BITS
#: Edges that are compared with a value without a branch.
AHEAD = 4
#: Groups whose due times are compared at a time.
STRIDE = 64
#: `mark` of a free place: no sum is larger.
UNREACHABLE = 0xFFFFFFFFFFFFFFFF


class CellColumns(NamedTuple):
    """The line. Cell c holds the values with c edges at or below them."""

    #: float64 (edges + AHEAD,): where cells begin, ascending and distinct; then NaN.
    edges: Floats
    #: int32 (buckets + 1,): edges in the buckets before; a bucket is a piece of the line, all are equally long.
    bucket_edges: Ints
    #: float64 (2,): where buckets begin, and how many there are to a unit of length.
    bucket_scale: Floats
    #: int64 (blocks * BLOCK,): weight counted, by cell.
    weights: Longs
    #: int64 (blocks * BLOCK,): sum of the weights before the cell in its block, unless the block is dirty.
    sums: Longs
    #: int64 (blocks,): weight counted, by block.
    block_weights: Longs
    #: int64 (blocks,): sum of the weights before the block in its span, unless the span is dirty.
    block_sums: Longs
    #: int64 (spans,): weight counted, by span.
    span_weights: Longs
    #: int64 (spans,): sum of the weights before the span, as of the last `sum_spans`.
    span_sums: Longs
    #: uint8 (blocks,), (spans,): something was counted there since its sums were made.
    block_dirty: Bytes
    span_dirty: Bytes


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
    #: int64 (groups,): what the nearest member needed when the group was last looked at, or less.
    slack: Longs
    #: int64 (groups,): the weight of the cover then.
    base: Longs
    #: int64 (groups,): the clock before which no member can mature.
    due: Longs


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


@kernel
def find_bucket(value: float, floor: float, per_unit: float, n_buckets: int) -> int:
    """The bucket of a value: never a smaller one for a larger value."""
    place = (value - floor) * per_unit
    if place >= n_buckets:
        return n_buckets - 1
    return int(place) if place > 0 else 0


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
        low, value = out_cells[index], values[index]
        cell = low
        for ahead in range(AHEAD):
            cell += edges[low + ahead] <= value
        if cell == low + AHEAD:
            cell = search_edges(edges, cell, value)
        out_cells[index] = cell


@kernel
def absorb_events(cells: CellColumns, log: LogColumns, out_cells: Ints) -> None:
    """Count the events that are new in the log, and tell their cells."""
    first, last = log.state[ABSORBED], log.state[LENGTH]
    find_cells(cells, log.values[0, first:last], out_cells)
    weights, block_weights, span_weights = cells.weights, cells.block_weights, cells.span_weights
    block_dirty, span_dirty, log_weights = cells.block_dirty, cells.span_dirty, log.weights
    for event in range(first, last):
        cell, weight = out_cells[event - first], log_weights[event]
        block = cell >> BLOCK_BITS
        span = block >> SPAN_BITS
        weights[cell] += weight
        block_weights[block] += weight
        span_weights[span] += weight
        block_dirty[block] = 1
        span_dirty[span] = 1
    log.state[ABSORBED] = last


@kernel
def sum_spans(cells: CellColumns) -> None:
    """Bring the sums over blocks and spans up to date."""
    n_blocks = cells.block_weights.shape[0]
    total = 0
    for span in range(cells.span_weights.shape[0]):
        cells.span_sums[span] = total
        total += cells.span_weights[span]
        if cells.span_dirty[span]:
            cells.span_dirty[span] = 0
            part = 0
            for block in range(span << SPAN_BITS, min((span + 1) << SPAN_BITS, n_blocks)):
                cells.block_sums[block] = part
                part += cells.block_weights[block]


@kernel
def weight_before(cells: CellColumns, cell: int) -> int:
    """Weight counted in all cells before this one. Call `sum_spans` first."""
    block = cell >> BLOCK_BITS
    if cells.block_dirty[block]:
        cells.block_dirty[block] = 0
        part = 0
        for one in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS):
            cells.sums[one] = part
            part += cells.weights[one]
    return cells.span_sums[block >> SPAN_BITS] + cells.block_sums[block] + cells.sums[cell]


@kernel
def add_saturated(one: int, other: int) -> int:
    """The sum of two that are not negative, or the largest int64."""
    return one + other if one <= LARGEST - other else LARGEST


@kernel
def look_at_group(
    cells: CellColumns, ranges: RangeColumns, clock: int, group: int, out_places: Ints, n_found: int
) -> int:
    """List the members that have reached their mark, and work out when to look at the others again."""
    slack = LARGEST
    for place in range(group * GROUP, (group + 1) * GROUP):
        if ranges.slot[place] < 0:
            continue
        weight = weight_before(cells, ranges.end[place]) - weight_before(cells, ranges.begin[place])
        if ranges.mark[place] <= np.uint64(weight):
            out_places[n_found] = place
            n_found += 1
        else:
            slack = min(slack, np.int64(ranges.mark[place] - np.uint64(weight)))
    ranges.slack[group] = slack
    ranges.due[group] = add_saturated(clock, slack)
    return n_found


@kernel
def find_matured(
    cells: CellColumns, ranges: RangeColumns, log: LogColumns, n_groups: int, out_places: Ints
) -> int:
    """List the members that have reached their mark; how many they are."""
    sum_spans(cells)
    clock = log.state[CLOCK]
    n_found = 0
    for first in range(0, n_groups, STRIDE):
        last = min(first + STRIDE, n_groups)
        n_due = 0
        for group in range(first, last):
            n_due += ranges.due[group] <= clock
        if n_due == 0:
            continue
        for group in range(first, last):
            if ranges.due[group] > clock:
                continue
            cover = weight_before(cells, ranges.cover_end[group])
            cover -= weight_before(cells, ranges.cover_begin[group])
            weight = cover - ranges.base[group]
            if weight < ranges.slack[group]:
                ranges.due[group] = add_saturated(clock, ranges.slack[group] - weight)
            else:
                ranges.base[group] = cover
                n_found = look_at_group(cells, ranges, clock, group, out_places, n_found)
    return n_found


@kernel
def fit_groups(cells: CellColumns, ranges: RangeColumns, clock: int, first: int, last: int) -> None:
    """Make the groups from `first` to `last` what their members say. No mark may have been reached."""
    sum_spans(cells)
    no_places = np.empty(0, np.int32)
    for group in range(first, last):
        begin, end = cells.weights.shape[0] - 1, 0
        for place in range(group * GROUP, (group + 1) * GROUP):
            if ranges.slot[place] >= 0:
                begin = min(begin, ranges.begin[place])
                end = max(end, ranges.end[place])
        ranges.cover_begin[group], ranges.cover_end[group] = begin, max(begin, end)
        ranges.base[group] = weight_before(cells, max(begin, end)) - weight_before(cells, begin)
        look_at_group(cells, ranges, clock, group, no_places, 0)


@kernel
def weigh_places(cells: CellColumns, ranges: RangeColumns, places: Ints, out_weights: Longs) -> None:
    """Weight between begin and end of each of these members."""
    sum_spans(cells)
    for index in range(places.shape[0]):
        place = places[index]
        weight = weight_before(cells, ranges.end[place]) - weight_before(cells, ranges.begin[place])
        out_weights[index] = weight


@kernel
def build_wavelet(order: Ints, event_cells: Ints, weights: Longs, wavelet: Wavelet) -> None:
    """Sort the events, which come ordered by cell, level by level by the bits of their numbers."""
    n_levels, n_events = wavelet.zeros.shape[0], order.shape[0]
    wavelet.weights[0] = 0
    for index in range(n_events):
        wavelet.cells[index] = event_cells[order[index]]
        wavelet.weights[index + 1] = wavelet.weights[index] + weights[order[index]]
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
def find_crossing(wavelet: Wavelet, begin: int, end: int, target: int) -> tuple[int, int]:
    """The earliest event at which those from `begin` to `end` by cell weigh `target`.

    The event's number, and what they weigh up to and without it. All of them weigh at least `target`.
    """
    n_levels, n_events = wavelet.zeros.shape[0], wavelet.cells.shape[0]
    event, before = 0, 0
    for level in range(n_levels):
        weight = wavelet.zero_weights[level, end] - wavelet.zero_weights[level, begin]
        zeros_begin, zeros_end = wavelet.zeros[level, begin], wavelet.zeros[level, end]
        event <<= 1
        if before + weight >= target:
            begin, end = zeros_begin, zeros_end
        else:
            n_zeros = wavelet.zeros[level, n_events]
            begin, end = n_zeros + begin - zeros_begin, n_zeros + end - zeros_end
            before += weight
            event += 1
    return event, before


@kernel
def count_below(cells: Ints, cell: int) -> int:
    """How many of the ascending cells are below `cell`."""
    low, high = 0, cells.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if cells[middle] < cell:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def report_matured(
    cells: CellColumns,
    ranges: RangeColumns,
    slots: SlotColumns,
    log: LogColumns,
    wavelet: Wavelet,
    places: Ints,
    begin: int,
    out: Maturities,
) -> int:
    """Find where the members at `places` matured among the events just absorbed, and let them go on.

    Works from `begin` on; the first that found `out` too full.
    """
    n_events = wavelet.cells.shape[0]
    clock = log.state[CLOCK]
    first_event = log.state[ABSORBED] - n_events
    for index in range(begin, places.shape[0]):
        place = places[index]
        slot = ranges.slot[place]
        is_repeating = slots.is_repeating[slot]
        if out.n_rows[0] + (n_events if is_repeating else 1) > out.step.shape[0]:
            return index
        goal = max(slots.tau[slot], 1)
        held = weight_before(cells, ranges.end[place]) - weight_before(cells, ranges.begin[place])
        low, high = count_below(wavelet.cells, ranges.begin[place]), count_below(wavelet.cells, ranges.end[place])
        total = wavelet.weights[high] - wavelet.weights[low]
        # Of the events just absorbed, so much was counted towards the present goal before them …
        need = np.int64(ranges.mark[place] - np.uint64(held - total))
        reached = goal - need
        # … and so much of their weight has been spent on maturing.
        spent = 0
        while need <= total - spent:
            event, before = find_crossing(wavelet, low, high, spent + need)
            weight = log.weights[first_event + event]
            row = out.n_rows[0]
            out.step[row] = log.steps[first_event + event]
            out.subscription[row] = slot
            out.reached[row] = np.uint64(reached + before - spent) + np.uint64(weight)
            out.n_rows[0] += 1
            if not is_repeating:
                slots.place[slot] = SILENT
                slots.tau[slot] = add_saturated(reached + before - spent, weight)
                ranges.slot[place] = -1
                ranges.mark[place] = UNREACHABLE
                break
            spent = before + weight
            need, reached = goal, 0
        if is_repeating:
            need -= total - spent
            ranges.mark[place] = np.uint64(held) + np.uint64(need)
            group = place // GROUP
            ranges.slack[group] = min(ranges.slack[group], need)
            ranges.due[group] = min(ranges.due[group], add_saturated(clock, need))
    return places.shape[0]
