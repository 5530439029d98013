"""Kernels that evaluate the select-join box by box.

The images and the partners in a box are found independently of each other, so that its pairs are counted
without visiting them: images times partners, code by code. Where many rows meet many partners and boxes are
few, this is less work than looking every pair up in the tree.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.changes import ENTER, LEAVE, UPDATE, ChangeSet
from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Longs
from tocsin.indexes.ranges.joins.joins_kernels import LEFT, JoinSide
from tocsin.indexes.ranges.steps.step_kernels import RowImages, find_first, is_inside, write_change
from tocsin.kernels.sort import LARGEST_DIGIT, sort_values
from tocsin.kernels.status import AT, DONE, FULL, N_OUT, STEP

#: The op of an image whose pairs do not change, or are reported by the other image of its row.
NOTHING = -1

#: Places of the result of `measure_work`: pairs of equal code, and rows visited to find them.
N_MET = 0
N_WALKED = 1


class JoinScratch(NamedTuple):
    """Scratch of one box."""

    #: images whose pairs change
    hits: Annotated[Longs, Column("images", fill=None)]
    #: rows of the other side: partners in the box
    near: Annotated[Longs, Column("rows", fill=None)]
    #: for sorting
    spare: Annotated[Longs, Column("images", fill=None)]
    begin: Annotated[Longs, Column(LARGEST_DIGIT + 1, fill=None)]


@lean_kernel
def op_of(mine: JoinSide, images: RowImages, step: int, box: int, image: int) -> int:
    """The op of an image's pairs in a box that holds it, or NOTHING.

    The pairs of a row that stays are reported with its old image only.
    """
    n_mine = mine.boxes.lo.shape[0]
    other_image = images.other_image[image]
    stays = (
        other_image >= 0
        and images.value[other_image, n_mine] == images.value[image, n_mine]
        and is_inside(mine.boxes, box, images.value, other_image, n_mine)
    )
    if image >= images.middle[step]:
        return NOTHING if stays else ENTER
    if not stays:
        return LEAVE
    return UPDATE if images.touched[image] else NOTHING


@lean_kernel
def find_hits(mine: JoinSide, images: RowImages, step: int, box: int, scratch: JoinScratch) -> int:
    """Write the images of a step whose pairs in a box change, those of one code together; how many."""
    n_mine = mine.boxes.lo.shape[0]
    end = images.start[step + 1]
    n_hits = 0
    at = find_first(images, step, mine.boxes.lo[0, box])
    while at < end and images.first[at] <= mine.boxes.hi[0, box]:
        image = images.by_first[at]
        if (
            is_inside(mine.boxes, box, images.value, image, n_mine)
            and op_of(mine, images, step, box, image) != NOTHING
        ):
            scratch.hits[n_hits] = image
            n_hits += 1
        at += 1
    sort_values(scratch.hits, n_hits, 0, len(images.row), scratch.spare, scratch.begin)
    return n_hits


@lean_kernel
def find_near(theirs: JoinSide, images: RowImages, image: int, box: int, near: Longs) -> int:
    """Write the partners of an image that are in a box; how many."""
    n_theirs = theirs.boxes.lo.shape[0]
    code = images.value[image, images.value.shape[1] - 1]
    n_near = 0
    row = theirs.chains.head[images.bucket[image]]
    while row >= 0:
        if theirs.rows.value[row, n_theirs] == code and is_inside(
            theirs.boxes, box, theirs.rows.value, row, n_theirs
        ):
            near[n_near] = row
            n_near += 1
        row = theirs.chains.after[row]
    return n_near


@lean_kernel
def measure_work(theirs: JoinSide, images: RowImages, found: Longs) -> None:
    """Count the pairs of equal code that the images make. Cost: visiting the partners of each code once."""
    n_theirs = theirs.boxes.lo.shape[0]
    at_code = images.value.shape[1] - 1
    for step in range(len(images.middle)):
        n_near = 0
        for image in range(images.start[step], images.start[step + 1]):
            code = images.value[image, at_code]
            if (
                image == images.start[step]
                or image == images.middle[step]
                or images.value[image - 1, at_code] != code
            ):
                n_near = 0
                row = theirs.chains.head[images.bucket[image]]
                while row >= 0:
                    found[N_WALKED] += 1
                    n_near += int(theirs.rows.value[row, n_theirs] == code)
                    row = theirs.chains.after[row]
            found[N_MET] += n_near


@lean_kernel
def count_boxes(
    mine: JoinSide, theirs: JoinSide, images: RowImages, slots: Longs, scratch: JoinScratch, counts: Longs
) -> None:
    """Add to `counts`, for each of `slots`, how many changes `list_boxes` writes."""
    at_code = images.value.shape[1] - 1
    for step in range(len(images.middle)):
        for place in range(len(slots)):
            box = slots[place]
            n_hits = find_hits(mine, images, step, box, scratch)
            n_near = 0
            for i in range(n_hits):
                image = scratch.hits[i]
                if i == 0 or images.value[scratch.hits[i - 1], at_code] != images.value[image, at_code]:
                    n_near = find_near(theirs, images, image, box, scratch.near)
                counts[place] += n_near


@lean_kernel
def list_box(
    mine: JoinSide,
    theirs: JoinSide,
    side: int,
    images: RowImages,
    step: int,
    box: int,
    scratch: JoinScratch,
    out: ChangeSet,
    out_born: Longs,
    n_out: int,
) -> int:
    """Write the pairs that leave, stay touched in, and enter one box; the output's new length, or -1."""
    at_code = images.value.shape[1] - 1
    n_hits = find_hits(mine, images, step, box, scratch)
    n_near = 0
    for i in range(n_hits):
        image = scratch.hits[i]
        if i == 0 or images.value[scratch.hits[i - 1], at_code] != images.value[image, at_code]:
            n_near = find_near(theirs, images, image, box, scratch.near)
        if n_out + n_near > len(out.step):
            return -1
        op = op_of(mine, images, step, box, image)
        born = images.born[images.other_image[image] if op == UPDATE else image]
        mine_row = images.row[image]
        for k in range(n_near):
            row = scratch.near[k]
            out.op[n_out] = op
            out_born[n_out, side] = born
            out_born[n_out, 1 - side] = theirs.rows.born[row]
            n_out = write_change(out, n_out, step, box, mine_row if side == LEFT else row, np.nan)
            out.other[n_out - 1] = row if side == LEFT else mine_row
    return n_out


@lean_kernel
def list_boxes(
    mine: JoinSide,
    theirs: JoinSide,
    side: int,
    images: RowImages,
    slots: Longs,
    scratch: JoinScratch,
    out: ChangeSet,
    out_born: Longs,
    cursor: Longs,
) -> int:
    """Write what all steps change in the boxes of `slots`, from the cursor on. FULL: grow and call again."""
    while cursor[STEP] < len(images.middle):
        while cursor[AT] < len(slots):
            box = slots[cursor[AT]]
            n_out = list_box(
                mine, theirs, side, images, cursor[STEP], box, scratch, out, out_born, cursor[N_OUT]
            )
            if n_out < 0:
                return FULL
            cursor[N_OUT] = n_out
            cursor[AT] += 1
        cursor[AT] = 0
        cursor[STEP] += 1
    return DONE
