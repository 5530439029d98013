"""The engine through its public API: registration, and events a second of every kind of statement.

Each figure stands beside a plain NumPy scan of the same subscriptions in the same run. That scan only finds
whom an event concerns: it keeps no answers and writes no changes, so it has the easier task.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

import tocsin
from benchmarks import machine
from benchmarks.instrument.repeats import little_garbage

Columns: TypeAlias = dict[str, np.ndarray]
Generator: TypeAlias = np.random.Generator
#: Finds whom one event, by its number, concerns.
Scan: TypeAlias = Callable[[int], np.ndarray]

RESULTS = Path(__file__).parent / "results" / "engine.jsonl"
REPEATS = 5
#: Subscriptions that an event concerns, on average, where the statement has a range or a score to exceed.
HITS = 10
TABLE_ROWS = 10_000
WINDOW_ROWS = 20_000
CITIES = np.array(["Bergen", "Bodø", "Hamar", "Larvik", "Molde", "Moss", "Oslo", "Skien", "Tromsø", "Voss"])
#: Events that the NumPy scan is timed on, at most.
SCANNED = 200
#: Subscriptions that are made and ended one at a time.
SINGLE = 1000

BOX = "x BETWEEN :lo AND :hi"


@dataclass(frozen=True)
class Kind:
    """One kind of statement: its template, its subscriptions, and how NumPy would scan them."""

    name: str
    sql: str
    source: str
    params: Callable[[Generator, int], Columns]
    scan: Callable[[Columns, Columns], Scan]
    repeat: bool = False


@dataclass
class Measure:
    """All repeats of one kind at one size."""

    kind: str
    subscriptions: int
    batch: int
    events_per_s: list[float] = field(default_factory=list)
    scan_events_per_s: list[float] = field(default_factory=list)
    changes_per_event: float = 0.0

    def record(self) -> dict[str, object]:
        """One line of the results."""
        return {
            "what": "events",
            "kind": self.kind,
            "subscriptions": self.subscriptions,
            "batch": self.batch,
            "events_per_s": [round(value, 1) for value in self.events_per_s],
            "median_events_per_s": round(median(self.events_per_s), 1),
            "scan_events_per_s": [round(value, 1) for value in self.scan_events_per_s],
            "times_the_scan": round(self.ratio, 3),
            "changes_per_event": round(self.changes_per_event, 3),
        }

    @property
    def ratio(self) -> float:
        return median(self.events_per_s) / median(self.scan_events_per_s)


def boxes(random: Generator, count: int) -> Columns:
    """Ranges of which about HITS hold any value."""
    return _ranges(random, count, HITS / count)


def preferences(random: Generator, count: int) -> Columns:
    return {"a": random.uniform(0.5, 1.5, count)}


def scores(random: Generator, count: int) -> Columns:
    """Scores that about HITS of all subscriptions see exceeded: the corner of a square above a line."""
    weight = random.uniform(0.5, 1.5, count)
    return {"a": weight, "t": 1 + weight - np.sqrt(2 * weight * min(HITS / count, 0.1))}


def thresholds(random: Generator, count: int) -> Columns:
    return {**boxes(random, count), "tau": random.integers(1000, 100_000, count)}


def expressions(random: Generator, count: int) -> Columns:
    """Ranges so wide that about HITS are left when the city has decided."""
    return {**_ranges(random, count, HITS * len(CITIES) / count), "city": random.choice(CITIES, count)}


def _ranges(random: Generator, count: int, width: float) -> Columns:
    low = random.uniform(-width / 2, 1 - width / 2, count)
    return {"lo": low, "hi": low + width}


def scan_boxes(given: Columns, rows: Columns) -> Scan:
    lo, hi, x = given["lo"], given["hi"], rows["x"]
    return lambda event: np.flatnonzero((lo <= x[event]) & (x[event] <= hi))


def scan_preferences(given: Columns, rows: Columns) -> Scan:
    a, x, y = given["a"], rows["x"], rows["y"]
    # Where the tenth best of many uniform rows lies, about.
    floor = 1 + a - np.sqrt(2 * a * 10 / TABLE_ROWS)
    return lambda event: np.flatnonzero(x[event] + a * y[event] > floor)


def scan_scores(given: Columns, rows: Columns) -> Scan:
    a, t, x, y = given["a"], given["t"], rows["x"], rows["y"]
    return lambda event: np.flatnonzero(x[event] + a * y[event] > t)


def scan_thresholds(given: Columns, rows: Columns) -> Scan:
    find, tau, w = scan_boxes(given, rows), given["tau"], rows["w"]
    reached = np.zeros(len(tau), np.int64)

    def count(event: int) -> np.ndarray:
        hit = find(event)
        reached[hit] += w[event]
        matured = hit[reached[hit] >= tau[hit]]
        reached[matured] = 0
        return matured

    return count


def scan_expressions(given: Columns, rows: Columns) -> Scan:
    lo, hi, x = given["lo"], given["hi"], rows["x"]
    # Texts as small numbers, as anyone who scans them would have them.
    wanted, city = np.searchsorted(CITIES, given["city"]), np.searchsorted(CITIES, rows["city"])
    return lambda event: np.flatnonzero((wanted == city[event]) & (lo <= x[event]) & (x[event] <= hi))


KINDS = [
    Kind("top-k", f"SELECT id, y FROM items WHERE {BOX} ORDER BY y LIMIT 10", "items", boxes, scan_boxes),
    *(
        Kind(name, f"SELECT {name} FROM items WHERE {BOX}", "items", boxes, scan_boxes)
        for name in ("MIN(y)", "MAX(y)", "COUNT(*)", "SUM(y)", "AVG(y)")
    ),
    Kind("DISTINCT", f"SELECT DISTINCT code FROM items WHERE {BOX}", "items", boxes, scan_boxes),
    Kind("live rows", f"SELECT id, y FROM items WHERE {BOX}", "items", boxes, scan_boxes),
    Kind(
        "select-join",
        f"SELECT items.id, codes.name FROM items JOIN codes ON items.code = codes.code WHERE items.{BOX}",
        "items",
        boxes,
        scan_boxes,
    ),
    Kind(
        "preference, table",
        "SELECT id FROM items ORDER BY x + :a * y DESC LIMIT 10",
        "items",
        preferences,
        scan_preferences,
    ),
    Kind(
        "preference, window",
        "SELECT x FROM latest ORDER BY x + :a * y DESC LIMIT 10",
        "latest",
        preferences,
        scan_preferences,
    ),
    Kind("score, window", "SELECT x FROM latest WHERE x + :a * y > :t", "latest", scores, scan_scores),
    Kind("live rows, window", f"SELECT x FROM latest WHERE {BOX}", "latest", boxes, scan_boxes),
    Kind(
        "threshold",
        f"SELECT SUM(w) FROM events WHERE {BOX} HAVING SUM(w) >= :tau",
        "events",
        thresholds,
        scan_thresholds,
        repeat=True,
    ),
    Kind(
        "matching",
        f"SELECT x FROM events WHERE {BOX} AND city = :city",
        "events",
        expressions,
        scan_expressions,
    ),
]


def new_engine() -> tocsin.Engine:
    """Every source, with the rows that statements answer from."""
    engine = tocsin.Engine()
    numbers = {"x": "double", "y": "double"}
    engine.create_table("items", key="id", columns={"id": "bigint", "code": "bigint", **numbers})
    engine.create_table("codes", key="code", columns={"code": "bigint", "name": "string"})
    engine.create_stream("latest", columns=numbers, window=f"{WINDOW_ROWS} rows")
    engine.create_stream("events", columns={**numbers, "w": "bigint", "city": "string"})
    random = np.random.default_rng(1)
    codes = np.arange(1000)
    engine.publish("codes", {"code": codes, "name": codes.astype(str)})
    engine.publish("items", {**batch_of("items", draw_rows(random, TABLE_ROWS)), "id": np.arange(TABLE_ROWS)})
    engine.publish("latest", batch_of("latest", draw_rows(random, WINDOW_ROWS)))
    return engine


def draw_rows(random: Generator, count: int) -> Columns:
    """Columns of all sources."""
    return {
        "id": random.integers(0, TABLE_ROWS, count),
        "code": random.integers(0, 1000, count),
        "x": random.uniform(0, 1, count),
        "y": random.uniform(0, 1, count),
        "w": random.integers(1, 200, count),
        "city": random.choice(CITIES, count),
    }


def batch_of(source: str, rows: Columns) -> Columns:
    """The columns that one source has."""
    names = {"items": ("id", "code", "x", "y"), "latest": ("x", "y"), "events": ("x", "y", "w", "city")}[
        source
    ]
    return {name: rows[name] for name in names}


def batches(kind: Kind, random: Generator, size: int) -> Iterator[pa.Table]:
    """Batches without end, all different: in a window, rows that come again would be equal to many others."""
    while True:
        yield pa.table(batch_of(kind.source, draw_rows(random, size)))


def measure_kind(kind: Kind, subscriptions: int, sizes: tuple[int, ...], seconds: float) -> list[Measure]:
    """Each size of batches and the scan in turn, REPEATS times; each for about so many seconds."""
    random = np.random.default_rng(2)
    given = kind.params(random, subscriptions)
    engine = new_engine()
    engine.subscribe_many(kind.sql, given, repeat=kind.repeat)
    rows = draw_rows(random, SCANNED)
    scan = kind.scan(given, rows)
    measures = [Measure(kind.name, subscriptions, size) for size in sizes]
    supplies = [batches(kind, random, size) for size in sizes]
    # One round to warm up: kernels are compiled, buffers grow.
    rounds = [_rounds(engine, kind, supply, seconds) for supply in supplies]
    told = [0] * len(sizes)
    with little_garbage():
        for _ in range(REPEATS):
            for place, measure in enumerate(measures):
                chosen = [next(supplies[place]) for _ in range(rounds[place])]
                gc.collect()
                start = time.process_time()
                for batch in chosen:
                    told[place] += engine.publish(kind.source, batch).num_rows
                took = time.process_time() - start
                measure.events_per_s.append(measure.batch * len(chosen) / took)
                measure.scan_events_per_s.append(_scan_speed(scan))
    for place, measure in enumerate(measures):
        measure.changes_per_event = told[place] / (REPEATS * rounds[place] * measure.batch)
    return measures


def _rounds(engine: tocsin.Engine, kind: Kind, supply: Iterator[pa.Table], seconds: float) -> int:
    """How many batches take about so many seconds."""
    engine.publish(kind.source, next(supply))
    start = time.process_time()
    engine.publish(kind.source, next(supply))
    took = time.process_time() - start
    return min(max(int(seconds / max(took, 1e-6)), 1), 2000)


def _scan_speed(scan: Scan) -> float:
    start = time.process_time()
    for event in range(SCANNED):
        scan(event)
    return SCANNED / (time.process_time() - start)


def measure_registration(count: int) -> dict[str, object]:
    """Seconds and bytes to register so many at once, and microseconds to make and to end one among them."""
    random = np.random.default_rng(3)
    ids = pa.array(np.char.add("customer-", np.arange(count).astype(str)))
    params = pa.table({"id": ids, **boxes(random, count)})
    sql = KINDS[0].sql
    took, subscribing, unsubscribing = [], [], []
    bytes_each = 0.0
    for _ in range(REPEATS):
        engine = new_engine()
        gc.collect()
        start = time.process_time()
        engine.subscribe_many(sql, params)
        took.append(time.process_time() - start)
        bytes_each = sum(array.nbytes for array in engine.state()[1].values()) / count
        start = time.process_time()
        made = [engine.subscribe(sql, lo=0.1, hi=0.2) for _ in range(SINGLE)]
        subscribing.append((time.process_time() - start) / SINGLE * 1e6)
        start = time.process_time()
        for sid in made:
            engine.unsubscribe(sid)
        unsubscribing.append((time.process_time() - start) / SINGLE * 1e6)
    return {
        "what": "registration",
        "subscriptions": count,
        "seconds": [round(value, 3) for value in took],
        "median_seconds": round(median(took), 3),
        "bytes_each": round(bytes_each, 1),
        "subscribe_us": round(median(subscribing), 1),
        "unsubscribe_us": round(median(unsubscribing), 1),
    }


def main(quick: bool) -> None:
    """Measure, print tables, and add to the results."""
    console = Console(width=130)
    surroundings = {**machine.describe(), "quick": quick}
    console.print(surroundings)
    records = [measure_registration(100_000 if quick else 1_000_000)]
    console.print(records[0])
    counts = (1000, 100_000) if quick else (1000, 10_000, 100_000)
    sizes, seconds = ((1, 100, 1000), 0.02) if quick else ((1, 100, 10_000), 0.3)
    for kind in KINDS:
        measures = [one for count in counts for one in measure_kind(kind, count, sizes, seconds)]
        console.print(_table(kind, measures))
        records += [measure.record() for measure in measures]
    surroundings["numpy_scan_ms_after"] = round(machine.numpy_scan_ms(), 4)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as lines:
        lines.writelines(json.dumps({**record, "machine": surroundings}) + "\n" for record in records)
    console.print(f"written: {RESULTS.name}")


def _table(kind: Kind, measures: list[Measure]) -> Table:
    table = Table(title=kind.sql, title_justify="left")
    headings = (
        "subscriptions",
        "batch",
        "events/s",
        "least to most",
        "NumPy scan, events/s",
        "times the scan",
    )
    for heading in (*headings, "changes an event"):
        table.add_column(heading, justify="right")
    for one in measures:
        table.add_row(
            f"{one.subscriptions:,}",
            f"{one.batch:,}",
            f"{median(one.events_per_s):,.0f}",
            f"{min(one.events_per_s):,.0f} to {max(one.events_per_s):,.0f}",
            f"{median(one.scan_events_per_s):,.0f}",
            f"{one.ratio:,.2f}",
            f"{one.changes_per_event:,.1f}",
        )
    return table
