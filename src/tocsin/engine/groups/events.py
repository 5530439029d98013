"""Groups over the events of a stream: range thresholds and boolean matching."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import astuple
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.types import Arrays, Ints
from tocsin.engine.conversion.exactness import Limits, comparison_limits
from tocsin.engine.conversion.floats import weights_of
from tocsin.engine.conversion.intake import NAME
from tocsin.engine.conversion.text import json_rows
from tocsin.engine.conversion.trees import tree_from_json, tree_to_json
from tocsin.engine.groups.base import Group
from tocsin.engine.groups.rows import computed_dimension
from tocsin.engine.groups.text_bounds import BoundValues
from tocsin.engine.sources.streams import Computed, EventBatch, Stream
from tocsin.errors import RowError
from tocsin.indexes.contract import Index
from tocsin.indexes.matching import (
    Conjunctions,
    EventMatcher,
    IdOrder,
    PredicateColumns,
    examine,
    verdict,
)
from tocsin.language import (
    Expression,
    Match,
    Plan,
    RowFilter,
    Selected,
    Threshold,
    bind,
    bind_match,
    bind_texts,
    scale,
)
from tocsin.language.plan_keys import box_of, compared_columns_of
from tocsin.planning import STREAM, question_of


class EventGroup(Group):
    """A group whose index sees events. `read` may refuse a batch; `apply` may not."""

    def __init__(self, plan: Threshold | Match, source: Stream) -> None:
        super().__init__(plan, (source,))
        self._source = source
        columns = source.schema.columns or {}
        schema = pa.schema([(name, kind.arrow) for name, kind in columns.items()])
        compared = set(compared_columns_of(box_of(plan)))
        if isinstance(plan, Match):
            compared = {predicate.attribute for predicate in plan.predicates}
        self._limits = comparison_limits(schema, sorted(compared & set(columns)))
        self._batch: EventBatch | None = None

    def limits(self, source: str) -> Limits:
        """Those of the plan that opened the group: another match may read other columns."""
        return self._limits

    def keys(self, changes: ChangeSet) -> pa.ChunkedArray:
        assert self._batch is not None
        return pa.chunked_array([self._batch.keys(changes.row)], pa.string())

    def end_batch(self) -> None:
        self._batch = None

    @abstractmethod
    def read(self, batch: EventBatch) -> Any:
        """The batch as the index takes it. Raises RowError; changes nothing."""

    @abstractmethod
    def apply(self, batch: EventBatch, given: Any, top: int | None) -> ChangeSet:
        """The changes of the group's subscriptions; `given` is what `read` returned."""

    def refusing(self, batch: EventBatch) -> Ints:
        """The subscriptions that cannot read this batch exactly. Raises RowError if it is invalid."""
        try:
            self.read(batch)
        except RowError:
            return self.live()
        return np.empty(0, np.int32)

    def ended(self, changes: ChangeSet) -> Ints:
        """The subscriptions that these changes end."""
        return np.empty(0, np.int32)


class ThresholdGroup(EventGroup):
    """`SELECT SUM(w) FROM s WHERE box HAVING SUM(w) >= tau`."""

    def __init__(self, plan: Threshold, source: Stream, index: str | None = None) -> None:
        super().__init__(plan, source)
        self._box = plan.box
        self._column = plan.column
        self._computed = None if plan.expression is None else computed_dimension(plan.source, plan.expression)
        self._type = plan.type
        self._name = plan.name
        self._scale = scale(plan)
        self._index = self._make_index(question_of(plan, STREAM), index)
        #: bool by local slot: restarts after it has matured
        self._repeat = np.zeros(16, np.bool_)

    @property
    def index(self) -> Index:
        return self._index

    def bind(self, plan: Plan, parameters: Mapping[str, pa.Array], count: int, repeat: bool) -> BoundValues:
        bound = {**bind(plan, parameters, count), "repeat": np.full(count, repeat)}
        return BoundValues(bound, bind_texts(plan, parameters, count))

    def register(self, slots: Ints, values: BoundValues) -> None:
        self._repeat = ensure_capacity(self._repeat, self._slots.top)
        self._repeat[slots] = values.arrays["repeat"]
        self._texts.register(slots, values)
        self._index.register(slots, values.arrays)

    def read(self, batch: EventBatch) -> tuple[np.ndarray, np.ndarray]:
        values = np.empty((len(batch), len(self._box)), np.float64)
        for position, dimension in enumerate(self._box):
            values[:, position] = batch.ranged(dimension)
        if self._computed is not None:
            weights = pa.array(batch.ranged(self._computed))
            return values, weights_of(weights, name=self._computed.column)
        if self._column is None:
            return values, np.ones(len(batch), np.int64)
        return values, weights_of(batch.column(self._column), name=self._column)

    def apply(self, batch: EventBatch, given: tuple[np.ndarray, np.ndarray], top: int | None) -> ChangeSet:
        self._batch = batch
        values, weights = given
        self._source.weightless += int(np.count_nonzero(weights == 0))
        return self._index.apply(values, weights)

    def ended(self, changes: ChangeSet) -> Ints:
        if len(changes.subscription) == 0:
            return super().ended(changes)
        return np.unique(changes.subscription[~self._repeat[changes.subscription]])

    def rows(self, changes: ChangeSet) -> pa.Array:
        if self._source.schema.key is None:
            return pa.nulls(len(changes.row), pa.string())
        assert self._batch is not None
        return json_rows(pa.table({NAME: self._batch.names(changes.row)}))

    def result(self, slot: int) -> pa.Table:
        reached, missing = self._index.progress(np.array([slot], np.int32))
        names = (self._name, "missing")
        return pa.table({n: self._weight(int(w[0])) for n, w in zip(names, (reached, missing), strict=True)})

    def _weight(self, scaled: int) -> pa.Array:
        if self._type is not None and self._type.is_decimal:
            return pa.array([Decimal(scaled) / self._scale], pa.decimal128(38, self._type.arrow.scale))
        if self._scale == 1:
            return pa.array([scaled], pa.int64())
        return pa.array([scaled / self._scale], pa.float64())

    def arrays(self) -> Arrays:
        return {**super().arrays(), "repeat": self._repeat[: self._slots.top].copy()}

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self._repeat = arrays["repeat"].astype(np.bool_)


