"""Matches in the order in which they are told: by event, then by slot."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ChangeSet
from tocsin.indexes.matching.access_report_kernels import Desk, Runs, group_runs, sort_matches, spell_steps
from tocsin.indexes.matching.common_kernels import N_ROWS, N_RUNS, Matches
from tocsin.indexes.matching.reports import changes_of, empty_report
from tocsin.indexes.shared.direct import compiled


def empty_desk(rows: int, n_slots: int) -> Desk:
    """Where `rows` matches are collected, to be sorted by slot."""
    bits = max(1, -(-n_slots.bit_length() // 2))
    return Desk(
        slot=np.empty(rows, np.int32),
        score=np.empty(rows),
        spare=np.empty(rows, np.uint64),
        tally=np.empty((2, 1 << bits), np.int32),
        bits=bits,
    )


def told(found: Matches, n_events: int, n_slots: int) -> ChangeSet:
    """Runs of matches, each of one event, as changes. Cost: linear."""
    n_runs = int(found.progress[N_RUNS])
    runs = Runs(*(np.empty(length, np.int64) for length in (n_events + 1, n_runs, n_runs, n_events + 1)))
    compiled(group_runs)(found, n_events, runs)
    out = empty_report(int(runs.row[-1]))
    compiled(sort_matches)(found, runs, empty_desk(int(np.diff(runs.row).max()), n_slots), out)
    return changes_of(out.step, out.subscription, out.score, None)


def told_in_order(found: Matches) -> ChangeSet:
    """As above, where there is one run for each event, in order, and each by slot."""
    n_rows = int(found.progress[N_ROWS])
    step = np.empty(n_rows, np.int32)
    compiled(spell_steps)(found, step)
    return changes_of(step, found.subscription[:n_rows], found.score[:n_rows], None)
