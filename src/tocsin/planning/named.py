"""Indexes by name: the engine's own, and those of the papers, which are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from tocsin.errors import IndexRefused
from tocsin.indexes.filters import FilterIndex
from tocsin.indexes.matching import AccessIndex, MatchScan
from tocsin.indexes.preferences import CandidateLists, LongLists
from tocsin.indexes.preferences.terms import linear_terms
from tocsin.indexes.ranges import (
    BoxTotals,
    MinMaxBoxTree,
    MinMaxTiles,
    RangeDistinct,
    RangeJoin,
    RangeTotals,
    TopKBoxTree,
    TopKTiles,
)
from tocsin.indexes.thresholds import DeferredThresholds, ThresholdScan
from tocsin.language import Catalog, Join, Plan
from tocsin.planning.questions import (
    AGGREGATES,
    DISTINCT,
    JOINS,
    KINDS,
    MATCHING,
    PREFERENCES,
    ROWS,
    THRESHOLDS,
    TOPK,
    WINDOW,
    Answering,
    Question,
    question_of,
    source_kind,
)

AnyQuestion: TypeAlias = Question[Any]
Maker: TypeAlias = Callable[[AnyQuestion], Any]


class NamedIndex(NamedTuple):
    """How an index is created, and which plans it can maintain."""

    #: of a question, the index, which has the protocol of the kind
    make: Maker
    #: the plans it can hold, in words
    holds: str = ""
    #: whether it can hold a question's plan
    can_hold: Callable[[AnyQuestion], bool] = lambda question: True


def index_maker(question: Question[Answering], name: str) -> Callable[[], Answering]:
    """The factory of the index of this name. Raises IndexRefused if it is unknown or cannot hold the plan."""
    named = INDEXES[question.kind].get(name)
    if named is None:
        names = ", ".join(map(repr, INDEXES[question.kind]))
        raise IndexRefused(f"no index for {question.kind} is named {name!r}; there are {names}")
    if not named.can_hold(question):
        raise IndexRefused(f"the index {name!r} holds {named.holds} only; leave the choice to the planner")
    return partial(named.make, question)


def check_indexes(indexes: Mapping[str, str] | None) -> dict[str, str]:
    """Validate a user's index names by kind of question. Raises IndexRefused for unknown ones."""
    chosen = dict(indexes or {})
    for kind, name in chosen.items():
        if kind not in KINDS:
            raise IndexRefused(
                f"no kind of question is named {kind!r}; there are {', '.join(map(repr, KINDS))}"
            )
        if name not in INDEXES[kind]:
            names = ", ".join(map(repr, INDEXES[kind]))
            raise IndexRefused(f"no index for {kind} is named {name!r}; there are {names}")
    return chosen


def choice_of(
    plan: Plan, catalog: Catalog, hint: str | None, indexes: Mapping[str, str]
) -> tuple[AnyQuestion, str | None]:
    """A plan's question, and the name of its index: the hint's, that of `indexes`, or None for the planner's.

    Raises IndexRefused for a hint on a match.
    """
    source = plan.left if isinstance(plan, Join) else plan.source
    question = question_of(plan, source_kind(catalog[source]))
    if hint is None:
        return question, indexes.get(question.kind)
    if question.kind == MATCHING:
        raise IndexRefused(
            "all expressions over a stream share one index, as the best matches are the best of all; "
            f"name it for the engine: Engine(indexes={{'matching': {hint!r}}})"
        )
    return question, hint


def check_choice(plan: Plan, catalog: Catalog, hint: str | None, indexes: Mapping[str, str]) -> None:
    """Raise IndexRefused if the index that is named for a plan cannot hold it."""
    question, name = choice_of(plan, catalog, hint, indexes)
    if name is not None:
        index_maker(question, name)


def _ranked(cls: Any) -> Maker:
    return lambda q: cls(q.dimensions, region=q.region, descending=q.descending)


def _tiled(cls: Any) -> Maker:
    return lambda q: cls(descending=q.descending)


def _long_lists(question: AnyQuestion) -> LongLists:
    assert question.program is not None
    return LongLists(
        question.dimensions,
        question.program,
        region=question.region,
        descending=question.descending,
        newest_first=question.source == WINDOW,
    )


def _preferred(cls: Any) -> Maker:
    return lambda q: cls(q.dimensions, q.program, descending=q.descending, newest_first=q.source == WINDOW)


