"""How costs grow: time an event and bytes a subscription, by subscriptions, rows, k, dimensions and batches.

Every point is written down when it is measured. `python -m benchmarks growth --resume` leaves out those that
the commit at hand has already.
"""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks import machine
from benchmarks.growth_parts.curves import Point, points, switches
from benchmarks.growth_parts.worlds import World, bytes_of
from benchmarks.instrument.records import Record
from benchmarks.instrument.repeats import interleave
from benchmarks.instrument.results import known_cases, save

REPEATS = 5
#: Work of a repeat, at least: the clock ticks in microseconds, a single row takes some of them.
LEAST_S = 0.01


def main(quick: bool, resume: bool = False) -> None:
    """Measure every point that is asked for, and add to the results."""
    console = Console(width=120)
    surroundings = machine.describe() | {"quick": quick}
    console.print(surroundings)
    known = known_cases("growth", surroundings) if resume else set()
    asked = [point for point in [*points(quick), *switches(quick)] if point.case not in known]
    console.print(f"{len(asked)} points, {len(known)} known")
    for point in track(asked, console=console, description="growth"):
        start = time.perf_counter()
        records = measure(point, surroundings)
        save(records)
        told = ", ".join(f"{record.subject} {record.median:,.3g} {record.unit}" for record in records)
        console.print(f"{point.case}: {told} ({time.perf_counter() - start:.1f} s)")


def measure(point: Point, surroundings: dict[str, Any]) -> list[Record]:
    """One point: the index and, where it takes part, the scan, in turn."""
    worlds: dict[str, World] = {}
    build_s: dict[str, float] = {}
    for name, make in point.makes().items():
        start = time.process_time()
        worlds[name] = make(point.settings)
        build_s[name] = time.process_time() - start
    # A window's cycles do not come again: each counts once.
    least_s = 0.0 if point.family.name.startswith("windows") else LEAST_S
    found = interleave({name: world.step for name, world in worlds.items()}, REPEATS, least_s=least_s)
    settings = point.settings
    return [
        Record(
            "growth",
            point.case,
            name,
            "µs an event",
            tuple(1e6 * value for value in values),
            {**vars(settings), "family": point.family.name, "knob": point.knob, "value": point.value},
            build_s=build_s[name],
            bytes_each=bytes_of(worlds[name]) / settings.subscriptions,
            seed=7,
            machine=surroundings,
        )
        for name, values in found.items()
    ]
