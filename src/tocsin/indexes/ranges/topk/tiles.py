"""Range top-k, MIN and MAX by tiles: an update costs what it changes, however many subscriptions there are.

Rows are in a blocked list, subscriptions are points (lo, hi). Answers are not stored: the rows around the one
that moves determine which subscriptions it affects and how (see `tiles_update_kernels`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.arrays.changes import ChangeBuffer, ChangeSet
from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Bools, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT, RowDelta, SubscriptionBounds
from tocsin.indexes.ranges.steps.images import build_images
from tocsin.indexes.ranges.structures.blocked_rows import BlockedRows
from tocsin.indexes.ranges.structures.blocked_rows_layout import STRIDE
from tocsin.indexes.ranges.structures.points import Points
from tocsin.indexes.ranges.topk.ranking import Ranking
from tocsin.indexes.ranges.topk.tiles_kernels import (
    N_DIGITS,
    apply_steps,
    list_answers,
    shorten_log,
    sort_log,
)
from tocsin.indexes.ranges.topk.tiles_layout import (
    CURSOR_SIZE,
    N_LOG,
    N_NETTED,
    Around,
    Gaps,
    Limits,
    Log,
    Replay,
    TileScratch,
)
from tocsin.kernels.status import AROUND_FULL, BLOCKS_FULL, DONE, LOG_FULL, LOG_LONG, N_OUT

#: Log entries of a step beyond which the log is netted: 64 MB.
LOG_CAPACITY = 1 << 22
#: Cells of one update that are cached in a table; with more, each subscription is evaluated alone.
TABLE_CAPACITY = 1 << 20


class RankedTiles:
    """Common base of TopKTiles and MinMaxTiles.

    Delta columns: x, then the score. Rows are ranked by score, then by born. Answers, arrays and changes are
    those of `RankedBoxTree`, so that one can become the other.
    """

    #: whether one row is the answer, reported as a VALUE
    _is_minmax: bool

    def __init__(
        self,
        *,
        descending: bool,
        capacity: int = 16,
        log_capacity: int = LOG_CAPACITY,
        table_capacity: int = TABLE_CAPACITY,
    ) -> None:
        self._sign = -1.0 if descending else 1.0
        self._ranking = Ranking(self._is_minmax, self._sign)
        self._signs: Floats = np.array([1.0, self._sign])
        self._capacity = capacity
        self._log_capacity = log_capacity
        #: one more than the largest subscription slot seen
        self._top = 0
        #: one more than the largest row slot seen
        self._row_top = 0
        #: float64 (capacity,): by subscription slot; an empty range where there is none
        self._lo: Floats = np.full(capacity, np.inf)
        self._hi: Floats = np.full(capacity, -np.inf)
        self._limits = empty(Limits, subscriptions=capacity, kinds=1)
        #: int64 (kinds,): subscriptions of each
        self._n_of_kind: Longs = np.zeros(1, np.int64)
        #: bool (capacity,): whether the slot holds a subscription
        self._is_used: Bools = np.zeros(capacity, np.bool_)
        self._points = Points(capacity)
        self._blocked = BlockedRows(capacity)
        self._around = empty(Around, rows=capacity, table=table_capacity)
        self._around.left.sign[0], self._around.right.sign[0] = -1.0, 1.0
        self._log = empty(Log, entries=capacity)
        self._buffer = ChangeBuffer(capacity)
        self._begin: Longs = np.zeros(N_DIGITS + 1, np.int64)
        #: the largest k in use, which sizes this scratch
        self._k = 0
        self._gaps: Gaps
        self._replay = empty(Replay, k=0, rows=capacity)
        self._fit_scratch()

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, 1), `k` (n,). Cost: a logarithmic search each, amortised."""
        if not len(slots):
            return
        self._top = max(self._top, int(slots.max()) + 1)
        self._lo, self._hi = (
            ensure_capacity(self._lo, self._top, np.inf),
            ensure_capacity(self._hi, self._top, -np.inf),
        )
        self._is_used = ensure_capacity(self._is_used, self._top, False)
        self._limits = grow(self._limits, subscriptions=self._top)
        lo, hi = values["lo"][:, 0] + 0.0, values["hi"][:, 0] + 0.0
        self._lo[slots], self._hi[slots], self._is_used[slots] = lo, hi, True
        given = np.ones(len(slots), np.int32) if self._is_minmax else values["k"].astype(np.int32)
        self._limit(slots, given)
        inside = lo <= hi
        self._points.insert(slots[inside], lo[inside], hi[inside])
        self._fit_scratch()

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: a logarithmic search and a bucket each."""
        inside = slots[self._lo[slots] <= self._hi[slots]]
        self._points.remove(inside, self._lo[inside], self._hi[inside])
        self._lo[slots], self._hi[slots], self._is_used[slots] = np.inf, -np.inf, False
        self._n_of_kind -= np.bincount(self._limits.kind[slots], minlength=len(self._n_of_kind))
        self._fit_scratch()

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a row: a search for each row that it passes in the range of some subscription, the buckets
        of subscriptions met, and the changes reported."""
        images = build_images(delta, self._keyed(delta.before), self._keyed(delta.after), required=2, key=1)
        rows = images.row.astype(np.int32)
        self._reserve_rows(rows)
        self._blocked.reserve(self._row_top)
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        while True:
            status = entry_point(apply_steps)(
                self._blocked.columns,
                self._points.grid,
                self._limits,
                self._k,
                self._top,
                images,
                TileScratch(rows, self._around, self._gaps, self._replay, self._begin),
                self._log,
                self._ranking,
                max(self._log_capacity, 2 * int(cursor[N_NETTED])),
                self._buffer.columns,
                cursor,
            )
            if status == DONE:
                break
            if status == LOG_FULL:
                self._log = grow(self._log, entries=2 * len(self._log.effect))
            elif status == LOG_LONG:
                self._shorten(cursor)
            elif status == AROUND_FULL:
                self._around = grow(self._around, rows=2 * len(self._around.exposed))
            elif status == BLOCKS_FULL:
                self._blocked.grow()
            else:
                self._buffer.grow()
        self._points.rebuild_if_needed()
        if len(self._log.effect) > 2 * self._log_capacity:
            self._log = empty(Log, entries=self._capacity)
        return self._buffer.take(int(cursor[N_OUT]))

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting changes. Cost of a row: see `BlockedRows.put`."""
        keyed = self._keyed(delta.after)
        is_there = (delta.born_after != ABSENT) & ~np.isnan(keyed).any(axis=1)
        self._reserve_rows(delta.row[is_there])
        self._blocked.put(delta.row, keyed[:, 0], keyed[:, 1], delta.born_after)

    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription, a logarithmic search for each of its rows."""
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        asked = slots.astype(np.int64)
        while (
            list_answers(
                self._blocked.columns,
                self._lo,
                self._hi,
                self._limits,
                asked,
                self._gaps,
                self._ranking,
                self._buffer.columns,
                cursor,
            )
            != DONE
        ):
            self._buffer.grow()
        return self._buffer.take(int(cursor[N_OUT]))

    def bounds(self) -> SubscriptionBounds:
        """The ranges of all subscriptions. Cost: linear."""
        lo, hi = self._lo[: self._top], self._hi[: self._top]
        slots = np.flatnonzero(self._is_used[: self._top] & (lo <= hi)).astype(np.int32)
        k = self._limits.k[self._limits.kind[slots]].astype(np.int32)
        return SubscriptionBounds(slots, lo[None, slots], hi[None, slots], k)

    def rows(self) -> RowDelta:
        """All rows that can be in an answer, as one step that inserts them. Cost: linear."""
        rows, x, y, born = self._blocked.rows()
        return RowDelta.inserting(rows, born, np.column_stack((x, y * self._sign + 0.0)))

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        shown: dict[str, object] = {"lo": [float(self._lo[slot])], "hi": [float(self._hi[slot])]}
        return shown if self._is_minmax else shown | {"k": int(self._limits.k[self._limits.kind[slot]])}

    def arrays(self) -> Arrays:
        """As those of `RankedBoxTree`: bounds by subscription slot, values and born by row slot."""
        lo, hi = np.full((2, self._top), np.inf), np.full((2, self._top), -np.inf)
        lo[0], hi[0] = self._lo[: self._top], self._hi[: self._top]
        used = self._is_used[: self._top]
        lo[1, used], hi[1, used] = -np.inf, np.inf
        value, born = np.full((self._row_top, 2), np.nan), np.full(self._row_top, ABSENT, np.int64)
        rows, x, y, row_born = self._blocked.rows()
        value[rows, 0], value[rows, 1], born[rows] = x, y, row_born
        k = np.where(used, self._limits.k[self._limits.kind[: self._top]], 1).astype(np.int32)
        return {"lo": lo, "hi": hi, "value": value, "born": born, "k": k}

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` of this index or of `RankedBoxTree` returned. About linear."""
        lo, hi, born = arrays["lo"], arrays["hi"], arrays["born"]
        self._top, self._row_top = lo.shape[1], len(born)
        self._lo, self._hi, self._is_used = lo[0].copy(), hi[0].copy(), lo[1] < hi[1]
        self._limits = empty(Limits, subscriptions=self._top, kinds=1)
        self._n_of_kind = np.zeros(1, np.int64)
        slots = np.flatnonzero(self._is_used)
        self._limit(slots.astype(np.int32), arrays["k"][slots].astype(np.int32))
        used = np.flatnonzero(self._lo <= self._hi).astype(np.int32)
        self._points = Points(self._capacity)
        self._points.insert(used, self._lo[used], self._hi[used])
        rows = np.flatnonzero(born != ABSENT).astype(np.int32)
        self._blocked = BlockedRows(self._capacity)
        self._blocked.put(rows, arrays["value"][rows, 0], arrays["value"][rows, 1], born[rows])
        self._replay = empty(Replay, k=self._k, rows=self._row_top)
        self._fit_scratch()

    def check_invariants(self) -> None:
        """Assert all invariants, that the points are the ranges, and that scratch is clean."""
        self._points.check_invariants()
        self._blocked.check_invariants()
        slots, lo, hi = self._points.points()
        assert slots.tolist() == np.flatnonzero(self._lo <= self._hi).tolist()
        np.testing.assert_array_equal(lo, self._lo[slots])
        np.testing.assert_array_equal(hi, self._hi[slots])
        assert len(self._lo) == len(self._hi) >= self._top
        assert len(self._limits.kind) >= self._top
        assert not self._is_used[self._top :].any()
        assert not (self._is_used < (self._lo <= self._hi)).any()
        counts = np.bincount(self._limits.kind[self._is_used], minlength=len(self._limits.k))
        assert counts.tolist() == self._n_of_kind.tolist()
        in_use = self._limits.k[counts > 0].tolist()
        assert len(set(in_use)) == len(in_use)
        for columns in (self._limits, self._around, self._log, self._gaps, self._replay):
            check_layout(columns)
        assert len(self._replay.seen) >= self._row_top
        assert not self._replay.seen.any()
        assert not self._replay.is_reported.any()

    def _limit(self, slots: Ints, k: Ints) -> None:
        """Record how many rows each of `slots` may have. Cost: sorting the k."""
        given, place, counts = np.unique(k, return_inverse=True, return_counts=True)
        kinds = np.empty(len(given), np.int64)
        for number, one in enumerate(given.tolist()):
            kinds[number] = self._kind_of(one)
            self._n_of_kind[kinds[number]] += counts[number]
        self._limits.kind[slots] = kinds[place]

    def _kind_of(self, k: int) -> int:
        """The index of a k among those in use; an unused entry is reassigned."""
        same = np.flatnonzero((self._limits.k == k) & (self._n_of_kind > 0))
        if len(same):
            return int(same[0])
        free = np.flatnonzero(self._n_of_kind == 0)
        if len(free):
            self._limits.k[free[0]] = k
            return int(free[0])
        self._n_of_kind = np.append(self._n_of_kind, 0)
        self._limits = Limits(self._limits.kind, np.append(self._limits.k, k))
        return len(self._limits.k) - 1

    def _fit_scratch(self) -> None:
        """Size the scratch for the largest k in use."""
        k = int(self._limits.k[self._n_of_kind > 0].max(initial=1))
        if k != self._k:
            self._k = k
            self._around = grow(self._around, rows=k + STRIDE)
            self._gaps = empty(Gaps, k=k)
            self._replay = empty(Replay, k=k, rows=len(self._replay.seen))

    def _reserve_rows(self, rows: Ints) -> None:
        """Ensure capacity for row slots. Cost: amortised constant per row."""
        self._row_top = max(self._row_top, int(rows.max(initial=-1)) + 1)
        if self._row_top > len(self._replay.seen):
            self._replay = grow(self._replay, rows=self._row_top)

    def _keyed(self, columns: Floats) -> Floats:
        """A copy with scores turned into keys, which ascend with rank; no -0.0."""
        keyed: Floats = columns * self._signs
        keyed += 0.0
        return keyed

    def _shorten(self, cursor: Longs) -> None:
        """Net the log of a long step. Cost: linear in it."""
        count = int(cursor[N_LOG])
        sort_log(self._log, count, self._top, self._begin)
        # Entries share effects, but netted ones have an effect each.
        n_moves = int(np.diff(self._log.start)[self._log.effect[:count]].sum())
        shorter = empty(Log, entries=max(count, n_moves // 2 + 1))
        shorten_log(self._log, self._limits, self._replay, shorter, cursor)
        self._log = shorter


class TopKTiles(RankedTiles):
    """`SELECT … WHERE x BETWEEN lo AND hi ORDER BY y [DESC] LIMIT k`: a `TopKBoxTree` of one range."""

    _is_minmax = False

    def explain(self) -> str:
        direction = "descending" if self._sign < 0 else "ascending"
        return (
            f"range top-k, {direction}; {len(self._points)} ranges as points, "
            "a row is looked up only where it changes an answer"
        )


class MinMaxTiles(RankedTiles):
    """`SELECT MIN(y)` or `MAX(y) … WHERE x BETWEEN lo AND hi`: an `MinMaxBoxTree` of one range."""

    _is_minmax = True

    def explain(self) -> str:
        name = "max" if self._sign < 0 else "min"
        return (
            f"range {name}; {len(self._points)} ranges as points, "
            "a row is looked up only where it changes an answer"
        )
