"""The subscriptions of an engine: their registry, and a group for each plan key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Arrays, Ints
from tocsin.engine import saving
from tocsin.engine.changes import changes_table
from tocsin.engine.conversion.exactness import Limits, check_limits, least_limits
from tocsin.engine.conversion.small_batch import SmallBatch
from tocsin.engine.groups import BoundMatch, EventGroup, Group, JoinGroup, RowGroup, Source, build_group
from tocsin.engine.pair_bound import PairBound
from tocsin.engine.parameters import ParameterBatch
from tocsin.engine.registry import SubscriptionRegistry
from tocsin.engine.sources.deltas import SourceDelta
from tocsin.engine.sources.streams import EventBatch, Stream
from tocsin.engine.sources.tables import Table
from tocsin.engine.sources.windows import Window
from tocsin.engine.spaces.space_registry import SpaceRegistry, SubscriptionSurvey
from tocsin.engine.statements import PlannedStatement, StatementPlanner
from tocsin.errors import ParameterError
from tocsin.indexes.matching import Conjunctions
from tocsin.language import Match, Threshold, parameters


class Subscriptions:
    """Registers and ends subscriptions, and applies batches to their groups.

    `spaces` are those of messages, which read the same sources.
    """

    def __init__(self, sources: Mapping[str, Source], spaces: SpaceRegistry) -> None:
        self._sources = sources
        self._spaces = spaces
        self.registry = SubscriptionRegistry()
        self._groups: dict[int, Group] = {}
        self._group_of_key: dict[str, int] = {}
        self._statement_of_group: dict[int, str] = {}
        self._next_group = 0
        #: by source, the result of `limits_of`
        self._limits: dict[str, Limits] = {}

    def __len__(self) -> int:
        return len(self.registry)

    def locate(self, sid: str) -> tuple[Group, int]:
        """The group and local slot of a subscription. Raises UnknownSubscription. Cost: constant."""
        _, number, local = self.registry.locate(sid)
        return self._groups[number], local

    def row_groups(self, name: str) -> list[RowGroup]:
        """The groups that read a table or a window."""
        return [cast(RowGroup, group) for _, group in self._groups_of(name)]

    def add(self, planned: PlannedStatement, sql: str, batch: ParameterBatch, repeat: bool) -> pa.Array:
        """Register subscriptions to a statement; their ids. Cost: linear; the first reads the source."""
        plan, key, index = planned
        if repeat and not isinstance(plan, Threshold):
            raise ParameterError("repeat applies to thresholds only (SUM or COUNT … HAVING)")
        if "id" in parameters(plan):
            raise ParameterError("a parameter cannot be named :id, which names the subscription itself")
        number = self._group_of_key.get(key)
        group = (
            self._groups[number]
            if number is not None
            else build_group(plan, self._sources, self.registry.ids, index)
        )
        values = group.bind(plan, batch.columns, batch.n_rows, repeat)
        if number is None and isinstance(group, RowGroup):
            for name in group.sources:
                check_live_rows(cast(Table | Window, self._sources[name]), group.limits(name))
        ids = batch.ids
        if ids is not None:
            self.registry.refuse_taken(ids)
        else:
            ids = self.registry.fresh_ids(batch.n_rows)
        if number is None:
            number = self._open(group, key, sql)
        self._register(number, ids, values)
        return ids

    def add_conjunctions(
        self, planned: PlannedStatement, sql: str, ids: pa.Array, conjunctions: Conjunctions
    ) -> None:
        """Register conjunctions, which are subscriptions without a template. Cost: linear."""
        plan, key, index = planned
        assert isinstance(plan, Match)
        number = self._group_of_key.get(key)
        if number is None:
            group = build_group(plan, self._sources, self.registry.ids, index)
            number = self._open(group, key, sql)
        self._register(number, ids, BoundMatch(plan.select, conjunctions, {}))

    def end(self, sid: str) -> None:
        """End a subscription. Raises UnknownSubscription. Cost: constant."""
        slot, number, local = self.registry.locate(sid)
        self._end(number, np.array([slot], np.int32), np.array([local], np.int32))

    def answers(self, sids: Any, *, with_rows: bool) -> pa.Table:
        """The current answers of many subscriptions, as changes. Cost: linear in the answers."""
        slots = self.registry.find(sids)
        numbers, locals_ = self.registry.group[slots], self.registry.local[slots]
        tables = []
        for number in np.unique(numbers).tolist():
            group = self._groups[number]
            if isinstance(group, RowGroup):
                answers = group.index.result(locals_[numbers == number])
                seq = np.array([self._sources[group.sources[0]].next_number - 1], np.int64)
                tables.append(changes_table([(group, answers)], seq, self.registry.ids, with_rows=with_rows))
        if tables:
            return pa.concat_tables(tables)
        return changes_table([], np.empty(0, np.int64), self.registry.ids, with_rows=with_rows)

    def emit_row_changes(
        self,
        source: Table | Window,
        delta: SourceDelta,
        *,
        with_rows: bool,
        pairs: PairBound | None = None,
    ) -> pa.Table:
        """Apply a delta to all groups that read its source; their changes."""
        name = source.schema.name
        if pairs is not None:
            self._end_chosen(name, delta, pairs)
        groups = self.row_groups(name)
        reported = [(group, group.apply(name, delta)) for group in groups]
        table = changes_table(reported, delta.seq, self.registry.ids, with_rows=with_rows)
        for group in groups:
            group.end_batch()
        self._spaces.apply_silently(name, delta)
        source.end_batch()
        return table

    def emit_event_changes(self, source: Stream, rows: Any, top: int | None, *, with_rows: bool) -> pa.Table:
        """Apply events to all groups that read their stream; the changes. Ends what has matured."""
        batch = source.read(rows)
        groups = [(number, cast(EventGroup, group)) for number, group in self._groups_of(source.schema.name)]
        inputs = [group.read(batch) for _, group in groups]
        source.next_number += len(batch)
        reported = [
            (group, group.apply(batch, part, top)) for (_, group), part in zip(groups, inputs, strict=True)
        ]
        table = changes_table(reported, batch.seq, self.registry.ids, with_rows=with_rows)
        for (number, group), (_, changes) in zip(groups, reported, strict=True):
            group.end_batch()
            ended = group.ended(changes)
            if len(ended):
                self._end(number, group.owner[ended], ended)
        return table

    def apply_silently(self, source: Table, delta: SourceDelta) -> None:
        """Apply a delta to all groups that read a table, without reporting changes."""
        name = source.schema.name
        for group in self.row_groups(name):
            group.apply_silently(name, delta)
            group.end_batch()
        source.end_batch()

    def survey(self, table: Table) -> SubscriptionSurvey:
        """The message spaces that the subscriptions of a table belong to."""
        name = table.schema.name
        groups = [
            (self._statement_of_group[number], cast(RowGroup, group))
            for number, group in self._groups_of(name)
        ]
        return self._spaces.survey(name, groups, self.registry.version)

    def limits_of(self, source: Table | Window) -> Limits:
        """The limits within which all groups and spaces that read a source are exact."""
        name = source.schema.name
        if name not in self._limits:
            limits = [group.limits(name) for group in self.row_groups(name)]
            limits += [key.limits(source.store.schema) for key in self._spaces.maintained(name)]
            self._limits[name] = least_limits(limits)
        return self._limits[name]

    def refusing(self, source: Source, rows: pa.Table | SmallBatch | EventBatch) -> list[str]:
        """Ids of the subscriptions that cannot be kept exactly with these rows. Cost: linear, a group."""
        name = source.schema.name
        ids: list[str] = []
        for _, group in self._groups_of(name):
            if isinstance(rows, EventBatch):
                slots = cast(EventGroup, group).refusing(rows)
            else:
                slots = cast(RowGroup, group).refusing(name, rows)
            ids += self.registry.ids.gather(group.owner[slots]).to_pylist()
        return ids

    def limits_with(self, source: Source, planned: Iterable[PlannedStatement]) -> Limits:
        """The limits of a source, also within those of statements that may have no subscriptions yet."""
        name = source.schema.name
        limits = [] if isinstance(source, Stream) else [self.limits_of(source)]
        for plan, _, index in planned:
            group = build_group(plan, self._sources, self.registry.ids, index)
            if name in group.sources:
                limits.append(group.limits(name))
        return least_limits(limits)

    def clear_limits(self) -> None:
        """Drop cached limits: the spaces have changed."""
        self._limits.clear()

    def manifest(self) -> dict[str, Any]:
        """The groups, for JSON."""
        return {
            "groups": [[number, self._statement_of_group[number]] for number in self._groups],
            "next_group": self._next_group,
        }

    def group_arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """The state of all groups."""
        for number, group in self._groups.items():
            yield from saving.with_prefix(f"group/{number}", group.arrays())

    def restore(self, manifest: Mapping[str, Any], arrays: Arrays, planner: StatementPlanner) -> None:
        """Restore the state that `manifest`, the registry's arrays and `group_arrays` were taken from."""
        self.registry.restore(saving.with_prefix_stripped(arrays, "registry"))
        for number, sql in manifest["groups"]:
            plan, key, index = planner.plan(sql)
            group = build_group(plan, self._sources, self.registry.ids, index)
            group.open()
            group.restore(saving.with_prefix_stripped(arrays, f"group/{number}"))
            self._groups[number] = group
            self._group_of_key[key] = number
            self._statement_of_group[number] = sql
        self._next_group = manifest["next_group"]

    def _end_chosen(self, name: str, delta: SourceDelta, bound: PairBound) -> None:
        """End the joins that a delta would change by too much. The delta must be applied after this."""
        joins = [group for group in self.row_groups(name) if isinstance(group, JoinGroup)]
        if sum(group.most(name, delta) for group in joins) <= bound.most:
            return
        counted: dict[str, int] = {}
        for group in joins:
            counts = group.count(name, delta)
            slots = np.flatnonzero(counts)
            ids = self.registry.ids.gather(group.owner[slots]).to_pylist()
            counted.update(zip(ids, counts[slots].tolist(), strict=True))
        if sum(counted.values()) > bound.most:
            for sid in bound.choose(counted):
                self.end(sid)

    def _groups_of(self, name: str) -> Iterator[tuple[int, Group]]:
        return ((number, group) for number, group in self._groups.items() if name in group.sources)

    def _register(self, number: int, ids: pa.Array, values: Any) -> None:
        slots = self.registry.add(ids)
        self.registry.group[slots] = number
        self.registry.local[slots] = self._groups[number].add(slots, values)

    def _open(self, group: Group, key: str, sql: str) -> int:
        """Add a new group and load the live rows into it; returns its number."""
        number, self._next_group = self._next_group, self._next_group + 1
        self._limits.clear()
        self._groups[number] = group
        self._group_of_key[key] = number
        self._statement_of_group[number] = sql
        group.open()
        try:
            if isinstance(group, RowGroup):
                for name in group.sources:
                    group.apply(name, cast(Table | Window, self._sources[name]).snapshot_delta())
                    group.end_batch()
        except BaseException:
            self._close(number, group)
            raise
        return number

    def _close(self, number: int, group: Group) -> None:
        group.close()
        key = next(key for key, value in self._group_of_key.items() if value == number)
        del self._groups[number], self._group_of_key[key], self._statement_of_group[number]
        self._limits.clear()

    def _end(self, number: int, slots: Ints, locals_: Ints) -> None:
        """End subscriptions of one group, and the group with its last one."""
        group = self._groups[number]
        group.terminate(locals_)
        self.registry.remove(slots)
        if len(group) == 0:
            self._close(number, group)


def check_live_rows(source: Table | Window, limits: Limits) -> None:
    """Raise RowError if a live row has a value beyond its limit. Cost: linear."""
    if limits:
        check_limits(source.rows(), limits, source=source.schema.name)
