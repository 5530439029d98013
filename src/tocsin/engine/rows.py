"""Rows as Arrow columns: appended in batches, read by position, dropped from the front or compacted.

Pieces are merged into larger ones, some at a time, as in a log-structured tree, so that a store filled one
row at a time still has few pieces.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.arrow import one_array
from tocsin.engine.floats import numbers_of
from tocsin.indexes.contract import Bytes, Floats, Longs

#: Up to so many rows are looked up one by one: cheaper than to sort them by piece.
FEW = 16
#: So many pieces are merged at once.
LOOSE = 32


class RowStore:
    """An append-only sequence of rows. Positions count from 0 over the store's life until `compact`."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.first = 0
        self._pieces: list[pa.Table] = []
        self._starts: list[int] = []
        #: of each piece the columns that were asked for as numbers
        self._numbers: list[dict[str, np.ndarray]] = []
        #: pieces, the last ones, that came since some were merged
        self._n_loose = 0
        self.next = 0

    def __len__(self) -> int:
        return self.next - self.first

    def append(self, rows: pa.Table) -> int:
        """Add rows; the position of the first. Cost: amortised logarithmic copies a row."""
        first = self.next
        if rows.num_rows == 0:
            return first
        self._pieces.append(rows.combine_chunks())
        self._starts.append(first)
        self._numbers.append({})
        self.next += rows.num_rows
        self._n_loose += 1
        if self._n_loose == LOOSE:
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
        if len(positions) > FEW or not self._pieces:
            return self.take(positions, [name]).column(0)
        kind, parts = self.schema.field(name).type, []
        for position in positions.tolist():
            piece = bisect_right(self._starts, position) - 1
            if piece < 0:
                parts.append(pa.nulls(1, kind))
            else:
                parts += self._pieces[piece].column(name).slice(position - self._starts[piece], 1).chunks
        return pa.chunked_array(parts, kind)

    def row(self, position: int, columns: list[str]) -> list[Any]:
        """Some columns of one row that is there, as Python's values; times as UTC microseconds.

        Cost: a search among the pieces.
        """
        piece = bisect_right(self._starts, position) - 1
        local = position - self._starts[piece]
        return [_value_of(self._pieces[piece].column(name)[local]) for name in columns]

    def floats(self, positions: Longs, name: str) -> Floats:
        """A numeric column at `positions` as doubles; NaN for NULL, and where a position is negative.

        Cost: linear.
        """
        values = np.full(len(positions), np.nan)
        if len(positions) <= FEW:
            for place, position in enumerate(positions.tolist()):
                piece = bisect_right(self._starts, position) - 1
                if piece >= 0:
                    values[place] = self._piece_numbers(piece, name)[position - self._starts[piece]]
        else:
            piece_of = np.searchsorted(self._starts, positions, side="right") - 1
            for piece in np.unique(piece_of).tolist():
                if piece >= 0:
                    mine = piece_of == piece
                    values[mine] = self._piece_numbers(piece, name)[positions[mine] - self._starts[piece]]
        values += 0.0
        return values

    def _piece_numbers(self, piece: int, name: str) -> np.ndarray:
        """A column of a piece as numbers, which are the column itself unless it has nulls."""
        known = self._numbers[piece]
        if name not in known:
            known[name] = numbers_of(one_array(self._pieces[piece].column(name)))
        return known[name]

    def _merge(self) -> None:
        """Make one piece of those that are loose, and of those before that are not much larger."""
        first = len(self._pieces) - self._n_loose
        count = self.next - self._starts[first]
        while first and self._pieces[first - 1].num_rows <= 2 * count:
            first -= 1
            count += self._pieces[first].num_rows
        self._pieces[first:] = [pa.concat_tables(self._pieces[first:]).combine_chunks()]
        self._numbers[first:] = [{}]
        del self._starts[first + 1 :]
        self._n_loose = 0

    def _take_piece(self, piece: int, positions: Longs, schema: pa.Schema) -> pa.Table:
        if piece < 0:
            return _nulls(schema, len(positions))
        rows = self._pieces[piece].select(schema.names)
        local = positions - self._starts[piece]
        if local[-1] - local[0] == len(local) - 1 and (len(local) == 1 or bool(np.all(np.diff(local) == 1))):
            return rows.slice(int(local[0]), len(local))
        return rows.take(pa.array(local))

    def drop_before(self, position: int) -> None:
        """Forget the rows before `position`. Memory follows piece by piece. Cost: the pieces dropped."""
        self.first = max(self.first, min(position, self.next))
        while self._pieces and self._starts[0] + self._pieces[0].num_rows <= self.first:
            self._pieces.pop(0)
            self._starts.pop(0)
            self._numbers.pop(0)
        self._n_loose = min(self._n_loose, len(self._pieces))
        if self._pieces and self.first - self._starts[0] > self._pieces[0].num_rows // 2:
            kept = self._pieces[0].slice(self.first - self._starts[0])
            self._pieces[0] = kept.take(pa.array(np.arange(kept.num_rows)))
            self._starts[0] = self.first
            self._numbers[0] = {}

    def compact(self, live: Longs) -> None:
        """Keep only the rows at `live`; their positions become 0, 1, 2, … in that order."""
        kept = self.take(live)
        self.first = self.next = 0
        self._pieces, self._starts, self._numbers, self._n_loose = [], [], [], 0
        self.append(kept)

    def save(self) -> Bytes:
        """The rows as an Arrow stream."""
        rows = self.take(np.arange(self.first, self.next, dtype=np.int64))
        return table_to_bytes(rows)

    def load(self, data: Bytes, first: int) -> None:
        """Become what `save` wrote, with the first row at position `first`."""
        self.first = self.next = first
        self._pieces, self._starts, self._numbers, self._n_loose = [], [], [], 0
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


def _value_of(value: pa.Scalar) -> Any:
    # Not every time that Arrow can hold is one of Python's.
    return value.value if isinstance(value, pa.TimestampScalar) else value.as_py()


def _nulls(schema: pa.Schema, count: int) -> pa.Table:
    return pa.table([pa.nulls(count, field.type) for field in schema], schema=schema)
