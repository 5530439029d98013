"""Batch kernels: order members into tight groups, sweep boxes over events, and find crossing events.

*Grouping.* A group is evaluated as a whole, so its members should become due together: alike in their
bounds on each axis, and in their need. Members are split in halves, each time by the measure in which
they differ most, until a part fits into one group.

*Sweep.* Many two-dimensional boxes against many events in one pass. Events are entered in the order of the
first axis, into prefix sums over the second. A box holds what lies between its bounds on the second axis
when the pass leaves it, less what lay there when the pass entered it. An event and a box cost about the
same, however many there are of the other.

*Crossings.* A wavelet tree over a batch finds the event at which each matured member reached its threshold.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.intrinsics import prefetch
from tocsin.arrays.jit import inlined, kernel, lean_kernel
from tocsin.arrays.layout import Column, Size, empty
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.thresholds.deferred.cells_kernels import find_bucket
from tocsin.indexes.thresholds.deferred.common_kernels import add_saturated, is_set, set_due
from tocsin.indexes.thresholds.deferred.layout import GROUP, MATURED, CellRangeColumns, SlotColumns
from tocsin.indexes.thresholds.layout import Maturities

#: Rows sampled to find the column in which a part differs most.
SAMPLE = 1024
#: Capacity of the stack of parts: each split halves a part, so 64 suffice.
DEPTH = 64


@kernel
def swap_rows(keys: np.ndarray, order: Ints, one: int, other: int) -> None:
    """Exchange two rows."""
    for column in range(keys.shape[1]):
        keys[one, column], keys[other, column] = keys[other, column], keys[one, column]
    order[one], order[other] = order[other], order[one]


@kernel
def select_rows(
    keys: np.ndarray, order: Ints, column: int, begin: int, end: int, middle: int, picked: np.ndarray
) -> None:
    """Arrange rows from `begin` to `end` so that those before `middle` have the smaller keys."""
    low, high = begin, end - 1
    while low < high:
        # The median of nine divides more evenly than a single pivot.
        eighth = (high - low) // 8
        for index in range(9):
            key, place = keys[low + index * eighth, column], index
            while place > 0 and picked[place - 1] > key:
                picked[place] = picked[place - 1]
                place -= 1
            picked[place] = key
        pivot = picked[4]
        left, right = low, high
        while left <= right:
            while keys[left, column] < pivot:
                left += 1
            while keys[right, column] > pivot:
                right -= 1
            if left <= right:
                swap_rows(keys, order, left, right)
                left += 1
                right -= 1
        if middle <= right:
            high = right
        elif middle >= left:
            low = left
        else:
            return


@kernel
def choose_column(keys: np.ndarray, begin: int, end: int) -> int:
    """The column with the largest spread among these rows: a bound of an axis, or the missing weight.

    Spreads of bounds are relative to the extent of their axis. Large parts are sampled.
    """
    n_columns = keys.shape[1]
    smallest, largest = keys[begin].copy(), keys[begin].copy()
    for row in range(begin, end, max((end - begin) // SAMPLE, 1)):
        for column in range(n_columns):
            key = keys[row, column]
            smallest[column] = min(smallest[column], key)
            largest[column] = max(largest[column], key)
    best, best_spread = n_columns - 1, 0.0
    for column in range(n_columns):
        extent = largest[column]
        if column < n_columns - 1:
            # Columns come in pairs: where an axis' ranges begin and where they end.
            axis = column - column % 2
            extent = largest[axis + 1] - smallest[axis]
        spread = (largest[column] - smallest[column]) / extent if extent > 0 else 0.0
        if spread > best_spread:
            best, best_spread = column, spread
    return int(best)


@kernel
def order_rows(keys: np.ndarray, order: Ints) -> None:
    """Arrange `order` so that each run of GROUP rows is alike.

    `keys` is float32 (rows, 2 * axes + 1): low and high of each axis, and the need; finite. It is
    permuted too.
    """
    begins, ends = np.empty(DEPTH, np.int64), np.empty(DEPTH, np.int64)
    begins[0], ends[0] = 0, order.shape[0]
    n_open = 1
    picked = np.empty(9, np.float32)
    while n_open > 0:
        n_open -= 1
        begin, end = begins[n_open], ends[n_open]
        if end - begin <= GROUP:
            continue
        n_groups = (end - begin + GROUP - 1) // GROUP
        middle = begin + (n_groups + 1) // 2 * GROUP
        select_rows(keys, order, choose_column(keys, begin, end), begin, end, middle, picked)
        begins[n_open], ends[n_open] = begin, middle
        begins[n_open + 1], ends[n_open + 1] = middle, end
        n_open += 2


# The sweep.

#: Bits of a rank that are its place in its block, of a block's number that are its place in its span, and of
#: a span's that are its place in its reach: four levels of prefix sums.
BLOCK_BITS = 6
SPAN_BITS = 5
REACH_BITS = 5
#: Values that are compared with a bound without a branch.
AHEAD = 4


class ValueBuckets(NamedTuple):
    """The line of the events' values, cut into as many equal buckets as there are values."""

    #: float64 (2,): where buckets begin, and how many there are per unit of length.
    scale: Floats
    #: int32 (events + 2,): values before the bucket.
    begins: Ints


