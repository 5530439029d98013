"""What the views keep: subscriptions in tiles, lists, rows, the grid; how it is placed, ranked and grown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tocsin.indexes.contract import ABSENT, Floats, Ints, Longs
from tocsin.indexes.shared.columns import Slots, grown
from tocsin.indexes.shared.programs import Program
from tocsin.indexes.shared.programs_kernels import BLOCK, THETA
from tocsin.indexes.windows import views_columns as named
from tocsin.indexes.windows.terms import linear_terms, weigh
from tocsin.indexes.windows.views_columns import (
    TILE,
    HotRows,
    ViewEvents,
    ViewLanes,
    ViewPool,
    ViewRanking,
    ViewRows,
    ViewScratch,
)
from tocsin.indexes.windows.views_grid import cells_of, is_part_hot, new_grid, rows_in
from tocsin.indexes.windows.views_grid_kernels import heat_parts, reach_cells
from tocsin.indexes.windows.views_rank_kernels import (
    BestRows,
    base_size,
    fresh_size,
    list_room,
    rank_afresh,
)
from tocsin.indexes.windows.views_tree import MANY_TO_RANK, neighbours, new_best, plain_tree, taken, tree_of

#: Many tiles have a coarser grid, down to so many cells: it takes time to let cells know tiles. So have
#: scores that are not weighted sums, which take so many times as long, and few rows: so many have a cell.
CELLS_TIMES_TILES = 1 << 23
INTERPRETED = 8
ROWS_OF_A_CELL = 2
LEAST_CELLS = 1 << 13
#: What building a grid anew costs for a row and for a subscription, in tests of a row against a
#: tile; and what it is never less than.
ROW_COST = 4
SUBSCRIPTION_COST = 400
LEAST_TESTS = 4096
#: Rows, and lists, get twice the room up to so much, and then an eighth more: a window keeps its length.
#: Working memory for more entries than that is given back when a delta has fewer than an eighth of them.
LARGE = 1 << 16
EIGHTH = 8
#: Bytes of a cache line.
LINE = 64
#: Terms of a weighted sum that are scored together.
TOGETHER = 4


class ViewState:
    """The columns of `PreferenceViews`, which owns it."""

    def __init__(
        self,
        dimensions: int,
        program: Program,
        descending: bool,
        newest_first: bool,
        capacity: int,
        cells: int,
    ) -> None:
        terms = linear_terms(program)
        #: weights that are no thetas as they are: rows of the lanes' thetas, after the row of zeros
        self._made = [weight for weight in terms.weight if weight.op != THETA]
        rows = iter(range(program.n_theta + 1, program.n_theta + 1 + len(self._made)))
        term_theta = [weight.place if weight.op == THETA else next(rows) for weight in terms.weight]
        term_theta += [program.n_theta] * (-len(term_theta) % TOGETHER)
        self.ranking = ViewRanking(
            program,
            dimensions,
            1.0 if descending else -1.0,
            1 if newest_first else -1,
            terms.column,
            np.array(term_theta, np.int32),
        )
        self.capacity = capacity
        self._cells = cells
        n, n_columns = capacity, dimensions + program.n_columns
        #: int32 (slots,): where each subscription is, -1 where it is not there
        self.lane_of: Ints = np.full(n, -1, np.int32)
        self.lanes = self._no_lanes(TILE)
        self._free_lanes = Slots()
        #: the largest k seen: how long a list may become
        self._largest_k = 0
        self.rows = ViewRows(
            np.empty((n_columns, n)), np.zeros(n, np.int64), np.zeros(n, np.uint8), np.zeros(n, np.int32)
        )
        self.hot = HotRows(
            np.empty(n, np.int32), np.empty(n, np.int32), np.empty((n, n_columns)), np.empty(n, np.bool_)
        )
        self.pool = ViewPool(np.empty(n, np.int32), np.empty(n))
        #: int64: the kernels' counters and cursor
        self.cursor: Longs = np.zeros(named.STATE_SIZE, np.int64)
        self.events = _new_events(8 * TILE + capacity)
        self.scratch = self._new_scratch()
        #: for lists that run short
        self.best = self._new_best(0, 0)
        #: entries of the delta being taken
        self.n_entries = 0
        #: how many bases were lowered together the last time, and up to which lane
        self._n_lowered, self._lowered_end = 1, -TILE
        #: subscriptions registered since the grid was built, and how many there were then
        self._n_loose = 0
        self._n_built = 0
        #: rows when the grid was built, and tests a row a while later
        self._rows_built = 0
        self._usual_tests = np.inf
        self.grid = new_grid(self.rows.values[:, :0], np.empty(0, np.bool_), 1, cells)
        self._reset_counters()

    @property
    def n_cells(self) -> int:
        """How many cells the grid has."""
        return len(self.grid.is_hot)

    def live(self) -> Longs:
        """The slots of the subscriptions that are there, in order."""
        return np.flatnonzero(self.lane_of >= 0)

    def listed(self, lanes: np.ndarray, sizes: Longs) -> tuple[Longs, Longs]:
        """Whose (index into `lanes`) and where in the pool: the first `sizes[lane]` of each list."""
        lengths = sizes[lanes]
        owner = np.repeat(np.arange(len(lanes)), lengths)
        shift = self.lanes.list_start[lanes] - (np.cumsum(lengths) - lengths)
        return owner, np.arange(len(owner)) + shift[owner]

    def ordered(self, slots: np.ndarray) -> Longs:
        """Where in the pool the whole lists of `slots` are, each best first."""
        owner, places = self.listed(self.lane_of[slots], self.lanes.list_size)
        tie = self.ranking.tie_sign * self.rows.born[self.pool.row[places]]
        return places[np.lexsort((-tie, -self.pool.key[places], owner))]

    def last_keys(self, chosen: np.ndarray) -> Floats:
        """The keys of the k-th rows of the lists of lanes, -inf where there are fewer."""
        lanes = self.lanes
        is_long = lanes.list_size[chosen] >= lanes.k[chosen]
        keys = np.full(len(chosen), -np.inf)
        long = chosen[is_long]
        keys[is_long] = self.pool.key[lanes.list_start[long] + lanes.k[long] - 1]
        return keys

    def place(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Write the bound values of new subscriptions into free lanes. Their lists are empty."""
        top = int(slots.max()) + 1
        self.lane_of = grown(self.lane_of, top, -1)
        taken = self._free_lanes.take(len(slots))
        self._widen_lanes(self._free_lanes.top)
        lanes = self.lanes
        if lanes.lo.shape[0]:
            lanes.lo[:, taken] = values["lo"].T
            lanes.hi[:, taken] = values["hi"].T
        n_theta = self.ranking.program.n_theta
        if n_theta:
            lanes.theta[:n_theta, taken] = values["theta"].T
        for row, weight in enumerate(self._made, start=n_theta + 1):
            lanes.theta[row, taken] = weigh(weight, lanes.theta[:n_theta, taken])
        # Nothing reaches a lane before it is ranked.
        lanes.slot[taken] = slots
        lanes.k[taken] = values["k"]
        self.lane_of[slots] = taken
        self._largest_k = max(self._largest_k, int(values["k"].max()))
        self._n_loose += len(slots)
        self.scratch = self._fitted_scratch(self.n_entries)

    def rank_new(self, slots: Ints) -> None:
        """Rank what is there for subscriptions just placed, and let cells know them."""
        # A grid that was cut for nobody is one cell.
        if self._n_built == 0 or self._n_loose > max(TILE, self._n_built):
            self.rebuild(is_listing=True)
            return
        lanes = self.lane_of[slots]
        self._rank(lanes, is_listing=True)
        self._reach(lanes)
        rows = self.pool.row[self.listed(lanes, self.lanes.list_size)[1]]
        self.hot.is_listed[self.rows.hot_at[rows]] = True

    def close(self, slots: Ints) -> None:
        """Remove subscriptions."""
        lanes = self.lanes
        taken = self.lane_of[slots]
        lanes.slot[taken] = self.lane_of[slots] = -1
        lanes.floor[taken] = lanes.base[taken] = lanes.last[taken] = np.nan
        for column in (lanes.k, lanes.list_start, lanes.list_room, lanes.list_size):
            column[taken] = 0
        self._free_lanes.give_back(taken)

    def lower_bases(self, lane: int) -> None:
        """Lower the base of a list that ran short, and of its neighbours: when rows get worse, they are next.

        Twice as many each time that it goes on where the last ones ended. Cost: all rows times their number
        if they are few, else all rows n log n and a search for each.
        """
        goes_on = 0 <= lane - self._lowered_end < max(TILE, self._n_lowered)
        self._n_lowered = 2 * self._n_lowered if goes_on else 1
        self._lowered_end = min(lane + self._n_lowered, len(self.lanes.slot))
        near = np.arange(lane, self._lowered_end, dtype=np.int32)
        near = near[self.lanes.slot[near] >= 0]
        before = self.lanes.base[near]
        self._rank(near, is_listing=False)
        self.lanes.base[near] = np.minimum(self.lanes.base[near], before)
        self._reach(near)

    def rebuild(self, *, is_listing: bool) -> None:
        """Sort subscriptions into tiles, find their bases (and lists), cut the space anew.

        Cost: n log n in rows and in subscriptions, and a search for each subscription.
        """
        slots = self.live().astype(np.int32)
        self._sort_lanes(slots)
        if is_listing:
            self._empty_pool()
        lanes = np.arange(len(slots), dtype=np.int32)
        is_wanted = self._rank(lanes, is_listing=is_listing)
        there = np.flatnonzero(self.rows.mark)
        is_wanted = is_wanted[there]
        values = taken(self.rows.values, there.astype(np.int32))
        n_bytes = max(1, -(-len(self.lanes.slot) // (8 * TILE)))
        n_tiles = len(self.lanes.slot) // TILE
        useful = CELLS_TIMES_TILES // n_tiles // (1 if len(self.ranking.term_column) else INTERPRETED)
        useful = min(useful, len(there) // ROWS_OF_A_CELL)
        cells = min(self._cells, max(LEAST_CELLS, useful))
        self.grid = new_grid(values, is_wanted, n_bytes, cells)
        np.minimum(self.rows.mark, named.THERE, out=self.rows.mark)
        self.cursor[named.N_HOT] = self.cursor[named.N_HOLES] = 0
        self._reach(lanes)
        listed = self.pool.row[self.listed(lanes, self.lanes.list_size)[1]]
        self.hot.is_listed[self.rows.hot_at[listed]] = True
        self._n_loose, self._n_built = 0, len(slots)
        self._rows_built = len(there)
        self._usual_tests = np.inf
        self._reset_counters()

    def is_stale(self) -> bool:
        """Whether the grid has become much worse than it was, or there are many more rows or subscriptions.

        Asked whenever as much was spent on tests as on building a grid.
        """
        held, tests = int(self.cursor[named.N_HELD]), int(self.cursor[named.N_TESTS])
        rate = tests / max(held, 1)
        n_rows = int(self.cursor[named.N_ROWS])
        is_stale = (
            rate > 2 * self._usual_tests or n_rows > 2 * self._rows_built or self._n_loose > self._n_built
        )
        self._usual_tests = min(self._usual_tests, rate)
        self._reset_counters()
        return is_stale

    def set_rows(self, rows: Ints, born: Longs, values: Floats) -> None:
        """Put rows in place, or take them away; the grid is to be built anew."""
        self.rows.born[rows] = born
        self.rows.mark[rows] = born != ABSENT
        self.rows.values[:, rows] = values.T
        self.cursor[named.N_ROWS] = np.count_nonzero(self.rows.mark)

    def make_room_for_rows(self, top: int) -> None:
        """Room for row slots below `top`. Cost: linear, amortised constant a row."""
        have = len(self.rows.born)
        if top > have:
            room = max(top, have + (have if have < LARGE else have // EIGHTH))
            room = -(-room // EIGHTH) * EIGHTH
            self.rows = ViewRows(*(_lengthened(column, room) for column in self.rows))
        self.scratch = self._fitted_scratch(self.n_entries)

    def make_room_for_entries(self) -> None:
        """Room for the delta being taken; what a much larger one took is given back."""
        if 2 * self.cursor.item(named.N_HOLES) > self.cursor.item(named.N_HOT):
            self._pack_hot()
        room = self.cursor.item(named.N_HOT) + self.n_entries
        if self.n_entries < self.cursor[named.FEW_ENTRIES]:
            self.scratch = self._new_scratch()
            self.hot = HotRows(*(column[:room].copy() for column in _arrays(self.hot)))
        self._make_room_for_hot(room)
        self.scratch = self._fitted_scratch(self.n_entries)
        has_room_for = len(self.scratch.going)
        self.cursor[named.FEW_ENTRIES] = has_room_for / EIGHTH if has_room_for > LARGE else 0

    def grow_events(self) -> None:
        """Twice the room for events."""
        self.events = ViewEvents(*(grown(column, len(column) + 1) for column in self.events))
        self.scratch = self._fitted_scratch(self.n_entries)

    def grow_pool(self) -> None:
        """Pack the lists together, into more room unless that frees an eighth of it. Cost: all lists."""
        taken = np.flatnonzero(self.lanes.slot >= 0)
        _, places = self.listed(taken, self.lanes.list_room)
        rooms = self.lanes.list_room[taken]
        used = len(places)
        capacity = len(self.pool.row)
        if used > capacity - capacity // EIGHTH or used == self.cursor[named.POOL_END]:
            capacity += capacity if capacity < LARGE else capacity // EIGHTH
        row, key = np.empty(capacity, np.int32), np.empty(capacity)
        row[:used] = self.pool.row[places]
        key[:used] = self.pool.key[places]
        self.lanes.list_start[taken] = np.cumsum(rooms) - rooms
        self.pool = ViewPool(row, key)
        self.cursor[named.POOL_END] = used

    def check_columns(self) -> None:
        """Assert that columns agree with each other."""
        lanes, rows = self.lanes, self.rows
        live = self.live()
        taken = self.lane_of[live]
        n_hot = int(self.cursor[named.N_HOT])
        assert (lanes.head == -1).all()
        assert (self.scratch.told_at == -1).all()
        assert np.array_equal(lanes.slot[taken], live)
        assert (lanes.slot >= 0).sum() == len(live) == len(self._free_lanes)
        free = lanes.slot < 0
        assert np.isnan(lanes.floor[free]).all()
        assert np.isnan(lanes.base[free]).all()
        assert (lanes.k[free] == 0).all()
        assert (lanes.list_size[free] == 0).all()
        assert (lanes.theta[self.ranking.program.n_theta] == 0).all()
        assert (lanes.base[taken] <= lanes.floor[taken]).all()
        assert np.array_equal(lanes.last[taken], self.last_keys(taken))
        slots = np.flatnonzero(rows.mark).astype(np.int32)
        assert self.cursor[named.N_ROWS] == len(slots)
        cells = cells_of(self.grid, rows.values, slots)
        is_hot = rows.mark == named.HOT
        assert np.array_equal(slots[self.grid.is_hot[cells]], np.flatnonzero(is_hot))
        cold = rows._replace(mark=np.minimum(rows.mark, named.THERE))
        assert is_hot[rows_in(self.grid, is_part_hot(self.grid), cold)].sum() == is_hot.sum()
        at = np.flatnonzero(self.hot.row[:n_hot] >= 0)
        assert len(at) + self.cursor[named.N_HOLES] == n_hot
        hot = self.hot.row[at]
        assert np.array_equal(rows.hot_at[hot], at)
        assert np.array_equal(self.hot.values[at].T, rows.values[:, hot], equal_nan=True)
        assert np.array_equal(self.hot.cell[at], cells_of(self.grid, rows.values, hot))
        assert np.array_equal(self.grid.is_hot, (self.grid.reach > 0).any(axis=1))
        assert (lanes.list_size <= lanes.list_room).all()
        _, owned = self.listed(taken, lanes.list_room)
        assert len(np.unique(owned)) == len(owned)
        assert not len(owned) or owned.max() < self.cursor[named.POOL_END] <= len(self.pool.row)

    def _rank(self, lanes: Ints, *, is_listing: bool) -> np.ndarray:
        """Set the bases, and lists, of `lanes`; which rows were ranked, by slot."""
        n_slots = len(self.rows.born)
        is_tree = len(lanes) >= MANY_TO_RANK
        tree = tree_of(self.rows, n_slots) if is_tree else plain_tree(self.rows, n_slots)
        room = min(int(base_size(max(1, self._largest_k))), len(tree.row)) + 1
        best = self._new_best(room, tree.branch_low.shape[1])
        is_ranked = np.zeros(n_slots, np.bool_)
        state = np.array([self.cursor[named.POOL_END], 0], np.int64)
        with np.errstate(all="ignore"):
            while rank_afresh(
                self.ranking, self.lanes, tree, len(tree.row), self.rows, best, self.pool, state, lanes,
                is_listing, is_ranked,
            ):  # fmt: skip
                row, key = self.pool
                self.pool = ViewPool(grown(row, len(row) + 1), grown(key, len(key) + 1))
        self.lanes.base[lanes] = np.minimum(self.lanes.base[lanes], self.lanes.floor[lanes])
        self.lanes.last[lanes] = self.last_keys(lanes)
        self.cursor[named.POOL_END] = state[0]
        return is_ranked

    def _reach(self, lanes: Ints) -> None:
        """Let cells know the tiles of `lanes`; the rows of cells that turn hot join the hot rows."""
        n_columns = self.rows.values.shape[0]
        is_new = np.zeros(len(self.grid.is_hot), np.bool_)
        is_new[0] = len(self.grid.is_hot) > 0 and self.cursor[named.N_HOT] == 0
        low, high = np.empty((n_columns, 1)), np.empty((n_columns, 1))
        stack = np.empty((2, self.ranking.program.depth, BLOCK))
        bounds = np.empty((2, TILE))
        waiting = np.empty((64 + 8 * n_columns, 2 * n_columns), np.int32)
        tiles = np.unique(lanes // TILE)
        whole = len(lanes) > 2 * len(tiles)
        with np.errstate(all="ignore"):
            for first in (tiles * TILE if whole else lanes).tolist():
                reach_cells(
                    self.ranking, self.lanes, first, TILE if whole else 1, self.grid, first // TILE,
                    low, high, stack[0], stack[1], bounds, waiting, is_new,
                )  # fmt: skip
        # In a new grid, nothing has joined yet that is outside of it.
        is_touched = is_part_hot(self.grid) & is_new[0]
        heat_parts(self.grid, is_new, np.empty((3, n_columns), np.int32), is_touched)
        rows = rows_in(self.grid, is_touched, self.rows)
        cells = cells_of(self.grid, self.rows.values, rows)
        is_hot = self.grid.is_hot[cells]
        rows, cells = rows[is_hot], cells[is_hot]
        begin = int(self.cursor[named.N_HOT])
        end = begin + len(rows)
        # As much room must be left for a delta as there was.
        self._make_room_for_hot(end + self.n_entries)
        self.rows.hot_at[rows] = np.arange(begin, end)
        self.rows.mark[rows] = named.HOT
        self.hot.row[begin:end] = rows
        self.hot.cell[begin:end] = cells
        self.hot.values[begin:end] = self.rows.values[:, rows].T
        self.hot.is_listed[begin:end] = False
        self.cursor[named.N_HOT] = end

    def _empty_pool(self) -> None:
        """Forget all lists, and make room for new ones."""
        n_rows = int(self.cursor[named.N_ROWS])
        room = 0
        for k, count in zip(*np.unique(self.lanes.k, return_counts=True), strict=True):
            room += int(count) * int(list_room(int(k), min(int(fresh_size(int(k))), n_rows)))
        if room > len(self.pool.row):
            # Some lists will have to move.
            room += room // EIGHTH
            self.pool = ViewPool(np.empty(room, np.int32), np.empty(room))
        self.cursor[named.POOL_END] = 0

    def _sort_lanes(self, slots: Ints) -> None:
        """Put subscriptions with near parameters into the same tiles, and close all gaps."""
        lane = self.lane_of[slots]
        old = self.lanes
        thetas = old.theta[: self.ranking.program.n_theta, lane]
        parameters = np.concatenate([thetas, old.lo[:, lane], old.hi[:, lane]])
        order = neighbours(np.nan_to_num(parameters), TILE)
        lane = lane[order]
        n = len(slots)
        lanes = self._no_lanes(max(TILE, -(-n // TILE) * TILE))
        for into, source in zip(_arrays(lanes), _arrays(old), strict=True):
            into[..., :n] = source[..., lane]
        self.lanes = lanes
        self.lane_of[slots[order]] = np.arange(n, dtype=np.int32)
        self._free_lanes = Slots()
        self._free_lanes.take(n)

    def _no_lanes(self, count: int) -> ViewLanes:
        n_dimensions, n_theta = self.ranking.first_column, self.ranking.program.n_theta
        return ViewLanes(
            slot=np.full(count, -1, np.int32),
            k=np.zeros(count, np.int64),
            lo=np.zeros((n_dimensions, count)),
            hi=np.zeros((n_dimensions, count)),
            theta=np.zeros((n_theta + 1 + len(self._made), count)),
            floor=np.full(count, np.nan),
            floor_tie=np.zeros(count, np.int64),
            last=np.full(count, np.nan),
            base=np.full(count, np.nan),
            list_start=np.zeros(count, np.int64),
            list_room=np.zeros(count, np.int64),
            list_size=np.zeros(count, np.int64),
            head=np.full(count, -1, np.int32),
        )

    def _widen_lanes(self, count: int) -> None:
        """Room for `count` lanes, in whole tiles, and for as many tiles in the grid."""
        have = len(self.lanes.slot)
        if count > have:
            lanes = self._no_lanes(max(2 * have, -(-count // TILE) * TILE))
            for into, source in zip(_arrays(lanes), _arrays(self.lanes), strict=True):
                into[..., :have] = source
            self.lanes = lanes
        n_bytes = -(-len(self.lanes.slot) // (8 * TILE))
        have = self.grid.reach.shape[1]
        if n_bytes > have:
            reach = np.zeros((len(self.grid.is_hot), n_bytes), np.uint8)
            reach[:, :have] = self.grid.reach
            reach[0] = 255
            self.grid = self.grid._replace(reach=reach)

    def _new_best(self, room: int, n_branches: int) -> BestRows:
        return new_best(self.ranking.program, len(self.rows.values), room, n_branches)

    def _pack_hot(self) -> None:
        """Close the holes among the hot rows. Cost: linear in hot rows, constant for each that has gone."""
        at = np.flatnonzero(self.hot.row[: self.cursor[named.N_HOT]] >= 0)
        for column in _arrays(self.hot):
            column[: len(at)] = column[at]
        self.rows.hot_at[self.hot.row[: len(at)]] = np.arange(len(at))
        self.cursor[named.N_HOT], self.cursor[named.N_HOLES] = len(at), 0

    def _make_room_for_hot(self, count: int) -> None:
        row, cell, values, is_listed = self.hot
        if count > len(row):
            self.hot = HotRows(
                grown(row, count), grown(cell, count), grown(values, count), grown(is_listed, count)
            )

    def _new_scratch(self) -> ViewScratch:
        ints = np.empty(0, np.int32)
        floats, longs = np.empty(0), np.empty(0, np.int64)
        return ViewScratch(
            np.empty((self.ranking.program.depth, BLOCK)), np.empty(BLOCK), np.empty((3, BLOCK), np.int32),
            np.empty((len(self.rows.values), 1)),
            ints, ints, ints, ints, ints, ints, ints, ints, ints, floats, longs, ints, ints, ints, floats,
            ints, ints, floats, np.empty(0, np.int8),
        )  # fmt: skip

    def _fitted_scratch(self, n_entries: int) -> ViewScratch:
        """Scratch for a delta of `n_entries`, all events that there is room for, and the longest list."""
        scratch = self.scratch
        n_events, n_slots, n_lanes = len(self.events.next), len(self.lane_of), len(self.lanes.slot)
        longest = min(3 * self._largest_k + 32, len(self.rows.born)) + 1
        if longest > len(self.best.key):
            self.best = self._new_best(longest, 0)
        sizes = (2 * n_entries, n_entries, n_lanes, n_slots, n_events, longest)
        if (
            len(scratch.todo) >= 2 * n_entries
            and len(scratch.affected) >= n_lanes
            and len(scratch.told_at) >= n_slots
            and len(scratch.add_key) >= n_events
            and len(scratch.more_key) >= longest
        ):
            return scratch
        each = np.repeat(sizes, (2, 3, 2, 2, 5, 5)).tolist()
        fitted = (_fitted(column, size) for column, size in zip(_arrays(scratch[4:]), each, strict=True))
        scratch = ViewScratch(scratch.stack, scratch.score, scratch.stretch, scratch.row_values, *fitted)
        scratch.told_at[:] = -1
        return scratch

    def _reset_counters(self) -> None:
        self.cursor[named.N_HELD] = self.cursor[named.N_TESTS] = 0
        cost = ROW_COST * self.cursor[named.N_ROWS] + SUBSCRIPTION_COST * self._n_built
        self.cursor[named.MOST_TESTS] = max(LEAST_TESTS, cost)


def _new_events(room: int) -> ViewEvents:
    return ViewEvents(
        np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room)
    )


def _fitted(column: np.ndarray, size: int) -> np.ndarray:
    """A column with room for `size`; what it held is of no use any more."""
    return column if size <= len(column) else np.empty(max(size, 2 * len(column)), column.dtype)


def _lengthened(array: np.ndarray, room: int) -> np.ndarray:
    """A column, or columns, with room for `room` rows; new ones hold zeros. At the start of a cache line."""
    shape = (*array.shape[:-1], room)
    held = np.zeros(int(np.prod(shape)) * array.itemsize + LINE, np.uint8)
    begin = -held.ctypes.data % LINE
    longer = held[begin : begin + held.size - LINE].view(array.dtype).reshape(shape)
    longer[..., : array.shape[-1]] = array
    return longer


def _arrays(columns: tuple[Any, ...]) -> list[np.ndarray]:
    """Columns of different types, as arrays."""
    return list(columns)
