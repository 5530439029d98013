"""Matches in the order in which they are told: by event, then by slot."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ChangeSet
from tocsin.indexes.matching.access_report_kernels import Desk, Runs, Sorter, group_runs, sort_matches
from tocsin.indexes.matching.common_kernels import N_RUNS, Matches
from tocsin.indexes.matching.reports import changes_of, empty_report


def empty_desk(rows: int, n_events: int, n_slots: int) -> Desk:
    """Where `rows` matches of not more than so many events are collected and sorted."""
    return Desk(empty_report(rows), _empty_runs(n_events, rows), _empty_sorter(rows, n_slots))


def told(found: Matches, n_events: int, n_slots: int) -> ChangeSet:
    """Runs of matches, each of one event, as changes. Cost: linear, and a table of 2 √slots an event."""
    runs = _empty_runs(n_events, int(found.progress[N_RUNS]))
    group_runs(found, n_events, runs)
    out = empty_report(int(runs.row[-1]))
    sort_matches(found, runs, _empty_sorter(int(np.diff(runs.row).max()), n_slots), out)
    return changes_of(out.step, out.subscription, out.score, None)


def _empty_runs(n_events: int, n_runs: int) -> Runs:
    return Runs(*(np.empty(length, np.int64) for length in (n_events + 1, n_runs, n_runs, n_events + 1)))


def _empty_sorter(rows: int, n_slots: int) -> Sorter:
    bits = max(1, -(-n_slots.bit_length() // 2))
    return Sorter(bits, np.empty((2, 1 << bits), np.int32), np.empty(rows, np.int32), np.empty(rows))