class SweepInput(NamedTuple):
    """Events in order of the first axis; boxes as ranks among the events."""

    #: int32 (events,): rank on the second axis.
    rank: Ints
    #: int64 (events,): weight.
    weight: Longs
    #: int32 (boxes,): events before the box on the first axis, and before its end.
    begin: Ints
    end: Ints
    #: int32 (boxes,): the same on the second axis.
    low: Ints
    high: Ints


@lean_kernel
def fill_value_buckets(values: Floats, buckets: ValueBuckets) -> None:
    """Cut the line of the ascending values into as many equal buckets, and record where each one begins."""
    n_values = buckets.begins.shape[0] - 2
    first, last = 0, n_values - 1
    while first < last and values[first] == -np.inf:
        first += 1
    while first < last and values[last] == np.inf:
        last -= 1
    floor = values[first] if n_values > 0 else 0.0
    length = values[last] / 2 - floor / 2 if n_values > 0 else 0.0
    per_unit = n_values / 2 / length if length > 0 else 1.0
    buckets.scale[0], buckets.scale[1] = floor, per_unit
    buckets.begins[0] = 0
    n_buckets = 1
    for index in range(n_values):
        bucket = find_bucket(values[index], floor, per_unit, n_values)
        while n_buckets <= bucket:
            buckets.begins[n_buckets] = index
            n_buckets += 1
    buckets.begins[n_buckets:] = n_values


@inlined
def find_rank(values: Floats, buckets: ValueBuckets, bound: float, is_high: bool) -> int:
    """How many of the ascending values are below the bound or, for a high one, not above it."""
    bucket = find_bucket(bound, buckets.scale[0], buckets.scale[1], buckets.begins.shape[0] - 2)
    begin, end = buckets.begins[bucket], buckets.begins[bucket + 1]
    # A bucket rarely holds more than that, so that branches are predicted well.
    rank = begin
    for index in range(begin, begin + AHEAD):
        rank += (values[index] < bound) | (is_high & (values[index] == bound))
    if rank == begin + AHEAD:
        while rank < end:
            middle = (rank + end) >> 1
            if values[middle] < bound or (is_high and values[middle] == bound):
                rank = middle + 1
            else:
                end = middle
    return int(rank)


@lean_kernel
def rank_bounds(
    values: Floats, buckets: ValueBuckets, lows: Floats, highs: Floats, out_low: Ints, out_high: Ints
) -> None:
    """How many of the ascending values are below each low, and how many are not above each high.

    Cost: about constant a bound where values are spread evenly, at worst the logarithm of their number.
    """
    fill_value_buckets(values, buckets)
    for box in range(lows.shape[0]):
        out_low[box] = find_rank(values, buckets, lows[box], False)
        out_high[box] = find_rank(values, buckets, highs[box], True)


@lean_kernel
def sort_boxes(ranks: Ints, out_starts: Ints, out_boxes: Ints) -> None:
    """Counting sort of the boxes by rank; those of rank r begin at `out_starts[r]`.

    `out_starts` has two extra entries, and is 0 on entry.
    """
    for box in range(ranks.shape[0]):
        out_starts[ranks[box] + 2] += 1
    for rank in range(out_starts.shape[0] - 1):
        out_starts[rank + 1] += out_starts[rank]
    for box in range(ranks.shape[0]):
        out_boxes[out_starts[ranks[box] + 1]] = box
        out_starts[ranks[box] + 1] += 1


