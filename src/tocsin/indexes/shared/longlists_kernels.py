"""Kernels of long top-k lists: what a step takes from each list, puts into it, and tells of it.

A list holds the rows that its subscription's box and region hold, down to its *floor*: all of them if that is
open. It is never shorter than k unless it is open, so that the answer is its first k rows. A step takes and
puts the rows that it changes. Of the other rows as many cross the k-th place as make the answer k long again,
and these are neighbours: so a step costs what it changes, and a logarithmic search for each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import ABSENT, ENTER, LEAVE, UPDATE, Bools, ChangeSet, Floats, Ints, Longs
from tocsin.indexes.shared.jit import inlined, kernel, lean_kernel
from tocsin.indexes.shared.ordered_kernels import (
    USED,
    Nodes,
    count_before,
    find_node,
    put_row,
    size_of,
    take_row,
)
from tocsin.indexes.shared.programs_kernels import Program, mark_tile, score_tile
from tocsin.indexes.shared.region_kernels import NO_REGION, is_in_region

#: What `apply_step` answers: through, or what must be done before it is called again: room for changes, room
#: for rows of lists, more rows into the list at hand.
DONE = 0
OUT_FULL = 1
NODES_FULL = 2
SHORT = 3

#: Places in a cursor: the step and the list at hand, and how many changes there are.
STEP = 0
AT = 1
N_OUT = 2
CURSOR_SIZE = 3

#: The tie of an open floor: larger than any insertion number.
OPEN = (1 << 63) - 1


class Ranking(NamedTuple):
    """How one shape ranks: ascending keys, then ascending ties."""

    program: Program
    #: where the columns of the score begin, after those of the box and of the region
    first_column: int
    #: NO_REGION, or its kind
    region: int
    #: -1.0 where large scores come first, else 1.0
    key_sign: float
    #: -1 where newer rows win ties, else 1
    tie_sign: int


class Lists(NamedTuple):
    """Subscriptions, in the order of their slots, and where their lists are."""

    #: int32 (lists,)
    slot: Ints
    #: int64 (lists,)
    k: Longs
    #: float64 (dimensions, lists): closed bounds of the boxes
    lo: Floats
    hi: Floats
    #: float64 (n_theta, lists)
    theta: Floats
    #: float64 (3, lists): of the region, zeros if there is none
    region: Floats
    #: float64 (lists,), int64 (lists,): the last row that the list may hold; infinite and OPEN if any
    floor: Floats
    floor_tie: Longs
    #: int32 (lists,): the node on top, -1 if there is none
    top: Ints


class Images(NamedTuple):
    """Rows before a step, or after it. A row that is in neither is passed over."""

    #: float64 (columns, entries)
    values: Floats
    #: int64 (entries,)
    born: Longs
    #: bool (entries,)
    is_there: Bools
    #: float64 (entries,): scratch, the key in the list at hand
    key: Floats
    #: bool (entries,): scratch, whether the list at hand holds it
    is_inside: Bools
    #: int64 (entries,): scratch, its place in that list
    place: Longs


class Told(NamedTuple):
    """Changes, and what those of one step, list and op are ordered by."""

    changes: ChangeSet
    #: float64 (room,), int64 (room,)
    key: Floats
    tie: Longs


@kernel
def mark_inside(ranking: Ranking, lists: Lists, which: int, images: Images, stack: Floats) -> None:
    """Find the keys of all images in one list, and which of them are in its box and region."""
    count = len(images.born)
    mark_tile(images.values, images.is_there, 0, count, lists.lo, lists.hi, which, 1, images.is_inside)
    score_tile(
        ranking.program,
        images.values,
        ranking.first_column,
        0,
        count,
        lists.theta,
        which,
        1,
        stack,
        images.key,
    )
    n_box = lists.lo.shape[0]
    a, b, c = lists.region[0, which], lists.region[1, which], lists.region[2, which]
    for i in range(count):
        images.key[i] = images.key[i] * ranking.key_sign + 0.0
        is_inside = images.is_inside[i] and not np.isnan(images.key[i])
        if is_inside and ranking.region != NO_REGION:
            x, z = images.values[n_box, i], images.values[n_box + 1, i]
            is_inside = is_in_region(ranking.region, a, b, c, x, z)
        images.is_inside[i] = is_inside


@inlined
def keep_listed(ranking: Ranking, lists: Lists, which: int, images: Images) -> int:
    """Of the images in a box, mark only those not after its floor. Says how many they are."""
    count = 0
    floor, floor_tie = lists.floor[which], lists.floor_tie[which]
    for i in range(len(images.born)):
        key = images.key[i]
        tie = ranking.tie_sign * images.born[i]
        images.is_inside[i] &= key < floor or (key == floor and tie <= floor_tie)
        count += 1 if images.is_inside[i] else 0
    return count


@inlined
def pass_unchanged(ranking: Ranking, old: Images, new: Images, touched: Bools) -> None:
    """Leave rows alone that keep their places and that nobody has to hear of."""
    for i in range(len(old.born)):
        is_same = old.key[i] == new.key[i] and old.born[i] == new.born[i] and not touched[i]
        if is_same and old.is_inside[i] and new.is_inside[i]:
            old.is_inside[i] = False
            new.is_inside[i] = False


@inlined
def find_places(ranking: Ranking, nodes: Nodes, top: int, k: int, images: Images) -> int:
    """Find the places of a list's images in the answer, -1 where they are in none. Says how many are."""
    count = 0
    for i in range(len(images.born)):
        images.place[i] = -1
        if images.is_inside[i]:
            place = count_before(nodes, top, images.key[i], ranking.tie_sign * images.born[i])
            if place < k:
                images.place[i] = place
                count += 1
    return count


