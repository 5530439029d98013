"""Kernels of range top-k, and of MIN and MAX, which are the top one.

Keys ascend: an index that ranks downwards negates its keys, and `sign` restores the scores. The last
dimension of a box is the key itself. Its upper bound is the *bar*: the key of the k-th row if
that is known, else infinity. An image beyond the bar cannot change the answer, so the search for
affected boxes leaves it out like any other image outside.

In a step with few images, these are merged with the unaffected rows. In a long one each box would have to
scan too many: there the answers before it are stored, the rows are changed, and the answers after it are
searched.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.changes import ENTER, LEAVE, UPDATE, VALUE, ChangeSet
from tocsin.arrays.jit import kernel, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.steps.step_kernels import (
    IS_OPEN,
    N_AFFECTED,
    RangeBoxes,
    RowColumns,
    RowImages,
    find_affected,
    find_first,
    is_inside,
    write_change,
)
from tocsin.indexes.ranges.structures.box_tree_kernels import BoxTreeColumns, move_top
from tocsin.indexes.ranges.structures.row_tree_kernels import (
    N_USED,
    RowTreeColumns,
    close_rows,
    find_next,
    is_long,
    open_rows,
    start_search,
)
from tocsin.indexes.ranges.topk.ranking import Ranking
from tocsin.kernels.heap import Heap, pop_item
from tocsin.kernels.status import AT, DONE, FULL, N_OUT, ROWS_FULL, STEP

#: Fewer images than this in one box are sorted by rank; more are scanned in rank order.
SORTED_IMAGES = 32

#: A further status of `report_ranked`: the next step is long.
LONG = 3
#: A long step has more images than one in LONG_PART rows: with many rows, searching twice is slow.
LONG_PART = 32

#: Larger than any insertion number.
LAST_BORN = (1 << 63) - 1


class RowSearch(NamedTuple):
    """The tree over rows, and the scratch to search it by rank."""

    tree: RowTreeColumns
    heap: Heap


class AnswerLists(NamedTuple):
    """Scratch: one subscription's answer before and after a step, by rank from 0."""

    #: slots of the rows, and their keys
    before_row: Annotated[Longs, Column("rows", fill=None)]
    before_key: Annotated[Floats, Column("rows", fill=None)]
    after_row: Annotated[Longs, Column("rows", fill=None)]
    after_key: Annotated[Floats, Column("rows", fill=None)]
    #: the new image of the row, -1 if the step leaves it alone
    after_image: Annotated[Longs, Column("rows", fill=None)]
    #: the images in the box, old ones first
    image: Annotated[Longs, Column(Size("images", plus=1), fill=None)]
    #: by row slot: zero between two subscriptions; see `report_lists`
    seen: Annotated[Ints, Column("rows")]


class Answers(NamedTuple):
    """The answers of boxes before a long step, concatenated, by rank."""

    #: slots of the rows, and their keys
    row: Annotated[Longs, Column("rows", fill=None)]
    key: Annotated[Floats, Column("rows", fill=None)]
    #: where the answer of each box begins
    start: Annotated[Longs, Column(Size("boxes", plus=1))]


@lean_kernel
def list_images(
    boxes: RangeBoxes, box: int, limit: int, images: RowImages, step: int, out_image: Longs
) -> int:
    """Write the images in a box, old before new and each by rank. Returns how many.

    Of many, only the first `limit` old and new ones. Cost: the images within its first range; if many of
    these are in the box, those of the step up to the last one written.
    """
    n_box = boxes.lo.shape[0] - 1
    end = images.start[step + 1]
    first = find_first(images, step, boxes.lo[0, box])
    n_listed = 0
    at = first
    while n_listed < SORTED_IMAGES and at < end and images.first[at] <= boxes.hi[0, box]:
        image = images.by_first[at]
        at += 1
        if is_inside(boxes, box, images.value, image, n_box):
            place = n_listed
            while place > 0 and out_image[place - 1] > image:
                out_image[place] = out_image[place - 1]
                place -= 1
            out_image[place] = image
            n_listed += 1
    if n_listed < SORTED_IMAGES:
        return n_listed
    n_listed = 0
    image = images.start[step]
    for stop in (images.middle[step], end):
        enough = n_listed + limit
        while image < stop and n_listed < enough:
            out_image[n_listed] = image
            n_listed += int(is_inside(boxes, box, images.value, image, n_box))
            image += 1
        image = stop
    return n_listed


