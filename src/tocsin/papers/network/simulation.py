"""The simulator: runs every approach of every figure over the same events, each message link by link."""

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

from tocsin.arrays.types import Ints
from tocsin.papers.network import workloads
from tocsin.papers.network.approaches import Traffic, approach_of
from tocsin.papers.network.specs import Settings, Spec
from tocsin.papers.network.topology import Topology
from tocsin.papers.network.world import World

#: Events that are processed together.
BATCH = 250

RUNS = "runs.parquet"
EVENTS = "events.parquet"


class Run(NamedTuple):
    """One approach with one choice of settings."""

    approach: str
    settings: Settings


class Outcome(NamedTuple):
    """The result of a run: traffic by event, and its duration."""

    traffic: Traffic
    seconds: float


def runs_of(spec: Spec) -> list[Run]:
    """All runs of a spec without duplicates; those with the same subscriptions are adjacent."""
    found: dict[Run, None] = {}
    for figure in spec.figures:
        for _, settings in spec.points(figure):
            for approach in figure.approaches:
                found[Run(approach, settings)] = None
    return sorted(
        found, key=lambda run: (_subscription_settings(run.settings), str(run.settings), run.approach)
    )


def simulate(spec: Spec) -> Iterator[tuple[Run, Outcome]]:
    """Execute all runs. Memory holds one network, and one set of subscriptions at a time."""
    distance = Topology.draw(spec.network.nodes, spec.network.brokers, spec.network.seed).hops()
    made: tuple[Any, World] | None = None
    for run in runs_of(spec):
        subscription_settings = _subscription_settings(run.settings)
        if made is None or made[0] != subscription_settings:
            # Free the old one before building the new one.
            made = None
            made = subscription_settings, _world(run.settings, distance)
        yield run, play(run, made[1])


def play(run: Run, world: World) -> Outcome:
    """Execute one run."""
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


def write_results(spec: Spec, folder: Path, on_run: Callable[[Run], None]) -> pa.Table:
    """Simulate, and write one row per run and one per event; returns the runs. Calls `on_run` after each.

    A run's row has its number, approach, settings, seconds, and the mean and maximum of every measure.
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
            identity = {"run": number, "approach": run.approach, "seconds": outcome.seconds}
            rows.append({**identity, **asdict(run.settings), **means, **most})
            on_run(run)
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / RUNS)
    return table


def _subscription_settings(settings: Settings) -> tuple[Any, ...]:
    """The settings that determine the subscriptions."""
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


def _workload(settings: Settings) -> workloads.NetworkWorkload:
    what = (settings.seed, settings.rows, settings.events)
    if settings.workload == "walking":
        return _drawn("walking", what, spikes=settings.spikes, ignorable=settings.ignorable)
    if settings.workload == "jumping":
        spread = settings.spread if settings.spread >= 0 else None
        return _drawn("jumping", what, x=settings.x, spread=spread)
    return _drawn("stocks", (settings.path, settings.events))


@lru_cache(maxsize=2)
def _drawn(name: str, what: tuple[Any, ...], **others: Any) -> workloads.NetworkWorkload:
    """The approaches of a point share their workload."""
    made: workloads.NetworkWorkload = getattr(workloads, name)(*what, **others)
    return made
