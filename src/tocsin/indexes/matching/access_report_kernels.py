"""Kernels of this room: from what was found to the order in which it is told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.matching.common_kernels import (
    N_ROWS,
    N_RUNS,
    Best,
    IdOrder,
    Matches,
    offer_match,
    report_best,
)
from tocsin.indexes.shared.jit import kernel, lean_kernel
from tocsin.indexes.shared.names_kernels import Whole

#: So few matches are sorted by insertion.
SHORT = 48
#: Two numbers of so many bits are a word.
HALF = 32


class Runs(NamedTuple):
    """Runs of matches, each of one event: the runs of each event together."""

    #: int64 (events + 1,): the first run of each event
    first: Longs
    #: int64 (runs,): where it begins among the matches found, and ends
    begin: Longs
    end: Longs
    #: int64 (events + 1,): the first match of each event, when all are in order
    row: Longs


class Desk(NamedTuple):
    """Where matches of a few events are collected and sorted by slot. Slots have `2 * bits` bits at most."""

    #: int32, float64 and uint64 (rows,): slots and scores; and where they are put in order
    slot: Ints
    score: Floats
    spare: NDArray[np.uint64]
    #: int32 (2, 2 ** bits): how many have the same lower, and the same upper bits
    tally: Ints
    bits: int


@lean_kernel
def group_runs(found: Matches, n_events: Whole, runs: Runs) -> None:
    """Order runs, which are in `found` as they came, by event."""
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
    # Each has moved to where the next one begins.
    for event in range(n_events, 0, -1):
        first[event] = first[event - 1]
    first[0] = 0
    for event in range(1, n_events + 1):
        rows[event] += rows[event - 1]


@lean_kernel
def place_rows(desk: Desk, begin: Whole, size: Whole, base: Whole, out_slot: Ints, out_score: Floats) -> None:
    """Write the matches of an event, which are on the desk, from row `base` on in the order of their slots.

    Cost: linear, and a table of 2 √slots.
    """
    slot, score, spare = desk.slot, desk.score, desk.spare
    is_sorted = True
    for row in range(begin + 1, begin + size):
        is_sorted &= slot[row - 1] < slot[row]
    if is_sorted:
        for row in range(size):
            out_slot[base + row] = slot[begin + row]
        for row in range(size):
            out_score[base + row] = score[begin + row]
        return
    if size <= SHORT:
        for number in range(size):
            one, hole = slot[begin + number], base + number
            while hole > base and out_slot[hole - 1] > one:
                out_slot[hole], out_score[hole] = out_slot[hole - 1], out_score[hole - 1]
                hole -= 1
            out_slot[hole], out_score[hole] = one, score[begin + number]
        return
    # By the lower half of the bits, then by the upper one. Unsigned indexes: a signed one may be negative,
    # which costs a check at each use.
    low, high, shift, half = desk.tally[0], desk.tally[1], np.uint32(desk.bits), np.uint64(HALF)
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
    # A slot and where its score is, in one word: that is half as much to move.
    for row in range(first, first + np.uint64(size)):
        one = np.uint32(slot[row])
        to = np.uint32(low[one & mask])
        low[one & mask] = to + np.uint32(1)
        spare[to] = (np.uint64(one) << half) | np.uint64(row)
    for row in range(np.uint64(size)):
        one, at = np.uint32(spare[row] >> half), spare[row] & np.uint64((1 << HALF) - 1)
        to = np.uint32(high[one >> shift])
        high[one >> shift] = to + np.uint32(1)
        out_slot[to], out_score[to] = one, score[at]


@lean_kernel
def sort_matches(found: Matches, runs: Runs, desk: Desk, out: Matches) -> None:
    """Write all matches, by event and then by slot; the desk has room for those of any event."""
    there = Desk(found.subscription, found.score, desk.spare, desk.tally, desk.bits)
    for event in range(runs.row.shape[0] - 1):
        base = runs.row[event]
        size = runs.row[event + 1] - base
        out.step[base : base + size] = event
        if runs.first[event + 1] - runs.first[event] == 1:
            # One run is sorted from where it is.
            place_rows(there, runs.begin[runs.first[event]], size, base, out.subscription, out.score)
            continue
        place = np.int64(0)
        for run in range(runs.first[event], runs.first[event + 1]):
            for row in range(runs.begin[run], runs.end[run]):
                desk.slot[place], desk.score[place] = found.subscription[row], found.score[row]
                place += 1
        place_rows(desk, np.int64(0), size, base, out.subscription, out.score)


@lean_kernel
def spell_steps(found: Matches, out_step: Ints) -> None:
    """The event of each match, where there is one run for each event, in order."""
    n_runs, n_rows = found.progress[N_RUNS], found.progress[N_ROWS]
    for run in range(n_runs):
        end = n_rows if run + 1 == n_runs else np.int64(found.rank[run + 1])
        out_step[found.rank[run] : end] = found.step[run]


@kernel
def offer_matches(step: Ints, slot: Ints, score: Floats, begin: int, best: Best, ids: IdOrder) -> None:
    """Offer matches that another index found to the heaps of their events, which are from `begin` on."""
    for row in range(step.shape[0]):
        offer_match(best, np.int64(step[row] - begin), np.int64(slot[row]), score[row], ids)


@kernel
def report_heaps(best: Best, begin: int, end: int, ids: IdOrder, out: Matches) -> None:
    """Empty the heaps of events from `begin` on into the report, which has room for them."""
    for event in range(begin, end):
        report_best(best, event - begin, event, ids, out)
