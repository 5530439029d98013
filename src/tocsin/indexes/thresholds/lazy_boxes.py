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
    GROUP,
    LARGEST,
    NOWHERE,
    LogColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.lazy_log import Report
from tocsin.indexes.thresholds.lazy_members import Members

#: Groups that small registrations fill in the order of arrival, before they are sorted into tight ones.
OPEN_GROUPS = 16
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
        before = int(report.rows.n_rows[0])
        self._look(groups, slots, log, report)
        matured = report.rows.subscription[before : report.rows.n_rows[0]]
        self.n_members -= int(np.count_nonzero(~slots.is_repeating[matured]))

    def missing(self, places: Ints, slots: SlotColumns, log: LogColumns) -> Longs:
        """What these members still need, counting every event. Cost: a look at each one's group."""
        self._look(np.unique(places // GROUP).astype(np.int32), slots, log, Report(1))
        return self.columns.need[places]

    def fold(self, slots: SlotColumns, log: LogColumns) -> None:
        """Hold all members against the log. To be called when everyone due has been settled."""
        self._look(np.arange(self.n_groups, dtype=np.int32), slots, log, Report(1))

    def forget_log(self, log: LogColumns) -> None:
        """The log was folded and cleared: choose the grid anew. Cost: linear in the places."""
        columns = self.columns
        columns.grid_weights[:] = 0
        columns.grid_sums[:] = 0
        self._choose_grid()
        fit_groups(columns, log, 0, self.n_groups)

    def members(self) -> Members:
        """Every member, as of the last `fold`."""
        return self._members(0, self.n_groups * GROUP)

    def _members(self, begin: int, end: int) -> Members:
        columns = self.columns
        places = begin + np.flatnonzero(columns.slot[begin:end] >= 0)
        return Members(
            columns.slot[places], columns.low[:, places], columns.high[:, places], columns.need[places]
        )

    def _look(self, groups: Ints, slots: SlotColumns, log: LogColumns, report: Report) -> None:
        report.fill(
            lambda begin, rows: look_at_groups(self.columns, slots, log, groups, begin, rows), len(groups)
        )

    def _put(self, members: Members, begin: int, slots: SlotColumns, log: LogColumns) -> None:
        """Write members to the free places from `begin` on, and let them count from now."""
        end = begin + len(members.slots)
        first, last = begin // GROUP, -(-end // GROUP)
        # Whoever is in these groups already must not lose what it has not been held against.
        self._look(np.arange(first, last, dtype=np.int32), slots, log, Report(1))
        columns = self.columns
        columns.low[:, begin:end] = members.low
        columns.high[:, begin:end] = members.high
        columns.need[begin:end] = members.need
        columns.slot[begin:end] = members.slots
        slots.place[members.slots] = np.arange(begin, end, dtype=np.int32)
        fit_groups(columns, log, first, last)

    def _free(self, places: Ints | slice) -> None:
        columns = self.columns
        columns.low[:, places] = np.inf
        columns.high[:, places] = -np.inf
        columns.need[places] = LARGEST
        columns.slot[places] = NOWHERE

    def _sort_open(self, slots: SlotColumns, log: LogColumns) -> None:
        """Sort the members of the open groups; if they are many, these groups are closed."""
        first, room = self._open_first, OPEN_GROUPS * GROUP
        self._look(np.arange(first, first + OPEN_GROUPS, dtype=np.int32), slots, log, Report(1))
        begin = first * GROUP
        members = self._members(begin, begin + room)
        self._free(slice(begin, begin + room))
        self._put(members.take(members.order()), begin, slots, log)
        fit_groups(self.columns, log, first, first + OPEN_GROUPS)
        self._open_used = len(members.slots)
        if self._open_used > room // 2:
            self._open_first = -1

    def _new_groups(self, count: int) -> int:
        """Add free groups at the end; the first of them."""
        first = self.n_groups
        self.n_groups += count
        have = len(self.columns.slack)
        if self.n_groups > have:
            larger = _free_columns(len(self.columns.low), max(self.n_groups, 2 * have))
            for name, column in self.columns._asdict().items():
                if not name.startswith("grid"):
                    getattr(larger, name)[..., : column.shape[-1]] = column
            self.columns = larger._replace(
                **{name: column for name, column in self.columns._asdict().items() if name.startswith("grid")}
            )
        return first

    def _choose_grid(self) -> None:
        """Put as many bounds of members into each row and each column of cells."""
        columns = self.columns
        places = np.flatnonzero(columns.slot >= 0)
        places = places[:: max(len(places) // SAMPLE, 1)]
        if len(places) == 0:
            return
        for axis in range(min(len(columns.low), 2)):
            bounds = np.sort(np.concatenate([columns.low[axis, places], columns.high[axis, places]]))
            columns.grid_edges[axis] = bounds[np.arange(1, GRID) * len(bounds) // GRID]


def _free_columns(axes: int, groups: int) -> BoxColumns:
    places = groups * GROUP
    return BoxColumns(
        low=np.full((axes, places), np.inf),
        high=np.full((axes, places), -np.inf),
        need=np.full(places, LARGEST, np.int64),
        slot=np.full(places, NOWHERE, np.int32),
        sorted_bounds=np.zeros((2 * axes, places)),
        bound_ranks=np.zeros((2 * axes, places), np.uint8),
        cover_low=np.full((axes, groups), np.inf),
        cover_high=np.full((axes, groups), -np.inf),
        core_low=np.full((axes, groups), -np.inf),
        core_high=np.full((axes, groups), np.inf),
        slack=np.full(groups, LARGEST, np.int64),
        due=np.full(groups, LARGEST, np.int64),
        since=np.zeros(groups, np.int64),
        base=np.zeros(groups, np.int64),
        cover_cells=np.zeros((4, groups), np.int32),
        grid_edges=np.full((2, GRID - 1), np.inf),
        grid_weights=np.zeros((GRID, GRID), np.int64),
        grid_sums=np.zeros((GRID + 1, GRID + 1), np.int64),
    )
