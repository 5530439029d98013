"""Events a second: Paint-Dense, Paint-Sparse, and the two ways to tell subscribers one by one."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, Protocol

from benchmarks.range_parts.tables import batches
from benchmarks.range_parts.workloads import Table, draw, ranges
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.messages.painters.batch import PaintBatch
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.messages.painters.sparse import PaintSparse
from tocsin.indexes.ranges.messages.receivers import Receivers, receiver_counts
from tocsin.papers.topk_paint.coalesce import PaintCoalesce
from tocsin.papers.topk_paint.unicast import Unicast

DENSE = "Paint-Dense"
SPARSE = "Paint-Sparse"
TILES = "unicast through tiles"
LITERAL = "literal Unicast"
EXACT = "exact Unicast"
#: Places of the run that a way too slow for all of it is measured at.
SECTIONS = 5


class Loads(Protocol):
    """What a table can be loaded into."""

    def load(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None: ...


class Way(NamedTuple):
    """How events are played: into what, by what, and how many of them."""

    server: Loads
    play: Callable[[Table], object]
    events: int


@dataclass
class Speed:
    """All repeats of one way at one size."""

    way: str
    k: int
    rows: int
    events: int
    events_per_s: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(self.events_per_s)

    def record(self) -> dict[str, object]:
        """One line of the results."""
        return {
            "what": "speed",
            "way": self.way,
            "k": self.k,
            "rows": self.rows,
            "events": self.events,
            "events_per_s": [round(value) for value in self.events_per_s],
            "median_events_per_s": round(self.median),
        }


def measure_speeds(k: int, rows: int, events: int, subscriptions: int, repeats: int) -> list[Speed]:
    """Each way in turn, `repeats` times, on the same events; the slow ways on some of them.

    A few events make up most of the work: at k = 1 one in a hundred has 98 of 100 subscriptions that are
    affected at all. Without subscriptions, Paint-Dense alone.
    """
    table, changes = draw(7, rows, events)
    painter = PaintDense(k, capacity=1 << 16)
    ways = {DENSE: Way(painter, lambda batch: painter.apply(*batch), events)}
    some, few = min(events, 5_000), min(events, 5_000 if k == 1 else 200)
    if subscriptions:
        bounds = ranges(7, subscriptions)
        literal = Unicast(k, *bounds, literal=True, capacity=1 << 16)
        exact = Unicast(k, *bounds, capacity=1 << 16)
        receivers = Receivers(literal.points)
        aware = PaintSparse(k, capacity=1 << 16)
        aware.points = literal.points
        ways[SPARSE] = Way(aware, lambda batch: aware.apply(*batch), events)
        ways[TILES] = Way(painter, lambda batch: receivers.list(painter.apply(*batch)), some)
        ways[LITERAL] = Way(literal, lambda batch: literal.apply(*batch), some)
        ways[EXACT] = Way(exact, lambda batch: exact.apply(*batch), few)
    speeds = [Speed(name, k, rows, way.events) for name, way in ways.items()]
    # One round to warm up: kernels are compiled, buffers grow.
    for _ in range(repeats + 1):
        for speed in speeds:
            ways[speed.way].server.load(*table)
            speed.events_per_s.append(_speed(ways[speed.way], changes))
    for speed in speeds:
        del speed.events_per_s[0]
    return speeds


def _speed(way: Way, events: Table) -> float:
    """Play as many events as the way is given, from SECTIONS places of the run; load the others."""
    gc.collect()
    took = 0.0
    length, played = len(events.slot) // SECTIONS, way.events // SECTIONS
    for begin in range(0, SECTIONS * length, length):
        start = time.process_time()
        for batch in batches(events.part(begin, begin + played)):
            way.play(batch)
        took += time.process_time() - start
        if played < length:
            way.server.load(*events.part(begin + played, begin + length))
    return SECTIONS * played / took


def count_batch(k: int, events: int, subscriptions: int) -> list[dict[str, object]]:
    """Figure 9: messages of one batch, sent and received: one at a time, coalesced, and by Paint-Batch."""
    table, changes = draw(7, 10_000, events)
    points = Unicast(1, *ranges(7, subscriptions)).points
    records: list[dict[str, object]] = []
    for name, way in (("Online", PaintDense), ("Coalesce", PaintCoalesce), ("Paint-Batch", PaintBatch)):
        painter = way(k, capacity=1 << 16)
        painter.load(*table)
        messages = painter.apply(*changes)
        received = int(receiver_counts(points, messages).sum())
        records.append(
            {"what": "batch", "way": name, "k": k, "sent": len(messages.payload), "received": received}
        )
    return records