@lean_kernel
def collect_lists(
    boxes: RangeBoxes,
    box: int,
    limit: int,
    tree: RowTreeColumns,
    heap: Heap,
    images: RowImages,
    step: int,
    lists: AnswerLists,
) -> tuple[int, int]:
    """Fill `lists`, from the rows of the box by rank and the images among them. Returns their lengths."""
    n_box = boxes.lo.shape[0] - 1
    new_end = list_images(boxes, box, limit, images, step, lists.image)
    old_end = 0
    while old_end < new_end and lists.image[old_end] < images.middle[step]:
        old_end += 1
    old = 0
    new = old_end
    n_before = 0
    n_after = 0
    size = start_search(tree, heap, boxes, box)
    while n_before < limit or n_after < limit:
        size = find_next(tree, heap, size, boxes, box)
        key = heap.key[0] if size > 0 else np.inf
        born = heap.tie[0] if size > 0 else LAST_BORN
        # Images that rank before it.
        while old < old_end and n_before < limit:
            image = lists.image[old]
            mine = images.value[image, n_box]
            if mine > key or (mine == key and images.born[image] > born):
                break
            lists.before_row[n_before] = images.row[image]
            lists.before_key[n_before] = mine
            n_before += 1
            old += 1
        while new < new_end and n_after < limit:
            image = lists.image[new]
            mine = images.value[image, n_box]
            if mine > key or (mine == key and images.born[image] > born):
                break
            lists.after_row[n_after] = images.row[image]
            lists.after_key[n_after] = mine
            lists.after_image[n_after] = image
            n_after += 1
            new += 1
        if size == 0:
            break
        row = tree.slot[heap.item[0]]
        size = pop_item(heap, size)
        if n_before < limit:
            lists.before_row[n_before] = row
            lists.before_key[n_before] = key
            n_before += 1
        if n_after < limit:
            lists.after_row[n_after] = row
            lists.after_key[n_after] = key
            lists.after_image[n_after] = -1
            n_after += 1
    return n_before, n_after


