"""Groups: one for each shape of statement that somebody subscribes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from tocsin.engine.groups.base import Group
from tocsin.engine.groups.events import EventGroup, MatchGroup, ThresholdGroup
from tocsin.engine.groups.rows import AggregateGroup, RowGroup, SelectGroup
from tocsin.engine.groups.values import DistinctGroup, JoinGroup
from tocsin.engine.streams import Stream
from tocsin.engine.tables import Table
from tocsin.engine.windows import Window
from tocsin.indexes.shared.names import Names
from tocsin.language import Aggregate, Distinct, Join, Match, Plan, Rows, Threshold, TopK

__all__ = ["EventGroup", "Group", "MatchGroup", "RowGroup", "Source", "build_group"]

Source: TypeAlias = Table | Window | Stream


def build_group(plan: Plan, sources: Mapping[str, Source], ids: Names) -> Group:
    """An empty group for the plan's shape. The planner has checked that its sources are of the right kind."""
    match plan:
        case Join():
            return JoinGroup(plan, cast(Table, sources[plan.left]), cast(Table, sources[plan.right]))
        case TopK() | Rows():
            return SelectGroup(plan, cast(Table | Window, sources[plan.source]))
        case Aggregate():
            return AggregateGroup(plan, cast(Table, sources[plan.source]))
        case Distinct():
            return DistinctGroup(plan, cast(Table, sources[plan.source]))
        case Threshold():
            return ThresholdGroup(plan, cast(Stream, sources[plan.source]))
        case Match():
            return MatchGroup(plan, cast(Stream, sources[plan.source]), ids)
