"""Reports of kernels, and matches as changes ordered by event and slot."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import MATCH, ChangeSet
from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import empty
from tocsin.arrays.types import Floats, Ints
from tocsin.indexes.matching.layout import N_ROWS, N_RUNS, Matches, MatchHeaps
from tocsin.indexes.matching.report_kernels import (
    MatchSortBuffer,
    Runs,
    group_runs,
    sort_matches,
    write_steps,
)

#: From this many rows on, a broadcast value is cheaper than a written column.
BROADCAST_ROWS = 1 << 12
NO_ROW = np.int32(-1)


def empty_report(rows: int) -> Matches:
    """An empty report with capacity for `rows` matches."""
    # One allocation: the system gives larger pages to larger arrays, and page faults are much of the cost.
    step, subscription, rank = np.empty((3, rows), np.int32)
    return Matches(
        step=step,
        subscription=subscription,
        score=np.empty(rows, np.float64),
        rank=rank,
        progress=np.zeros(4, np.int64),
    )


def enlarged_report(out: Matches, more: int) -> Matches:
    """The report with capacity for `more` rows. Cost: amortised constant a row."""
    rows = int(out.progress[N_ROWS]) + more
    return Matches(
        step=ensure_capacity(out.step, rows),
        subscription=ensure_capacity(out.subscription, rows),
        score=ensure_capacity(out.score, rows),
        rank=ensure_capacity(out.rank, rows),
        progress=out.progress,
    )


def empty_best(events: int, top: int) -> MatchHeaps:
    """Empty heaps for that many events."""
    return empty(MatchHeaps, events=events, top=top)


def changes_of(step: Ints, subscription: Ints, score: Floats, rank: Ints | None) -> ChangeSet:
    """Matches as changes; `rank` is None if all matches were asked for."""
    return ChangeSet(
        step=step,
        subscription=subscription,
        op=np.full(len(step), MATCH, np.int8),
        row=step,
        # Not read for matches: one value stands for many rows.
        other=np.full(len(step), -1, np.int32)
        if len(step) < BROADCAST_ROWS
        else np.broadcast_to(NO_ROW, len(step)),
        score=score,
        rank=np.zeros(len(step), np.int32) if rank is None else rank,
    )


def empty_sort_buffer(rows: int, n_slots: int) -> MatchSortBuffer:
    """A buffer to sort `rows` matches by slot."""
    bits = max(1, -(-n_slots.bit_length() // 2))
    return MatchSortBuffer(
        slot=np.empty(rows, np.int32),
        score=np.empty(rows),
        scratch=np.empty(rows, np.uint64),
        digit_count=np.empty((2, 1 << bits), np.int32),
        bits=bits,
    )


def sorted_changes(found: Matches, n_events: int, n_slots: int) -> ChangeSet:
    """Runs of matches, each of one event, as changes by event and slot. Cost: linear."""
    n_runs = int(found.progress[N_RUNS])
    runs = Runs(*(np.empty(length, np.int64) for length in (n_events + 1, n_runs, n_runs, n_events + 1)))
    entry_point(group_runs)(found, n_events, runs)
    out = empty_report(int(runs.row[-1]))
    entry_point(sort_matches)(found, runs, empty_sort_buffer(int(np.diff(runs.row).max()), n_slots), out)
    return changes_of(out.step, out.subscription, out.score, None)


def ordered_changes(found: Matches) -> ChangeSet:
    """Matches as changes, if there is one run for each event, in order, each by slot. Cost: linear."""
    n_rows = int(found.progress[N_ROWS])
    step = np.empty(n_rows, np.int32)
    entry_point(write_steps)(found, step)
    return changes_of(step, found.subscription[:n_rows], found.score[:n_rows], None)
