"""Paint-Dense: an event as rectangles of subscription space, without knowing the subscriptions.

Notation: see `posts_kernels` for the posts around a row i, post 0 … 2k with i in the middle. Of a
subscription [l, r] that holds i, the rows below i inside are posts. So the subscriptions that rank i k-th are
the rectangles `(x[p-1], x[p]] × [x[p+k-1], x[p+k])`, p = 1 … k, and the region that has i among its k best
(the paper's IR) is the columns `(x[p-1], x[p]] × [x[k], x[p+k])`.

When i rises, the rows that it passes are *exposed*, lowest first: each replaces i wherever i was k-th and the
row is inside, and becomes a post.
"""

from __future__ import annotations

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.ranges.messages.messages import (
    EVENT,
    N_EXPOSED,
    N_PAYLOADS,
    N_RECTANGLES,
    Messages,
    RowEvents,
)
from tocsin.indexes.ranges.messages.painters.events_kernels import (
    end_move,
    is_idle,
    next_move,
    write_payload,
    write_rectangle,
)
from tocsin.indexes.ranges.messages.painters.posts_kernels import (
    Posts,
    Span,
    add_post,
    find_gap,
    lowest_passed,
    move_span,
    set_posts,
)
from tocsin.indexes.ranges.structures.blocked_rows_kernels import has_capacity
from tocsin.indexes.ranges.structures.blocked_rows_layout import BlockedColumns
from tocsin.kernels.status import DONE, FULL, SLOTS_FULL


@inlined
def paint_region(posts: Posts, k: int, out: Messages, cursor: Longs) -> None:
    """Write the rectangles of the region that has the middle row among its k best: fewest, or one per band.

    A column joins the rectangle to its right if both end at the same post, or lie in one band.
    """
    middle = posts.x[k]
    begin = -1
    base = end = 0
    for p in range(k, 0, -1):
        # NaN, for no post, is past all others.
        if posts.x[p] != posts.x[p] or middle >= posts.x[p + k]:
            break
        if posts.x[p - 1] >= posts.x[p]:
            continue
        if begin >= 0:
            top, other = posts.x[begin + k], posts.x[p + k]
            if top == other or (top != top and other != other):
                base = p
            elif posts.band[p] != posts.band[base]:
                write_rectangle(out, cursor, posts.x[begin], middle, posts.x[p], top)
                begin = -1
        if begin < 0:
            begin = base = p
        end = p
    if begin >= 0:
        write_rectangle(out, cursor, posts.x[begin], middle, posts.x[end - 1], posts.x[begin + k])


@inlined
def has_plain_posts(posts: Posts, k: int) -> bool:
    """Whether no two posts have the same x, and every column is a band of its own: then none is empty."""
    n_equal = 0
    for p in range(2 * k):
        n_equal += posts.x[p] == posts.x[p + 1]
    return n_equal == 0 and posts.band[1] == k - 1


@inlined
def copy_part(source: Floats, begin: int, target: Floats, at: int, count: int) -> None:
    """Copy some values: a loop over two columns alone compiles to vector code without alias checks."""
    some, out = source[begin : begin + count], target[at : at + count]
    for i in range(count):
        out[i] = some[i]


@inlined
def paint_plain(
    posts: Posts, first: int, last: int, gap: int, x: float, k: int, out: Messages, cursor: Longs
) -> None:
    """Write the rectangles that `paint_exposed` does, for plain posts: their bounds are slices of the posts.

    There is capacity for k rectangles, and k are always written: how many count cannot be predicted.
    """
    at, count = cursor[N_RECTANGLES], max(last - first + 1, 0)
    copy_part(posts.x, first - 1, out.outer_lo, at, k)
    copy_part(posts.x, first, out.inner_lo, at, k)
    copy_part(posts.x, first + k - 1, out.inner_hi, at, k)
    copy_part(posts.x, first + k, out.outer_hi, at, k)
    payload, number = out.payload[at : at + k], cursor[N_PAYLOADS]
    for i in range(k):
        payload[i] = number
    if count > 0 and last == gap + 1:
        out.inner_lo[at + count - 1] = x
    if count > 0 and first == gap + 1 - k:
        out.inner_hi[at] = x
    cursor[N_RECTANGLES] = at + count


