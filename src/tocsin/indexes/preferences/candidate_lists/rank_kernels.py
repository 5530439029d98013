"""Kernels that rank all rows for many subscriptions, by branch and bound.

Rows are sorted into *leaves* of neighbouring rows, and leaves into *branches*; each has the bounding box of
its rows. For one subscription, scores are bounded over the branches; those that may hold one of its best
rows are opened, best first, and so are their leaves.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import lean_kernel, zero
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.indexes.preferences.candidate_lists.layout import (
    LOWEST_TIE,
    NO_ROW,
    CandidateRanking,
    CandidateRows,
    ListPool,
    StoredRows,
    SubscriptionLanes,
)
from tocsin.indexes.preferences.candidate_lists.list_kernels import (
    initial_size,
    is_before,
    list_capacity,
    refill_size,
)
from tocsin.kernels.score_bounds import bound_block
from tocsin.kernels.scoring import BLOCK, score_block
from tocsin.kernels.status import DONE, POOL_FULL

#: Rows per leaf, and leaves per branch.
LEAF = 64
BRANCH = 64


class RankingTree(NamedTuple):
    """Rows in the order of leaves. Without branches the rows are in any order, and are scanned."""

    #: float64 (columns, rows)
    values: Floats
    #: int32 (rows,): the row's slot
    row: Ints
    #: float64 (columns, leaves), (columns, branches): the boxes
    leaf_low: Floats
    leaf_high: Floats
    branch_low: Floats
    branch_high: Floats


class RankingHeap(NamedTuple):
    """The best rows so far: a heap with the worst on top, until it is sorted; and working memory.

    Ordered as `kernels.heap`, but bounded: once it is full, one pass replaces the worst row, not a pop and a
    push.
    """

    #: what the heap is ordered by
    key: Annotated[Floats, Column("rows", fill=None)]
    tie: Annotated[Longs, Column("rows", fill=None)]
    #: index among the scanned rows
    at: Annotated[Ints, Column("rows", fill=None)]
    #: to evaluate bounds and scores
    stack_low: Annotated[Floats, Column("depth", BLOCK, fill=None)]
    stack_high: Annotated[Floats, Column("depth", BLOCK, fill=None)]
    stack: Annotated[Floats, Column("depth", BLOCK, fill=None)]
    score: Annotated[Floats, Column(BLOCK, fill=None)]
    branch_most: Annotated[Floats, Column("branches", fill=None)]
    leaf_most: Annotated[Floats, Column(BRANCH, fill=None)]
    #: rows, transposed
    block: Annotated[Floats, Column("columns", BLOCK, fill=None)]
    #: keys of the previous subscription's best rows in this one
    near: Annotated[Floats, Column("rows", fill=None)]


@lean_kernel
def kd_order(values: Floats, leaf: int, stack: Longs, near: Floats, order: Ints) -> None:
    """Reorder `order` so that neighbours have near values: halves by each column in turn, down to `leaf`.

    Halves are whole leaves. `stack` is scratch for (begin, end, column), three numbers a level; `near` caches
    one value per row, so that values are gathered once a level. Cost: n log n.
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
                    swapped = order[i]
                    order[i] = order[j]
                    order[j] = swapped
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
def sift_down(keys: Floats, ties: Longs, rows: Ints, size: int, key: float, tie: int, row: int) -> None:
    """Replace the heap's worst row, and restore the heap."""
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
def push_bounded(
    keys: Floats, ties: Longs, rows: Ints, size: int, limit: int, key: float, tie: int, row: int
) -> int:
    """Push a row onto a heap of the best `limit`; returns its new size."""
    if size == limit:
        if is_before(key, tie, keys[0], ties[0]):
            sift_down(keys, ties, rows, size, key, tie, row)
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
    """Sort the heap, best first."""
    for i in range(1, size):
        last = size - i
        key = keys[last]
        tie = ties[last]
        row = int(np.int64(rows[last]))
        keys[last] = keys[0]
        ties[last] = ties[0]
        rows[last] = rows[0]
        sift_down(keys, ties, rows, last, key, tie, row)