#: Computed attributes that may outlive their subscriptions.
_SPARE = 64


class BoundMatch(NamedTuple):
    """Expressions as the index registers them."""

    select: tuple[Selected, ...]
    predicates: list[PredicateColumns] | Conjunctions
    computed: Computed


class MatchGroup(EventGroup):
    """`SELECT … FROM s WHERE p1 AND p2 AND …`, with weights.

    All expressions over a stream are one group, whatever they select: the best k are over all of them.
    """

    def __init__(self, plan: Match, source: Stream, ids: StringInterner, index: str | None = None) -> None:
        super().__init__(plan, source)
        self._ids = ids
        question = question_of(plan, STREAM, score_rule=source.score_rule)
        self._index = EventMatcher(self._make_index(question, index), source.score_rule)
        #: the distinct SELECT lists, and int32 by local slot: index into them
        self._selects: list[tuple[Selected, ...]] = []
        self._select: Ints = np.zeros(16, np.int32)
        #: attributes of predicates that are computed from columns
        self._computed: dict[str, Expression | RowFilter] = {}

    @property
    def index(self) -> Index:
        return self._index

    def bind(self, plan: Plan, parameters: Mapping[str, pa.Array], count: int, repeat: bool) -> BoundMatch:
        assert isinstance(plan, Match)
        bound = bind_match(plan, parameters, count)
        predicates = [PredicateColumns(p.attribute, p.operator, p.operands, p.weight) for p in bound]
        computed = {p.attribute: p.computed for p in plan.predicates if p.computed is not None}
        return BoundMatch(plan.select, predicates, computed)

    def register(self, slots: Ints, values: BoundMatch) -> None:
        select, predicates, computed = values
        self._computed.update(computed)
        if select not in self._selects:
            self._selects.append(select)
        self._select = ensure_capacity(self._select, self._slots.top)
        self._select[slots] = self._selects.index(select)
        self._index.register(slots, predicates)

    def read(self, batch: EventBatch) -> Any:
        try:
            return batch.events(self._index.asks, self._computed)
        except RowError:
            if not self._index.forget_terminated():
                raise
            self._forget_unasked()
            return batch.events(self._index.asks, self._computed)

    def terminate(self, slots: Ints) -> None:
        super().terminate(slots)
        if len(self._computed) > 2 * len(self) + _SPARE:
            self._index.forget_terminated()
            self._forget_unasked()

    def _forget_unasked(self) -> None:
        asked = filter(self._index.asks, self._computed)
        self._computed = {name: self._computed[name] for name in asked}

    def refusing(self, batch: EventBatch) -> Ints:
        batch.events(lambda attribute: False, {})

        def is_refused(name: str) -> bool:
            try:
                batch.events(lambda attribute: attribute == name, self._computed)
            except RowError:
                return True
            return False

        return self._index.slots_asking(is_refused)

    def apply(self, batch: EventBatch, given: Any, top: int | None) -> ChangeSet:
        self._batch = batch
        names = self._ids.columns
        order = IdOrder(names.heap, names.starts, names.lengths, self.owner)
        return self._index.apply(given, top, order)

    def explain_event(self, slot: int, batch: EventBatch) -> str:
        """Why a subscription does or does not match the first event of a batch."""
        one = self._index.conjunctions(np.array([slot], np.int32))
        return verdict(examine(one, batch.events(self._index.asks, self._computed)), self._source.score_rule)

    def rows(self, changes: ChangeSet) -> pa.Array:
        assert self._batch is not None
        texts = np.empty(len(changes.row), object)
        select = self._select[changes.subscription]
        for number in np.unique(select).tolist():
            places = np.flatnonzero(select == number)
            events, place = np.unique(changes.row[places], return_inverse=True)
            written = self._batch.json(events, self._selects[number])
            texts[places] = written.to_numpy(zero_copy_only=False)[place]
        return pa.array(texts, pa.string())

    def result(self, slot: int) -> pa.Table:
        schema = self._source.schema.columns
        select = self._selects[self._select[slot]]
        fields = [(item.name, schema[item.column].arrow if schema else pa.null()) for item in select]
        if self._source.schema.key is not None:
            fields.append((NAME, pa.string()))
        return pa.schema(fields).empty_table()

    def arrays(self) -> Arrays:
        selects = json.dumps([[astuple(item) for item in select] for select in self._selects])
        computed = json.dumps({name: tree_to_json(tree) for name, tree in self._computed.items()})
        return {
            **super().arrays(),
            "select": self._select[: self._slots.top].copy(),
            "selects": np.frombuffer(selects.encode(), np.uint8),
            "computed": np.frombuffer(computed.encode(), np.uint8),
        }

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self._select = arrays["select"].astype(np.int32)
        selects = json.loads(arrays["selects"].tobytes())
        self._selects = [tuple(Selected(*item) for item in select) for select in selects]
        if "computed" in arrays:
            computed = json.loads(arrays["computed"].tobytes())
            self._computed = {name: tree_from_json(tree) for name, tree in computed.items()}