@lean_kernel
def add_to(sums: Longs, weight: int) -> None:
    """Add a weight to all these sums. A plain loop is several times as fast as the NumPy expression."""
    for index in range(sums.shape[0]):
        sums[index] += weight


class SweepScratch(NamedTuple):
    """Working memory of a sweep, initially 0."""

    #: where in `boxes` the boxes that begin, and those that end, before an event are.
    starts: Annotated[Ints, Column(2, Size("events", plus=3))]
    #: the boxes by where they begin, and by where they end.
    boxes: Annotated[Ints, Column(2, "boxes")]
    #: weight entered before a rank in its block, before a block in its span, before a span in its
    #: reach, before a reach.
    sums: Annotated[Longs, Column(Size("blocks", times=1 << BLOCK_BITS))]
    block_sums: Annotated[Longs, Column(Size("spans", times=1 << SPAN_BITS))]
    span_sums: Annotated[Longs, Column(Size("reaches", times=1 << REACH_BITS))]
    reach_sums: Annotated[Longs, Column("reaches")]


def new_sweep_scratch(n_events: int, n_boxes: int) -> SweepScratch:
    """Working memory for this many events and boxes."""
    n_blocks = (n_events >> BLOCK_BITS) + 1
    n_spans = ((n_blocks - 1) >> SPAN_BITS) + 1
    n_reaches = ((n_spans - 1) >> REACH_BITS) + 1
    return empty(
        SweepScratch, events=n_events, boxes=n_boxes, blocks=n_blocks, spans=n_spans, reaches=n_reaches
    )


@lean_kernel
def sweep_boxes(sweep: SweepInput, scratch: SweepScratch, out_weights: Longs) -> None:
    """Add the weight of the events in each box."""
    ranks, weights, lows, highs = sweep.rank, sweep.weight, sweep.low, sweep.high
    starts, boxes, sums, block_sums, span_sums, reach_sums = scratch
    n_events = ranks.shape[0]
    sort_boxes(sweep.begin, starts[0], boxes[0])
    sort_boxes(sweep.end, starts[1], boxes[1])
    for event in range(n_events + 1):
        for is_end in range(2):
            for index in range(starts[is_end, event], starts[is_end, event + 1]):
                box = boxes[is_end, index]
                low, high = lows[box], highs[box]
                inside = sums[high] - sums[low]
                low, high = low >> BLOCK_BITS, high >> BLOCK_BITS
                inside += block_sums[high] - block_sums[low]
                low, high = low >> SPAN_BITS, high >> SPAN_BITS
                inside += span_sums[high] - span_sums[low]
                inside += reach_sums[high >> REACH_BITS] - reach_sums[low >> REACH_BITS]
                out_weights[box] += inside if is_end else -inside
        if event < n_events:
            rank, weight = ranks[event], weights[event]
            block = rank >> BLOCK_BITS
            span = block >> SPAN_BITS
            add_to(sums[rank + 1 : (block + 1) << BLOCK_BITS], weight)
            add_to(block_sums[block + 1 : (span + 1) << SPAN_BITS], weight)
            reach = span >> REACH_BITS
            add_to(span_sums[span + 1 : (reach + 1) << REACH_BITS], weight)
            add_to(reach_sums[reach + 1 :], weight)


# The crossings.

#: Events in a row that are compared with a cell without a branch.
BUCKET_SCAN = 4


class Crossings(NamedTuple):
    """Matured members whose crossing events are searched for: few at a time, so that they fit the cache."""

    #: int32 (members,): their places and slots.
    place: Ints
    slot: Ints
    #: int32 (members,): what they hold of the batch by cell, first event and first beyond.
    begin: Ints
    end: Ints
    #: int64 (members,): what that weighs, and how much of it was spent on earlier maturities.
    total: Longs
    spent: Longs
    #: int64 (members,): weight missing and weight reached when `spent` was.
    need: Longs
    reached: Longs
    #: int32 (members,): their search. Neighbours that hold and need the same share one.
    search: Ints
    #: int32 (searches,): as `begin` and `end`, on the current level of the search.
    level_begin: Ints
    level_end: Ints
    #: int32 (searches,): the leading bits of the event at which the need is met,
    event: Ints
    #: int64 (searches,): and how much of the need is left for it and those after it.
    rest: Longs


