"""Continuous Monitoring of Top-k Queries over Sliding Windows, SIGMOD 2006: figures 14 to 21, table 2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.paper_parts.sweeps import Found, Sweep
from benchmarks.window_parts.measuring import Entry, measure
from benchmarks.window_parts.workloads import ANT, IND, PRODUCT, SQUARES, Workload
from tocsin.indexes.preferences import CandidateLists
from tocsin.papers.sliding_windows.baselines import ThresholdSortedLists
from tocsin.papers.sliding_windows.tma import SkybandMonitoring, TopKMonitoring

PAPER = "windows"
MS = "ms a cycle"
CYCLES = 5
WARM = 2
LEARNING = {"engine": CandidateLists, "SMA": SkybandMonitoring}
OTHERS = {"TMA": TopKMonitoring, "TSL": ThresholdSortedLists}
#: Cycles over which the sizes of lists are averaged, as in the paper.
LONG = 100


class Played(NamedTuple):
    """What each took on one workload."""

    cycle_ms: Found
    megabytes: Found


def sweeps(quick: bool) -> list[Sweep]:
    """All figures; a quick run has a twentieth of the rows.

    A fifth of the paper's queries in both: on anti-correlated rows TSL takes 35 ms to register one.
    """
    middle = Workload(IND, 200, 20, rows=50_000, rate=500) if quick else Workload(IND, 200, 20)
    scale = middle.rows / 1_000_000
    made = [
        Sweep(
            PAPER,
            "Figure 14",
            "IND, time",
            "cells an axis",
            MS,
            [5, 8, 12, 15],
            partial(_grids, middle, False),
        ),
        Sweep(
            PAPER,
            "Figure 14",
            "IND, space",
            "cells an axis",
            "MB",
            [5, 8, 12, 15],
            partial(_grids, middle, True),
        ),
    ]
    most = 2 if quick else 3
    for data in (IND, ANT):
        base = replace(middle, data=data)
        knobs = {
            "Figure 15": ("d", "dimensions", [2, 4, 6]),
            "Figure 16": ("N", "rows", [base.rows * factor for factor in range(1, most + 1)]),
            "Figure 17": ("r", "rate", [round(rate * scale) for rate in (1000, 10_000, 100_000)]),
            "Figure 18": ("Q", "queries", [base.queries // 5, base.queries, 5 * base.queries]),
            "Figure 19": ("k", "k", [1, 10, 100]),
        }
        made += [
            Sweep(PAPER, item, data, knob, MS, values, partial(_times, base, field))
            for item, (knob, field, values) in knobs.items()
        ]
        made += [
            Sweep(PAPER, "Figure 20", data, "k", "MB", [1, 10, 100], partial(_space, base)),
            Sweep(PAPER, "Table 2", data, "k", "rows a query", [1, 5, 10, 20, 50, 100],
                  partial(_sizes, base, quick)),
        ]  # fmt: skip
        for score in (PRODUCT, SQUARES):
            times = partial(_times, replace(base, score=score), "dimensions")
            made.append(Sweep(PAPER, "Figure 21", f"{data}, {score}", "d", MS, [2, 4, 6], times))
    return made


def _times(base: Workload, field: str, value: float | str) -> Found:
    """Milliseconds a cycle of everybody, with one setting changed; of more rows, a hundredth come a cycle."""
    changed: dict[str, Any] = {field: int(value)}
    if field == "rows":
        changed["rate"] = int(value) // 100
    return _play(replace(base, **changed)).cycle_ms


def _space(base: Workload, k: float | str) -> Found:
    return _play(replace(base, k=int(k))).megabytes


@cache
def _play(workload: Workload) -> Played:
    """Everybody; a workload that several figures have is played once."""
    entries = [Entry(name, make, CYCLES, is_learning=True) for name, make in LEARNING.items()]
    # Sorted lists are for weighted sums.
    others = OTHERS if workload.score == "sum" else {"TMA": TopKMonitoring}
    entries += [Entry(name, make, CYCLES, is_learning=False) for name, make in others.items()]
    return _measured(workload, entries)


def _grids(workload: Workload, is_space: bool, axis: float | str) -> Found:
    played = _play_grid(workload, int(axis))
    return played.megabytes if is_space else played.cycle_ms


@cache
def _play_grid(workload: Workload, axis: int) -> Played:
    """The paper's two algorithms with so many cells an axis."""
    cells = axis**workload.dimensions
    ways: dict[str, Callable[..., Any]] = {"SMA": SkybandMonitoring, "TMA": TopKMonitoring}
    entries = [
        Entry(name, partial(make, cells=cells), CYCLES, is_learning=True) for name, make in ways.items()
    ]
    return _measured(workload, entries)


def _measured(workload: Workload, entries: list[Entry]) -> Played:
    found = measure(workload, entries, CYCLES, WARM)
    return Played(
        {result.entry.rival: result.cycle_ms for result in found},
        {result.entry.rival: [result.bytes / 1e6] for result in found},
    )


def _sizes(workload: Workload, quick: bool, k: float | str) -> Found:
    """How many rows SMA keeps for a query, over a hundred cycles that replace the window."""
    rows = 10_000 if quick else 100_000
    work = replace(workload, k=int(k), rows=rows, rate=rows // 100, queries=min(workload.queries, 100))
    index = SkybandMonitoring(0, work.program(), descending=True, newest_first=True)
    deltas = work.cycles()
    index.apply(next(deltas))
    slots = np.arange(work.queries, dtype=np.int32)
    index.register(slots, {"theta": work.weights(), "k": np.full(work.queries, work.k, np.int64)})
    sizes = []
    for _ in range(LONG):
        index.apply(next(deltas))
        sizes.append(float(index.list_sizes(slots).mean()))
    return {"SMA": [float(np.mean(sizes))]}
