"""The papers' figures and tables that no other program measures, at small sizes or at the papers'.

What the papers show, and why it differs, is in `papers.toml`; the report puts both side by side. Figures of
the network are the simulator's, and those of range top-k the ranges program's.
"""

from __future__ import annotations

import time

from rich.console import Console

from benchmarks import machine
from benchmarks.instrument.records import Record
from benchmarks.instrument.results import known_cases, save
from benchmarks.instrument.words import number
from benchmarks.paper_parts import matching, thresholds, windows
from benchmarks.paper_parts.sweeps import Sweep


def main(quick: bool, resume: bool = False) -> None:
    """Measure every figure and table, and add to the results."""
    console = Console(width=120)
    surroundings = machine.describe() | {"quick": quick}
    console.print(surroundings)
    known = known_cases("papers", surroundings) if resume else set()
    for sweep in [*thresholds.sweeps(quick), *windows.sweeps(quick), *matching.sweeps(quick)]:
        for value in sweep.values:
            if sweep.case(value) in known:
                continue
            start = time.perf_counter()
            records = measure(sweep, value, surroundings)
            save(records)
            took = time.perf_counter() - start
            told = ", ".join(f"{record.subject} {number(record.median)}" for record in records)
            console.print(f"{sweep.case(value)}: {told} {sweep.unit} ({took:.1f} s)")


def measure(sweep: Sweep, value: float | str, surroundings: dict[str, object]) -> list[Record]:
    """One point of a sweep."""
    sizes = {"paper": sweep.paper, "item": sweep.item, "part": sweep.part, "knob": sweep.knob, "value": value}
    return [
        Record("papers", sweep.case(value), subject, sweep.unit, tuple(figures), sizes, machine=surroundings)
        for subject, figures in sweep.measure(value).items()
    ]
