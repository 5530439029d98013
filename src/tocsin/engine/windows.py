"""Windowed streams: the last N rows, or the rows of the last while."""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa

from tocsin.engine.deltas import SourceDelta
from tocsin.engine.intake import arrow_schema
from tocsin.engine.rows import RowStore, table_from_bytes, table_to_bytes
from tocsin.engine.saving import below, prefixed
from tocsin.engine.text import text_of
from tocsin.engine.windows_kernels import order_rows
from tocsin.indexes.contract import ABSENT, Arrays, Ints, Longs
from tocsin.indexes.shared.columns import Queue, Slots, grown
from tocsin.language import SourceSchema

log = logging.getLogger(__name__)

#: Before any time has been seen.
NEVER = -(1 << 62)


class Window:
    """The rows of a window, oldest first. A row's born is its place in the store: order of application."""

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
        self._rows = rows
        self._length = length
        self._delay = delay
        self._slots = Slots()
        #: int32: slot of each live row, oldest first; agrees with `_times` and the store
        self._live = Queue(np.dtype(np.int32))
        #: int64: time of each live row; all 0 where the window has no time
        self._times = Queue(np.dtype(np.int64))
        #: int64 by slot: the row's number, and its place in the store
        self._number: Longs = np.empty(16, np.int64)
        self._position: Longs = np.empty(16, np.int64)
        #: int64 (2,): the newest time applied, and the newest seen
        self._clock: Longs = np.full(2, NEVER, np.int64)
        #: rows that wait for their delay to pass, and their numbers
        self._held = self.store.schema.empty_table()
        self._held_numbers: Longs = np.empty(0, np.int64)
        self._expired: Ints = np.empty(0, np.int32)
        #: numbers of the rows that the last batch dropped for being late
        self.late_numbers: Longs = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._live)

    def apply(self, rows: pa.Table, *, each: bool) -> SourceDelta:
        """Let rows arrive and others expire; what that did. `finish` must follow. Cost: linear in both."""
        numbers = np.arange(self.next_number, self.next_number + rows.num_rows, dtype=np.int64)
        self.late_numbers = np.empty(0, np.int64)
        self.next_number += rows.num_rows
        if self.time is None:
            return self._slide(rows, np.zeros(rows.num_rows, np.int64), numbers, each=each)
        n_held = self._held.num_rows
        if n_held:
            rows = pa.concat_tables([self._held, rows])
            numbers = np.concatenate([self._held_numbers, numbers])
        times = self._times_of(rows)
        applied = np.empty(len(times), np.int64)
        late = np.zeros(len(times), np.bool_)
        scratch = np.empty(len(times), np.int64)
        applied = applied[: order_rows(times, n_held, self._delay, self._clock, scratch, applied, late)]
        if late.any():
            self._report_late(numbers[late])
        self._hold(rows, numbers, applied, late)
        if len(applied) < rows.num_rows or not bool(np.all(applied[1:] > applied[:-1])):
            rows, times, numbers = rows.take(pa.array(applied)), times[applied], numbers[applied]
        return self._slide(rows, times, numbers, each=each)

    def advance(self, time: int) -> SourceDelta:
        """Time has moved on: apply what was held long enough, expire what is too old."""
        self._clock[1] = max(self._clock[1], time)
        until = self._clock[1] - self._delay
        times = self._times_of(self._held)
        order = np.lexsort((self._held_numbers, times))
        applied = order[times[order] <= until]
        rows, numbers = self._held.take(pa.array(applied)), self._held_numbers[applied]
        self._hold(self._held, self._held_numbers, applied, np.zeros(len(times), np.bool_))
        self._clock[0] = max(self._clock[0], until)
        return self._slide(rows, times[applied], numbers, each=False)

    def finish(self) -> None:
        """Forget what has expired."""
        self._slots.give_back(self._expired)
        self._expired = np.empty(0, np.int32)
        self.store.drop_before(self.store.next - len(self._live))

    def everything(self) -> SourceDelta:
        """All live rows as one step that inserts them, oldest first."""
        live = self._live.values.copy()
        absent = np.full(len(live), ABSENT, np.int64)
        position = self._position[live]
        seq = np.array([self.next_number - 1], np.int64)
        step = np.zeros(len(live), np.int32)
        return SourceDelta(self.store, seq, step, live, absent, position, absent, position)

    def rows(self) -> pa.Table:
        """All rows, and those that wait for their delay to pass. Cost: linear."""
        live = self.store.take(self._position[self._live.values])
        return pa.concat_tables([live, self._held])

    def key_text(self, rows: Ints) -> pa.Array:
        """The keys of row slots: their numbers, as text."""
        return text_of(pa.array(self._number[rows]))

    def positions(self, rows: Ints) -> Longs:
        """Where the rows are in the store."""
        return self._position[rows]

    def born(self, rows: Ints) -> Longs:
        """The rows' order of application."""
        return self._position[rows]

    def _slide(self, rows: pa.Table, times: Longs, numbers: Longs, *, each: bool) -> SourceDelta:
        """Append `rows` and expire; times are in order and none is older than what is there."""
        n_live = len(self._live)
        self._times.append(times)
        n_gone = self._n_expired(n_live + len(numbers))
        if each:
            n_unseen = 0
            seq = numbers
            step = np.concatenate(
                [np.arange(len(numbers)), self._arrival_that_expires(times, n_live, n_gone)]
            )
        else:
            # Rows that come and go within the batch are no part of its net effect.
            n_unseen = max(n_gone - n_live, 0)
            rows, numbers = rows.slice(n_unseen), numbers[n_unseen:]
            seq = np.array([self.next_number - 1], np.int64)
            step = np.zeros(len(numbers) + n_gone - n_unseen, np.int64)
        slots = self._place(rows, numbers)
        self._live.append(slots)
        gone = self._live.values[: n_gone - n_unseen].copy()
        self._live.drop(len(gone))
        self._times.drop(n_gone)
        self._expired = gone
        row = np.concatenate([slots, gone])
        before, after = self._position[row], self._position[row]
        before[: len(slots)] = ABSENT
        after[len(slots) :] = ABSENT
        order = np.argsort(step, kind="stable")
        before, after = before[order], after[order]
        return SourceDelta(
            self.store, seq, step[order].astype(np.int32), row[order], before, after, before, after
        )

    def _place(self, rows: pa.Table, numbers: Longs) -> Ints:
        slots = self._slots.take(len(numbers))
        self._number = grown(self._number, self._slots.top)
        self._position = grown(self._position, self._slots.top)
        first = self.store.append(rows)
        self._number[slots] = numbers
        self._position[slots] = np.arange(first, first + len(numbers), dtype=np.int64)
        return slots

    def _n_expired(self, n_rows: int) -> int:
        """How many of the oldest are out of the window, once all have arrived."""
        if self._rows is not None:
            return max(n_rows - self._rows, 0)
        return int(np.searchsorted(self._times.values, self._clock[0] - self._length, side="right"))

    def _arrival_that_expires(self, times: Longs, n_live: int, n_gone: int) -> Longs:
        """For each of the `n_gone` oldest: which of the arrivals puts it out of the window."""
        if self._rows is not None:
            return np.arange(n_gone, dtype=np.int64) + (self._rows - n_live)
        return np.searchsorted(times, self._times.values[:n_gone] + self._length, side="left")

    def _times_of(self, rows: pa.Table) -> Longs:
        assert self.time is not None
        column = rows.column(self.time).cast(pa.int64())
        return np.array(column.to_numpy(), np.int64)

    def _hold(self, rows: pa.Table, numbers: Longs, applied: Longs, late: np.ndarray) -> None:
        if self._delay == 0:
            return
        rest = ~late
        rest[applied] = False
        kept = np.flatnonzero(rest)
        self._held = rows.take(pa.array(kept)).combine_chunks()
        self._held_numbers = numbers[kept]

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
            "held": table_to_bytes(self._held),
            "held_numbers": self._held_numbers.copy(),
            **dict(prefixed("slots", self._slots.arrays())),
        }

    def restore(self, arrays: Arrays) -> None:
        self.next_number, self.late, first = (int(number) for number in arrays["numbers"])
        self._clock = arrays["clock"].astype(np.int64)
        self._slots.restore(below(arrays, "slots"))
        live = arrays["live"].astype(np.int32)
        self._live.append(live)
        self._times.append(arrays["times"])
        self.store.load(arrays["rows"], first)
        self._number = np.zeros(self._slots.top, np.int64)
        self._position = np.zeros(self._slots.top, np.int64)
        self._number[live] = arrays["number"]
        self._position[live] = np.arange(first, first + len(live))
        self._held = table_from_bytes(arrays["held"])
        self._held_numbers = arrays["held_numbers"].astype(np.int64)
