"""Groups: the subscriptions of one plan key each, and the index that maintains them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from tocsin.arrays.strings import StringInterner
from tocsin.engine.groups.base import Group
from tocsin.engine.groups.events import BoundMatch, EventGroup, MatchGroup, ThresholdGroup
from tocsin.engine.groups.rows import AggregateGroup, RowGroup, SelectGroup
from tocsin.engine.groups.values import DistinctGroup, JoinGroup
from tocsin.engine.sources.streams import Stream
from tocsin.engine.sources.tables import Table
from tocsin.engine.sources.windows import Window
from tocsin.language import Aggregate, Distinct, Join, Match, Plan, Rows, Threshold, TopK

__all__ = [
    "BoundMatch",
    "EventGroup",
    "Group",
    "JoinGroup",
    "MatchGroup",
    "RowGroup",
    "Source",
    "build_group",
]

Source: TypeAlias = Table | Window | Stream


def build_group(
    plan: Plan, sources: Mapping[str, Source], ids: StringInterner, index: str | None = None
) -> Group:
    """An empty group for the plan, maintained by the index of this name or the planner's choice.

    The planner has checked that its sources are of the right kind. Raises IndexRefused.
    """
    match plan:
        case Join():
            return JoinGroup(plan, cast(Table, sources[plan.left]), cast(Table, sources[plan.right]), index)
        case TopK() | Rows():
            return SelectGroup(plan, cast(Table | Window, sources[plan.source]), index)
        case Aggregate():
            return AggregateGroup(plan, cast(Table, sources[plan.source]), index)
        case Distinct():
            return DistinctGroup(plan, cast(Table, sources[plan.source]), index)
        case Threshold():
            return ThresholdGroup(plan, cast(Stream, sources[plan.source]), index)
        case Match():
            return MatchGroup(plan, cast(Stream, sources[plan.source]), ids, index)
