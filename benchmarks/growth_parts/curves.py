"""The curves: which index, what is varied, from where to where, and beside which scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from benchmarks.growth_parts.worlds import (
    LeftOfJoin,
    MatchingWorld,
    MessageWorld,
    Settings,
    TableWorld,
    ThresholdWorld,
    WindowWorld,
    World,
    code,
    coded_value,
    score_bounds,
    two_values,
)
from benchmarks.range_parts.boxes import SCAN
from tocsin.indexes.contract import MatchIndex, RankedRangeIndex, ThresholdIndex
from tocsin.indexes.filters.index import FilterIndex
from tocsin.indexes.matching import AccessIndex, MatchScan
from tocsin.indexes.preferences import CandidateLists
from tocsin.indexes.ranges import BoxTotals, MinMaxTiles, RangeDistinct, RangeTotals, TopKBoxTree, TopKTiles
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.messages.painters.sparse import PaintSparse
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, TreeSettings
from tocsin.indexes.thresholds import DeferredThresholds, ThresholdScan
from tocsin.kernels.programs import program
from tocsin.papers.sliding_windows import PreferenceScan
from tocsin.planning import STREAM, make_index, rules
from tocsin.planning.adaptive import AdaptiveRanked, NamedMaker
from tocsin.planning.questions import MATCHING, THRESHOLDS, Question

Make: TypeAlias = Callable[[Settings], World]

INDEX = "index"
SCANNED = "scan"
ENGINE = "engine"

#: Powers of ten and, at the end, five million.
MANY = (10_000, 30_000, 100_000, 300_000, 1_000_000, 5_000_000)
ROWS = (1000, 10_000, 100_000, 1_000_000)
BEST = (1, 3, 10, 30, 100)
BATCHES = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
#: Subscriptions times rows, or about the rows of all repeats, up to which a scan takes part: with ten times
#: as many it takes minutes.
SCANNED_PAIRS = 10**10
REPEATED = 10
#: Where a scan still is the faster one, and where it is no more.
FEW = (16, 256, 2048, 4096, 16_384)


@dataclass(frozen=True)
class Family:
    """An index, the scan beside it, and the middle from which its curves go out."""

    name: str
    index: Make
    middle: Settings
    knobs: Mapping[str, tuple[int, ...]]
    scan: Make | None = None
    #: up to which a scan takes part in a curve by subscriptions
    scanned: int = 100_000
    #: what the engine talks to, where it is seen how it chooses
    engine: Make | None = None


@dataclass(frozen=True)
class Point:
    """One setting of one curve."""

    family: Family
    knob: str
    value: int

    @property
    def settings(self) -> Settings:
        return replace(self.family.middle, **{self.knob: self.value})

    @property
    def case(self) -> str:
        return f"{self.family.name}, by {self.knob}: {self.value:,}"

    def makes(self) -> dict[str, Make]:
        """Who takes part."""
        family, settings, found = self.family, self.settings, {INDEX: self.family.index}
        n_rows = max(settings.rows, REPEATED * settings.batch)
        is_soon = settings.subscriptions * n_rows <= SCANNED_PAIRS
        if family.scan is not None and settings.subscriptions <= family.scanned and is_soon:
            found[SCANNED] = family.scan
        if family.engine is not None:
            found[ENGINE] = family.engine
        return found


def _topk(settings: Settings) -> TopKTiles:
    return TopKTiles(descending=False)


def _topk_scan(settings: Settings) -> TopKBoxTree:
    return TopKBoxTree(settings.dimensions, descending=False, trees=SCAN)


def _sums(settings: Settings, trees: TreeSettings = TREE_SETTINGS) -> RangeTotals | BoxTotals:
    kind = RangeTotals if settings.dimensions <= 1 else BoxTotals
    return kind(settings.dimensions, function="sum", trees=trees)


def _sums_scan(settings: Settings) -> RangeTotals | BoxTotals:
    return _sums(settings, SCAN)


def _boxes(settings: Settings) -> TopKBoxTree:
    return TopKBoxTree(settings.dimensions, descending=False)


def _live(settings: Settings) -> FilterIndex:
    return FilterIndex(settings.dimensions, program([("column", 0)]))


def _least(settings: Settings) -> MinMaxTiles:
    return MinMaxTiles(descending=False)


def _distinct(settings: Settings) -> RangeDistinct:
    return RangeDistinct(settings.dimensions)


def _scores(settings: Settings) -> FilterIndex:
    steps = [("column", 0), ("theta", 0), ("column", 1), ("multiply", 0), ("add", 0)]
    return FilterIndex(0, program(steps))


def _dense(settings: Settings) -> PaintDense:
    return PaintDense(settings.k, capacity=1 << 14)


def _sparse(settings: Settings) -> PaintSparse:
    return PaintSparse(settings.k, capacity=1 << 14)


FAMILIES = (
    Family(
        "thresholds",
        partial(ThresholdWorld, DeferredThresholds),
        Settings(batch=10_000),
        {"subscriptions": MANY, "dimensions": (1, 2, 3), "batch": BATCHES},
        partial(ThresholdWorld, ThresholdScan),
        scanned=10_000,
    ),
    Family(
        "messages, Paint-Dense",
        partial(MessageWorld, _dense, is_aware=False),
        Settings(),
        {"rows": ROWS, "k": BEST, "batch": BATCHES},
    ),
    Family(
        "messages, Paint-Sparse",
        partial(MessageWorld, _sparse, is_aware=True),
        Settings(),
        {"subscriptions": MANY, "rows": ROWS, "k": BEST[:4], "batch": BATCHES},
    ),
    Family(
        "range top-k",
        partial(TableWorld, _topk),
        Settings(),
        {"subscriptions": MANY, "rows": ROWS, "k": BEST, "batch": BATCHES},
        partial(TableWorld, _topk_scan),
    ),
    Family(
        "range aggregates",
        partial(TableWorld, _sums),
        Settings(),
        {"subscriptions": MANY, "rows": ROWS, "dimensions": (1, 2, 3), "batch": BATCHES},
        partial(TableWorld, _sums_scan),
    ),
    Family(
        "range MIN",
        partial(TableWorld, _least),
        Settings(),
        {"subscriptions": MANY, "rows": ROWS, "batch": BATCHES},
    ),
    Family(
        "DISTINCT",
        partial(TableWorld, _distinct, draw_values=coded_value),
        Settings(),
        {"subscriptions": MANY, "rows": ROWS, "dimensions": (1, 2, 3), "batch": BATCHES},
    ),
    Family(
        "select-join",
        partial(TableWorld, LeftOfJoin, draw_values=code),
        Settings(),
        {"subscriptions": MANY, "rows": ROWS, "dimensions": (1, 2, 3), "batch": BATCHES},
    ),
    Family(
        "boxes, top-k",
        partial(TableWorld, _boxes),
        Settings(dimensions=2),
        {"subscriptions": MANY, "rows": ROWS, "k": BEST, "dimensions": (2, 3, 4), "batch": BATCHES},
        partial(TableWorld, _topk_scan),
    ),
    Family(
        "live rows",
        partial(TableWorld, _live),
        Settings(),
        {"subscriptions": MANY, "dimensions": (1, 2, 3), "batch": BATCHES},
    ),
    Family(
        "scores, live",
        partial(TableWorld, _scores, bounds=score_bounds, draw_values=two_values),
        Settings(dimensions=0),
        {"subscriptions": MANY, "batch": BATCHES},
    ),
    # A list of rows a subscription: five million of them take gigabytes.
    Family(
        "windows, top-k",
        partial(WindowWorld, CandidateLists),
        Settings(subscriptions=1000, rows=100_000, k=20, dimensions=4),
        {
            "subscriptions": (1000, *MANY),
            "rows": ROWS[1:],
            "k": BEST,
            "dimensions": (2, 4, 6, 8),
            "batch": BATCHES,
        },
        partial(WindowWorld, PreferenceScan),
        scanned=3000,
    ),
    Family(
        "matching, 8 of 400",
        partial(MatchingWorld, AccessIndex, is_planted=True),
        Settings(),
        {"subscriptions": MANY, "batch": BATCHES},
        partial(MatchingWorld, MatchScan, is_planted=True),
        scanned=30_000,
    ),
    Family(
        "matching, the best",
        partial(MatchingWorld, AccessIndex, is_planted=True, is_best=True),
        Settings(),
        {"k": BEST},
    ),
    Family(
        "matching, ranges",
        partial(MatchingWorld, AccessIndex, is_planted=False),
        Settings(dimensions=3),
        {"subscriptions": MANY, "dimensions": (1, 2, 3, 5, 8), "batch": BATCHES},
        partial(MatchingWorld, MatchScan, is_planted=False),
        scanned=30_000,
    ),
)


class Switch(NamedTuple):
    """What the engine talks to, from how many subscriptions on it takes the index, and batches to try."""

    engine: Make
    many: int
    batches: tuple[int, ...]
    #: subscriptions times events of a batch from which on it takes the index as well, if there are so many
    work: int | None = None
    some: int = 0

    def taken_from(self, batch: int) -> int:
        """From how many subscriptions on the index is taken, at a size of batches."""
        return self.many if self.work is None else min(self.many, max(self.some, -(-self.work // batch)))


def _adaptive_topk(settings: Settings) -> AdaptiveRanked:
    few = NamedMaker[RankedRangeIndex]("trees", partial(TopKBoxTree, 1, descending=False))
    many = NamedMaker[RankedRangeIndex]("tiles", partial(TopKTiles, descending=False))
    return AdaptiveRanked(few, many, rules.TILES)


def _adaptive_thresholds(dimensions: int, scale: int) -> ThresholdIndex:
    question: Question[ThresholdIndex] = Question(THRESHOLDS, STREAM, dimensions, scale=scale)
    return make_index(question)


def _adaptive_matching() -> MatchIndex:
    question: Question[MatchIndex] = Question(MATCHING, STREAM)
    return make_index(question)


SWITCHES = {
    "thresholds": Switch(
        partial(ThresholdWorld, _adaptive_thresholds),
        rules.DEFERRED.min_subscriptions,
        (1, 100, 10_000),
        rules.DEFERRED.min_pairs,
        rules.DEFERRED.pairs_from,
    ),
    "range top-k": Switch(partial(TableWorld, _adaptive_topk), rules.TILES.min_subscriptions, (1, 100, 1000)),
    "windows, top-k": Switch(partial(WindowWorld, CandidateLists), 1, (10, 100, 1000)),
    "matching, 8 of 400": Switch(
        partial(MatchingWorld, _adaptive_matching, is_planted=True),
        rules.ACCESS.min_subscriptions,
        (1, 100, 1000),
        rules.ACCESS.min_pairs,
        rules.ACCESS.pairs_from,
    ),
}


def points(quick: bool) -> list[Point]:
    """All points of all curves; of a quick run every second one, and none of the largest."""
    return [
        Point(family, knob, value)
        for family in FAMILIES
        for knob, values in family.knobs.items()
        for value in (_quick(knob, values) if quick else values)
    ]


def _quick(knob: str, values: tuple[int, ...]) -> tuple[int, ...]:
    few = tuple(value for value in values if value <= (100_000 if knob == "subscriptions" else 10_000))
    if knob == "dimensions":
        return few[:2]
    return few if len(few) < 4 else few[::2]


def switches(quick: bool) -> list[Point]:
    """Few subscriptions: index, scan, and the engine, which takes one.

    Of a quick run every second; the last only where the engine changes its mind near it.
    """
    found = []
    for family in FAMILIES:
        if family.name not in SWITCHES:
            continue
        engine, many = SWITCHES[family.name].engine, SWITCHES[family.name].many
        quickly = FEW[::2] if many > 1 else FEW[:-1:2]
        for batch in SWITCHES[family.name].batches:
            middle = replace(family.middle, batch=batch)
            name = f"{family.name}, few, batches of {batch:,}"
            named = replace(family, name=name, middle=middle, scanned=max(FEW), engine=engine)
            found += [Point(named, "subscriptions", value) for value in (quickly if quick else FEW)]
    return found
