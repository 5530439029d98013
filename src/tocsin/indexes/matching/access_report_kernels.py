"""Kernels of this room: from what was found to the order in which it is told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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


class Runs(NamedTuple):
    """Runs of matches, each of one event and one block: the runs of each event together."""

    #: int64 (events + 1,): the first run of each event
    first: Longs
    #: int64 (runs,): where it begins among the matches found, and ends
    begin: Longs
    end: Longs
    #: int64 (events + 1,): the first match of each event, when all are in order
    row: Longs


class Sorter(NamedTuple):
    """Where matches of an event are put in the order of their slots, which have `2 * bits` bits at most."""

    bits: int
    #: int32 (2, 2 ** bits): how many have the same lower, and the same upper bits
    tally: Ints
    #: int32 and float64: room for the matches of any event
    slot: Ints
    score: Floats


class Desk(NamedTuple):
    """Where the matches of a few events are collected and sorted."""

    found: Matches
    runs: Runs
    sorter: Sorter


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
def sort_runs(found: Matches, runs: Runs, event: Whole, sorter: Sorter, base: Whole, out: Matches) -> None:
    """Write the matches of an event, from row `base` on, in the order of their slots."""
    slot, score, begins, ends = found.subscription, found.score, runs.begin, runs.end
    out_slot, out_score, spare_slot, spare_score = (
        out.subscription,
        out.score,
        sorter.slot,
        sorter.score,
    )
    first_run, last_run = runs.first[event], runs.first[event + 1]
    size = runs.row[event + 1] - runs.row[event]
    if last_run - first_run == 1:
        begin, is_sorted = begins[first_run], True
        for row in range(begin + 1, begin + size):
            is_sorted &= slot[row - 1] < slot[row]
        if is_sorted:
            for row in range(size):
                out_slot[base + row] = slot[begin + row]
            for row in range(size):
                out_score[base + row] = score[begin + row]
            return
    if size <= SHORT:
        place = base
        for run in range(first_run, last_run):
            for row in range(begins[run], ends[run]):
                hole = place
                while hole > base and out_slot[hole - 1] > slot[row]:
                    out_slot[hole], out_score[hole] = out_slot[hole - 1], out_score[hole - 1]
                    hole -= 1
                out_slot[hole], out_score[hole] = slot[row], score[row]
                place += 1
        return
    # By the lower half of the bits, then by the upper one. Unsigned indexes: a signed one may be negative,
    # which costs a check at each use.
    low, high, shift = sorter.tally[0], sorter.tally[1], np.uint32(sorter.bits)
    mask = np.uint32(low.shape[0] - 1)
    low[:] = 0
    high[:] = 0
    for run in range(first_run, last_run):
        for row in range(np.uint64(begins[run]), np.uint64(ends[run])):
            one = np.uint32(slot[row])
            low[one & mask] += 1
            high[one >> shift] += 1
    low_place, high_place = np.int64(0), np.int64(base)
    for digit in range(low.shape[0]):
        low[digit], low_place = low_place, low_place + low[digit]
        high[digit], high_place = high_place, high_place + high[digit]
    for run in range(first_run, last_run):
        for row in range(np.uint64(begins[run]), np.uint64(ends[run])):
            one = np.uint32(slot[row])
            to = np.uint32(low[one & mask])
            spare_slot[to], spare_score[to] = one, score[row]
            low[one & mask] += 1
    for row in range(np.uint64(size)):
        one = np.uint32(spare_slot[row])
        to = np.uint32(high[one >> shift])
        out_slot[to], out_score[to] = one, spare_score[row]
        high[one >> shift] += 1


@lean_kernel
def sort_chunk(desk: Desk, events: Ints, begin: Whole, end: Whole, out: Matches) -> None:
    """Write the matches on the desk, which are of the events from `begin` to `end`, a sorted run for each."""
    group_runs(desk.found, end - begin, desk.runs)
    for local in range(end - begin):
        row, size = out.progress[N_ROWS], desk.runs.row[local + 1] - desk.runs.row[local]
        if size == 0:
            continue
        sort_runs(desk.found, desk.runs, local, desk.sorter, row, out)
        out.step[out.progress[N_RUNS]], out.rank[out.progress[N_RUNS]] = events[begin + local], row
        out.progress[N_RUNS] += 1
        out.progress[N_ROWS] += size


@lean_kernel
def sort_matches(found: Matches, runs: Runs, sorter: Sorter, out: Matches) -> None:
    """Write all matches, by event and then by slot."""
    for event in range(runs.row.shape[0] - 1):
        out.step[runs.row[event] : runs.row[event + 1]] = event
        sort_runs(found, runs, event, sorter, runs.row[event], out)


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
