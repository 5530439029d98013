"""State of candidate lists: subscriptions in tiles, lists, rows and grid; ranking, rebuilding and growth."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.arrays.columns import Slots, ensure_capacity
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.preferences.candidate_lists import layout
from tocsin.indexes.preferences.candidate_lists.grid import (
    MIN_TREE_SUBSCRIPTIONS,
    active_part_flags,
    cells_of,
    gather_rows,
    neighbour_order,
    new_grid,
    ranking_tree,
    rows_in_parts,
    unsorted_tree,
)
from tocsin.indexes.preferences.candidate_lists.grid_kernels import activate_parts, mark_reachable_cells
from tocsin.indexes.preferences.candidate_lists.layout import (
    TILE,
    CandidateRanking,
    CandidateRows,
    GridScratch,
    ListEvents,
    ListPool,
    PatchScratch,
    StoredRows,
    SubscriptionLanes,
)
from tocsin.indexes.preferences.candidate_lists.list_kernels import initial_size, list_capacity, refill_size
from tocsin.indexes.preferences.candidate_lists.rank_kernels import RankingHeap, rank_lanes
from tocsin.indexes.preferences.terms import evaluate_weight, linear_terms
from tocsin.kernels.programs import Program
from tocsin.kernels.scoring import THETA

#: With many tiles the grid is coarser, down to MIN_CELLS, because setting their bits takes time; also for
#: scores that are not weighted sums, which take INTERPRETED times as long, and for fewer than ROWS_OF_A_CELL
#: rows a cell.
CELLS_TIMES_TILES = 1 << 23
INTERPRETED = 8
ROWS_OF_A_CELL = 2
MIN_CELLS = 1 << 13
#: Cost of rebuilding the grid per row and per subscription, in tests of a row against a tile; and its lower
#: bound.
ROW_COST = 4
SUBSCRIPTION_COST = 400
MIN_TESTS = 4096
#: Rows and lists double their capacity up to this, then grow by an eighth: a window keeps its length. Working
#: memory for more entries is released when a delta has fewer than an eighth of them.
MAX_DOUBLED = 1 << 16
EIGHTH = 8
#: Bytes of a cache line.
LINE = 64
#: Terms of a weighted sum that are scored together.
TOGETHER = 4


class CandidateListState:
    """The columns of a `CandidateLists`."""

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
        #: weights computed from thetas: rows of the lanes' thetas, after the row of zeros
        self._computed_weights = [weight for weight in terms.weight if weight.op != THETA]
        rows = iter(range(program.n_theta + 1, program.n_theta + 1 + len(self._computed_weights)))
        term_theta = [weight.place if weight.op == THETA else next(rows) for weight in terms.weight]
        term_theta += [program.n_theta] * (-len(term_theta) % TOGETHER)
        self.ranking = CandidateRanking(
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
        #: int32 (slots,): lane of each subscription, -1 where there is none
        self.lane_of: Ints = np.full(n, -1, np.int32)
        self.lanes = self._empty_lanes(TILE)
        self._free_lanes = Slots()
        #: the largest k so far, which bounds the length of a list
        self._largest_k = 0
        self.rows = empty(StoredRows, columns=n_columns, slots=n)
        self.candidates = empty(CandidateRows, columns=n_columns, rows=n)
        self.pool = empty(ListPool, rows=n)
        #: int64: the kernels' counters and cursor
        self.cursor: Longs = np.zeros(layout.STATE_SIZE, np.int64)
        self.events = empty(ListEvents, events=8 * TILE + capacity)
        self.scratch = self._new_scratch()
        #: heap for lists that run short
        self.heap = self._new_heap(0, 0)
        #: entries of the current delta
        self.n_entries = 0
        #: refill floors lowered together the last time, and the lane at which that ended
        self._n_lowered, self._lowered_end = 1, -TILE
        #: subscriptions registered since the grid was built, and their number then
        self._n_new = 0
        self._n_built = 0
        #: rows when the grid was built, and the usual tests per row since
        self._rows_built = 0
        self._usual_tests = np.inf
        self.grid = new_grid(self.rows.values[:, :0], np.empty(0, np.bool_), 1, cells)
        self._reset_counters()

    @property
    def n_cells(self) -> int:
        """Cells of the grid."""
        return len(self.grid.is_active)

    def live(self) -> Longs:
        """The slots of live subscriptions, in order."""
        return np.flatnonzero(self.lane_of >= 0)

    def list_places(self, lanes: np.ndarray, sizes: Longs) -> tuple[Longs, Longs]:
        """Index into `lanes`, and place in the pool, of the first `sizes[lane]` rows of each list."""
        lengths = sizes[lanes]
        owner = np.repeat(np.arange(len(lanes)), lengths)
        shift = self.lanes.list_start[lanes] - (np.cumsum(lengths) - lengths)
        return owner, np.arange(len(owner)) + shift[owner]

    def sorted_places(self, slots: np.ndarray) -> Longs:
        """The places in the pool of the whole lists of `slots`, each best first."""
        owner, places = self.list_places(self.lane_of[slots], self.lanes.list_size)
        tie = self.ranking.tie_sign * self.rows.born[self.pool.row[places]]
        return places[np.lexsort((-tie, -self.pool.key[places], owner))]

    def kth_keys(self, chosen: np.ndarray) -> Floats:
        """The key of the k-th row in the list of each lane, -inf where there are fewer."""
        lanes = self.lanes
        is_long = lanes.list_size[chosen] >= lanes.k[chosen]
        keys = np.full(len(chosen), -np.inf)
        long = chosen[is_long]
        keys[is_long] = self.pool.key[lanes.list_start[long] + lanes.k[long] - 1]
        return keys

    def add_lanes(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Write the bound values of new subscriptions into free lanes. Their lists are empty."""
        top = int(slots.max()) + 1
        self.lane_of = ensure_capacity(self.lane_of, top, -1)
        lane_ids = self._free_lanes.take(len(slots))
        self._ensure_lane_capacity(self._free_lanes.top)
        lanes = self.lanes
        if lanes.lo.shape[0]:
            lanes.lo[:, lane_ids] = values["lo"].T
            lanes.hi[:, lane_ids] = values["hi"].T
        n_theta = self.ranking.program.n_theta
        if n_theta:
            lanes.theta[:n_theta, lane_ids] = values["theta"].T
        for row, weight in enumerate(self._computed_weights, start=n_theta + 1):
            lanes.theta[row, lane_ids] = evaluate_weight(weight, lanes.theta[:n_theta, lane_ids])
        # No row reaches a lane before it is ranked.
        lanes.slot[lane_ids] = slots
        lanes.k[lane_ids] = values["k"]
        self.lane_of[slots] = lane_ids
        self._largest_k = max(self._largest_k, int(values["k"].max()))
        self._n_new += len(slots)
        self.scratch = self._ensure_scratch(self.n_entries)

    def rank_new(self, slots: Ints) -> None:
        """Rank existing rows for new subscriptions, and set their tiles' bits."""
        # A grid that was built without subscriptions is a single cell.
        if self._n_built == 0 or self._n_new > max(TILE, self._n_built):
            self.rebuild(is_listing=True)
            return
        lanes = self.lane_of[slots]
        self._rank(lanes, is_listing=True)
        self._mark_reachable(lanes)
        rows = self.pool.row[self.list_places(lanes, self.lanes.list_size)[1]]
        self.candidates.is_listed[self.rows.candidate_at[rows]] = True

    def remove_lanes(self, slots: Ints) -> None:
        """Remove subscriptions."""
        lanes = self.lanes
        lane_ids = self.lane_of[slots]
        lanes.slot[lane_ids] = self.lane_of[slots] = -1
        lanes.floor[lane_ids] = lanes.refill_floor[lane_ids] = lanes.kth_key[lane_ids] = np.nan
        for column in (lanes.k, lanes.list_start, lanes.list_capacity, lanes.list_size):
            column[lane_ids] = 0
        self._free_lanes.release(lane_ids)

    def lower_refill_floors(self, lane: int) -> None:
        """Lower the refill floor of a list that ran short, and of its neighbours, which are likely next.

        Twice as many each time that it continues where the last call ended. Cost: rows times their number if
        they are few, else rows n log n and a search for each.
        """
        continues = 0 <= lane - self._lowered_end < max(TILE, self._n_lowered)
        self._n_lowered = 2 * self._n_lowered if continues else 1
        self._lowered_end = min(lane + self._n_lowered, len(self.lanes.slot))
        near = np.arange(lane, self._lowered_end, dtype=np.int32)
        near = near[self.lanes.slot[near] >= 0]
        before = self.lanes.refill_floor[near]
        self._rank(near, is_listing=False)
        self.lanes.refill_floor[near] = np.minimum(self.lanes.refill_floor[near], before)
        self._mark_reachable(near)

    def rebuild(self, *, is_listing: bool) -> None:
        """Sort subscriptions into tiles, find their refill floors (and lists), and build a new grid.

        Cost: n log n in rows and in subscriptions, and a search for each subscription.
        """
        slots = self.live().astype(np.int32)
        self._sort_lanes(slots)
        if is_listing:
            self._empty_pool()
        lanes = np.arange(len(slots), dtype=np.int32)
        is_wanted = self._rank(lanes, is_listing=is_listing)
        stored = np.flatnonzero(self.rows.mark)
        is_wanted = is_wanted[stored]
        values = gather_rows(self.rows.values, stored.astype(np.int32))
        n_bytes = max(1, -(-len(self.lanes.slot) // (8 * TILE)))
        n_tiles = len(self.lanes.slot) // TILE
        useful = CELLS_TIMES_TILES // n_tiles // (1 if len(self.ranking.term_column) else INTERPRETED)
        useful = min(useful, len(stored) // ROWS_OF_A_CELL)
        cells = min(self._cells, max(MIN_CELLS, useful))
        self.grid = new_grid(values, is_wanted, n_bytes, cells)
        np.minimum(self.rows.mark, layout.STORED, out=self.rows.mark)
        self.cursor[layout.N_CANDIDATES] = self.cursor[layout.N_HOLES] = 0
        self._mark_reachable(lanes)
        listed = self.pool.row[self.list_places(lanes, self.lanes.list_size)[1]]
        self.candidates.is_listed[self.rows.candidate_at[listed]] = True
        self._n_new, self._n_built = 0, len(slots)
        self._rows_built = len(stored)
        self._usual_tests = np.inf
        self._reset_counters()

    def is_stale(self) -> bool:
        """Whether the grid has become much worse than it was, or there are many more rows or subscriptions.

        Called whenever tests have cost as much as rebuilding the grid.
        """
        compared, tests = int(self.cursor[layout.N_COMPARED]), int(self.cursor[layout.N_TESTS])
        rate = tests / max(compared, 1)
        n_rows = int(self.cursor[layout.N_ROWS])
        is_stale = (
            rate > 2 * self._usual_tests or n_rows > 2 * self._rows_built or self._n_new > self._n_built
        )
        self._usual_tests = min(self._usual_tests, rate)
        self._reset_counters()
        return is_stale

    def set_rows(self, rows: Ints, born: Longs, values: Floats) -> None:
        """Store or remove rows; the grid must be rebuilt."""
        self.rows.born[rows] = born
        self.rows.mark[rows] = born != ABSENT
        self.rows.values[:, rows] = values.T
        self.cursor[layout.N_ROWS] = np.count_nonzero(self.rows.mark)

    def ensure_row_capacity(self, top: int) -> None:
        """Ensure capacity for row slots below `top`. Cost: amortised constant a row."""
        have = len(self.rows.born)
        if top > have:
            capacity = max(top, have + (have if have < MAX_DOUBLED else have // EIGHTH))
            capacity = -(-capacity // EIGHTH) * EIGHTH
            self.rows = StoredRows(*(_extended(column, capacity) for column in self.rows))
        self.scratch = self._ensure_scratch(self.n_entries)

    def ensure_entry_capacity(self) -> None:
        """Ensure capacity for the current delta; release what a much larger one needed."""
        if 2 * self.cursor.item(layout.N_HOLES) > self.cursor.item(layout.N_CANDIDATES):
            self._compact_candidates()
        capacity = self.cursor.item(layout.N_CANDIDATES) + self.n_entries
        if self.n_entries < self.cursor[layout.SHRINK_BELOW]:
            self.scratch = self._new_scratch()
            self.candidates = CandidateRows._make(column[:capacity].copy() for column in self.candidates)
        self._ensure_candidate_capacity(capacity)
        self.scratch = self._ensure_scratch(self.n_entries)
        n_fitting = len(self.scratch.leaving)
        self.cursor[layout.SHRINK_BELOW] = n_fitting / EIGHTH if n_fitting > MAX_DOUBLED else 0

    def grow_events(self) -> None:
        """Double the capacity for events."""
        self.events = grow(self.events, events=len(self.events.lane) + 1)
        self.scratch = self._ensure_scratch(self.n_entries)

    def grow_pool(self) -> None:
        """Compact the lists; grow the pool unless that frees an eighth of it. Cost: all lists."""
        lane_ids = np.flatnonzero(self.lanes.slot >= 0)
        _, places = self.list_places(lane_ids, self.lanes.list_capacity)
        capacities = self.lanes.list_capacity[lane_ids]
        used = len(places)
        capacity = len(self.pool.row)
        if used > capacity - capacity // EIGHTH or used == self.cursor[layout.POOL_END]:
            capacity += capacity if capacity < MAX_DOUBLED else capacity // EIGHTH
        pool = empty(ListPool, rows=capacity)
        pool.row[:used] = self.pool.row[places]
        pool.key[:used] = self.pool.key[places]
        self.lanes.list_start[lane_ids] = np.cumsum(capacities) - capacities
        self.pool = pool
        self.cursor[layout.POOL_END] = used

    def check_columns(self) -> None:
        """Assert that the columns agree with each other."""
        lanes, rows = self.lanes, self.rows
        for columns in (lanes, rows, self.candidates, self.pool, self.events, self.scratch, self.heap):
            check_layout(columns)
        live = self.live()
        lane_ids = self.lane_of[live]
        n_candidates = int(self.cursor[layout.N_CANDIDATES])
        assert (lanes.head == -1).all()
        assert (self.scratch.affected_at == -1).all()
        assert np.array_equal(lanes.slot[lane_ids], live)
        assert (lanes.slot >= 0).sum() == len(live) == len(self._free_lanes)
        free = lanes.slot < 0
        assert np.isnan(lanes.floor[free]).all()
        assert np.isnan(lanes.refill_floor[free]).all()
        assert (lanes.k[free] == 0).all()
        assert (lanes.list_size[free] == 0).all()
        assert (lanes.theta[self.ranking.program.n_theta] == 0).all()
        assert (lanes.refill_floor[lane_ids] <= lanes.floor[lane_ids]).all()
        assert np.array_equal(lanes.kth_key[lane_ids], self.kth_keys(lane_ids))
        slots = np.flatnonzero(rows.mark).astype(np.int32)
        assert self.cursor[layout.N_ROWS] == len(slots)
        cells = cells_of(self.grid, rows.values, slots)
        is_active = rows.mark == layout.CANDIDATE
        assert np.array_equal(slots[self.grid.is_active[cells]], np.flatnonzero(is_active))
        stored = rows._replace(mark=np.minimum(rows.mark, layout.STORED))
        assert (
            is_active[rows_in_parts(self.grid, active_part_flags(self.grid), stored)].sum() == is_active.sum()
        )
        at = np.flatnonzero(self.candidates.row[:n_candidates] >= 0)
        assert len(at) + self.cursor[layout.N_HOLES] == n_candidates
        candidates = self.candidates.row[at]
        assert np.array_equal(rows.candidate_at[candidates], at)
        assert np.array_equal(self.candidates.values[at].T, rows.values[:, candidates], equal_nan=True)
        assert np.array_equal(self.candidates.cell[at], cells_of(self.grid, rows.values, candidates))
        assert np.array_equal(self.grid.is_active, (self.grid.tile_bits > 0).any(axis=1))
        assert (lanes.list_size <= lanes.list_capacity).all()
        _, owned = self.list_places(lane_ids, lanes.list_capacity)
        assert len(np.unique(owned)) == len(owned)
        assert not len(owned) or owned.max() < self.cursor[layout.POOL_END] <= len(self.pool.row)

    def _rank(self, lanes: Ints, *, is_listing: bool) -> np.ndarray:
        """Set the refill floors, and lists, of `lanes`; returns which rows were ranked, by slot."""
        n_slots = len(self.rows.born)
        is_tree = len(lanes) >= MIN_TREE_SUBSCRIPTIONS
        tree = ranking_tree(self.rows, n_slots) if is_tree else unsorted_tree(self.rows, n_slots)
        capacity = min(int(refill_size(max(1, self._largest_k))), len(tree.row)) + 1
        heap = self._new_heap(capacity, tree.branch_low.shape[1])
        is_ranked = np.zeros(n_slots, np.bool_)
        state = np.array([self.cursor[layout.POOL_END], 0], np.int64)
        with np.errstate(all="ignore"):
            while rank_lanes(
                self.ranking, self.lanes, tree, len(tree.row), self.rows, heap, self.pool, state, lanes,
                is_listing, is_ranked,
            ):  # fmt: skip
                self.pool = grow(self.pool, rows=len(self.pool.row) + 1)
        self.lanes.refill_floor[lanes] = np.minimum(self.lanes.refill_floor[lanes], self.lanes.floor[lanes])
        self.lanes.kth_key[lanes] = self.kth_keys(lanes)
        self.cursor[layout.POOL_END] = state[0]
        return is_ranked

    def _mark_reachable(self, lanes: Ints) -> None:
        """Set the bits of the tiles of `lanes`; rows of newly active cells become candidates."""
        n_columns = self.rows.values.shape[0]
        is_new = np.zeros(len(self.grid.is_active), np.bool_)
        is_new[0] = len(self.grid.is_active) > 0 and self.cursor[layout.N_CANDIDATES] == 0
        scratch = empty(GridScratch, columns=n_columns, depth=self.ranking.program.depth)
        tiles = np.unique(lanes // TILE)
        whole = len(lanes) > 2 * len(tiles)
        with np.errstate(all="ignore"):
            for first in (tiles * TILE if whole else lanes).tolist():
                mark_reachable_cells(
                    self.ranking, self.lanes, first, TILE if whole else 1, self.grid, first // TILE,
                    scratch, is_new,
                )  # fmt: skip
        # In a new grid, rows outside of it are not candidates yet.
        is_touched = active_part_flags(self.grid) & is_new[0]
        activate_parts(self.grid, is_new, np.empty((3, n_columns), np.int32), is_touched)
        rows = rows_in_parts(self.grid, is_touched, self.rows)
        cells = cells_of(self.grid, self.rows.values, rows)
        is_active = self.grid.is_active[cells]
        rows, cells = rows[is_active], cells[is_active]
        begin = int(self.cursor[layout.N_CANDIDATES])
        end = begin + len(rows)
        # The current delta's entries need capacity too.
        self._ensure_candidate_capacity(end + self.n_entries)
        self.rows.candidate_at[rows] = np.arange(begin, end)
        self.rows.mark[rows] = layout.CANDIDATE
        self.candidates.row[begin:end] = rows
        self.candidates.cell[begin:end] = cells
        self.candidates.values[begin:end] = self.rows.values[:, rows].T
        self.candidates.is_listed[begin:end] = False
        self.cursor[layout.N_CANDIDATES] = end

    def _empty_pool(self) -> None:
        """Clear all lists, and ensure capacity for new ones."""
        n_rows = int(self.cursor[layout.N_ROWS])
        capacity = 0
        for k, count in zip(*np.unique(self.lanes.k, return_counts=True), strict=True):
            capacity += int(count) * int(list_capacity(int(k), min(int(initial_size(int(k))), n_rows)))
        if capacity > len(self.pool.row):
            # Some lists will move.
            capacity += capacity // EIGHTH
            self.pool = empty(ListPool, rows=capacity)
        self.cursor[layout.POOL_END] = 0

    def _sort_lanes(self, slots: Ints) -> None:
        """Sort subscriptions with near parameters into the same tiles, without gaps."""
        lane = self.lane_of[slots]
        old = self.lanes
        thetas = old.theta[: self.ranking.program.n_theta, lane]
        parameters = np.concatenate([thetas, old.lo[:, lane], old.hi[:, lane]])
        order = neighbour_order(np.nan_to_num(parameters), TILE)
        lane = lane[order]
        n = len(slots)
        lanes = self._empty_lanes(max(TILE, -(-n // TILE) * TILE))
        for name, column in old._asdict().items():
            getattr(lanes, name)[..., :n] = column[..., lane]
        self.lanes = lanes
        self.lane_of[slots[order]] = np.arange(n, dtype=np.int32)
        self._free_lanes = Slots()
        self._free_lanes.take(n)

    def _empty_lanes(self, count: int) -> SubscriptionLanes:
        n_theta = self.ranking.program.n_theta + 1 + len(self._computed_weights)
        return empty(SubscriptionLanes, dimensions=self.ranking.first_column, thetas=n_theta, lanes=count)

    def _ensure_lane_capacity(self, count: int) -> None:
        """Ensure capacity for `count` lanes, in whole tiles, and for their bits in the grid."""
        if count > len(self.lanes.slot):
            self.lanes = grow(self.lanes, lanes=-(-count // TILE) * TILE)
        n_bytes = -(-len(self.lanes.slot) // (8 * TILE))
        have = self.grid.tile_bits.shape[1]
        if n_bytes > have:
            tile_bits = np.zeros((len(self.grid.is_active), n_bytes), np.uint8)
            tile_bits[:, :have] = self.grid.tile_bits
            tile_bits[0] = 255
            self.grid = self.grid._replace(tile_bits=tile_bits)

    def _new_heap(self, capacity: int, n_branches: int) -> RankingHeap:
        depth, n_columns = self.ranking.program.depth, len(self.rows.values)
        return empty(RankingHeap, columns=n_columns, depth=depth, rows=capacity, branches=n_branches)

    def _compact_candidates(self) -> None:
        """Close the holes among the candidates. Cost: linear, amortised constant per removed candidate."""
        at = np.flatnonzero(self.candidates.row[: self.cursor[layout.N_CANDIDATES]] >= 0)
        for column in self.candidates:
            column[: len(at)] = column[at]
        self.rows.candidate_at[self.candidates.row[: len(at)]] = np.arange(len(at))
        self.cursor[layout.N_CANDIDATES], self.cursor[layout.N_HOLES] = len(at), 0

    def _ensure_candidate_capacity(self, count: int) -> None:
        if count > len(self.candidates.row):
            self.candidates = grow(self.candidates, rows=count)

    def _new_scratch(self) -> PatchScratch:
        sizes = dict.fromkeys(("entries", "lanes", "slots", "events", "list_rows"), 0)
        return empty(PatchScratch, columns=len(self.rows.values), depth=self.ranking.program.depth, **sizes)

    def _ensure_scratch(self, n_entries: int) -> PatchScratch:
        """Scratch for a delta of `n_entries`, the capacity for events, and the longest list."""
        scratch = self.scratch
        n_events, n_slots, n_lanes = len(self.events.next), len(self.lane_of), len(self.lanes.slot)
        longest = min(3 * self._largest_k + 32, len(self.rows.born)) + 1
        if longest > len(self.heap.key):
            self.heap = self._new_heap(longest, 0)
        if (
            len(scratch.leaving) >= n_entries
            and len(scratch.affected) >= n_lanes
            and len(scratch.affected_at) >= n_slots
            and len(scratch.add_key) >= n_events
            and len(scratch.refill_key) >= longest
        ):
            return scratch
        return grow(
            scratch, entries=n_entries, lanes=n_lanes, slots=n_slots, events=n_events, list_rows=longest
        )

    def _reset_counters(self) -> None:
        self.cursor[layout.N_COMPARED] = self.cursor[layout.N_TESTS] = 0
        cost = ROW_COST * self.cursor[layout.N_ROWS] + SUBSCRIPTION_COST * self._n_built
        self.cursor[layout.MAX_TESTS] = max(MIN_TESTS, cost)


def _extended(array: np.ndarray, capacity: int) -> np.ndarray:
    """A column, or columns, with this capacity, zero-padded, aligned to a cache line."""
    shape = (*array.shape[:-1], capacity)
    memory = np.zeros(int(np.prod(shape)) * array.itemsize + LINE, np.uint8)
    begin = -memory.ctypes.data % LINE
    extended = memory[begin : begin + memory.size - LINE].view(array.dtype).reshape(shape)
    extended[..., : array.shape[-1]] = array
    return extended
