"""Matches in the order in which they are told: by event, then by slot."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ChangeSet
from tocsin.indexes.matching.access_kernels import N_RUNS
from tocsin.indexes.matching.access_report_kernels import Runs, group_runs, sort_matches
from tocsin.indexes.matching.common_kernels import Matches
from tocsin.indexes.matching.reports import changes_of, empty_report


def told(found: Matches, n_events: int, n_slots: int) -> ChangeSet:
    """Runs of matches, each of one event, as changes. Cost: linear, and a table of 2 √slots an event."""
    n_runs = int(found.progress[N_RUNS])
    runs = Runs(*(np.empty(length, np.int64) for length in (n_events + 1, n_runs, n_runs, n_events + 1)))
    group_runs(found, runs)
    bits = max(1, -(-n_slots.bit_length() // 2))
    spare, out = empty_report(int(np.diff(runs.row).max())), empty_report(int(runs.row[-1]))
    sort_matches(found, runs, bits, np.empty((2, 1 << bits), np.int32), spare, out)
    return changes_of(out.step, out.subscription, out.score, None)
