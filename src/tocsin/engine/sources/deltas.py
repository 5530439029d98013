"""The delta of a batch on the rows of a table or a window, before any group reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.filtering import ranged_values
from tocsin.engine.conversion.small_batch import SMALL_BATCH_ROWS
from tocsin.engine.interning import Values
from tocsin.engine.sources.rows import RowStore
from tocsin.engine.sources.text_columns import TextColumns
from tocsin.indexes.contract import ABSENT, RowDelta
from tocsin.language import Dimension


@dataclass
class SourceDelta:
    """Entries as in `RowDelta`, with positions in the store instead of values."""

    store: RowStore
    seq: Longs
    step: Ints
    row: Ints
    born_before: Longs
    born_after: Longs
    #: int64 (entries,): the row's position before the step, -1 if absent
    position_before: Longs
    #: int64 (entries,): the row's position after the step, -1 if absent
    position_after: Longs
    texts: TextColumns
    _floats: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    _coordinates: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)
    _ranged: dict[object, tuple[Floats, Floats]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.row)

    def column(self, name: str) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """A column before and after, null where the row is absent."""
        return self.store.column(self.position_before, name), self.store.column(self.position_after, name)

    def values(self, name: str) -> tuple[Values, Values]:
        """A column before and after, as a `ValueInterner` takes it: a list for a small batch."""
        if len(self) > SMALL_BATCH_ROWS or pa.types.is_temporal(self.store.schema.field(name).type):
            before, after = self.column(name)
            return one_array(before), one_array(after)
        return self.store.values(self.position_before, name), self.store.values(self.position_after, name)

    def floats(self, name: str) -> tuple[Floats, Floats]:
        """A numeric column before and after, NaN where NULL or absent. Read once for all groups."""
        if name not in self._floats:
            self._floats[name] = (
                self.store.floats(self.position_before, name),
                self.store.floats(self.position_after, name),
            )
        return self._floats[name]

    def follow_texts(self) -> SourceDelta:
        """Count what the source's rows hold in text columns; the delta itself."""
        for name, codes in self.texts.items():
            before, after = self.values(name)
            acquired = codes.acquire(after)
            self._coordinates[name] = codes.release(before), acquired
        return self

    def coordinates(self, name: str) -> tuple[Floats, Floats]:
        """As `floats`, in the coordinates that indexes compare. Read once for all groups."""
        if name not in self._coordinates and name in self.texts:
            before, after = self.values(name)
            self._coordinates[name] = self.texts[name].find(before), self.texts[name].find(after)
        if name not in self._coordinates:
            self._coordinates[name] = (
                self.store.coordinates(self.position_before, name),
                self.store.coordinates(self.position_after, name),
            )
        return self._coordinates[name]

    def ranged(self, dimension: Dimension) -> tuple[Floats, Floats]:
        """What a dimension bounds, before and after, as `coordinates`. Read once for all groups."""
        if dimension.expression is None and dimension.filter is None:
            return self.coordinates(dimension.column)
        key = dimension.source, dimension.column, dimension.expression, dimension.filter
        if key not in self._ranged:
            values = [self._ranged_at(dimension, at) for at in (self.position_before, self.position_after)]
            if dimension.expression is None:
                columns = self.coordinates(dimension.column)
                values = [column + each for column, each in zip(columns, values, strict=True)]
            self._ranged[key] = values[0], values[1]
        return self._ranged[key]

    def _ranged_at(self, dimension: Dimension, positions: Longs) -> Floats:
        def column(name: str) -> pa.Array:
            return one_array(self.store.column(positions, name))

        return ranged_values(dimension, column, positions >= 0)

    def touched(self, selected: Sequence[str]) -> Bools:
        """Which entries differ in a selected column, or hold a new row under an old key."""
        names = list(dict.fromkeys(selected))
        if len(self) <= SMALL_BATCH_ROWS:
            return self._touched_in_small(names)
        stays = (self.born_before != ABSENT) & (self.born_after != ABSENT)
        touched: Bools = stays & (self.born_before != self.born_after)
        candidates = np.flatnonzero(stays & ~touched & (self.position_before != self.position_after))
        if len(candidates) and names:
            before = self.store.take(self.position_before[candidates], names)
            after = self.store.take(self.position_after[candidates], names)
            differs = np.zeros(len(candidates), np.bool_)
            for name in names:
                differs |= _differs(before.column(name), after.column(name))
            touched[candidates] = differs
        return touched

    def _touched_in_small(self, names: list[str]) -> Bools:
        """As `touched`, without intermediate columns."""
        touched = np.zeros(len(self), np.bool_)
        columns = (self.born_before, self.born_after, self.position_before, self.position_after)
        entries = zip(*(column.tolist() for column in columns), strict=True)
        for place, (born_before, born_after, before, after) in enumerate(entries):
            if ABSENT not in (born_before, born_after):
                touched[place] = born_before != born_after or (
                    before != after and self._row_differs(before, after, names)
                )
        return touched

    def _row_differs(self, before: int, after: int, names: list[str]) -> bool:
        """Whether two rows differ in a column: as `_differs`."""
        for old, new in zip(self.store.row(before, names), self.store.row(after, names), strict=True):
            was_null, is_null = _is_null(old), _is_null(new)
            if was_null != is_null or not (is_null or old == new):
                return True
        return False

    def for_index(self, before: list[Floats], after: list[Floats], touched: Bools) -> RowDelta:
        """The delta for one index, with the given columns."""
        count = len(self.row)
        return RowDelta(
            self.seq, self.step, self.row, self.born_before, self.born_after,
            _matrix(before, count), _matrix(after, count), touched,
        )  # fmt: skip

    def positions_at(self, rows: Ints, steps: Ints, now: Longs) -> Longs:
        """The position of each of `rows` just after its step; `now` is that after the batch."""
        if len(self.seq) <= 1 or not len(self.row):
            return now
        n_steps = len(self.seq)
        order = np.lexsort((self.step, self.row))
        keys = self.row[order].astype(np.int64) * n_steps + self.step[order]
        at = np.searchsorted(keys, rows.astype(np.int64) * n_steps + steps, side="right")
        earlier, later = order[np.maximum(at - 1, 0)], order[np.minimum(at, len(order) - 1)]
        has_earlier = (at > 0) & (self.row[earlier] == rows)
        has_later = (at < len(order)) & (self.row[later] == rows)
        return np.where(
            has_earlier, self.position_after[earlier], np.where(has_later, self.position_before[later], now)
        )


def _is_null(value: Any) -> bool:
    """Whether a value is NULL or NaN."""
    return value is None or value != value


def _matrix(columns: list[Floats], count: int) -> Floats:
    matrix = np.empty((count, len(columns)), np.float64)
    for index, column in enumerate(columns):
        matrix[:, index] = column
    return matrix


def _differs(before: pa.ChunkedArray, after: pa.ChunkedArray) -> Bools:
    """Whether values differ; NULL and NaN are equal."""
    unequal = np.asarray(pc.fill_null(pc.not_equal(before, after), False).to_numpy(), np.bool_)
    was_null, is_null = (
        np.asarray(pc.is_null(column, nan_is_null=True).to_numpy(), np.bool_) for column in (before, after)
    )
    return np.where(was_null | is_null, was_null != is_null, unequal)
