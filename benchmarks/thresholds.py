"""Thresholds: the engine's index, the paper's algorithm, and its competitors on the paper's workloads.

`python -m benchmarks thresholds` takes all workloads; `python -m benchmarks.thresholds --list` numbers them,
and `python -m benchmarks.thresholds 0 3` takes some.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.instrument.arguments import numbered
from benchmarks.threshold_parts.measuring import STRETCH_LENGTH, Entry, Measure, measure, warm_up
from benchmarks.threshold_parts.playing import Make
from benchmarks.threshold_parts.plots import plot_growth
from benchmarks.threshold_parts.workloads import Workload, fixed_load, static, stochastic, uniform
from tocsin.indexes.thresholds import DeferredThresholds, ThresholdScan
from tocsin.papers.thresholding.baselines import IntervalTree, RTree, SegmentIntervalTree
from tocsin.papers.thresholding.tracking import EndpointTrees

OWN = "engine"
TRACKING = "distributed tracking"
SCAN = "scan"
INTERVAL = "interval tree"
SEGMENT = "segment-interval tree"
RECTANGLE = "R-tree"
RIVALS: dict[str, Make] = {
    OWN: DeferredThresholds,
    TRACKING: EndpointTrees,
    INTERVAL: IntervalTree,
    SEGMENT: SegmentIntervalTree,
    RECTANGLE: RTree,
    SCAN: ThresholdScan,
}
REPEATS = 5
#: Name of the workloads that differ only in the number of queries.
GROWTH = "growth 1-d"
RESULTS = Path(__file__).parent / "results" / "thresholds.jsonl"
PLOT = Path(__file__).parent.parent / "docs" / "design" / "indexes" / "thresholds-growth.png"


def main(quick: bool, chosen: Sequence[int] | None = None) -> None:
    """Measure all workloads, or the `chosen` numbers; print a table each, and add to the results."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    console = Console(width=140)
    surroundings = machine.describe()
    console.print(surroundings)
    compile_s = {
        name: round(sum(warm_up(make, dimensions) for dimensions in _dimensions(name)), 2)
        for name, make in RIVALS.items()
    }
    console.print("seconds to compile or load, and to warm up:", compile_s)
    measures: list[Measure] = []
    surroundings |= {"quick": quick, "compile_s": compile_s}
    RESULTS.parent.mkdir(exist_ok=True)
    plan = _plan(quick)
    for workload, entries in plan if chosen is None else [plan[number] for number in chosen]:
        found = measure(workload, entries, REPEATS)
        console.print(_table(found))
        measures += found
        surroundings |= {"numpy_scan_ms_after": machine.numpy_scan_ms(), "load_after": os.getloadavg()[0]}
        with RESULTS.open("a") as lines:
            for result in found:
                lines.write(json.dumps({**result.record(), "machine": surroundings}) + "\n")
    growth = [result for result in measures if result.workload == GROWTH]
    if growth:
        plot_growth(growth, PLOT)
        console.print(f"written: {PLOT.name}")
    console.print(f"written: {RESULTS.name}")


def _plan(quick: bool) -> list[tuple[Workload, list[Entry]]]:
    """Workloads with their entries; the engine's own index first."""
    queries, tau = (100_000, 2_000_000) if quick else (1_000_000, 20_000_000)
    fewer, sample = queries // 10, queries // 20
    one = [
        *(_entry(OWN, batch) for batch in (10_000, 1000, 100, 1)),
        _entry(OWN, 1, elements=sample),
        _entry(TRACKING, 10_000),
        _entry(TRACKING, 1, elements=sample),
        _sampled(INTERVAL),
        _sampled(SCAN),
    ]
    maturing = [
        *(_entry(OWN, batch) for batch in (10_000, 1000, 100)),
        _entry(OWN, 1, elements=sample),
        _entry(TRACKING, 10_000, repeats=1, elements=4 * sample),
    ]
    both = [_entry(OWN, 10_000), _entry(TRACKING, 10_000)]
    two = [*both, _sampled(SEGMENT), _sampled(RECTANGLE), _sampled(SCAN)]
    # Nested trees of all queries take 7 GB and a hundred microseconds an element: minutes for the stream.
    large = [_entry(OWN, 10_000), _entry(OWN, 1000), _entry(TRACKING, 10_000, repeats=1)]
    growth = [*both, _sampled(INTERVAL), _sampled(SCAN)]
    plan = [
        (static(queries, tau), one),
        (uniform(queries, tau), maturing),
        (stochastic(fewer, tau), both),
        (fixed_load(fewer, tau), both),
        (static(fewer, 2_000_000, 2), two),
        (static(queries, tau, 2), large),
        (uniform(queries, tau, 2), [_entry(OWN, 10_000)]),
    ]
    sizes = (1000, 10_000, 100_000) if quick else (1000, 10_000, 100_000, 1_000_000)
    plan.extend((static(size, 2_000_000, name=GROWTH), growth) for size in sizes)
    return plan


def _entry(rival: str, batch: int, repeats: int = REPEATS, elements: int | None = None) -> Entry:
    return Entry(rival, RIVALS[rival], batch, repeats=repeats, elements=elements)


def _sampled(rival: str) -> Entry:
    return Entry(rival, RIVALS[rival], STRETCH_LENGTH, is_sampled=True, repeats=REPEATS)


def _dimensions(rival: str) -> tuple[int, ...]:
    """In which a rival takes part."""
    if rival == INTERVAL:
        return (1,)
    return (2,) if rival in (SEGMENT, RECTANGLE) else (1, 2)


def _table(measures: list[Measure]) -> Table:
    first = measures[0]
    table = Table(title=f"{first.workload}: {first.queries:,} queries, {first.elements:,} elements")
    columns = (
        "rival",
        "batch",
        "µs an element",
        "least to most",
        "times the engine",
        "build s",
        "bytes a query",
    )
    for column in (*columns, "matured"):
        table.add_column(column, justify="left" if column == "rival" else "right")
    for result in measures:
        table.add_row(
            result.entry.rival + (" (sampled)" if result.entry.is_sampled or result.entry.elements else ""),
            f"{result.entry.batch:,}",
            f"{result.median_us:.3f}",
            f"{min(result.us_per_element):.3f} to {max(result.us_per_element):.3f}",
            f"{result.median_us / _own(measures, result.entry):,.1f}",
            f"{sorted(result.build_s)[len(result.build_s) // 2]:.2f}",
            f"{result.bytes_per_query:,.0f}",
            "" if result.matured is None else f"{result.matured:,}",
        )
    return table


def _own(measures: list[Measure], entry: Entry) -> float:
    """The engine's own figure at this size of batches, over as much of the stream if it was measured."""
    own = [result for result in measures if result.entry.rival == OWN and result.entry.batch == entry.batch]
    alike = [result for result in own if result.entry.elements == entry.elements]
    return (alike or own or measures)[0].median_us


if __name__ == "__main__":
    options = numbered("thresholds", __doc__).parse_args()
    if options.list:
        for number, (work, _) in enumerate(_plan(options.quick)):
            print(f"{number}: {work.name}, {work.n_first or int((work.start <= 0).sum()):,} queries")
    else:
        main(options.quick, options.numbers or None)