@inlined
def tell(
    told: Told, cursor: Longs, slot: int, op: int, row: int, key: float, tie: int, score: float, rank: int
) -> None:
    """Write one change. There is room."""
    at = cursor[N_OUT]
    out = told.changes
    out.step[at] = cursor[STEP]
    out.subscription[at] = slot
    out.op[at] = op
    out.row[at] = row
    out.score[at] = score
    out.rank[at] = rank
    told.key[at] = key
    told.tie[at] = tie
    cursor[N_OUT] = at + 1


@lean_kernel
def tell_changed(
    ranking: Ranking,
    slot: int,
    row: Ints,
    old: Images,
    new: Images,
    touched: Bools,
    told: Told,
    cursor: Longs,
) -> None:
    """Tell of the rows that the step itself has changed."""
    for i in range(len(row)):
        was, now = int(old.place[i]), int(new.place[i])
        if now < 0:
            if was >= 0:
                tie = ranking.tie_sign * int(old.born[i])
                tell(told, cursor, slot, LEAVE, row[i], old.key[i], tie, np.nan, 0)
            continue
        if was >= 0 and old.key[i] == new.key[i] and not touched[i]:
            continue
        op = UPDATE if was >= 0 else ENTER
        tie = ranking.tie_sign * int(new.born[i])
        tell(told, cursor, slot, op, row[i], new.key[i], tie, new.key[i] * ranking.key_sign + 0.0, now + 1)


@lean_kernel
def tell_crossing(
    ranking: Ranking,
    nodes: Nodes,
    top: int,
    slot: int,
    place: int,
    more: int,
    is_changed: Bools,
    told: Told,
    cursor: Longs,
) -> None:
    """Tell of rows that the step left alone and that crossed the end of the answer, which is at `place` now.

    `more` of them came in; if that is negative, they left.
    """
    at = place - 1 if more > 0 else place
    while more != 0:
        node = find_node(nodes, top, at)
        row, key, tie = int(nodes.row[node]), nodes.key[node], int(nodes.tie[node])
        if more > 0:
            if not is_changed[row]:
                tell(told, cursor, slot, ENTER, row, key, tie, key * ranking.key_sign + 0.0, at + 1)
                more -= 1
            at -= 1
        else:
            if not is_changed[row]:
                tell(told, cursor, slot, LEAVE, row, key, tie, np.nan, 0)
                more += 1
            at += 1


