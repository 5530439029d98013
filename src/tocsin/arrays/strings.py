"""String interning: subscription ids, table keys and column values as small integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.jit import entry_point
from tocsin.arrays.strings_kernels import (
    HEAP_LIVE,
    HEAP_USED,
    N_FREE,
    N_STATE,
    TOP,
    InternerColumns,
    add_strings,
    copy_texts,
    fill_table,
    find_strings,
    measure_texts,
    remove_strings,
)
from tocsin.arrays.texts import AnyStrings, Texts, one_text, strings_of, texts_of
from tocsin.arrays.types import Arrays, Bools, Ints, Longs, Ops

#: An Arrow string array holds at most this many bytes.
ARROW_BYTES = 2**31 - 1
#: Heaps smaller than this are not worth compacting.
SMALL_HEAP = 1024


class StringInterner:
    """Maps strings to slots and back by hashing, without a Python object per string.

    The slot of a removed string is reused, the last freed first. A caller's columns by slot need `top` rows.
    """

    def __init__(self, capacity: int = 16, chunk_bytes: int = ARROW_BYTES) -> None:
        rows = max(capacity, 1)
        self._chunk_bytes = chunk_bytes
        self._columns = InternerColumns(
            heap=np.empty(8 * rows, np.uint8),
            starts=np.zeros(rows, np.int64),
            lengths=np.full(rows, -1, np.int32),
            hashes=np.zeros(rows, np.int64),
            table=np.full(_table_size(rows), -1, np.int32),
            free=np.empty(rows, np.int32),
            state=np.zeros(N_STATE, np.int64),
        )

    def __len__(self) -> int:
        return int(self._columns.state[TOP] - self._columns.state[N_FREE])

    @property
    def top(self) -> int:
        """One more than the largest slot ever in use."""
        return int(self._columns.state[TOP])

    @property
    def columns(self) -> InternerColumns:
        """The columns as kernels such as `compare_interned` read them. Valid until the next change."""
        return self._columns

    def find(self, values: AnyStrings) -> Ints:
        """The slot of each string, -1 where absent. Cost: linear in the bytes of `values`."""
        return self._find(texts_of(values))

    def find_one(self, value: str) -> int:
        """The slot of one string, -1 if absent."""
        return int(self._find(one_text(value))[0])

    def add(self, values: AnyStrings) -> tuple[Ints, Bools]:
        """The slot of each string, adding those that are absent; and whether it was added at that position.

        A string that occurs twice is new at its first position only. Cost: linear in the bytes of `values`,
        amortised.
        """
        return self._add(texts_of(values))

    def remove(self, slots: Ints) -> None:
        """Remove the strings of distinct slots in use. Cost: amortised constant each."""
        free = ensure_capacity(self._columns.free, int(self._columns.state[N_FREE]) + len(slots))
        self._columns = self._columns._replace(free=free)
        remove_strings(self._columns, np.array(slots, np.int32))
        state = self._columns.state
        if state[HEAP_USED] > SMALL_HEAP and state[HEAP_USED] > 2 * state[HEAP_LIVE]:
            self._compact()

    def text(self, slot: int) -> str:
        """The string in one slot."""
        start = int(self._columns.starts[slot])
        return self._columns.heap[start : start + int(self._columns.lengths[slot])].tobytes().decode()

    def gather(self, slots: Ints | Longs | Ops) -> pa.ChunkedArray[Any]:
        """The string in each slot; slots may repeat. More than one chunk only above 2 GiB.

        Cost: linear in the bytes returned.
        """
        return strings_of(self._texts(slots), self._chunk_bytes)

    def arrays(self) -> Arrays:
        """The strings in slot order, without garbage. The hash table is derived."""
        lengths = self._columns.lengths[: self.top].copy()
        return {
            "heap": self._texts(np.flatnonzero(lengths >= 0)).heap,
            "lengths": lengths,
            "free": self._columns.free[: self._columns.state[N_FREE]].copy(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Cost: linear."""
        lengths = np.array(arrays["lengths"], np.int32)
        heap, free = np.array(arrays["heap"], np.uint8), np.array(arrays["free"], np.int32)
        ends = np.cumsum(np.maximum(lengths, 0), dtype=np.int64)
        self._columns = InternerColumns(
            heap=heap,
            starts=ends - np.maximum(lengths, 0),
            lengths=lengths,
            hashes=np.zeros(len(lengths), np.int64),
            table=np.full(_table_size(len(lengths)), -1, np.int32),
            free=free,
            state=np.array([len(lengths), len(free), len(heap), len(heap)], np.int64),
        )
        fill_table(self._columns)

    def check_invariants(self) -> None:
        """Assert that heap, slots and table agree. For tests."""
        names, top = self._columns, self.top
        used = np.flatnonzero(names.lengths[:top] >= 0)
        free = names.free[: names.state[N_FREE]]
        assert sorted([*used.tolist(), *free.tolist()]) == list(range(top))
        assert (names.lengths[top:] == -1).all()
        assert (
            names.lengths[used].sum() == names.state[HEAP_LIVE] <= names.state[HEAP_USED] <= len(names.heap)
        )
        assert (names.starts[used] + names.lengths[used] <= names.state[HEAP_USED]).all()
        assert sorted(names.table[names.table >= 0].tolist()) == used.tolist()
        texts = [self.text(slot) for slot in used.tolist()]
        assert len(set(texts)) == len(texts)
        assert [self.find_one(text) for text in texts] == used.tolist()

    def _find(self, texts: Texts) -> Ints:
        slots = np.empty(len(texts.offsets) - 1, np.int32)
        entry_point(find_strings)(self._columns, texts.heap, texts.offsets, slots)
        return slots

    def _add(self, texts: Texts) -> tuple[Ints, Bools]:
        count = len(texts.offsets) - 1
        slots, is_new = np.empty(count, np.int32), np.zeros(count, np.bool_)
        done = entry_point(add_strings)(self._columns, texts.heap, texts.offsets, 0, slots, is_new)
        while done < count:
            self._grow(int(texts.offsets[done + 1] - texts.offsets[done]))
            done = entry_point(add_strings)(self._columns, texts.heap, texts.offsets, done, slots, is_new)
        return slots, is_new

    def _texts(self, slots: Ints | Longs | Ops) -> Texts:
        names, asked, offsets = self._columns, slots.astype(np.int64), np.empty(len(slots) + 1, np.int64)
        heap = np.empty(entry_point(measure_texts)(names.lengths, asked, offsets), np.uint8)
        entry_point(copy_texts)(names.heap, names.starts, asked, offsets, heap)
        return Texts(heap, offsets)

    def _grow(self, length: int) -> None:
        """Double each column that is full, for one more string of `length` bytes."""
        names = self._columns
        rows = len(self) + 1
        self._columns = names._replace(
            heap=ensure_capacity(names.heap, int(names.state[HEAP_USED]) + length),
            starts=ensure_capacity(names.starts, rows),
            lengths=ensure_capacity(names.lengths, rows, -1),
            hashes=ensure_capacity(names.hashes, rows),
        )
        if _table_size(rows) > len(names.table):
            self._columns = self._columns._replace(table=np.full(_table_size(rows), -1, np.int32))
            fill_table(self._columns)

    def _compact(self) -> None:
        """Rewrite the heap without garbage, in slot order."""
        names = self._columns
        used = np.flatnonzero(names.lengths[: self.top] >= 0)
        texts = self._texts(used)
        names.starts[used] = texts.offsets[:-1]
        names.state[HEAP_USED] = names.state[HEAP_LIVE]
        self._columns = names._replace(heap=texts.heap)


def _table_size(count: int) -> int:
    """A power of two, at least twice the number of strings."""
    return max(4, 1 << (2 * count - 1).bit_length())