@lean_kernel
def score_rows(
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    lane: int,
    values: Floats,
    begin: int,
    n: int,
    heap: RankingHeap,
) -> None:
    """Score `n` rows (at most BLOCK) for one lane, into `heap.score`."""
    score = heap.score
    term_column = ranking.term_column
    if len(term_column) == 0:
        # A literal True would compile another signature.
        score_block(
            ranking.program,
            values,
            ranking.first_column,
            begin,
            lanes.theta,
            lane,
            n > 0,
            n,
            heap.stack,
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
def offer_rows(
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    lane: int,
    tree: RankingTree,
    rows: StoredRows,
    begin: int,
    n: int,
    heap: RankingHeap,
    size: int,
    limit: int,
    least: float,
) -> int:
    """Score `n` rows (at most BLOCK) and push those inside the box; returns the heap's new size."""
    score_rows(ranking, lanes, lane, tree.values, begin, n, heap)
    worst = heap.key[0] if size == limit else least
    for i in range(n):
        key = ranking.key_sign * heap.score[i] + 0.0
        if key >= worst:
            row = tree.row[begin + i]
            is_inside = rows.mark[row] != NO_ROW
            for d in range(lanes.lo.shape[0]):
                x = tree.values[d, begin + i]
                is_inside &= lanes.lo[d, lane] <= x <= lanes.hi[d, lane]
            if is_inside:
                tie = ranking.tie_sign * rows.born[row]
                size = push_bounded(heap.key, heap.tie, heap.at, size, limit, key, tie, begin + i)
                worst = heap.key[0] if size == limit else least
    return size


@lean_kernel
def bound_boxes(
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    lane: int,
    low: Floats,
    high: Floats,
    first: int,
    n: int,
    heap: RankingHeap,
    out_most: Floats,
) -> None:
    """Upper bounds of the keys of rows in `n` boxes; NaN where the subscription's box is disjoint."""
    term_column = ranking.term_column
    if len(term_column) == 0:
        # A literal True would compile another signature.
        bound_block(
            ranking.program, low, high, ranking.first_column, first, lanes.theta, lane, n > 0, n,
            heap.stack_low, heap.stack_high,
        )  # fmt: skip
        for i in range(n):
            out_most[i] = heap.stack_high[0, i] if ranking.key_sign > 0 else -heap.stack_low[0, i]
    else:
        # The interpreter's bounds of a weighted sum, in a tenth of the time.
        for i in range(n):
            out_most[i] = -0.0
        for t in range(len(term_column)):
            theta = lanes.theta[ranking.term_theta[t], lane] * ranking.key_sign
            column = ranking.first_column + term_column[t]
            ends = high[column, first : first + n] if theta > 0.0 else low[column, first : first + n]
            for i in range(n):
                out_most[i] += ends[i] * theta
        for i in range(n):
            # A bound that infinities make NaN may be anything.
            if out_most[i] != out_most[i]:
                out_most[i] = np.inf
    for d in range(lanes.lo.shape[0]):
        for i in range(n):
            if not (lanes.lo[d, lane] <= high[d, first + i] and low[d, first + i] <= lanes.hi[d, lane]):
                out_most[i] = np.nan


@lean_kernel
def find_largest(most: Floats, n: int, floor: float) -> int:
    """The index of the largest of `n` numbers not below `floor`; -1 if there is none."""
    found = -1
    for i in range(n):
        if most[i] >= floor:
            found = i
            floor = most[i]
    return found


@lean_kernel
def search_tree(
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    lane: int,
    tree: RankingTree,
    n_rows: int,
    rows: StoredRows,
    heap: RankingHeap,
    limit: int,
    least: float,
) -> int:
    """Fill the heap with the best `limit` rows; returns how many there are.

    `least` is a key that at least `limit` rows reach, or -inf.
    """
    # The callees are large and are inlined: hence each is called in one place only.
    n_branches = tree.branch_low.shape[1]
    size = zero()
    at = 0
    first = 0
    leaf = zero()
    n_open = zero()
    while True:
        worst = heap.key[0] if size == limit else least
        while leaf < n_open and not heap.leaf_most[leaf] >= worst:
            leaf += 1
        if n_branches > 0 and leaf == n_open:
            # Bound the next branches or, once all are bounded, the leaves of the best branch.
            if at < n_branches:
                first = at
                n = min(BLOCK, n_branches - at)
                at += n
                low, high, most = tree.branch_low, tree.branch_high, heap.branch_most[first:]
            else:
                branch = find_largest(heap.branch_most, n_branches, worst)
                if branch < 0:
                    return size
                heap.branch_most[branch] = np.nan
                first = branch * BRANCH
                n = min(BRANCH, tree.leaf_low.shape[1] - first)
                leaf = zero()
                n_open = n
                low, high, most = tree.leaf_low, tree.leaf_high, heap.leaf_most
            bound_boxes(ranking, lanes, lane, low, high, first, n, heap, most)
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
        size = offer_rows(ranking, lanes, lane, tree, rows, begin, n, heap, size, limit, least)


@lean_kernel
def find_refill_rows(
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    lane: int,
    candidates: CandidateRows,
    n_candidates: int,
    born: Longs,
    heap: RankingHeap,
    limit: int,
) -> int:
    """The best candidates below the floor, not below the refill floor: at most `limit`, sorted.

    Cost: all candidates.
    """
    refill_floor = lanes.refill_floor[lane]
    floor_key = lanes.floor[lane]
    floor_tie = lanes.floor_tie[lane]
    size = zero()
    for at in range(0, n_candidates, BLOCK):
        n = min(BLOCK, n_candidates - at)
        for c in range(heap.block.shape[0]):
            for i in range(n):
                heap.block[c, i] = candidates.values[at + i, c]
        score_rows(ranking, lanes, lane, heap.block, zero(), n, heap)
        for i in range(n):
            key = ranking.key_sign * heap.score[i] + 0.0
            if not (refill_floor <= key and key <= floor_key):
                continue
            row = candidates.row[at + i]
            if row < 0:
                continue
            tie = ranking.tie_sign * born[row]
            is_inside = is_before(floor_key, floor_tie, key, tie)
            for d in range(lanes.lo.shape[0]):
                x = heap.block[d, i]
                is_inside &= lanes.lo[d, lane] <= x and x <= lanes.hi[d, lane]
            if is_inside:
                size = push_bounded(heap.key, heap.tie, heap.at, size, limit, key, tie, at + i)
    sort_heap(heap.key, heap.tie, heap.at, size)
    return size


@lean_kernel
def known_lower_bound(
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    lane: int,
    tree: RankingTree,
    heap: RankingHeap,
    n_near: int,
    limit: int,
) -> float:
    """A key that `limit` rows reach, by the `n_near` best rows of the previous lane; -inf if unknown."""
    near = heap.near
    if n_near < limit or len(ranking.term_column) == 0:
        return -np.inf
    for d in range(lanes.lo.shape[0]):
        for i in range(n_near):
            x = tree.values[d, heap.at[i]]
            if not (lanes.lo[d, lane] <= x and x <= lanes.hi[d, lane]):
                return -np.inf
    for i in range(n_near):
        near[i] = -0.0
    for t in range(len(ranking.term_column)):
        theta = lanes.theta[ranking.term_theta[t], lane]
        column = ranking.first_column + ranking.term_column[t]
        for i in range(n_near):
            near[i] += tree.values[column, heap.at[i]] * theta
    least = np.inf
    for i in range(n_near):
        key = ranking.key_sign * near[i] + 0.0
        if key != key:
            return -np.inf
        least = min(least, key)
    return least


@lean_kernel
def rank_lanes(
    ranking: CandidateRanking,
    lanes: SubscriptionLanes,
    tree: RankingTree,
    n_rows: int,
    rows: StoredRows,
    heap: RankingHeap,
    pool: ListPool,
    state: Longs,
    chosen: Ints,
    is_listing: bool,
    out_listed: Bools,
) -> int:
    """Rank all rows for the lanes `chosen` from `state[1]` on: set refill floors and, if `is_listing`, lists.

    `state[0]` is where the pool's free part begins. `out_listed` marks, by row slot, the rows found.
    Neighbouring lanes rank nearly the same rows first, so that one lane's best rows prune the next search.
    """
    n_near = zero()
    while state[1] < len(chosen):
        lane = int(np.int64(chosen[state[1]]))
        k = lanes.k[lane]
        limit = refill_size(k)
        length = initial_size(k)
        capacity = list_capacity(k, min(length, n_rows))
        if is_listing and state[0] + capacity > len(pool.row):
            return POOL_FULL
        least = known_lower_bound(ranking, lanes, lane, tree, heap, n_near, limit)
        size = search_tree(ranking, lanes, lane, tree, n_rows, rows, heap, limit, least)
        n_near = size
        lanes.refill_floor[lane] = heap.key[0] if size == limit else -np.inf
        for i in range(size):
            out_listed[tree.row[heap.at[i]]] = True
        if is_listing:
            sort_heap(heap.key, heap.tie, heap.at, size)
            start = state[0]
            length = min(size, length)
            for i in range(length):
                pool.row[start + i] = tree.row[heap.at[i]]
                pool.key[start + i] = heap.key[i]
            lanes.list_start[lane] = start
            lanes.list_capacity[lane] = capacity
            lanes.list_size[lane] = length
            if size > length:
                lanes.floor[lane] = heap.key[length - 1]
                lanes.floor_tie[lane] = heap.tie[length - 1]
            else:
                lanes.floor[lane] = -np.inf
                lanes.floor_tie[lane] = LOWEST_TIE
            state[0] += capacity
        state[1] += 1
    return DONE
