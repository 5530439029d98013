"""Shared by the kernels of range indexes: boxes, the images of a step, chains.

A *box* is a subscription's ranges. An *image* is a row before a step (its pre-image, an old image) or after
it (its post-image, a new image). All kernels process a step in three phases: remove the old images from the
rows, report for each box that holds an image, insert the new images. While they report, the rows are those
that the step leaves alone, so that before = rows + old images and after = rows + new images.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.jit import kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.structures.box_tree_kernels import BoxTreeColumns, find_boxes
from tocsin.kernels.regions import NO_REGION, REGION_ROWS, is_in_region, mark_regions
from tocsin.kernels.search import lower_bound
from tocsin.kernels.sort import sort_values
from tocsin.kernels.status import OWN

#: A whole number in a kernel: Python's or NumPy's, compiled the same.
Whole: TypeAlias = int | np.int64

#: Places in a cursor (int64), from which a kernel resumes after the output was full.
N_AFFECTED = OWN
IS_OPEN = OWN + 1
CURSOR_SIZE = OWN + 2

#: Up to this many images are tested against all boxes at once; more are searched for, box by box.
SCANNED_IMAGES = 12
#: Boxes tested at a time, few enough for their bounds to stay in the cache from image to image.
BLOCK = 512


class RangeBoxes(NamedTuple):
    """Bounds of subscriptions, one row per dimension, one column per slot. An unused slot is an empty box."""

    #: float64 (dimensions, capacity): lowest value inside.
    lo: Floats
    #: float64 (dimensions, capacity): highest value inside.
    hi: Floats
    #: int64 (capacity + 1,): scratch; the boxes that hold an image of the current step, ascending.
    affected: Longs
    #: kind of the region that boxes have besides their ranges, as `kernels.regions` numbers them.
    region: int


class RowColumns(NamedTuple):
    """Rows by slot. Only rows that can be in an answer: no NaN in required columns."""

    #: the dimensions, then what else the index needs
    value: Annotated[Floats, Column("rows", "columns", fill=None)]
    #: insertion number, ABSENT where the slot holds no row
    born: Annotated[Longs, Column("rows", fill=ABSENT)]


class RowImages(NamedTuple):
    """Images of all steps of a delta: by step, old before new, then by the index's key, then by born."""

    #: int64 (steps + 1,): images of step t are start[t] … start[t + 1] - 1.
    start: Longs
    #: int64 (steps,): the first new image of step t.
    middle: Longs
    #: float64 (images, columns): as in RowColumns.
    value: Floats
    #: int64 (images,)
    born: Longs
    #: int64 (images,): slot of the row.
    row: Longs
    #: bool (images,): the delta's `touched`.
    touched: Bools
    #: int64 (images,): the other image of the same row in the same step, -1 if there is none.
    other_image: Longs
    #: float64 (images,): the values of dimension 0, ascending within a step.
    first: Floats
    #: int64 (images,): the image that each of `first` comes from.
    by_first: Longs
    #: int64 (images,): the chain that the image's row is in, where the index has chains.
    bucket: Longs


class Chains(NamedTuple):
    """Rows of equal code, as doubly linked lists; a bucket may hold several codes."""

    #: first row of the chain, -1 if empty
    head: Annotated[Ints, Column("buckets", fill=-1)]
    #: next row, -1 at the end
    after: Annotated[Ints, Column("rows", fill=-1)]
    #: previous row, -1 at the head
    before: Annotated[Ints, Column("rows", fill=-1)]


@kernel
def is_inside(boxes: RangeBoxes, box: int, value: Floats, at: Whole, n_dimensions: int) -> bool:
    """Whether row `at` of `value` is in the box, by its first `n_dimensions`. NaN is in no box."""
    n_passed = 0 if boxes.region == NO_REGION else REGION_ROWS
    for i in range(n_dimensions - n_passed):
        j = i if i == 0 else i + n_passed
        x = value[at, j]
        if not (boxes.lo[j, box] <= x <= boxes.hi[j, box]):
            return False
    if n_passed == 0:
        return True
    lo = boxes.lo
    return is_in_region(boxes.region, lo[1, box], lo[2, box], lo[3, box], value[at, 1], value[at, 2])


@kernel
def find_first(images: RowImages, step: int, low: float) -> int:
    """The first place in `first` of this step with a value of at least `low`. Logarithmic."""
    return lower_bound(images.first, int(images.start[step]), int(images.start[step + 1]), low)


@kernel
def find_by_search(boxes: RangeBoxes, n_boxes: int, images: RowImages, step: int) -> int:
    """`find_affected` for many images: each box scans those within its first range."""
    n_dimensions = boxes.lo.shape[0]
    end = images.start[step + 1]
    n_affected = 0
    for box in range(n_boxes):
        high = boxes.hi[0, box]
        at = find_first(images, step, boxes.lo[0, box])
        while at < end and images.first[at] <= high:
            if is_inside(boxes, box, images.value, images.by_first[at], n_dimensions):
                boxes.affected[n_affected] = box
                n_affected += 1
                break
            at += 1
    return n_affected


