"""Paint-Dense: an event as tiles of subscription space, without a look at the subscriptions.

Notation: the *posts* are the k nearest rows below row i on either side, with i in the middle, in order of x:
post p for p = 0 … 2k, i is post k; a missing post has place -1 and x NaN. Of a subscription [l, r] that holds
i, the rows below i inside are posts. So the subscriptions that rank i k-th are the rectangles
`(x[p-1], x[p]] × [x[p+k-1], x[p+k])`, p = 1 … k, and the region that has i among its k best (the paper's IR)
is the columns `(x[p-1], x[p]] × [x[k], x[p+k])`.

When i rises, the rows that it passes are *exposed*, lowest first: each replaces i wherever i was k-th and the
row is inside, and becomes a post. The lowest row of every gap between posts is kept: the next one is at hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.events_kernels import (
    Turn,
    end_turn,
    is_idle,
    next_turn,
    write_note,
    write_tile,
)
from tocsin.indexes.ranges.messages import (
    DONE,
    EVENT,
    FULL,
    N_EXPOSED,
    N_NOTES,
    N_TILES,
    NO_ROOM,
    Events,
    Messages,
)
from tocsin.indexes.ranges.objects_columns import BLOCK, Objects
from tocsin.indexes.ranges.objects_kernels import (
    has_room,
    is_before,
    least_between,
    least_value,
    lower_of,
    walk_left,
    walk_right,
)
from tocsin.indexes.shared.jit import inlined, lean_kernel

#: Rows in a gap that are looked at one by one.
SHORT = 12


class Posts(NamedTuple):
    """The posts around one row, for one k. Scratch."""

    #: int32 (2k + 1,): -1 for none
    place: Ints
    #: float64 (2k + 1,): NaN for none
    x: Floats
    #: int32 (2k,): the lowest row between post p and the next, -1 for none
    gap_place: Ints
    #: float64 (2k,): its y, inf for none
    gap_y: Floats
    #: int32 (k + STRIDE,): where the nearest rows are listed
    near: Ints
    #: int32 (k + 1,): columns of one band are told together, k bands if messages are exact
    band: Ints


@inlined
def set_posts(objects: Objects, posts: Posts, turn: Turn, k: int) -> None:
    """Find the posts of a row at the better of its ranks."""
    n = walk_left(objects, turn.left, turn.low_y, turn.born, k, posts.near)
    for u in range(k):
        place = int(posts.near[u]) if u < n else -1
        posts.place[k - 1 - u] = place
        posts.x[k - 1 - u] = objects.x[place] if u < n else np.nan
    n = walk_right(objects, turn.right, turn.low_y, turn.born, k, posts.near)
    for v in range(k):
        place = int(posts.near[v]) if v < n else -1
        posts.place[k + 1 + v] = place
        posts.x[k + 1 + v] = objects.x[place] if v < n else np.nan
    posts.place[k] = turn.place
    posts.x[k] = turn.x


@inlined
def set_gaps(objects: Objects, posts: Posts, first: int, end: int, k: int) -> None:
    """Find the lowest row of the gaps from `first` to before `end`.

    Most gaps are a few rows of one block: these are looked at right here.
    """
    for gap in range(first, end):
        left, right = int(posts.place[gap]), int(posts.place[gap + 1])
        lowest, least = -1, np.inf
        if left >= 0 and right >= 0 and left // BLOCK == right // BLOCK and right - left <= SHORT:
            y, born = objects.y[left + 1 : right], objects.born[left + 1 : right]
            for i in range(len(y)):
                if lowest < 0 or y[i] < least or (y[i] == least and born[i] < born[lowest]):
                    lowest, least = i, y[i]
            lowest += left + 1 if lowest >= 0 else 0
        elif (right if gap < k else left) >= 0:
            # Beyond the last post there is one more gap, up to the end; farther out there is nothing.
            lowest = least_between(objects, left, right)
            least = objects.y[lowest] if lowest >= 0 else np.inf
        posts.gap_place[gap] = lowest
        posts.gap_y[gap] = least


@inlined
def lowest_gap(objects: Objects, posts: Posts, k: int) -> int:
    """The gap that holds the lowest row of all, -1 if all are empty."""
    least = least_value(posts.gap_y)
    found, n_equal = -1, 0
    for gap in range(2 * k):
        is_least = posts.gap_y[gap] == least
        found = gap if is_least else found
        n_equal += is_least
    # Nearly always; inf is both no row and the value of some.
    if n_equal == 1 and posts.gap_place[found] >= 0:
        return found
    best = -1
    for gap in range(2 * k):
        place = int(posts.gap_place[gap])
        if (
            posts.gap_y[gap] == least
            and place >= 0
            and lower_of(objects.y, objects.born, best, place) == place
        ):
            best, found = place, gap
    return found if best >= 0 else -1


@inlined
def add_post(posts: Posts, gap: int, x: float, k: int) -> None:
    """Make the lowest row of a gap, at x, a post: the posts outwards move one on, and the last falls off.

    The two gaps beside it must be set again: `gap`, and the one farther out.
    """
    new = posts.gap_place[gap]
    if gap < k:
        for p in range(gap):
            posts.place[p] = posts.place[p + 1]
            posts.x[p] = posts.x[p + 1]
        for p in range(gap - 1):
            posts.gap_place[p] = posts.gap_place[p + 1]
            posts.gap_y[p] = posts.gap_y[p + 1]
        posts.place[gap] = new
        posts.x[gap] = x
        return
    for p in range(2 * k, gap + 1, -1):
        posts.place[p] = posts.place[p - 1]
        posts.x[p] = posts.x[p - 1]
    for p in range(2 * k - 1, gap + 1, -1):
        posts.gap_place[p] = posts.gap_place[p - 1]
        posts.gap_y[p] = posts.gap_y[p - 1]
    posts.place[gap + 1] = new
    posts.x[gap + 1] = x


@inlined
def paint_region(posts: Posts, k: int, out: Messages, cursor: Longs) -> None:
    """Tiles of the region that has the middle row among its k best: fewest, or one a band. At most k.

    A column joins the tile to its right if both end at the same post, or lie in one band.
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
                write_tile(out, cursor, posts.x[begin], middle, posts.x[p], top)
                begin = -1
        if begin < 0:
            begin = base = p
        end = p
    if begin >= 0:
        write_tile(out, cursor, posts.x[begin], middle, posts.x[end - 1], posts.x[begin + k])


