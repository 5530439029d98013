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
    TileSide,
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
        #: kind int32 (capacity,): by subscription slot
        self._limits = Limits(np.zeros(capacity, np.int32), np.ones(1, np.int64))
        #: int64 (kinds,): subscriptions of each
        self._n_of_kind: Longs = np.zeros(1, np.int64)
        #: bool (capacity,): whether the slot holds a subscription
        self._is_used: Bools = np.zeros(capacity, np.bool_)
        self._points = Points(capacity)
        self._blocked = BlockedRows(capacity)
        self._around = _empty_around(capacity, table_capacity)
        self._log = _empty_log(capacity)
        self._buffer = ChangeBuffer(capacity)
        self._begin: Longs = np.zeros(N_DIGITS + 1, np.int64)
        self._seen: Ints = np.zeros(capacity, np.int32)
        self._is_news = np.zeros(capacity, np.bool_)
        #: the largest k in use, which sizes this scratch
        self._k = 0
        self._gaps: Gaps
        self._held: tuple[Ints, ...]
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
        self._limits = self._limits._replace(kind=ensure_capacity(self._limits.kind, self._top))
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
        self._row_top = max(self._row_top, int(rows.max(initial=-1)) + 1)
        self._blocked.reserve(self._row_top)
        self._seen = ensure_capacity(self._seen, self._row_top)
        self._is_news = ensure_capacity(self._is_news, self._row_top)
        replay = Replay._make([*self._held, self._seen, self._is_news])
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        while True:
            status = entry_point(apply_steps)(
                self._blocked.columns,
                self._points.grid,
                self._limits,
                self._k,
                self._top,
                images,
                TileScratch(rows, self._around, self._gaps, replay, self._begin),
                self._log,
                self._ranking,
                max(self._log_capacity, 2 * int(cursor[N_NETTED])),
                self._buffer.columns,
                cursor,
            )
            if status == DONE:
                break
            if status == LOG_FULL:
                self._log = _grown_log(self._log)
            elif status == LOG_LONG:
                self._shorten(replay, cursor)
            elif status == AROUND_FULL:
                self._around = _around_of(self._around, 2 * len(self._around.exposed))
            elif status == BLOCKS_FULL:
                self._blocked.grow()
            else:
                self._buffer.grow()
        self._points.rebuild_if_needed()
        if len(self._log.cell) > 2 * self._log_capacity:
            self._log = _empty_log(self._capacity)
        return self._buffer.take(int(cursor[N_OUT]))

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting changes. Cost of a row: see `BlockedRows.put`."""
        keyed = self._keyed(delta.after)
        is_there = (delta.born_after != ABSENT) & ~np.isnan(keyed).any(axis=1)
        self._row_top = max(self._row_top, int(delta.row[is_there].max(initial=-1)) + 1)
        self._seen = ensure_capacity(self._seen, self._row_top)
        self._is_news = ensure_capacity(self._is_news, self._row_top)
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
        self._limits = Limits(np.zeros(self._top, np.int32), np.ones(1, np.int64))
        self._n_of_kind = np.zeros(1, np.int64)
        slots = np.flatnonzero(self._is_used)
        self._limit(slots.astype(np.int32), arrays["k"][slots].astype(np.int32))
        used = np.flatnonzero(self._lo <= self._hi).astype(np.int32)
        self._points = Points(self._capacity)
        self._points.insert(used, self._lo[used], self._hi[used])
        rows = np.flatnonzero(born != ABSENT).astype(np.int32)
        self._blocked = BlockedRows(self._capacity)
        self._blocked.put(rows, arrays["value"][rows, 0], arrays["value"][rows, 1], born[rows])
        self._seen = np.zeros(self._row_top, np.int32)
        self._is_news = np.zeros(self._row_top, np.bool_)
        self._fit_scratch()

    def check_invariants(self) -> None:
        """Also: the points are the ranges, and scratch is clean."""
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
        assert not self._seen.any()
        assert not self._is_news.any()
        assert len(self._log.subscription) == len(self._log.cell) == len(self._log.spare_cell)

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
            self._around = _around_of(self._around, k + STRIDE)
            self._gaps = Gaps(*(np.empty(k + 2, np.int32) for _ in range(4)))
            self._held = tuple(np.empty(k, np.int32) for _ in range(3))

    def _keyed(self, columns: Floats) -> Floats:
        """A copy with scores turned into keys, which ascend with rank; no -0.0."""
        keyed: Floats = columns * self._signs
        keyed += 0.0
        return keyed

    def _shorten(self, replay: Replay, cursor: Longs) -> None:
        """Net the log of a long step. Cost: linear in it."""
        count = int(cursor[N_LOG])
        sort_log(self._log, count, self._top, self._begin)
        # Entries share cells, but netted ones have a cell each.
        n_moves = int(np.diff(self._log.start)[self._log.cell[:count]].sum())
        shorter = _empty_log(max(count, n_moves // 2 + 1))
        shorten_log(self._log, self._limits, replay, shorter, cursor)
        self._log = shorter


class TopKTiles(RankedTiles):
    """`SELECT … WHERE x BETWEEN lo AND hi ORDER BY y [DESC] LIMIT k`: a `TopKBoxTree` of one range."""

    _is_minmax = False

    def explain(self) -> str:
        direction = "descending" if self._sign < 0 else "ascending"
        return (
            f"tiles: range top-k, {direction}; {len(self._points)} ranges as points, "
            "a row is looked up only where it changes an answer"
        )


class MinMaxTiles(RankedTiles):
    """`SELECT MIN(y)` or `MAX(y) … WHERE x BETWEEN lo AND hi`: an `MinMaxBoxTree` of one range."""

    _is_minmax = True

    def explain(self) -> str:
        name = "max" if self._sign < 0 else "min"
        return (
            f"tiles: range {name}; {len(self._points)} ranges as points, "
            "a row is looked up only where it changes an answer"
        )


def _empty_log(capacity: int) -> Log:
    """A log without entries; `start` begins with the zero of the first cell."""
    return Log(
        subscription=np.empty(capacity, np.int32),
        cell=np.empty(capacity, np.int32),
        spare_subscription=np.empty(capacity, np.int32),
        spare_cell=np.empty(capacity, np.int32),
        start=np.zeros(capacity + 1, np.int32),
        row=np.empty(2 * capacity, np.int32),
        rank=np.empty(2 * capacity, np.int32),
    )


def _grown_log(log: Log) -> Log:
    """Twice the capacity, with the same contents."""
    capacity = 2 * len(log.cell)
    return Log._make(
        ensure_capacity(column, empty.shape[0])
        for column, empty in zip(log, _empty_log(capacity), strict=True)
    )


def _empty_around(capacity: int, table_capacity: int) -> Around:
    return Around(
        left=empty_side(capacity, -1.0),
        right=empty_side(capacity, 1.0),
        exposed=np.empty(capacity, np.int64),
        position=np.empty(capacity, np.int32),
        table=np.empty(table_capacity, np.int32),
    )


def empty_side(capacity: int, sign: float) -> TileSide:
    """Capacity for `capacity` rows on one side, not yet written."""
    return TileSide(
        sign=np.full(1, sign),
        far=np.empty(capacity),
        place=np.empty(capacity, np.int32),
        number=np.empty(capacity, np.int32),
        before=np.zeros(capacity + 1, np.int32),
        gap=np.empty(capacity, np.int32),
        ends=np.empty(2, np.int32),
    )


def _around_of(around: Around, capacity: int) -> Around:
    """Scratch with at least this capacity; its contents do not outlive an update."""
    have = len(around.exposed)
    return around if capacity <= have else _empty_around(max(capacity, 2 * have), len(around.table))
