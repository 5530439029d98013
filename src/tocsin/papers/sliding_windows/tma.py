"""The paper's algorithms, TMA and SMA, over one regular grid.

Mouratidis, Bakiras and Papadias, *Continuous Monitoring of Top-k Queries over Sliding Windows*, SIGMOD 2006.
Cells are visited in descending order of the largest key that a row in them may have. A query is entered into
the influence lists of the visited cells, and is only compared with rows that enter or leave these. TMA
computes a query from scratch when a row of its answer leaves; SMA maintains the rows that may still enter an
answer, the k-skyband in score and time.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from tocsin.arrays.changes import ENTER, ChangeBuffer, ChangeSet
from tocsin.arrays.columns import writable
from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT, RowDelta, step_bounds
from tocsin.indexes.preferences.terms import linear_terms
from tocsin.kernels.programs import Program
from tocsin.kernels.scoring import BLOCK, score_tile
from tocsin.kernels.status import DONE, FULL, LISTS_FULL, N_OUT, POINTS_FULL, SEARCH
from tocsin.papers.sliding_windows import tma_columns
from tocsin.papers.sliding_windows.tma_columns import (
    MonitoringEntries,
    MonitoringGrid,
    MonitoringQueries,
    MonitoringRanking,
    MonitoringScratch,
    PointLists,
)
from tocsin.papers.sliding_windows.tma_kernels import DE_BRUIJN, monitor_steps
from tocsin.papers.sliding_windows.tma_search_kernels import compute_slots

#: Cells of the grid, about: what the paper found best.
CELLS = 12**4


class TopKMonitoring:
    """TMA. Same contract as `PreferenceScan`, for monotone programs.

    The workspace is `low` to `high` in every scored column; rows may be outside of it. `searches` counts how
    often a query was computed from scratch.
    """

    is_skyband = False

    def __init__(
        self,
        dimensions: int,
        program: Program,
        *,
        descending: bool,
        newest_first: bool,
        capacity: int = 16,
        cells: int = CELLS,
        low: float = 0.0,
        high: float = 1.0,
    ) -> None:
        self._terms = linear_terms(program)
        self._scorer = MonitoringRanking(
            program, dimensions, 1.0 if descending else -1.0, 1 if newest_first else -1, self._terms.column
        )
        self._capacity = capacity
        self._largest_k = 1
        n_columns = program.n_columns
        side = max(1, int(cells ** (1 / max(n_columns, 1)) + 1e-9))
        n_cells = side**n_columns
        width = (high - low) / side
        edges = low + width * np.arange(side + 1)
        stride = side ** np.arange(n_columns - 1, -1, -1, dtype=np.int64)
        # Widened, so that a row that rounding puts into a neighbouring cell is still inside.
        self._grid = MonitoringGrid(
            side=side,
            low=np.full(n_columns, low),
            scale=np.full(n_columns, 1 / width),
            cell_low=np.tile(edges[:-1] - 1e-9 * width, (n_columns, 1)),
            cell_high=np.tile(edges[1:] + 1e-9 * width, (n_columns, 1)),
            stride=stride,
            place=(np.arange(n_cells)[:, None] // stride % side).astype(np.int16),
            start=np.zeros(n_cells, np.int64),
            capacity=np.zeros(n_cells, np.int64),
            first=np.zeros(n_cells, np.int64),
            n_points=np.zeros(n_cells, np.int64),
            influence=np.zeros((n_cells, 1), np.uint64),
            n_influence=np.zeros(n_cells, np.int32),
            bit_place=_bit_places(),
        )
        n_terms = len(self._terms.column)
        self._queries = empty(
            MonitoringQueries,
            slots=capacity,
            dimensions=dimensions,
            thetas=program.n_theta,
            terms=n_terms,
            columns=n_columns,
            list_rows=4,
        )
        self._points = empty(
            PointLists, points=capacity, terms=n_terms, slots=capacity, columns=dimensions + n_columns
        )
        self._state: Longs = np.zeros(tma_columns.STATE_SIZE, np.int64)
        self._stamp: Ints = np.zeros(n_cells, np.int32)
        self._search_counter: Ints = np.zeros(1, np.int32)
        self._cached_scratch: MonitoringScratch | None = None
        self._expected = capacity
        #: the kernel; once it is compiled, its entry point
        self._apply_steps = monitor_steps

    @property
    def searches(self) -> int:
        """How often a query was computed from scratch."""
        return int(self._state[tma_columns.N_SEARCHES])

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add queries and compute them. Cost: a search for each."""
        if len(slots):
            self._bind(slots, values)
            self._compute(slots.astype(np.int32), is_new=True)

    def terminate(self, slots: Ints) -> None:
        """Remove queries, also from all influence lists. Cost: all cells, for each."""
        self._queries.k[slots] = 0
        self._queries.size[slots] = 0
        for slot in slots.tolist():
            bit = np.uint64(1 << (slot % 64))
            words = self._grid.influence[:, slot // 64]
            self._grid.n_influence[(words & bit) > 0] -= 1
            words &= ~bit

    def parameters(self, slot: int) -> dict[str, object]:
        """What a query was registered with. Cost: constant."""
        queries = self._queries
        shown: dict[str, object] = {}
        if queries.lo.shape[1]:
            shown |= {"lo": queries.lo[slot].tolist(), "hi": queries.hi[slot].tolist()}
        return shown | {"theta": queries.theta[:, slot].tolist(), "k": int(queries.k[slot])}

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Insert and remove rows; compute queries from scratch where necessary; report.

        Cost: for each row the queries that its cell influences, and the searches.
        """
        if len(delta.row) == 0:
            return ChangeSet.empty()
        self._ensure_row_capacity(int(delta.row.max()) + 1)
        if self._extend_workspace(delta.after):
            # Cells at the border have grown, and may influence more queries than are listed.
            self._compute(self._live(), is_new=True)
        entries = _entries(delta)
        scratch = self._scratch()
        buffer = ChangeBuffer(self._expected)
        self._state[: tma_columns.TRANSIENT] = 0
        status = -1
        with np.errstate(all="ignore"):
            while status != DONE:
                status = self._apply_steps(
                    self._state, self._scorer, self._queries, self._grid, self._points, entries,
                    scratch, self.is_skyband, buffer.columns,
                )  # fmt: skip
                if status == FULL:
                    buffer.grow()
                elif status == SEARCH:
                    affected = scratch.affected[: self._state[tma_columns.N_AFFECTED]].copy()
                    self._compute(affected, is_new=False)
                elif status == POINTS_FULL:
                    self._points = grow(self._points, points=2 * len(self._points.list) + 64)
                elif status == LISTS_FULL:
                    self._widen_lists(2 * self._queries.list_row.shape[1])
        if self._apply_steps is monitor_steps:
            self._apply_steps = entry_point(monitor_steps)
        count = int(self._state[N_OUT])
        self._expected = max(self._expected, count)
        return buffer.take(count)

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting its changes. Cost: as `apply`."""
        self.apply(delta)

    def result(self, slots: Ints) -> ChangeSet:
        """The answers, by rank. Cost: their length."""
        queries = self._queries
        sizes = np.minimum(queries.size[slots], queries.k[slots])
        owner = np.repeat(np.arange(len(slots)), sizes)
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        asked = slots[owner]
        return ChangeSet(
            step=np.zeros(len(owner), np.int32),
            subscription=asked.astype(np.int32),
            op=np.full(len(owner), ENTER, np.int8),
            row=queries.list_row[asked, rank],
            other=np.full(len(owner), -1, np.int32),
            score=self._scorer.key_sign * queries.list_key[asked, rank] + 0.0,
            rank=(rank + 1).astype(np.int32),
        )

    def list_sizes(self, slots: Ints) -> Ints:
        """The length of each query's list. Cost: linear."""
        return self._queries.size[slots]

    def arrays(self) -> Arrays:
        """Queries and rows, with their slots. Cost: linear."""
        slots = self._live()
        rows = np.flatnonzero(self._points.born != ABSENT)
        queries = self._queries
        return {
            "slots": slots,
            "lo": queries.lo[slots],
            "hi": queries.hi[slots],
            "theta": queries.theta[:, slots].T.copy(),
            "k": queries.k[slots],
            "rows": rows.astype(np.int32),
            "born": self._points.born[rows],
            "values": self._points.values[rows],
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned, rows first, in order. Cost: as registering everything."""
        order = np.argsort(arrays["born"])
        rows, born = arrays["rows"][order], arrays["born"][order]
        absent = np.full(len(rows), ABSENT, np.int64)
        values = arrays["values"][order]
        ints, no_values = np.zeros(len(rows), np.int32), np.full(values.shape, np.nan)
        untouched = np.zeros(len(rows), np.bool_)
        self.apply(RowDelta(np.zeros(1, np.int64), ints, rows, absent, born, no_values, values, untouched))
        self.register(arrays["slots"], arrays)

    def check_invariants(self) -> None:
        """Assert that point lists and rows agree, that influence lists are counted and, for weighted sums,
        that every cell that may hold a row above a query's `top_key` influences it."""
        grid, points = self._grid, self._points
        check_layout(points)
        check_layout(self._queries)
        there = np.flatnonzero(points.born != ABSENT)
        assert grid.n_points.sum() == len(there)
        listed = grid.start[points.cell[there]] + points.place[there]
        assert np.array_equal(points.list[listed], there)
        added = points.values[there][:, self._scorer.first_column + self._scorer.term_column]
        assert np.array_equal(points.list_values[listed], added, equal_nan=True)
        bits = np.unpackbits(grid.influence.view(np.uint8), axis=1).sum(axis=1)
        assert np.array_equal(bits, grid.n_influence)
        assert (self._queries.old_size == -1).all()
        assert not self._queries.is_affected.any()
        for slot in self._live() if len(self._terms.column) else ():
            most = np.zeros(len(grid.n_points))
            for weight, column in zip(self._queries.weight[slot], self._scorer.term_column, strict=True):
                ends = grid.cell_high[column] if weight > 0 else grid.cell_low[column]
                with np.errstate(all="ignore"):
                    most += weight * ends[grid.place[:, column]] if weight else 0.0
            is_known = grid.influence[:, slot // 64] >> np.uint64(slot % 64) & np.uint64(1)
            assert is_known[~(most < self._queries.top_key[slot])].all()

    def explain(self) -> str:
        """One line: how it works."""
        return f"a grid of {self._grid.side} cells along each of {len(self._grid.low)} axes"

    def _live(self) -> Ints:
        return np.flatnonzero(self._queries.k > 0).astype(np.int32)

    def _compute(self, slots: Ints, *, is_new: bool) -> None:
        """Compute queries from scratch: new ones, or those with fewer than k rows above their `top_key`."""
        longest = min(self._largest_k, len(self._points.born)) + 2
        self._widen_lists(longest)
        with np.errstate(all="ignore"):
            compute_slots(
                self._state, self._scorer, self._queries, self._grid, self._points, self._scratch(), slots,
                self.is_skyband, is_new,
            )  # fmt: skip

    def _bind(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        top = int(slots.max()) + 1
        self._queries = grow(self._queries, slots=top)
        words = -(-len(self._queries.k) // 64)
        have = self._grid.influence.shape[1]
        if words > have:
            influence = np.zeros((len(self._grid.n_points), max(words, 2 * have)), np.uint64)
            influence[:, :have] = self._grid.influence
            self._grid = self._grid._replace(influence=influence)
        queries = self._queries
        if queries.lo.shape[1]:
            queries.lo[slots] = values["lo"]
            queries.hi[slots] = values["hi"]
        if queries.theta.shape[0]:
            queries.theta[:, slots] = values["theta"].T
        queries.weight[slots] = self._scorer.key_sign * self._terms.weights(queries.theta[:, slots]).T
        queries.k[slots] = values["k"]
        queries.size[slots] = 0
        self._largest_k = max(self._largest_k, int(values["k"].max()))
        self._find_directions(slots)

    def _find_directions(self, slots: Ints) -> None:
        """The direction in which each key rises: by comparing corners of the workspace."""
        n_columns = len(self._grid.low)
        if len(self._terms.column):
            weight = self._queries.weight[slots]
            for i, column in enumerate(self._scorer.term_column.tolist()):
                self._queries.direction[slots, column] = np.where(weight[:, i] < 0, -1, 1)
            return
        if n_columns == 0:
            return
        ends = np.stack([self._grid.cell_low[:, 0], self._grid.cell_high[:, -1]])
        corners = np.array(list(product((0, 1), repeat=n_columns)))
        columns = np.ascontiguousarray(np.take_along_axis(ends, corners, axis=0).T)
        columns = np.nan_to_num(columns, posinf=1e300, neginf=-1e300)
        stack = np.empty((self._scorer.program.depth, BLOCK))
        key = np.empty(BLOCK)
        for slot in slots.tolist():
            with np.errstate(all="ignore"):
                score_tile(
                    self._scorer.program,
                    columns,
                    0,
                    0,
                    len(corners),
                    self._queries.theta,
                    slot,
                    1,
                    stack,
                    key,
                )
            for c in range(n_columns):
                bit = 1 << (n_columns - 1 - c)
                low = np.flatnonzero((np.arange(len(corners)) & bit) == 0)
                falls = self._scorer.key_sign * (key[low + bit] - key[low]) < 0
                self._queries.direction[slot, c] = -1 if falls.any() else 1

    def _extend_workspace(self, values: Floats) -> bool:
        """Extend the cells at the border to the rows; whether any grew."""
        scored = values[:, self._scorer.first_column :]
        scored = scored[~np.isnan(scored).all(axis=1)]
        if len(scored) == 0 or len(self._grid.low) == 0:
            return False
        low, high = np.fmin.reduce(scored, axis=0), np.fmax.reduce(scored, axis=0)
        grid = self._grid
        grows = (low < grid.cell_low[:, 0]).any() or (high > grid.cell_high[:, -1]).any()
        np.fmin(grid.cell_low[:, 0], low, out=grid.cell_low[:, 0])
        np.fmax(grid.cell_high[:, -1], high, out=grid.cell_high[:, -1])
        return bool(grows)

    def _ensure_row_capacity(self, top: int) -> None:
        if top > len(self._points.born):
            self._points = grow(self._points, slots=top)

    def _widen_lists(self, width: int) -> None:
        if width > self._queries.list_row.shape[1]:
            self._queries = grow(self._queries, list_rows=width)

    def _scratch(self) -> MonitoringScratch:
        n_cells, n_rows = len(self._stamp), len(self._points.born)
        cached = self._cached_scratch
        if (
            cached is not None
            and len(cached.mark) == n_rows
            and len(cached.touched) == len(self._queries.k)
            and len(cached.best_key) >= min(self._largest_k, n_rows) + 2
        ):
            return cached
        longest = min(self._largest_k, n_rows) + 2
        depth, n_columns = self._scorer.program.depth, len(self._grid.low)
        self._cached_scratch = MonitoringScratch(
            touched=np.empty(len(self._queries.k), np.int32),
            affected=np.empty(len(self._queries.k), np.int32),
            heap_key=np.empty(n_cells + 1),
            heap_cell=np.empty(n_cells + 1, np.int32),
            stamp=self._stamp,
            searches=self._search_counter,
            share=np.empty((len(self._terms.column), self._grid.side)),
            best_key=np.empty(longest),
            best_tie=np.empty(longest, np.int64),
            best_row=np.empty(longest, np.int32),
            stack_low=np.empty((depth, BLOCK)),
            stack_high=np.empty((depth, BLOCK)),
            low=np.empty((n_columns, 1)),
            high=np.empty((n_columns, 1)),
            score=np.empty(BLOCK),
            mark=np.full(n_rows, -1, np.int32),
            is_touched=np.zeros(n_rows, np.bool_),
        )
        return self._cached_scratch


class SkybandMonitoring(TopKMonitoring):
    """SMA: for windows, which rows leave in arrival order, and where the newer row wins a tie."""

    is_skyband = True


def _bit_places() -> Longs:
    """The index of a single set bit, by the first six bits of its product with a de Bruijn number."""
    places = np.empty(64, np.int64)
    for bit in range(64):
        places[((DE_BRUIJN << bit) % 2**64) >> 58] = bit
    return places


def _entries(delta: RowDelta) -> MonitoringEntries:
    """The delta as kernels expect it; rows of a step in arrival order."""
    born = delta.born_after
    order: Longs | slice = slice(None)
    if len(delta.seq) > 1 or (np.diff(born[born >= 0]) < 0).any():
        order = np.lexsort((born, delta.step))
    return MonitoringEntries(
        step_bounds(delta),
        writable(delta.row[order], np.int32),
        writable(delta.born_before[order], np.int64),
        writable(born[order], np.int64),
        writable(delta.touched[order], np.bool_),
        writable(delta.after[order], np.float64),
    )
