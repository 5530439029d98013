"""Top-k by any expression: bounded candidate lists, and a grid that routes rows to them.

The space of rows is cut into cells. Similar subscriptions share a tile, and each cell has a bit for each
tile, set where a row of the cell could enter a list of the tile. Most rows fall into cells without any bit,
and cost no more than finding the cell. `step_kernels` explains how lists stay exact, `kernels.score_bounds`
how large a score can become in a cell.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.arrays.argument_packs import ArgumentPack
from tocsin.arrays.changes import ENTER, LEAVE, UPDATE, ChangeBuffer, ChangeSet
from tocsin.arrays.columns import kernel_ready
from tocsin.arrays.jit import entry_point, without_fp_warnings
from tocsin.arrays.layout import empty, grow
from tocsin.arrays.types import Arrays, Bools, Floats, Ints, Longs
from tocsin.indexes.contract import RowDelta, step_bounds
from tocsin.indexes.preferences.candidate_lists import layout
from tocsin.indexes.preferences.candidate_lists.grid import MAX_CELLS
from tocsin.indexes.preferences.candidate_lists.layout import DeltaEntries, LaneChanges
from tocsin.indexes.preferences.candidate_lists.state import CandidateListState
from tocsin.indexes.preferences.candidate_lists.step_kernels import apply_delta
from tocsin.kernels.programs import Program
from tocsin.kernels.scoring import BLOCK, score_tile
from tocsin.kernels.status import (
    AT,
    BULK,
    CROWDED,
    DONE,
    EVENTS_FULL,
    FULL,
    LIST_SHORT,
    N_OUT,
    POOL_FULL,
    ROWS_FULL,
    STALE,
    STEP,
)

#: The kernel's cursor at the beginning of a delta.
BEGINNING: Longs = np.zeros(layout.TRANSIENT, np.int64)
BEGINNING[layout.N_REFILL] = -1

INT32, INT64, FLOAT64, BOOL = (np.dtype(kind) for kind in (np.int32, np.int64, np.float64, np.bool_))


class CandidateLists:
    """The k best rows by a score program, over a window or a table.

    Same contract and saved arrays as `PreferenceScan`. `cells` is the largest number of cells in the grid.
    """

    def __init__(
        self,
        dimensions: int,
        program: Program,
        *,
        descending: bool,
        newest_first: bool,
        capacity: int = 16,
        cells: int = MAX_CELLS,
    ) -> None:
        self._state = CandidateListState(dimensions, program, descending, newest_first, capacity, cells)
        #: reused by all deltas, with capacity for the most changes that one made
        self._buffer = StepChangeBuffer(capacity)
        #: the kernel; once it is compiled, its entry point
        self._apply_delta = without_fp_warnings(apply_delta)
        #: int64 (2,): where the entries of a delta of one step begin and end
        self._bounds: Longs = np.zeros(2, np.int64)
        #: the columns passed to the kernel, as of its last call
        self._packed: ArgumentPack | None = None

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions and rank the existing rows for them.

        Cost: rows times subscriptions if these are few; for many, rows n log n and a search for each.
        """
        if len(slots):
            self._state.add_lanes(slots, values)
            self._state.rank_new(slots.astype(np.int32))

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their number."""
        self._state.remove_lanes(slots)

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
        """Compare the delta's rows with the tiles recorded in their cells, patch the lists, and report.

        Cost: linear in the rows, and in the tiles of cells that rows enter and listed rows leave. A step that
        replaces most rows, and an occasional rebuild of a stale grid, ranks all rows again.
        """
        count = len(delta.row)
        if count == 0:
            return ChangeSet.empty()
        state = self._state
        state.n_entries = count
        cursor = state.cursor
        cursor[: layout.TRANSIENT] = BEGINNING
        entries = self._entries(delta)
        status = self._apply_delta(cursor, entries, self._columns())
        while status != DONE:
            self._resolve(status, entries)
            status = self._apply_delta(cursor, entries, self._columns())
        if self._apply_delta is apply_delta:
            self._apply_delta = entry_point(apply_delta)
        return self._buffer.take(cursor.item(N_OUT))

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting its changes. Cost: as `apply`."""
        self.apply(delta)

    def result(self, slots: Ints) -> ChangeSet:
        """The answers, by rank. Cost: their length."""
        lanes, chosen = self._state.lanes, self._state.lane_of[slots]
        owner, places = self._state.list_places(chosen, np.minimum(lanes.list_size, lanes.k))
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
        places = state.sorted_places(slots)
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
        """Restore the state that `arrays` returned. Cost: as registering everything at once."""
        state = self._state
        slots, rows, listed = arrays["slots"], arrays["rows"], arrays["list_row"]
        if len(rows):
            state.ensure_row_capacity(int(rows.max()) + 1)
            state.set_rows(rows, arrays["born"], arrays["values"])
        if len(slots):
            state.add_lanes(slots, arrays)
        lanes, lane, sizes = state.lanes, state.lane_of[slots], arrays["list_size"]
        lanes.floor[lane] = arrays["floor_key"]
        lanes.floor_tie[lane] = arrays["floor_tie"]
        lanes.list_start[lane] = np.cumsum(sizes) - sizes
        lanes.list_capacity[lane] = lanes.list_size[lane] = sizes
        state.pool = grow(state.pool, rows=len(listed))
        state.pool.row[: len(listed)] = listed
        state.pool.key[: len(listed)] = arrays["list_key"]
        state.cursor[layout.POOL_END] = len(listed)
        state.rebuild(is_listing=False)

    def check_invariants(self) -> None:
        """Assert that all columns agree, that each list holds exactly the rows above its floor, and that
        every row not below a refill floor is a candidate, in a cell that has the tile's bit."""
        state = self._state
        state.check_columns()
        lanes = state.lanes
        for slot in state.live():
            lane = state.lane_of[slot]
            places = state.sorted_places(np.array([slot]))
            above, refill_floor = self._rows_above_floor(int(slot))
            assert np.array_equal(state.pool.row[places], above[0])
            assert np.array_equal(state.pool.key[places], above[1])
            answer = places[: lanes.k[lane]]
            assert np.array_equal(answer, lanes.list_start[lane] + np.arange(len(answer)))
            is_open = lanes.floor[lane] == -np.inf and lanes.floor_tie[lane] == layout.LOWEST_TIE
            assert is_open or len(places) >= lanes.k[lane]
            assert (state.rows.mark[refill_floor] == layout.CANDIDATE).all()
            assert state.candidates.is_listed[state.rows.candidate_at[above[0]]].all()
            cells = state.candidates.cell[state.rows.candidate_at[refill_floor]]
            known_tiles = state.grid.tile_bits[cells, lane // (8 * layout.TILE)] >> (lane // layout.TILE % 8)
            assert (known_tiles & 1).all()

    def explain(self) -> str:
        """One line: how it works, and why it is the one."""
        ranking = self._state.ranking
        first = "largest" if ranking.key_sign > 0 else "smallest"
        tie = "newer" if ranking.tie_sign > 0 else "older"
        return (
            f"preference top-k, {first} score first, ties to the {tie} row; rows are compared with "
            f"tiles of {layout.TILE} subscriptions recorded in their cell, one of {self._state.n_cells:,}; "
            "chosen because it is faster than a scan from the first subscription on"
        )

    def _resolve(self, status: int, entries: DeltaEntries) -> None:
        """Do what the kernel stopped for: grow, refill or rebuild."""
        state = self._state
        if status == CROWDED:
            state.ensure_entry_capacity()
        elif status == FULL:
            self._buffer.grow()
        elif status == ROWS_FULL:
            state.ensure_row_capacity(int(entries.row.max()) + 1)
        elif status == POOL_FULL:
            state.grow_pool()
        elif status == EVENTS_FULL:
            state.grow_events()
        elif status == LIST_SHORT:
            state.lower_refill_floors(int(state.scratch.affected[state.cursor[AT]]))
        elif status == STALE:
            if state.is_stale():
                state.rebuild(is_listing=False)
        elif status == BULK:
            self._recompute_step(entries, self._buffer)

    def _recompute_step(self, entries: DeltaEntries, buffer: StepChangeBuffer) -> None:
        """Apply a step that replaces most rows: rank all rows again, and compare the answers."""
        state = self._state
        step = int(state.cursor[STEP])
        cut = slice(int(entries.bounds[step]), int(entries.bounds[step + 1]))
        live = state.live().astype(np.int32)
        old = self.result(live)
        state.set_rows(entries.row[cut], entries.born_after[cut], entries.after[cut])
        state.rebuild(is_listing=True)
        is_touched = np.zeros(len(state.rows.born), np.bool_)
        is_touched[entries.row[cut]] = entries.touched[cut]
        changes = answer_changes(old, self.result(live), is_touched, step)
        begin = int(state.cursor[N_OUT])
        end = begin + len(changes.step)
        while end > len(buffer.columns.step):
            buffer.grow()
        for name, column in buffer.columns._asdict().items():
            column[begin:end] = getattr(changes, name)
        state.cursor[N_OUT] = end
        state.cursor[STEP] += 1

    def _columns(self) -> ArgumentPack:
        """Everything the kernel works on except the delta."""
        state, buffer = self._state, self._buffer
        columns = (
            state.ranking, state.lanes, state.grid, state.rows, state.candidates, state.pool, state.events,
            state.scratch, state.heap, buffer.raw, buffer.columns,
        )  # fmt: skip
        if self._packed is None:
            self._packed = ArgumentPack(columns)
        else:
            self._packed.repack(columns)
        return self._packed

    def _entries(self, delta: RowDelta) -> DeltaEntries:
        """The delta as kernels expect it."""
        bounds = self._bounds
        bounds[1] = len(delta.row)
        return DeltaEntries(
            bounds if len(delta.seq) == 1 else step_bounds(delta),
            kernel_ready(delta.row, INT32),
            kernel_ready(delta.born_before, INT64),
            kernel_ready(delta.born_after, INT64),
            kernel_ready(delta.touched, BOOL),
            kernel_ready(delta.after, FLOAT64),
        )

    def _rows_above_floor(self, slot: int) -> tuple[tuple[Ints, Floats], Longs]:
        """What a subscription's list must hold, and the rows not below its refill floor: by a scan."""
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
            rows[inside & (key >= lanes.refill_floor[lane])],
        )


