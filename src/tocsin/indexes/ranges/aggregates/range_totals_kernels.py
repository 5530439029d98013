"""Kernels of COUNT, SUM and AVG over one range.

The value of a range is a difference of two prefix sums of the tally. What a step changes in it is a
difference of two prefix sums over the images of the step, in order of x, however many images there are.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.changes import VALUE, ChangeSet
from tocsin.arrays.jit import inlined, kernel, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.steps.step_kernels import IS_OPEN, N_AFFECTED, RangeBoxes, RowImages, find_affected
from tocsin.indexes.ranges.structures.box_tree_kernels import BoxTreeColumns, find_boxes
from tocsin.indexes.ranges.structures.tally_kernels import (
    COUNT,
    FIRST_LIMB,
    Tally,
    add_y,
    find_ranks,
    finish_total,
    insert_row,
    remove_row,
    sum_between,
    sum_blocks,
)
from tocsin.kernels.sort import sort_values
from tocsin.kernels.status import AT, DONE, FULL, N_OUT, STEP, TALLY_FULL

#: Boxes that are searched together.
CHUNK = 32

#: A log entry is the slot, above KEY_SHIFT bits, and the position of the value.
KEY_SHIFT = 32
INDEX_BITS = (1 << 32) - 1


class Sums(NamedTuple):
    """Scratch: prefix sums over the images of a step, and current sums."""

    #: of the first images by x, insertions minus removals
    n_more: Annotated[Longs, Column(Size("images", plus=1))]
    #: what they add to the sum
    total: Annotated[Longs, Column(Size("images", plus=1), "columns")]
    #: the sum of a range
    after: Annotated[Longs, Column("columns")]
    #: for rounding
    limbs: Annotated[Longs, Column(Size("columns", plus=2))]
    #: new values, by place in the log
    value: Annotated[Floats, Column("subscriptions", fill=None)]


class Chosen(NamedTuple):
    """Scratch: a chunk of boxes whose ranks are searched together."""

    #: slot and bounds
    box: Annotated[Longs, Column(CHUNK, fill=None)]
    lo: Annotated[Floats, Column(CHUNK, fill=None)]
    hi: Annotated[Floats, Column(CHUNK, fill=None)]
    #: how many images of the step are below, and how many are not above
    image: Annotated[Longs, Column(CHUNK, 2, fill=None)]
    #: ranks of the bounds, as `find_ranks` gives them
    first: Annotated[Longs, Column(CHUNK, fill=None)]
    first_row: Annotated[Longs, Column(CHUNK, fill=None)]
    last: Annotated[Longs, Column(CHUNK, fill=None)]
    last_row: Annotated[Longs, Column(CHUNK, fill=None)]


@lean_kernel
def move_rows(tally: Tally, images: RowImages, step: int, cursor: Longs) -> bool:
    """Remove the step's old images from the tally and insert the new ones. Returns whether all fitted."""
    while cursor[AT] < images.start[step + 1]:
        image = cursor[AT]
        x = images.value[image, 0]
        y = images.value[image, 1]
        if image < images.middle[step]:
            remove_row(tally, x, y)
        elif not insert_row(tally, x, y):
            return False
        cursor[AT] += 1
    sum_blocks(tally)
    return True


@lean_kernel
def sum_images(tally: Tally, images: RowImages, step: int, sums: Sums) -> None:
    """Add up the images of a step in the order of x."""
    first = int(tally.state[FIRST_LIMB])
    start = int(images.start[step])
    n_columns = sums.total.shape[1]
    sums.n_more[0] = 0
    for column in range(n_columns):
        sums.total[0, column] = 0
    for i in range(images.start[step + 1] - start):
        image = images.by_first[start + i]
        sign = -1 if image < images.middle[step] else 1
        sums.n_more[i + 1] = sums.n_more[i] + sign
        for column in range(n_columns):
            sums.total[i + 1, column] = sums.total[i, column]
        add_y(sums.total[i + 1], images.value[image, 1], sign, first)


