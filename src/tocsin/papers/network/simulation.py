"""The simulator: every approach of every figure over the same events, each message link by link."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.indexes.contract import Ints
from tocsin.papers.network import workloads
from tocsin.papers.network.approaches import Traffic, approach_of
from tocsin.papers.network.specs import Settings, Spec
from tocsin.papers.network.topology import Topology
from tocsin.papers.network.world import World

#: Events that are played at once.
BATCH = 250

RUNS = "runs.parquet"
EVENTS = "events.parquet"


class Run(NamedTuple):
    """One approach at one point."""

    approach: str
    settings: Settings


class Outcome(NamedTuple):
    """What a run has given: sums by event, and how long it took."""

    traffic: Traffic
    seconds: float


def runs_of(spec: Spec) -> list[Run]:
    """All runs of a spec, each once, those with the same subscriptions one after the other."""
    found: dict[Run, None] = {}
    for figure in spec.figures:
        for _, settings in spec.points(figure):
            for approach in figure.approaches:
                found[Run(approach, settings)] = None
    return sorted(found, key=lambda run: (_crowd(run.settings), str(run.settings), run.approach))


def simulate(spec: Spec) -> Iterator[tuple[Run, Outcome]]:
    """Run after run. One network, and one crowd of subscriptions at a time, are in memory."""
    distance = Topology.draw(spec.network.nodes, spec.network.brokers, spec.network.seed).hops()
    made: tuple[Any, World] | None = None
    for run in runs_of(spec):
        crowd = _crowd(run.settings)
        if made is None or made[0] != crowd:
            # The old one goes before the new one comes.
            made = None
            made = crowd, _world(run.settings, distance)
        yield run, play(run, made[1])


def play(run: Run, world: World) -> Outcome:
    """One run."""
    start = time.perf_counter()
    settings = run.settings
    work = _workload(settings)
    approach = approach_of(run.approach, world, settings.k)
    approach.load(work.table)
    parts = [
        approach.play(work.events.part(begin, begin + BATCH), work.old_y[begin : begin + BATCH])
        for begin in range(0, len(work.old_y), BATCH)
    ]
    traffic = Traffic._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Outcome(traffic, time.perf_counter() - start)


def write_results(spec: Spec, folder: Path, noted: Callable[[Run], None]) -> pa.Table:
    """Simulate, and write one row a run and one row an event; returns the runs. `noted` is called after each.

    A run's row has its number, approach, settings, seconds, and mean and maximum of every measure.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    types = [pa.float64() if name == "server_us" else pa.int64() for name in Traffic._fields]
    schema = pa.schema([("run", pa.int32()), *zip(Traffic._fields, types, strict=True)])
    with pq.ParquetWriter(folder / EVENTS, schema, compression="zstd") as events:
        for number, (run, outcome) in enumerate(simulate(spec)):
            columns = outcome.traffic._asdict()
            numbers = np.full(len(columns["hops"]), number, np.int32)
            events.write_table(pa.table([numbers, *columns.values()], schema=schema))
            means = {f"mean_{name}": float(column.mean()) for name, column in columns.items()}
            most = {f"max_{name}": float(column.max()) for name, column in columns.items()}
            told = {"run": number, "approach": run.approach, "seconds": outcome.seconds}
            rows.append({**told, **asdict(run.settings), **means, **most})
            noted(run)
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / RUNS)
    return table


def _crowd(settings: Settings) -> tuple[Any, ...]:
    """What decides which subscriptions there are."""
    return (
        settings.subscriptions,
        settings.ranges,
        settings.middle,
        settings.length,
        settings.deviation,
        settings.seed,
    )


def _world(settings: Settings, distance: Ints) -> World:
    if settings.ranges == "normal":
        middle, length = settings.middle, settings.length
        lo, hi = workloads.normal_ranges(
            settings.seed, settings.subscriptions, (middle[0], middle[1]), (length[0], length[1])
        )
    else:
        lo, hi = workloads.ranges(settings.seed, settings.subscriptions, settings.ranges, settings.deviation)
    return World(distance, lo, hi, workloads.DOMAIN / 2, seed=settings.seed)


def _workload(settings: Settings) -> workloads.Workload:
    what = (settings.seed, settings.rows, settings.events)
    if settings.workload == "walking":
        return _drawn("walking", what, spikes=settings.spikes, ignorable=settings.ignorable)
    if settings.workload == "jumping":
        spread = settings.spread if settings.spread >= 0 else None
        return _drawn("jumping", what, x=settings.x, spread=spread)
    return _drawn("stocks", (settings.path, settings.events))


@lru_cache(maxsize=2)
def _drawn(name: str, what: tuple[Any, ...], **others: Any) -> workloads.Workload:
    """The approaches of a point share their workload."""
    made: workloads.Workload = getattr(workloads, name)(*what, **others)
    return made