@inlined
def has_plain_posts(posts: Posts, k: int) -> bool:
    """Whether no two posts have the same x, and every column is a band of its own: then no tile is empty."""
    n_equal = 0
    for p in range(2 * k):
        n_equal += posts.x[p] == posts.x[p + 1]
    return n_equal == 0 and posts.band[1] == k - 1


@inlined
def paint_plain(
    posts: Posts, first: int, last: int, gap: int, x: float, k: int, out: Messages, cursor: Longs
) -> None:
    """As `paint_exposed`, with plain posts: each bound of the tiles is a stretch of the posts."""
    at, count = cursor[N_TILES], max(last - first + 1, 0)
    left, right = posts.x[first - 1 : last + 1], posts.x[first + k - 1 : last + k + 1]
    inner_lo, outer_lo = out.inner_lo[at : at + count], out.outer_lo[at : at + count]
    inner_hi, outer_hi = out.inner_hi[at : at + count], out.outer_hi[at : at + count]
    note, number = out.note[at : at + count], cursor[N_NOTES]
    for i in range(count):
        outer_lo[i] = left[i]
        inner_lo[i] = left[i + 1]
        inner_hi[i] = right[i]
        outer_hi[i] = right[i + 1]
        note[i] = number
    if count > 0 and last == gap + 1:
        inner_lo[count - 1] = x
    if count > 0 and first == gap + 1 - k:
        inner_hi[0] = x
    cursor[N_TILES] = at + count


