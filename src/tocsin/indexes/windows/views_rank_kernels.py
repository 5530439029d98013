"""Ranking all rows for many subscriptions: best parts first, and no part that cannot matter.

Rows are sorted into *leaves* of neighbouring rows, and leaves into *branches*; each knows the box that its
rows are in. For one subscription, the branches are bounded, those that may hold one of its best rows are
opened, best first, and so are their leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.bounds_kernels import bound_block
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.programs_kernels import BLOCK, score_block
from tocsin.indexes.windows.views_columns import (
    NOT_THERE,
    HotRows,
    ViewLanes,
    ViewPool,
    ViewRanking,
    ViewRows,
)

#: Rows of a leaf, and leaves of a branch.
LEAF = 64
BRANCH = 64

DONE = 0
POOL_FULL = 1

#: Ties below and above all others.
LOWEST_TIE = -(2**63)


class RowTree(NamedTuple):
    """Rows in the order of leaves. Without branches the rows are in any order, and all are looked at."""

    #: float64 (columns, rows)
    values: Floats
    #: int32 (rows,): the row's slot
    row: Ints
    #: float64 (columns, leaves), (columns, branches): the boxes
    leaf_low: Floats
    leaf_high: Floats
    branch_low: Floats
    branch_high: Floats


class BestRows(NamedTuple):
    """The best rows found so far: a heap with the worst on top, until sorted. And working memory."""

    #: float64, int64 (room,)
    key: Floats
    tie: Longs
    #: int32 (room,): where among the rows looked at
    at: Ints
    #: float64 (depth, widest of BLOCK and branches)
    stack_low: Floats
    stack_high: Floats
    stack: Floats
    #: float64 (BLOCK,), (branches,), (BRANCH,)
    score: Floats
    branch_most: Floats
    leaf_most: Floats
    #: float64 (columns, BLOCK): some rows, turned
    block: Floats
    #: float64 (room,): keys that the best rows of another subscription have here
    near: Floats


@lean_kernel
def zero() -> int:
    """Where a counter begins that is passed on: a literal 0 would make a signature of its own."""
    return int(np.int64(0))


@lean_kernel
def fresh_size(k: int) -> int:
    """How long a list is when it is new: few rows more come and go than this is above k."""
    return k + int(2.5 * np.sqrt(k)) + 5


@lean_kernel
def list_room(k: int, size: int) -> int:
    """How much room a list of `size` gets: it need not move before it is half as long again."""
    return min(size + size // 2 + 8, 2 * k + 16)


@lean_kernel
def base_size(k: int) -> int:
    """How many rows are not below the base."""
    return 2 * fresh_size(k) - k


@lean_kernel
def kd_order(values: Floats, leaf: int, stack: Longs, near: Floats, order: Ints) -> None:
    """Reorder `order` so that neighbours have near values: halves by each column in turn, down to `leaf`.

    Halves are whole leaves. `stack` is scratch for (begin, end, column), three numbers a level; `near` for
    a value each, so that values are fetched from afar once a level. Cost: n log n.
    """
    n_columns = values.shape[0]
    stack[0] = 0
    stack[1] = len(order)
    stack[2] = 0
    size = 1
    while size > 0:
        size -= 1
        begin = stack[3 * size]
        end = stack[3 * size + 1]
        column = stack[3 * size + 2]
        if end - begin <= leaf or n_columns == 0:
            continue
        middle = begin + ((end - begin + leaf - 1) // leaf // 2) * leaf
        for i in range(begin, end):
            near[i] = values[column, order[i]]
        left = begin
        right = end - 1
        while left < right:
            pivot = near[(left + right) // 2]
            i = left
            j = right
            while i <= j:
                while near[i] < pivot:
                    i += 1
                while near[j] > pivot:
                    j -= 1
                if i <= j:
                    held = order[i]
                    order[i] = order[j]
                    order[j] = held
                    value = near[i]
                    near[i] = near[j]
                    near[j] = value
                    i += 1
                    j -= 1
            if middle <= j:
                right = j
            elif middle >= i:
                left = i
            else:
                break
        following = (column + 1) % n_columns
        stack[3 * size] = begin
        stack[3 * size + 1] = middle
        stack[3 * size + 2] = following
        stack[3 * size + 3] = middle
        stack[3 * size + 4] = end
        stack[3 * size + 5] = following
        size += 2


@lean_kernel
def is_before(key: float, tie: int, other_key: float, other_tie: int) -> bool:
    """Whether one place ranks before another."""
    return key > other_key or (key == other_key and tie > other_tie)


@lean_kernel
def sink(keys: Floats, ties: Longs, rows: Ints, size: int, key: float, tie: int, row: int) -> None:
    """Put a row in place of the heap's worst, and restore the heap."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and is_before(keys[child], ties[child], keys[child + 1], ties[child + 1]):
            child += 1
        if not is_before(key, tie, keys[child], ties[child]):
            break
        keys[at] = keys[child]
        ties[at] = ties[child]
        rows[at] = rows[child]
        at = child
    keys[at] = key
    ties[at] = tie
    rows[at] = row


