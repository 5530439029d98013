"""Posts: the rows that decide which ranges have a row among their k best, and the rows that it passes.

Notation: the *posts* are the k nearest rows below row i on either side, with i in the middle, in order of x:
post p for p = 0 … 2k, i is post k; a missing post has x NaN. The rows that i passes between the outermost
posts are listed beside, from left to right. Each of them, lowest first, becomes a post in its turn, and the
outermost post on its side falls off; what is farther out is out of sight from then on.

A row that falls far passes too many rows to list. Then only the lowest are listed: when these are done the
posts are found again, a *round* later, and by then fewer are in sight.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.bits import NEVER, first_bit, last_bit, order_key
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.messages.painters.events_kernels import RowMove
from tocsin.indexes.ranges.structures.blocked_rows_kernels import is_below, lower_of
from tocsin.indexes.ranges.structures.blocked_rows_layout import BLOCK, GROUP, N_GROUPS, BlockedColumns

#: One in this many of the rows listed is sampled to find the lowest.
SAMPLED = 16


class PostSide(NamedTuple):
    """Rows on one side of a row, from near to far. Scratch."""

    #: places of the low rows: those that are posts
    low_place: Annotated[Ints, Column(Size("k", plus=1), fill=None)]
    #: how many of the rows passed are nearer than each
    low_cut: Annotated[Ints, Column(Size("k", plus=1), fill=None)]
    #: places of the rows passed
    passed: Annotated[Ints, Column("passed", fill=None)]


class Posts(NamedTuple):
    """The posts around one row, for one k, and the rows passed. Scratch."""

    #: NaN for none; those after the first 2k + 1 hold anything
    x: Annotated[Floats, Column(Size("k", times=3, plus=1), fill=np.nan)]
    #: the first of the rows passed that is right of the post
    cut: Annotated[Ints, Column(Size("k", times=2, plus=1), fill=None)]
    #: `order_key` of the y of the rows passed, left to right; NEVER once a post
    passed_key: Annotated[Longs, Column(Size("passed", times=2), fill=None)]
    #: their places
    passed_place: Annotated[Ints, Column(Size("passed", times=2), fill=None)]
    left: PostSide
    right: PostSide
    #: columns of one band share a message; k bands if messages are exact
    band: Annotated[Ints, Column(Size("k", plus=1), fill=None)]


class Span(NamedTuple):
    """Two ranks: rows below the first are low, rows from there to below the second are passed."""

    low_y: float
    low_born: int
    y: float
    born: int


class Reach(NamedTuple):
    """The result of the search on one side."""

    n_low: int
    n_passed: int
    #: the lowest row passed that did not fit, -1 if all did
    pivot: int


@inlined
def move_span(move: RowMove) -> Span:
    """From the better rank of a row to the worse; empty if it does not get worse."""
    y, born = (move.high_y, move.high_born) if move.is_rising else (move.low_y, move.born)
    return Span(move.low_y, move.born, y, born)


@inlined
def find_pivot(blocked: BlockedColumns, side: PostSide, n_passed: int) -> int:
    """The second lowest of a sample of the rows passed: at least one is below it."""
    lowest = second = -1
    for i in range(0, n_passed, SAMPLED):
        place = int(side.passed[i])
        below = lower_of(blocked.y, blocked.born, lowest, place)
        above = lowest if below == place else place
        second = lower_of(blocked.y, blocked.born, second, above)
        lowest = below
    return second


@lean_kernel
def drop_passed(blocked: BlockedColumns, side: PostSide, n_low: int, n_passed: int, pivot: int) -> int:
    """Drop the rows passed that are not below a row: how many are left."""
    kept = at = 0
    y, born = blocked.y[pivot], blocked.born[pivot]
    for u in range(n_low + 1):
        end = side.low_cut[u] if u < n_low else n_passed
        while at < end:
            place = side.passed[at]
            side.passed[kept] = place
            kept += is_below(blocked, place, y, born)
            at += 1
        side.low_cut[u] = kept
    return kept


@inlined
def mark_block(blocked: BlockedColumns, base: int, bits: int, span: Span) -> tuple[int, int]:
    """Which rows of a block, of those whose bits are set, are below the span's end, and which are low."""
    low_y, y = span.low_y, span.y
    marked = low = ties = 0
    part = blocked.y[base : base + BLOCK]
    for i in range(BLOCK):
        bit = 1 << i
        marked |= bit if part[i] <= y else 0
        low |= bit if part[i] <= low_y else 0
        ties |= bit if (part[i] == y) | (part[i] == low_y) else 0
    marked &= bits
    low &= bits
    ties &= bits
    while ties != 0:
        bit = first_bit(ties)
        ties &= ties - 1
        if not is_below(blocked, base + bit, y, span.born):
            marked &= ~(1 << bit)
        if not is_below(blocked, base + bit, low_y, span.low_born):
            low &= ~(1 << bit)
    return marked, low


@inlined
def next_block(blocked: BlockedColumns, block: int, step: int, y: float) -> int:
    """The next block by `step` that has a row not above y, -1 if there is none."""
    group, rank = int(blocked.block_group[block]), int(blocked.block_rank[block]) + step
    node, count = group * GROUP, int(blocked.group_count[group])
    while 0 <= rank < count and blocked.node_least[node + rank] > y:
        rank += step
    if rank < 0 or rank == count:
        above, n_groups = int(blocked.group_rank[group]) + step, int(blocked.heads[N_GROUPS])
        while 0 <= above < n_groups and blocked.top_least[above] > y:
            above += step
        if above < 0 or above == n_groups:
            return -1
        node = int(blocked.top_group[above]) * GROUP
        rank = int(blocked.group_count[blocked.top_group[above]]) - 1 if step < 0 else 0
        # One of its blocks is not above y, or the group would be.
        while blocked.node_least[node + rank] > y:
            rank += step
    return int(blocked.node_block[node + rank])