@kernel
def find_affected(boxes: RangeBoxes, n_boxes: int, tree: BoxTreeColumns, images: RowImages, step: int) -> int:
    """Write the boxes that hold an image of the step to `boxes.affected`; returns how many.

    Cost with a tree: see `find_boxes`, and sorting what is found. Without: boxes × images × dimensions for
    few images, in loops that the compiler turns into vector code; otherwise a search a box.
    """
    start = images.start[step]
    end = images.start[step + 1]
    if start == end:
        return 0
    if len(tree.place) > 0:
        n_found = find_boxes(tree, images.value, start, end, boxes.affected)
        for i in range(n_found):
            boxes.affected[i] = tree.slot[boxes.affected[i]]
        sort_values(boxes.affected, n_found, 0, n_boxes, tree.spare, tree.begin)
        return n_found
    if end - start > SCANNED_IMAGES:
        return find_by_search(boxes, n_boxes, images, step)
    last = boxes.lo.shape[0] - 1
    region = boxes.region
    n_passed = 0 if region == NO_REGION else REGION_ROWS
    n_ranges = last + 1 - n_passed
    if n_ranges == 1:
        last = 0
    hit = np.empty(BLOCK, np.bool_)
    inside = np.empty(BLOCK, np.bool_)
    n_affected = 0
    for block in range(0, n_boxes, BLOCK):
        size = min(BLOCK, n_boxes - block)
        hit[:size] = False
        n_hit = 0
        for image in range(start, end):
            # The last dimension first: in a ranking it excludes the most images.
            x = images.value[image, last]
            lo = boxes.lo[last, block : block + size]
            hi = boxes.hi[last, block : block + size]
            n_inside = 0
            for i in range(size):
                inside[i] = (lo[i] <= x) & (x <= hi[i])
                n_inside += int(inside[i])
            if n_inside == 0:
                continue
            n_hit += n_inside
            for turn in range(n_ranges - 1):
                j = turn if turn == 0 else turn + n_passed
                x = images.value[image, j]
                lo = boxes.lo[j, block : block + size]
                hi = boxes.hi[j, block : block + size]
                for i in range(size):
                    inside[i] = inside[i] & (lo[i] <= x) & (x <= hi[i])
            if region != NO_REGION:
                a = boxes.lo[1, block : block + size]
                b = boxes.lo[2, block : block + size]
                c = boxes.lo[3, block : block + size]
                x = images.value[image, 1]
                mark_regions(region, a, b, c, x, images.value[image, 2], inside[:size])
            for i in range(size):
                hit[i] = hit[i] | inside[i]
        if n_hit > 0:
            for i in range(size):
                # Always written, counted if hit: no branch to mispredict.
                boxes.affected[n_affected] = block + i
                n_affected += int(hit[i])
    return n_affected


@kernel
def store_rows(rows: RowColumns, images: RowImages, step: int) -> None:
    """Write the step's new images to their slots."""
    for image in range(images.middle[step], images.start[step + 1]):
        row = images.row[image]
        rows.born[row] = images.born[image]
        for j in range(images.value.shape[1]):
            rows.value[row, j] = images.value[image, j]


@kernel
def link_row(chains: Chains, bucket: int, row: int) -> None:
    """Put a row at the head of a chain."""
    head = chains.head[bucket]
    chains.after[row] = head
    chains.before[row] = -1
    if head >= 0:
        chains.before[head] = row
    chains.head[bucket] = row


@kernel
def link_rows(chains: Chains, row: Longs, bucket: Longs) -> None:
    """Link rows that are in no chain yet."""
    for i in range(len(row)):
        link_row(chains, bucket[i], row[i])


@kernel
def open_chains(chains: Chains, rows: RowColumns, images: RowImages, step: int) -> None:
    """Remove the step's old images from their chains and slots."""
    for image in range(images.start[step], images.middle[step]):
        row = images.row[image]
        after = chains.after[row]
        before = chains.before[row]
        if before >= 0:
            chains.after[before] = after
        else:
            chains.head[images.bucket[image]] = after
        if after >= 0:
            chains.before[after] = before
        rows.born[row] = ABSENT


@kernel
def close_chains(chains: Chains, rows: RowColumns, images: RowImages, step: int) -> None:
    """Insert the step's new images into their chains and slots."""
    for image in range(images.middle[step], images.start[step + 1]):
        link_row(chains, images.bucket[image], images.row[image])
    store_rows(rows, images, step)


@kernel
def write_change(out: ChangeSet, at: int, step: int, box: int, row: Whole, score: float) -> int:
    """Write one change at place `at`, without its op. Returns the next place.

    Fields of only some changes are left to the caller, as is a constant op: Numba would compile this once
    per constant.
    """
    out.step[at] = step
    out.subscription[at] = box
    out.row[at] = row
    out.other[at] = -1
    out.score[at] = score
    out.rank[at] = 0
    return at + 1