@inlined
def paint_exposed(
    posts: Posts, first: int, last: int, gap: int, x: float, k: int, out: Messages, cursor: Longs
) -> None:
    """Tiles of the subscriptions that rank the middle row k-th and hold the lowest row of a gap, at x.

    Of columns `first` to `last`: one each, or one a band; those of equal x are empty and left out.
    """
    band = -1
    for p in range(first, last + 1):
        low = x if p == gap + 1 else posts.x[p]
        high = x if p == gap + 1 - k else posts.x[p + k - 1]
        if posts.x[p - 1] >= low or high >= posts.x[p + k]:
            continue
        if posts.band[p] != band:
            band = posts.band[p]
            write_tile(out, cursor, low, high, posts.x[p - 1], posts.x[p + k])
        at = cursor[N_TILES] - 1
        out.inner_lo[at] = low
        out.outer_hi[at] = posts.x[p + k]


@inlined
def sweep_exposed(
    objects: Objects, posts: Posts, event: int, y: float, born: int, k: int, out: Messages, cursor: Longs
) -> int:
    """Raise the middle row to (y, born) in thought, and tell who replaces it where: DONE or FULL."""
    middle = posts.x[k]
    same = 0
    for p in range(2 * k + 1):
        same += posts.x[p] == middle
    is_plain = has_plain_posts(posts, k)
    first_gap, end_gap = 0, 2 * k
    # The middle counts too: with k others at its x, nobody has the row among its k best.
    while same <= k:
        set_gaps(objects, posts, first_gap, end_gap, k)
        gap = lowest_gap(objects, posts, k)
        if gap < 0:
            return DONE
        lowest = int(posts.gap_place[gap])
        if not is_before(objects.y[lowest], objects.born[lowest], y, born):
            return DONE
        if cursor[N_TILES] + k > len(out.note):
            return FULL
        x = objects.x[lowest]
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
        slot = objects.slot[lowest]
        write_note(out, cursor, event, slot, x, objects.y[lowest], objects.born[lowest], False)
        cursor[N_EXPOSED] += 1
        same += x == middle
        add_post(posts, gap, x, k)
        # Only the gaps on either side of the new post are other ones.
        first_gap = max(gap - 1, 0) if gap < k else gap
        end_gap = gap + 1 if gap < k else min(gap + 2, 2 * k)
    return DONE


@lean_kernel
def paint_events(objects: Objects, posts: Posts, events: Events, k: int, out: Messages, cursor: Longs) -> int:
    """Tell of all events from the cursor's on, each applied before the next. DONE, FULL or NO_ROOM."""
    while cursor[EVENT] < len(events.slot):
        event = cursor[EVENT]
        if is_idle(objects, events, event):
            cursor[EVENT] = event + 1
            continue
        turn = next_turn(objects, events, event)
        if turn.place < 0 and not has_room(objects):
            return NO_ROOM
        n_tiles, n_notes, n_exposed = cursor[N_TILES], cursor[N_NOTES], cursor[N_EXPOSED]
        if n_tiles + k > len(out.note):
            return FULL
        set_posts(objects, posts, turn, k)
        paint_region(posts, k, out, cursor)
        is_told = cursor[N_TILES] > n_tiles
        write_note(out, cursor, event, turn.slot, turn.x, turn.told_y, turn.born, turn.is_going)
        status = DONE
        if turn.is_rising and is_told:
            status = sweep_exposed(objects, posts, event, turn.high_y, turn.high_born, k, out, cursor)
        if status == FULL:
            # Nothing is changed yet: this round will be done again.
            cursor[N_TILES], cursor[N_NOTES], cursor[N_EXPOSED] = n_tiles, n_notes, n_exposed
            return FULL
        end_turn(objects, turn, cursor)
    return DONE
