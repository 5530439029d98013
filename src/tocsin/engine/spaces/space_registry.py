"""The spaces of an engine: those created, and those that subscriptions are in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Arrays, Floats, Ints
from tocsin.engine import saving
from tocsin.engine.groups import RowGroup
from tocsin.engine.sources.deltas import SourceDelta
from tocsin.engine.sources.tables import Table
from tocsin.engine.spaces.messages import SCHEMA
from tocsin.engine.spaces.space_keys import SpaceKey, assign_spaces, described_ranking, message_bounds
from tocsin.engine.spaces.space_states import DistinctSpace, RankedSpace, SpaceState
from tocsin.errors import ParameterError
from tocsin.indexes.contract import RangeIndex
from tocsin.language import Dimension
from tocsin.language.plan_keys import box_of

ALGORITHMS = ("dense", "sparse")


class SpaceSubscriptions(NamedTuple):
    """The subscriptions of one space: registry slots, ascending, and their ranges."""

    slots: Ints
    lo: Floats
    hi: Floats


class SubscriptionSurvey(NamedTuple):
    """The spaces that the subscriptions of a table are in."""

    ranges: dict[SpaceKey, SpaceSubscriptions]
    #: a statement with a subscription that is in no space
    undescribable: str | None


class SpaceRegistry:
    """Maintains the spaces of all tables, and emits the messages of a batch."""

    def __init__(self) -> None:
        self._created: list[SpaceKey] = []
        self._spaces: dict[SpaceKey, SpaceState] = {}
        #: by table: the registry's version at the last survey, and its result
        self._surveys: dict[str, tuple[int, SubscriptionSurvey]] = {}

    def create(self, key: SpaceKey, table: Table) -> None:
        """Add a space that needs no subscriptions. Cost: linear in the table."""
        if key not in self._created:
            self._created.append(key)
            self._surveys.pop(key.source, None)
            self._open(key, table)

    def survey(self, name: str, groups: Iterable[tuple[str, RowGroup]], version: int) -> SubscriptionSurvey:
        """The spaces of a table's subscriptions, given as pairs of a statement and its group.

        Cost: linear in the subscriptions if `version` has changed since the last survey.
        """
        cached = self._surveys.get(name)
        if cached is None or cached[0] != version:
            cached = version, self._scan_groups(groups)
            self._surveys[name] = cached
        return cached[1]

    def keys(self, name: str, survey: SubscriptionSurvey) -> list[SpaceKey]:
        """The spaces of a table, by name."""
        created = [key for key in self._created if key.source == name]
        return sorted({*created, *survey.ranges}, key=str)

    def check(
        self,
        keys: list[SpaceKey],
        survey: SubscriptionSurvey,
        algorithm: object,
        epsilon: object,
        others: object,
    ) -> None:
        """Raise ParameterError if messages cannot be emitted with these options."""
        if algorithm not in ALGORITHMS:
            raise ParameterError(f"algorithm must be 'dense' or 'sparse', got {algorithm!r}")
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon <= 1:
            raise ParameterError(f"epsilon must be a number from 0 to 1, got {epsilon!r}")
        if others not in ("refuse", "ignore"):
            raise ParameterError(f"others must be 'refuse' or 'ignore', got {others!r}")
        inexact = next((key for key in keys if key.kind != "top-k"), None)
        if epsilon and inexact is not None:
            raise ParameterError(
                f"epsilon applies to top-k only, and the space {str(inexact)!r} is not; use epsilon 0"
            )
        if survey.undescribable is not None and others == "refuse":
            raise ParameterError(
                "messages cannot describe the changes of subscriptions such as "
                f"{survey.undescribable!r}. End them, create a space if they differ in one range, or pass "
                "others='ignore': they stay exact, but their changes are not emitted"
            )

    def maintain(
        self, table: Table, keys: list[SpaceKey], survey: SubscriptionSurvey, *, is_sparse: bool
    ) -> None:
        """Maintain exactly these spaces of the table, with the subscriptions of the survey if sparse."""
        name = table.schema.name
        for key in [key for key in self._spaces if key.source == name and key not in keys]:
            del self._spaces[key]
        for key in keys:
            if key not in self._spaces:
                self._open(key, table)
            if is_sparse:
                self._spaces[key].subscribe(*survey.ranges.get(key, _NO_SUBSCRIPTIONS))

    def apply_silently(self, name: str, delta: SourceDelta) -> None:
        """Apply a batch without emitting messages."""
        for key, space in self._spaces.items():
            if key.source == name:
                space.apply_silently(delta)

    def emit(self, keys: list[SpaceKey], delta: SourceDelta, *, is_sparse: bool, epsilon: float) -> pa.Table:
        """The messages of these spaces, concatenated."""
        emitted = [self._spaces[key].emit(delta, is_sparse=is_sparse, epsilon=epsilon) for key in keys]
        return pa.concat_tables(emitted) if emitted else SCHEMA.empty_table()

    def snapshot(self, key: SpaceKey, table: Table) -> pa.Table:
        """The rows that a subscriber of a space starts from. Cost: linear."""
        return (self._spaces.get(key) or _new_state(key, table)).snapshot()

    def maintained(self, name: str) -> list[SpaceKey]:
        """The spaces of a table whose state is maintained."""
        return [key for key in self._spaces if key.source == name]

    def manifest(self) -> list[dict[str, Any]]:
        """The maintained spaces, for JSON."""
        return [{**key.as_dict(), "created": key in self._created} for key in self._spaces]

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """The state that does not follow from the tables."""
        for number, space in enumerate(self._spaces.values()):
            yield from saving.with_prefix(f"space/{number}", space.arrays())

    def restore(self, manifest: list[Mapping[str, Any]], arrays: Arrays, tables: Mapping[str, Table]) -> None:
        """Restore the state that `manifest` and `arrays` describe."""
        for number, described in enumerate(manifest):
            fields = dict(described)
            is_created = fields.pop("created")
            key = SpaceKey.from_dict(fields)
            if is_created:
                self._created.append(key)
            space = self._spaces[key] = _new_state(key, tables[key.source])
            space.load(saving.with_prefix_stripped(arrays, f"space/{number}"))

    def _open(self, key: SpaceKey, table: Table) -> None:
        space = self._spaces[key] = _new_state(key, table)
        space.load({})

    def _scan_groups(self, groups: Iterable[tuple[str, RowGroup]]) -> SubscriptionSurvey:
        parts: dict[SpaceKey, list[SpaceSubscriptions]] = {}
        odd = None
        for statement, group in groups:
            ranked = described_ranking(group.plan)
            if ranked is None:
                odd = odd or statement
                continue
            box = box_of(group.plan)
            columns = [dimension.column for dimension in box]
            local, lo, hi, k = _bounds_of(group, ranked[0], box)
            keys = self._candidates(group, ranked, columns, k)
            space_of = assign_spaces(keys, columns, lo, hi, k)
            if (space_of < 0).any():
                odd = odd or statement
            for number, key in enumerate(keys):
                members = np.flatnonzero(space_of == number)
                if not len(members):
                    continue
                at = None if key.column is None else columns.index(key.column)
                bounds = [np.zeros(len(members)) if at is None else side[at, members] for side in (lo, hi)]
                parts.setdefault(key, []).append(
                    SpaceSubscriptions(group.owner[local[members]], bounds[0], bounds[1])
                )
        return SubscriptionSurvey({key: _concatenated(several) for key, several in parts.items()}, odd)

    def _candidates(
        self, group: RowGroup, ranked: tuple[str, str, bool], columns: list[str], k: Ints
    ) -> list[SpaceKey]:
        """The spaces that a group's subscriptions may be in: with several ranges, only created ones."""
        kind, order, descending = ranked
        source = group.sources[0]
        if len(columns) > 1:
            ranking = source, kind, order, descending
            return [f for f in self._created if (f.source, f.kind, f.order, f.descending) == ranking]
        column = columns[0] if columns else None
        return [SpaceKey(source, kind, column, order, descending, each) for each in np.unique(k).tolist()]


_NO_SUBSCRIPTIONS = SpaceSubscriptions(np.empty(0, np.int32), np.empty(0), np.empty(0))


def _new_state(key: SpaceKey, table: Table) -> SpaceState:
    return DistinctSpace(key, table) if key.kind == "distinct" else RankedSpace(key, table)


def _bounds_of(group: RowGroup, kind: str, box: tuple[Dimension, ...]) -> tuple[Ints, Floats, Floats, Ints]:
    """Local slots of a group's subscriptions, their bounds by dimension, their k.

    Those with an empty range are left out: no message applies to them.
    """
    assert isinstance(group.index, RangeIndex)
    local, lo, hi, k = group.index.bounds()
    lo, hi = lo.copy(), hi.copy()
    for place, dimension in enumerate(box):
        lo[place], hi[place] = message_bounds(dimension, lo[place]), message_bounds(dimension, hi[place])
    return local, lo, hi, k if kind == "top-k" else np.ones(len(local), np.int32)


def _concatenated(parts: list[SpaceSubscriptions]) -> SpaceSubscriptions:
    """The subscriptions of several groups, by slot."""
    slots, lo, hi = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(slots)
    return SpaceSubscriptions(slots[order], lo[order], hi[order])