@lean_kernel
def offer(
    keys: Floats, ties: Longs, rows: Ints, size: int, limit: int, key: float, tie: int, row: int
) -> int:
    """Offer a row to a heap that keeps the best `limit`; answers its new size."""
    if size == limit:
        if is_before(key, tie, keys[0], ties[0]):
            sink(keys, ties, rows, size, key, tie, row)
        return size
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if not is_before(keys[parent], ties[parent], key, tie):
            break
        keys[at] = keys[parent]
        ties[at] = ties[parent]
        rows[at] = rows[parent]
        at = parent
    keys[at] = key
    ties[at] = tie
    rows[at] = row
    return size + 1


@lean_kernel
def sort_heap(keys: Floats, ties: Longs, rows: Ints, size: int) -> None:
    """Turn the heap into a list, best first."""
    for i in range(1, size):
        last = size - i
        key = keys[last]
        tie = ties[last]
        row = int(np.int64(rows[last]))
        keys[last] = keys[0]
        ties[last] = ties[0]
        rows[last] = rows[0]
        sink(keys, ties, rows, last, key, tie, row)


@lean_kernel
def score_rows(
    ranking: ViewRanking, lanes: ViewLanes, lane: int, values: Floats, begin: int, n: int, best: BestRows
) -> None:
    """Score `n` rows (at most BLOCK) for one lane, into `best.score`."""
    score = best.score
    term_column = ranking.term_column
    if len(term_column) == 0:
        # A literal True would make a signature of its own.
        score_block(
            ranking.program,
            values,
            ranking.first_column,
            begin,
            lanes.theta,
            lane,
            n > 0,
            n,
            best.stack,
            score,
        )
        return
    for t in range(len(term_column)):
        theta = lanes.theta[ranking.term_theta[t], lane]
        column = values[ranking.first_column + term_column[t], begin : begin + n]
        if t == 0:
            for i in range(n):
                score[i] = column[i] * theta
        else:
            for i in range(n):
                score[i] += column[i] * theta


@lean_kernel
def look_at_rows(
    ranking: ViewRanking,
    lanes: ViewLanes,
    lane: int,
    tree: RowTree,
    rows: ViewRows,
    begin: int,
    n: int,
    best: BestRows,
    size: int,
    limit: int,
    least: float,
) -> int:
    """Score `n` rows (at most BLOCK) and offer those inside the box; answers the heap's new size."""
    score_rows(ranking, lanes, lane, tree.values, begin, n, best)
    worst = best.key[0] if size == limit else least
    for i in range(n):
        key = ranking.key_sign * best.score[i] + 0.0
        if key >= worst:
            row = tree.row[begin + i]
            is_inside = rows.mark[row] != NOT_THERE
            for d in range(lanes.lo.shape[0]):
                x = tree.values[d, begin + i]
                is_inside &= lanes.lo[d, lane] <= x <= lanes.hi[d, lane]
            if is_inside:
                tie = ranking.tie_sign * rows.born[row]
                size = offer(best.key, best.tie, best.at, size, limit, key, tie, begin + i)
                worst = best.key[0] if size == limit else least
    return size


