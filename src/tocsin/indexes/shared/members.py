"""Live rows and score thresholds: the rows inside a box, or with a score inside an interval.

Nothing is stored about who is inside where. A delta brings each row as it was and as it is, and both
are tested anew; rows are kept only to answer `result`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import ABSENT, Arrays, ChangeSet, Floats, Ints, Longs, RowDelta
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.members_kernels import N_OUT, Entries, Scratch, Subscriptions, find_changes
from tocsin.indexes.shared.programs import NO_PROGRAM, Program, tile_size
from tocsin.indexes.shared.programs_kernels import BLOCK
from tocsin.indexes.shared.scans import FULL, ChangeBuffer, column_wise, step_bounds, widened, writable


class Members:
    """Rows of a table or a window inside boxes and, with a program, inside score intervals.

    Delta columns: the box's dimensions, then the program's columns. Bound values: `lo`, `hi`
    (n, dimensions) and, with a program, `theta` (n, n_theta), `score_lo`, `score_hi` (n,), all closed.
    A score of NaN is outside. Changes carry the score, where there is a program, and no rank.
    """

    def __init__(self, dimensions: int, program: Program | None, capacity: int = 16) -> None:
        self._program = NO_PROGRAM if program is None else program
        self._dimensions = dimensions
        self._capacity = capacity
        self._subscriptions = Subscriptions(
            np.empty((dimensions, capacity)),
            np.empty((dimensions, capacity)),
            np.empty((self._program.n_theta, capacity)),
            np.empty(capacity),
            np.empty(capacity),
            np.zeros(capacity, np.bool_),
        )
        #: one more than the largest subscription slot seen
        self._n_subscriptions = 0
        #: int64 (rows,): by row slot, ABSENT where there is none
        self._born: Longs = np.full(capacity, ABSENT, np.int64)
        #: float64 (columns, rows): by row slot
        self._values: Floats = np.empty((dimensions + self._program.n_columns, capacity))
        #: how many changes the last step made, to begin the next with as much room
        self._expected = capacity

    @property
    def _is_scored(self) -> bool:
        return self._program is not NO_PROGRAM

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions. Cost: linear in their number."""
        if len(slots) == 0:
            return
        top = int(slots.max()) + 1
        lo, hi, theta, score_lo, score_hi, is_live = self._subscriptions
        lo, hi, theta = (widened(column, top) for column in (lo, hi, theta))
        score_lo, score_hi, is_live = (grown(column, top) for column in (score_lo, score_hi, is_live))
        if self._dimensions:
            lo[:, slots] = values["lo"].T
            hi[:, slots] = values["hi"].T
        if self._program.n_theta:
            theta[:, slots] = values["theta"].T
        score_lo[slots] = values["score_lo"] if self._is_scored else -np.inf
        score_hi[slots] = values["score_hi"] if self._is_scored else np.inf
        is_live[slots] = True
        self._subscriptions = Subscriptions(lo, hi, theta, score_lo, score_hi, is_live)
        self._n_subscriptions = max(self._n_subscriptions, top)

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their number."""
        self._subscriptions.is_live[slots] = False

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        columns = self._subscriptions
        shown: dict[str, object] = {}
        if self._dimensions:
            shown |= {"lo": columns.lo[:, slot].tolist(), "hi": columns.hi[:, slot].tolist()}
        if self._is_scored:
            shown |= {"theta": columns.theta[:, slot].tolist()}
            shown |= {"score_lo": float(columns.score_lo[slot]), "score_hi": float(columns.score_hi[slot])}
        return shown

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Report what enters, changes and leaves. Cost: entries times subscriptions."""
        changes = ChangeSet.empty()
        if self._subscriptions.is_live.any() and len(delta.row):
            changes = self._changes(delta, self._subscriptions, self._n_subscriptions)
        self._keep_rows(delta)
        return changes

    def result(self, slots: Ints) -> ChangeSet:
        """The rows inside, by born; with a program, the best score and then the newest row first.

        Cost: all rows times the number of slots, and the sorting of the answer.
        """
        rows = np.flatnonzero(self._born != ABSENT).astype(np.int32)
        asked = Subscriptions._make(
            np.ascontiguousarray(column[..., slots]) for column in self._subscriptions
        )
        found = self._changes(self._appearance(rows), asked, len(slots))
        if self._is_scored:
            order = np.lexsort((-self._born[found.row], -found.score, found.subscription))
            found = ChangeSet._make(column[order] for column in found)
        return found._replace(subscription=slots.astype(np.int32)[found.subscription])

    def arrays(self) -> Arrays:
        """Live subscriptions and rows, each with their slots. Cost: linear."""
        slots = np.flatnonzero(self._subscriptions.is_live)
        rows = np.flatnonzero(self._born != ABSENT)
        lo, hi, theta, score_lo, score_hi, _ = self._subscriptions
        return {
            "slots": slots.astype(np.int32),
            "lo": lo[:, slots].T.copy(),
            "hi": hi[:, slots].T.copy(),
            "theta": theta[:, slots].T.copy(),
            "score_lo": score_lo[slots],
            "score_hi": score_hi[slots],
            "rows": rows.astype(np.int32),
            "born": self._born[rows],
            "values": self._values[:, rows].T.copy(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Cost: linear."""
        self.register(arrays["slots"], arrays)
        self._set_rows(arrays["rows"], arrays["born"], arrays["values"])

    def check_invariants(self) -> None:
        """Assert that all columns agree."""
        live = np.flatnonzero(self._subscriptions.is_live)
        assert not len(live) or live[-1] < self._n_subscriptions
        for column in self._subscriptions:
            assert column.shape[-1] >= self._n_subscriptions
            assert column.flags.c_contiguous
        born = self._born[self._born != ABSENT]
        assert len(np.unique(born)) == len(born)
        assert self._values.shape == (self._dimensions + self._program.n_columns, len(self._born))

    def explain(self) -> str:
        """One line: which index this is and how it works."""
        inside = f"{self._dimensions}-dimensional box" if self._dimensions else "no box"
        score = " and a score interval" if self._is_scored else ""
        return f"live rows by scan: {inside}{score}; every changed row is tested against every subscription"

    def _changes(self, delta: RowDelta, subscriptions: Subscriptions, n_subscriptions: int) -> ChangeSet:
        """What the delta changes for the first `n_subscriptions` of `subscriptions`."""
        entries = _entries(delta)
        largest = int(np.diff(entries.bounds).max(initial=0))
        tile = tile_size(largest)
        scratch = Scratch(
            np.empty((self._program.depth, BLOCK)),
            np.empty(tile),
            np.empty(tile),
            np.empty(tile, np.bool_),
            np.empty(tile, np.bool_),
            np.empty(BLOCK, np.bool_),
            np.empty(largest, np.int8),
            np.empty(largest, np.int32),
        )
        cursor = np.zeros(3, np.int64)
        buffer = ChangeBuffer(self._expected)
        # Without compilation, NumPy's scalars would warn of the infinities and NaNs that are meant.
        with np.errstate(all="ignore"):
            while (
                find_changes(
                    cursor, self._program, subscriptions, n_subscriptions, entries, scratch, buffer.columns
                )
                == FULL
            ):
                buffer.grow()
        count = int(cursor[N_OUT])
        self._expected = max(self._capacity, count)
        return buffer.changes(count)

    def _appearance(self, rows: Ints) -> RowDelta:
        """A delta in which `rows` are inserted as they are."""
        after = self._values[:, rows].T
        return RowDelta(
            seq=np.zeros(1, np.int64),
            step=np.zeros(len(rows), np.int32),
            row=rows,
            born_before=np.full(len(rows), ABSENT, np.int64),
            born_after=self._born[rows],
            before=np.full(after.shape, np.nan),
            after=after,
            touched=np.zeros(len(rows), np.bool_),
        )

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


def _entries(delta: RowDelta) -> Entries:
    """The delta as kernels take it: column-wise, ordered by `born_after` within a step."""
    order = np.lexsort((delta.born_after, delta.step))
    born_before = delta.born_before[order]
    return Entries(
        step_bounds(delta),
        writable(delta.row[order], np.int32),
        born_before != ABSENT,
        delta.born_after[order] != ABSENT,
        writable(delta.touched[order], np.bool_),
        np.lexsort((born_before, delta.step)).astype(np.int32),
        column_wise(delta.before[order]),
        column_wise(delta.after[order]),
    )
