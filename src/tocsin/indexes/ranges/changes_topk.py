"""Range top-k, and MIN and MAX, by tiles: an update costs what it changes, not what is there.

Rows are in an object index, subscriptions are points (lo, hi). Nobody's answer is stored: the rows around the
one that moves tell which subscriptions hear of it and what (see `changes_update_kernels`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import ABSENT, Arrays, Bools, ChangeSet, Floats, Ints, Longs, RowDelta
from tocsin.indexes.ranges.buffers import Buffer
from tocsin.indexes.ranges.changes_columns import (
    AROUND_FULL,
    CURSOR_SIZE,
    DONE,
    LOG_FULL,
    LOG_LONG,
    N_KEPT,
    N_LOG,
    N_OUT,
    OBJECTS_FULL,
    Around,
    Gaps,
    Limits,
    Log,
    Replay,
    Side,
)
from tocsin.indexes.ranges.changes_kernels import apply_steps, list_answers
from tocsin.indexes.ranges.changes_log_kernels import N_DIGITS, shorten_log, sort_log
from tocsin.indexes.ranges.images import build_images
from tocsin.indexes.ranges.objects import ObjectIndex
from tocsin.indexes.ranges.objects_columns import STRIDE
from tocsin.indexes.ranges.points import Points
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.direct import compiled

#: Log entries of a step beyond which they are netted before it goes on: 64 MB.
LOG_ROOM = 1 << 22
#: Cells of one update that are told apart in a table; with more, each subscription is looked at alone.
TABLE_ROOM = 1 << 20


class RankedTiles:
    """What RangeTopK and RangeExtreme have in common.

    Delta columns: x, then the score. Rows are ranked by score, then by born. Answers, arrays and changes are
    those of the scan (`RankedScan`), so that one can become the other.
    """

    #: whether the first row alone is told of, as a value
    _is_extreme: bool

    def __init__(
        self, *, descending: bool, capacity: int = 16, log_room: int = LOG_ROOM, table_room: int = TABLE_ROOM
    ) -> None:
        self._sign = -1.0 if descending else 1.0
        self._signs: Floats = np.array([1.0, self._sign])
        self._capacity = capacity
        self._log_room = log_room
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
        self._objects = ObjectIndex(capacity)
        self._around = _empty_around(capacity, table_room)
        self._log = _empty_log(capacity)
        self._buffer = Buffer(capacity)
        self._begin: Longs = np.zeros(N_DIGITS + 1, np.int64)
        self._seen: Ints = np.zeros(capacity, np.int32)
        self._is_news = np.zeros(capacity, np.bool_)
        #: the largest k in use, and scratch that it decides the size of
        self._k = 0
        self._gaps: Gaps
        self._held: tuple[Ints, ...]
        self._fit_scratch()

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, 1), `k` (n,). Cost: a logarithmic search each, amortised."""
        if not len(slots):
            return
        self._top = max(self._top, int(slots.max()) + 1)
        self._lo, self._hi = grown(self._lo, self._top, np.inf), grown(self._hi, self._top, -np.inf)
        self._is_used = grown(self._is_used, self._top, False)
        self._limits = self._limits._replace(kind=grown(self._limits.kind, self._top))
        lo, hi = values["lo"][:, 0] + 0.0, values["hi"][:, 0] + 0.0
        self._lo[slots], self._hi[slots], self._is_used[slots] = lo, hi, True
        given = np.ones(len(slots), np.int32) if self._is_extreme else values["k"].astype(np.int32)
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
        """Cost of a row: a search for each row that it passes and that a subscription can see it pass, the
        buckets of subscriptions that it meets, and what there is to tell."""
        images = build_images(delta, self._keyed(delta.before), self._keyed(delta.after), required=2, key=1)
        rows = images.row.astype(np.int32)
        self._row_top = max(self._row_top, int(rows.max(initial=-1)) + 1)
        self._objects.reserve(self._row_top)
        self._seen = grown(self._seen, self._row_top)
        self._is_news = grown(self._is_news, self._row_top)
        replay = Replay._make([*self._held, self._seen, self._is_news])
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        while True:
            status = compiled(apply_steps)(
                self._objects.objects,
                self._points.grid,
                self._limits,
                self._k,
                self._top,
                images,
                rows,
                self._around,
                self._gaps,
                self._log,
                replay,
                self._begin,
                self._is_extreme,
                self._sign,
                max(self._log_room, 2 * int(cursor[N_KEPT])),
                self._buffer.columns,
                cursor,
            )
            if status == DONE:
                break
            if status == LOG_FULL:
                self._log = _longer(self._log)
            elif status == LOG_LONG:
                self._shorten(replay, cursor)
            elif status == AROUND_FULL:
                self._around = _around_of(self._around, 2 * len(self._around.exposed))
            elif status == OBJECTS_FULL:
                self._objects.grow()
            else:
                self._buffer.grow()
        self._points.tend()
        if len(self._log.cell) > 2 * self._log_room:
            self._log = _empty_log(self._capacity)
        return self._buffer.take(int(cursor[N_OUT]))

    def follow(self, delta: RowDelta) -> None:
        """Take a delta without asking what it changes. Cost of a row: see `ObjectIndex.put`."""
        keyed = self._keyed(delta.after)
        is_there = (delta.born_after != ABSENT) & ~np.isnan(keyed).any(axis=1)
        self._row_top = max(self._row_top, int(delta.row[is_there].max(initial=-1)) + 1)
        self._seen = grown(self._seen, self._row_top)
        self._is_news = grown(self._is_news, self._row_top)
        self._objects.put(delta.row, keyed[:, 0], keyed[:, 1], delta.born_after)

    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription, a logarithmic search for each of its rows."""
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        asked = slots.astype(np.int64)
        while (
            list_answers(
                self._objects.objects,
                self._lo,
                self._hi,
                self._limits,
                asked,
                self._gaps,
                self._is_extreme,
                self._sign,
                self._buffer.columns,
                cursor,
            )
            != DONE
        ):
            self._buffer.grow()
        return self._buffer.take(int(cursor[N_OUT]))

    def rows(self) -> RowDelta:
        """All rows that can be in an answer, as one step that inserts them. Cost: linear."""
        rows, x, y, born = self._objects.rows()
        return RowDelta.inserting(rows, born, np.column_stack((x, y * self._sign + 0.0)))

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        shown: dict[str, object] = {"lo": [float(self._lo[slot])], "hi": [float(self._hi[slot])]}
        return shown if self._is_extreme else shown | {"k": int(self._limits.k[self._limits.kind[slot]])}

    def arrays(self) -> Arrays:
        """The same as those of the scan: bounds by subscription slot, values and born by row slot."""
        lo, hi = np.full((2, self._top), np.inf), np.full((2, self._top), -np.inf)
        lo[0], hi[0] = self._lo[: self._top], self._hi[: self._top]
        used = self._is_used[: self._top]
        lo[1, used], hi[1, used] = -np.inf, np.inf
        value, born = np.full((self._row_top, 2), np.nan), np.full(self._row_top, ABSENT, np.int64)
        rows, x, y, row_born = self._objects.rows()
        value[rows, 0], value[rows, 1], born[rows] = x, y, row_born
        k = np.where(used, self._limits.k[self._limits.kind[: self._top]], 1).astype(np.int32)
        return {"lo": lo, "hi": hi, "value": value, "born": born, "k": k}

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from, of this index or of the scan. Cost: about linear."""
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
        self._objects = ObjectIndex(self._capacity)
        self._objects.put(rows, arrays["value"][rows, 0], arrays["value"][rows, 1], born[rows])
        self._seen = np.zeros(self._row_top, np.int32)
        self._is_news = np.zeros(self._row_top, np.bool_)
        self._fit_scratch()

    def check_invariants(self) -> None:
        """Also: the points are the ranges, and scratch is clean."""
        self._points.check_invariants()
        self._objects.check_invariants()
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
        """Note how many rows each of `slots` may have. Cost: sorting the k."""
        given, place, counts = np.unique(k, return_inverse=True, return_counts=True)
        kinds = np.empty(len(given), np.int64)
        for number, one in enumerate(given.tolist()):
            kinds[number] = self._kind_of(one)
            self._n_of_kind[kinds[number]] += counts[number]
        self._limits.kind[slots] = kinds[place]

    def _kind_of(self, k: int) -> int:
        """The place of a k among those in use; one that nobody uses any more is given to a new one."""
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
        """Have scratch for the largest k in use."""
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
        # Entries share cells, but what is left of them is each one's own.
        n_moves = int(np.diff(self._log.start)[self._log.cell[:count]].sum())
        shorter = _empty_log(max(count, n_moves // 2 + 1))
        shorten_log(self._log, self._limits, replay, shorter, cursor)
        self._log = shorter


class RangeTopK(RankedTiles):
    """`SELECT … WHERE x BETWEEN lo AND hi ORDER BY y [DESC] LIMIT k`: a `TopKScan` of one range."""

    _is_extreme = False

    def explain(self) -> str:
        direction = "descending" if self._sign < 0 else "ascending"
        return (
            f"range top-k by tiles, {direction}: {len(self._points)} ranges as points, "
            "a row is looked up only where it changes an answer"
        )


class RangeExtreme(RankedTiles):
    """`SELECT MIN(y)` or `MAX(y) … WHERE x BETWEEN lo AND hi`: an `ExtremeScan` of one range."""

    _is_extreme = True

    def explain(self) -> str:
        name = "max" if self._sign < 0 else "min"
        return (
            f"range {name} by tiles: {len(self._points)} ranges as points, "
            "a row is looked up only where it changes an answer"
        )


def _empty_log(room: int) -> Log:
    """A log without entries; `start` begins with the zero of the first cell."""
    return Log(
        subscription=np.empty(room, np.int32),
        cell=np.empty(room, np.int32),
        spare_subscription=np.empty(room, np.int32),
        spare_cell=np.empty(room, np.int32),
        start=np.zeros(room + 1, np.int32),
        row=np.empty(2 * room, np.int32),
        rank=np.empty(2 * room, np.int32),
    )


def _longer(log: Log) -> Log:
    """Twice the room, with what was written."""
    room = 2 * len(log.cell)
    return Log._make(
        grown(column, empty.shape[0]) for column, empty in zip(log, _empty_log(room), strict=True)
    )


def _empty_around(room: int, table_room: int) -> Around:
    return Around(
        left=empty_side(room, -1.0),
        right=empty_side(room, 1.0),
        exposed=np.empty(room, np.int64),
        position=np.empty(room, np.int32),
        table=np.empty(table_room, np.int32),
    )


def empty_side(room: int, sign: float) -> Side:
    """Room for so many rows on one side, not yet written."""
    return Side(
        sign=np.full(1, sign),
        far=np.empty(room),
        place=np.empty(room, np.int32),
        number=np.empty(room, np.int32),
        before=np.zeros(room + 1, np.int32),
        gap=np.empty(room, np.int32),
        ends=np.empty(2, np.int32),
    )


def _around_of(around: Around, room: int) -> Around:
    """Scratch with so much room at least; its contents do not matter between updates."""
    have = len(around.exposed)
    return around if room <= have else _empty_around(max(room, 2 * have), len(around.table))
