"""What subscribers hear: room for it, and what it is when a whole answer was ranked afresh."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ENTER, LEAVE, UPDATE, Bools, ChangeSet, Floats, Ints, Ops
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.scans import ChangeColumns, widened
from tocsin.indexes.windows.views_columns import RawChanges


class ViewChanges:
    """Room for changes that doubles when a kernel has none left.

    Columns of one type stand together, so that few arrays are made for a delta with few changes.
    """

    def __init__(self, capacity: int) -> None:
        #: int32 (5, capacity): step, subscription, row, other, rank
        self._ints: Ints = np.full((5, capacity), -1, np.int32)
        self._op: Ops = np.empty(capacity, np.int8)
        self._score: Floats = np.empty(capacity)
        self.columns = self._columns()
        #: a step's changes before they are in order
        self.raw = _new_raw(capacity)

    def grow(self) -> None:
        """Twice the room, with what was written. Cost: linear, amortised constant a change."""
        more = len(self._op) + 1
        self._ints = widened(self._ints, more, -1)
        self._op, self._score = grown(self._op, more), grown(self._score, more)
        self.columns = self._columns()
        self.raw = RawChanges(*(grown(column, more) for column in self.raw))

    def changes(self, count: int) -> ChangeSet:
        """The first `count` changes, copied out."""
        step, subscription, row, other, rank = self._ints[:, :count].copy()
        op, score = self._op[:count].copy(), self._score[:count].copy()
        return ChangeSet(step, subscription, op, row, other, score, rank)

    def _columns(self) -> ChangeColumns:
        step, subscription, row, _, rank = self._ints
        return ChangeColumns(step, subscription, self._op, row, self._score, rank)


def _new_raw(room: int) -> RawChanges:
    return RawChanges(
        np.empty(room, np.int8), np.empty(room, np.int32), np.empty(room), np.empty(room, np.int32)
    )


def answer_changes(old: ChangeSet, new: ChangeSet, is_touched: Bools, step: int) -> ChangeSet:
    """From one answer to another, both by subscription and rank; `is_touched` is by row slot.

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