class WaveletTree(NamedTuple):
    """The events of a batch by cell, each level sorted by one more bit of their arrival number.

    Row b of a level describes the first b events in the level's order.
    """

    #: int32, int64 (levels, events + 1): how many of them have the level's bit clear, and what those weigh.
    zeros: Ints
    zero_weights: Longs
    #: int64 (events + 1,): what the first events by cell weigh.
    weights: Longs
    #: int32 (events + BUCKET_SCAN,): cells, ascending; then the largest int32.
    cells: Ints
    #: int32 (buckets + 2,): events before each bucket; a bucket is 1 << `shift[0]` cells.
    starts: Ints
    #: int64 (1,): see `starts`.
    shift: Longs


@lean_kernel
def build_wavelet(order: Ints, others: Ints, weights: Longs, wavelet: WaveletTree) -> None:
    """Sort the events, which are ordered by cell, level by level by the bits of their numbers.

    `others` is scratch of the same size.
    """
    n_levels, n_events = wavelet.zeros.shape[0], order.shape[0]
    starts, shift = wavelet.starts, wavelet.shift[0]
    wavelet.weights[0] = 0
    for index in range(n_events):
        wavelet.weights[index + 1] = wavelet.weights[index] + weights[order[index]]
        starts[(wavelet.cells[index] >> shift) + 1] += 1
    for bucket in range(starts.shape[0] - 1):
        starts[bucket + 1] += starts[bucket]
    events = order
    for level in range(n_levels):
        bit = n_levels - 1 - level
        zeros, zero_weights = wavelet.zeros[level], wavelet.zero_weights[level]
        n_zeros = 0
        weight = 0
        for index in range(n_events):
            zeros[index], zero_weights[index] = n_zeros, weight
            is_zero = 1 - ((events[index] >> bit) & 1)
            n_zeros += is_zero
            weight += weights[events[index]] * is_zero
        zeros[n_events], zero_weights[n_events] = n_zeros, weight
        for index in range(n_events):
            event = events[index]
            before = zeros[index]
            is_one = (event >> bit) & 1
            others[n_zeros + index - before if is_one else before] = event
        events, others = others, events


@lean_kernel
def count_below(wavelet: WaveletTree, cell: int) -> int:
    """How many of the events are in cells below `cell`."""
    starts, cells = wavelet.starts, wavelet.cells
    first = int(np.int64(starts[min(cell >> wavelet.shift[0], starts.shape[0] - 2)]))
    # A bucket rarely holds more events than that, so that branches are predicted well.
    count = first
    for index in range(first, first + BUCKET_SCAN):
        count += cells[index] < cell
    if count == first + BUCKET_SCAN:
        while cells[count] < cell:
            count += 1
    return count


@lean_kernel
def prepare_crossings(
    ranges: CellRangeColumns, slots: SlotColumns, wavelet: WaveletTree, crossings: Crossings, n_crossings: int
) -> None:
    """Compute what the first members hold of the batch, and what they needed before it.

    On entry `total` is all that they hold; on return, what they hold of the batch.
    """
    places, own_slots, totals = crossings.place, crossings.slot, crossings.total
    event_weights = wavelet.weights
    # Simple loops: each keeps many scattered loads in flight.
    for index in range(n_crossings):
        slot = ranges.slot[places[index]]
        own_slots[index] = slot
        # Written when they are reported.
        prefetch(slots.place, slot)
    for index in range(n_crossings):
        crossings.reached[index] = max(slots.tau[own_slots[index]], 1)
    last_begin, last_end = np.int32(-1), np.int32(-1)
    begin, end = 0, 0
    for index in range(n_crossings):
        begin_cell, end_cell = ranges.begin[places[index]], ranges.end[places[index]]
        if begin_cell != last_begin or end_cell != last_end:
            begin, end = count_below(wavelet, begin_cell), count_below(wavelet, end_cell)
            last_begin, last_end = begin_cell, end_cell
        crossings.begin[index], crossings.end[index] = begin, end
    for index in range(n_crossings):
        place, inside = places[index], totals[index]
        total = event_weights[crossings.end[index]] - event_weights[crossings.begin[index]]
        need = np.int64(ranges.target[place] - np.uint64(inside - total))
        totals[index], crossings.spent[index] = total, 0
        crossings.need[index] = need
        crossings.reached[index] -= need
        # A repeating member continues from the weight that it holds now.
        ranges.target[place] = np.uint64(inside)


