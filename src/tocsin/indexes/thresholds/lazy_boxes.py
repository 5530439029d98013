"""The boxes: subscriptions in groups, held against the log when they must be."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.thresholds.lazy_boxes_kernels import (
    GRID,
    BoxColumns,
    find_due,
    fit_groups,
    look_at_groups,
)
from tocsin.indexes.thresholds.lazy_columns import (
    BATCH,
    GROUP,
    LARGEST,
    LENGTH,
    NOWHERE,
    LogColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.lazy_log import Report
from tocsin.indexes.thresholds.lazy_members import Members
from tocsin.indexes.thresholds.lazy_sweep_kernels import Sweep, sweep_boxes

#: Groups that small registrations fill in the order of arrival, before they are sorted into tight ones.
OPEN_GROUPS = 16
#: What a member and an event cost in a sweep, if an event of the log costs a group that is looked at 1.
SWEEP_MEMBER = 120
SWEEP_EVENT = 60
#: Members whose bounds are looked at to choose the grid.
SAMPLE = 4096


class Boxes:
    """Members come and go at any time, in any number of dimensions.

    The groups from `_open_first` on, OPEN_GROUPS of them, take what is registered in small numbers;
    when they are full their members are sorted, and others are opened.
    """

    def __init__(self, axes: int, capacity: int) -> None:
        groups = max(capacity // GROUP, 1)
        self.columns = _free_columns(axes, groups)
        #: groups in use, and the members in them
        self.n_groups = 0
        self.n_members = 0
        #: members that came in small numbers, and so may lie in loose groups
        self.n_loose = 0
        self._open_first = -1
        self._open_used = 0
        #: events that groups were behind when they were looked at, since the last fold
        self._behind = 0

    @property
    def is_half_empty(self) -> bool:
        """Whether more than half of the places are free."""
        return self.n_groups > 2 * OPEN_GROUPS and self.n_groups * GROUP > 2 * self.n_members

    @property
    def due(self) -> int:
        """The clock before which no member can mature. Cost: linear in the groups, a nanosecond each."""
        return int(self.columns.due[: self.n_groups].min(initial=LARGEST))

    def add(self, members: Members, slots: SlotColumns, log: LogColumns) -> None:
        """Take members in; they count from the next event on. Many should come in their `order`.

        Cost: n log n for many; for one, a look at one group.
        """
        room = OPEN_GROUPS * GROUP
        self.n_members += len(members.slots)
        if len(members.slots) >= room:
            first = self._new_groups(-(-len(members.slots) // GROUP))
            self._put(members, first * GROUP, slots, log)
            return
        self.n_loose += len(members.slots)
        while len(members.slots):
            if self._open_first < 0:
                self._open_first, self._open_used = self._new_groups(OPEN_GROUPS), 0
            if self._open_used == room:
                self._sort_open(slots, log)
                continue
            fitting = room - self._open_used
            begin = self._open_first * GROUP + self._open_used
            self._open_used += len(members.slots[:fitting])
            self._put(members.take(slice(None, fitting)), begin, slots, log)
            members = members.take(slice(fitting, None))

    def remove(self, places: Ints) -> None:
        """Free these places. Cost: linear in their number."""
        self.n_members -= len(places)
        self._free(places)

    def settle(self, slots: SlotColumns, log: LogColumns, report: Report) -> None:
        """Look at the groups in which some member may have matured."""
        if self.n_members == 0:
            return
        groups = np.empty(self.n_groups, np.int32)
        groups = groups[: find_due(self.columns, log, self.n_groups, groups)]
        self._sweep(groups, log, int(log.state[BATCH]))
        self._behind += int((log.state[BATCH] - self.columns.since[groups]).sum())
        before = int(report.rows.n_rows[0])
        self._look(groups, slots, log, report)
        matured = report.rows.subscription[before : report.rows.n_rows[0]]
        self.n_members -= int(np.count_nonzero(~slots.is_repeating[matured]))

    def wants_fold(self, log: LogColumns) -> bool:
        """Whether looking at late groups one by one has cost as much as it costs to fold the log."""
        fold = SWEEP_MEMBER * self.n_members + SWEEP_EVENT * int(log.state[LENGTH])
        return len(self.columns.bound) == 4 and self._behind > fold

    def missing(self, places: Ints, slots: SlotColumns, log: LogColumns) -> Longs:
        """What these members still need, counting every event. Cost: a look at each one's group."""
        self._look(np.unique(places // GROUP).astype(np.int32), slots, log, Report(1))
        return self.columns.need[places]

    def fold(self, slots: SlotColumns, log: LogColumns) -> None:
        """Hold all members against the log. To be called when everyone due has been settled."""
        self._sweep(np.arange(self.n_groups, dtype=np.int32), log, int(log.state[LENGTH]))
        self._behind = 0
        self._look(np.arange(self.n_groups, dtype=np.int32), slots, log, Report(1))

    def forget_log(self, log: LogColumns) -> None:
        """The log was folded and cleared: choose the grid anew. Cost: linear in the places."""
        columns = self.columns
        columns.grid_weights[:] = 0
        columns.grid_sums[:] = 0
        self._choose_grid()
        fit_groups(columns, log, 0, self.n_groups, False)

    def compact(self, slots: SlotColumns, log: LogColumns) -> None:
        """Move all members together. Cost: linear, and a look at the groups that have seen some of the log."""
        is_late = self.columns.since[: self.n_groups] == 0
        self._look(np.flatnonzero(~is_late).astype(np.int32), slots, log, Report(1))
        parts = [self._members_at(np.flatnonzero(is_there)) for is_there in (is_late, ~is_late)]
        old = self.columns
        self.columns = _free_columns(len(old.bound) // 2, 1)._replace(
            **{name: column for name, column in old._asdict().items() if name.startswith("grid")}
        )
        self.n_groups, self._open_first = 0, -1
        for members in parts:
            first = self._new_groups(-(-len(members.slots) // GROUP))
            self._put(members, first * GROUP, slots, log)
        # The late ones are still to be held against the whole log: the next look finds out when.
        n_late = -(-len(parts[0].slots) // GROUP)
        for column in (self.columns.since, self.columns.base, self.columns.due):
            column[:n_late] = 0

    def members(self) -> Members:
        """Every member, as of the last `fold`."""
        return self._members_at(np.arange(self.n_groups))

    def _members_at(self, groups: np.ndarray) -> Members:
        columns = self.columns
        places = (groups[:, np.newaxis] * GROUP + np.arange(GROUP)).ravel()
        places = places[columns.slot[places] >= 0]
        return Members(
            columns.slot[places],
            np.stack([bound[places] for bound in columns.bound[::2]]),
            np.stack([-bound[places] for bound in columns.bound[1::2]]),
            columns.need[places],
        )

    def _look(self, groups: Ints, slots: SlotColumns, log: LogColumns, report: Report) -> None:
        report.fill(
            lambda begin, rows: look_at_groups(self.columns, slots, log, groups, begin, rows), len(groups)
        )

    def _sweep(self, groups: Ints, log: LogColumns, length: int) -> None:
        """Hold those that have seen nothing of the log against its first events at once, where that is faster.

        Nobody matures there. Two dimensions only: others have no sweep.
        """
        columns = self.columns
        groups = groups[columns.since[groups] == 0]
        is_faster = len(groups) * (length - SWEEP_MEMBER * GROUP) > SWEEP_EVENT * length
        if len(columns.bound) != 4 or not is_faster:
            return
        places = (groups[:, np.newaxis] * GROUP + np.arange(GROUP, dtype=np.int32)).ravel()
        places = places[columns.slot[places] >= 0]
        orders = [np.argsort(log.values[axis, :length]) for axis in range(2)]
        ranks = np.empty(length, np.int32)
        ranks[orders[1]] = np.arange(length, dtype=np.int32)
        bounds = []
        for axis, order in enumerate(orders):
            values = log.values[axis, order]
            low, high = columns.bound[2 * axis, places], -columns.bound[2 * axis + 1, places]
            bounds.append(np.searchsorted(values, low, "left").astype(np.int32))
            bounds.append(np.searchsorted(values, high, "right").astype(np.int32))
        held = np.empty(len(places), np.int64)
        sweep_boxes(Sweep(ranks[orders[0]], log.weights[orders[0]], *bounds), held)
        columns.need[places] -= held
        columns.since[groups] = length

    def _put(self, members: Members, begin: int, slots: SlotColumns, log: LogColumns) -> None:
        """Write members to the free places from `begin` on, and let them count from now."""
        end = begin + len(members.slots)
        first, last = begin // GROUP, -(-end // GROUP)
        # Whoever is in these groups already must not lose what it has not been held against.
        self._look(np.arange(first, last, dtype=np.int32), slots, log, Report(1))
        columns = self.columns
        columns.bound[::2, begin:end] = members.low
        columns.bound[1::2, begin:end] = -members.high
        columns.need[begin:end] = members.need
        columns.slot[begin:end] = members.slots
        slots.place[members.slots] = np.arange(begin, end, dtype=np.int32)
        fit_groups(columns, log, first, last, True)

    def _free(self, places: Ints | slice) -> None:
        columns = self.columns
        columns.bound[:, places] = np.inf
        columns.need[places] = LARGEST
        columns.slot[places] = NOWHERE

    def _sort_open(self, slots: SlotColumns, log: LogColumns) -> None:
        """Sort the members of the open groups; if they are many, these groups are closed."""
        first, room = self._open_first, OPEN_GROUPS * GROUP
        self._look(np.arange(first, first + OPEN_GROUPS, dtype=np.int32), slots, log, Report(1))
        begin = first * GROUP
        members = self._members_at(np.arange(first, first + OPEN_GROUPS))
        self._free(slice(begin, begin + room))
        self._put(members.take(members.order()), begin, slots, log)
        fit_groups(self.columns, log, first, first + OPEN_GROUPS, True)
        self._open_used = len(members.slots)
        if self._open_used > room // 2:
            self._open_first = -1

    def _new_groups(self, count: int) -> int:
        """Add free groups at the end; the first of them."""
        first = self.n_groups
        self.n_groups += count
        have = len(self.columns.slack)
        if self.n_groups > have:
            larger = _free_columns(len(self.columns.bound) // 2, max(self.n_groups, 2 * have))
            for column, wider in zip(self.columns, larger, strict=True):
                wider[tuple(slice(size) for size in column.shape)] = column
            self.columns = larger
        return first

    def _choose_grid(self) -> None:
        """Put as many bounds of members into each row and each column of cells."""
        columns = self.columns
        places = np.flatnonzero(columns.slot >= 0)
        places = places[:: max(len(places) // SAMPLE, 1)]
        if len(places) == 0:
            return
        for axis in range(2):
            bounds = np.sort(np.concatenate([columns.bound[2 * axis, places], -columns.bound[2 * axis + 1, places]]))
            columns.grid_edges[axis] = bounds[np.arange(1, GRID) * len(bounds) // GRID]


def _free_columns(axes: int, groups: int) -> BoxColumns:
    places = groups * GROUP
    sides = 2 * axes
    return BoxColumns(
        bound=np.full((sides, places), np.inf),
        need=np.full(places, LARGEST, np.int64),
        slot=np.full(places, NOWHERE, np.int32),
        sorted_bounds=np.full((groups, sides * GROUP), np.inf),
        bound_ranks=np.zeros((groups, sides * GROUP), np.uint8),
        cover=np.full((sides, groups), np.inf),
        core=np.full((sides, groups), -np.inf),
        slack=np.full(groups, LARGEST, np.int64),
        due=np.full(groups, LARGEST, np.int64),
        since=np.zeros(groups, np.int64),
        base=np.zeros(groups, np.int64),
        cover_cells=np.zeros((4, groups), np.int32),
        grid_edges=np.full((2, GRID - 1), np.inf),
        grid_weights=np.zeros((GRID, GRID), np.int64),
        grid_sums=np.zeros((GRID + 1, GRID + 1), np.int64),
    )
