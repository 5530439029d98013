"""Kernels of range top-k, and of MIN and MAX, which are the top one.

Keys ascend: an index that ranks downwards negates its keys, and `sign` gives the scores back. The
last dimension of a box is the key itself. Its upper bound is the *bar*: the key of the k-th row if
that is known, else infinity. An image beyond the bar cannot change the answer, so the search for
affected boxes leaves it out like any other image outside.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import ENTER, LEAVE, UPDATE, VALUE, Bools, ChangeSet, Floats, Ints, Longs
from tocsin.indexes.ranges.step_kernels import (
    AT,
    DONE,
    FULL,
    IS_OPEN,
    N_AFFECTED,
    N_OUT,
    N_RANKED,
    STEP,
    Boxes,
    Images,
    Ranking,
    RowColumns,
    close_ranked,
    find_affected,
    is_inside,
    mark_inside,
    open_ranked,
    write_change,
)
from tocsin.indexes.shared.jit import kernel

#: Ranked rows tested at a time: about what a list of ten takes where one row in ten is inside.
WALK = 128


class Lists(NamedTuple):
    """Scratch: one subscription's answer before and after a step, by rank from 0."""

    #: int64 (rows,): slots of the rows.
    before_row: Longs
    #: float64 (rows,)
    before_key: Floats
    #: int64 (rows,)
    after_row: Longs
    #: float64 (rows,)
    after_key: Floats
    #: int64 (rows,): the new image that the row comes from, -1 if the step leaves it alone.
    after_image: Longs
    #: int32 (row capacity,): zero between two subscriptions; see `report_lists`.
    seen: Ints
    #: bool (WALK,): which of a block of ranked rows are in the box.
    inside: Bools


@kernel
def collect_lists(
    boxes: Boxes,
    box: int,
    limit: int,
    rows: RowColumns,
    ranking: Ranking,
    n_ranked: int,
    images: Images,
    step: int,
    lists: Lists,
) -> tuple[int, int]:
    """Fill `lists` in one walk down the ranks, a block at a time. Answers their lengths."""
    n_box = boxes.lo.shape[0] - 1
    old = images.start[step]
    new = images.middle[step]
    old_end = new
    new_end = images.start[step + 1]
    n_before = 0
    n_after = 0
    at = 0
    block = 0
    block_end = 0
    while n_before < limit or n_after < limit:
        # On to the next ranked row in the box, or past the last.
        while at < n_ranked:
            if at == block_end:
                block = at
                block_end = min(at + WALK, n_ranked)
                inside = lists.inside[: block_end - block]
                if mark_inside(boxes, box, n_box, ranking, block, inside) == 0:
                    at = block_end
                    continue
            if lists.inside[at - block]:
                break
            at += 1
        # Images that rank before it.
        while old < old_end and images.position[old] <= at and n_before < limit:
            if is_inside(boxes, box, images.value, old, n_box):
                lists.before_row[n_before] = images.row[old]
                lists.before_key[n_before] = images.value[old, n_box]
                n_before += 1
            old += 1
        while new < new_end and images.position[new] <= at and n_after < limit:
            if is_inside(boxes, box, images.value, new, n_box):
                lists.after_row[n_after] = images.row[new]
                lists.after_key[n_after] = images.value[new, n_box]
                lists.after_image[n_after] = new
                n_after += 1
            new += 1
        if at == n_ranked:
            break
        row = ranking.order[at]
        key = rows.value[row, n_box]
        if n_before < limit:
            lists.before_row[n_before] = row
            lists.before_key[n_before] = key
            n_before += 1
        if n_after < limit:
            lists.after_row[n_after] = row
            lists.after_key[n_after] = key
            lists.after_image[n_after] = -1
            n_after += 1
        at += 1
    return n_before, n_after


@kernel
def report_lists(
    lists: Lists,
    n_before: int,
    n_after: int,
    images: Images,
    step: int,
    box: int,
    sign: float,
    out: ChangeSet,
    n_out: int,
) -> int:
    """Write how the list before becomes the list after. Answers the new length of the output.

    `seen` tells of a row: 1, only in the list after; 2 + its place before, in both.
    """
    seen = lists.seen
    for i in range(n_after):
        seen[lists.after_row[i]] = 1
    for i in range(n_before):
        row = lists.before_row[i]
        if seen[row] == 0:
            out.op[n_out] = LEAVE
            n_out = write_change(out, n_out, step, box, row, np.nan)
        else:
            seen[row] = i + 2
    for i in range(n_after):
        row = lists.after_row[i]
        image = lists.after_image[i]
        key = lists.after_key[i]
        if seen[row] > 1 and image >= 0:
            is_same = key == lists.before_key[seen[row] - 2]
            if images.touched[image] or not is_same:
                out.op[n_out] = UPDATE
                n_out = write_change(out, n_out, step, box, row, key * sign + 0.0)
                out.rank[n_out - 1] = i + 1
    for i in range(n_after):
        row = lists.after_row[i]
        if seen[row] == 1:
            out.op[n_out] = ENTER
            n_out = write_change(out, n_out, step, box, row, lists.after_key[i] * sign + 0.0)
            out.rank[n_out - 1] = i + 1
        seen[row] = 0
    return n_out