@lean_kernel
def begin_searches(crossings: Crossings, n_crossings: int) -> int:
    """Assign the first members to searches, at the first level; returns how many searches."""
    begins, ends, rests = crossings.level_begin, crossings.level_end, crossings.rest
    n_searches = 0
    last_begin, last_end, last_rest = np.int32(-1), np.int32(-1), np.int64(-1)
    for index in range(n_crossings):
        begin, end = crossings.begin[index], crossings.end[index]
        rest = crossings.spent[index] + crossings.need[index]
        n_searches += (begin != last_begin) | (end != last_end) | (rest != last_rest)
        begins[n_searches - 1], ends[n_searches - 1], rests[n_searches - 1] = begin, end, rest
        crossings.search[index] = n_searches - 1
        last_begin, last_end, last_rest = begin, end, rest
    crossings.event[:n_searches] = 0
    return n_searches


@lean_kernel
def find_crossings(wavelet: WaveletTree, crossings: Crossings, n_crossings: int) -> None:
    """Find the earliest event of the batch at which each of the first members' needs is met.

    All searches descend together: a level's rows stay in the cache, and loads overlap.
    """
    n_levels, n_events = wavelet.zeros.shape[0], wavelet.weights.shape[0] - 1
    begins, ends, events = crossings.level_begin, crossings.level_end, crossings.event
    rests = crossings.rest
    n_searches = begin_searches(crossings, n_crossings)
    for level in range(n_levels):
        zeros, zero_weights = wavelet.zeros[level], wavelet.zero_weights[level]
        n_zeros = zeros[n_events]
        for index in range(n_searches):
            begin, end = np.uint32(begins[index]), np.uint32(ends[index])
            zeros_begin, zeros_end = zeros[begin], zeros[end]
            weight, rest = zero_weights[end] - zero_weights[begin], rests[index]
            is_one = weight < rest
            begins[index] = n_zeros + begins[index] - zeros_begin if is_one else zeros_begin
            ends[index] = n_zeros + ends[index] - zeros_end if is_one else zeros_end
            rests[index] = rest - weight if is_one else rest
            events[index] = (events[index] << np.int32(1)) | np.int32(is_one)


@lean_kernel
def report_crossings(
    ranges: CellRangeColumns,
    slots: SlotColumns,
    weights: Longs,
    steps: Ints,
    clock: int,
    wavelet: WaveletTree,
    crossings: Crossings,
    n_crossings: int,
    out: Maturities,
) -> tuple[int, int]:
    """Report the first members once each, and move those that mature again to the front.

    Returns how many these are, and how many have matured for good. `out` must have capacity for all.
    """
    find_crossings(wavelet, crossings, n_crossings)
    row, n_again, n_ended = out.n_rows[0], 0, 0
    for index in range(n_crossings):
        place, slot, search = crossings.place[index], crossings.slot[index], crossings.search[index]
        event, rest = crossings.event[search], crossings.rest[search]
        weight, need = weights[event], crossings.need[index]
        # All of the need but `rest` arrived before this event.
        reached = crossings.reached[index] + need - rest
        out.step[row] = steps[event]
        out.subscription[row] = slot
        out.reached[row] = np.uint64(reached) + np.uint64(weight)
        row += 1
        if not is_set(slots.is_repeating, slot):
            slots.place[slot] = MATURED
            slots.tau[slot] = add_saturated(reached, weight)
            ranges.slot[place] = -1
            n_ended += 1
            continue
        spent = crossings.spent[index] + need - rest + weight
        need, total = max(slots.tau[slot], 1), crossings.total[index]
        if need <= total - spent:
            crossings.place[n_again], crossings.slot[n_again] = place, slot
            crossings.begin[n_again], crossings.end[n_again] = crossings.begin[index], crossings.end[index]
            crossings.total[n_again], crossings.spent[n_again] = total, spent
            crossings.need[n_again], crossings.reached[n_again] = need, 0
            n_again += 1
        else:
            need -= total - spent
            group = int(np.int64(place // GROUP))
            ranges.target[place] += np.uint64(need)
            ranges.slack[group] = min(ranges.slack[group], need)
            set_due(ranges.due, ranges.half_due, group, clock, ranges.slack[group])
    out.n_rows[0] = row
    return n_again, n_ended