@inlined
def count_images(images: RowImages, start: int, size: int, value: float, is_after: bool) -> int:
    """How many of a step's images are below a value of x, or not above it if `is_after`."""
    # A few are counted, in vector code; many are searched.
    count = 0
    if size <= 16:
        for i in range(start, start + size):
            x = images.first[i]
            count += int((x < value) | (is_after & (x == value)))
        return count
    while size > 1:
        half = size >> 1
        x = images.first[start + count + half - 1]
        count += half * int((x < value) | (is_after & (x == value)))
        size -= half
    x = images.first[start + count]
    return count + int((x < value) | (is_after & (x == value)))


@lean_kernel
def choose_boxes(
    affected: Longs,
    box_lo: Floats,
    box_hi: Floats,
    images: RowImages,
    step: int,
    sums: Sums,
    chosen: Chosen,
    cursor: Longs,
) -> int:
    """Choose up to CHUNK boxes from the cursor on that the step changes. Returns how many."""
    start = int(images.start[step])
    size = int(images.start[step + 1]) - start
    n_columns = sums.total.shape[1]
    n_chosen = 0
    at = int(cursor[AT])
    while at < cursor[N_AFFECTED] and n_chosen < CHUNK:
        box = affected[at]
        at += 1
        lo = box_lo[0, box]
        hi = box_hi[0, box]
        first = count_images(images, start, size, lo, False)
        last = count_images(images, start, size, hi, True)
        rest = sums.n_more[last] ^ sums.n_more[first]
        for i in range(n_columns):
            rest |= sums.total[last, i] ^ sums.total[first, i]
        # Always written, counted if it differs: no branch to mispredict.
        chosen.box[n_chosen] = box
        chosen.lo[n_chosen] = lo
        chosen.hi[n_chosen] = hi
        chosen.image[n_chosen, 0] = first
        chosen.image[n_chosen, 1] = last
        n_chosen += int(rest != 0)
    cursor[AT] = at
    return n_chosen


@inlined
def write_value(out: ChangeSet, at: int, step: int, box: int, value: float) -> None:
    """Write one change."""
    out.step[at] = step
    out.subscription[at] = box
    out.op[at] = VALUE
    out.row[at] = -1
    out.other[at] = -1
    out.score[at] = value
    out.rank[at] = 0


@lean_kernel
def log_chosen(
    tally: Tally, function: int, sums: Sums, chosen: Chosen, n_chosen: int, slot: Ints, log: Longs, n_log: int
) -> int:
    """Log the chosen boxes whose value changed. Returns the new length.

    A box is a place in the tree, which `slot` maps to its slot; or the slot itself, if `slot` is empty.
    """
    first = int(tally.state[FIRST_LIMB])
    find_ranks(tally, chosen.lo, n_chosen, False, chosen.first, chosen.first_row)
    find_ranks(tally, chosen.hi, n_chosen, True, chosen.last, chosen.last_row)
    for i in range(n_chosen):
        count = sum_between(
            tally, chosen.first[i], chosen.first_row[i], chosen.last[i], chosen.last_row[i], sums.after
        )
        after = finish_total(function, count, sums.after, first, sums.limbs)
        if function != COUNT:
            begin = chosen.image[i, 0]
            end = chosen.image[i, 1]
            for column in range(len(sums.after)):
                sums.after[column] -= sums.total[end, column] - sums.total[begin, column]
            count -= sums.n_more[end] - sums.n_more[begin]
            before = finish_total(function, count, sums.after, first, sums.limbs)
            if before == after or (before != before and after != after):
                continue
        box = chosen.box[i]
        subscription = np.int64(slot[box]) if len(slot) > 0 else box
        log[n_log] = (subscription << KEY_SHIFT) + n_log
        sums.value[n_log] = after
        n_log += 1
    return n_log


