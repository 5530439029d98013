"""Kernels of long top-k lists: what a step removes from each list, adds to it, and emits.

A list holds the rows inside its subscription's box and region down to its *floor*: all of them if the floor
is open. It is never shorter than k unless the floor is open, so that the answer is its first k rows. A step
removes and adds the rows that it changes. Of the other rows, as many cross the k-th place as make the answer
k long again, and these are neighbours: so a step costs what it changes, and a logarithmic search for each.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import ENTER, LEAVE, UPDATE
from tocsin.arrays.jit import inlined, kernel, lean_kernel
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.preferences.long_lists.layout import (
    OPEN,
    EmittedChanges,
    ListImages,
    LongListColumns,
    LongListRanking,
)
from tocsin.kernels.regions import NO_REGION, is_in_region
from tocsin.kernels.scoring import mark_tile, score_tile
from tocsin.kernels.status import AT, DONE, FULL, LIST_SHORT, N_OUT, NODES_FULL, STEP
from tocsin.kernels.treap import (
    USED,
    TreapNodes,
    count_before,
    find_node,
    insert_row,
    remove_row,
    size_of,
)


@kernel
def mark_inside(
    ranking: LongListRanking, lists: LongListColumns, list_id: int, images: ListImages, stack: Floats
) -> None:
    """Find the keys of all images in one list, and which of them are in its box and region."""
    count = len(images.born)
    mark_tile(images.values, images.is_there, 0, count, lists.lo, lists.hi, list_id, 1, images.is_inside)
    score_tile(
        ranking.program,
        images.values,
        ranking.first_column,
        0,
        count,
        lists.theta,
        list_id,
        1,
        stack,
        images.key,
    )
    n_box = lists.lo.shape[0]
    a, b, c = lists.region[0, list_id], lists.region[1, list_id], lists.region[2, list_id]
    for i in range(count):
        images.key[i] = images.key[i] * ranking.key_sign + 0.0
        is_inside = images.is_inside[i] and not np.isnan(images.key[i])
        if is_inside and ranking.region != NO_REGION:
            x, z = images.values[n_box, i], images.values[n_box + 1, i]
            is_inside = is_in_region(ranking.region, a, b, c, x, z)
        images.is_inside[i] = is_inside


@inlined
def mark_listed(ranking: LongListRanking, lists: LongListColumns, list_id: int, images: ListImages) -> int:
    """Of the images in a box, mark only those not after the floor; returns how many."""
    count = 0
    floor, floor_tie = lists.floor[list_id], lists.floor_tie[list_id]
    for i in range(len(images.born)):
        key = images.key[i]
        tie = ranking.tie_sign * images.born[i]
        images.is_inside[i] &= key < floor or (key == floor and tie <= floor_tie)
        count += 1 if images.is_inside[i] else 0
    return count


@inlined
def unmark_unchanged(ranking: LongListRanking, old: ListImages, new: ListImages, touched: Bools) -> None:
    """Unmark rows that keep their place and need not be emitted."""
    for i in range(len(old.born)):
        is_same = old.key[i] == new.key[i] and old.born[i] == new.born[i] and not touched[i]
        if is_same and old.is_inside[i] and new.is_inside[i]:
            old.is_inside[i] = False
            new.is_inside[i] = False


@inlined
def find_places(ranking: LongListRanking, nodes: TreapNodes, top: int, k: int, images: ListImages) -> int:
    """Find the places of a list's images in the answer, -1 outside of it; returns how many are in it."""
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
def emit(
    emitted: EmittedChanges,
    cursor: Longs,
    slot: int,
    op: int,
    row: int,
    key: float,
    tie: int,
    score: float,
    rank: int,
) -> None:
    """Write one change. There must be capacity."""
    at = cursor[N_OUT]
    out = emitted.changes
    out.step[at] = cursor[STEP]
    out.subscription[at] = slot
    out.op[at] = op
    out.row[at] = row
    out.score[at] = score
    out.rank[at] = rank
    emitted.key[at] = key
    emitted.tie[at] = tie
    cursor[N_OUT] = at + 1


@lean_kernel
def emit_changed(
    ranking: LongListRanking,
    slot: int,
    row: Ints,
    old: ListImages,
    new: ListImages,
    touched: Bools,
    emitted: EmittedChanges,
    cursor: Longs,
) -> None:
    """Emit the rows that the step itself has changed."""
    for i in range(len(row)):
        old_place, new_place = int(old.place[i]), int(new.place[i])
        if new_place < 0:
            if old_place >= 0:
                tie = ranking.tie_sign * int(old.born[i])
                emit(emitted, cursor, slot, LEAVE, row[i], old.key[i], tie, np.nan, 0)
            continue
        if old_place >= 0 and old.key[i] == new.key[i] and not touched[i]:
            continue
        op = UPDATE if old_place >= 0 else ENTER
        tie = ranking.tie_sign * int(new.born[i])
        emit(
            emitted,
            cursor,
            slot,
            op,
            row[i],
            new.key[i],
            tie,
            new.key[i] * ranking.key_sign + 0.0,
            new_place + 1,
        )


