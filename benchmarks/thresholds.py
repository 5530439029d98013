"""Thresholds: the paper's algorithm, its competitors and the engine's scan on the paper's workloads."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.threshold_parts.measuring import STRETCH_LENGTH, Entry, Measure, measure, warm_up
from benchmarks.threshold_parts.playing import Make
from benchmarks.threshold_parts.plots import plot_growth
from benchmarks.threshold_parts.workloads import Workload, fixed_load, static, stochastic, uniform
from tocsin.indexes.thresholds import ThresholdScan
from tocsin.indexes.thresholds.rivals import IntervalTree, RTree, SegmentIntervalTree
from tocsin.indexes.thresholds.tracking import EndpointTrees

TRACKING = "distributed tracking"
SCAN = "scan"
INTERVAL = "interval tree"
SEGMENT = "segment-interval tree"
RECTANGLE = "R-tree"
RIVALS: dict[str, Make] = {
    TRACKING: EndpointTrees,
    INTERVAL: IntervalTree,
    SEGMENT: SegmentIntervalTree,
    RECTANGLE: RTree,
    SCAN: ThresholdScan,
}
#: Name of the workloads that differ only in the number of queries.
GROWTH = "growth 1-d"
RESULTS = Path(__file__).parent / "results" / "thresholds.jsonl"
PLOT = Path(__file__).parent.parent / "docs" / "indexes" / "thresholds-growth.png"


def main(quick: bool) -> None:
    """Measure, print a table, and add to the results."""
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
    repeats = 3 if quick else 5
    measures: list[Measure] = []
    for workload, entries in _plan(quick):
        found = measure(workload, entries, repeats)
        console.print(_table(found))
        measures += found
    surroundings |= {"quick": quick, "compile_s": compile_s, "numpy_scan_ms_after": machine.numpy_scan_ms()}
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as lines:
        for result in measures:
            lines.write(json.dumps({**result.record(), "machine": surroundings}) + "\n")
    growth = [result for result in measures if result.workload == GROWTH]
    plot_growth(growth, PLOT)
    console.print(f"written: {RESULTS.name}, {PLOT.name}")


def _plan(quick: bool) -> list[tuple[Workload, list[Entry]]]:
    """Workloads with their entries; distributed tracking, which the others are held against, first."""
    queries, tau = (100_000, 2_000_000) if quick else (1_000_000, 20_000_000)
    small_queries, small_tau = (20_000, 2_000_000) if quick else (100_000, 20_000_000)
    one = [
        _entry(TRACKING, 10_000),
        _entry(TRACKING, 1, repeats=1),
        _sampled(INTERVAL),
        _sampled(SCAN),
    ]
    both = [_entry(TRACKING, 10_000, repeats=1), _sampled(SCAN, 1)]
    two = [
        _entry(TRACKING, 10_000, repeats=1),
        _sampled(SEGMENT),
        _sampled(RECTANGLE),
        _sampled(SCAN),
    ]
    growth = [
        _entry(TRACKING, 10_000, repeats=1),
        _sampled(INTERVAL, 1),
        _sampled(SCAN, 1),
    ]
    plan = [
        (static(queries, tau), one),
        (uniform(queries, tau), both),
        (stochastic(queries, tau), both),
        (fixed_load(queries, tau), both),
        (static(small_queries, small_tau, 2), two),
        (uniform(small_queries, small_tau // 4, 2), both),
    ]
    sizes = (1000, 10_000, 100_000) if quick else (1000, 10_000, 100_000, 1_000_000)
    plan.extend((static(size, tau, name=GROWTH), growth) for size in sizes)
    return plan


def _entry(rival: str, batch: int, repeats: int = 5) -> Entry:
    return Entry(rival, RIVALS[rival], batch, repeats=repeats)


def _sampled(rival: str, repeats: int = 5) -> Entry:
    return Entry(rival, RIVALS[rival], STRETCH_LENGTH, is_sampled=True, repeats=repeats)


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
        "times tracking",
        "build s",
        "bytes a query",
    )
    for column in (*columns, "matured"):
        table.add_column(column, justify="left" if column == "rival" else "right")
    for result in measures:
        table.add_row(
            result.entry.rival + (" (sampled)" if result.entry.is_sampled else ""),
            f"{result.entry.batch:,}",
            f"{result.median_us:.3f}",
            f"{min(result.us_per_element):.3f} to {max(result.us_per_element):.3f}",
            f"{result.median_us / _tracking(measures):,.1f}",
            f"{sorted(result.build_s)[len(result.build_s) // 2]:.2f}",
            f"{result.bytes_per_query:,.0f}",
            "" if result.matured is None else f"{result.matured:,}",
        )
    return table


def _tracking(measures: list[Measure]) -> float:
    """The figure of distributed tracking, in its largest batches."""
    return next(result.median_us for result in measures if result.entry.rival == TRACKING)
