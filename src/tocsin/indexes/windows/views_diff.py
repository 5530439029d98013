"""What a subscriber hears when its whole answer was ranked afresh."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ENTER, LEAVE, UPDATE, Bools, ChangeSet


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
