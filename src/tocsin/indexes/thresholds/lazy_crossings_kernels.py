"""Kernels that find the very event of a batch at which members of the cells have matured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.prefetch import prefetch
from tocsin.indexes.thresholds.lazy_cells_columns import RangeColumns, add_saturated, set_due
from tocsin.indexes.thresholds.lazy_columns import GROUP, SILENT, SlotColumns, is_set
from tocsin.indexes.thresholds.scan_kernels import Maturities

#: Events in a row that are compared with a cell without a branch.
PIECE = 4


class Crossings(NamedTuple):
    """Members that have matured, on the way to where: so few at a time that their columns fit the cache."""

    #: int32 (members,): their places and slots.
    place: Ints
    slot: Ints
    #: int32 (members,): what they hold of the batch, from the first event by cell to the one beyond the last.
    begin: Ints
    end: Ints
    #: int64 (members,): what that weighs, and how much of it has been spent on maturing already.
    total: Longs
    spent: Longs
    #: int64 (members,): weight missing when `spent` was, and weight there.
    need: Longs
    reached: Longs
    #: int32 (members,): which search is theirs. Neighbours who hold and need the same share one.
    search: Ints
    #: int32 (searches,): as `begin` and `end`, on the level that the search has come to.
    level_begin: Ints
    level_end: Ints
    #: int32 (searches,): the event at which the need is met, as far as its bits are known,
    event: Ints
    #: int64 (searches,): and how much of the need is left for it and those after it.
    rest: Longs


class Wavelet(NamedTuple):
    """The events of a batch by cell, each level sorted by one more bit of their arrival number.

    Row b of a level tells of the first b events in the level's order.
    """

    #: int32, int64 (levels, events + 1): how many of them have the level's bit clear, and what those weigh.
    zeros: Ints
    zero_weights: Longs
    #: int64 (events + 1,): what the first events by cell weigh, bit or no bit.
    weights: Longs
    #: int32 (events + PIECE,): cells, ascending; then the largest int32.
    cells: Ints
    #: int32 (pieces + 2,): events before each piece; a piece is 1 << `shift[0]` cells.
    starts: Ints
    #: int64 (1,): see `starts`.
    shift: Longs


@lean_kernel
def build_wavelet(order: Ints, others: Ints, weights: Longs, wavelet: Wavelet) -> None:
    """Sort the events, which come ordered by cell, level by level by the bits of their numbers.

    `others` is room for as many.
    """
    n_levels, n_events = wavelet.zeros.shape[0], order.shape[0]
    starts, shift = wavelet.starts, wavelet.shift[0]
    wavelet.weights[0] = 0
    for index in range(n_events):
        wavelet.weights[index + 1] = wavelet.weights[index] + weights[order[index]]
        starts[(wavelet.cells[index] >> shift) + 1] += 1
    for piece in range(starts.shape[0] - 1):
        starts[piece + 1] += starts[piece]
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
def count_below(wavelet: Wavelet, cell: int) -> int:
    """How many of the events are in cells below `cell`."""
    starts, cells = wavelet.starts, wavelet.cells
    first = int(np.int64(starts[min(cell >> wavelet.shift[0], starts.shape[0] - 2)]))
    # A piece rarely holds more events than that, so there is nothing to guess.
    count = first
    for index in range(first, first + PIECE):
        count += cells[index] < cell
    if count == first + PIECE:
        while cells[count] < cell:
            count += 1
    return count


@lean_kernel
def prepare_crossings(
    ranges: RangeColumns, slots: SlotColumns, wavelet: Wavelet, crossings: Crossings, n_crossings: int
) -> None:
    """Work out what the first members hold of the batch, and needed before it.

    Their `total` comes as all that they hold, and becomes what they hold of the batch.
    """
    places, own_slots, totals = crossings.place, crossings.slot, crossings.total
    event_weights = wavelet.weights
    # Simple loops: each keeps many loads from all over the memory under way.
    for index in range(n_crossings):
        slot = ranges.slot[places[index]]
        own_slots[index] = slot
        # What is written when they are reported.
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
        place, held = places[index], totals[index]
        total = event_weights[crossings.end[index]] - event_weights[crossings.begin[index]]
        need = np.int64(ranges.mark[place] - np.uint64(held - total))
        totals[index], crossings.spent[index] = total, 0
        crossings.need[index] = need
        crossings.reached[index] -= need
        # Should the member go on, it is from the weight that it holds now.
        ranges.mark[place] = np.uint64(held)


@lean_kernel
def begin_searches(crossings: Crossings, n_crossings: int) -> int:
    """Give each of the first members a search, at the first level; how many searches that makes."""
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
def find_crossings(wavelet: Wavelet, crossings: Crossings, n_crossings: int) -> None:
    """Find the earliest event of the batch at which each of the first members' need is met.

    All go down the levels together: a level's rows stay in the cache, and nobody waits.
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
    ranges: RangeColumns,
    slots: SlotColumns,
    weights: Longs,
    steps: Ints,
    clock: int,
    wavelet: Wavelet,
    crossings: Crossings,
    n_crossings: int,
    out: Maturities,
) -> tuple[int, int]:
    """Report the first members once each. Those that mature again go first.

    How many these are, and how many have matured for good. `out` has room for all of them.
    """
    find_crossings(wavelet, crossings, n_crossings)
    row, n_again, n_ended = out.n_rows[0], 0, 0
    for index in range(n_crossings):
        place, slot, search = crossings.place[index], crossings.slot[index], crossings.search[index]
        event, rest = crossings.event[search], crossings.rest[search]
        weight, need = weights[event], crossings.need[index]
        # Of what it needs, all but the rest came before this event.
        reached = crossings.reached[index] + need - rest
        out.step[row] = steps[event]
        out.subscription[row] = slot
        out.reached[row] = np.uint64(reached) + np.uint64(weight)
        row += 1
        if not is_set(slots.is_repeating, slot):
            slots.place[slot] = SILENT
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
            ranges.mark[place] += np.uint64(need)
            ranges.slack[group] = min(ranges.slack[group], need)
            set_due(ranges, group, clock, ranges.slack[group])
    out.n_rows[0] = row
    return n_again, n_ended