def _of_paper(module: str, name: str, maker: Callable[[Any], Maker]) -> Maker:
    """An index of a paper: its module is imported on first use; `maker` is given the class."""
    return lambda question: maker(getattr(import_module(f"tocsin.papers.{module}"), name))(question)


def _window(name: str) -> Maker:
    return _of_paper("sliding_windows", name, _preferred)


def _threshold(name: str) -> Maker:
    return _of_paper("thresholding", name, lambda cls: lambda q: cls(q.dimensions, q.scale))


def _match(name: str) -> Maker:
    return _of_paper("be_star_tree", name, lambda cls: lambda q: cls(score_rule=q.score_rule))


def _is_one_range(question: AnyQuestion) -> bool:
    return question.dimensions == 1 and question.region is None


def _is_weighted_sum(question: AnyQuestion) -> bool:
    return question.program is not None and len(linear_terms(question.program).column) > 0


#: By kind of question and name. `planning.rules` chooses among the engine's own unless one is named.
INDEXES: dict[str, dict[str, NamedIndex]] = {
    TOPK: {
        "trees": NamedIndex(_ranked(TopKBoxTree)),
        "tiles": NamedIndex(_tiled(TopKTiles), "one range", _is_one_range),
        "long-lists": NamedIndex(_long_lists),
    },
    PREFERENCES: {
        "views": NamedIndex(_preferred(CandidateLists)),
        "long-lists": NamedIndex(_long_lists),
        "tma": NamedIndex(_window("TopKMonitoring")),
        "sma": NamedIndex(_window("SkybandMonitoring"), "windows", lambda q: q.source == WINDOW),
        "tsl": NamedIndex(_window("ThresholdSortedLists"), "weighted sums of columns", _is_weighted_sum),
        "recompute": NamedIndex(_window("MatrixRecompute"), "weighted sums of columns", _is_weighted_sum),
        "scan": NamedIndex(_window("PreferenceScan")),
    },
    AGGREGATES: {
        "trees": NamedIndex(_ranked(MinMaxBoxTree), "MIN and MAX", lambda q: q.function in ("min", "max")),
        "tiles": NamedIndex(
            _tiled(MinMaxTiles),
            "MIN and MAX over one range",
            lambda q: q.function in ("min", "max") and _is_one_range(q),
        ),
        "range-totals": NamedIndex(
            lambda q: RangeTotals(q.dimensions, function=q.function),
            "COUNT, SUM and AVG over at most one range",
            lambda q: q.function not in ("min", "max") and q.dimensions <= 1 and q.region is None,
        ),
        "box-totals": NamedIndex(
            lambda q: BoxTotals(q.dimensions, function=q.function, region=q.region),
            "COUNT, SUM and AVG",
            lambda q: q.function not in ("min", "max"),
        ),
    },
    DISTINCT: {"trees": NamedIndex(lambda q: RangeDistinct(q.dimensions, region=q.region))},
    JOINS: {"trees": NamedIndex(lambda q: RangeJoin(q.dimensions, q.other_dimensions))},
    ROWS: {"tiles": NamedIndex(lambda q: FilterIndex(q.dimensions, q.program))},
    THRESHOLDS: {
        "scan": NamedIndex(lambda q: ThresholdScan(q.dimensions, q.scale)),
        "deferred": NamedIndex(lambda q: DeferredThresholds(q.dimensions, q.scale)),
        "distributed-tracking": NamedIndex(_threshold("EndpointTrees")),
        "interval-tree": NamedIndex(
            _threshold("IntervalTree"), "at most one range", lambda q: q.dimensions <= 1
        ),
        "segment-interval-tree": NamedIndex(
            _threshold("SegmentIntervalTree"), "two ranges and more", lambda q: q.dimensions >= 2
        ),
        "r-tree": NamedIndex(_threshold("RTree")),
    },
    MATCHING: {
        "scan": NamedIndex(lambda q: MatchScan(score_rule=q.score_rule)),
        "access-predicates": NamedIndex(lambda q: AccessIndex(score_rule=q.score_rule)),
        "be-star-tree": NamedIndex(_match("BEStarTree")),
        "be-tree": NamedIndex(_match("BETree")),
        "k-index": NamedIndex(_match("KIndex")),
        "counting": NamedIndex(_match("CountingIndex")),
    },
}
