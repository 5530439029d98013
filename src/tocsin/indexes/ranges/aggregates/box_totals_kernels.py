"""Kernels of COUNT, SUM and AVG in two or more dimensions: a tree over rows sums those of a box."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import VALUE, ChangeSet
from tocsin.arrays.jit import kernel, lean_kernel
from tocsin.arrays.types import Longs
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
from tocsin.indexes.ranges.structures.box_tree_kernels import BoxTreeColumns
from tocsin.indexes.ranges.structures.row_tree_kernels import (
    FIRST_LIMB,
    RowTreeColumns,
    close_rows,
    is_long,
    open_rows,
    sum_box,
)
from tocsin.indexes.ranges.structures.tally_kernels import add_y, finish_total
from tocsin.kernels.status import AT, DONE, FULL, N_OUT, ROWS_FULL, STEP


@lean_kernel
def add_images(
    boxes: RangeBoxes, box: int, images: RowImages, step: int, first: int, total: Longs, change: Longs
) -> tuple[int, int]:
    """Add the step's old images in a box to `total`, and what the step adds to it to `change`.

    Returns how many images are old, and how many are new.
    """
    n_dimensions = boxes.lo.shape[0]
    n_old = 0
    n_new = 0
    at = find_first(images, step, boxes.lo[0, box])
    while at < images.start[step + 1] and images.first[at] <= boxes.hi[0, box]:
        image = images.by_first[at]
        at += 1
        if is_inside(boxes, box, images.value, image, n_dimensions):
            y = images.value[image, n_dimensions]
            is_old = image < images.middle[step]
            n_old += int(is_old)
            n_new += int(not is_old)
            add_y(change, y, -1 if is_old else 1, first)
            if is_old:
                add_y(total, y, 1, first)
    return n_old, n_new


@kernel
def report_totals(
    boxes: RangeBoxes,
    n_boxes: int,
    box_tree: BoxTreeColumns,
    rows: RowColumns,
    tree: RowTreeColumns,
    images: RowImages,
    function: int,
    total: Longs,
    change: Longs,
    limbs: Longs,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes.

    FULL: call again with more capacity for changes; ROWS_FULL: with a rebuilt tree over rows.
    """
    first = int(tree.state[FIRST_LIMB])
    while cursor[STEP] < len(images.middle):
        step = int(cursor[STEP])
        if cursor[IS_OPEN] == 0:
            if is_long(tree):
                return ROWS_FULL
            open_rows(tree, rows, images, step)
            cursor[N_AFFECTED] = find_affected(boxes, n_boxes, box_tree, images, step)
            cursor[AT] = 0
            cursor[IS_OPEN] = 1
        while cursor[IS_OPEN] == 1 and cursor[AT] < cursor[N_AFFECTED]:
            if cursor[N_OUT] == len(out.step):
                return FULL
            box = int(boxes.affected[cursor[AT]])
            cursor[AT] += 1
            total[:] = 0
            change[:] = 0
            n_old, n_new = add_images(boxes, box, images, step, first, total, change)
            rest = np.int64(n_old - n_new)
            for i in range(len(change)):
                rest |= change[i]
            if rest == 0:
                continue
            count = sum_box(tree, boxes, box, total)
            before = finish_total(function, count + n_old, total, first, limbs)
            for i in range(len(total)):
                total[i] += change[i]
            after = finish_total(function, count + n_new, total, first, limbs)
            if before != after and (before == before or after == after):
                out.op[cursor[N_OUT]] = VALUE
                cursor[N_OUT] = write_change(out, int(cursor[N_OUT]), step, box, -1, after)
        if cursor[IS_OPEN] == 1:
            cursor[AT] = 0
            cursor[IS_OPEN] = 2
        if not close_rows(tree, rows, images, step, cursor):
            return ROWS_FULL
        cursor[IS_OPEN] = 0
        cursor[STEP] += 1
    return DONE


@lean_kernel
def list_totals(
    boxes: RangeBoxes,
    tree: RowTreeColumns,
    slots: Longs,
    function: int,
    total: Longs,
    limbs: Longs,
    out: ChangeSet,
) -> None:
    """Write the answers of the boxes in `slots`; `out` has capacity for one each."""
    first = int(tree.state[FIRST_LIMB])
    for i in range(len(slots)):
        total[:] = 0
        box = int(slots[i])
        count = sum_box(tree, boxes, box, total)
        out.op[i] = VALUE
        write_change(out, i, 0, box, -1, finish_total(function, count, total, first, limbs))