class StepChangeBuffer(ChangeBuffer):
    """The buffer of changes, and one for a step's changes before they are ordered by slot."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.raw = empty(LaneChanges, changes=capacity)

    def grow(self) -> None:
        super().grow()
        self.raw = grow(self.raw, changes=self.capacity)


def answer_changes(old: ChangeSet, new: ChangeSet, is_touched: Bools, step: int) -> ChangeSet:
    """The changes from one answer to another, both by subscription and rank; `is_touched` is by row slot.

    Cost: n log n.
    """
    n_rows = len(is_touched)
    old_code = old.subscription.astype(np.int64) * n_rows + old.row
    new_code = new.subscription.astype(np.int64) * n_rows + new.row
    order = np.argsort(old_code)
    at = np.searchsorted(old_code[order], new_code)
    before = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(len(at), np.int64)
    stays = old_code[before] == new_code if len(order) else np.zeros(len(at), np.bool_)
    differs = np.zeros(len(at), np.bool_)
    differs[stays] = (old.score[before[stays]] != new.score[stays]) | is_touched[new.row[stays]]
    leaves = np.ones(len(old_code), np.bool_)
    leaves[before[stays]] = False
    parts = []
    for op, answer, chosen in ((LEAVE, old, leaves), (UPDATE, new, differs), (ENTER, new, ~stays)):
        part = ChangeSet._make(column[chosen] for column in answer)
        parts.append(part._replace(op=np.full(len(part.op), op, np.int8)))
    changes = ChangeSet.concat(parts)
    is_leave = changes.op == LEAVE
    order = np.lexsort((changes.rank, changes.op, changes.subscription))
    changes = changes._replace(
        step=np.full(len(order), step, np.int32),
        score=np.where(is_leave, np.nan, changes.score),
    )
    changes = ChangeSet._make(column[order] for column in changes)
    return changes._replace(rank=np.where(changes.op == LEAVE, 0, changes.rank).astype(np.int32))
