"""Windowed streams: the last N rows, or the rows of the last time span."""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa

from tocsin.arrays.columns import Queue, Slots, ensure_capacity
from tocsin.arrays.types import Arrays, Ints, Longs
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.intake import arrow_schema
from tocsin.engine.conversion.text import text_of
from tocsin.engine.saving import with_prefix, with_prefix_stripped
from tocsin.engine.sources.deltas import SourceDelta
from tocsin.engine.sources.rows import RowStore, table_from_bytes, table_to_bytes
from tocsin.engine.sources.text_columns import TextColumns
from tocsin.engine.sources.windows_kernels import order_rows
from tocsin.indexes.contract import ABSENT
from tocsin.language import SourceSchema

log = logging.getLogger(__name__)

#: The clock before any time has been seen.
NEVER = -(1 << 62)


class Window:
    """The rows of a window, oldest first. A row's born is its position in the store: order of application."""

    def __init__(
        self, schema: SourceSchema, *, rows: int | None, length: int, time: str | None, delay: int
    ) -> None:
        assert schema.columns is not None
        self.schema = schema
        self.next_number = 0
        self.late = 0
        self.weightless = 0
        self.time = time
        self.store = RowStore(arrow_schema(schema.columns))
        self.texts = TextColumns(list(schema.columns), self._texts_of)
        self._rows = rows
        self._length = length
        self._delay = delay
        self._slots = Slots()
        #: int32: slot of each live row, oldest first; agrees with `_times` and the store
        self._live = Queue(np.dtype(np.int32))
        #: int64: time of each live row; all 0 where the window has no time
        self._times = Queue(np.dtype(np.int64))
        #: int64 by slot: the row's number, and its position in the store
        self._number: Longs = np.empty(16, np.int64)
        self._position: Longs = np.empty(16, np.int64)
        #: int64 (2,): the newest time applied, and the newest seen
        self._clock: Longs = np.full(2, NEVER, np.int64)
        #: rows whose delay has not passed, and their numbers
        self._delayed = self.store.schema.empty_table()
        self._delayed_numbers: Longs = np.empty(0, np.int64)
        self._expired: Ints = np.empty(0, np.int32)
        #: numbers of the rows that the last batch dropped for being late
        self.late_numbers: Longs = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._live)

    def apply(self, rows: pa.Table, *, each: bool) -> SourceDelta:
        """Append rows and expire others; the delta. `end_batch` must follow. Cost: linear in both."""
        numbers = np.arange(self.next_number, self.next_number + rows.num_rows, dtype=np.int64)
        self.late_numbers = np.empty(0, np.int64)
        self.next_number += rows.num_rows
        if self.time is None:
            return self._slide(rows, np.zeros(rows.num_rows, np.int64), numbers, each=each)
        n_delayed = self._delayed.num_rows
        if n_delayed:
            rows = pa.concat_tables([self._delayed, rows])
            numbers = np.concatenate([self._delayed_numbers, numbers])
        times = self._times_of(rows)
        applied = np.empty(len(times), np.int64)
        late = np.zeros(len(times), np.bool_)
        scratch = np.empty(len(times), np.int64)
        applied = applied[: order_rows(times, n_delayed, self._delay, self._clock, scratch, applied, late)]
        if late.any():
            self._report_late(numbers[late])
        self._delay_rows(rows, numbers, applied, late)
        if len(applied) < rows.num_rows or not bool(np.all(applied[1:] > applied[:-1])):
            rows, times, numbers = rows.take(pa.array(applied)), times[applied], numbers[applied]
        return self._slide(rows, times, numbers, each=each)

    def advance(self, time: int) -> SourceDelta:
        """Advance time: apply rows whose delay has passed, expire those that are too old."""
        self._clock[1] = max(self._clock[1], time)
        until = self._clock[1] - self._delay
        times = self._times_of(self._delayed)
        order = np.lexsort((self._delayed_numbers, times))
        applied = order[times[order] <= until]
        rows, numbers = self._delayed.take(pa.array(applied)), self._delayed_numbers[applied]
        self._delay_rows(self._delayed, self._delayed_numbers, applied, np.zeros(len(times), np.bool_))
        self._clock[0] = max(self._clock[0], until)
        return self._slide(rows, times[applied], numbers, each=False)

    def end_batch(self) -> None:
        """Release the expired rows."""
        self.texts.free_unused()
        self._slots.release(self._expired)
        self._expired = np.empty(0, np.int32)
        self.store.drop_before(self.store.next - len(self._live))

    def snapshot_delta(self) -> SourceDelta:
        """All live rows as one step that inserts them, oldest first."""
        live = self._live.values.copy()
        absent = np.full(len(live), ABSENT, np.int64)
        position = self._position[live]
        seq = np.array([self.next_number - 1], np.int64)
        step = np.zeros(len(live), np.int32)
        return SourceDelta(self.store, seq, step, live, absent, position, absent, position, self.texts)

    def _texts_of(self, name: str) -> pa.Array:
        return one_array(self.store.column(self._position[self._live.values], name))

    def rows(self) -> pa.Table:
        """All rows, delayed ones included. Cost: linear."""
        live = self.store.take(self._position[self._live.values])
        return pa.concat_tables([live, self._delayed])

    def key_text(self, rows: Ints) -> pa.Array:
        """The keys of row slots: their numbers, as text."""
        return text_of(pa.array(self._number[rows]))

    def positions(self, rows: Ints) -> Longs:
        """The rows' positions in the store."""
        return self._position[rows]

    def born(self, rows: Ints) -> Longs:
        """The rows' order of application."""
        return self._position[rows]

    def _slide(self, rows: pa.Table, times: Longs, numbers: Longs, *, each: bool) -> SourceDelta:
        """Append `rows` and expire; times are in order and none is older than the live rows."""
        n_live = len(self._live)
        self._times.append(times)
        n_expired = self._n_expired(n_live + len(numbers))
        if each:
            n_unseen = 0
            seq = numbers
            step = np.concatenate(
                [np.arange(len(numbers)), self._arrival_that_expires(times, n_live, n_expired)]
            )
        else:
            # Rows that enter and leave within the batch are not part of its net effect.
            n_unseen = max(n_expired - n_live, 0)
            rows, numbers = rows.slice(n_unseen), numbers[n_unseen:]
            seq = np.array([self.next_number - 1], np.int64)
            step = np.zeros(len(numbers) + n_expired - n_unseen, np.int64)
        slots = self._place(rows, numbers)
        self._live.append(slots)
        expired = self._live.values[: n_expired - n_unseen].copy()
        self._live.drop(len(expired))
        self._times.drop(n_expired)
        self._expired = expired
        row = np.concatenate([slots, expired])
        before, after = self._position[row], self._position[row]
        before[: len(slots)] = ABSENT
        after[len(slots) :] = ABSENT
        order = np.argsort(step, kind="stable")
        before, after = before[order], after[order]
        steps = step[order].astype(np.int32)
        return SourceDelta(
            self.store, seq, steps, row[order], before, after, before, after, self.texts
        ).follow_texts()

    def _place(self, rows: pa.Table, numbers: Longs) -> Ints:
        slots = self._slots.take(len(numbers))
        self._number = ensure_capacity(self._number, self._slots.top)
        self._position = ensure_capacity(self._position, self._slots.top)
        first = self.store.append(rows)
        self._number[slots] = numbers
        self._position[slots] = np.arange(first, first + len(numbers), dtype=np.int64)
        return slots

    def _n_expired(self, n_rows: int) -> int:
        """The number of oldest rows that leave the window once all have arrived."""
        if self._rows is not None:
            return max(n_rows - self._rows, 0)
        return int(np.searchsorted(self._times.values, self._clock[0] - self._length, side="right"))

    def _arrival_that_expires(self, times: Longs, n_live: int, n_expired: int) -> Longs:
        """For each of the `n_expired` oldest rows: the arrival that expires it."""
        if self._rows is not None:
            return np.arange(n_expired, dtype=np.int64) + (self._rows - n_live)
        return np.searchsorted(times, self._times.values[:n_expired] + self._length, side="left")

    def _times_of(self, rows: pa.Table) -> Longs:
        assert self.time is not None
        column = rows.column(self.time).cast(pa.int64())
        return np.array(column.to_numpy(), np.int64)

    def _delay_rows(self, rows: pa.Table, numbers: Longs, applied: Longs, late: np.ndarray) -> None:
        if self._delay == 0:
            return
        rest = ~late
        rest[applied] = False
        remaining = np.flatnonzero(rest)
        self._delayed = rows.take(pa.array(remaining)).combine_chunks()
        self._delayed_numbers = numbers[remaining]

    def _report_late(self, numbers: Longs) -> None:
        self.late += len(numbers)
        self.late_numbers = numbers
        log.warning(
            "stream %r: %d late rows dropped, the first is number %d",
            self.schema.name,
            len(numbers),
            numbers[0],
        )

    def arrays(self) -> Arrays:
        live = self._live.values
        return {
            "numbers": np.array([self.next_number, self.late, self.store.first]),
            "clock": self._clock.copy(),
            "live": live.copy(),
            "times": self._times.values.copy(),
            "number": self._number[live],
            "rows": self.store.save(),
            "held": table_to_bytes(self._delayed),
            "held_numbers": self._delayed_numbers.copy(),
            **dict(with_prefix("slots", self._slots.arrays())),
            **self.texts.arrays(),
        }

    def restore(self, arrays: Arrays) -> None:
        self.next_number, self.late, first = (int(number) for number in arrays["numbers"])
        self._clock = arrays["clock"].astype(np.int64)
        self._slots.restore(with_prefix_stripped(arrays, "slots"))
        live = arrays["live"].astype(np.int32)
        self._live.append(live)
        self._times.append(arrays["times"])
        self.store.load(arrays["rows"], first)
        self._number = np.zeros(self._slots.top, np.int64)
        self._position = np.zeros(self._slots.top, np.int64)
        self._number[live] = arrays["number"]
        self._position[live] = np.arange(first, first + len(live))
        self._delayed = table_from_bytes(arrays["held"])
        self._delayed_numbers = arrays["held_numbers"].astype(np.int64)
        self.texts.restore(arrays)
