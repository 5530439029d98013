"""Top-k answers of many subscriptions to one space, maintained from its messages."""

from __future__ import annotations

import math

import numpy as np

from tocsin.arrays.layout import empty
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.indexes.ranges.messages.messages import Messages
from tocsin.indexes.ranges.messages.receivers import Receivers
from tocsin.indexes.ranges.structures.points import Points
from tocsin.indexes.ranges.structures.points_kernels import BUCKET
from tocsin.network.topk_answers_kernels import (
    AnswerEntries,
    EdgeUpdates,
    SnapshotRows,
    apply_updates,
    build_sparse_table,
    fill_answers,
)


class TopKAnswers:
    """The k best rows of each of many ranges of one dimension. About 20 k + 60 bytes per subscription.

    `is_whole` is for MIN and MAX, whose messages each hold the whole answer. Rows are identified by number.
    """

    def __init__(
        self, lo: Floats, hi: Floats, *, k: int = 1, is_whole: bool = False, descending: bool = False
    ) -> None:
        count = len(lo)
        # Subscriptions are stored in the order of a grid over their ranges: receivers of a message are close.
        self._given = _grid_order(lo, hi)
        self._place = np.empty(count, np.int32)
        self._place[self._given] = np.arange(count, dtype=np.int32)
        self._lo, self._hi = np.asarray(lo)[self._given] + 0.0, np.asarray(hi)[self._given] + 0.0
        self._entries = empty(AnswerEntries, subscriptions=count, k=k)
        self._is_whole = is_whole
        self._sign = -1.0 if descending else 1.0
        points = Points()
        # Empty ranges receive no messages.
        some = np.flatnonzero(self._lo <= self._hi).astype(np.int32)
        points.insert(some, self._lo[some], self._hi[some])
        self._receivers = Receivers(points)

    def __len__(self) -> int:
        return len(self._lo)

    def start(self, row: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Start over from a table's rows; those with NaN in x or y are in no answer.

        Cost: sorting the rows, and k searches of constant time per subscription.
        """
        rows = _rows(row, x, y * self._sign, born)
        first = np.searchsorted(rows.x, self._lo, side="left").astype(np.int32)
        end = np.searchsorted(rows.x, self._hi, side="right").astype(np.int32)
        fill_answers(self._entries, rows, first, end, np.empty((self._entries.row.shape[1] + 1, 3), np.int32))

    def apply(self, messages: Messages) -> Bools:
        """Apply messages in order; `payload_row` are numbers of keys. Returns which subscriptions got any.

        Cost: a search of the points per message, and k steps per receiver.
        """
        receivers, ends = self._receivers.list(messages)
        payload = messages.payload
        updates = EdgeUpdates(
            receivers,
            ends,
            np.ascontiguousarray(messages.payload_row[payload]),
            messages.payload_y[payload] * self._sign + 0.0,
            messages.payload_born[payload],
            messages.payload_gone[payload],
        )
        changed = np.zeros(len(self), np.bool_)
        apply_updates(self._entries, updates, self._is_whole, changed)
        return changed[self._place]

    def part(self, slots: Ints) -> TopKAnswers:
        """A copy of some of the subscriptions, numbered in the order given, with answers. Cost: linear."""
        k, descending, mine = self._entries.row.shape[1], self._sign < 0, self._place[slots]
        made = TopKAnswers(
            self._lo[mine], self._hi[mine], k=k, is_whole=self._is_whole, descending=descending
        )
        made._entries = AnswerEntries._make(column[mine[made._given]] for column in self._entries)
        return made

    def entries(self) -> tuple[Ints, Ints, Floats, Longs]:
        """All answers, by slot and best first: slot, row, y, born. Cost: linear."""
        entries, place = self._entries, self._place
        is_present = np.arange(entries.row.shape[1]) < entries.size[place, None]
        slots = np.repeat(np.arange(len(self), dtype=np.int32), entries.size[place])
        y = entries.y[place][is_present] * self._sign + 0.0
        return slots, entries.row[place][is_present], y, entries.born[place][is_present]

    def result(self, slot: int) -> list[tuple[int, float, int]]:
        """One answer, best first: row, y, born. Cost: k."""
        place = self._place[slot]
        size = int(self._entries.size[place])
        columns = (self._entries.row, self._entries.y, self._entries.born)
        row, y, born = (column[place, :size].tolist() for column in columns)
        return [(r, v * self._sign + 0.0, b) for r, v, b in zip(row, y, born, strict=True)]


def _grid_order(lo: Floats, hi: Floats) -> Ints:
    """An order of ranges: by lower end in about as many columns as each has buckets, then by upper end."""
    count = len(lo)
    column = np.empty(count, np.int32)
    column[np.argsort(lo, kind="stable")] = np.arange(count) // (BUCKET * max(1, math.isqrt(count // BUCKET)))
    return np.lexsort((hi, column)).astype(np.int32)


def _rows(row: Ints, x: Floats, y: Floats, born: Longs) -> SnapshotRows:
    """The rows without NaN, by x, with their ranks."""
    is_ranked = ~(np.isnan(x) | np.isnan(y))
    order = np.flatnonzero(is_ranked)[np.argsort(x[is_ranked], kind="stable")]
    x, y, born = x[order] + 0.0, y[order] + 0.0, np.asarray(born, np.int64)[order]
    rank = np.empty(len(order), np.int32)
    rank[np.lexsort((born, y))] = np.arange(len(order))
    best = np.empty((max(1, len(order).bit_length()), len(order)), np.int32)
    build_sparse_table(rank, best)
    return SnapshotRows(x, np.asarray(row, np.int32)[order], y, born, rank, best)