@kernel
def report_extreme(
    lists: Lists, n_before: int, n_after: int, step: int, box: int, sign: float, out: ChangeSet, n_out: int
) -> int:
    """Write the first row of the list after, if it is another row or value than before."""
    if n_after == 0:
        if n_before > 0:
            out.op[n_out] = VALUE
            n_out = write_change(out, n_out, step, box, -1, np.nan)
        return n_out
    row = lists.after_row[0]
    key = lists.after_key[0]
    if n_before == 0 or lists.before_row[0] != row or lists.before_key[0] != key:
        out.op[n_out] = VALUE
        n_out = write_change(out, n_out, step, box, row, key * sign + 0.0)
    return n_out


@kernel
def report_ranked(
    boxes: Boxes,
    n_boxes: int,
    limits: Ints,
    rows: RowColumns,
    ranking: Ranking,
    images: Images,
    lists: Lists,
    is_extreme: bool,
    sign: float,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes. FULL: call again with more room."""
    key = boxes.lo.shape[0] - 1
    while cursor[STEP] < len(images.middle):
        step = cursor[STEP]
        if cursor[IS_OPEN] == 0:
            cursor[N_RANKED] = open_ranked(ranking, cursor[N_RANKED], rows, key, images, step)
            cursor[N_AFFECTED] = find_affected(boxes, n_boxes, images, step)
            cursor[AT] = 0
            cursor[IS_OPEN] = 1
        while cursor[AT] < cursor[N_AFFECTED]:
            box = boxes.affected[cursor[AT]]
            limit = limits[box]
            n_before, n_after = collect_lists(
                boxes, box, limit, rows, ranking, cursor[N_RANKED], images, step, lists
            )
            if cursor[N_OUT] + n_before + n_after > len(out.step):
                return FULL
            if is_extreme:
                cursor[N_OUT] = report_extreme(lists, n_before, n_after, step, box, sign, out, cursor[N_OUT])
            else:
                cursor[N_OUT] = report_lists(
                    lists, n_before, n_after, images, step, box, sign, out, cursor[N_OUT]
                )
            boxes.hi[key, box] = lists.after_key[n_after - 1] if n_after == limit else np.inf
            cursor[AT] += 1
        cursor[N_RANKED] = close_ranked(ranking, cursor[N_RANKED], rows, images, step)
        cursor[IS_OPEN] = 0
        cursor[STEP] += 1
    return DONE


@kernel
def list_ranked(
    boxes: Boxes,
    limits: Ints,
    rows: RowColumns,
    ranking: Ranking,
    slots: Longs,
    inside: Bools,
    is_extreme: bool,
    sign: float,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Write the answers of the boxes in `slots`, from the cursor on."""
    n_box = boxes.lo.shape[0] - 1
    n_ranked = cursor[N_RANKED]
    while cursor[AT] < len(slots):
        box = slots[cursor[AT]]
        limit = limits[box]
        n_out = cursor[N_OUT]
        rank = 0
        start = 0
        while start < n_ranked and rank < limit:
            size = min(WALK, n_ranked - start)
            mark_inside(boxes, box, n_box, ranking, start, inside[:size])
            for i in range(size):
                if inside[i] and rank < limit:
                    if n_out == len(out.step):
                        return FULL
                    row = np.int64(ranking.order[start + i])
                    rank += 1
                    out.op[n_out] = VALUE if is_extreme else ENTER
                    n_out = write_change(
                        out, n_out, cursor[STEP], box, row, rows.value[row, n_box] * sign + 0.0
                    )
                    out.rank[n_out - 1] = 0 if is_extreme else rank
            start += size
        if is_extreme and rank == 0:
            if n_out == len(out.step):
                return FULL
            out.op[n_out] = VALUE
            n_out = write_change(out, n_out, cursor[STEP], box, -1, np.nan)
        cursor[N_OUT] = n_out
        cursor[AT] += 1
    return DONE
