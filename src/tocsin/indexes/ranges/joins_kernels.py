"""Kernels of the select-join. After its dimensions a row of either side has the code that it joins by.

The rows of a side are chained by a hash of their code, so that a touched row meets its partners and
few others. Each partner makes a joined row, a point in the dimensions of both sides, which is looked up in
the tree over boxes. *Mine* is the side that the delta is about, *theirs* the other one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import ENTER, LEAVE, UPDATE, ChangeSet, Floats, Longs
from tocsin.indexes.ranges.boxtree_kernels import Tree, find_boxes
from tocsin.indexes.ranges.step_kernels import (
    AT,
    DONE,
    FULL,
    IS_OPEN,
    N_OUT,
    STEP,
    Boxes,
    Chains,
    Images,
    RowColumns,
    Whole,
    close_chains,
    find_first,
    is_inside,
    open_chains,
    write_change,
)
from tocsin.indexes.shared.jit import lean_kernel

#: The sides, as the engine names them.
LEFT = 0
RIGHT = 1


class Side(NamedTuple):
    """All that a kernel needs of one side."""

    boxes: Boxes
    rows: RowColumns
    chains: Chains


@lean_kernel
def write_pairs(
    theirs: Side,
    side: int,
    images: Images,
    image: int,
    born: int,
    step: int,
    box: int,
    op: int,
    out: ChangeSet,
    out_born: Longs,
    n_out: int,
) -> int:
    """Write a change for each partner in the box. Answers the output's new length, -1 if it has no room."""
    n_theirs = theirs.boxes.lo.shape[0]
    mine = images.row[image]
    code = images.value[image, images.value.shape[1] - 1]
    # Links are int32; widened, so that `is_inside` and `write_change` are compiled once.
    row = np.int64(theirs.chains.head[images.bucket[image]])
    while row >= 0:
        if theirs.rows.value[row, n_theirs] == code and is_inside(
            theirs.boxes, box, theirs.rows.value, row, n_theirs
        ):
            if n_out == len(out.step):
                return -1
            out.op[n_out] = op
            out_born[n_out, side] = born
            out_born[n_out, 1 - side] = theirs.rows.born[row]
            n_out = write_change(out, n_out, step, box, mine if side == LEFT else row, np.nan)
            out.other[n_out - 1] = row if side == LEFT else mine
        row = np.int64(theirs.chains.after[row])
    return n_out


@lean_kernel
def report_box(
    mine: Side,
    theirs: Side,
    side: int,
    images: Images,
    step: int,
    box: int,
    out: ChangeSet,
    out_born: Longs,
    n_out: int,
) -> int:
    """Write the pairs that leave, stay touched in, and enter one box. Answers as `write_pairs` does."""
    n_mine = mine.boxes.lo.shape[0]
    end = images.start[step + 1]
    at = find_first(images, step, mine.boxes.lo[0, box])
    while at < end and n_out >= 0 and images.first[at] <= mine.boxes.hi[0, box]:
        image = images.by_first[at]
        at += 1
        if not is_inside(mine.boxes, box, images.value, image, n_mine):
            continue
        code = images.value[image, n_mine]
        twin = images.twin[image]
        stays = (
            twin >= 0
            and images.value[twin, n_mine] == code
            and is_inside(mine.boxes, box, images.value, twin, n_mine)
        )
        born = images.born[image]
        op = ENTER
        if image < images.middle[step]:
            op = LEAVE
            if stays:
                # Of a row that stays, the old image speaks for both.
                if not images.touched[image]:
                    continue
                op = UPDATE
                born = images.born[twin]
        elif stays:
            continue
        n_out = write_pairs(theirs, side, images, image, born, step, box, op, out, out_born, n_out)
    return n_out


@lean_kernel
def set_point(point: Floats, first: int, value: Floats, row: Whole, n_dimensions: int) -> None:
    """Set some coordinates of a joined row to those of a row of one side."""
    for j in range(n_dimensions):
        point[0, first + j] = value[row, j]


@lean_kernel
def report_image(
    mine: Side,
    theirs: Side,
    tree: Tree,
    side: int,
    images: Images,
    step: int,
    image: int,
    point: Floats,
    found: Longs,
    out: ChangeSet,
    out_born: Longs,
    n_out: int,
) -> int:
    """Write the pairs that come or go with an image, or stay touched. Answers as `write_pairs` does.

    Of a row that stays with its partners, the old image speaks for both.
    """
    n_mine = mine.boxes.lo.shape[0]
    n_theirs = theirs.boxes.lo.shape[0]
    code = images.value[image, n_mine]
    twin = images.twin[image]
    has_twin = twin >= 0 and images.value[twin, n_mine] == code
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
                stays = has_twin and is_inside(mine.boxes, box, images.value, twin, n_mine)
                if stays and not (is_old and images.touched[image]):
                    continue
                out.op[n_out] = ENTER
                if is_old:
                    out.op[n_out] = UPDATE if stays else LEAVE
                out_born[n_out, side] = images.born[twin if stays else image]
                out_born[n_out, 1 - side] = theirs.rows.born[row]
                mine_row = images.row[image]
                n_out = write_change(out, n_out, step, box, mine_row if side == LEFT else row, np.nan)
                out.other[n_out - 1] = row if side == LEFT else mine_row
        row = np.int64(theirs.chains.after[row])
    return n_out


@lean_kernel
def report_pairs(
    mine: Side,
    theirs: Side,
    tree: Tree,
    side: int,
    images: Images,
    point: Floats,
    found: Longs,
    out: ChangeSet,
    out_born: Longs,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes. FULL: call again with more room.

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
def list_pairs(
    left: Side,
    right: Side,
    side: int,
    images: Images,
    slots: Longs,
    out: ChangeSet,
    out_born: Longs,
    cursor: Longs,
) -> int:
    """Write the pairs in the boxes of `slots`, from the cursor on; `images` has all left rows as new."""
    while cursor[AT] < len(slots):
        box = slots[cursor[AT]]
        n_out = report_box(left, right, side, images, cursor[STEP], box, out, out_born, cursor[N_OUT])
        if n_out < 0:
            return FULL
        cursor[N_OUT] = n_out
        cursor[AT] += 1
    return DONE
