"""Live rows and score thresholds: the rows inside a box, or with a score inside an interval.

Nothing is stored about who is inside where. A delta brings each row as it was and as it is, and both
are tested anew against the subscriptions near them; rows are kept only to answer `result`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import ABSENT, ENTER, Arrays, ChangeSet, Floats, Ints, Longs, RowDelta
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.direct import compiled, unwarned
from tocsin.indexes.shared.members_kernels import N_OUT, Entries, Scratch, find_changes, find_rows
from tocsin.indexes.shared.members_tiles import TAIL, WIDTH, Tiles
from tocsin.indexes.shared.programs import NO_PROGRAM, Program, exchanged
from tocsin.indexes.shared.programs_kernels import BLOCK
from tocsin.indexes.shared.scans import (
    FULL,
    ChangeBuffer,
    ChangeColumns,
    column_wise,
    step_bounds,
    widened,
    writable,
)


class Members:
    """Rows of a table or a window inside boxes and, with a program, inside score intervals.

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
        tail: int = TAIL,
    ) -> None:
        self._program = NO_PROGRAM if program is None else program
        self._bounding = exchanged(self._program)
        self._dimensions = dimensions
        self._capacity = capacity
        self._tiles = Tiles(dimensions, self._program.n_theta, width, tail)
        #: int64 (rows,): by row slot, ABSENT where there is none
        self._born: Longs = np.full(capacity, ABSENT, np.int64)
        #: float64 (columns, rows): by row slot
        self._values: Floats = np.empty((dimensions + self._program.n_columns, capacity))
        #: how many changes the last delta made, to begin the next with as much room
        self._expected = capacity
        self._working: Scratch | None = None

    @property
    def _is_scored(self) -> bool:
        return self._program is not NO_PROGRAM

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions. Cost: linear in their number; now and then n log n of all, amortised."""
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
        """Report what enters, changes and leaves.

        Cost: for each entry the tiles whose bounds it is in, before or after, and what is reported.
        """
        changes = ChangeSet.empty()
        if len(self._tiles) and len(delta.row):
            changes = self._changes(delta)
        self._keep_rows(delta)
        return changes

    def result(self, slots: Ints) -> ChangeSet:
        """The rows inside, by born; with a program, the best score and then the newest row first.

        Cost: all rows times the number of slots, and the sorting of the answer.
        """
        is_there = self._born != ABSENT
        rows, scores = np.empty(len(is_there), np.int32), np.empty(len(is_there))
        stack, inside = np.empty((self._program.depth, BLOCK)), np.empty(BLOCK, np.bool_)
        subscriptions, score = self._tiles.subscriptions, np.empty(BLOCK)
        parts = [ChangeSet.empty()]
        for slot in slots.tolist():
            # Without compilation, NumPy's scalars would warn of the infinities and NaNs that are meant.
            with np.errstate(all="ignore"):
                count = find_rows(
                    self._program, subscriptions, int(self._tiles.place[slot]), self._values, is_there,
                    stack, inside, score, rows, scores,
                )  # fmt: skip
            born = self._born[rows[:count]]
            order = np.lexsort((-born, -scores[:count])) if self._is_scored else np.argsort(born)
            parts.append(_answer(slot, rows[order], scores[order]))
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
        """Become what `arrays` was taken from. Cost: as to register all."""
        self.register(arrays["slots"], arrays)
        self._set_rows(arrays["rows"], arrays["born"], arrays["values"])

    def check_invariants(self) -> None:
        """Assert that all columns agree."""
        self._tiles.check_invariants()
        born = self._born[self._born != ABSENT]
        assert len(np.unique(born)) == len(born)
        assert self._values.shape == (self._dimensions + self._program.n_columns, len(self._born))

    def explain(self) -> str:
        """One line: which index this is, how it works, and why it is the one."""
        inside = f"{self._dimensions}-dimensional box" if self._dimensions else "no box"
        score = " and a score interval" if self._is_scored else ""
        return (
            f"live rows by tiles: {inside}{score}; a changed row is tested against the tiles of "
            f"{self._tiles.nodes.width} near subscriptions whose bounds it is in; "
            "chosen because of few subscriptions it tests all, as a scan, and of many only some"
        )

    def _changes(self, delta: RowDelta) -> ChangeSet:
        """What the delta changes: by step, subscription, op, then born."""
        tiles = self._tiles
        tiles.settle()
        entries = _entries(delta)
        cursor = np.zeros(3, np.int64)
        buffer = ChangeBuffer(self._expected)
        taken = (self._program, self._bounding, tiles.subscriptions, tiles.nodes, entries, self._scratch())
        with unwarned(find_changes):
            while compiled(find_changes)(cursor, *taken, buffer.columns) == FULL:
                buffer.grow()
        count = int(cursor[N_OUT])
        self._expected = max(self._capacity, count)
        if not count:
            return ChangeSet.empty()
        found = ChangeColumns._make(column[:count] for column in buffer.columns)
        who = found.step.astype(np.int64) * len(tiles.place) + found.subscription
        what = (found.op.astype(np.int64) << 32) + found.rank
        order = np.lexsort((what, who))
        return ChangeSet(
            found.step[order], found.subscription[order], found.op[order], found.row[order],
            np.full(count, -1, np.int32), found.score[order], np.zeros(count, np.int32),
        )  # fmt: skip

    def _scratch(self) -> Scratch:
        """Working memory, made anew when the nodes have another level."""
        room = 2 * len(self._tiles.nodes.first) * self._tiles.nodes.width
        if self._working is None or len(self._working.todo) != room:
            depth = self._program.depth
            self._working = Scratch._make(
                [
                    *(np.empty((depth, BLOCK)) for _ in range(3)),
                    *(np.empty(BLOCK) for _ in range(2)),
                    *(np.empty(BLOCK, np.bool_) for _ in range(2)),
                    np.empty(BLOCK, np.uint8),
                    np.empty(room, np.int64),
                ]
            )
        return self._working

    def _keep_rows(self, delta: RowDelta) -> None:
        # A slot that several steps write to keeps the last: NumPy assigns in order.
        self._set_rows(delta.row, delta.born_after, delta.after)

    def _set_rows(self, rows: Ints, born: Longs, values: Floats) -> None:
        if len(rows) == 0:
            return
        top = int(rows.max()) + 1
        self._born = grown(self._born, top, ABSENT)
        self._values = widened(self._values, len(self._born))
        self._born[rows] = born
        self._values[:, rows] = values.T


def _answer(slot: int, rows: Ints, scores: Floats) -> ChangeSet:
    """Rows that one subscription holds, in order."""
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


def _entries(delta: RowDelta) -> Entries:
    """The delta as kernels take it: column-wise, ordered by `born_after` within a step."""
    bounds, left_at = step_bounds(delta), np.zeros(len(delta.row), np.int32)
    if len(delta.row) > 1:
        order = np.lexsort((delta.born_after, delta.step))
        delta = RowDelta._make([delta.seq, *(column[order] for column in delta[1:])])
        left_at[np.lexsort((delta.born_before, delta.step))] = np.arange(len(order))
    return Entries(
        bounds,
        writable(delta.row, np.int32),
        delta.born_before != ABSENT,
        delta.born_after != ABSENT,
        writable(delta.touched, np.bool_),
        left_at,
        column_wise(delta.before),
        column_wise(delta.after),
    )
