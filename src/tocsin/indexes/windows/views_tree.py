"""Rows sorted for ranking by many subscriptions, and working memory for it."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints
from tocsin.indexes.shared.programs_kernels import BLOCK, Program
from tocsin.indexes.windows.views_columns import NOT_THERE, ViewRows
from tocsin.indexes.windows.views_rank_kernels import BRANCH, LEAF, BestRows, RowTree, kd_order

#: Subscriptions from which on sorting the rows first is faster than looking at all of them. Measured.
MANY_TO_RANK = 100


def neighbours(values: Floats, leaf: int) -> Ints:
    """The indices of `values` (columns, n) in an order of leaves, each of near values. Cost: n log n."""
    order = np.arange(values.shape[1], dtype=np.int32)
    kd_order(np.ascontiguousarray(values), leaf, np.empty(3 * 128, np.int64), np.empty(len(order)), order)
    return order


def taken(values: Floats, chosen: Ints) -> Floats:
    """Some of the rows of `values` (columns, n). Cost: theirs; quicker than to index all columns at once."""
    packed = np.empty((len(values), len(chosen)))
    for into, column in zip(packed, values, strict=True):
        into[:] = column.take(chosen)
    return packed


def tree_of(rows: ViewRows, n_slots: int) -> RowTree:
    """The rows that are there, without NULLs, as leaves and branches. Cost: n log n."""
    values = rows.values[:, :n_slots]
    is_there = rows.mark[:n_slots] != NOT_THERE
    for column in values:
        is_there &= column == column
    slots = np.flatnonzero(is_there).astype(np.int32)
    packed = taken(values, slots)
    order = neighbours(packed, LEAF)
    packed = taken(packed, order)
    leaf_low, leaf_high = _boxes(packed, packed, LEAF)
    branch_low, branch_high = _boxes(leaf_low, leaf_high, BRANCH)
    return RowTree(packed, slots[order], leaf_low, leaf_high, branch_low, branch_high)


def plain_tree(rows: ViewRows, n_slots: int) -> RowTree:
    """The rows as they are, to be looked at one after the other. Cost: constant but for their numbers."""
    none = np.empty((rows.values.shape[0], 0))
    return RowTree(rows.values, np.arange(n_slots, dtype=np.int32), none, none, none, none)


def new_best(program: Program, n_columns: int, room: int, n_branches: int) -> BestRows:
    """Working memory to find the best `room` rows of `n_columns`."""
    depth = program.depth
    return BestRows(
        key=np.empty(room),
        tie=np.empty(room, np.int64),
        at=np.empty(room, np.int32),
        stack_low=np.empty((depth, BLOCK)),
        stack_high=np.empty((depth, BLOCK)),
        stack=np.empty((depth, BLOCK)),
        score=np.empty(BLOCK),
        branch_most=np.empty(n_branches),
        leaf_most=np.empty(BRANCH),
        block=np.empty((n_columns, BLOCK)),
        near=np.empty(room),
    )


def _boxes(low: Floats, high: Floats, size: int) -> tuple[Floats, Floats]:
    """The boxes around every `size` neighbours, of which the last may be fewer."""
    if low.shape[1] == 0:
        return low, high
    starts = np.arange(0, low.shape[1], size)
    return (
        np.ascontiguousarray(np.minimum.reduceat(low, starts, axis=1)),
        np.ascontiguousarray(np.maximum.reduceat(high, starts, axis=1)),
    )
