"""Base class of groups, which connect the subscriptions of a plan key to the index that maintains them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import Slots, ensure_capacity
from tocsin.arrays.types import Arrays, Floats, Ints
from tocsin.engine.conversion.exactness import Limits
from tocsin.engine.groups.text_bounds import TextBounds
from tocsin.engine.saving import with_prefix, with_prefix_stripped
from tocsin.engine.sources.streams import Stream
from tocsin.engine.sources.tables import Table
from tocsin.engine.sources.windows import Window
from tocsin.grids import grid_of
from tocsin.indexes.contract import Index
from tocsin.language import Plan
from tocsin.language.plan_keys import box_of
from tocsin.planning import Answering, Question, explain, make_index
from tocsin.types import ColumnType


class Group(ABC):
    """The subscriptions of one plan key, by local slots; `owner` maps these to slots of the registry."""

    #: what `_make_index` was given
    _question: Question[Any]
    _index_name: str | None

    def __init__(self, plan: Plan, sources: Sequence[Table | Window | Stream]) -> None:
        self.plan = plan
        self.sources = tuple(source.schema.name for source in sources)
        self._texts = TextBounds(plan, {source.schema.name: source.texts for source in sources})
        self._slots = Slots()
        #: int32 by local slot: the subscription's slot in the registry
        self.owner: Ints = np.empty(16, np.int32)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    @abstractmethod
    def index(self) -> Index:
        """The index that maintains the group's subscriptions."""

    def open(self) -> None:
        """Begin to read the sources, before the first subscription."""
        self._texts.open()

    def close(self) -> None:
        """Stop reading the sources, after the last subscription."""
        self._texts.close()

    @abstractmethod
    def bind(self, plan: Plan, parameters: Mapping[str, pa.Array], count: int, repeat: bool) -> Any:
        """Bound parameters, as the index takes them. Raises ParameterError; changes nothing."""

    @abstractmethod
    def register(self, slots: Ints, values: Any) -> None:
        """Register bound values with the index."""

    @abstractmethod
    def result(self, slot: int) -> pa.Table:
        """One subscription's current answer."""

    @abstractmethod
    def limits(self, source: str) -> Limits:
        """The limits within which the group's index is exact."""

    def live(self) -> Ints:
        """The slots of all subscriptions. Cost: linear."""
        return self._slots.live()

    def size(self, slot: int) -> int:
        """How many rows one subscription's current answer has."""
        return int(self.result(slot).num_rows)

    @abstractmethod
    def keys(self, changes: ChangeSet) -> pa.ChunkedArray:
        """The key of each change, as text; null where there is none."""

    @abstractmethod
    def rows(self, changes: ChangeSet) -> pa.Array:
        """The SELECT list of each change's row as JSON; null where there is none."""

    def scores(self, changes: ChangeSet) -> Floats:
        """The score or value of each change, NaN where there is none."""
        return changes.score

    def add(self, owners: Ints, values: Any) -> Ints:
        """Register subscriptions; their local slots."""
        slots = self._slots.take(len(owners))
        self.owner = ensure_capacity(self.owner, self._slots.top)
        self.owner[slots] = owners
        self.register(slots, values)
        return slots

    def terminate(self, slots: Ints) -> None:
        """End subscriptions."""
        self.index.terminate(slots)
        self._texts.release(slots)
        self._slots.release(slots)

    def end_batch(self) -> None:
        """Drop what only the changes of the last batch needed."""
        return

    def explain(self, slot: int) -> str:
        """Which index maintains a subscription, and its parameters."""
        values = "".join(f"\n  {name}: {value}" for name, value in self._parameters(slot).items())
        box = box_of(self.plan)
        lowered = f"\nranges: {', '.join(dimension.column for dimension in box)}" if box else ""
        for dimension in box:
            lowered += f"\nfilter: {dimension.filter}" if dimension.filter is not None else ""
        chosen = explain(self._question, self._index_name, self.index)
        return f"{chosen}{lowered}\nparameters:{values or ' none'}"

    def _make_index(self, question: Question[Answering], name: str | None) -> Answering:
        """An empty index for the group: of this name, or the planner's choice. Raises IndexRefused."""
        self._question, self._index_name = question, name
        return make_index(question, name)

    def _parameters(self, slot: int) -> dict[str, object]:
        """The index's parameters, with bounds converted from grid coordinates to values."""
        parameters = self.index.parameters(slot)
        types = [dimension.type for dimension in box_of(self.plan)]
        texts = self._texts.shown(slot)
        for name in {"lo", "hi"} & parameters.keys():
            bounds = zip(cast(list[float], parameters[name]), types, strict=False)
            shown = [texts.get(place) or _shown(bound, kind) for place, (bound, kind) in enumerate(bounds)]
            parameters[name] = f"[{', '.join(shown)}]"
        return parameters

    def arrays(self) -> Arrays:
        """The group's state."""
        owner = self.owner[: self._slots.top].copy()
        slots = with_prefix("slots", self._slots.arrays())
        index = with_prefix("index", self.index.arrays())
        return {"owner": owner, **dict(slots), **dict(index), **self._texts.arrays(self._slots.top)}

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` was taken from."""
        self.owner = arrays["owner"].astype(np.int32)
        self._slots.restore(with_prefix_stripped(arrays, "slots"))
        self._texts.restore(arrays)
        self.index.restore(with_prefix_stripped(arrays, "index"))


def _shown(bound: float, kind: ColumnType) -> str:
    """A bound on a column of this type, from the coordinate that the index compares."""
    if kind.is_boolean:
        return str(bool(bound)).upper()
    grid = grid_of(kind.arrow)
    return str(bound if grid is None else grid.point(bound))