@lean_kernel
def log_values(
    boxes: RangeBoxes,
    n_boxes: int,
    tree: BoxTreeColumns,
    tally: Tally,
    images: RowImages,
    step: int,
    function: int,
    sums: Sums,
    chosen: Chosen,
    cursor: Longs,
) -> int:
    """Log the values that the step changes, by slot. Returns how many there are.

    Boxes found in the tree are processed in its order, for locality; the log is then sorted. It overwrites
    the affected boxes: it never has more entries than boxes processed.
    """
    is_in_tree = len(tree.place) > 0
    log = boxes.affected
    n_log = 0
    cursor[AT] = 0
    while cursor[AT] < cursor[N_AFFECTED]:
        if is_in_tree:
            n_chosen = choose_boxes(log, tree.lo, tree.hi, images, step, sums, chosen, cursor)
        else:
            n_chosen = choose_boxes(log, boxes.lo, boxes.hi, images, step, sums, chosen, cursor)
        n_log = log_chosen(tally, function, sums, chosen, n_chosen, tree.slot, log, n_log)
    if is_in_tree:
        sort_values(log, n_log, KEY_SHIFT, n_boxes, tree.spare, tree.begin)
    return n_log


@kernel
def report_range_totals(
    boxes: RangeBoxes,
    n_boxes: int,
    tree: BoxTreeColumns,
    tally: Tally,
    images: RowImages,
    function: int,
    sums: Sums,
    chosen: Chosen,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes.

    FULL: call again with more capacity for changes; TALLY_FULL: for rows.
    """
    while cursor[STEP] < len(images.middle):
        step = int(cursor[STEP])
        if cursor[IS_OPEN] == 0:
            start = images.start[step]
            end = images.start[step + 1]
            cursor[AT] = max(cursor[AT], start)
            if end > start:
                if not move_rows(tally, images, step, cursor):
                    return TALLY_FULL
                sum_images(tally, images, step, sums)
            if len(tree.place) > 0:
                cursor[N_AFFECTED] = find_boxes(tree, images.value, start, end, boxes.affected)
            else:
                cursor[N_AFFECTED] = find_affected(boxes, n_boxes, tree, images, step)
            cursor[AT] = log_values(boxes, n_boxes, tree, tally, images, step, function, sums, chosen, cursor)
            cursor[IS_OPEN] = 1
        n_log = int(cursor[AT])
        n_out = int(cursor[N_OUT])
        if n_out + n_log > len(out.step):
            return FULL
        for i in range(n_log):
            entry = boxes.affected[i]
            value = sums.value[entry & INDEX_BITS]
            write_value(out, n_out + i, step, entry >> KEY_SHIFT, value)
        cursor[N_OUT] = n_out + n_log
        cursor[AT] = 0
        cursor[IS_OPEN] = 0
        cursor[STEP] += 1
    return DONE


@lean_kernel
def list_range_totals(
    boxes: RangeBoxes, tally: Tally, slots: Longs, function: int, sums: Sums, chosen: Chosen, out: ChangeSet
) -> None:
    """Write the answers of the boxes in `slots`; `out` has capacity for one each."""
    first = int(tally.state[FIRST_LIMB])
    for start in range(0, len(slots), CHUNK):
        size = min(CHUNK, len(slots) - start)
        for i in range(size):
            chosen.lo[i] = boxes.lo[0, slots[start + i]]
            chosen.hi[i] = boxes.hi[0, slots[start + i]]
        find_ranks(tally, chosen.lo, size, False, chosen.first, chosen.first_row)
        find_ranks(tally, chosen.hi, size, True, chosen.last, chosen.last_row)
        for i in range(size):
            count = sum_between(
                tally, chosen.first[i], chosen.first_row[i], chosen.last[i], chosen.last_row[i], sums.after
            )
            value = finish_total(function, max(0, count), sums.after, first, sums.limbs)
            if chosen.lo[i] > chosen.hi[i]:
                value = 0.0 if function == COUNT else np.nan
            write_value(out, start + i, 0, int(slots[start + i]), value)
