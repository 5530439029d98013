"""Deferred thresholds: a subscription is evaluated only when it may have matured.

Between two evaluations, the weight of all events, and then that of the events near a group, is an upper
bound of what any of its members gained. While that is less than the least that one of them is missing,
events are only counted or logged. Members catch up in one of two structures: *box groups*, in any number
of dimensions, are compared with a bounded log; *histogram cells*, in one dimension, count events between
the members' bounds and store none. Cells are built for many members at once, so later registrations go to
the box groups until rebuilding the cells pays.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import kernel_ready
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Bools, Floats, Ints, Longs
from tocsin.indexes.thresholds.deferred.batches import (
    MAX_BUFFERED_BATCH,
    EventLog,
    IngestBuffer,
    ThresholdBatch,
)
from tocsin.indexes.thresholds.deferred.boxes import BoxGroups
from tocsin.indexes.thresholds.deferred.cells import CountedEvents, HistogramCells
from tocsin.indexes.thresholds.deferred.common_kernels import (
    append_events,
    are_set,
    clear_bits,
    clear_matured_places,
    release_places,
    set_bits,
    weigh_countable,
)
from tocsin.indexes.thresholds.deferred.layout import (
    BATCH,
    BUFFERED,
    CLOCK,
    DUE,
    EMPTY_BOX,
    GROUP,
    IN_CELLS,
    LENGTH,
    MATURED,
    NO_PLACE,
    PLACE_LIMIT,
    READ,
    SlotColumns,
)
from tocsin.indexes.thresholds.layout import LARGEST
from tocsin.indexes.thresholds.reports import MaturityReport, matured_changes, value_changes
from tocsin.kernels.sort import order_of

#: Bounds of the log's capacity, in events.
MIN_LOG_CAPACITY = 1 << 14
MAX_LOG_CAPACITY = 3 << 18
#: Members from which cells are built, and unsorted members in box groups before those are sorted.
MIN_CELL_MEMBERS = 1 << 12
MAX_UNSORTED_MEMBERS = 1 << 14
#: Members are counted again when few may be left, but not before one slot in this many was terminated.
RECOUNT_FRACTION = 64
#: Cells are rebuilt once they have at most this many times the members of the box groups.
REBUILD_RATIO = 8

NO_CHANGES = ChangeSet.empty()
FLOAT, LONG, INT = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.int32)


class DeferredThresholds:
    """Maintains `SUM(w) >= tau` over boxes of `dimensions` ranges, in whole multiples of 1 / `scale`.

    `register` takes `lo` and `hi`, float64 (n, dimensions), `tau`, int64 (n,), and `repeat`,
    bool (n,). A threshold matures at a row that it counts, so one of 0 or less matures at the first.
    After maturing, a repeating one starts again from 0 with the next row; others never fire again.
    """

    def __init__(self, dimensions: int, scale: int, capacity: int = 16) -> None:
        self._dimensions = dimensions
        self._scale = scale
        # With fewer than two dimensions, boxes are unbounded on the other axes, and events are at 0 there.
        self._axes = max(dimensions, 2)
        self._slots = empty(SlotColumns, slots=capacity, bytes=capacity // 8 + 1)
        #: one more than the largest slot ever used
        self._top = 0
        #: terminated subscriptions that are still counted as members
        self._n_terminated = 0
        self._log = EventLog(self._axes, capacity)
        self._boxes = BoxGroups(self._axes, capacity)
        self._cells: HistogramCells | None = None
        self._report = MaturityReport(capacity)
        #: events and subscriptions that arrived in small numbers
        self._buffer = IngestBuffer()
        #: 0, 1, 2 …: the steps of a batch
        self._steps = np.arange(capacity, dtype=np.int32)
        #: weight that may arrive before any member is due, buffered ones included
        self._slack = 0
        self._schedule()

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions; they count from the next event on.

        Cost: for many, n log n; for one, evaluating one group and an occasional rebuild, amortised
        microseconds.
        """
        if len(slots) == 0:
            return
        if len(slots) == 1 and not self._buffer.is_full:
            self._buffer_member(int(slots[0]), values)
            return
        slots = slots.astype(np.int32)
        self._reserve(int(slots.max()) + 1)
        tau = values["tau"].astype(np.int64)
        self._flush_buffer()
        self._fill_slots(slots, tau, values["repeat"])
        members = self._members(slots, values["lo"], values["hi"], np.maximum(tau, 1))
        holds_any = np.flatnonzero((members.low <= members.high).all(axis=0))
        self._add(members if len(holds_any) == len(slots) else members.take(holds_any))
        self._schedule()

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their number, and a rebuild once most members are gone."""
        if len(slots) == 0:
            return
        slots = kernel_ready(slots, INT)
        if self._buffer and (self._slots.place[slots] == BUFFERED).any():
            self._flush_buffer()
        self._n_terminated += clear_bits(self._slots.is_there, slots)
        if self._may_be_sparse:
            # Subscriptions that had matured for good were not members any more.
            self._n_terminated -= clear_matured_places(self._slots.place, slots)
            if self._may_be_sparse:
                self._drop_terminated()
                self._reclaim()

    def apply(self, values: Floats, weights: Longs) -> ChangeSet:
        """Count a batch of events, values (events, dimensions); report maturities, each at its event.

        Cost: amortised nanoseconds an event, and up to a microsecond for each maturity.
        """
        if len(weights) <= MAX_BUFFERED_BATCH and self._try_buffer_events(values, weights):
            return NO_CHANGES
        self._flush_buffer()
        self._report.rows.n_rows[0] = 0
        self._count(values, weights)
        return self._matured()

    def result(self, slots: Ints) -> ChangeSet:
        """The weight counted so far, as VALUE. Cost: as `progress`."""
        return value_changes(slots, self.progress(slots)[0], self._scale)

    def progress(self, slots: Ints) -> tuple[Longs, Longs]:
        """Scaled weight reached, and missing to tau. Weight beyond int64 is shown as the largest int64.

        Cost: evaluating the group of each.
        """
        self._flush_buffer()
        place, tau = self._slots.place[slots], self._slots.tau[slots]
        reached = np.where(place == MATURED, tau, 0)
        goal = np.maximum(tau, 1)
        in_boxes, in_cells = (place >= 0) & (place < IN_CELLS), place >= IN_CELLS
        if in_boxes.any():
            need = self._boxes.missing(place[in_boxes], self._slots, self._log.columns)
            reached[in_boxes] = goal[in_boxes] - need
        if self._cells is not None and in_cells.any():
            reached[in_cells] = goal[in_cells] - self._cells.missing(place[in_cells] - IN_CELLS)
        self._schedule()
        return reached, np.maximum(tau, reached) - reached

    def arrays(self) -> Arrays:
        """The state of each slot, in the format of the scan. Cost: all members are compared with the log."""
        self._flush_buffer()
        self._drop_terminated()
        self._clear_log()
        self._schedule()
        columns, every_slot = self._slots, np.arange(self._top, dtype=np.int32)
        place, tau = columns.place[: self._top], columns.tau[: self._top]
        is_there, is_repeating = (
            are_set(bits, every_slot) for bits in (columns.is_there, columns.is_repeating)
        )
        members = self._boxes.members(self._slots)
        if self._cells is not None:
            members = members.joined(self._cells.members(self._slots))
        low, high = np.full((self._axes, self._top), np.inf), np.full((self._axes, self._top), -np.inf)
        # Adding 0 turns -0 into 0: the structures store zeros differently.
        low[:, members.slots] = members.low + 0.0
        high[:, members.slots] = members.high + 0.0
        reached = np.where(place == MATURED, tau, 0)
        reached[members.slots] = np.maximum(tau[members.slots], 1) - members.need
        shown = max(self._dimensions, 1)
        return {
            "low": low[:shown].copy(),
            "high": high[:shown].copy(),
            "tau": np.where(is_there, tau, 1),
            "reached": reached,
            "is_repeating": is_there & is_repeating,
            "is_there": is_there,
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned, of this index or of a scan. Cost: n log n."""
        is_there, low, high = arrays["is_there"], arrays["low"], arrays["high"]
        tau, reached = arrays["tau"].astype(np.int64), arrays["reached"].astype(np.int64)
        self._reserve(len(is_there))
        is_counting = is_there & (low <= high).all(axis=0)
        # Only matured subscriptions have an empty box and a weight.
        is_matured = is_there & ~is_counting & (reached > 0)
        set_bits(self._slots.is_there, np.flatnonzero(is_there).astype(np.int32))
        set_bits(self._slots.is_repeating, np.flatnonzero(arrays["is_repeating"]).astype(np.int32))
        self._slots.place[: self._top] = np.where(
            is_matured, MATURED, np.where(is_there, EMPTY_BOX, NO_PLACE)
        )
        self._slots.tau[: self._top] = np.where(is_matured, reached, tau)
        slots = np.flatnonzero(is_counting).astype(np.int32)
        low, high = (bound[: self._dimensions, slots].T for bound in (low, high))
        self._add(self._members(slots, low, high, np.maximum(tau[slots], 1) - reached[slots]))
        self._schedule()

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self._drop_terminated()
        log = self._log.columns
        check_layout(log)
        check_layout(self._slots)
        self._boxes.check_invariants(self._slots, log)
        if self._cells is not None:
            self._cells.check_invariants(self._slots)
        assert log.state[CLOCK] < log.state[DUE]
        assert self._slack > 0
        assert 0 <= log.state[BATCH] <= log.state[LENGTH] <= self._log.capacity
        assert (log.weights[: log.state[LENGTH]] > 0).all()

    def explain(self) -> str:
        """One line: how it works. Cost: linear, a nanosecond each."""
        self._drop_terminated()
        in_cells = 0 if self._cells is None else self._cells.n_members
        return (
            f"{in_cells} ranges over counters, {self._boxes.n_members} boxes over a log, "
            f"of {self._dimensions} dimensions; a group is evaluated once enough weight fell near it, "
            f"weights in multiples of 1/{self._scale}"
        )

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with; `tau` as it is scaled. Cost: constant.

        An empty box, as of one that matured for good, is shown as inf to -inf.
        """
        self._flush_buffer()
        place = self._slots.place[slot : slot + 1]
        low, high = np.full((self._axes, 1), np.inf), np.full((self._axes, 1), -np.inf)
        if place >= IN_CELLS and self._cells is not None:
            low, high = self._cells.bounds(place - IN_CELLS)
        elif place >= 0:
            low, high = self._boxes.bounds(place)
        shown: dict[str, object] = {}
        if self._dimensions:
            shown |= {"lo": low[: self._dimensions, 0].tolist(), "hi": high[: self._dimensions, 0].tolist()}
        return shown | {
            "tau": int(self._slots.tau[slot]) / self._scale,
            "repeat": bool(are_set(self._slots.is_repeating, np.array([slot]))[0]),
        }

    @property
    def nbytes(self) -> int:
        """Size of all columns."""
        parts: list[tuple[np.ndarray, ...]] = [self._slots, self._log.columns, self._boxes.columns]
        if self._cells is not None:
            parts += [self._cells.cells, self._cells.ranges]
        return sum(column.nbytes for part in parts for column in part)

    def _count(self, values: Floats, weights: Longs) -> None:
        """Log a batch, and report into `_report` whenever members may have matured."""
        values, weights = kernel_ready(values, FLOAT), kernel_ready(weights, LONG)
        state = self._log.state
        if self._boxes.n_members or not self._count_unlogged(values, weights):
            self._log.ensure_capacity(len(weights), self._longest_log())
            state[READ] = 0
            state[BATCH] = state[LENGTH]
            while self._log_events(values, weights):
                if state[READ] < len(weights):
                    self._resume_log(int(weights[state[READ]]))
        self._slack = int(state[DUE] - state[CLOCK])

    def _count_unlogged(self, values: Floats, weights: Longs) -> bool:
        """Count a batch without logging it; False, and nothing is counted, if it must be logged."""
        state, count = self._log.state, len(weights)
        where = values.ravel() if self._dimensions else np.zeros(count)
        if count > len(self._steps):
            self._steps = np.arange(2 * count, dtype=np.int32)
        events, clock = CountedEvents(where, weights, self._steps[:count]), int(state[CLOCK])
        if self._cells is None:
            weight = weigh_countable(where, weights, LARGEST - clock)
        else:
            weight = self._cells.count_countable(events, clock)
        if weight >= 0:
            state[CLOCK] = clock + weight
            self._report_due(events)
        return weight >= 0

    def _log_events(self, values: Floats, weights: Longs) -> bool:
        """Log the events that fit, and report maturities; whether events are left."""
        log = self._log.columns
        logged = slice(int(log.state[LENGTH]), None)
        append_events(values, weights, log.values, log.weights, log.steps, log.state)
        logged = slice(logged.start, int(log.state[LENGTH]))
        events = CountedEvents(log.values[0, logged], log.weights[logged], log.steps[logged])
        if self._cells is not None:
            self._cells.count(events, int(log.state[CLOCK]))
        self._report_due(events)
        return bool(log.state[READ] < len(weights))

    def _report_due(self, events: CountedEvents) -> None:
        """Report the members that matured at these counted events, if any may have."""
        log = self._log.columns
        if log.state[CLOCK] < log.state[DUE]:
            return
        if self._cells is not None:
            self._cells.report_matured(self._slots, int(log.state[CLOCK]), events, self._report)
        if self._boxes.n_members:
            self._boxes.report_matured(self._slots, self._log, self._report)
            if self._boxes.should_fold(log):
                self._clear_log()
        if log.state[CLOCK] == LARGEST:
            self._restart_clock()
        self._schedule()

    def _try_buffer_events(self, values: Floats, weights: Longs) -> bool:
        """Buffer a few events, if no member can mature at them. Cost: up to a microsecond."""
        if len(weights) == 1:
            weight = weights.item()
            if weight <= 0:
                return True
        else:
            weight = weigh_countable(
                kernel_ready(values, FLOAT).ravel(), kernel_ready(weights, LONG), self._slack
            )
        if 0 <= weight < self._slack and self._buffer.add_events(values, weights):
            self._slack -= weight
            return True
        return False

    def _buffer_member(self, slot: int, values: Mapping[str, np.ndarray]) -> None:
        """Buffer a single registration. Cost: a few microseconds."""
        if slot >= self._top:
            self._reserve(slot + 1)
        tau = int(values["tau"][0])
        self._fill_slots(np.array([slot], np.int32), values["tau"], values["repeat"])
        low, high = values["lo"][0].tolist(), values["hi"][0].tolist()
        if all(first <= last for first, last in zip(low, high, strict=True)):
            need = max(tau, 1)
            self._slots.place[slot] = BUFFERED
            self._slack = min(self._slack, need)
            self._buffer.add_member(slot, low, high, need)

    def _fill_slots(self, slots: Ints, tau: Longs, repeat: Bools) -> None:
        """Fill slots that have no place yet. Cost: linear."""
        columns = self._slots
        if self._cells is not None:
            self._cells.vacate(columns.place[slots])
        columns.tau[slots] = tau
        columns.place[slots] = EMPTY_BOX
        set_bits(columns.is_there, slots)
        clear_bits(columns.is_repeating, slots)
        set_bits(columns.is_repeating, slots[repeat])

    def _flush_buffer(self) -> None:
        """Process the ingest buffer. No member is due yet."""
        if self._buffer:
            values, weights, members = self._buffer.arrays(self._dimensions, self._axes)
            self._buffer = IngestBuffer()
            self._count(values, weights)
            if len(members.slots):
                self._add(members)
            self._schedule()

    def _resume_log(self, weight: int) -> None:
        """All due members were reported: make the log and the clock fit an event of this weight."""
        state = self._log.state
        if state[LENGTH] == self._log.capacity or not self._boxes.n_members:
            self._clear_log()
        if weight > LARGEST - state[CLOCK]:
            self._restart_clock()
        self._schedule()

    def _restart_clock(self) -> None:
        """Start the clock at 0 again, before sums of weights overflow int64."""
        self._clear_log()
        self._log.state[CLOCK] = 0
        self._boxes.reset_after_fold(self._slots, self._log.columns)
        if self._cells is not None:
            self._cells.restart(self._slots)

    def _clear_log(self) -> None:
        """Compare all members with the log, and empty it. Cost: n log n in members and events."""
        log = self._log.columns
        if self._boxes.n_members:
            log.state[BATCH] = log.state[LENGTH]
            self._boxes.fold(self._slots, self._log)
        self._log.clear()
        if self._boxes.n_members:
            self._boxes.reset_after_fold(self._slots, log)

    def _longest_log(self) -> int:
        return min(max(self._boxes.n_groups * GROUP, MIN_LOG_CAPACITY), MAX_LOG_CAPACITY)

    def _schedule(self) -> None:
        """Set the clock at which the next member may be due."""
        state = self._log.state
        if not self._boxes.n_members and self._boxes.n_groups:
            self._boxes = BoxGroups(self._axes, 0)
            self._log.clear()
        due = self._boxes.due if self._cells is None else min(self._boxes.due, self._cells.due)
        state[DUE] = due
        self._slack = due - int(state[CLOCK])

    def _members(self, slots: Ints, lo: Floats, hi: Floats, need: Longs) -> ThresholdBatch:
        """Members with these bounds, (n, dimensions), unbounded on the remaining axes."""
        low, high = np.full((self._axes, len(slots)), -np.inf), np.full((self._axes, len(slots)), np.inf)
        low[: self._dimensions], high[: self._dimensions] = lo.T, hi.T
        return ThresholdBatch(slots, low, high, need)

    def _add(self, members: ThresholdBatch) -> None:
        """Add members to the box groups, or rebuild everything where that pays."""
        boxes, count = self._boxes, len(members.slots)
        in_boxes = boxes.n_members + count
        in_cells = 0 if self._cells is None else self._cells.n_members
        if self._dimensions < 2 and (in_cells or in_boxes >= MIN_CELL_MEMBERS):
            is_worth_it = in_boxes >= max(MIN_CELL_MEMBERS, in_cells // REBUILD_RATIO)
        else:
            is_worth_it = count > boxes.n_members or boxes.n_unsorted > max(
                in_boxes // 2, MAX_UNSORTED_MEMBERS
            )
        if is_worth_it:
            self._rebuild(members)
        else:
            boxes.add(members, self._slots, self._log.columns)

    @property
    def _may_be_sparse(self) -> bool:
        """Whether enough were terminated that members should be counted again."""
        if self._n_terminated <= self._top // RECOUNT_FRACTION:
            return False
        if self._cells is None:
            return self._n_terminated > self._boxes.n_members // 2
        return self._boxes.is_sparse(self._n_terminated) or self._cells.is_sparse(self._n_terminated)

    def _drop_terminated(self) -> None:
        """Count members again, without the terminated ones. Cost: linear in all slots."""
        if self._n_terminated:
            self._n_terminated = 0
            n_boxes, n_cells = release_places(self._slots, IN_CELLS)
            self._boxes.n_members = n_boxes
            if self._cells is not None:
                self._cells.n_members = n_cells

    def _reclaim(self) -> None:
        """Release places when most of them are free."""
        if self._boxes.is_sparse(0):
            self._flush_buffer()
            self._clear_log()
            members = self._boxes.members(self._slots)
            self._boxes = BoxGroups(self._axes, 0)
            self._boxes.fill(members, self._slots, self._log.columns)
            self._schedule()
        if self._cells is not None and self._cells.is_sparse(0):
            self._flush_buffer()
            if self._cells.has_stale_edges:
                self._rebuild(None)
            else:
                self._cells.compact(self._slots, int(self._log.state[CLOCK]))
            self._schedule()

    def _rebuild(self, added: ThresholdBatch | None) -> None:
        """Rebuild one structure from all members and the added ones. Cost: n log n."""
        self._drop_terminated()
        release_places(self._slots, PLACE_LIMIT)
        self._clear_log()
        members = self._boxes.members(self._slots)
        if self._cells is not None:
            members = members.joined(self._cells.members(self._slots))
        if added is not None:
            members = members.joined(added)
        is_for_cells = self._dimensions < 2 and len(members.slots) >= MIN_CELL_MEMBERS
        if added is not None:
            members = members.take(members.order(), 1 if is_for_cells else None)
        self._boxes, self._cells = BoxGroups(self._axes, 0), None
        if is_for_cells:
            self._cells = HistogramCells(members, self._slots, int(self._log.state[CLOCK]))
        else:
            self._boxes.fill(members, self._slots, self._log.columns)

    def _matured(self) -> ChangeSet:
        rows = self._report.rows
        count = int(rows.n_rows[0])
        if count == 0:
            return NO_CHANGES
        slots, step = rows.subscription[:count], rows.step[:count]
        order = _by_step(step, slots)
        step = step[order]
        return matured_changes(slots[order], rows.reached[:count][order], step, self._scale)

    def _reserve(self, top: int) -> None:
        self._top = max(self._top, top)
        have = len(self._slots.place)
        if top > have:
            slots = max(top, 2 * have)
            self._slots = grow(self._slots, slots=slots, bytes=slots // 8 + 1)


def _by_step(steps: Ints, slots: Ints) -> Ints:
    """The order by step, then by slot. Cost: linear."""
    slot_bits = int(slots.max()).bit_length()
    keys = (steps.astype(np.uint64) << np.uint64(slot_bits)) | slots.astype(np.uint64)
    return order_of(keys, slot_bits + int(steps.max()).bit_length())
