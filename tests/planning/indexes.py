"""Indexes as planning puts them together, with switches that tests choose."""

from __future__ import annotations

from tocsin.indexes.contract import RowIndex
from tocsin.indexes.matching import AccessIndex, EventMatcher, MatchScan
from tocsin.indexes.ranges import BoxTotals, MinMaxBoxTree, MinMaxTiles, RangeTotals, TopKBoxTree, TopKTiles
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, TreeSettings
from tocsin.indexes.thresholds import DeferredThresholds, ThresholdScan
from tocsin.planning.adaptive import (
    AdaptiveMatching,
    AdaptiveRanked,
    AdaptiveThresholds,
    NamedMaker,
    SwitchPoint,
)
from tocsin.planning.rules import ACCESS, DEFERRED, TILES


def topk_of_range(
    *, descending: bool, capacity: int = 16, min_subscriptions: int = TILES.min_subscriptions
) -> AdaptiveRanked:
    """Trees that become tiles."""
    return AdaptiveRanked(
        NamedMaker("trees", lambda: TopKBoxTree(1, descending=descending, capacity=capacity)),
        NamedMaker("tiles", lambda: TopKTiles(descending=descending, capacity=capacity)),
        SwitchPoint(min_subscriptions, is_reversible=True),
    )


def minmax_of_range(
    *, descending: bool, capacity: int = 16, min_subscriptions: int = TILES.min_subscriptions
) -> AdaptiveRanked:
    """Trees that become tiles."""
    return AdaptiveRanked(
        NamedMaker("trees", lambda: MinMaxBoxTree(1, descending=descending, capacity=capacity)),
        NamedMaker("tiles", lambda: MinMaxTiles(descending=descending, capacity=capacity)),
        SwitchPoint(min_subscriptions, is_reversible=True),
    )


def aggregate_index(
    dimensions: int,
    *,
    function: str,
    region: str | None = None,
    capacity: int = 16,
    trees: TreeSettings = TREE_SETTINGS,
) -> RowIndex:
    """The index of an aggregate, but of MIN and MAX always the trees."""
    if function in ("min", "max"):
        is_max = function == "max"
        return MinMaxBoxTree(dimensions, region=region, descending=is_max, capacity=capacity, trees=trees)
    if dimensions <= 1 and region is None:
        return RangeTotals(dimensions, function=function, capacity=capacity, trees=trees)
    return BoxTotals(dimensions, function=function, region=region, capacity=capacity, trees=trees)


def thresholds(
    dimensions: int, scale: int, capacity: int = 16, switch: SwitchPoint = DEFERRED
) -> AdaptiveThresholds:
    """A scan that becomes deferred counting."""
    return AdaptiveThresholds(
        NamedMaker("scan", lambda: ThresholdScan(dimensions, scale, capacity)),
        NamedMaker("deferred", lambda: DeferredThresholds(dimensions, scale, capacity)),
        switch,
    )


def matching(
    capacity: int = 16, switch: SwitchPoint = ACCESS, tail: int = 2, score_rule: str = "sum"
) -> EventMatcher:
    """A scan that becomes access predicates."""
    adaptive = AdaptiveMatching(
        NamedMaker("scan", lambda: MatchScan(capacity, score_rule)),
        NamedMaker("access-predicates", lambda: AccessIndex(capacity, tail, score_rule)),
        switch,
    )
    return EventMatcher(adaptive, score_rule)
