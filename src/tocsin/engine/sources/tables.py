"""Tables: rows by key, upserted and deleted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.jit import entry_point
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.texts import AnyStrings
from tocsin.arrays.types import Arrays, Bools, Ints, Longs
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.intake import OP, arrow_schema, read_batch
from tocsin.engine.conversion.small_batch import SmallBatch, SmallBatchReader
from tocsin.engine.conversion.text import key_texts, key_texts_of_list
from tocsin.engine.saving import with_prefix, with_prefix_stripped
from tocsin.engine.sources.deltas import SourceDelta
from tocsin.engine.sources.rows import RowStore
from tocsin.engine.sources.tables_kernels import NO_ROW, collapse_rows, step_rows
from tocsin.engine.sources.text_columns import TextColumns
from tocsin.language import SourceSchema

#: A store is compacted when it holds more than twice its live rows and this many more.
SLACK = 1024


class Table:
    """The rows of a table. A row's slot is that of its key in `keys`; born is its insertion number."""

    def __init__(self, schema: SourceSchema) -> None:
        assert schema.columns is not None
        assert schema.key is not None
        self.schema = schema
        self.next_number = 0
        self.late = 0
        self.weightless = 0
        self.keys = StringInterner()
        self.store = RowStore(arrow_schema(schema.columns))
        self.texts = TextColumns(list(schema.columns), self._texts_of)
        self._key = schema.key
        self._key_at = list(schema.columns).index(schema.key)
        self._small = SmallBatchReader(schema.columns, schema.key, self.store.schema)
        #: int64 by slot: number of the row that inserted the key, GONE if absent
        self._born: Longs = np.full(16, NO_ROW, np.int64)
        #: int64 by slot: position of the key's row in the store, GONE if absent
        self._position: Longs = np.full(16, NO_ROW, np.int64)
        #: int32 by slot, -1 everywhere between batches: the first entry of a key in the batch
        self._first_entry: Ints = np.full(16, -1, np.int32)
        #: slots that the last batch emptied, released by `end_batch`
        self._emptied: Ints = np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, data: Any) -> tuple[pa.Table | SmallBatch, Bools]:
        """Rows of any accepted form, typed as declared, and which of them delete their key."""
        small = self._small.read(data)
        if small is not None:
            return small, np.zeros(small.num_rows, np.bool_)
        assert self.schema.columns is not None
        batch = read_batch(data, self.schema.columns, source=self.schema.name, key=self._key, extra=OP)
        return batch.rows, batch.deletes

    def apply(self, rows: pa.Table | SmallBatch, deletes: Bools, *, each: bool) -> SourceDelta:
        """Upsert and delete; the delta. `end_batch` must follow. Cost: linear in the batch."""
        count = rows.num_rows
        if isinstance(rows, SmallBatch):
            names: AnyStrings = key_texts_of_list([row[self._key_at] for row in rows.rows])
        else:
            names = key_texts(one_array(rows.column(self._key)))
        slots, _ = self.keys.add(names)
        top = self.keys.top
        self._born = ensure_capacity(self._born, top, NO_ROW)
        self._position = ensure_capacity(self._position, top, NO_ROW)
        first_number, self.next_number = self.next_number, self.next_number + count
        first_position = self.store.append(rows)
        born, position = np.empty((2, count), np.int64), np.empty((2, count), np.int64)
        n_deletes = entry_point(step_rows)(
            slots, deletes, first_number, first_position, self._born, self._position, born, position
        )
        if each:
            seq = np.arange(first_number, first_number + count, dtype=np.int64)
            step = np.arange(count, dtype=np.int32)
        else:
            entries = np.empty(count, np.int32)
            self._first_entry = ensure_capacity(self._first_entry, top, -1)
            n_entries = entry_point(collapse_rows)(slots, self._first_entry, born, position, entries)
            slots, born, position = entries[:n_entries], born[:, :n_entries], position[:, :n_entries]
            seq = np.array([self.next_number - 1], np.int64)
            step = np.zeros(n_entries, np.int32)
        if not n_deletes:
            # Every key is live at the end.
            delta = SourceDelta(
                self.store, seq, step, slots, born[0], born[1], position[0], position[1], self.texts
            )
            return delta.follow_texts()
        self._emptied = np.unique(slots[self._born[slots] == NO_ROW])
        matters = (born[0] != NO_ROW) | (born[1] != NO_ROW)
        return SourceDelta(
            self.store, seq, step[matters], slots[matters],
            born[0, matters], born[1, matters], position[0, matters], position[1, matters], self.texts,
        ).follow_texts()  # fmt: skip

    def end_batch(self) -> None:
        """Release what the last batch removed. Cost: amortised linear in the batch."""
        self.texts.free_unused()
        if len(self._emptied):
            self.keys.remove(self._emptied)
            self._emptied = np.empty(0, np.int32)
        if len(self.store) > 2 * len(self) + SLACK:
            live = self._live()
            self.store.compact(self._position[live])
            self._position[live] = np.arange(len(live))

    def snapshot_delta(self) -> SourceDelta:
        """All live rows as one step that inserts them, in order of insertion."""
        live = self._live()
        absent = np.full(len(live), NO_ROW, np.int64)
        seq = np.array([self.next_number - 1], np.int64)
        step = np.zeros(len(live), np.int32)
        born, position = self._born[live], self._position[live]
        return SourceDelta(self.store, seq, step, live, absent, born, absent, position, self.texts)

    def _texts_of(self, name: str) -> pa.Array:
        return one_array(self.store.column(self._position[self._live()], name))

    def rows(self) -> pa.Table:
        """All rows. Cost: linear."""
        return self.store.take(self._position[self._live()])

    def key_text(self, rows: Ints) -> pa.Array:
        """The keys of row slots, as text."""
        return one_array(self.keys.gather(rows))

    def positions(self, rows: Ints) -> Longs:
        """The rows' positions in the store."""
        return self._position[rows]

    def born(self, rows: Ints) -> Longs:
        """The rows' insertion numbers."""
        return self._born[rows]

    def _live(self) -> Ints:
        """Slots of all rows, in order of insertion."""
        slots = np.flatnonzero(self._born[: self.keys.top] != NO_ROW)
        return slots[np.argsort(self._born[slots])].astype(np.int32)

    def arrays(self) -> Arrays:
        live = self._live()
        store = RowStore(self.store.schema)
        store.append(self.store.take(self._position[live]))
        return {
            "numbers": np.array([self.next_number]),
            "born": self._born[: self.keys.top].copy(),
            "rows": store.save(),
            **dict(with_prefix("keys", self.keys.arrays())),
            **self.texts.arrays(),
        }

    def restore(self, arrays: Arrays) -> None:
        self.next_number = int(arrays["numbers"][0])
        self.keys.restore(with_prefix_stripped(arrays, "keys"))
        self._born = arrays["born"].astype(np.int64)
        self._position = np.full(len(self._born), NO_ROW, np.int64)
        self.store.load(arrays["rows"], 0)
        live = self._live()
        self._position[live] = np.arange(len(live))
        self.texts.restore(arrays)