@inlined
def list_side(
    blocked: BlockedColumns, start: int, step: int, span: Span, pivot: int, k: int, side: PostSide
) -> Reach:
    """From `start` on, by `step` -1 to the left or 1 to the right, list rows of the span until k are low.

    Where they do not fit, only those below a pivot are listed; one may be given. Cost: the blocks on the way
    that hold a row of the span, in vector code, and the rows listed; other blocks are skipped whole.
    """
    n_low = n_passed = 0
    if pivot >= 0:
        span = Span(span.low_y, span.low_born, blocked.y[pivot], blocked.born[pivot])
    block, offset = start // BLOCK if start >= 0 else -1, int(start % BLOCK)
    # Bits of the rows from the first one on.
    bits = (2 << offset) - 1 if step < 0 else -1 << offset
    while block >= 0 and n_low < k:
        while n_passed + BLOCK > len(side.passed):
            pivot = find_pivot(blocked, side, n_passed)
            span = Span(span.low_y, span.low_born, blocked.y[pivot], blocked.born[pivot])
            n_passed = drop_passed(blocked, side, n_low, n_passed, pivot)
        base = block * BLOCK
        bits &= (2 << (int(blocked.block_count[block]) - 1)) - 1
        marked, low = mark_block(blocked, base, bits, span)
        while marked != 0 and n_low < k:
            bit = last_bit(marked) if step < 0 else first_bit(marked)
            marked ^= 1 << bit
            # Written to both lists and counted in one: no branch to mispredict.
            is_low = (low >> bit) & 1
            side.low_place[n_low] = base + bit
            side.low_cut[n_low] = n_passed
            side.passed[n_passed] = base + bit
            n_low += is_low
            n_passed += 1 - is_low
        block = next_block(blocked, block, step, span.y) if n_low < k else -1
        bits = -1
    return Reach(n_low, n_passed, pivot)


@inlined
def lay_side(blocked: BlockedColumns, posts: Posts, side: PostSide, reach: Reach, step: int, k: int) -> None:
    """Make the low rows posts, and lay the rows passed outwards from the middle."""
    middle = len(posts.left.passed)
    for u in range(k):
        p = k + step * (u + 1)
        is_there = u < reach.n_low
        posts.x[p] = blocked.x[side.low_place[u]] if is_there else np.nan
        posts.cut[p] = middle + step * (side.low_cut[u] if is_there else reach.n_passed)
    ahead = middle if step > 0 else middle - 1
    for i in range(reach.n_passed):
        place = side.passed[i]
        posts.passed_key[ahead + step * i] = order_key(int(np.float64(blocked.y[place]).view(np.int64)))
        posts.passed_place[ahead + step * i] = place


@inlined
def set_posts(blocked: BlockedColumns, posts: Posts, move: RowMove, span: Span, k: int) -> int:
    """Find the posts of a row at the lower end of a span, and list the rows that it passes in it.

    Returns the lowest row passed that did not fit, -1 if all did.
    """
    left = list_side(blocked, move.left, -1, span, -1, k, posts.left)
    right = list_side(blocked, move.right, 1, span, left.pivot, k, posts.right)
    if right.pivot != left.pivot:
        n_passed = drop_passed(blocked, posts.left, left.n_low, left.n_passed, right.pivot)
        left = Reach(left.n_low, n_passed, right.pivot)
    lay_side(blocked, posts, posts.left, left, -1, k)
    lay_side(blocked, posts, posts.right, right, 1, k)
    posts.x[k] = move.x
    posts.cut[k] = len(posts.left.passed)
    return right.pivot


@inlined
def lowest_passed(blocked: BlockedColumns, posts: Posts, k: int) -> int:
    """The lowest of the rows passed that is in sight and no post yet, -1 if there is none."""
    first, end = posts.cut[0], posts.cut[2 * k]
    part = posts.passed_key[first:end]
    least = NEVER
    for i in range(len(part)):
        least = min(least, part[i])
    if least == NEVER:
        return -1
    found = n_equal = 0
    for i in range(len(part)):
        found += i if part[i] == least else 0
        n_equal += part[i] == least
    if n_equal == 1:
        return int(first + found)
    best = at = -1
    for passed in range(first, end):
        place = int(posts.passed_place[passed])
        if posts.passed_key[passed] == least and lower_of(blocked.y, blocked.born, best, place) == place:
            best, at = place, passed
    return at


@inlined
def find_gap(posts: Posts, passed: int, k: int) -> int:
    """The gap that a row passed is in: the number of the post left of it."""
    n_left = 0
    for p in range(2 * k + 1):
        n_left += posts.cut[p] <= passed
    return n_left - 1


@inlined
def add_post(posts: Posts, gap: int, passed: int, x: float, k: int) -> None:
    """Make a row passed, at x, a post: the posts outwards move one on, and the last falls off."""
    posts.passed_key[passed] = NEVER
    if gap < k:
        for p in range(gap):
            posts.x[p] = posts.x[p + 1]
            posts.cut[p] = posts.cut[p + 1]
        posts.x[gap] = x
        posts.cut[gap] = passed
        return
    for p in range(2 * k, gap + 1, -1):
        posts.x[p] = posts.x[p - 1]
        posts.cut[p] = posts.cut[p - 1]
    posts.x[gap + 1] = x
    posts.cut[gap + 1] = passed
