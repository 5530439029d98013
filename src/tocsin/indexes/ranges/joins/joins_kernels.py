"""Kernels of the select-join. After its dimensions a row of either side has the code that it joins by.

The rows of a side are chained by a hash of their code, so that a touched row meets its partners and few
others. With each partner it makes a joined row, a point in the dimensions of both sides, which is looked up
in the tree over boxes. *Mine* is the side of the delta, *theirs* the other one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.changes import ENTER, LEAVE, UPDATE, ChangeSet
from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.ranges.steps.step_kernels import (
    IS_OPEN,
    Chains,
    RangeBoxes,
    RowColumns,
    RowImages,
    Whole,
    close_chains,
    is_inside,
    open_chains,
    write_change,
)
from tocsin.indexes.ranges.structures.box_tree_kernels import BoxTreeColumns, find_boxes
from tocsin.kernels.status import AT, DONE, FULL, N_OUT, STEP

#: The sides, as the engine names them.
LEFT = 0
RIGHT = 1


class JoinSide(NamedTuple):
    """One side of a join: its boxes, its rows, and the chains of rows by code."""

    boxes: RangeBoxes
    rows: RowColumns
    chains: Chains


@lean_kernel
def set_point(point: Floats, first: int, value: Floats, row: Whole, n_dimensions: int) -> None:
    """Set some coordinates of a joined row to those of a row of one side."""
    for j in range(n_dimensions):
        point[0, first + j] = value[row, j]


@lean_kernel
def report_image(
    mine: JoinSide,
    theirs: JoinSide,
    tree: BoxTreeColumns,
    side: int,
    images: RowImages,
    step: int,
    image: int,
    point: Floats,
    found: Longs,
    out: ChangeSet,
    out_born: Longs,
    n_out: int,
) -> int:
    """Write the pairs that come or go with an image, or stay touched. Answers as `write_pairs` does.

    The pairs of a row that stays with its partners are written with its old image only.
    """
    n_mine = mine.boxes.lo.shape[0]
    n_theirs = theirs.boxes.lo.shape[0]
    code = images.value[image, n_mine]
    other_image = images.other_image[image]
    has_other = other_image >= 0 and images.value[other_image, n_mine] == code
    is_old = image < images.middle[step]
    set_point(point, 0 if side == LEFT else n_theirs, images.value, image, n_mine)
    row = np.int64(theirs.chains.head[images.bucket[image]])
    while row >= 0:
        if theirs.rows.value[row, n_theirs] == code:
            set_point(point, n_mine if side == LEFT else 0, theirs.rows.value, row, n_theirs)
            n_found = find_boxes(tree, point, 0, 1, found)
            if n_out + n_found > len(out.step):
                return -1
            for i in range(n_found):
                box = int(np.int64(tree.slot[found[i]]))
                stays = has_other and is_inside(mine.boxes, box, images.value, other_image, n_mine)
                if stays and not (is_old and images.touched[image]):
                    continue
                out.op[n_out] = ENTER
                if is_old:
                    out.op[n_out] = UPDATE if stays else LEAVE
                out_born[n_out, side] = images.born[other_image if stays else image]
                out_born[n_out, 1 - side] = theirs.rows.born[row]
                mine_row = images.row[image]
                n_out = write_change(out, n_out, step, box, mine_row if side == LEFT else row, np.nan)
                out.other[n_out - 1] = row if side == LEFT else mine_row
        row = np.int64(theirs.chains.after[row])
    return n_out


@lean_kernel
def report_pairs(
    mine: JoinSide,
    theirs: JoinSide,
    tree: BoxTreeColumns,
    side: int,
    images: RowImages,
    point: Floats,
    found: Longs,
    out: ChangeSet,
    out_born: Longs,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes. FULL: call again with more capacity.

    Changes of one step come in no order; `out_born` (changes, 2) holds what to sort by.
    """
    while cursor[STEP] < len(images.middle):
        step = cursor[STEP]
        if cursor[IS_OPEN] == 0:
            open_chains(mine.chains, mine.rows, images, step)
            cursor[AT] = images.start[step]
            cursor[IS_OPEN] = 1
        while cursor[AT] < images.start[step + 1]:
            n_out = report_image(
                mine,
                theirs,
                tree,
                side,
                images,
                step,
                cursor[AT],
                point,
                found,
                out,
                out_born,
                cursor[N_OUT],
            )
            if n_out < 0:
                return FULL
            cursor[N_OUT] = n_out
            cursor[AT] += 1
        close_chains(mine.chains, mine.rows, images, step)
        cursor[IS_OPEN] = 0
        cursor[STEP] += 1
    return DONE


@lean_kernel
def store_steps(mine: JoinSide, images: RowImages) -> None:
    """Apply the steps to the rows and their chains."""
    for step in range(len(images.middle)):
        open_chains(mine.chains, mine.rows, images, step)
        close_chains(mine.chains, mine.rows, images, step)


@lean_kernel
def count_image(
    mine: JoinSide,
    theirs: JoinSide,
    tree: BoxTreeColumns,
    side: int,
    images: RowImages,
    image: int,
    is_old: bool,
    point: Floats,
    found: Longs,
    most: int,
    counts: Longs,
) -> int:
    """Add to `counts`, by box, the changes that `report_image` writes; how many, or more than `most`."""
    n_mine = mine.boxes.lo.shape[0]
    n_theirs = theirs.boxes.lo.shape[0]
    code = images.value[image, n_mine]
    other_image = images.other_image[image]
    has_other = other_image >= 0 and images.value[other_image, n_mine] == code
    is_touched = is_old and images.touched[image]
    set_point(point, 0 if side == LEFT else n_theirs, images.value, image, n_mine)
    total = 0
    row = np.int64(theirs.chains.head[images.bucket[image]])
    while row >= 0 and total <= most:
        if theirs.rows.value[row, n_theirs] == code:
            set_point(point, n_mine if side == LEFT else 0, theirs.rows.value, row, n_theirs)
            n_found = find_boxes(tree, point, 0, 1, found)
            for i in range(n_found):
                box = int(np.int64(tree.slot[found[i]]))
                if (
                    has_other
                    and not is_touched
                    and is_inside(mine.boxes, box, images.value, other_image, n_mine)
                ):
                    continue
                counts[box] += 1
                total += 1
        row = np.int64(theirs.chains.after[row])
    return total


@lean_kernel
def count_pairs(
    mine: JoinSide,
    theirs: JoinSide,
    tree: BoxTreeColumns,
    side: int,
    images: RowImages,
    point: Floats,
    found: Longs,
    most: int,
    counts: Longs,
) -> int:
    """Add to `counts`, by box, what `report_pairs` would write. FULL once that is more than `most`."""
    total = 0
    for step in range(len(images.middle)):
        for image in range(images.start[step], images.start[step + 1]):
            is_old = image < images.middle[step]
            total += count_image(
                mine, theirs, tree, side, images, image, is_old, point, found, most - total, counts
            )
            if total > most:
                return FULL
    return DONE