@lean_kernel
def emit_crossing(
    ranking: LongListRanking,
    nodes: TreapNodes,
    top: int,
    slot: int,
    place: int,
    n_crossing: int,
    is_changed: Bools,
    emitted: EmittedChanges,
    cursor: Longs,
) -> None:
    """Emit unchanged rows that crossed the end of the answer, which is now at `place`.

    `n_crossing` of them entered or, if negative, left.
    """
    at = place - 1 if n_crossing > 0 else place
    while n_crossing != 0:
        node = find_node(nodes, int(np.int64(top)), at)
        row, key, tie = int(nodes.row[node]), nodes.key[node], int(nodes.tie[node])
        if n_crossing > 0:
            if not is_changed[row]:
                emit(emitted, cursor, slot, ENTER, row, key, tie, key * ranking.key_sign + 0.0, at + 1)
                n_crossing -= 1
            at -= 1
        else:
            if not is_changed[row]:
                emit(emitted, cursor, slot, LEAVE, row, key, tie, np.nan, 0)
                n_crossing += 1
            at += 1


@lean_kernel
def trim_list(nodes: TreapNodes, lists: LongListColumns, list_id: int, length: int) -> None:
    """Trim a list to `length`; if that removes rows, its floor is its last row."""
    while size_of(nodes, int(lists.top[list_id])) > length:
        top = int(lists.top[list_id])
        last = find_node(nodes, int(np.int64(top)), size_of(nodes, top) - 1)
        remove_row(nodes, lists.top, list_id, nodes.key[last], int(nodes.tie[last]))
        top = int(lists.top[list_id])
        last = find_node(nodes, int(np.int64(top)), size_of(nodes, top) - 1)
        lists.floor[list_id] = nodes.key[last]
        lists.floor_tie[list_id] = nodes.tie[last]


@kernel
def apply_step(
    ranking: LongListRanking,
    lists: LongListColumns,
    n_lists: int,
    nodes: TreapNodes,
    row: Ints,
    old: ListImages,
    new: ListImages,
    touched: Bools,
    is_changed: Bools,
    stack: Floats,
    emitted: EmittedChanges,
    cursor: Longs,
) -> int:
    """Apply the entries of one step to all lists from the cursor on, and emit the changes.

    Another status than DONE says what is missing before the next call. `is_changed` is all false on entry and
    on return.
    """
    while cursor[AT] < n_lists:
        list_id = int(cursor[AT])
        mark_inside(ranking, lists, list_id, old, stack)
        mark_inside(ranking, lists, list_id, new, stack)
        n_removed = mark_listed(ranking, lists, list_id, old)
        n_added = mark_listed(ranking, lists, list_id, new)
        k = int(lists.k[list_id])
        size = size_of(nodes, int(lists.top[list_id]))
        if lists.floor_tie[list_id] != OPEN and size - n_removed + n_added < k:
            return LIST_SHORT
        if cursor[N_OUT] + 2 * (n_removed + n_added) > len(emitted.key):
            return FULL
        if nodes.state[USED] + n_added > len(nodes.key):
            return NODES_FULL
        if n_removed + n_added > 0:
            unmark_unchanged(ranking, old, new, touched)
            change_list(ranking, lists, list_id, nodes, row, old, new, touched, is_changed, emitted, cursor)
            trim_list(nodes, lists, list_id, 2 * k)
        cursor[AT] += 1
    return DONE


@lean_kernel
def change_list(
    ranking: LongListRanking,
    lists: LongListColumns,
    list_id: int,
    nodes: TreapNodes,
    row: Ints,
    old: ListImages,
    new: ListImages,
    touched: Bools,
    is_changed: Bools,
    emitted: EmittedChanges,
    cursor: Longs,
) -> None:
    """Remove the marked rows of `old` from a list, add those of `new`, and emit the changes."""
    k = int(lists.k[list_id])
    slot = int(lists.slot[list_id])
    n_old = min(k, size_of(nodes, int(lists.top[list_id])))
    n_left = find_places(ranking, nodes, int(lists.top[list_id]), k, old)
    for i in range(len(row)):
        if old.is_inside[i]:
            remove_row(nodes, lists.top, list_id, old.key[i], ranking.tie_sign * int(old.born[i]))
    for i in range(len(row)):
        if new.is_inside[i]:
            insert_row(nodes, lists.top, list_id, new.key[i], ranking.tie_sign * int(new.born[i]), row[i])
            is_changed[row[i]] = True
    top = int(lists.top[list_id])
    n_new = min(k, size_of(nodes, top))
    n_came = find_places(ranking, nodes, top, k, new)
    emit_changed(ranking, slot, row, old, new, touched, emitted, cursor)
    n_crossing = (n_new - n_came) - (n_old - n_left)
    emit_crossing(ranking, nodes, top, slot, n_new, n_crossing, is_changed, emitted, cursor)
    for i in range(len(row)):
        is_changed[row[i]] = False


@lean_kernel
def put_sorted(
    nodes: TreapNodes, lists: LongListColumns, list_id: int, key: Floats, tie: Longs, row: Ints
) -> None:
    """Add rows to a list; there must be enough free nodes. Cost: a logarithmic search each."""
    for i in range(len(row)):
        insert_row(nodes, lists.top, list_id, key[i], int(tie[i]), int(row[i]))


@lean_kernel
def store_images(images: ListImages, row: Ints, values: Floats, born: Longs) -> None:
    """Store the post-images of a step by slot."""
    for i in range(len(row)):
        born[row[i]] = images.born[i] if images.is_there[i] else ABSENT
        for column in range(values.shape[0]):
            values[column, row[i]] = images.values[column, i]