@lean_kernel
def report_lists(
    lists: AnswerLists,
    n_before: int,
    n_after: int,
    images: RowImages,
    step: int,
    box: int,
    sign: float,
    out: ChangeSet,
    n_out: int,
) -> int:
    """Write how the list before becomes the list after. Returns the new length of the output.

    `seen` of a row: 1, only in the list after; 2 + its rank before, in both.
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


@lean_kernel
def report_minmax(
    lists: AnswerLists,
    n_before: int,
    n_after: int,
    step: int,
    box: int,
    sign: float,
    out: ChangeSet,
    n_out: int,
) -> int:
    """Write the first row of the list after, if its row or value changed."""
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


@lean_kernel
def report_box(
    boxes: RangeBoxes,
    box: int,
    box_tree: BoxTreeColumns,
    limit: int,
    images: RowImages,
    lists: AnswerLists,
    n_before: int,
    n_after: int,
    ranking: Ranking,
    out: ChangeSet,
    cursor: Longs,
) -> bool:
    """Write how the lists of a box differ, and move its bar. Returns whether there was capacity."""
    key = boxes.lo.shape[0] - 1
    step = cursor[STEP]
    n_out = cursor[N_OUT]
    if n_out + n_before + n_after > len(out.step):
        return False
    if ranking.is_minmax:
        n_out = report_minmax(lists, n_before, n_after, step, box, ranking.sign, out, n_out)
    else:
        n_out = report_lists(lists, n_before, n_after, images, step, box, ranking.sign, out, n_out)
    cursor[N_OUT] = n_out
    bar = lists.after_key[n_after - 1] if n_after == limit else np.inf
    if bar != boxes.hi[key, box]:
        boxes.hi[key, box] = bar
        move_top(box_tree, box, bar)
    return True


@kernel
def report_ranked(
    boxes: RangeBoxes,
    n_boxes: int,
    box_tree: BoxTreeColumns,
    limits: Ints,
    rows: RowColumns,
    search: RowSearch,
    images: RowImages,
    lists: AnswerLists,
    ranking: Ranking,
    longest: int,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes.

    FULL: call again with more capacity for changes; ROWS_FULL: with a rebuilt tree over rows; LONG: after the
    next step, which has more than `longest` images.
    """
    tree = search.tree
    while cursor[STEP] < len(images.middle):
        step = cursor[STEP]
        if cursor[IS_OPEN] == 0:
            if is_long(tree):
                return ROWS_FULL
            if images.start[step + 1] - images.start[step] > max(longest, tree.state[N_USED] // LONG_PART):
                return LONG
            open_rows(tree, rows, images, step)
            cursor[N_AFFECTED] = find_affected(boxes, n_boxes, box_tree, images, step)
            cursor[AT] = 0
            cursor[IS_OPEN] = 1
        while cursor[IS_OPEN] == 1 and cursor[AT] < cursor[N_AFFECTED]:
            box = boxes.affected[cursor[AT]]
            limit = limits[box]
            n_before, n_after = collect_lists(boxes, box, limit, tree, search.heap, images, step, lists)
            if not report_box(
                boxes, box, box_tree, limit, images, lists, n_before, n_after, ranking, out, cursor
            ):
                return FULL
            cursor[AT] += 1
        if cursor[IS_OPEN] == 1:
            cursor[AT] = 0
            cursor[IS_OPEN] = 2
        if not close_rows(tree, rows, images, step, cursor):
            return ROWS_FULL
        cursor[IS_OPEN] = 0
        cursor[STEP] += 1
    return DONE


@lean_kernel
def list_first(
    boxes: RangeBoxes, box: int, limit: int, tree: RowTreeColumns, heap: Heap, out_row: Longs, out_key: Floats
) -> int:
    """Write the first rows of a box by rank, at most `limit`. Returns how many; -1 if they do not fit."""
    n_listed = 0
    size = start_search(tree, heap, boxes, box)
    while n_listed < limit:
        size = find_next(tree, heap, size, boxes, box)
        if size == 0:
            break
        if n_listed == len(out_row):
            return -1
        out_row[n_listed] = tree.slot[heap.item[0]]
        out_key[n_listed] = heap.key[0]
        n_listed += 1
        size = pop_item(heap, size)
    return n_listed


@lean_kernel
def list_answers_before(
    boxes: RangeBoxes, limits: Ints, tree: RowTreeColumns, heap: Heap, out_answers: Answers, cursor: Longs
) -> int:
    """Write the answers of the affected boxes, from the cursor on. FULL: call again with more capacity."""
    while cursor[AT] < cursor[N_AFFECTED]:
        box = boxes.affected[cursor[AT]]
        at = out_answers.start[cursor[AT]]
        n_listed = list_first(boxes, box, limits[box], tree, heap, out_answers.row[at:], out_answers.key[at:])
        if n_listed < 0:
            return FULL
        cursor[AT] += 1
        out_answers.start[cursor[AT]] = at + n_listed
    return DONE


@lean_kernel
def report_long(
    boxes: RangeBoxes,
    box_tree: BoxTreeColumns,
    limits: Ints,
    tree: RowTreeColumns,
    heap: Heap,
    images: RowImages,
    image_of: Longs,
    answers: Answers,
    lists: AnswerLists,
    ranking: Ranking,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Write what a long step changed, once its rows are in the tree. FULL: call again with more capacity.

    `image_of` maps each row slot to the step's new image, -1 for none.
    """
    while cursor[AT] < cursor[N_AFFECTED]:
        box = boxes.affected[cursor[AT]]
        limit = limits[box]
        start = answers.start[cursor[AT]]
        n_before = answers.start[cursor[AT] + 1] - start
        for i in range(n_before):
            lists.before_row[i] = answers.row[start + i]
            lists.before_key[i] = answers.key[start + i]
        n_after = list_first(boxes, box, limit, tree, heap, lists.after_row, lists.after_key)
        for i in range(n_after):
            lists.after_image[i] = image_of[lists.after_row[i]]
        if not report_box(
            boxes, box, box_tree, limit, images, lists, n_before, n_after, ranking, out, cursor
        ):
            return FULL
        cursor[AT] += 1
    return DONE


@lean_kernel
def list_ranked(
    boxes: RangeBoxes,
    limits: Ints,
    tree: RowTreeColumns,
    heap: Heap,
    slots: Longs,
    ranking: Ranking,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Write the answers of the boxes in `slots`, from the cursor on."""
    while cursor[AT] < len(slots):
        box = slots[cursor[AT]]
        limit = limits[box]
        n_out = cursor[N_OUT]
        rank = 0
        size = start_search(tree, heap, boxes, box)
        while rank < limit:
            size = find_next(tree, heap, size, boxes, box)
            if size == 0:
                break
            if n_out == len(out.step):
                return FULL
            place = heap.item[0]
            size = pop_item(heap, size)
            rank += 1
            out.op[n_out] = VALUE if ranking.is_minmax else ENTER
            row = np.int64(tree.slot[place])
            n_out = write_change(out, n_out, cursor[STEP], box, row, tree.y[place] * ranking.sign + 0.0)
            out.rank[n_out - 1] = 0 if ranking.is_minmax else rank
        if ranking.is_minmax and rank == 0:
            if n_out == len(out.step):
                return FULL
            out.op[n_out] = VALUE
            n_out = write_change(out, n_out, cursor[STEP], box, -1, np.nan)
        cursor[N_OUT] = n_out
        cursor[AT] += 1
    return DONE
