"""Matching: the engine's index, the paper's tree and its competitors, on its workloads and on plain boxes.

A rival joins by one entry in `RIVALS`. `python -m benchmarks.matching` takes workloads by number and rivals
by name: all at once take some minutes.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Protocol

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.choice_parts.scanning import NumpyScan as TableScan
from benchmarks.choice_parts.tasks import task_of
from benchmarks.instrument.arguments import numbered
from benchmarks.instrument.memory import footprint
from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.types import Ints
from tocsin.indexes.matching import AccessIndex, Conjunctions, Events, IdOrder, MatchScan
from tocsin.indexes.matching.layout import KINDS
from tocsin.indexes.matching.reports import changes_of
from tocsin.papers.be_star_tree import BEStarTree, BETree, CountingIndex, KIndex, TreeOptions
from tocsin.papers.be_star_tree.workload import Knobs, boxes, planted, points

RESULTS = Path(__file__).parent / "results" / "matching.jsonl"
OWN = "engine"
STAR = "BE*-Tree"
#: The same with the paper's bounds; and with its leaves and its order of attributes, too.
LOOSE = "BE*-Tree, printed bounds"
PAPER = "BE*-Tree, as printed"
COUNTING = "counting"
K_INDEX = "k-index"
#: Events of a batch.
BATCH = 1000
#: So few attributes are asked for where every event has all of them.
FEW_ATTRIBUTES = 16


class MatchIndex(Protocol):
    """What is asked of a rival."""

    def register(self, slots: Ints, predicates: Conjunctions) -> None: ...

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet: ...


class NumpyScan:
    """What one would write with NumPy alone: ranges over numbers, an event at a time, without top-k.

    Where events have all attributes, these are the columns of a table; else the predicates of an attribute
    lie together, so that an event is compared with nothing that it lacks.
    """

    def register(self, slots: Ints, predicates: Conjunctions) -> None:
        width, n_attributes = int(predicates.counts[0]), len(predicates.names)
        self._count, self._n_attributes = len(slots), n_attributes
        self._table_scan = None
        table = predicates.predicates
        self._score = table["weight"].reshape(-1, width).sum(axis=1)
        if n_attributes <= FEW_ATTRIBUTES:
            self._table_scan = TableScan(task_of("", predicates, n_attributes, width))
            return
        attribute = (table["key"] - 1) // KINDS
        order = np.argsort(attribute, kind="stable")
        self._low, self._high = table["low"][order], table["high"][order]
        self._first = np.searchsorted(attribute[order], np.arange(n_attributes + 1))
        self._holds = np.zeros(len(order), np.bool_)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        #: int64 (predicates of one, subscriptions): where each is among those of its attribute
        self._place = place.reshape(-1, width).T.copy()

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        if self._table_scan is not None:
            places, found = self._table_scan.match(events, events.low.reshape(-1, self._n_attributes))
            places, found = np.divmod(np.sort(places * self._count + found), self._count)
            return changes_of(places.astype(np.int32), found.astype(np.int32), self._score[found], None)
        listed: list[Ints] = []
        for event in range(events.n_events):
            self._holds[:] = False
            for entry in range(events.offsets[event], events.offsets[event + 1]):
                mine = slice(*self._first[events.attribute[entry] : events.attribute[entry] + 2])
                value = events.low[entry]
                self._holds[mine] = (self._low[mine] <= value) & (value <= self._high[mine])
            slots = np.flatnonzero(self._holds[self._place[0]])
            for place in self._place[1:]:
                slots = slots[self._holds[place[slots]]]
            listed.append(slots.astype(np.int32))
        matches: Ints = np.concatenate(listed)
        step: Ints = np.repeat(np.arange(len(listed), dtype=np.int32), [len(one) for one in listed])
        return changes_of(step, matches, self._score[matches], None)


@dataclass(frozen=True)
class Rival:
    """A rival, and on how many events of a batch it is measured."""

    make: Callable[[], MatchIndex]
    events: int
    has_top: bool = True


RIVALS: dict[str, Rival] = {
    OWN: Rival(AccessIndex, BATCH),
    STAR: Rival(BEStarTree, 256),
    LOOSE: Rival(partial(BEStarTree, options=TreeOptions(is_capped=False)), 256),
    PAPER: Rival(partial(BEStarTree, options=TreeOptions(leaf=5, first="popular", is_capped=False)), 256),
    "BE-Tree": Rival(BETree, 256),
    COUNTING: Rival(CountingIndex, 128),
    K_INDEX: Rival(KIndex, 16),
    "scan": Rival(MatchScan, 128),
    "NumPy scan": Rival(NumpyScan, 64, has_top=False),
}


@dataclass(frozen=True)
class Workload:
    """Subscriptions, a batch of events, and what is asked of it."""

    name: str
    subscriptions: Conjunctions
    events: Events
    tops: tuple[int | None, ...] = (None, 1, 5)
    #: rivals that it would take too long to build for it
    without: tuple[str, ...] = ()
    #: events that are matched together
    batch: int = BATCH


@dataclass
class Measure:
    """All repeats of one rival on one workload."""

    workload: str
    subscriptions: int
    rival: str
    top: int | None
    build_s: float
    bytes_each: float
    us: list[float] = field(default_factory=list)
    matches: float = 0.0

    def record(self) -> dict[str, object]:
        """One line of the results."""
        return {
            **vars(self),
            "us": [round(value, 3) for value in self.us],
            "median_us": round(median(self.us), 3),
        }


def main(quick: bool, numbers: Sequence[int] = (), rivals: Sequence[str] = ()) -> None:
    """Measure, print a table, and add to the results; without numbers and rivals, everything."""
    console = Console(width=130)
    surroundings = machine.describe() | {"quick": quick}
    console.print(surroundings)
    _warm_up()
    RESULTS.parent.mkdir(exist_ok=True)
    plan = list(_plan(quick).items())
    for number in numbers or range(len(plan)):
        name, make = plan[number]
        workload = make(name)
        scan_before = machine.numpy_scan_ms()
        measures = _measure(workload, 5 if quick else 7, rivals or tuple(RIVALS))
        around = {"numpy_scan_ms_before": scan_before, "numpy_scan_ms_after": machine.numpy_scan_ms()}
        console.print(_table(measures), around)
        for line in _ratios(measures):
            console.print(line)
        with RESULTS.open("a") as lines:
            for one in measures:
                lines.write(json.dumps({**one.record(), **around, "machine": surroundings}) + "\n")
    console.print(f"written: {RESULTS.name}")


def _plan(quick: bool) -> dict[str, Callable[[str], Workload]]:
    """Workloads by name, each made when its turn comes."""
    count = 100_000 if quick else 1_000_000
    return {
        "planted, uniform": partial(_planted, Knobs(count)),
        "planted, Zipf": partial(_planted, Knobs(count, is_zipf=True)),
        # Posting lists grow with the logarithm of the different bounds, and these are millions here.
        "planted, uniform, wide clusters": partial(
            _planted, Knobs(count, cluster_size=100_000), without=(COUNTING, K_INDEX)
        ),
        "boxes, narrow": partial(_boxes, 0.02),
        "boxes, wide": partial(_boxes, 0.2),
        **{
            f"boxes, {name}, batches of {batch}": partial(_boxes, width, batch=batch)
            for batch in (1, 10, 100)
            for name, width in (("narrow", 0.02), ("wide", 0.2))
        },
    }


def _planted(knobs: Knobs, name: str, without: tuple[str, ...] = ()) -> Workload:
    workload = planted(knobs)
    return Workload(name, workload.subscriptions, workload.events(BATCH), without=without)


def _boxes(width: float, name: str, batch: int = BATCH) -> Workload:
    return Workload(name, boxes(100_000, 10, width), points(BATCH, 10), (None,), batch=batch)


def _measure(workload: Workload, repeats: int, rivals: Sequence[str]) -> list[Measure]:
    """These rivals in turn, `repeats` times; their answers are the same."""
    count = len(workload.subscriptions.counts)
    slots, ids = np.arange(count, dtype=np.int32), _ids(count)
    measures: list[Measure] = []
    built: dict[str, MatchIndex] = {}
    for name, rival in RIVALS.items():
        if name in workload.without or name not in rivals:
            continue
        gc.collect()
        built[name] = rival.make()
        start = time.process_time()
        built[name].register(slots, workload.subscriptions)
        # Some are built when the first event comes.
        built[name].apply(_first(workload.events, 1), None, ids)
        build_s = time.process_time() - start
        size = footprint(built[name]) / count
        tops = workload.tops if rival.has_top else (None,)
        measures += [Measure(workload.name, count, name, top, build_s, size) for top in tops]
    for _ in range(repeats):
        expected: dict[int | None, ChangeSet] = {}
        for one in measures:
            events = _first(workload.events, RIVALS[one.rival].events)
            batches = [
                _cut(events, begin, begin + workload.batch)
                for begin in range(0, events.n_events, workload.batch)
            ]
            start = time.process_time()
            changes = [built[one.rival].apply(batch, one.top, ids) for batch in batches]
            one.us.append(1e6 * (time.process_time() - start) / events.n_events)
            found = _joined(changes, workload.batch)
            one.matches = len(found.step) / events.n_events
            _compare(expected.setdefault(one.top, found), found, events.n_events)
    return measures


def _compare(expected: ChangeSet, found: ChangeSet, n_events: int) -> None:
    """The same matches, as far as both go; NumPy adds up in another order."""
    end = np.searchsorted(expected.step, n_events)
    assert np.array_equal(expected.subscription[:end], found.subscription)
    assert np.allclose(expected.score[:end], found.score)


def _joined(changes: list[ChangeSet], batch: int) -> ChangeSet:
    """What was changes of batches, as if they had been one."""
    if len(changes) == 1:
        return changes[0]
    steps = [one.step + number * batch for number, one in enumerate(changes)]
    matches = np.concatenate([one.subscription for one in changes])
    return changes_of(np.concatenate(steps), matches, np.concatenate([one.score for one in changes]), None)


def _first(events: Events, count: int) -> Events:
    """The first events of a batch."""
    return _cut(events, 0, count)


def _cut(events: Events, begin: int, end: int) -> Events:
    """The events from `begin` to `end`."""
    end = min(end, events.n_events)
    entries = slice(events.offsets[begin], events.offsets[end])
    columns = {
        name: getattr(events, name)[entries]
        for name in ("attribute", "kind", "low", "high", "text_start", "text_length", "weight")
    }
    return events._replace(offsets=events.offsets[begin : end + 1] - events.offsets[begin], **columns)


def _ids(count: int) -> IdOrder:
    names = StringInterner()
    owner, _ = names.add(pa.array([f"s{number:08d}" for number in range(count)]))
    return IdOrder(names.columns.heap, names.columns.starts, names.columns.lengths, owner.astype(np.int32))


def _warm_up() -> None:
    """Compile, or load, everything that is timed."""
    workload = planted(Knobs(5000, profiles=20))
    small = Workload("warm-up", workload.subscriptions, workload.events(20))
    _measure(small, 1, tuple(RIVALS))


def _table(measures: list[Measure]) -> Table:
    own = next((one for one in measures if one.rival == OWN), measures[0])
    table = Table(title=f"{own.workload}: {own.subscriptions:,} subscriptions")
    columns = (
        "rival",
        "top",
        "events/s",
        "µs an event",
        "least to most",
        "times the engine",
        "build s",
        "bytes",
    )
    for column in (*columns, "matches"):
        table.add_column(column, justify="left" if column == "rival" else "right")
    for one in measures:
        same = next((each for each in measures if each.rival == OWN and each.top == one.top), own)
        table.add_row(
            one.rival,
            "all" if one.top is None else str(one.top),
            f"{1e6 / median(one.us):,.0f}",
            f"{median(one.us):,.1f}",
            f"{min(one.us):,.1f} to {max(one.us):,.1f}",
            f"{median(one.us) / median(same.us):,.1f}",
            f"{one.build_s:.2f}",
            f"{one.bytes_each:,.0f}",
            f"{one.matches:,.1f}",
        )
    return table


def _ratios(measures: list[Measure]) -> list[str]:
    """How many times faster one is than another, where both were measured."""
    rate = {(one.rival, one.top): 1e6 / median(one.us) for one in measures}
    asked: list[tuple[tuple[str, int | None], tuple[str, int | None]]] = [
        ((OWN, None), ("scan", None)),
        ((OWN, None), ("NumPy scan", None)),
        ((OWN, None), (COUNTING, None)),
        ((OWN, 1), (OWN, None)),
        ((OWN, 1), (STAR, 1)),
        ((OWN, 1), (LOOSE, 1)),
        ((OWN, 1), (PAPER, 1)),
        ((STAR, None), (COUNTING, None)),
        ((STAR, 1), (STAR, None)),
        ((LOOSE, 1), (LOOSE, None)),
        ((PAPER, 1), (PAPER, None)),
    ]
    return [
        f"{_shown(*fast)}: {rate[fast] / rate[slow]:,.1f} times {_shown(*slow)}"
        for fast, slow in asked
        if fast in rate and slow in rate
    ]


def _shown(rival: str, top: int | None) -> str:
    return f"{rival}, all" if top is None else f"{rival}, best {top}"


if __name__ == "__main__":
    parser = numbered("matching", __doc__)
    parser.add_argument("--rival", action="append", choices=RIVALS, help="a rival to take; may be repeated")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{number}: {name}" for number, name in enumerate(_plan(options.quick))))
    else:
        main(options.quick, options.numbers, options.rival or ())
