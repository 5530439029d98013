"""What a user would take instead: NumPy, Polars, DuckDB, PostgreSQL, intervaltree, rtree, on the same tasks.

Wall time, because some use both cores and one is another process. Every rival gets the same events and must
find the same; each is used as its users tune it, which the classes in `choice_parts` say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.choice_parts.counters import COUNTERS, Counter, PostgresJoin
from benchmarks.choice_parts.matchers import MATCHERS, Matcher, numbers_of
from benchmarks.choice_parts.postgres import PostgresMatcher, server
from benchmarks.choice_parts.tasks import Task, attributes_task, boxes_task, ranges_task
from benchmarks.instrument.memory import peaks_mb
from benchmarks.instrument.records import Record
from benchmarks.instrument.repeats import interleave
from benchmarks.instrument.results import save
from benchmarks.threshold_parts.workloads import Workload, static, uniform

REPEATS = 5
POSTGRES = "PostgreSQL, GiST"
INTERVALS = "intervaltree"
#: Rivals whose cost of an event does not depend on the batch: measured on some events of it.
ONE_BY_ONE = {"NumPy scan": 200, INTERVALS: 200, POSTGRES: 100}
#: Elements that a rival counts in a batch, where it is not all of it: each makes thousands of pairs.
ELEMENTS = {
    "NumPy scan": 50,
    "Polars join_where": 500,
    "DuckDB range join": 500,
    INTERVALS: 5,
    POSTGRES: 20,
}
#: What is measured in a process of its own, for the peak of its memory.
PEAKS = "benchmarks.choice_parts.peaks"


@dataclass(frozen=True)
class Contest:
    """One task at one size of batches, and who takes part."""

    task: Task
    batch: int
    rivals: Mapping[str, Callable[[Task], Matcher]]

    @property
    def case(self) -> str:
        return f"{self.task.name}, {self.task.count:,} subscriptions, batches of {self.batch:,}"


def main(quick: bool) -> None:
    """Measure, print tables, and add to the results."""
    console = Console(width=120)
    surroundings = machine.describe() | {"quick": quick}
    console.print(surroundings)
    with server() as address:
        if address is None:
            console.print("PostgreSQL's programs are not on this machine: it takes no part")
        compile_s = _warm_up()
        console.print(f"{compile_s:.1f} s to compile, or to load what was compiled")
        for contest in _contests(quick, address):
            records = match_all(contest, surroundings, compile_s)
            console.print(_table(records))
            save(records)
        count = 100_000 if quick else 1_000_000
        # Thresholds uniform up to tau: where nobody is near its own, an index that looks seldom has it easy.
        records = count_all(uniform(count, 20 * count), address, surroundings, compile_s)
        console.print(_table(records))
        save(records)
    console.print(f"NumPy scan after: {machine.numpy_scan_ms():.3f} ms")


def match_all(contest: Contest, surroundings: Mapping[str, Any], compile_s: float) -> list[Record]:
    """All rivals of a contest, in turn; they must find the same pairs."""
    task = contest.task
    built: dict[str, Matcher] = {}
    build_s: dict[str, float] = {}
    for name, make in contest.rivals.items():
        start = time.perf_counter()
        built[name] = make(task)
        build_s[name] = time.perf_counter() - start
    counts = {name: min(contest.batch, ONE_BY_ONE.get(name, contest.batch)) for name in built}
    batches = {name: task.events(count, contest.batch) for name, count in counts.items()}
    _check(task, built)
    works = {name: partial(_match, built[name], *batches[name]) for name in built}
    found = interleave(works, REPEATS, time.perf_counter)
    for matcher in built.values():
        getattr(matcher, "close", lambda: None)()
    peaks = _peaks("match", (task.name, task.count), tuple(_rivals(task, None)))
    return [
        Record(
            "choices",
            contest.case,
            name,
            "µs an event",
            tuple(1e6 * value for value in values),
            {"subscriptions": task.count, "batch": contest.batch, "events": counts[name]},
            compile_s=compile_s if name.startswith("Tocsin") else None,
            build_s=build_s[name],
            peak_mb=peaks.get(name),
            seed=task.seed,
            machine=surroundings,
        )
        for name, values in found.items()
    ]


def count_all(
    work: Workload, address: str | None, surroundings: Mapping[str, Any], compile_s: float
) -> list[Record]:
    """Everybody counts towards thresholds; before that all count the same elements, and must agree."""
    makes = dict(COUNTERS)
    if address is not None:
        makes[POSTGRES] = partial(PostgresJoin, address=address)
    if len(work.tau) > 100_000:
        # Minutes to build, and gigabytes.
        del makes[INTERVALS]
    built: dict[str, Counter] = {}
    build_s: dict[str, float] = {}
    for name, make in makes.items():
        start = time.perf_counter()
        built[name] = make(work)
        build_s[name] = time.perf_counter() - start
        built[name].count(work.values[:5], work.weights[:5])
    # Who has matured already counts no further, or does.
    is_open = work.tau > work.weights[:5].sum()
    first = next(iter(built.values())).reached()[is_open]
    for name, counter in built.items():
        assert np.array_equal(counter.reached()[is_open], first), f"{name} counts otherwise"
    batch = 10_000
    counts = {name: ELEMENTS.get(name, batch) for name in built}
    works = {name: _Counting(counter, work, counts[name]) for name, counter in built.items()}
    found = interleave(works, REPEATS, time.perf_counter)
    for counter in built.values():
        getattr(counter, "close", lambda: None)()
    queries = len(work.tau)
    peaks = _peaks("count", (queries,), tuple(name for name in makes if name != POSTGRES))
    return [
        Record(
            "choices",
            f"sums towards thresholds, {queries:,} subscriptions, batches of {batch:,}",
            name,
            "µs an event",
            tuple(1e6 * value for value in values),
            {"subscriptions": queries, "batch": batch, "events": counts[name]},
            compile_s=compile_s if name.startswith("Tocsin") else None,
            build_s=build_s[name],
            peak_mb=peaks.get(name),
            seed=20160627,
            machine=surroundings,
        )
        for name, values in found.items()
    ]


@cache
def _peaks(work: str, of: tuple[str | int, ...], rivals: tuple[str, ...]) -> dict[str, float | None]:
    """What rivals add to memory: once for all sizes of batches; not of a server, which has its own."""
    return dict(zip(rivals, peaks_mb(f"{PEAKS}:{work}", [(*of, name) for name in rivals]), strict=True))


class _Counting:
    """The next batch of elements, whenever it is called; from the beginning when there are no more."""

    def __init__(self, counter: Counter, work: Workload, size: int) -> None:
        self._counter, self._work, self._size = counter, work, size
        self._at = 0

    def __call__(self) -> int:
        if self._at + self._size > len(self._work.weights):
            self._at = 0
        part = slice(self._at, self._at + self._size)
        self._counter.count(self._work.values[part], self._work.weights[part])
        self._at += self._size
        return self._size


def _contests(quick: bool, address: str | None) -> list[Contest]:
    count = 100_000 if quick else 1_000_000
    contests = []
    narrow, wide = 0.02, 0.2
    # Large batches by ranges of a task: joins of several ranges take up to a millisecond an event.
    large = {1: 100_000, 2: 10_000} if quick else {1: 100_000, 2: 10_000, 3: 10_000}
    for task in (ranges_task(count), boxes_task(count), attributes_task(100_000, narrow)):
        contests.append(Contest(task, 1000, _rivals(task, address)))
        if task.ranges in large:
            together = {name: make for name, make in MATCHERS.items() if name not in ONE_BY_ONE}
            contests.append(Contest(task, large[task.ranges], together))
    task = attributes_task(100_000, wide)
    contests.append(Contest(task, 200 if quick else 1000, _rivals(task, address)))
    return contests


def _rivals(task: Task, address: str | None) -> dict[str, Callable[[Task], Matcher]]:
    rivals = dict(MATCHERS)
    if task.dimensions > 1 or task.count > 100_000:
        # It has one dimension; and a million of its objects take minutes and gigabytes.
        del rivals[INTERVALS]
    if address is not None:
        rivals[POSTGRES] = partial(PostgresMatcher, address=address)
    return rivals


def _check(task: Task, built: Mapping[str, Matcher]) -> None:
    """All find the same pairs. Raises AssertionError if one does not."""
    events = task.events(50, 7)
    expected = None
    for name, matcher in built.items():
        place, slots = matcher.match(*events)
        pairs = np.sort(np.asarray(place, np.int64) * task.count + numbers_of(slots))
        expected = pairs if expected is None else expected
        assert np.array_equal(pairs, expected), f"{name} finds other pairs: {task.name}"


def _match(matcher: Matcher, events: Any, table: Any) -> int:
    matcher.match(events, table)
    return len(table)


def _warm_up() -> float:
    """Compile what the engine needs: seconds of wall time."""
    start = time.perf_counter()
    for task in (ranges_task(6000), boxes_task(6000), attributes_task(6000, 0.02)):
        for name in ("Tocsin, the index", "Tocsin, publish"):
            matcher = MATCHERS[name](task)
            matcher.match(*task.events(300))
    work = static(6000, 20_000)
    counter = COUNTERS["Tocsin, the index"](work)
    for begin in range(0, len(work.weights), 500):
        counter.count(work.values[begin : begin + 500], work.weights[begin : begin + 500])
    return time.perf_counter() - start


def _table(records: list[Record]) -> Table:
    own = records[0]
    table = Table(title=own.case, title_justify="left")
    for heading in ("rival", "µs an event", "least to most", "times Tocsin's index", "build s", "peak MB"):
        table.add_column(heading, justify="left" if heading == "rival" else "right")
    for record in records:
        table.add_row(
            record.subject,
            f"{record.median:,.3g}",
            f"{record.spread[0]:,.3g} to {record.spread[1]:,.3g}",
            f"{own.times(record):,.3g}",
            f"{record.build_s:.2f}",
            "" if record.peak_mb is None else f"{record.peak_mb:,.0f}",
        )
    return table
