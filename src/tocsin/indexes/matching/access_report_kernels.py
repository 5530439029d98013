"""Kernels of the access index: from what its parts found to the order in which it is told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.matching.access_kernels import N_RUNS
from tocsin.indexes.matching.common_kernels import (
    N_ROWS,
    Best,
    IdOrder,
    Matches,
    offer_match,
    report_best,
)
from tocsin.indexes.shared.jit import kernel

#: So few matches are sorted by insertion.
SHORT = 48


class Runs(NamedTuple):
    """Runs of matches, each of one event and one block: the runs of each event together."""

    #: int64 (events + 1,): the first run of each event
    first: Longs
    #: int64 (runs,): where it begins among the matches found, and ends
    begin: Longs
    end: Longs
    #: int64 (events + 1,): the first match of each event, when all are in order
    row: Longs


@kernel
def group_runs(found: Matches, runs: Runs) -> None:
    """Order runs, which are in `found` as they came, by event."""
    event_of, begin_of, first, rows = found.step, found.rank, runs.first, runs.row
    n_runs, n_rows = found.progress[N_RUNS], found.progress[N_ROWS]
    first[:] = 0
    rows[:] = 0
    for run in range(n_runs):
        first[event_of[run] + 1] += 1
    for event in range(1, first.shape[0]):
        first[event] += first[event - 1]
    for run in range(n_runs):
        event = event_of[run]
        begin, end = np.int64(begin_of[run]), n_rows if run + 1 == n_runs else np.int64(begin_of[run + 1])
        runs.begin[first[event]], runs.end[first[event]] = begin, end
        first[event] += 1
        rows[event + 1] += end - begin
    # Each has moved to where the next one begins.
    for event in range(first.shape[0] - 1, 0, -1):
        first[event] = first[event - 1]
    first[0] = 0
    for event in range(1, rows.shape[0]):
        rows[event] += rows[event - 1]


@kernel
def sort_matches(found: Matches, runs: Runs, bits: int, count: Ints, spare: Matches, out: Matches) -> None:
    """Write the matches of each event in the order of their slots, which have at most `2 * bits` bits.

    `count` is (2, 2 ** bits), and `spare` has room for the matches of any event.
    """
    slot, score, begins, ends = found.subscription, found.score, runs.begin, runs.end
    spare_slot, spare_score, out_slot, out_score = (
        spare.subscription,
        spare.score,
        out.subscription,
        out.score,
    )
    # Unsigned indexes: a signed one may be negative, which costs a check at each use.
    low, high, mask, shift = count[0], count[1], np.uint32(count.shape[1] - 1), np.uint32(bits)
    for event in range(runs.row.shape[0] - 1):
        base, end = runs.row[event], runs.row[event + 1]
        out.step[base:end] = event
        first_run, last_run = runs.first[event], runs.first[event + 1]
        if end - base <= SHORT:
            place = base
            for run in range(first_run, last_run):
                for row in range(begins[run], ends[run]):
                    hole = place
                    while hole > base and out_slot[hole - 1] > slot[row]:
                        out_slot[hole], out_score[hole] = out_slot[hole - 1], out_score[hole - 1]
                        hole -= 1
                    out_slot[hole], out_score[hole] = slot[row], score[row]
                    place += 1
            continue
        # By the lower half of the bits, then by the upper one.
        count[:] = 0
        for run in range(first_run, last_run):
            for row in range(np.uint64(begins[run]), np.uint64(ends[run])):
                one = np.uint32(slot[row])
                low[one & mask] += 1
                high[one >> shift] += 1
        low_place, high_place = np.int64(0), base
        for digit in range(count.shape[1]):
            low[digit], low_place = low_place, low_place + low[digit]
            high[digit], high_place = high_place, high_place + high[digit]
        for run in range(first_run, last_run):
            for row in range(np.uint64(begins[run]), np.uint64(ends[run])):
                one = np.uint32(slot[row])
                place = np.uint32(low[one & mask])
                spare_slot[place], spare_score[place] = one, score[row]
                low[one & mask] += 1
        for row in range(np.uint64(end - base)):
            one = np.uint32(spare_slot[row])
            place = np.uint32(high[one >> shift])
            out_slot[place], out_score[place] = one, spare_score[row]
            high[one >> shift] += 1


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
