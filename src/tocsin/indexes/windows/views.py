"""Preference top-k by views: rows are held only against subscriptions that they may concern.

The space that rows are in is cut into cells. Subscriptions that are alike stand together in tiles, and each
cell has a bit for each tile: set where some row of the cell might come into a list of the tile. Most rows
fall into cells without any bit and cost no more than to find the cell. How lists are kept exact is told at
the top of `views_kernels.py`, how large a score can become in a cell in `bounds_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import ENTER, Arrays, ChangeSet, Floats, Ints, Longs, RowDelta
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.direct import compiled, quiet
from tocsin.indexes.shared.kept import Kept
from tocsin.indexes.shared.programs import Program
from tocsin.indexes.shared.programs_kernels import BLOCK, score_tile
from tocsin.indexes.shared.scans import step_bounds, writable
from tocsin.indexes.windows import views_columns as named
from tocsin.indexes.windows.views_changes import ViewChanges, answer_changes
from tocsin.indexes.windows.views_columns import ViewEntries, ViewPool
from tocsin.indexes.windows.views_grid import CELLS
from tocsin.indexes.windows.views_kernels import apply_delta
from tocsin.indexes.windows.views_state import ViewState

#: Where the kernel's cursor is at the beginning of a delta.
BEGINNING: Longs = np.zeros(named.STATE_SIZE - named.STEP, np.int64)
BEGINNING[named.N_MORE - named.STEP] = -1

INT32, INT64, FLOAT64, BOOL = (np.dtype(kind) for kind in (np.int32, np.int64, np.float64, np.bool_))


class PreferenceViews:
    """The k best rows by a score program, of a window or of a table that is updated.

    Takes and answers what `PreferenceScan` does, and has the same arrays. `cells` is how many cells a grid
    may have.
    """

    def __init__(
        self,
        dimensions: int,
        program: Program,
        *,
        descending: bool,
        newest_first: bool,
        capacity: int = 16,
        cells: int = CELLS,
    ) -> None:
        self._state = ViewState(dimensions, program, descending, newest_first, capacity, cells)
        #: kept from one delta to the next, with room for the most changes that one made
        self._buffer = ViewChanges(capacity)
        #: the kernel, and what it was compiled to once that is known
        self._take_steps = quiet(apply_delta)
        #: int64 (2,): where the entries of a delta of one step begin and end
        self._bounds: Longs = np.zeros(2, np.int64)
        #: what the kernel works on, as of its last call
        self._kept: Kept | None = None

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions and rank what is there.

        Cost: all rows times their number if they are few; of many, all rows n log n and a search for each.
        """
        if len(slots):
            self._state.place(slots, values)
            self._state.rank_new(slots.astype(np.int32))

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their number."""
        self._state.close(slots)

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        lanes = self._state.lanes
        lane = self._state.lane_of[slot]
        shown: dict[str, object] = {}
        if lanes.lo.shape[0]:
            shown |= {"lo": lanes.lo[:, lane].tolist(), "hi": lanes.hi[:, lane].tolist()}
        thetas = lanes.theta[: self._state.ranking.program.n_theta, lane]
        return shown | {"theta": thetas.tolist(), "k": int(lanes.k[lane])}

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Hold the delta's rows against the tiles that their cells know, patch the lists, and report.

        Cost: linear in the rows, and in the tiles known to cells that rows come into and listed rows leave.
        A step that replaces most rows, and now and then a grid that is out of date, ranks all rows afresh.
        """
        count = len(delta.row)
        if count == 0:
            return ChangeSet.empty()
        state = self._state
        state.n_entries = count
        cursor = state.cursor
        cursor[named.STEP :] = BEGINNING
        entries = self._entries(delta)
        status = self._take_steps(cursor, entries, self._columns())
        while status != named.DONE:
            self._make_way(status, entries)
            status = self._take_steps(cursor, entries, self._columns())
        if self._take_steps is apply_delta:
            self._take_steps = compiled(apply_delta)
        return self._buffer.changes(cursor.item(named.N_OUT))

    def result(self, slots: Ints) -> ChangeSet:
        """The answers, by rank. Cost: their length."""
        lanes, chosen = self._state.lanes, self._state.lane_of[slots]
        owner, places = self._state.listed(chosen, np.minimum(lanes.list_size, lanes.k))
        n = len(places)
        starts = lanes.list_start[chosen]
        return ChangeSet(
            step=np.zeros(n, np.int32),
            subscription=slots.astype(np.int32)[owner],
            op=np.full(n, ENTER, np.int8),
            row=self._state.pool.row[places],
            other=np.full(n, -1, np.int32),
            score=self._state.ranking.key_sign * self._state.pool.key[places] + 0.0,
            rank=(places - starts[owner] + 1).astype(np.int32),
        )

    def rows(self) -> RowDelta:
        """All rows, as one step that inserts them. Cost: linear."""
        rows = self._state.rows
        live = np.flatnonzero(rows.mark).astype(np.int32)
        return RowDelta.inserting(live, rows.born[live], rows.values[:, live].T)

    def arrays(self) -> Arrays:
        """Subscriptions with their lists, and rows, each with their slots. Cost: linear."""
        state = self._state
        slots = state.live()
        lanes, lane = state.lanes, state.lane_of[slots]
        places = state.ordered(slots)
        rows = np.flatnonzero(state.rows.mark)
        return {
            "slots": slots.astype(np.int32),
            "lo": lanes.lo[:, lane].T.copy(),
            "hi": lanes.hi[:, lane].T.copy(),
            "theta": lanes.theta[: state.ranking.program.n_theta, lane].T.copy(),
            "k": lanes.k[lane],
            "floor_key": lanes.floor[lane],
            "floor_tie": lanes.floor_tie[lane],
            "list_size": lanes.list_size[lane],
            "list_row": state.pool.row[places],
            "list_key": state.pool.key[places],
            "rows": rows.astype(np.int32),
            "born": state.rows.born[rows],
            "values": state.rows.values[:, rows].T.copy(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Cost: as to register all at once."""
        state = self._state
        slots, rows, listed = arrays["slots"], arrays["rows"], arrays["list_row"]
        if len(rows):
            state.make_room_for_rows(int(rows.max()) + 1)
            state.set_rows(rows, arrays["born"], arrays["values"])
        if len(slots):
            state.place(slots, arrays)
        lanes, lane, sizes = state.lanes, state.lane_of[slots], arrays["list_size"]
        lanes.floor[lane] = arrays["floor_key"]
        lanes.floor_tie[lane] = arrays["floor_tie"]
        lanes.list_start[lane] = np.cumsum(sizes) - sizes
        lanes.list_room[lane] = lanes.list_size[lane] = sizes
        state.pool = ViewPool(grown(state.pool.row, len(listed)), grown(state.pool.key, len(listed)))
        state.pool.row[: len(listed)] = listed
        state.pool.key[: len(listed)] = arrays["list_key"]
        state.cursor[named.POOL_END] = len(listed)
        state.rebuild(is_listing=False)

    def check_invariants(self) -> None:
        """Assert that all columns agree, that each list holds exactly the rows above its floor, and that
        every row not below a base is hot, in a cell that knows the tile."""
        state = self._state
        state.check_columns()
        lanes = state.lanes
        for slot in state.live():
            lane = state.lane_of[slot]
            places = state.ordered(np.array([slot]))
            above, base = self._rows_above(int(slot))
            assert np.array_equal(state.pool.row[places], above[0])
            assert np.array_equal(state.pool.key[places], above[1])
            answer = places[: lanes.k[lane]]
            assert np.array_equal(answer, lanes.list_start[lane] + np.arange(len(answer)))
            is_open = lanes.floor[lane] == -np.inf and lanes.floor_tie[lane] == named.LOWEST_TIE
            assert is_open or len(places) >= lanes.k[lane]
            assert (state.rows.mark[base] == named.HOT).all()
            assert state.hot.is_listed[state.rows.hot_at[above[0]]].all()
            cells = state.hot.cell[state.rows.hot_at[base]]
            known = state.grid.reach[cells, lane // (8 * named.TILE)] >> (lane // named.TILE % 8)
            assert (known & 1).all()

    def explain(self) -> str:
        """One line: which index this is, how it works, and why it is the one."""
        ranking = self._state.ranking
        first = "largest" if ranking.key_sign > 0 else "smallest"
        tie = "newer" if ranking.tie_sign > 0 else "older"
        return (
            f"preference top-k by views: {first} score first, ties to the {tie} row; rows are held against "
            f"tiles of {named.TILE} subscriptions that their cell, one of {self._state.n_cells:,}, knows; "
            "chosen because it is faster than a scan from the first subscription on"
        )

    def _make_way(self, status: int, entries: ViewEntries) -> None:
        """Do what the kernel cannot do itself, and stopped for."""
        state = self._state
        if status == named.CROWDED:
            state.make_room_for_entries()
        elif status == named.OUT_FULL:
            self._buffer.grow()
        elif status == named.ROWS_FULL:
            state.make_room_for_rows(int(entries.row.max()) + 1)
        elif status == named.POOL_FULL:
            state.grow_pool()
        elif status == named.EVENTS_FULL:
            state.grow_events()
        elif status == named.SHORT:
            state.lower_bases(int(state.scratch.affected[state.cursor[named.AT]]))
        elif status == named.STALE:
            if state.is_stale():
                state.rebuild(is_listing=False)
        elif status == named.BULK:
            self._take_whole_step(entries, self._buffer)

    def _take_whole_step(self, entries: ViewEntries, buffer: ViewChanges) -> None:
        """Take a step that replaces most rows: rank all afresh, and compare the answers."""
        state = self._state
        step = int(state.cursor[named.STEP])
        cut = slice(int(entries.bounds[step]), int(entries.bounds[step + 1]))
        live = state.live().astype(np.int32)
        old = self.result(live)
        state.set_rows(entries.row[cut], entries.born_after[cut], entries.after[cut])
        state.rebuild(is_listing=True)
        is_touched = np.zeros(len(state.rows.born), np.bool_)
        is_touched[entries.row[cut]] = entries.touched[cut]
        changes = answer_changes(old, self.result(live), is_touched, step)
        begin = int(state.cursor[named.N_OUT])
        end = begin + len(changes.step)
        while end > len(buffer.columns.step):
            buffer.grow()
        for name, column in buffer.columns._asdict().items():
            column[begin:end] = getattr(changes, name)
        state.cursor[named.N_OUT] = end
        state.cursor[named.STEP] += 1

    def _columns(self) -> Kept:
        """All that the kernel works on but the delta."""
        state, buffer = self._state, self._buffer
        columns = (
            state.ranking, state.lanes, state.grid, state.rows, state.hot, state.pool, state.events,
            state.scratch, state.best, buffer.raw, buffer.columns,
        )  # fmt: skip
        if self._kept is None:
            self._kept = Kept(columns)
        else:
            self._kept.keep(columns)
        return self._kept

    def _entries(self, delta: RowDelta) -> ViewEntries:
        """The delta as kernels take it."""
        bounds = self._bounds
        bounds[1] = len(delta.row)
        return ViewEntries(
            bounds if len(delta.seq) == 1 else step_bounds(delta),
            _ready(delta.row, INT32),
            _ready(delta.born_before, INT64),
            _ready(delta.born_after, INT64),
            _ready(delta.touched, BOOL),
            _ready(delta.after, FLOAT64),
        )

    def _rows_above(self, slot: int) -> tuple[tuple[Ints, Floats], Longs]:
        """What a subscription's list must hold, and the rows not below its base: by testing all rows."""
        state, ranking = self._state, self._state.ranking
        lanes, lane = state.lanes, int(state.lane_of[slot])
        rows = np.flatnonzero(state.rows.mark)
        values = np.ascontiguousarray(state.rows.values[:, rows])
        score, stack = np.empty(max(len(rows), BLOCK)), np.empty((ranking.program.depth, BLOCK))
        with np.errstate(all="ignore"):
            score_tile(
                ranking.program,
                values,
                ranking.first_column,
                0,
                len(rows),
                lanes.theta,
                lane,
                1,
                stack,
                score,
            )
        key = ranking.key_sign * score[: len(rows)] + 0.0
        tie = ranking.tie_sign * state.rows.born[rows]
        box = values[: lanes.lo.shape[0]]
        inside = ((lanes.lo[:, [lane]] <= box) & (box <= lanes.hi[:, [lane]])).all(axis=0)
        floor_key, floor_tie = lanes.floor[lane], lanes.floor_tie[lane]
        above = inside & ((key > floor_key) | ((key == floor_key) & (tie >= floor_tie)))
        order = np.lexsort((-tie[above], -key[above]))
        return (
            (rows[above][order].astype(np.int32), key[above][order]),
            rows[inside & (key >= lanes.base[lane])],
        )


def _ready(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """As `writable`, but quick where nothing is to be done."""
    if array.dtype is dtype and array.flags.carray:
        return array
    return writable(array, dtype.type)