@inlined
def paint_exposed(
    posts: Posts, first: int, last: int, gap: int, x: float, k: int, out: Messages, cursor: Longs
) -> None:
    """Rectangles of the subscriptions that rank the middle row k-th and hold the lowest row of a gap, at x.

    Of columns `first` to `last`: one each, or one per band; those of equal x are empty and skipped.
    """
    band = -1
    for p in range(first, last + 1):
        low = x if p == gap + 1 else posts.x[p]
        high = x if p == gap + 1 - k else posts.x[p + k - 1]
        if posts.x[p - 1] >= low or high >= posts.x[p + k]:
            continue
        if posts.band[p] != band:
            band = posts.band[p]
            write_rectangle(out, cursor, low, high, posts.x[p - 1], posts.x[p + k])
        at = cursor[N_RECTANGLES] - 1
        out.inner_lo[at] = low
        out.outer_hi[at] = posts.x[p + k]


@inlined
def count_at(posts: Posts, x: float, k: int) -> int:
    """How many posts are at x."""
    count = 0
    for p in range(2 * k + 1):
        count += posts.x[p] == x
    return count


@inlined
def sweep_passed(
    blocked: BlockedColumns, posts: Posts, event: int, k: int, out: Messages, cursor: Longs
) -> int:
    """Raise the middle row above the rows listed, and send what replaces it where: DONE or FULL."""
    middle = posts.x[k]
    same = count_at(posts, middle, k)
    is_plain = has_plain_posts(posts, k)
    # The middle counts too: with k others at its x, no range has the row among its k best.
    while same <= k:
        passed = lowest_passed(blocked, posts, k)
        if passed < 0:
            return DONE
        if cursor[N_RECTANGLES] + k > len(out.payload):
            return FULL
        lowest = int(posts.passed_place[passed])
        gap = find_gap(posts, passed, k)
        x = blocked.x[lowest]
        first, last = max(1, gap + 1 - k), min(gap + 1, k)
        # Columns between posts that are there.
        while posts.x[first] != posts.x[first]:
            first += 1
        while posts.x[last + k - 1] != posts.x[last + k - 1]:
            last -= 1
        is_plain = is_plain and x != posts.x[gap] and x != posts.x[gap + 1]
        if is_plain:
            paint_plain(posts, first, last, gap, x, k, out, cursor)
        else:
            paint_exposed(posts, first, last, gap, x, k, out, cursor)
        slot = blocked.slot[lowest]
        write_payload(out, cursor, event, slot, x, blocked.y[lowest], blocked.born[lowest], False)
        cursor[N_EXPOSED] += 1
        same += x == middle
        add_post(posts, gap, passed, x, k)
    return DONE


@lean_kernel
def paint_events(
    blocked: BlockedColumns, posts: Posts, events: RowEvents, k: int, out: Messages, cursor: Longs
) -> int:
    """Process events from the cursor on, each applied before the next. DONE, FULL or SLOTS_FULL."""
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        if is_idle(blocked, events, event):
            cursor[EVENT] = event + 1
            continue
        move = next_move(blocked, events, event)
        if move.place < 0 and not has_capacity(blocked):
            return SLOTS_FULL
        n_rectangles, n_payloads, n_exposed = cursor[N_RECTANGLES], cursor[N_PAYLOADS], cursor[N_EXPOSED]
        if n_rectangles + k > len(out.payload):
            return FULL
        span = move_span(move)
        status, is_left, is_first = DONE, True, True
        while is_left:
            pivot = set_posts(blocked, posts, move, span, k)
            if is_first:
                paint_region(posts, k, out, cursor)
                is_left = move.is_rising and cursor[N_RECTANGLES] > n_rectangles
                write_payload(out, cursor, event, move.slot, move.x, move.sent_y, move.born, move.is_going)
                is_first = False
            if is_left:
                status = sweep_passed(blocked, posts, event, k, out, cursor)
                is_left = status == DONE and pivot >= 0
                # The next round, if there is one, begins at the row that did not fit.
                span = Span(blocked.y[pivot], blocked.born[pivot], span.y, span.born)
        if status == FULL:
            # Nothing is changed yet: the caller grows the output and this event is processed again.
            cursor[N_RECTANGLES], cursor[N_PAYLOADS], cursor[N_EXPOSED] = n_rectangles, n_payloads, n_exposed
            return FULL
        end_move(blocked, move, cursor)
    return DONE