@lean_kernel
def trim_list(nodes: Nodes, lists: Lists, which: int, length: int) -> None:
    """Take the last rows from a list that is longer than `length`; its floor is its last row then."""
    while size_of(nodes, int(lists.top[which])) > length:
        top = int(lists.top[which])
        last = find_node(nodes, top, size_of(nodes, top) - 1)
        take_row(nodes, lists.top, which, nodes.key[last], int(nodes.tie[last]))
        top = int(lists.top[which])
        last = find_node(nodes, top, size_of(nodes, top) - 1)
        lists.floor[which] = nodes.key[last]
        lists.floor_tie[which] = nodes.tie[last]


@kernel
def apply_step(
    ranking: Ranking,
    lists: Lists,
    n_lists: int,
    nodes: Nodes,
    row: Ints,
    old: Images,
    new: Images,
    touched: Bools,
    is_changed: Bools,
    stack: Floats,
    told: Told,
    cursor: Longs,
) -> int:
    """Take the entries of one step to all lists from the cursor on, and tell what they change.

    Not DONE: to be called again after what is missing is there. `is_changed` is false for all rows, and again
    afterwards.
    """
    while cursor[AT] < n_lists:
        which = int(cursor[AT])
        mark_inside(ranking, lists, which, old, stack)
        mark_inside(ranking, lists, which, new, stack)
        n_taken = keep_listed(ranking, lists, which, old)
        n_put = keep_listed(ranking, lists, which, new)
        k = int(lists.k[which])
        size = size_of(nodes, int(lists.top[which]))
        if lists.floor_tie[which] != OPEN and size - n_taken + n_put < k:
            return SHORT
        if cursor[N_OUT] + 2 * (n_taken + n_put) > len(told.key):
            return OUT_FULL
        if nodes.state[USED] + n_put > len(nodes.key):
            return NODES_FULL
        if n_taken + n_put > 0:
            pass_unchanged(ranking, old, new, touched)
            change_list(ranking, lists, which, nodes, row, old, new, touched, is_changed, told, cursor)
            trim_list(nodes, lists, which, 2 * k)
        cursor[AT] += 1
    return DONE


@lean_kernel
def change_list(
    ranking: Ranking,
    lists: Lists,
    which: int,
    nodes: Nodes,
    row: Ints,
    old: Images,
    new: Images,
    touched: Bools,
    is_changed: Bools,
    told: Told,
    cursor: Longs,
) -> None:
    """Take the marked rows of `old` from a list, put those of `new` into it, and tell what that changes."""
    k = int(lists.k[which])
    slot = int(lists.slot[which])
    n_old = min(k, size_of(nodes, int(lists.top[which])))
    n_left = find_places(ranking, nodes, int(lists.top[which]), k, old)
    for i in range(len(row)):
        if old.is_inside[i]:
            take_row(nodes, lists.top, which, old.key[i], ranking.tie_sign * int(old.born[i]))
    for i in range(len(row)):
        if new.is_inside[i]:
            put_row(nodes, lists.top, which, new.key[i], ranking.tie_sign * int(new.born[i]), row[i])
            is_changed[row[i]] = True
    top = int(lists.top[which])
    n_new = min(k, size_of(nodes, top))
    n_came = find_places(ranking, nodes, top, k, new)
    tell_changed(ranking, slot, row, old, new, touched, told, cursor)
    more = (n_new - n_came) - (n_old - n_left)
    tell_crossing(ranking, nodes, top, slot, n_new, more, is_changed, told, cursor)
    for i in range(len(row)):
        is_changed[row[i]] = False


@lean_kernel
def put_sorted(nodes: Nodes, lists: Lists, which: int, key: Floats, tie: Longs, row: Ints) -> None:
    """Put rows into a list; there are enough free nodes. Cost: a logarithmic search each."""
    for i in range(len(row)):
        put_row(nodes, lists.top, which, key[i], int(tie[i]), int(row[i]))


@lean_kernel
def store_images(images: Images, row: Ints, values: Floats, born: Longs) -> None:
    """Write rows as they are after a step into the columns by slot."""
    for i in range(len(row)):
        born[row[i]] = images.born[i] if images.is_there[i] else ABSENT
        for column in range(values.shape[0]):
            values[column, row[i]] = images.values[column, i]
