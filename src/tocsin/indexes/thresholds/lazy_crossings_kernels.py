"""Kernels that find the very event of a batch at which members of the cells have matured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.thresholds.lazy_cells_columns import RangeColumns, add_saturated, set_due
from tocsin.indexes.thresholds.lazy_columns import GROUP, SILENT, SlotColumns
from tocsin.indexes.thresholds.scan_kernels import Maturities


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
    #: int32 (members,): as `begin` and `end`, on the level that the search has come to.
    level_begin: Ints
    level_end: Ints


class Wavelet(NamedTuple):
    """The events of a batch by cell, each level sorted by one more bit of their arrival number.

    Row b of a level tells of the first b events in the level's order.
    """

    #: int64 (levels, events + 1, 2): how many of them have the level's bit clear, and what those weigh.
    zeros: Longs
    #: int64 (events + 1,): what the first events by cell weigh, bit or no bit.
    weights: Longs
    #: int32 (events,): cells, ascending.
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
        n_zeros = 0
        weight = 0
        for index in range(n_events):
            wavelet.zeros[level, index, 0] = n_zeros
            wavelet.zeros[level, index, 1] = weight
            is_zero = 1 - ((events[index] >> bit) & 1)
            n_zeros += is_zero
            weight += weights[events[index]] * is_zero
        wavelet.zeros[level, n_events, 0] = n_zeros
        wavelet.zeros[level, n_events, 1] = weight
        for index in range(n_events):
            event = events[index]
            before = wavelet.zeros[level, index, 0]
            is_one = (event >> bit) & 1
            others[n_zeros + index - before if is_one else before] = event
        events, others = others, events


@lean_kernel
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


@lean_kernel
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


@lean_kernel
def find_crossings(wavelet: Wavelet, crossings: Crossings, n_crossings: int) -> None:
    """Find the earliest event of the batch at which each of the first members' need is met.

    All members go down the levels together: a level's rows stay in the cache, and nobody waits.
    """
    n_levels, n_events = wavelet.zeros.shape[0], wavelet.cells.shape[0]
    spent, need, events, befores = crossings.spent, crossings.need, crossings.event, crossings.before
    begins, ends = crossings.level_begin, crossings.level_end
    for index in range(n_crossings):
        begins[index], ends[index] = crossings.begin[index], crossings.end[index]
        events[index], befores[index] = 0, 0
    for level in range(n_levels):
        zeros = wavelet.zeros[level]
        n_zeros = zeros[n_events, 0]
        for index in range(n_crossings):
            begin, end = begins[index], ends[index]
            zeros_begin, zeros_end = zeros[begin, 0], zeros[end, 0]
            weight = zeros[end, 1] - zeros[begin, 1]
            is_one = befores[index] + weight < spent[index] + need[index]
            begins[index] = n_zeros + begin - zeros_begin if is_one else zeros_begin
            ends[index] = n_zeros + end - zeros_end if is_one else zeros_end
            befores[index] += weight * is_one
            events[index] = 2 * events[index] + is_one


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
) -> int:
    """Report the first members once each; those that mature again go first, and how many they are.

    `out` has room for all of them.
    """
    find_crossings(wavelet, crossings, n_crossings)
    row, n_again = out.n_rows[0], 0
    for index in range(n_crossings):
        place, event = crossings.place[index], crossings.event[index]
        slot, weight, before = ranges.slot[place], weights[event], crossings.before[index]
        reached = crossings.reached[index] + before - crossings.spent[index]
        out.step[row] = steps[event]
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
