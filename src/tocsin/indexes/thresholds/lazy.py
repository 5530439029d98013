"""The lazy threshold index: a subscription is looked at only when it may have matured.

Between two looks, the weight of all events, and then that of the events near a group, bounds what
can have reached any of its members. As long as that is less than the nearest of them needs, events
are only logged. The boxes keep a bounded log of events and hold groups against it; in one dimension
the cells keep counters instead, and no event at all.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import MATURE, VALUE, ChangeSet, Floats, Ints, Longs
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.thresholds.lazy_boxes import Boxes
from tocsin.indexes.thresholds.lazy_cells import FEWEST, LONGEST_BATCH, Cells
from tocsin.indexes.thresholds.lazy_columns import (
    ABSORBED,
    BATCH,
    CLOCK,
    DUE,
    GROUP,
    IN_CELLS,
    LARGEST,
    LENGTH,
    LIMIT,
    NEVER,
    NOWHERE,
    READ,
    SILENT,
    SlotColumns,
    append_events,
)
from tocsin.indexes.thresholds.lazy_log import EventLog, Report
from tocsin.indexes.thresholds.lazy_members import Members
from tocsin.indexes.thresholds.scan import _unscaled

#: Events in the log of the boxes: at least, and at most.
SHORTEST_LOG = 1 << 14
LONGEST_LOG = 1 << 18
#: Single events that wait to be logged together.
MOST_WAITING = 1 << 12
NO_CHANGES = ChangeSet.empty()


class LazyThresholds:
    """Keeps `SUM(w) >= tau` over boxes of `dimensions` ranges, in whole multiples of 1 / `scale`.

    `register` takes `lo` and `hi`, float64 (n, dimensions), `tau`, int64 (n,), and `repeat`,
    bool (n,). A threshold matures at a row that it counts, so one of 0 or less matures at the first.
    After maturing, a repeating one starts again from 0 with the next row; another stays silent.
    """

    def __init__(self, dimensions: int, scale: int, capacity: int = 16) -> None:
        self._dimensions = dimensions
        self._scale = scale
        # Boxes of fewer than two dimensions are endless on the others, and events are at 0 there.
        self._axes = max(dimensions, 2)
        self._slots = SlotColumns(
            place=np.full(capacity, NOWHERE, np.int32),
            tau=np.zeros(capacity, np.int64),
            is_repeating=np.zeros(capacity, np.bool_),
        )
        self._log = EventLog(self._axes, capacity)
        self._boxes = Boxes(self._axes, capacity)
        self._cells: Cells | None = None
        self._report = Report(capacity)
        #: events that came alone and wait to be logged: coordinates and weights
        self._waiting: list[list[float]] = []
        self._waiting_weights: list[int] = []
        #: weight that may come before anyone is due
        self._spare = 0
        self._schedule()

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        if len(slots) == 0:
            return
        self._log_waiting()
        slots = np.ascontiguousarray(slots, np.int32)
        self._reserve(int(slots.max()) + 1)
        tau = np.asarray(values["tau"], np.int64)
        self._slots.tau[slots] = tau
        self._slots.is_repeating[slots] = values["repeat"]
        self._slots.place[slots] = NEVER
        low, high = np.full((self._axes, len(slots)), -np.inf), np.full((self._axes, len(slots)), np.inf)
        low[: self._dimensions] = np.asarray(values["lo"]).T
        high[: self._dimensions] = np.asarray(values["hi"]).T
        members = Members(slots, low, high, np.maximum(tau, 1))
        is_empty = ~(low <= high).all(axis=0)
        if is_empty.any():
            members = members.take(~is_empty)
        self._add(members)
        self._schedule()

    def terminate(self, slots: Ints) -> None:
        places = self._slots.place[slots]
        self._slots.place[slots] = NOWHERE
        self._boxes.remove(places[(places >= 0) & (places < IN_CELLS)])
        if self._cells is not None:
            self._cells.remove(places[places >= IN_CELLS] - IN_CELLS)
        if self._boxes.is_half_empty:
            self._log_waiting()
            self._end_batch()
            self._boxes.compact(self._slots, self._log.columns)
            self._schedule()
        if self._cells is not None and self._cells.is_half_empty:
            self._log_waiting()
            self._rebuild(None)
            self._schedule()

    def apply(self, values: Floats, weights: Longs) -> ChangeSet:
        if len(weights) == 1 and len(self._waiting) < MOST_WAITING:
            weight = int(weights[0])
            if weight <= 0:
                return NO_CHANGES
            if weight < self._spare:
                self._spare -= weight
                self._waiting.append(values[0].tolist())
                self._waiting_weights.append(weight)
                return NO_CHANGES
        self._log_waiting()
        self._report.rows.n_rows[0] = 0
        self._take(values, weights)
        return self._matured()

    def _log_waiting(self) -> None:
        if self._waiting:
            values = np.array(self._waiting, np.float64).reshape(len(self._waiting), self._dimensions)
            weights = np.array(self._waiting_weights, np.int64)
            self._waiting, self._waiting_weights = [], []
            self._take(values, weights)

    def _take(self, values: Floats, weights: Longs) -> None:
        values, weights = np.require(values, np.float64, "CW"), np.require(weights, np.int64, "CW")
        state = self._log.state
        length = int(state[LENGTH]) + len(weights)
        if length > self._log.capacity < self._wanted_log():
            self._log.grow(min(max(length, 2 * self._log.capacity), self._wanted_log()))
            self._schedule()
        state[READ] = 0
        state[BATCH] = state[LENGTH]
        if not self._append(values, weights):
            self._spare = int(state[DUE] - state[CLOCK])
            return
        while True:
            self._settle()
            if self._boxes.wants_fold(self._log.columns):
                self._clear_log()
                self._schedule()
            if state[READ] == len(weights):
                return
            self._make_room(int(weights[state[READ]]))
            self._append(values, weights)

    def _append(self, values: Floats, weights: Longs) -> bool:
        log = self._log.columns
        return append_events(values, weights, log.values, log.weights, log.steps, log.state)

    def _settle(self) -> None:
        log = self._log.columns
        if log.state[CLOCK] >= log.state[DUE]:
            if self._cells is not None:
                self._cells.settle(self._slots, log, self._report)
            if self._boxes.n_members:
                self._log.sort(int(log.state[BATCH]))
                self._boxes.settle(self._slots, log, self._report)
            self._schedule()

    def _make_room(self, weight: int) -> None:
        """The log is at its limit, or `weight` is too much for the clock."""
        state = self._log.state
        if state[LENGTH] == state[LIMIT]:
            if self._cells is not None:
                self._cells.absorb(self._log.columns)
            if state[LENGTH] < self._log.capacity and self._boxes.n_members:
                pass
            else:
                self._clear_log()
        if weight > LARGEST - state[CLOCK]:
            self._clear_log()
            state[CLOCK] = 0
            self._boxes.forget_log(self._log.columns)
            if self._cells is not None:
                self._cells.restart()
        self._schedule()

    def _wanted_log(self) -> int:
        return min(max(self._boxes.n_members, SHORTEST_LOG), LONGEST_LOG)

    def _clear_log(self) -> None:
        log = self._log.columns
        if self._cells is not None:
            self._cells.absorb(log)
        if self._boxes.n_members:
            self._end_batch()
            self._boxes.fold(self._slots, log)
        self._log.clear()
        self._boxes.forget_log(log)

    def _end_batch(self) -> None:
        """All events of the log have been settled: sort them."""
        self._log.state[BATCH] = self._log.state[LENGTH]
        self._log.sort(int(self._log.state[LENGTH]))

    def _schedule(self) -> None:
        """Set what the log must watch for: when someone is due, and how long it may grow."""
        state = self._log.state
        due, limit = self._boxes.due, self._log.capacity
        if self._cells is not None:
            if not self._boxes.n_members and state[ABSORBED] == state[LENGTH]:
                self._log.clear()
            due = min(due, self._cells.due)
            limit = min(limit, int(state[ABSORBED]) + LONGEST_BATCH)
        state[DUE], state[LIMIT] = due, limit
        self._spare = due - int(state[CLOCK])

    def _add(self, members: Members) -> None:
        boxes, log = self._boxes, self._log.columns
        n_new = boxes.n_members + len(members.slots)
        in_cells = self._cells.n_members if self._cells is not None else 0
        if (self._dimensions < 2 and n_new >= max(FEWEST, in_cells // 8)) or len(members.slots) > boxes.n_members or boxes.n_loose + len(members.slots) > max(n_new // 2, 8 * GROUP * 16):
            self._rebuild(members)
        else:
            boxes.add(members, self._slots, log)

    def _rebuild(self, members: Members | None) -> None:
        self._clear_log()
        everyone = self._boxes.members()
        if self._cells is not None:
            everyone = everyone.joined(self._cells.members())
        if members is not None:
            everyone = everyone.joined(members)
            everyone = everyone.take(everyone.order())
        self._boxes, self._cells = Boxes(self._axes, GROUP), None
        if self._dimensions < 2 and len(everyone.slots) >= FEWEST:
            self._cells = Cells(everyone, self._slots, int(self._log.state[CLOCK]))
        else:
            self._boxes.add(everyone, self._slots, self._log.columns)
            self._boxes.n_loose = 0
            self._boxes.forget_log(self._log.columns)

    def progress(self, slots: Ints) -> tuple[Longs, Longs]:
        self._log_waiting()
        place, tau = self._slots.place[slots], self._slots.tau[slots]
        reached = np.where(place == SILENT, tau, 0)
        in_boxes, in_cells = (place >= 0) & (place < IN_CELLS), place >= IN_CELLS
        goal = np.maximum(tau, 1)
        if in_boxes.any():
            need = self._boxes.missing(place[in_boxes], self._slots, self._log.columns)
            reached[in_boxes] = goal[in_boxes] - need
        if self._cells is not None and in_cells.any():
            self._cells.absorb(self._log.columns)
            reached[in_cells] = goal[in_cells] - self._cells.missing(place[in_cells] - IN_CELLS)
        self._schedule()
        return reached, np.maximum(tau, reached) - reached

    def result(self, slots: Ints) -> ChangeSet:
        steps, no_rows = np.zeros(len(slots), np.int32), np.full(len(slots), -1, np.int32)
        return self._changes(VALUE, slots.astype(np.int32), self.progress(slots)[0], steps, no_rows)

    def nbytes(self) -> int:
        parts = [self._slots, self._log.columns, self._boxes.columns, self._report.rows]
        if self._cells is not None:
            parts += [self._cells.cells, self._cells.ranges]
        return sum(column.nbytes for part in parts for column in part)

    def _matured(self) -> ChangeSet:
        rows = self._report.rows
        count = int(rows.n_rows[0])
        if count == 0:
            return NO_CHANGES
        slots, step = rows.subscription[:count], rows.step[:count]
        order = np.argsort((step.astype(np.int64) << 32) + slots)
        return self._changes(MATURE, slots[order], rows.reached[:count][order], step[order], step[order])

    def _changes(
        self, op: int, slots: Ints, reached: Longs | NDArray[np.uint64], step: Ints, row: Ints
    ) -> ChangeSet:
        count = len(slots)
        return ChangeSet(
            step=step,
            subscription=slots,
            op=np.full(count, op, np.int8),
            row=row,
            other=np.full(count, -1, np.int32),
            score=_unscaled(reached, self._scale),
            rank=np.zeros(count, np.int32),
        )

    def _reserve(self, top: int) -> None:
        self._slots = SlotColumns(
            grown(self._slots.place, top, NOWHERE), grown(self._slots.tau, top), grown(self._slots.is_repeating, top)
        )
