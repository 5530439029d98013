"""The answers of many subscriptions to one space, kept by its messages: what an edge holds for them."""

from __future__ import annotations

import math

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.ranges.messages import Messages
from tocsin.indexes.ranges.points import Points
from tocsin.indexes.ranges.points_kernels import BUCKET
from tocsin.indexes.ranges.receivers import Receivers
from tocsin.network.lists_kernels import Held, Rows, Told, apply_told, rank_stretches, start_lists


class Lists:
    """The k best rows of each of many ranges of one dimension. About 20 k + 60 bytes a subscription.

    `is_whole` is for MIN and MAX, whose messages each say the whole answer. Rows go by number.
    """

    def __init__(
        self, lo: Floats, hi: Floats, *, k: int = 1, is_whole: bool = False, descending: bool = False
    ) -> None:
        count = len(lo)
        # Who is told together lies together: subscriptions are kept in the order of a grid over their ranges.
        self._given = _grid_order(lo, hi)
        self._place = np.empty(count, np.int32)
        self._place[self._given] = np.arange(count, dtype=np.int32)
        self._lo, self._hi = np.asarray(lo)[self._given] + 0.0, np.asarray(hi)[self._given] + 0.0
        self._held = Held(
            np.zeros(count, np.int32),
            np.empty((count, k), np.int32),
            np.empty((count, k)),
            np.empty((count, k), np.int64),
        )
        self._is_whole = is_whole
        self._sign = -1.0 if descending else 1.0
        points = Points()
        # No message is for an empty range.
        some = np.flatnonzero(self._lo <= self._hi).astype(np.int32)
        points.insert(some, self._lo[some], self._hi[some])
        self._receivers = Receivers(points)

    def __len__(self) -> int:
        return len(self._lo)

    def start(self, row: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Begin anew from a table's rows; NaN in x or y is in no answer.

        Cost: sorting the rows, and k searches of constant time a subscription.
        """
        rows = _rows(row, x, y * self._sign, born)
        first = np.searchsorted(rows.x, self._lo, side="left").astype(np.int32)
        end = np.searchsorted(rows.x, self._hi, side="right").astype(np.int32)
        start_lists(self._held, rows, first, end, np.empty((self._held.row.shape[1] + 1, 3), np.int32))

    def apply(self, messages: Messages) -> Bools:
        """Apply messages in order; `note_row` are numbers of keys. Which subscriptions were told something.

        Cost: a look at the points a message, and k steps a receiver.
        """
        receivers, ends = self._receivers.list(messages)
        note = messages.note
        told = Told(
            receivers,
            ends,
            np.ascontiguousarray(messages.note_row[note]),
            messages.note_y[note] * self._sign + 0.0,
            messages.note_born[note],
            messages.note_gone[note],
        )
        changed = np.zeros(len(self), np.bool_)
        apply_told(self._held, told, self._is_whole, changed)
        return changed[self._place]

    def part(self, slots: Ints) -> Lists:
        """Some of the subscriptions, numbered anew in the order given, with their answers. Cost: linear."""
        k, descending, mine = self._held.row.shape[1], self._sign < 0, self._place[slots]
        made = Lists(self._lo[mine], self._hi[mine], k=k, is_whole=self._is_whole, descending=descending)
        made._held = Held._make(column[mine[made._given]] for column in self._held)
        return made

    def entries(self) -> tuple[Ints, Ints, Floats, Longs]:
        """All answers, by slot and best first: slot, row, y, born. Cost: linear."""
        held, place = self._held, self._place
        is_held = np.arange(held.row.shape[1]) < held.size[place, None]
        slots = np.repeat(np.arange(len(self), dtype=np.int32), held.size[place])
        y = held.y[place][is_held] * self._sign + 0.0
        return slots, held.row[place][is_held], y, held.born[place][is_held]

    def result(self, slot: int) -> list[tuple[int, float, int]]:
        """One answer, best first: row, y, born. Cost: k."""
        place = self._place[slot]
        size = int(self._held.size[place])
        columns = (self._held.row, self._held.y, self._held.born)
        row, y, born = (column[place, :size].tolist() for column in columns)
        return [(r, v * self._sign + 0.0, b) for r, v, b in zip(row, y, born, strict=True)]


def _grid_order(lo: Floats, hi: Floats) -> Ints:
    """Ranges by lower end in about as many columns as each has buckets; in a column by upper end."""
    count = len(lo)
    column = np.empty(count, np.int32)
    column[np.argsort(lo, kind="stable")] = np.arange(count) // (BUCKET * max(1, math.isqrt(count // BUCKET)))
    return np.lexsort((hi, column)).astype(np.int32)


def _rows(row: Ints, x: Floats, y: Floats, born: Longs) -> Rows:
    """Rows by x that are in some range and rank."""
    kept = ~(np.isnan(x) | np.isnan(y))
    order = np.flatnonzero(kept)[np.argsort(x[kept], kind="stable")]
    x, y, born = x[order] + 0.0, y[order] + 0.0, np.asarray(born, np.int64)[order]
    rank = np.empty(len(order), np.int32)
    rank[np.lexsort((born, y))] = np.arange(len(order))
    best = np.empty((max(1, len(order).bit_length()), len(order)), np.int32)
    rank_stretches(rank, best)
    return Rows(x, np.asarray(row, np.int32)[order], y, born, rank, best)
