"""The boxes: subscriptions in groups, held against the log when they must be."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.orders import order_of
from tocsin.indexes.thresholds.lazy_boxes_columns import BoxColumns, LookRoom
from tocsin.indexes.thresholds.lazy_boxes_kernels import (
    GRID,
    find_due,
    fit_groups,
    list_places,
    look_at_groups,
)
from tocsin.indexes.thresholds.lazy_columns import (
    BATCH,
    CHUNK,
    GRIDDED,
    GROUP,
    IN_CELLS,
    LARGEST,
    LENGTH,
    NOWHERE,
    SORTED,
    LogColumns,
    SlotColumns,
    are_set,
)
from tocsin.indexes.thresholds.lazy_log import EventLog, Report
from tocsin.indexes.thresholds.lazy_members import Members
from tocsin.indexes.thresholds.lazy_sweep_kernels import (
    AHEAD,
    Pieces,
    Sweep,
    rank_bounds,
    sweep_boxes,
    sweep_room,
)

#: Groups that small registrations fill in the order of arrival, before they are sorted into tight ones.
OPEN_GROUPS = 16
#: So many places for each member, and they are given up.
SPARSE = 8
#: What a member and an event cost in a sweep, if an event of the log costs a group that is looked at 1.
SWEEP_MEMBER = 15
SWEEP_EVENT = 15
#: Groups that must have been held against an event of the log before it pays to sort it.
SORT_EVENT = 48
#: Events that a group must be behind before it pays to check each member by the grid before a look.
FAR_BEHIND = 1 << 12
#: Members whose bounds are looked at to choose the grid.
SAMPLE = 4096


class Boxes:
    """Members come and go at any time, in any number of dimensions.

    What is registered in small numbers goes to the *open* groups, one after the other; when OPEN_GROUPS
    of them are full their members are sorted, and others are opened.
    """

    def __init__(self, axes: int, capacity: int) -> None:
        self.columns = _free_columns(axes, max(capacity // GROUP, 1))
        #: groups in use, and the members in them
        self.n_groups = 0
        self.n_members = 0
        #: members that came in small numbers, and so may lie in loose groups
        self.n_loose = 0
        #: events that groups were behind when they were looked at, since the last fold
        self._behind = 0
        self._no_batch = EventLog(axes, 0).columns
        #: the open groups, and how many of their places have been taken
        self._open: list[int] = []
        self._open_used = 0

    def is_sparse(self, n_left: int) -> bool:
        """Whether most of the places would be free without `n_left` of the members."""
        is_large = self.n_groups > SPARSE * OPEN_GROUPS
        return is_large and self.n_groups * GROUP > SPARSE * (self.n_members - n_left)

    @property
    def due(self) -> int:
        """The clock before which no member can mature. Cost: linear in the groups, a nanosecond each."""
        return int(self.columns.due[: self.n_groups].min()) if self.n_members else LARGEST

    def fill(self, members: Members, slots: SlotColumns, log: LogColumns) -> None:
        """Take in the first members, in their `order`. The log is empty. Cost: linear."""
        self._add_groups(members, slots, log)
        self.forget_log(slots, log)

    def add(self, members: Members, slots: SlotColumns, log: LogColumns) -> None:
        """Take members in; they count from the next event on.

        Cost: n log n for many; for one, a look at one group.
        """
        if len(members.slots) >= OPEN_GROUPS * GROUP:
            self._add_groups(members.take(members.order()), slots, log)
            return
        self.n_members += len(members.slots)
        self.n_loose += len(members.slots)
        while len(members.slots):
            number, used = divmod(self._open_used, GROUP)
            if number == OPEN_GROUPS:
                self._sort_open(slots, log)
                continue
            if number == len(self._open):
                self._open.append(self._new_groups(1))
            fitting = GROUP - used
            self._put(members.take(slice(None, fitting)), self._open[number] * GROUP + used, slots, log)
            self._open_used += len(members.slots[:fitting])
            members = members.take(slice(fitting, None))

    def settle(self, slots: SlotColumns, event_log: EventLog, report: Report) -> None:
        """Look at the groups in which some member may have matured."""
        log = event_log.columns
        groups = np.empty(self.n_groups, np.int32)
        groups = groups[: find_due(self.columns, slots, log, self.n_groups, FAR_BEHIND, groups)]
        if len(groups) == 0:
            return
        begin = int(log.state[BATCH])
        self._sweep(groups, slots, log, begin)
        behind = int((begin - self.columns.since[groups]).sum())
        self._behind += behind
        if self._behind > SORT_EVENT * int(begin - log.state[SORTED]):
            event_log.sort(begin)
        before = int(report.rows.n_rows[0])
        self._look(groups, slots, log, report, event_log.sorted_batch())
        matured = report.rows.subscription[before : report.rows.n_rows[0]]
        self.n_members -= int(np.count_nonzero(~are_set(slots.is_repeating, matured)))

    def wants_fold(self, log: LogColumns) -> bool:
        """Whether looking at late groups one by one has cost as much as it costs to fold the log."""
        fold = SWEEP_MEMBER * self.n_members + SWEEP_EVENT * int(log.state[LENGTH])
        return len(self.columns.bound) == 4 and self._behind > fold

    def missing(self, places: Ints, slots: SlotColumns, log: LogColumns) -> Longs:
        """What these members still need, counting every event. Cost: a look at each one's group."""
        self._look(np.unique(places // GROUP).astype(np.int32), slots, log, Report(1))
        return self.columns.need[places]

    def fold(self, slots: SlotColumns, event_log: EventLog) -> None:
        """Hold all members against the log, of which nothing is in the current batch."""
        log = event_log.columns
        groups, length = np.arange(self.n_groups, dtype=np.int32), int(log.state[LENGTH])
        self._sweep(groups, slots, log, length)
        self._behind = 0
        if (self.columns.since[groups] < length).any():
            event_log.sort(length)
        self._look(groups, slots, log, Report(1))

    def forget_log(self, slots: SlotColumns, log: LogColumns) -> None:
        """The log was folded and cleared: choose the grid anew. Cost: linear in the places."""
        columns = self.columns
        columns.grid_weights[:] = 0
        columns.grid_sums[:] = 0
        columns.held[:] = 0
        columns.is_whole[:] = True
        self._choose_grid()
        fit_groups(columns, slots, log, 0, self.n_groups, False)

    def check_invariants(self, slots: SlotColumns, log: LogColumns) -> None:
        """Assert that all columns agree. For tests."""
        columns, length = self.columns, int(log.state[LENGTH])
        places = self._places_of(np.arange(self.n_groups), slots)
        in_boxes = (slots.place >= 0) & (slots.place < IN_CELLS)
        assert len(places) == self.n_members == np.count_nonzero(in_boxes)
        assert (columns.slot[self.n_groups * GROUP :] == NOWHERE).all()
        assert (columns.need[columns.slot < 0] == LARGEST).all()
        assert (columns.need > 0).all()
        assert len(self._open) <= OPEN_GROUPS
        assert self._open_used <= len(self._open) * GROUP
        group = places // GROUP
        assert (columns.cover[:, group] <= columns.bound[:, places]).all()
        assert (columns.core[:, group] >= columns.bound[:, places]).all()
        assert (columns.slack[group] <= columns.need[places]).all()
        assert (columns.since[: self.n_groups] <= length).all()
        assert log.weights[: int(log.state[GRIDDED])].sum() >= columns.grid_weights.sum()

    def members(self, slots: SlotColumns) -> Members:
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
        """Where the members of these groups are: at the places that their slots know."""
        places = np.empty(len(groups) * GROUP, np.int32)
        return places[: list_places(self.columns, slots, groups.astype(np.int32), places)]

    def _members_at(self, groups: np.ndarray, slots: SlotColumns) -> Members:
        columns, places = self.columns, self._places_of(groups, slots)
        return Members(columns.slot[places], *self.bounds(places), columns.need[places])

    def _look(
        self,
        groups: Ints,
        slots: SlotColumns,
        log: LogColumns,
        report: Report,
        batch: LogColumns | None = None,
    ) -> None:
        batch = batch or self._no_batch
        n_new = int(log.state[LENGTH] - log.state[BATCH])
        room = _look_room(len(log.values), n_new, max(CHUNK, n_new, len(batch.weights)))
        report.fill(
            lambda begin, rows: look_at_groups(self.columns, slots, log, batch, groups, begin, room, rows),
            len(groups),
        )

    def _sweep(self, groups: Ints, slots: SlotColumns, log: LogColumns, length: int) -> None:
        """Hold these groups against the log's first events at once, where that is faster.

        Nobody matures there. Two dimensions only: others have no sweep.
        """
        columns = self.columns
        groups = groups[columns.is_whole[groups] & (columns.since[groups] < length)]
        behind = int((length - columns.since[groups]).sum())
        is_faster = behind > SWEEP_MEMBER * GROUP * len(groups) + SWEEP_EVENT * length
        if len(columns.bound) != 4 or not is_faster:
            return
        places = self._places_of(groups, slots)
        orders = []
        bounds = np.empty((4, len(places)), np.int32)
        pieces = Pieces(np.empty(2), np.empty(length + 2, np.int32))
        for axis, (lows, highs) in enumerate(zip(*self.bounds(places), strict=True)):
            order, ordered = _ordered(log.values[axis, :length])
            orders.append(order)
            with np.errstate(over="ignore", invalid="ignore"):
                rank_bounds(ordered, pieces, lows, highs, bounds[2 * axis], bounds[2 * axis + 1])
        ranks = np.empty(length, np.int32)
        ranks[orders[1]] = np.arange(length, dtype=np.int32)
        held = np.zeros(len(places), np.int64)
        sweep = Sweep(ranks[orders[0]], log.weights[orders[0]], *bounds)
        sweep_boxes(sweep, sweep_room(length, len(places)), held)
        self._behind += SWEEP_MEMBER * GROUP * len(groups) + SWEEP_EVENT * length
        columns.need[places] -= held - columns.held[places]
        columns.held[places] = held
        columns.since[groups] = length

    def _put(self, members: Members, begin: int, slots: SlotColumns, log: LogColumns) -> None:
        """Write members to the free places from `begin` on, and let them count from now."""
        end = begin + len(members.slots)
        first, last = begin // GROUP, max(-(-end // GROUP), begin // GROUP + 1)
        # Whoever is in these groups already must not lose what it has not been held against.
        self._look(np.arange(first, last, dtype=np.int32), slots, log, Report(1))
        columns = self.columns
        columns.bound[::2, begin:end] = members.low
        columns.bound[1::2, begin:end] = -members.high
        columns.need[begin:end] = members.need
        columns.slot[begin:end] = members.slots
        columns.is_whole[first:last] = False
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
        columns.slot[places] = NOWHERE

    def _add_groups(self, members: Members, slots: SlotColumns, log: LogColumns) -> None:
        """Take members into new groups of their own, in the order in which they come."""
        if len(members.slots):
            self.n_members += len(members.slots)
            first = self._new_groups(-(-len(members.slots) // GROUP))
            self._put(members, first * GROUP, slots, log)

    def _sort_open(self, slots: SlotColumns, log: LogColumns) -> None:
        """Sort the members of the open groups; if they are many, these groups are closed."""
        groups = np.array(self._open, np.int32)
        self._look(groups, slots, log, Report(1))
        members = self._members_at(groups, slots)
        self._free(_all_places_of(groups))
        members = members.take(members.order())
        for number, group in enumerate(self._open):
            self._put(members.take(slice(number * GROUP, (number + 1) * GROUP)), group * GROUP, slots, log)
        self._open_used = len(members.slots)
        if self._open_used > len(self._open) * GROUP // 2:
            self._open, self._open_used = [], 0

    def _new_groups(self, count: int) -> int:
        """Add free groups at the end; the first of them."""
        first = self.n_groups
        self.n_groups += count
        have = len(self.columns.slack)
        if self.n_groups > have:
            self.columns = _resized(self.columns, max(self.n_groups, 2 * have))
        return first

    def _choose_grid(self) -> None:
        """Put as many bounds of members into each row and each column of cells, and none is very wide.

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


def _resized(columns: BoxColumns, groups: int) -> BoxColumns:
    """The columns with room for so many groups."""
    resized = _free_columns(len(columns.bound) // 2, groups)
    for name, old in columns._asdict().items():
        new = getattr(resized, name)
        common = tuple(slice(min(sizes)) for sizes in zip(old.shape, new.shape, strict=True))
        new[common] = old[common]
    return resized


def _free_columns(axes: int, groups: int) -> BoxColumns:
    places = groups * GROUP
    sides = 2 * axes
    return BoxColumns(
        bound=np.full((sides, places), np.inf),
        need=np.full(places, LARGEST, np.int64),
        held=np.zeros(places, np.int64),
        slot=np.full(places, NOWHERE, np.int32),
        sorted_bounds=np.full((groups, sides * GROUP), np.inf),
        bound_ranks=np.zeros((groups, sides * GROUP), np.uint8),
        cover=np.full((sides, groups), np.inf),
        core=np.full((sides, groups), -np.inf),
        slack=np.full(groups, LARGEST, np.int64),
        due=np.full(groups, LARGEST, np.int64),
        ripe=np.full(groups, LARGEST, np.int64),
        since=np.zeros(groups, np.int64),
        is_whole=np.zeros(groups, np.bool_),
        base=np.zeros(groups, np.int64),
        cover_cells=np.zeros((4, groups), np.int32),
        grid_edges=np.full((2, GRID - 1), np.inf),
        grid_weights=np.zeros((GRID, GRID), np.int64),
        grid_sums=np.zeros((GRID + 1, GRID + 1), np.int64),
    )


def _look_room(axes: int, n_new: int, n_events: int) -> LookRoom:
    """Room for looks at logs of so many axes, new events, and events at a time. Cost: constant."""
    return LookRoom(
        events=np.empty(n_events, np.int32),
        singles=np.empty(n_events, np.int32),
        single_sides=np.empty(n_events, np.int32),
        near_values=np.empty((axes, n_new)),
        near_weights=np.empty(n_new, np.int64),
        core=np.empty(2 * axes),
        bound=np.empty(2 * axes),
        is_inside=np.empty(GROUP, np.bool_),
        gains=np.zeros((2 * axes, GROUP + 1), np.int64),
        sums=np.empty(GROUP, np.int64),
    )


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
    """The order of the values, unless some lie next to each other or beyond all measure. Cost: linear.

    Whole numbers are sorted several times as fast, so each value is taken for where it is on the line.
    """
    floor, half_length = float(values.min()) / 2, float(values.max()) / 2 - float(values.min()) / 2
    n_bits = 62 - len(values).bit_length()
    with np.errstate(over="ignore"):
        per_unit = np.float64(1 << n_bits) / half_length if half_length > 0 else np.inf
    if not (np.isfinite(per_unit) and np.isfinite(half_length)):
        return np.arange(len(values))
    return order_of(((values / 2 - floor) * per_unit).astype(np.uint64), n_bits + 1)