@lean_kernel
def bound_boxes(
    ranking: ViewRanking,
    lanes: ViewLanes,
    lane: int,
    low: Floats,
    high: Floats,
    first: int,
    n: int,
    best: BestRows,
    out_most: Floats,
) -> None:
    """The largest key that a row in each of `n` boxes may have; NaN where the subscription's box is apart."""
    term_column = ranking.term_column
    if len(term_column) == 0:
        # A literal True would make a signature of its own.
        bound_block(
            ranking.program, low, high, ranking.first_column, first, lanes.theta, lane, n > 0, n,
            best.stack_low, best.stack_high,
        )  # fmt: skip
        for i in range(n):
            out_most[i] = best.stack_high[0, i] if ranking.key_sign > 0 else -best.stack_low[0, i]
    else:
        # What the interpreter would find for a weighted sum, in a tenth of the time.
        for i in range(n):
            out_most[i] = -0.0
        for t in range(len(term_column)):
            theta = lanes.theta[ranking.term_theta[t], lane] * ranking.key_sign
            column = ranking.first_column + term_column[t]
            ends = high[column, first : first + n] if theta > 0.0 else low[column, first : first + n]
            for i in range(n):
                out_most[i] += ends[i] * theta
        for i in range(n):
            # Where infinities make the bound no number, it may be anything.
            if out_most[i] != out_most[i]:
                out_most[i] = np.inf
    for d in range(lanes.lo.shape[0]):
        for i in range(n):
            if not (lanes.lo[d, lane] <= high[d, first + i] and low[d, first + i] <= lanes.hi[d, lane]):
                out_most[i] = np.nan


@lean_kernel
def largest(most: Floats, n: int, floor: float) -> int:
    """Where the largest of `n` numbers is that is not below `floor`; -1 where there is none."""
    found = -1
    for i in range(n):
        if most[i] >= floor:
            found = i
            floor = most[i]
    return found


@lean_kernel
def search_tree(
    ranking: ViewRanking,
    lanes: ViewLanes,
    lane: int,
    tree: RowTree,
    n_rows: int,
    rows: ViewRows,
    best: BestRows,
    limit: int,
    least: float,
) -> int:
    """Fill the heap with the best `limit` rows; answers how many there are.

    `least` is a key that so many rows are known to have or exceed, or -inf.
    """
    # What is called here is large, and compiled into it: hence each is called in one place.
    n_branches = tree.branch_low.shape[1]
    size = zero()
    at = 0
    first = 0
    leaf = zero()
    n_open = zero()
    while True:
        worst = best.key[0] if size == limit else least
        while leaf < n_open and not best.leaf_most[leaf] >= worst:
            leaf += 1
        if n_branches > 0 and leaf == n_open:
            # Bound the next of the branches or, once all are, the leaves of the best branch.
            if at < n_branches:
                first = at
                n = min(BLOCK, n_branches - at)
                at += n
                low, high, most = tree.branch_low, tree.branch_high, best.branch_most[first:]
            else:
                branch = largest(best.branch_most, n_branches, worst)
                if branch < 0:
                    return size
                best.branch_most[branch] = np.nan
                first = branch * BRANCH
                n = min(BRANCH, tree.leaf_low.shape[1] - first)
                leaf = zero()
                n_open = n
                low, high, most = tree.leaf_low, tree.leaf_high, best.leaf_most
            bound_boxes(ranking, lanes, lane, low, high, first, n, best, most)
            continue
        if n_branches > 0:
            begin = (first + leaf) * LEAF
            n = min(LEAF, n_rows - begin)
            leaf += 1
        else:
            begin = at
            n = min(BLOCK, n_rows - begin)
            at += n
            if n == 0:
                return size
        size = look_at_rows(ranking, lanes, lane, tree, rows, begin, n, best, size, limit, least)


