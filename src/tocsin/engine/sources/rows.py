"""The row store: Arrow columns, appended in batches, read by position, dropped from the front or compacted.

Pieces are merged into larger ones, as in a log-structured merge tree, so that a store filled one row at a
time has few pieces. A small batch becomes a table only when it is merged or taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin import ordinals
from tocsin.arrays.types import Bytes, Floats, Longs
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.floats import STORAGE_DTYPES, coordinates_of, numbers_of
from tocsin.engine.conversion.small_batch import SMALL_BATCH_ROWS, SmallBatch
from tocsin.grids import grid_of

#: Pieces merged at once.
MERGE_PIECES = 32


class RowStore:
    """An append-only sequence of rows. Positions count from 0 over the store's life until `compact`."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.first = 0
        self._pieces: list[pa.Table | SmallBatch] = []
        self._starts: list[int] = []
        #: by piece, cached columns as numbers
        self._numbers: list[dict[str, np.ndarray]] = []
        #: number of pieces, the last ones, since the last merge
        self._n_unmerged = 0
        self.next = 0
        #: by column, its index
        self._place = {name: place for place, name in enumerate(schema.names)}
        #: columns that indexes compare in ordinal coordinates
        self._ordinal = {
            field.name for field in schema if (grid := grid_of(field.type)) is not None and grid.is_ordinal
        }
        #: by column, the dtype of its storage, if it is numeric
        self._storage_dtypes = {
            field.name: np.dtype(STORAGE_DTYPES[field.type.id])
            for field in schema
            if field.type.id in STORAGE_DTYPES
        }

    def __len__(self) -> int:
        return self.next - self.first

    def append(self, rows: pa.Table | SmallBatch) -> int:
        """Add rows; the position of the first. Cost: amortised logarithmic copies a row."""
        first = self.next
        if rows.num_rows == 0:
            return first
        self._pieces.append(rows if isinstance(rows, SmallBatch) else rows.combine_chunks())
        self._starts.append(first)
        self._numbers.append({})
        self.next += rows.num_rows
        self._n_unmerged += 1
        if self._n_unmerged == MERGE_PIECES:
            self._merge()
        return first

    def take(self, positions: Longs, columns: list[str] | None = None) -> pa.Table:
        """The rows at `positions`, in that order; a negative position gives a row of nulls."""
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        if len(positions) == 0 or not self._pieces:
            return _nulls(schema, len(positions))
        piece_of = np.searchsorted(self._starts, positions, side="right") - 1
        used = np.unique(piece_of)
        if len(used) == 1:
            return self._take_piece(int(used[0]), positions, schema)
        order = np.argsort(piece_of, kind="stable")
        bounds = np.searchsorted(piece_of[order], used, side="right")
        parts = []
        begin = 0
        for piece, end in zip(used, bounds, strict=True):
            parts.append(self._take_piece(int(piece), positions[order[begin:end]], schema))
            begin = int(end)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).combine_chunks().take(pa.array(back))

    def column(self, positions: Longs, name: str) -> pa.ChunkedArray:
        """A column at `positions`, in that order; null where a position is negative."""
        if len(positions) > SMALL_BATCH_ROWS or not self._pieces:
            return self.take(positions, [name]).column(0)
        kind, parts = self.schema.field(name).type, []
        for position in positions.tolist():
            piece = bisect_right(self._starts, position) - 1
            if piece < 0:
                parts.append(pa.nulls(1, kind))
                continue
            rows, local = self._pieces[piece], position - self._starts[piece]
            if isinstance(rows, SmallBatch):
                parts.append(pa.array([rows.rows[local][self._place[name]]], kind))
            else:
                parts += rows.column(name).slice(local, 1).chunks
        return pa.chunked_array(parts, kind)

    def values(self, positions: Longs, name: str) -> list[Any]:
        """A column at a few `positions` as Python values; NaN may stand for NULL. Times are numbers."""
        return [None if at < 0 else self.row(at, [name])[0] for at in positions.tolist()]

    def row(self, position: int, columns: list[str]) -> list[Any]:
        """Some columns of one live row, as Python values; times as UTC microseconds.

        Cost: a search among the pieces.
        """
        piece = bisect_right(self._starts, position) - 1
        rows, local = self._pieces[piece], position - self._starts[piece]
        if isinstance(rows, SmallBatch):
            return [rows.rows[local][self._place[name]] for name in columns]
        return [self._value(piece, local, name) for name in columns]

    def floats(self, positions: Longs, name: str) -> Floats:
        """A numeric column at `positions` as doubles; NaN for NULL, and where a position is negative.

        Cost: linear.
        """
        return self._gather(positions, name, self._piece_numbers, float)

    def coordinates(self, positions: Longs, name: str) -> Floats:
        """As `floats`, in the coordinates that indexes compare: distinct integers and decimals stay distinct.

        Cost: linear.
        """
        if name not in self._ordinal:
            return self.floats(positions, name)
        return self._gather(positions, name, self._piece_coordinates, ordinals.encode_one)

    def _gather(
        self,
        positions: Longs,
        name: str,
        numbers_of_piece: Callable[[int, str], np.ndarray],
        number_of: Callable[[Any], float],
    ) -> Floats:
        """A column's numbers at `positions`, by piece; by value in small batches."""
        if len(positions) <= SMALL_BATCH_ROWS:
            numbers = [self._number(at, name, numbers_of_piece, number_of) + 0.0 for at in positions.tolist()]
            return np.array(numbers)
        values = np.full(len(positions), np.nan)
        piece_of = np.searchsorted(self._starts, positions, side="right") - 1
        for piece in np.unique(piece_of).tolist():
            if piece >= 0:
                in_piece = piece_of == piece
                values[in_piece] = numbers_of_piece(piece, name)[positions[in_piece] - self._starts[piece]]
        values += 0.0
        return values

    def _number(
        self,
        position: int,
        name: str,
        numbers_of_piece: Callable[[int, str], np.ndarray],
        number_of: Callable[[Any], float],
    ) -> float:
        """As `_gather`, for one row."""
        piece = bisect_right(self._starts, position) - 1
        if piece < 0:
            return np.nan
        rows, local = self._pieces[piece], position - self._starts[piece]
        if isinstance(rows, SmallBatch):
            value = rows.rows[local][self._place[name]]
            return np.nan if value is None else number_of(value)
        return float(numbers_of_piece(piece, name).item(local))

    def _value(self, piece: int, local: int, name: str) -> Any:
        """One value of a piece; NaN may stand for NULL."""
        if name in self._storage_dtypes:
            numbers = self._piece_numbers(piece, name)
            if numbers.dtype is self._storage_dtypes[name]:
                return numbers.item(local)
        value = self._table(piece).column(name)[local]
        # Arrow has times that Python does not.
        return value.value if isinstance(value, pa.TimestampScalar) else value.as_py()

    def _table(self, piece: int) -> pa.Table:
        """A piece as a table, converted in place."""
        rows = self._pieces[piece]
        if isinstance(rows, SmallBatch):
            rows = self._pieces[piece] = rows.table()
        return rows

    def _piece_numbers(self, piece: int, name: str) -> np.ndarray:
        """A column of a piece as numbers, not copied unless it has nulls."""
        known = self._numbers[piece]
        if name not in known:
            known[name] = numbers_of(one_array(self._table(piece).column(name)))
        return known[name]

    def _piece_coordinates(self, piece: int, name: str) -> np.ndarray:
        """A column of a piece in the coordinates that indexes compare: the numbers themselves, if small."""
        cache, key = self._numbers[piece], f"{name} as coordinates"
        if key not in cache:
            numbers = self._piece_numbers(piece, name)
            is_small = (
                numbers.dtype.kind == "i"
                and numbers.max(initial=0) <= ordinals.EXACT
                and numbers.min(initial=0) >= -ordinals.EXACT
            )
            if is_small:
                cache[key] = numbers
            else:
                cache[key] = coordinates_of(self._table(piece).column(name))
        return cache[key]

    def _merge(self) -> None:
        """Merge the unmerged pieces, and those before them that are not much larger."""
        first = len(self._pieces) - self._n_unmerged
        count = self.next - self._starts[first]
        while first and self._pieces[first - 1].num_rows <= 2 * count:
            first -= 1
            count += self._pieces[first].num_rows
        tables, small = [], SmallBatch(self.schema, [])
        for piece in [*self._pieces[first:], None]:
            if isinstance(piece, SmallBatch):
                small.rows += piece.rows
                continue
            if small.rows:
                tables.append(small.table())
                small = SmallBatch(self.schema, [])
            if piece is not None:
                tables.append(piece)
        self._pieces[first:] = [pa.concat_tables(tables).combine_chunks()]
        self._numbers[first:] = [{}]
        del self._starts[first + 1 :]
        self._n_unmerged = 0

    def _take_piece(self, piece: int, positions: Longs, schema: pa.Schema) -> pa.Table:
        if piece < 0:
            return _nulls(schema, len(positions))
        rows = self._table(piece).select(schema.names)
        local = positions - self._starts[piece]
        if local[-1] - local[0] == len(local) - 1 and (len(local) == 1 or bool(np.all(np.diff(local) == 1))):
            return rows.slice(int(local[0]), len(local))
        return rows.take(pa.array(local))

    def drop_before(self, position: int) -> None:
        """Drop the rows before `position`. Memory is freed by piece. Cost: linear in the pieces dropped."""
        self.first = max(self.first, min(position, self.next))
        while self._pieces and self._starts[0] + self._pieces[0].num_rows <= self.first:
            self._pieces.pop(0)
            self._starts.pop(0)
            self._numbers.pop(0)
        self._n_unmerged = min(self._n_unmerged, len(self._pieces))
        if self._pieces and self.first - self._starts[0] > self._pieces[0].num_rows // 2:
            rest = self._table(0).slice(self.first - self._starts[0])
            self._pieces[0] = rest.take(pa.array(np.arange(rest.num_rows)))
            self._starts[0] = self.first
            self._numbers[0] = {}

    def compact(self, live: Longs) -> None:
        """Retain only the rows at `live`, which become positions 0, 1, 2, … in that order."""
        rows = self.take(live)
        self.first = self.next = 0
        self._pieces, self._starts, self._numbers, self._n_unmerged = [], [], [], 0
        self.append(rows)

    def save(self) -> Bytes:
        """The rows as an Arrow stream."""
        rows = self.take(np.arange(self.first, self.next, dtype=np.int64))
        return table_to_bytes(rows)

    def load(self, data: Bytes, first: int) -> None:
        """Become what `save` wrote, with the first row at position `first`."""
        self.first = self.next = first
        self._pieces, self._starts, self._numbers, self._n_unmerged = [], [], [], 0
        self.append(table_from_bytes(data))


def table_to_bytes(rows: pa.Table) -> Bytes:
    """An Arrow table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return np.frombuffer(sink.getvalue(), np.uint8)


def table_from_bytes(data: Bytes) -> pa.Table:
    """The inverse of `table_to_bytes`."""
    with pa.ipc.open_stream(pa.py_buffer(data.tobytes())) as reader:
        return reader.read_all()


def _nulls(schema: pa.Schema, count: int) -> pa.Table:
    return pa.table([pa.nulls(count, field.type) for field in schema], schema=schema)
