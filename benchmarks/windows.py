"""Windows: the engine's index, the paper's algorithms, and a matrix product on the paper's workloads.

`python -m benchmarks windows` takes all workloads; `python -m benchmarks.windows --list` numbers them, and
`python -m benchmarks.windows 0 3` takes some.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.instrument.arguments import numbered
from benchmarks.window_parts.measuring import Entry, Measure, measure, warm_up
from benchmarks.window_parts.workloads import ANT, IND, PRODUCT, SQUARES, Workload
from tocsin.indexes.contract import RowIndex
from tocsin.indexes.preferences.candidate_lists.index import CandidateLists
from tocsin.papers.sliding_windows.baselines import MatrixRecompute, ThresholdSortedLists
from tocsin.papers.sliding_windows.scan import PreferenceScan
from tocsin.papers.sliding_windows.tma import SkybandMonitoring, TopKMonitoring

OWN = "engine"
SMA = "SMA"
TMA = "TMA"
TSL = "TSL"
LITERAL = "TSL, query by query"
SCAN = "scan"
MATRIX = "matrix product"
RIVALS: dict[str, Callable[..., RowIndex]] = {
    OWN: CandidateLists,
    SMA: SkybandMonitoring,
    TMA: TopKMonitoring,
    TSL: ThresholdSortedLists,
    LITERAL: partial(ThresholdSortedLists, together=1),
    SCAN: PreferenceScan,
    MATRIX: MatrixRecompute,
}
#: Cycles between registration and what counts: none but to warm up, or as many as the window has.
BEGINNING = 3
SETTLED = 100
#: What a case is called in which sorted lists take part: they read all rows in each cycle, and leave nothing
#: of the others in the caches.
BESIDE_LISTS = "beside sorted lists"
RESULTS = Path(__file__).parent / "results" / "windows.jsonl"


class Contest(NamedTuple):
    """A workload and who takes part, the engine's own index first if it does."""

    workload: Workload
    entries: list[Entry]
    #: cycles that count, and before that
    cycles: int
    before: int
    #: what is said of it beside the workload's name
    note: str = ""


def main(quick: bool, chosen: Sequence[int] | None = None) -> None:
    """Measure all workloads, or the `chosen` numbers; print a table each, and add to the results."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    console = Console(width=140)
    surroundings = machine.describe()
    console.print(surroundings)
    plan = _plan(quick)
    plan = plan if chosen is None else [plan[number] for number in chosen]
    used = {entry.rival for contest in plan for entry in contest.entries}
    tiny = Workload(IND, 100, 5, rows=2000, rate=100)
    compile_s = {name: round(warm_up(make, tiny), 2) for name, make in RIVALS.items() if name in used}
    console.print("seconds to compile or load, and to warm up:", compile_s)
    surroundings |= {"quick": quick, "compile_s": compile_s}
    RESULTS.parent.mkdir(exist_ok=True)
    for workload, entries, cycles, before, note in plan:
        found = measure(workload, entries, cycles, before)
        console.print(_table(found, before))
        surroundings |= {"numpy_scan_ms_after": machine.numpy_scan_ms(), "load_after": os.getloadavg()[0]}
        with RESULTS.open("a") as lines:
            for result in found:
                lines.write(
                    json.dumps(
                        {**result.record(), "cycles_before": before, "note": note, "machine": surroundings}
                    )
                    + "\n"
                )
    console.print(f"written: {RESULTS.name}")


def _plan(quick: bool) -> list[Contest]:
    """All contests.

    The paper counts from the registration on. A skyband grows for some hundred cycles after it, in which SMA
    computes more queries afresh than later: hence one workload is measured once more when it has settled.
    """
    # A tenth of the rows for those that take long.
    small = [
        Contest(Workload(data, 1000, 20, rows=100_000, rate=1000), [*_three(30), *_slow(5)], 30, BEGINNING)
        for data in (IND, ANT)
    ]
    if quick:
        return small
    lists = [*_only(50, SMA, TMA, TSL), *_only(20, LITERAL)]
    plan = [
        Contest(Workload(IND, 1000, 20), _three(100), 100, BEGINNING),
        Contest(Workload(ANT, 1000, 20), _three(100), 100, BEGINNING),
        Contest(Workload(IND, 1000, 100), _three(50), 50, BEGINNING),
        Contest(Workload(ANT, 1000, 100), [*_only(50, OWN, SMA), *_only(10, TMA)], 50, BEGINNING),
        Contest(Workload(IND, 10_000, 20), _three(50), 50, BEGINNING),
        Contest(Workload(ANT, 10_000, 20), [*_only(50, OWN), *_only(10, SMA)], 50, BEGINNING),
        Contest(Workload(IND, 100_000, 20), [*_only(50, OWN, SMA), *_only(5, TMA)], 50, BEGINNING),
        *(Contest(Workload(data, 1000, 20), _only(50, OWN, SMA), 50, SETTLED) for data in (IND, ANT)),
        Contest(
            Workload(IND, 1000, 20), [*_only(50, OWN), *lists, *_only(3, SCAN)], 50, BEGINNING, BESIDE_LISTS
        ),
        Contest(Workload(ANT, 1000, 20), [*_only(50, OWN), *lists], 50, BEGINNING, BESIDE_LISTS),
    ]
    others = [Workload(IND, 1000, 20, score=score) for score in (PRODUCT, SQUARES)]
    others += [Workload(IND, 1000, 20, dimensions=dimensions) for dimensions in (2, 6, 8)]
    few = [*_only(20, OWN), *_only(5, SMA)]
    return plan + small + [Contest(workload, few, 20, BEGINNING) for workload in others]


def _three(cycles: int) -> list[Entry]:
    return _only(cycles, OWN, SMA, TMA)


def _slow(cycles: int) -> list[Entry]:
    return _only(cycles, SCAN, TSL, MATRIX)


def _only(cycles: int, *rivals: str) -> list[Entry]:
    return [Entry(rival, RIVALS[rival], cycles, rival in (OWN, SMA)) for rival in rivals]


def _table(measures: list[Measure], before: int) -> Table:
    own = measures[0].median_ms
    table = Table(title=f"{measures[0].workload.name}, {before} cycles before")
    for column in (
        "rival",
        "cycles",
        "median ms",
        "mean",
        "least to most",
        "times the engine",
        "register s",
        "MB",
    ):
        table.add_column(column, justify="left" if column == "rival" else "right")
    for result in measures:
        table.add_row(
            result.entry.rival,
            f"{len(result.cycle_ms)}",
            f"{result.median_ms:.3f}",
            f"{result.mean_ms:.3f}",
            f"{min(result.cycle_ms):.3f} to {max(result.cycle_ms):.3f}",
            f"{result.median_ms / own:,.1f}",
            f"{result.register_s:.2f}",
            f"{result.bytes / 1e6:,.0f}",
        )
    return table


if __name__ == "__main__":
    options = numbered("windows", __doc__).parse_args()
    if options.list:
        for number, one in enumerate(_plan(options.quick)):
            print(f"{number}: {one.workload.name}, {one.before} cycles before {one.note}".rstrip())
    else:
        main(options.quick, options.numbers or None)