@lean_kernel
def find_more(
    ranking: ViewRanking,
    lanes: ViewLanes,
    lane: int,
    hot: HotRows,
    n_hot: int,
    born: Longs,
    best: BestRows,
    limit: int,
) -> int:
    """The best hot rows below the floor, not below the base: at most `limit`, sorted. Cost: all hot rows."""
    base = lanes.base[lane]
    floor_key = lanes.floor[lane]
    floor_tie = lanes.floor_tie[lane]
    size = zero()
    for at in range(0, n_hot, BLOCK):
        n = min(BLOCK, n_hot - at)
        for c in range(best.block.shape[0]):
            for i in range(n):
                best.block[c, i] = hot.values[at + i, c]
        score_rows(ranking, lanes, lane, best.block, zero(), n, best)
        for i in range(n):
            key = ranking.key_sign * best.score[i] + 0.0
            if not (base <= key and key <= floor_key):
                continue
            row = hot.row[at + i]
            if row < 0:
                continue
            tie = ranking.tie_sign * born[row]
            is_inside = is_before(floor_key, floor_tie, key, tie)
            for d in range(lanes.lo.shape[0]):
                x = best.block[d, i]
                is_inside &= lanes.lo[d, lane] <= x and x <= lanes.hi[d, lane]
            if is_inside:
                size = offer(best.key, best.tie, best.at, size, limit, key, tie, at + i)
    sort_heap(best.key, best.tie, best.at, size)
    return size


@lean_kernel
def least_wanted(
    ranking: ViewRanking, lanes: ViewLanes, lane: int, tree: RowTree, best: BestRows, n_near: int, limit: int
) -> float:
    """A key that `limit` rows have or exceed: judged by the `n_near` rows that the last lane found best."""
    near = best.near
    if n_near < limit or len(ranking.term_column) == 0:
        return -np.inf
    for d in range(lanes.lo.shape[0]):
        for i in range(n_near):
            x = tree.values[d, best.at[i]]
            if not (lanes.lo[d, lane] <= x and x <= lanes.hi[d, lane]):
                return -np.inf
    for i in range(n_near):
        near[i] = -0.0
    for t in range(len(ranking.term_column)):
        theta = lanes.theta[ranking.term_theta[t], lane]
        column = ranking.first_column + ranking.term_column[t]
        for i in range(n_near):
            near[i] += tree.values[column, best.at[i]] * theta
    least = np.inf
    for i in range(n_near):
        key = ranking.key_sign * near[i] + 0.0
        if key != key:
            return -np.inf
        least = min(least, key)
    return least


@lean_kernel
def rank_afresh(
    ranking: ViewRanking,
    lanes: ViewLanes,
    tree: RowTree,
    n_rows: int,
    rows: ViewRows,
    best: BestRows,
    pool: ViewPool,
    state: Longs,
    chosen: Ints,
    is_listing: bool,
    out_listed: Bools,
) -> int:
    """Rank all rows for the lanes `chosen`, from `state[1]` on: set bases and, where `is_listing`, new lists.

    `state[0]` is where free room in the pool begins. `out_listed` marks, by row slot, what is ranked.
    Neighbouring lanes want nearly the same rows: what one found tells the next how little is of no use.
    """
    n_near = zero()
    while state[1] < len(chosen):
        lane = int(np.int64(chosen[state[1]]))
        k = lanes.k[lane]
        limit = base_size(k)
        length = fresh_size(k)
        room = list_room(k, min(length, n_rows))
        if is_listing and state[0] + room > len(pool.row):
            return POOL_FULL
        least = least_wanted(ranking, lanes, lane, tree, best, n_near, limit)
        size = search_tree(ranking, lanes, lane, tree, n_rows, rows, best, limit, least)
        n_near = size
        lanes.base[lane] = best.key[0] if size == limit else -np.inf
        for i in range(size):
            out_listed[tree.row[best.at[i]]] = True
        if is_listing:
            sort_heap(best.key, best.tie, best.at, size)
            start = state[0]
            length = min(size, length)
            for i in range(length):
                pool.row[start + i] = tree.row[best.at[i]]
                pool.key[start + i] = best.key[i]
            lanes.list_start[lane] = start
            lanes.list_room[lane] = room
            lanes.list_size[lane] = length
            if size > length:
                lanes.floor[lane] = best.key[length - 1]
                lanes.floor_tie[lane] = best.tie[length - 1]
            else:
                lanes.floor[lane] = -np.inf
                lanes.floor_tie[lane] = LOWEST_TIE
            state[0] += room
        state[1] += 1
    return DONE
