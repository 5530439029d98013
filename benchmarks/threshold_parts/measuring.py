"""Measure rivals on one workload: interleaved, repeated, and held against each other's answers."""

from __future__ import annotations

import gc
import logging
from dataclasses import dataclass, field
from statistics import median

from benchmarks.threshold_parts.playing import Make, Played, Player, Snapshot
from benchmarks.threshold_parts.workloads import Workload, static, stretch, uniform

logger = logging.getLogger(__name__)

#: Pieces of a stream that a slow rival is measured on, and elements of each.
STRETCHES = 6
STRETCH_LENGTH = 500


@dataclass(frozen=True)
class Entry:
    """A rival, the size of its batches, and how it is measured."""

    rival: str
    make: Make
    batch: int
    #: only on stretches of the stream: queries that live there, with what they then miss
    is_sampled: bool = False
    #: at most this many repeats
    repeats: int = 5
    #: only so many elements from the beginning
    elements: int | None = None


@dataclass
class Measure:
    """All repeats of one entry."""

    workload: str
    queries: int
    elements: int
    entry: Entry
    us_per_element: list[float] = field(default_factory=list)
    build_s: list[float] = field(default_factory=list)
    bytes_per_query: float = 0.0
    matured: int | None = None

    @property
    def median_us(self) -> float:
        return median(self.us_per_element)

    def record(self) -> dict[str, object]:
        """One line of the results."""
        return {
            "workload": self.workload,
            "queries": self.queries,
            "elements": self.elements,
            "rival": self.entry.rival,
            "batch": self.entry.batch,
            "is_sampled": self.entry.is_sampled,
            "elements_played": self.entry.elements or self.elements,
            "us_per_element": [round(value, 5) for value in self.us_per_element],
            "median_us": round(self.median_us, 5),
            "build_s": round(median(self.build_s), 3),
            "bytes_per_query": round(self.bytes_per_query),
            "matured": self.matured,
        }


def warm_up(make: Make, dimensions: int) -> float:
    """Compile, or load, every path once; how many seconds of wall time that took."""
    took = 0.0
    for workload in (static(20_000, 10_000, dimensions, 500), uniform(6000, 20_000, dimensions, 500)):
        for batch in (500, 1):
            took += Player(make, workload, batch).play(2000).wall_s
    return took


def measure(workload: Workload, entries: list[Entry], repeats: int) -> list[Measure]:
    """Play every entry `repeats` times, one after the other in turn.

    The first entry plays the whole stream, and shows where sampled rivals start. Before that it plays the
    stream once without a clock: what happens rarely is compiled then, which no small warm-up reaches.
    """
    Player(entries[0].make, workload, entries[0].batch).play()
    first = workload.n_first or int((workload.start <= 0).sum())
    n_elements = len(workload.weights)
    measures = [Measure(workload.name, first, n_elements, entry) for entry in entries]
    places = _places(n_elements, workload.border)
    snapshots: list[Snapshot] = []
    expected: list[tuple[int, int, float]] | None = None
    for repeat in range(repeats):
        for result in measures:
            entry = result.entry
            if repeat >= entry.repeats:
                continue
            gc.collect()
            if entry.is_sampled:
                _measure_stretches(workload, snapshots, result)
            else:
                player = Player(entry.make, workload, entry.batch, () if snapshots else places)
                played = player.play(entry.elements)
                snapshots = snapshots or played.snapshots
                _add(result, played, [played])
                matured = played.matured()
                expected = matured if expected is None else expected
                result.matured = len(matured)
                told = [row for row in expected if row[0] < (entry.elements or n_elements)]
                assert matured == told, f"{entry.rival} and {entries[0].rival} differ on {workload.name}"
            logger.info(
                "%s, %d queries, batches of %d: %s %.3f µs an element, built in %.2f s",
                workload.name,
                first,
                entry.batch,
                entry.rival,
                result.us_per_element[-1],
                result.build_s[-1],
            )
    return measures


def _places(n_elements: int, border: int) -> tuple[int, ...]:
    """The beginning, where a sampled rival is built, and the middles of equal parts, where it is timed."""
    middles = (n_elements * (2 * part + 1) // (2 * STRETCHES) for part in range(STRETCHES))
    return (0, *(middle // border * border for middle in middles))


def _measure_stretches(workload: Workload, snapshots: list[Snapshot], result: Measure) -> None:
    """The mean over the middles. Queries go all the time, so left ends would make a rival look slower."""
    parts = []
    for snapshot in snapshots:
        length = STRETCH_LENGTH if snapshot.element else 1
        piece = stretch(workload, snapshot.queries, snapshot.missing, snapshot.element, length)
        parts.append(Player(result.entry.make, piece, result.entry.batch).play())
        gc.collect()
    _add(result, parts[0], parts[1:] or parts)


def _add(result: Measure, built: Played, played: list[Played]) -> None:
    result.us_per_element.append(sum(part.us_per_element for part in played) / len(played))
    result.build_s.append(built.build_s)
    result.bytes_per_query = built.bytes_per_query
