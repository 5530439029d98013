"""The lazy threshold index: a subscription is looked at only when it may have matured.

Between two looks, the weight of all events, and then that of the events near a group, bounds what
can have reached any of its members. As long as that is less than the nearest of them needs, events
are only counted or logged. There are two ways to catch up: the *boxes* hold whole groups against a
bounded log, in any number of dimensions; the *cells*, in one dimension, count events between the
bounds and keep none of them. Cells are built for many at once, so what is registered later goes to
the boxes until it is worth building them anew.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import Arrays, Bools, ChangeSet, Floats, Ints, Longs
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.orders import order_of
from tocsin.indexes.thresholds.answers import matured_changes, value_changes
from tocsin.indexes.thresholds.lazy_boxes import Boxes
from tocsin.indexes.thresholds.lazy_cells import Cells, Events
from tocsin.indexes.thresholds.lazy_columns import (
    ANYWHERE,
    BATCH,
    CLOCK,
    DUE,
    GROUP,
    IN_CELLS,
    LARGEST,
    LENGTH,
    NEVER,
    NOWHERE,
    READ,
    SILENT,
    WAITING,
    SlotColumns,
    append_events,
    are_set,
    clear_bits,
    forget_silent,
    leave_places,
    set_bits,
    weigh_plain,
)
from tocsin.indexes.thresholds.lazy_log import EventLog, Report
from tocsin.indexes.thresholds.lazy_members import Members
from tocsin.indexes.thresholds.lazy_waiting import MOST_TOGETHER, Waiting

#: Events in the log: at least, and at most.
SHORTEST_LOG = 1 << 14
LONGEST_LOG = 3 << 18
#: Members from which on cells are built, and members that may be in loose boxes before they are sorted.
FEWEST_IN_CELLS = 1 << 12
MOST_LOOSE = 1 << 14
#: Members are counted anew when few may be left, but not before one slot in so many has been.
LEFT = 64
#: With so many times as many members in the cells, new ones wait in the boxes.
CELLS_TO_BOXES = 8

NO_CHANGES = ChangeSet.empty()
FLOAT, LONG, INT = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.int32)


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
            is_there=np.zeros(capacity // 8 + 1, np.uint8),
            place=np.full(capacity, NOWHERE, np.int32),
            tau=np.zeros(capacity, np.int64),
            is_repeating=np.zeros(capacity // 8 + 1, np.uint8),
        )
        #: one more than the largest slot ever there
        self._top = 0
        #: who was terminated but is still counted as a member
        self._n_left = 0
        self._log = EventLog(self._axes, capacity)
        self._boxes = Boxes(self._axes, capacity)
        self._cells: Cells | None = None
        self._report = Report(capacity)
        #: what came one by one, or few at a time
        self._waiting = Waiting()
        #: 0, 1, 2 and so on: the steps of a batch
        self._steps = np.arange(capacity, dtype=np.int32)
        #: weight that may come before anyone is due, waiting or not
        self._spare = 0
        self._schedule()

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions; they count from the next event on.

        Cost: for many, n log n; for one, a look at one group, and now and then a rebuild, which comes
        to microseconds each.
        """
        if len(slots) == 0:
            return
        if len(slots) == 1 and not self._waiting.is_full_of_members:
            self._let_wait(int(slots[0]), values)
            return
        slots = slots.astype(np.int32)
        self._reserve(int(slots.max()) + 1)
        tau = values["tau"].astype(np.int64)
        self._take_waiting()
        self._enter(slots, tau, values["repeat"])
        members = self._members(slots, values["lo"], values["hi"], np.maximum(tau, 1))
        holds_any = np.flatnonzero((members.low <= members.high).all(axis=0))
        self._add(members if len(holds_any) == len(slots) else members.take(holds_any))
        self._schedule()

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their number, and a rebuild when most of all are gone."""
        if len(slots) == 0:
            return
        slots = _settled(slots, INT)
        if self._waiting and (self._slots.place[slots] == WAITING).any():
            self._take_waiting()
        self._n_left += clear_bits(self._slots.is_there, slots)
        if self._may_be_sparse:
            # Who had matured for good was no member any more.
            self._n_left -= forget_silent(self._slots.place, slots)
            if self._may_be_sparse:
                self._forget_gone()
                self._reclaim()

    def apply(self, values: Floats, weights: Longs) -> ChangeSet:
        """Count a batch of events, values (events, dimensions): who matures, and at which event.

        Cost: amortised nanoseconds an event, and a microsecond or less for whoever matures.
        """
        if len(weights) <= MOST_TOGETHER and self._may_wait(values, weights):
            return NO_CHANGES
        self._take_waiting()
        self._report.rows.n_rows[0] = 0
        self._count(values, weights)
        return self._matured()

    def result(self, slots: Ints) -> ChangeSet:
        """The weight counted so far, as VALUE. Cost: as `progress`."""
        return value_changes(slots, self.progress(slots)[0], self._scale)

    def progress(self, slots: Ints) -> tuple[Longs, Longs]:
        """Scaled weight reached, and missing to tau. What was reached beyond int64 shows as the largest.

        Cost: a look at the group of each.
        """
        self._take_waiting()
        place, tau = self._slots.place[slots], self._slots.tau[slots]
        reached = np.where(place == SILENT, tau, 0)
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
        """What each slot holds, as the scan keeps it. Cost: everyone is held against the log."""
        self._take_waiting()
        self._forget_gone()
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
        # To add 0 makes -0 a 0: how a zero is kept differs between the parts.
        low[:, members.slots] = members.low + 0.0
        high[:, members.slots] = members.high + 0.0
        reached = np.where(place == SILENT, tau, 0)
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
        """Become what `arrays` was taken from, here or of a scan. Cost: n log n."""
        is_there, low, high = arrays["is_there"], arrays["low"], arrays["high"]
        tau, reached = arrays["tau"].astype(np.int64), arrays["reached"].astype(np.int64)
        self._reserve(len(is_there))
        is_counting = is_there & (low <= high).all(axis=0)
        # Only who has matured has an empty box and some weight.
        is_silent = is_there & ~is_counting & (reached > 0)
        set_bits(self._slots.is_there, np.flatnonzero(is_there).astype(np.int32))
        set_bits(self._slots.is_repeating, np.flatnonzero(arrays["is_repeating"]).astype(np.int32))
        self._slots.place[: self._top] = np.where(is_silent, SILENT, np.where(is_there, NEVER, NOWHERE))
        self._slots.tau[: self._top] = np.where(is_silent, reached, tau)
        slots = np.flatnonzero(is_counting).astype(np.int32)
        low, high = (bound[: self._dimensions, slots].T for bound in (low, high))
        self._add(self._members(slots, low, high, np.maximum(tau[slots], 1) - reached[slots]))
        self._schedule()

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self._forget_gone()
        log = self._log.columns
        self._boxes.check_invariants(self._slots, log)
        if self._cells is not None:
            self._cells.check_invariants(self._slots)
        assert log.state[CLOCK] < log.state[DUE]
        assert self._spare > 0
        assert 0 <= log.state[BATCH] <= log.state[LENGTH] <= self._log.capacity
        assert (log.weights[: log.state[LENGTH]] > 0).all()

    def explain(self) -> str:
        """One line: which index this is and how it works. Cost: linear, a nanosecond each."""
        self._forget_gone()
        in_cells = 0 if self._cells is None else self._cells.n_members
        return (
            f"thresholds: lazy, {in_cells} ranges over counters, {self._boxes.n_members} boxes over a log, "
            f"of {self._dimensions} dimensions; a group is looked at when enough weight came near it, "
            f"weights in multiples of 1/{self._scale}"
        )

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with; `tau` as it is scaled. Cost: constant.

        An empty box, as that of one that matured for good, shows from inf to -inf.
        """
        self._take_waiting()
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
        """Log a batch, and report into `_report` whenever someone may have matured."""
        values, weights = _settled(values, FLOAT), _settled(weights, LONG)
        state = self._log.state
        if self._boxes.n_members or not self._count_plain(values, weights):
            self._log.make_room(len(weights), self._longest_log())
            state[READ] = 0
            state[BATCH] = state[LENGTH]
            while self._log_events(values, weights):
                if state[READ] < len(weights):
                    self._go_on(int(weights[state[READ]]))
        self._spare = int(state[DUE] - state[CLOCK])

    def _count_plain(self, values: Floats, weights: Longs) -> bool:
        """Count a batch that need not be logged, unless some event does not count or weighs too much."""
        state, count = self._log.state, len(weights)
        where = values.ravel() if self._dimensions else np.zeros(count)
        if count > len(self._steps):
            self._steps = np.arange(2 * count, dtype=np.int32)
        events, clock = Events(where, weights, self._steps[:count]), int(state[CLOCK])
        if self._cells is None:
            weight = weigh_plain(where, weights, LARGEST - clock)
        else:
            weight = self._cells.count_plain(events, clock)
        if weight >= 0:
            state[CLOCK] = clock + weight
            self._settle(events)
        return weight >= 0

    def _log_events(self, values: Floats, weights: Longs) -> bool:
        """Log what there is room for, and settle; whether something is left."""
        log = self._log.columns
        logged = slice(int(log.state[LENGTH]), None)
        append_events(values, weights, log.values, log.weights, log.steps, log.state)
        logged = slice(logged.start, int(log.state[LENGTH]))
        events = Events(log.values[0, logged], log.weights[logged], log.steps[logged])
        if self._cells is not None:
            self._cells.count(events, int(log.state[CLOCK]))
        self._settle(events)
        return bool(log.state[READ] < len(weights))

    def _settle(self, events: Events) -> None:
        """If someone may have matured at these events, which are counted, report who has."""
        log = self._log.columns
        if log.state[CLOCK] < log.state[DUE]:
            return
        if self._cells is not None:
            self._cells.settle(self._slots, int(log.state[CLOCK]), events, self._report)
        if self._boxes.n_members:
            self._boxes.settle(self._slots, self._log, self._report)
            if self._boxes.wants_fold(log):
                self._clear_log()
        if log.state[CLOCK] == LARGEST:
            self._restart_clock()
        self._schedule()

    def _may_wait(self, values: Floats, weights: Longs) -> bool:
        """Put off a few events, if nobody can mature at them. Cost: a microsecond or less."""
        if len(weights) == 1:
            weight = weights.item()
            if weight <= 0:
                return True
        else:
            weight = weigh_plain(_settled(values, FLOAT).ravel(), _settled(weights, LONG), self._spare)
        if 0 <= weight < self._spare and self._waiting.add_events(values, weights):
            self._spare -= weight
            return True
        return False

    def _let_wait(self, slot: int, values: Mapping[str, np.ndarray]) -> None:
        """Put off a subscription that came alone. Cost: a few microseconds."""
        if slot >= self._top:
            self._reserve(slot + 1)
        tau = int(values["tau"][0])
        self._enter(np.array([slot], np.int32), values["tau"], values["repeat"])
        low, high = values["lo"][0].tolist(), values["hi"][0].tolist()
        if all(first <= last for first, last in zip(low, high, strict=True)):
            need = max(tau, 1)
            self._slots.place[slot] = WAITING
            self._spare = min(self._spare, need)
            self._waiting.add_member(slot, low, high, need)

    def _enter(self, slots: Ints, tau: Longs, repeat: Bools) -> None:
        """Fill slots, which are not counted anywhere yet. Cost: linear."""
        columns = self._slots
        if self._cells is not None:
            self._cells.vacate(columns.place[slots])
        columns.tau[slots] = tau
        columns.place[slots] = NEVER
        set_bits(columns.is_there, slots)
        clear_bits(columns.is_repeating, slots)
        set_bits(columns.is_repeating, slots[repeat])

    def _take_waiting(self) -> None:
        """Take in what came one by one. Nobody is due yet."""
        if self._waiting:
            values, weights, members = self._waiting.arrays(self._dimensions, self._axes)
            self._waiting = Waiting()
            self._count(values, weights)
            if len(members.slots):
                self._add(members)
            self._schedule()

    def _go_on(self, weight: int) -> None:
        """Everyone due has been settled: make room for an event of this weight."""
        state = self._log.state
        if state[LENGTH] == self._log.capacity or not self._boxes.n_members:
            self._clear_log()
        if weight > LARGEST - state[CLOCK]:
            self._restart_clock()
        self._schedule()

    def _restart_clock(self) -> None:
        """Count from 0 again, before sums of weights pass an int64."""
        self._clear_log()
        self._log.state[CLOCK] = 0
        self._boxes.forget_log(self._slots, self._log.columns)
        if self._cells is not None:
            self._cells.restart(self._slots)

    def _clear_log(self) -> None:
        """Hold everyone against the log, and empty it. Cost: linear in members and events, and log n."""
        log = self._log.columns
        if self._boxes.n_members:
            log.state[BATCH] = log.state[LENGTH]
            self._boxes.fold(self._slots, self._log)
        self._log.clear()
        if self._boxes.n_members:
            self._boxes.forget_log(self._slots, log)

    def _longest_log(self) -> int:
        return min(max(self._boxes.n_groups * GROUP, SHORTEST_LOG), LONGEST_LOG)

    def _schedule(self) -> None:
        """Set what the log must watch for: the clock at which someone is due."""
        state = self._log.state
        if not self._boxes.n_members and self._boxes.n_groups:
            self._boxes = Boxes(self._axes, 0)
            self._log.clear()
        due = self._boxes.due if self._cells is None else min(self._boxes.due, self._cells.due)
        state[DUE] = due
        self._spare = due - int(state[CLOCK])

    def _members(self, slots: Ints, lo: Floats, hi: Floats, need: Longs) -> Members:
        """Members with these bounds, (n, dimensions), endless on the axes beyond."""
        low, high = np.full((self._axes, len(slots)), -np.inf), np.full((self._axes, len(slots)), np.inf)
        low[: self._dimensions], high[: self._dimensions] = lo.T, hi.T
        return Members(slots, low, high, need)

    def _add(self, members: Members) -> None:
        """Take members into the part where they belong, or build everything anew where that pays."""
        boxes, count = self._boxes, len(members.slots)
        in_boxes = boxes.n_members + count
        in_cells = 0 if self._cells is None else self._cells.n_members
        if self._dimensions < 2 and (in_cells or in_boxes >= FEWEST_IN_CELLS):
            is_worth_it = in_boxes >= max(FEWEST_IN_CELLS, in_cells // CELLS_TO_BOXES)
        else:
            is_worth_it = count > boxes.n_members or boxes.n_loose > max(in_boxes // 2, MOST_LOOSE)
        if is_worth_it:
            self._rebuild(members)
        else:
            boxes.add(members, self._slots, self._log.columns)

    @property
    def _n_members(self) -> int:
        return self._boxes.n_members + (0 if self._cells is None else self._cells.n_members)

    @property
    def _may_be_sparse(self) -> bool:
        """Whether so many were terminated that it matters how many of them were members."""
        if self._n_left <= self._top // LEFT:
            return False
        if self._cells is None:
            return self._n_left > self._boxes.n_members // 2
        return self._boxes.is_sparse(self._n_left) or self._cells.is_sparse(self._n_left)

    def _forget_gone(self) -> None:
        """Count members anew, without those who were terminated. Cost: linear in all slots."""
        if self._n_left:
            self._n_left = 0
            n_boxes, n_cells = leave_places(self._slots, IN_CELLS)
            self._boxes.n_members = n_boxes
            if self._cells is not None:
                self._cells.n_members = n_cells

    def _reclaim(self) -> None:
        """Give up places when most of them are free."""
        if self._boxes.is_sparse(0):
            self._take_waiting()
            self._clear_log()
            members = self._boxes.members(self._slots)
            self._boxes = Boxes(self._axes, 0)
            self._boxes.fill(members, self._slots, self._log.columns)
            self._schedule()
        if self._cells is not None and self._cells.is_sparse(0):
            self._take_waiting()
            if self._cells.is_fine:
                self._rebuild(None)
            else:
                self._cells.compact(self._slots, int(self._log.state[CLOCK]))
            self._schedule()

    def _rebuild(self, added: Members | None) -> None:
        """Put everyone, and who is added, into a new part. Cost: n log n."""
        self._forget_gone()
        leave_places(self._slots, ANYWHERE)
        self._clear_log()
        everyone = self._boxes.members(self._slots)
        if self._cells is not None:
            everyone = everyone.joined(self._cells.members(self._slots))
        if added is not None:
            everyone = everyone.joined(added)
        is_for_cells = self._dimensions < 2 and len(everyone.slots) >= FEWEST_IN_CELLS
        if added is not None:
            everyone = everyone.take(everyone.order(), 1 if is_for_cells else None)
        self._boxes, self._cells = Boxes(self._axes, 0), None
        if is_for_cells:
            self._cells = Cells(everyone, self._slots, int(self._log.state[CLOCK]))
        else:
            self._boxes.fill(everyone, self._slots, self._log.columns)

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
        if top <= len(self._slots.place):
            return
        is_there, place, tau, is_repeating = self._slots
        place = grown(place, top, NOWHERE)
        self._slots = SlotColumns(
            grown(is_there, len(place) // 8 + 1),
            place,
            grown(tau, top),
            grown(is_repeating, len(place) // 8 + 1),
        )


def _by_step(steps: Ints, slots: Ints) -> Ints:
    """The order by step and, within one, by slot. Cost: linear."""
    slot_bits = int(slots.max()).bit_length()
    keys = (steps.astype(np.uint64) << np.uint64(slot_bits)) | slots.astype(np.uint64)
    return order_of(keys, slot_bits + int(steps.max()).bit_length())


def _settled(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array as kernels take it, which it nearly always is already."""
    flags = array.flags
    if array.dtype == dtype and flags.c_contiguous and flags.writeable:
        return array
    return np.array(array, dtype, order="C")
