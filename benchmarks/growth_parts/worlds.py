"""A world an index: subscriptions of any number, and steps that can go on for ever.

The number of subscriptions that an event concerns stays the same, however many there are: what
grows is then the cost of finding them, not of telling them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Protocol

import numpy as np

from benchmarks.choice_parts.matchers import id_order
from benchmarks.instrument.memory import footprint
from benchmarks.range_parts.workloads import draw, ranges
from benchmarks.threshold_parts.workloads import static
from benchmarks.window_parts.workloads import IND
from benchmarks.window_parts.workloads import Workload as WindowWorkload
from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Floats
from tocsin.indexes.contract import ABSENT, RowDelta
from tocsin.indexes.ranges import RangeJoin
from tocsin.indexes.ranges.joins.joins_kernels import LEFT, RIGHT
from tocsin.papers.be_star_tree.workload import Knobs, boxes, planted, points

#: Subscriptions that an event concerns, on average.
HITS = 10
#: Matches of an event of the matching paper's workload.
MATCHES = 100
#: Events that are drawn, at least, and then come again.
DRAWN = 2000
#: Elements of a step towards thresholds: queries are looked at now and then, and enough must be.
LONG = 20_000
#: Heavy elements before them.
HEAVY = 10_000
#: Different values of what is distinct, or joined by.
CODES = 1000
#: Cycles of a window that are one step: one alone is too short for the clock.
CYCLES = 4
#: Steps of a window that are drawn: those of a measurement, and some to warm up.
WINDOW_STEPS = 8


@dataclass(frozen=True)
class Settings:
    """One point of a curve."""

    subscriptions: int = 100_000
    rows: int = 10_000
    k: int = 10
    dimensions: int = 1
    batch: int = 1000


class World(Protocol):
    """An index in its surroundings."""

    index: Any

    def step(self) -> int:
        """Go on by a batch: how many events that was."""


class ThresholdWorld:
    """The paper's boxes, with thresholds that begin anew when reached: one for about every second element.

    Before it counts, a few heavy elements bring each query somewhere on its way: at the very beginning nobody
    is near its threshold, which is cheap for an index that looks only at those who are.
    """

    def __init__(self, make: Callable[[int, int], Any], settings: Settings) -> None:
        count, dimensions, batch = settings.subscriptions, settings.dimensions, settings.batch
        work = static(count, 20 * count, dimensions)
        random = np.random.default_rng(5)
        self.index = make(dimensions, 1)
        values = {
            "lo": work.low,
            "hi": work.high,
            "tau": random.integers(10 * count, 30 * count, count),
            "repeat": np.ones(count, np.bool_),
        }
        self.index.register(np.arange(count, dtype=np.int32), values)
        heavy = np.full(HEAVY, max(1, 400 * count // HEAVY), np.int64)
        # In batches as they will come: the engine chooses by their size.
        elements = np.resize(work.values, (HEAVY, dimensions))
        for at in range(0, HEAVY, batch):
            self.index.apply(elements[at : at + batch], heavy[at : at + batch])
        # Of single rows fewer: where many mature, each takes a hundred microseconds.
        length = batch * -(-max(LONG if batch >= 100 else DRAWN, batch) // batch)
        elements, weights = np.resize(work.values, (length, dimensions)), np.resize(work.weights, length)
        self._batches = [
            (elements[at : at + batch], weights[at : at + batch]) for at in range(0, length, batch)
        ]

    def step(self) -> int:
        for values, weights in self._batches:
            self.index.apply(values, weights)
        return sum(len(weights) for _, weights in self._batches)


class MatchingWorld:
    """Conjunctions and events: the paper's planted ones, or `dimensions` ranges over ten attributes."""

    def __init__(
        self, make: Callable[[], Any], settings: Settings, *, is_planted: bool, is_best: bool = False
    ) -> None:
        count, batch = settings.subscriptions, settings.batch
        self._top = settings.k if is_best else None
        if is_planted:
            work = planted(Knobs(count, match_probability=min(MATCHES / count, 0.01)))
            subscriptions, events = work.subscriptions, work.events(max(batch, DRAWN))
        else:
            width = min((HITS / count) ** (1 / settings.dimensions), 1.0)
            attributes = max(10, settings.dimensions)
            subscriptions = boxes(count, attributes, width, ranges=settings.dimensions)
            events = points(max(batch, DRAWN), attributes)
        self._ids = id_order(count)
        self.index = make()
        self.index.register(np.arange(count, dtype=np.int32), subscriptions)
        places = range(0, events.n_events // batch * batch, batch)
        self._batches = cycle([part_of(events, at, at + batch) for at in places])

    def step(self) -> int:
        events = next(self._batches)
        self.index.apply(events, self._top, self._ids)
        return int(events.n_events)


def box_bounds(random: np.random.Generator, settings: Settings) -> dict[str, np.ndarray]:
    """Boxes of which HITS hold a row, whatever its score is."""
    count, dimensions = settings.subscriptions, settings.dimensions
    width = min((HITS / count) ** (1 / dimensions), 1.0)
    lo = random.random((count, dimensions)) * (1 - width)
    return {
        "lo": lo,
        "hi": lo + width,
        "k": np.full(count, settings.k, np.int32),
        "score_lo": np.full(count, -np.inf),
        "score_hi": np.full(count, np.inf),
    }


def score_bounds(random: np.random.Generator, settings: Settings) -> dict[str, np.ndarray]:
    """Intervals of scores `x + :a * y`, of which about HITS hold the score of a row of the unit square.

    Without an upper end, few rows would concern many, and most rows nobody.
    """
    count = settings.subscriptions
    weight = random.uniform(0.5, 1.5, count)
    width = (1 + weight) * min(HITS / count, 1.0)
    low = random.random(count) * (1 + weight - width)
    return {"theta": weight[:, None], "score_lo": low, "score_hi": low + width}


def one_value(random: np.random.Generator, count: int) -> Floats:
    """What rows hold beside the dimensions: a number."""
    return random.random((count, 1))


def two_values(random: np.random.Generator, count: int) -> Floats:
    """Two numbers."""
    return random.random((count, 2))


def code(random: np.random.Generator, count: int) -> Floats:
    """One of CODES values."""
    return random.integers(0, CODES, (count, 1)).astype(np.float64)


def coded_value(random: np.random.Generator, count: int) -> Floats:
    """The same as a code and as a number."""
    return np.repeat(code(random, count), 2, axis=1)


class TableWorld:
    """Rows of a table that get another value, and later their old one back; each is in HITS boxes."""

    def __init__(
        self,
        make: Callable[[Settings], Any],
        settings: Settings,
        *,
        bounds: Callable[[np.random.Generator, Settings], dict[str, np.ndarray]] = box_bounds,
        draw_values: Callable[[np.random.Generator, int], Floats] = one_value,
    ) -> None:
        random = np.random.default_rng(3)
        rows = max(settings.rows, settings.batch)
        values = bounds(random, settings)
        dimensions = values["lo"].shape[1] if "lo" in values else 0
        self.index = make(settings)
        self.index.register(np.arange(settings.subscriptions, dtype=np.int32), values)
        held = np.concatenate([random.random((rows, dimensions)), draw_values(random, rows)], axis=1)
        self.index.apply(_delta(np.arange(rows), np.full(held.shape, np.nan), held, are_new=True))
        there, back = [], []
        for _ in range(max(2, min(DRAWN, rows) // settings.batch)):
            chosen = random.choice(rows, settings.batch, replace=False)
            after = held[chosen].copy()
            after[:, dimensions:] = draw_values(random, settings.batch)
            there.append(_delta(chosen, held[chosen], after))
            back.append(_delta(chosen, after, held[chosen]))
            held[chosen] = after
        self._deltas = cycle([*there, *reversed(back)])

    def step(self) -> int:
        delta = next(self._deltas)
        self.index.apply(delta)
        return len(delta.row)


class LeftOfJoin(RangeJoin):
    """A join whose right table stays as it is, with one row for each code."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.dimensions, 0)
        codes = np.arange(CODES)
        nothing = np.full((CODES, 1), np.nan)
        super().apply(_delta(codes, nothing, codes[:, None].astype(np.float64), are_new=True), RIGHT)

    def apply(self, delta: RowDelta, side: int = LEFT) -> ChangeSet:
        return super().apply(delta, side)


class MessageWorld:
    """The range top-k paper's rows and events, told as messages; ranges are uniform."""

    def __init__(self, make: Callable[[Settings], Any], settings: Settings, *, is_aware: bool) -> None:
        events = settings.batch * -(-DRAWN // settings.batch)
        table, changes = draw(7, settings.rows, events)
        self.index = make(settings)
        if is_aware:
            count = settings.subscriptions
            self.index.register(np.arange(count, dtype=np.int32), *ranges(7, count))
        self.index.load(*table)
        places = range(0, events, settings.batch)
        self._batches = cycle([changes.part(at, at + settings.batch) for at in places])

    def step(self) -> int:
        batch = next(self._batches)
        self.index.apply(*batch)
        return len(batch.slot)


class WindowWorld:
    """The window paper's cycles; a batch comes and as many rows go. Cycles do not come again."""

    def __init__(self, make: Callable[..., Any], settings: Settings) -> None:
        work = WindowWorkload(
            IND,
            settings.subscriptions,
            settings.k,
            # A batch is the whole window at most.
            rows=max(settings.rows, settings.batch),
            rate=settings.batch,
            dimensions=settings.dimensions,
        )
        self.index = make(0, work.program(), descending=True, newest_first=True)
        deltas = work.cycles()
        self.index.apply(next(deltas))
        values = {"theta": work.weights(), "k": np.full(work.queries, work.k, np.int64)}
        self.index.register(np.arange(work.queries, dtype=np.int32), values)
        self._cycles = CYCLES if settings.batch < 100_000 else 1
        self._deltas = iter(list(islice(deltas, self._cycles * WINDOW_STEPS)))

    def step(self) -> int:
        count = 0
        for delta in islice(self._deltas, self._cycles):
            self.index.apply(delta)
            count += len(delta.row) // 2
        return count


def bytes_of(world: World) -> int:
    """Bytes of all arrays of the index."""
    return footprint(world.index)


def part_of(events: Any, begin: int, end: int) -> Any:
    """Some events of a batch, with their values."""
    cut = slice(events.offsets[begin], events.offsets[end])
    names = ("attribute", "kind", "low", "high", "text_start", "text_length", "weight")
    columns = {name: getattr(events, name)[cut] for name in names}
    return events._replace(offsets=events.offsets[begin : end + 1] - events.offsets[begin], **columns)


def _delta(rows: np.ndarray, before: Floats, after: Floats, *, are_new: bool = False) -> RowDelta:
    count, born = len(rows), rows.astype(np.int64)
    return RowDelta(
        seq=np.zeros(1, np.int64),
        step=np.zeros(count, np.int32),
        row=rows.astype(np.int32),
        born_before=np.full(count, ABSENT, np.int64) if are_new else born,
        born_after=born,
        before=before,
        after=after,
        touched=np.zeros(count, np.bool_),
    )
