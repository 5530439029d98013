"""Range Thresholding on Streams, SIGMOD 2016: figures 3 to 8, in one and two dimensions."""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

from benchmarks.paper_parts.sweeps import Found, Sweep
from benchmarks.threshold_parts.measuring import STRETCH_LENGTH, Entry, measure
from benchmarks.threshold_parts.playing import Make, Played, Player
from benchmarks.threshold_parts.workloads import Workload, fixed_load, static, stochastic
from tocsin.indexes.thresholds import DeferredThresholds, ThresholdScan
from tocsin.papers.thresholding.baselines import IntervalTree, RTree, SegmentIntervalTree
from tocsin.papers.thresholding.tracking import EndpointTrees

PAPER = "thresholds"
UNIT = "µs an element"
WHOLE: dict[str, Make] = {"engine": DeferredThresholds, "DT": EndpointTrees}
SAMPLED: dict[int, dict[str, Make]] = {
    1: {"interval tree": IntervalTree, "baseline": ThresholdScan},
    2: {"seg-intv tree": SegmentIntervalTree, "R-tree": RTree, "baseline": ThresholdScan},
}
BATCH = 10_000
REPEATS = 5
#: Repeats of the slow ones in two dimensions.
FEWER = 2
#: Parts of a stream, of each of which the mean is told.
PARTS = 5


class Sizes(NamedTuple):
    """How many queries and which tau a figure has; the others stay at the first."""

    queries: tuple[int, ...]
    taus: tuple[int, ...]


#: Streams must be long: slow rivals are measured on stretches of them, from border to border. In two
#: dimensions trees within trees take a hundred microseconds an element: fewer of everything.
QUICK = {
    1: Sizes((10_000, 3000), (1_250_000, 2_500_000)),
    2: Sizes((500, 1500), (1_250_000, 2_500_000)),
}
FULL = {
    1: Sizes((100_000, 300_000, 1_000_000), (20_000_000, 5_000_000, 80_000_000)),
    2: Sizes((10_000, 30_000, 100_000), (2_000_000, 8_000_000)),
}


def sweeps(quick: bool) -> list[Sweep]:
    """All figures, in one and two dimensions."""
    made = []
    for d, sizes in (QUICK if quick else FULL).items():
        part, few, low = f"{d}-d", sizes.queries[0], sizes.taus[0]
        made += [
            Sweep(PAPER, "Figure 3", part, "part of the stream", UNIT, _shares(),
                  partial(_over_time, static(few, low, d), {})),
            Sweep(PAPER, "Figure 4", part, "queries", UNIT, sorted(sizes.queries),
                  partial(_by_queries, low, d)),
            Sweep(PAPER, "Figure 5", part, "tau", UNIT, sorted(sizes.taus),
                  partial(_by_tau, few, d)),
            Sweep(PAPER, "Figure 6", part, "part of the stream", UNIT, _shares(),
                  partial(_over_time, stochastic(few, low, d), {})),
            Sweep(PAPER, "Figure 7", part, "chance of a new query", UNIT, [0.1, 0.3, 0.5],
                  partial(_by_chance, few, low, d)),
            Sweep(PAPER, "Figure 8", part, "part of the stream", UNIT, _shares(),
                  partial(_over_time, fixed_load(few, low, d), {})),
        ]  # fmt: skip
    return made


def _by_queries(tau: int, dimensions: int, queries: float | str) -> Found:
    return _static(int(queries), tau, dimensions)


def _by_tau(queries: int, dimensions: int, tau: float | str) -> Found:
    return _static(queries, int(tau), dimensions)


@cache
def _static(queries: int, tau: int, dimensions: int) -> Found:
    """What figures 4 and 5 have in common is played once."""
    return _averages(static(queries, tau, dimensions))


def _by_chance(queries: int, tau: int, dimensions: int, chance: float | str) -> Found:
    return _averages(stochastic(queries, tau, dimensions, chance=float(chance)))


def _averages(workload: Workload) -> Found:
    """Everybody over the whole stream, or on stretches of it."""
    slow = REPEATS if workload.dimensions == 1 else FEWER
    entries = [
        Entry(name, make, BATCH, repeats=REPEATS if name == "engine" else slow)
        for name, make in WHOLE.items()
    ]
    entries += [
        Entry(name, make, STRETCH_LENGTH, is_sampled=True, repeats=slow)
        for name, make in SAMPLED[workload.dimensions].items()
    ]
    return {found.entry.rival: found.us_per_element for found in measure(workload, entries, REPEATS)}


class _Traced(Player):
    """Notes at every border how long it has taken."""

    def __init__(self, make: Make, workload: Workload) -> None:
        super().__init__(make, workload, BATCH)
        self.seconds: list[tuple[int, float]] = []

    def _cross(self, border: int) -> None:
        self.seconds.append((border, self.played.elements_s + self.played.changes_s))
        super()._cross(border)


def _shares() -> list[float]:
    return [(part + 1) / PARTS for part in range(PARTS)]


def _over_time(workload: Workload, known: dict[str, list[list[float]]], share: float | str) -> Found:
    """The mean up to a share of the stream. All shares are taken at the first call, in turn."""
    if not known:
        known |= {name: [] for name in WHOLE}
        for _ in range(REPEATS):
            for name, make in WHOLE.items():
                known[name].append(_means(make, workload))
    part = round(float(share) * PARTS) - 1
    return {name: [means[part] for means in repeats] for name, repeats in known.items()}


def _means(make: Make, workload: Workload) -> list[float]:
    """Microseconds an element, the build among them as in the paper, up to each share."""
    player = _Traced(make, workload)
    played: Played = player.play()
    seconds = [*player.seconds, (played.n_elements, played.elements_s + played.changes_s)]
    means = []
    for share in _shares():
        element, took = next(point for point in seconds if point[0] >= share * played.n_elements - 0.5)
        means.append(1e6 * (played.build_s + took) / element)
    return means
