"""Box groups: subscriptions in groups that are compared with the log only when necessary."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.thresholds.deferred.batches import EventLog, ThresholdBatch
from tocsin.indexes.thresholds.deferred.boxes_kernels import (
    evaluate_groups,
    find_due,
    fit_groups,
    list_places,
)
from tocsin.indexes.thresholds.deferred.common_kernels import are_set
from tocsin.indexes.thresholds.deferred.layout import (
    BATCH,
    CHUNK,
    GRID,
    GRIDDED,
    GROUP,
    IN_CELLS,
    LENGTH,
    NO_PLACE,
    SORTED,
    BoxGroupColumns,
    GroupScratch,
    LogColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.deferred.sweep_kernels import (
    AHEAD,
    SweepInput,
    ValueBuckets,
    new_sweep_scratch,
    rank_bounds,
    sweep_boxes,
)
from tocsin.indexes.thresholds.layout import LARGEST
from tocsin.indexes.thresholds.reports import MaturityReport
from tocsin.kernels.sort import order_of

#: Groups that small registrations fill in arrival order before they are sorted into tight ones.
OPEN_GROUPS = 16
#: Places per member from which the places are released.
SPARSE_RATIO = 8
#: Cost of a member and of an event in a sweep, in units of comparing one event with one group.
SWEEP_MEMBER_COST = 15
SWEEP_EVENT_COST = 15
#: Comparisons of an event with groups from which sorting it pays.
SORT_EVENT_COST = 48
#: Events that a group must lag behind before checking each member by the grid first pays.
MEMBER_CHECK_LAG = 1 << 12
#: Members sampled to choose the grid.
SAMPLE = 4096


class BoxGroups:
    """Members that come and go at any time, in any number of dimensions.

    Small registrations fill the *open* groups one after the other; when OPEN_GROUPS of them are full, their
    members are sorted and others are opened.
    """

    def __init__(self, axes: int, capacity: int) -> None:
        self.columns = empty(BoxGroupColumns, axes=axes, groups=max(capacity // GROUP, 1))
        #: groups in use, and the members in them
        self.n_groups = 0
        self.n_members = 0
        #: members of small registrations, which may be in loose groups
        self.n_unsorted = 0
        #: events that evaluated groups lagged behind, summed since the last fold
        self._behind = 0
        self._no_batch = EventLog(axes, 0).columns
        self._scratch = empty(GroupScratch, axes=axes, new_events=0, events=CHUNK)
        #: the open groups, and how many of their places are taken
        self._open: list[int] = []
        self._open_used = 0

    def is_sparse(self, n_terminated: int) -> bool:
        """Whether most of the places would be free without `n_terminated` of the members."""
        is_large = self.n_groups > SPARSE_RATIO * OPEN_GROUPS
        return is_large and self.n_groups * GROUP > SPARSE_RATIO * (self.n_members - n_terminated)

    @property
    def due(self) -> int:
        """The clock before which no member can mature. Cost: linear in the groups, a nanosecond each."""
        return int(self.columns.due[: self.n_groups].min()) if self.n_members else LARGEST

    def fill(self, members: ThresholdBatch, slots: SlotColumns, log: LogColumns) -> None:
        """Add the first members, in their `order`. The log is empty. Cost: linear."""
        self._add_groups(members, slots, log)
        self.reset_after_fold(slots, log)

    def add(self, members: ThresholdBatch, slots: SlotColumns, log: LogColumns) -> None:
        """Add members; they count from the next event on.

        Cost: n log n for many; for one, evaluating one group.
        """
        if len(members.slots) >= OPEN_GROUPS * GROUP:
            self._add_groups(members.take(members.order()), slots, log)
            return
        self.n_members += len(members.slots)
        self.n_unsorted += len(members.slots)
        while len(members.slots):
            number, used = divmod(self._open_used, GROUP)
            if number == OPEN_GROUPS:
                self._sort_open(slots, log)
                continue
            if number == len(self._open):
                self._open.append(self._new_groups(1))
            fitting = GROUP - used
            self._write_members(
                members.take(slice(None, fitting)), self._open[number] * GROUP + used, slots, log
            )
            self._open_used += len(members.slots[:fitting])
            members = members.take(slice(fitting, None))

    def report_matured(self, slots: SlotColumns, event_log: EventLog, report: MaturityReport) -> None:
        """Evaluate the groups in which some member may have matured."""
        log = event_log.columns
        groups = np.empty(self.n_groups, np.int32)
        groups = groups[: find_due(self.columns, slots, log, self.n_groups, MEMBER_CHECK_LAG, groups)]
        if len(groups) == 0:
            return
        begin = int(log.state[BATCH])
        self._sweep(groups, slots, log, begin)
        behind = int((begin - self.columns.log_position[groups]).sum())
        self._behind += behind
        if self._behind > SORT_EVENT_COST * int(begin - log.state[SORTED]):
            event_log.sort(begin)
        before = int(report.rows.n_rows[0])
        self._evaluate(groups, slots, log, report, event_log.sorted_batch())
        matured = report.rows.subscription[before : report.rows.n_rows[0]]
        self.n_members -= int(np.count_nonzero(~are_set(slots.is_repeating, matured)))

    def should_fold(self, log: LogColumns) -> bool:
        """Whether evaluating lagging groups one by one has cost as much as folding the log."""
        fold = SWEEP_MEMBER_COST * self.n_members + SWEEP_EVENT_COST * int(log.state[LENGTH])
        return len(self.columns.bound) == 4 and self._behind > fold

    def missing(self, places: Ints, slots: SlotColumns, log: LogColumns) -> Longs:
        """What these members still need, counting every event. Cost: evaluating the group of each."""
        self._evaluate(np.unique(places // GROUP).astype(np.int32), slots, log, MaturityReport(1))
        return self.columns.need[places]

    def fold(self, slots: SlotColumns, event_log: EventLog) -> None:
        """Compare all members with the log, of which nothing is in the current batch."""
        log = event_log.columns
        groups, length = np.arange(self.n_groups, dtype=np.int32), int(log.state[LENGTH])
        self._sweep(groups, slots, log, length)
        self._behind = 0
        if (self.columns.log_position[groups] < length).any():
            event_log.sort(length)
        self._evaluate(groups, slots, log, MaturityReport(1))

    def reset_after_fold(self, slots: SlotColumns, log: LogColumns) -> None:
        """The log was folded and cleared: choose a new grid. Cost: linear in the places."""
        columns = self.columns
        columns.grid_weights[:] = 0
        columns.grid_sums[:] = 0
        columns.counted[:] = 0
        columns.covers_log[:] = True
        self._choose_grid()
        fit_groups(columns, slots, log, 0, self.n_groups, False)

    def check_invariants(self, slots: SlotColumns, log: LogColumns) -> None:
        """Assert that all columns agree. For tests."""
        columns, length = self.columns, int(log.state[LENGTH])
        check_layout(columns)
        assert not self._scratch.gains.any()
        places = self._places_of(np.arange(self.n_groups), slots)
        in_boxes = (slots.place >= 0) & (slots.place < IN_CELLS)
        assert len(places) == self.n_members == np.count_nonzero(in_boxes)
        assert (columns.slot[self.n_groups * GROUP :] == NO_PLACE).all()
        assert (columns.need[columns.slot < 0] == LARGEST).all()
        assert (columns.need > 0).all()
        assert len(self._open) <= OPEN_GROUPS
        assert self._open_used <= len(self._open) * GROUP
        group = places // GROUP
        assert (columns.cover[:, group] <= columns.bound[:, places]).all()
        assert (columns.core[:, group] >= columns.bound[:, places]).all()
        assert (columns.slack[group] <= columns.need[places]).all()
        assert (columns.log_position[: self.n_groups] <= length).all()
        assert log.weights[: int(log.state[GRIDDED])].sum() >= columns.grid_weights.sum()

    def members(self, slots: SlotColumns) -> ThresholdBatch:
        """Every member, as of the last `fold`."""
        return self._members_at(np.arange(self.n_groups), slots)

    def bounds(self, places: Ints) -> tuple[Floats, Floats]:
        """Low and high, (axes, n), of the members at these places. Cost: linear in their number."""
        bound = self.columns.bound
        return (
            np.stack([side[places] for side in bound[::2]]),
            np.stack([-side[places] for side in bound[1::2]]),
        )

    def _places_of(self, groups: np.ndarray, slots: SlotColumns) -> Ints:
        """The places of the members of these groups, as recorded in their slots."""
        places = np.empty(len(groups) * GROUP, np.int32)
        return places[: list_places(self.columns, slots, groups.astype(np.int32), places)]

    def _members_at(self, groups: np.ndarray, slots: SlotColumns) -> ThresholdBatch:
        columns, places = self.columns, self._places_of(groups, slots)
        return ThresholdBatch(columns.slot[places], *self.bounds(places), columns.need[places])

    def _evaluate(
        self,
        groups: Ints,
        slots: SlotColumns,
        log: LogColumns,
        report: MaturityReport,
        batch: LogColumns | None = None,
    ) -> None:
        batch = batch or self._no_batch
        n_new = int(log.state[LENGTH] - log.state[BATCH])
        n_events = max(n_new, len(batch.weights))
        if n_events > len(self._scratch.events) or n_new > len(self._scratch.near_weights):
            self._scratch = grow(self._scratch, events=n_events, new_events=n_new)
        report.fill(
            lambda begin, rows: evaluate_groups(
                self.columns, slots, log, batch, groups, begin, self._scratch, rows
            ),
            len(groups),
        )

    def _sweep(self, groups: Ints, slots: SlotColumns, log: LogColumns, length: int) -> None:
        """Compare these groups with the log's first events in one sweep, where that is faster.

        No member matures there. Two dimensions only: others have no sweep.
        """
        columns = self.columns
        groups = groups[columns.covers_log[groups] & (columns.log_position[groups] < length)]
        behind = int((length - columns.log_position[groups]).sum())
        is_faster = behind > SWEEP_MEMBER_COST * GROUP * len(groups) + SWEEP_EVENT_COST * length
        if len(columns.bound) != 4 or not is_faster:
            return
        places = self._places_of(groups, slots)
        orders = []
        bounds = np.empty((4, len(places)), np.int32)
        buckets = ValueBuckets(np.empty(2), np.empty(length + 2, np.int32))
        for axis, (lows, highs) in enumerate(zip(*self.bounds(places), strict=True)):
            order, ordered = _ordered(log.values[axis, :length])
            orders.append(order)
            with np.errstate(over="ignore", invalid="ignore"):
                rank_bounds(ordered, buckets, lows, highs, bounds[2 * axis], bounds[2 * axis + 1])
        ranks = np.empty(length, np.int32)
        ranks[orders[1]] = np.arange(length, dtype=np.int32)
        counted = np.zeros(len(places), np.int64)
        sweep = SweepInput(ranks[orders[0]], log.weights[orders[0]], *bounds)
        sweep_boxes(sweep, new_sweep_scratch(length, len(places)), counted)
        self._behind += SWEEP_MEMBER_COST * GROUP * len(groups) + SWEEP_EVENT_COST * length
        columns.need[places] -= counted - columns.counted[places]
        columns.counted[places] = counted
        columns.log_position[groups] = length

    def _write_members(
        self, members: ThresholdBatch, begin: int, slots: SlotColumns, log: LogColumns
    ) -> None:
        """Write members to the free places from `begin` on; they count from now."""
        end = begin + len(members.slots)
        first, last = begin // GROUP, max(-(-end // GROUP), begin // GROUP + 1)
        # Members that are in these groups already must first be compared with the rest of the log.
        self._evaluate(np.arange(first, last, dtype=np.int32), slots, log, MaturityReport(1))
        columns = self.columns
        columns.bound[::2, begin:end] = members.low
        columns.bound[1::2, begin:end] = -members.high
        columns.need[begin:end] = members.need
        columns.slot[begin:end] = members.slots
        columns.covers_log[first:last] = False
        slots.place[members.slots] = np.arange(begin, end, dtype=np.int32)
        self._sort_bounds(first, last)
        fit_groups(columns, slots, log, first, last, True)

    def _sort_bounds(self, first: int, last: int) -> None:
        """Sort the bounds of the groups from `first` to before `last`, each side of each group by itself."""
        columns = self.columns
        places = slice(first * GROUP, last * GROUP)
        for side, bounds in enumerate(columns.bound):
            order = np.argsort(bounds[places].reshape(-1, GROUP), axis=1)
            of_side = slice(side * GROUP, (side + 1) * GROUP)
            columns.sorted_bounds[first:last, of_side] = np.take_along_axis(
                bounds[places].reshape(-1, GROUP), order, axis=1
            )
            np.put_along_axis(
                columns.bound_ranks[first:last, of_side],
                order,
                np.arange(GROUP, dtype=np.uint8)[np.newaxis],
                axis=1,
            )

    def _free(self, places: Ints | slice) -> None:
        columns = self.columns
        columns.need[places] = LARGEST
        columns.slot[places] = NO_PLACE

    def _add_groups(self, members: ThresholdBatch, slots: SlotColumns, log: LogColumns) -> None:
        """Add members to new groups of their own, in the given order."""
        if len(members.slots):
            self.n_members += len(members.slots)
            first = self._new_groups(-(-len(members.slots) // GROUP))
            self._write_members(members, first * GROUP, slots, log)

    def _sort_open(self, slots: SlotColumns, log: LogColumns) -> None:
        """Sort the members of the open groups; close these groups if that leaves them well filled."""
        groups = np.array(self._open, np.int32)
        self._evaluate(groups, slots, log, MaturityReport(1))
        members = self._members_at(groups, slots)
        self._free(_all_places_of(groups))
        members = members.take(members.order())
        for number, group in enumerate(self._open):
            self._write_members(
                members.take(slice(number * GROUP, (number + 1) * GROUP)), group * GROUP, slots, log
            )
        self._open_used = len(members.slots)
        if self._open_used > len(self._open) * GROUP // 2:
            self._open, self._open_used = [], 0

    def _new_groups(self, count: int) -> int:
        """Add free groups at the end; the first of them."""
        first = self.n_groups
        self.n_groups += count
        if self.n_groups > len(self.columns.slack):
            self.columns = grow(self.columns, groups=self.n_groups)
        return first

    def _choose_grid(self) -> None:
        """Divide the members' bounds evenly over the rows and columns of cells, of which none is very wide.

        Where bounds are few, there may still be many events.
        """
        columns = self.columns
        places = np.flatnonzero(columns.slot >= 0)
        places = places[:: max(len(places) // SAMPLE, 1)]
        if len(places) == 0:
            return
        for axis in range(2):
            bounds = np.sort(
                np.concatenate([columns.bound[2 * axis, places], -columns.bound[2 * axis + 1, places]])
            )
            finite = bounds[np.isfinite(bounds)]
            if len(finite):
                even = np.linspace(0.0, 1.0, len(bounds))
                bounds = np.sort(np.concatenate([bounds, finite[0] * (1 - even) + finite[-1] * even]))
            columns.grid_edges[axis] = bounds[np.arange(1, GRID) * len(bounds) // GRID]


def _all_places_of(groups: np.ndarray) -> Ints:
    """All places of these groups."""
    return (groups[:, np.newaxis] * GROUP + np.arange(GROUP)).ravel().astype(np.int32)


def _ordered(values: Floats) -> tuple[np.ndarray, Floats]:
    """The order of the values, and the values in it, then AHEAD times NaN. Cost: n log n."""
    ordered = np.full(len(values) + AHEAD, np.nan)
    order = _order_by_place(values)
    np.take(values, order, out=ordered[:-AHEAD])
    if (ordered[1:-AHEAD] < ordered[: -AHEAD - 1]).any():
        order = np.argsort(values)
        np.take(values, order, out=ordered[:-AHEAD])
    return order, ordered


def _order_by_place(values: Floats) -> np.ndarray:
    """The order of the values, unless some are too close together or too far apart. Cost: linear.

    Integers are sorted several times as fast, so each value is replaced by its position on the line.
    """
    floor, half_length = float(values.min()) / 2, float(values.max()) / 2 - float(values.min()) / 2
    n_bits = 62 - len(values).bit_length()
    with np.errstate(over="ignore"):
        per_unit = np.float64(1 << n_bits) / half_length if half_length > 0 else np.inf
    if not (np.isfinite(per_unit) and np.isfinite(half_length)):
        return np.arange(len(values))
    return order_of(((values / 2 - floor) * per_unit).astype(np.uint64), n_bits + 1)
