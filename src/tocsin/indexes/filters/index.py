"""Filters over live rows: the rows inside a box, or with a score inside an interval.

Memberships are not stored. A delta carries both images of each row, and both are tested against the
subscriptions nearby; rows are stored only to answer `result`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.arrays.changes import ENTER, ChangeBuffer, ChangeSet
from tocsin.arrays.columns import column_wise, ensure_capacity, ensure_width, writable
from tocsin.arrays.jit import entry_point, suppress_fp_warnings
from tocsin.arrays.layout import empty
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT, RowDelta, step_bounds
from tocsin.indexes.filters.filter_kernels import find_changes, find_rows
from tocsin.indexes.filters.layout import FilterEntries, FilterScratch
from tocsin.indexes.filters.tiles import MAX_UNSORTED, WIDTH, SubscriptionTiles
from tocsin.kernels.programs import NO_PROGRAM, Program, swap_columns_and_theta
from tocsin.kernels.scoring import BLOCK
from tocsin.kernels.status import FULL, N_OUT


class FilterIndex:
    """Reports rows of a table or a window inside boxes and, with a program, inside score intervals.

    Delta columns: the box's dimensions, then the program's columns. Bound values: `lo`, `hi`
    (n, dimensions) and, with a program, `theta` (n, n_theta), `score_lo`, `score_hi` (n,), all closed.
    A score of NaN is outside. Changes carry the score, where there is a program, and no rank.
    """

    def __init__(
        self,
        dimensions: int,
        program: Program | None,
        capacity: int = 16,
        width: int = WIDTH,
        max_unsorted: int = MAX_UNSORTED,
    ) -> None:
        self._program = NO_PROGRAM if program is None else program
        self._bounding = swap_columns_and_theta(self._program)
        self._dimensions = dimensions
        self._capacity = capacity
        self._tiles = SubscriptionTiles(dimensions, self._program.n_theta, width, max_unsorted)
        #: int64 (rows,): insertion number by row slot, ABSENT where there is no row
        self._born: Longs = np.full(capacity, ABSENT, np.int64)
        #: float64 (columns, rows): by row slot
        self._values: Floats = np.empty((dimensions + self._program.n_columns, capacity))
        #: changes of the last delta: the initial capacity for the next
        self._expected = capacity
        self._cached_scratch: FilterScratch | None = None

    @property
    def _is_scored(self) -> bool:
        return self._program is not NO_PROGRAM

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions. Cost: linear in their number; amortised n log n."""
        if len(slots) == 0:
            return
        nothing = np.empty((0, len(slots)))
        self._tiles.add(
            slots.astype(np.int32),
            [
                values["lo"].T if self._dimensions else nothing,
                values["hi"].T if self._dimensions else nothing,
                values["theta"].T if self._program.n_theta else nothing,
                values["score_lo"] if self._is_scored else np.full(len(slots), -np.inf),
                values["score_hi"] if self._is_scored else np.full(len(slots), np.inf),
            ],
        )

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their number, amortised."""
        self._tiles.remove(slots)

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        columns, place = self._tiles.subscriptions, self._tiles.place[slot]
        shown: dict[str, object] = {}
        if self._dimensions:
            shown |= {"lo": columns.lo[:, place].tolist(), "hi": columns.hi[:, place].tolist()}
        if self._is_scored:
            if self._program.n_theta:
                shown["theta"] = columns.theta[:, place].tolist()
            shown |= {"score_lo": float(columns.score_lo[place]), "score_hi": float(columns.score_hi[place])}
        return shown

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Report the rows that enter, change within and leave subscriptions.

        Cost: per entry, the tiles whose bounds hold either image; and the changes.
        """
        changes = ChangeSet.empty()
        if len(self._tiles) and len(delta.row):
            changes = self._changes(delta)
        self._store_rows(delta)
        return changes

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting its changes. Cost: as `apply`."""
        self.apply(delta)

    def result(self, slots: Ints) -> ChangeSet:
        """The rows inside, by `born`; with a program, by descending score, then the newest first.

        Cost: rows times slots, and sorting the answer.
        """
        is_there = self._born != ABSENT
        rows, scores = np.empty(len(is_there), np.int32), np.empty(len(is_there))
        stack, inside = np.empty((self._program.depth, BLOCK)), np.empty(BLOCK, np.bool_)
        subscriptions, score = self._tiles.subscriptions, np.empty(BLOCK)
        parts = [ChangeSet.empty()]
        for slot in slots.tolist():
            # Interpreted, NumPy's scalars would warn of infinities and NaNs, which are intended.
            with np.errstate(all="ignore"):
                count = find_rows(
                    self._program, subscriptions, int(self._tiles.place[slot]), self._values, is_there,
                    stack, inside, score, rows, scores,
                )  # fmt: skip
            born = self._born[rows[:count]]
            order = np.lexsort((-born, -scores[:count])) if self._is_scored else np.argsort(born)
            parts.append(_result_of(slot, rows[order], scores[order]))
        return ChangeSet._make(np.concatenate(columns) for columns in zip(*parts, strict=True))

    def arrays(self) -> Arrays:
        """Live subscriptions and rows, each with their slots. Cost: linear."""
        slots = np.flatnonzero(self._tiles.place >= 0)
        places = self._tiles.place[slots]
        rows = np.flatnonzero(self._born != ABSENT)
        lo, hi, theta, score_lo, score_hi, _ = self._tiles.subscriptions
        return {
            "slots": slots.astype(np.int32),
            "lo": lo[:, places].T.copy(),
            "hi": hi[:, places].T.copy(),
            "theta": theta[:, places].T.copy(),
            "score_lo": score_lo[places],
            "score_hi": score_hi[places],
            "rows": rows.astype(np.int32),
            "born": self._born[rows],
            "values": self._values[:, rows].T.copy(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned. Cost: as registering everything."""
        self.register(arrays["slots"], arrays)
        self._set_rows(arrays["rows"], arrays["born"], arrays["values"])

    def check_invariants(self) -> None:
        """Assert that all columns agree."""
        self._tiles.check_invariants()
        born = self._born[self._born != ABSENT]
        assert len(np.unique(born)) == len(born)
        assert self._values.shape == (self._dimensions + self._program.n_columns, len(self._born))

    def explain(self) -> str:
        """One line: how it works, and why it is the one."""
        inside = f"{self._dimensions}-dimensional box" if self._dimensions else "no box"
        score = " and a score interval" if self._is_scored else ""
        return (
            f"live rows, {inside}{score}; a changed row is tested against tiles of "
            f"{self._tiles.nodes.width} neighbouring subscriptions whose bounds hold it; "
            "chosen because it is a scan while subscriptions are few, and tests only some when they are many"
        )

    def _changes(self, delta: RowDelta) -> ChangeSet:
        """The changes of a delta, by step, subscription, op, then `born`."""
        tiles = self._tiles
        tiles.refresh()
        entries = _entries(delta)
        cursor = np.zeros(3, np.int64)
        buffer = ChangeBuffer(self._expected)
        arguments = (
            self._program,
            self._bounding,
            tiles.subscriptions,
            tiles.nodes,
            entries,
            self._scratch(),
        )
        with suppress_fp_warnings(find_changes):
            while entry_point(find_changes)(cursor, *arguments, buffer.columns) == FULL:
                buffer.grow()
        count = int(cursor[N_OUT])
        self._expected = max(self._capacity, count)
        if not count:
            return ChangeSet.empty()
        found = ChangeSet._make(column[:count] for column in buffer.columns)
        subscription_key = found.step.astype(np.int64) * len(tiles.place) + found.subscription
        change_key = (found.op.astype(np.int64) << 32) + found.rank
        order = np.lexsort((change_key, subscription_key))
        return ChangeSet(
            found.step[order], found.subscription[order], found.op[order], found.row[order],
            np.full(count, -1, np.int32), found.score[order], np.zeros(count, np.int32),
        )  # fmt: skip

    def _scratch(self) -> FilterScratch:
        """Working memory, allocated again when the tree gains a level."""
        stack_size = 2 * len(self._tiles.nodes.first) * self._tiles.nodes.width
        if self._cached_scratch is None or len(self._cached_scratch.node_stack) != stack_size:
            self._cached_scratch = empty(FilterScratch, depth=self._program.depth, nodes=stack_size)
        return self._cached_scratch

    def _store_rows(self, delta: RowDelta) -> None:
        # If several steps write to a slot, the last one wins: NumPy assigns in order.
        self._set_rows(delta.row, delta.born_after, delta.after)

    def _set_rows(self, rows: Ints, born: Longs, values: Floats) -> None:
        if len(rows) == 0:
            return
        top = int(rows.max()) + 1
        self._born = ensure_capacity(self._born, top, ABSENT)
        self._values = ensure_width(self._values, len(self._born))
        self._born[rows] = born
        self._values[:, rows] = values.T


def _result_of(slot: int, rows: Ints, scores: Floats) -> ChangeSet:
    """The ordered rows of one subscription as ENTER changes."""
    count = len(rows)
    return ChangeSet(
        step=np.zeros(count, np.int32),
        subscription=np.full(count, slot, np.int32),
        op=np.full(count, ENTER, np.int8),
        row=rows,
        other=np.full(count, -1, np.int32),
        score=scores,
        rank=np.zeros(count, np.int32),
    )


def _entries(delta: RowDelta) -> FilterEntries:
    """The delta as kernels expect it: column-wise, ordered by `born_after` within a step."""
    bounds, leave_rank = step_bounds(delta), np.zeros(len(delta.row), np.int32)
    if len(delta.row) > 1:
        order = np.lexsort((delta.born_after, delta.step))
        delta = RowDelta._make([delta.seq, *(column[order] for column in delta[1:])])
        leave_rank[np.lexsort((delta.born_before, delta.step))] = np.arange(len(order))
    return FilterEntries(
        bounds,
        writable(delta.row, np.int32),
        delta.born_before != ABSENT,
        delta.born_after != ABSENT,
        writable(delta.touched, np.bool_),
        leave_rank,
        column_wise(delta.before),
        column_wise(delta.after),
    )
