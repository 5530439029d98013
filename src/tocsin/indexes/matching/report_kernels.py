"""Kernels that bring matches into the order of changes: by event, then by slot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.jit import kernel, lean_kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.matching.layout import N_ROWS, N_RUNS, IdOrder, Matches, MatchHeaps
from tocsin.indexes.matching.score_kernels import offer_match, report_best

#: Up to this many matches are sorted by insertion.
INSERTION_SORT_MAX = 48
#: Bits of half a word: a slot and a row in one.
HALF = 32


class Runs(NamedTuple):
    """Runs of matches, each of one event, grouped by event."""

    #: int64 (events + 1,): the first run of each event
    first: Longs
    #: int64 (runs,): where each begins and ends among the matches found
    begin: Longs
    end: Longs
    #: int64 (events + 1,): the first row of each event in the result
    row: Longs


class MatchSortBuffer(NamedTuple):
    """Collects matches of a few events and sorts them by slot. Slots have `2 * bits` bits at most."""

    #: int32, float64 and uint64 (rows,): slots and scores; and scratch of the radix sort
    slot: Ints
    score: Floats
    scratch: NDArray[np.uint64]
    #: int32 (2, 2 ** bits): counts by the lower, and by the upper bits of slots
    digit_count: Ints
    bits: int


@lean_kernel
def group_runs(found: Matches, n_events: Whole, runs: Runs) -> None:
    """Group the runs in `found` by event."""
    event_of, begin_of, first, rows = found.step, found.rank, runs.first, runs.row
    n_runs, n_rows = found.progress[N_RUNS], found.progress[N_ROWS]
    for event in range(n_events + 1):
        first[event] = rows[event] = 0
    for run in range(n_runs):
        first[event_of[run] + 1] += 1
    for event in range(1, n_events + 1):
        first[event] += first[event - 1]
    for run in range(n_runs):
        event = event_of[run]
        begin, end = np.int64(begin_of[run]), n_rows if run + 1 == n_runs else np.int64(begin_of[run + 1])
        runs.begin[first[event]], runs.end[first[event]] = begin, end
        first[event] += 1
        rows[event + 1] += end - begin
    # Each start has advanced to the next one.
    for event in range(n_events, 0, -1):
        first[event] = first[event - 1]
    first[0] = 0
    for event in range(1, n_events + 1):
        rows[event] += rows[event - 1]


@lean_kernel
def place_rows(
    sort_buffer: MatchSortBuffer, begin: Whole, size: Whole, base: Whole, out_slot: Ints, out_score: Floats
) -> None:
    """Write the matches of an event from the sort buffer, ordered by slot, from row `base` on.

    Cost: linear, and a table of 2 √slots.
    """
    slot, score, scratch = sort_buffer.slot, sort_buffer.score, sort_buffer.scratch
    is_sorted = True
    for row in range(begin + 1, begin + size):
        is_sorted &= slot[row - 1] < slot[row]
    if is_sorted:
        for row in range(size):
            out_slot[base + row] = slot[begin + row]
        for row in range(size):
            out_score[base + row] = score[begin + row]
        return
    if size <= INSERTION_SORT_MAX:
        for number in range(size):
            one, hole = slot[begin + number], base + number
            while hole > base and out_slot[hole - 1] > one:
                out_slot[hole], out_score[hole] = out_slot[hole - 1], out_score[hole - 1]
                hole -= 1
            out_slot[hole], out_score[hole] = one, score[begin + number]
        return
    # Radix sort by the lower half of the bits, then by the upper one. Unsigned indexes: a signed one may be
    # negative, which costs a check at each use.
    low, high, shift, half = (
        sort_buffer.digit_count[0],
        sort_buffer.digit_count[1],
        np.uint32(sort_buffer.bits),
        np.uint64(HALF),
    )
    mask, first = np.uint32(low.shape[0] - 1), np.uint64(begin)
    low[:] = 0
    high[:] = 0
    for row in range(first, first + np.uint64(size)):
        one = np.uint32(slot[row])
        low[one & mask] += 1
        high[one >> shift] += 1
    n_low, n_high = np.int32(0), np.int32(base)
    for digit in range(np.uint32(low.shape[0])):
        more_low, more_high = low[digit], high[digit]
        low[digit], high[digit] = n_low, n_high
        n_low, n_high = np.int32(n_low + more_low), np.int32(n_high + more_high)
    # A slot and the row of its score in one word: half as much to move.
    for row in range(first, first + np.uint64(size)):
        one = np.uint32(slot[row])
        to = np.uint32(low[one & mask])
        low[one & mask] = to + np.uint32(1)
        scratch[to] = (np.uint64(one) << half) | np.uint64(row)
    for row in range(np.uint64(size)):
        one, at = np.uint32(scratch[row] >> half), scratch[row] & np.uint64((1 << HALF) - 1)
        to = np.uint32(high[one >> shift])
        high[one >> shift] = to + np.uint32(1)
        out_slot[to], out_score[to] = one, score[at]


@lean_kernel
def sort_matches(found: Matches, runs: Runs, sort_buffer: MatchSortBuffer, out: Matches) -> None:
    """Write all matches, by event and then by slot; the sort buffer has capacity for those of any event."""
    there = MatchSortBuffer(
        found.subscription, found.score, sort_buffer.scratch, sort_buffer.digit_count, sort_buffer.bits
    )
    for event in range(runs.row.shape[0] - 1):
        base = runs.row[event]
        size = runs.row[event + 1] - base
        out.step[base : base + size] = event
        if runs.first[event + 1] - runs.first[event] == 1:
            # A single run is sorted in place.
            place_rows(there, runs.begin[runs.first[event]], size, base, out.subscription, out.score)
            continue
        place = np.int64(0)
        for run in range(runs.first[event], runs.first[event + 1]):
            for row in range(runs.begin[run], runs.end[run]):
                sort_buffer.slot[place], sort_buffer.score[place] = found.subscription[row], found.score[row]
                place += 1
        place_rows(sort_buffer, np.int64(0), size, base, out.subscription, out.score)


@lean_kernel
def write_steps(found: Matches, out_step: Ints) -> None:
    """Write the event of each match, if there is one run for each event, in order."""
    n_runs, n_rows = found.progress[N_RUNS], found.progress[N_ROWS]
    for run in range(n_runs):
        end = n_rows if run + 1 == n_runs else np.int64(found.rank[run + 1])
        out_step[found.rank[run] : end] = found.step[run]


@kernel
def offer_matches(step: Ints, slot: Ints, score: Floats, begin: int, best: MatchHeaps, ids: IdOrder) -> None:
    """Offer matches of another index to the heaps of their events, the first of which is `begin`."""
    for row in range(step.shape[0]):
        offer_match(best, np.int64(step[row] - begin), np.int64(slot[row]), score[row], ids)


@kernel
def report_heaps(best: MatchHeaps, begin: int, end: int, ids: IdOrder, out: Matches) -> None:
    """Empty the heaps of events from `begin` on into the report, which has the capacity."""
    for event in range(begin, end):
        report_best(best, event - begin, event, ids, out)
