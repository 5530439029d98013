"""Kernels of DISTINCT: which values enter and leave which boxes in a step.

The columns of a row are the dimensions, the code of its value, and the value; rows of one code form a chain.

A value enters or leaves a box if an image of the step is inside and no unchanged row inside has the same
value; such a row is a *blocker*. In one dimension a box that holds an image and any blocker also holds the
last blocker before the image or the first one after it, so only these two are tested. (The boxes without one
are those within the value's maximum affected range.) Images and blockers descend the tree over boxes
together. The search ends at a node if one blocker is in all of its boxes, where nothing changes, or if no
blocker is left and all images are in all of its boxes, which then all change alike.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.changes import ENTER, LEAVE, ChangeSet
from tocsin.arrays.jit import inlined, kernel, lean_kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Floats, Longs
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
from tocsin.indexes.ranges.structures.box_tree_kernels import (
    BLOCK,
    HEIGHT,
    N_BUILT,
    N_USED,
    REGION,
    BoxTreeColumns,
    compare_row,
    mark_boxes,
)
from tocsin.indexes.ranges.structures.row_treap_kernels import (
    Orders,
    close_orders,
    first_row,
    last_row,
    open_orders,
)
from tocsin.kernels.kdtree import find_places
from tocsin.kernels.regions import APART, WITHIN
from tocsin.kernels.search import lower_bound
from tocsin.kernels.sort import sort_values
from tocsin.kernels.status import AT, DONE, FULL, LOG_FULL, N_OUT, STEP

#: Values of `IS_OPEN` after 0, nothing done yet: old images removed, changes logged.
OPENED = 1
LOGGED = 2

#: A log entry: twice the slot, plus one if the value enters, above KEY_SHIFT bits; then the code.
KEY_SHIFT = 32
CODE_BITS = (1 << 32) - 1


class Search(NamedTuple):
    """Scratch of the search for the changes of one value."""

    #: entries, as above; and scratch for sorting them
    log: Annotated[Longs, Column("entries", fill=None)]
    spare: Annotated[Longs, Column("entries", fill=None)]
    #: images of the value; rows that block it
    images: Annotated[Longs, Column("images", fill=None)]
    blockers: Annotated[Longs, Column("blockers", fill=None)]
    #: nodes to visit, with how many images and blockers
    stack: Annotated[Longs, Column("nodes", fill=None)]
    #: of a block of boxes, which hold the current row, an old image, a new one, a blocker
    inside: Annotated[Bools, Column(4, BLOCK, fill=None)]


@lean_kernel
def find_in_chain(boxes: RangeBoxes, box: int, rows: RowColumns, chains: Chains, code: int) -> int:
    """The first row of a code's chain that is in the box, -1 if there is none."""
    # Links are int32; widened, so that `is_inside` is compiled once.
    row = np.int64(chains.head[code])
    while row >= 0:
        if is_inside(boxes, box, rows.value, row, boxes.lo.shape[0]):
            return int(row)
        row = np.int64(chains.after[row])
    return -1


@inlined
def add_boxes(tree: BoxTreeColumns, first: int, value: Floats, row: int, inside: Bools, out: Bools) -> None:
    """Set `out` where the box, from place `first` on as far as `out` goes, holds a row of `value`."""
    mark_boxes(tree, first, value, row, inside)
    for i in range(len(out)):
        out[i] = out[i] | inside[i]


@lean_kernel
def log_boxes(
    tree: BoxTreeColumns,
    first: int,
    end: int,
    rows: RowColumns,
    images: RowImages,
    middle: int,
    n_images: int,
    n_blockers: int,
    search: Search,
    code: int,
    n_log: int,
) -> int:
    """Test each box of places [first, end), and log those that the value enters or leaves.

    Returns the new length of the log, -1 if it is full.
    """
    for block in range(first, end, BLOCK):
        size = min(BLOCK, end - block)
        inside = search.inside[0, :size]
        was_in = search.inside[1, :size]
        is_in = search.inside[2, :size]
        is_blocked = search.inside[3, :size]
        was_in[:] = False
        is_in[:] = False
        is_blocked[:] = False
        for i in range(n_images):
            image = search.images[i]
            add_boxes(tree, block, images.value, image, inside, was_in if image < middle else is_in)
        n_differ = 0
        for i in range(size):
            n_differ += int(was_in[i] != is_in[i])
        if n_differ == 0:
            continue
        if n_log + n_differ > len(search.log):
            return -1
        for i in range(n_blockers):
            add_boxes(tree, block, rows.value, search.blockers[i], inside, is_blocked)
        for i in range(size):
            if was_in[i] != is_in[i] and not is_blocked[i]:
                key = 2 * np.int64(tree.slot[block + i]) + int(is_in[i])
                search.log[n_log] = (key << KEY_SHIFT) + code
                n_log += 1
    return n_log


@lean_kernel
def log_code(
    tree: BoxTreeColumns,
    rows: RowColumns,
    images: RowImages,
    middle: int,
    n_images: int,
    n_blockers: int,
    search: Search,
    code: int,
    n_log: int,
) -> int:
    """Log the boxes that a value enters or leaves. Returns the new length, -1 if the log is full."""
    n_dimensions = tree.lo.shape[0]
    n_built = tree.state[N_BUILT]
    n_leaves = 1 << tree.state[HEIGHT]
    region = tree.state[REGION]
    n_log = log_boxes(
        tree, n_built, tree.state[N_USED], rows, images, middle, n_images, n_blockers, search, code, n_log
    )
    stack = search.stack
    stack[0] = 1
    stack[1] = n_images
    stack[2] = n_blockers
    top = 3 if n_built > 0 else 0
    while top > 0 and n_log >= 0:
        top -= 3
        node = stack[top]
        edge = tree.edge[node]
        # Images that may be in boxes below the node move to the front; children may reorder these.
        n_inside = 0
        n_cut = 0
        was_in = False
        is_in = False
        for i in range(stack[top + 1]):
            image = search.images[i]
            how = compare_row(edge, images.value, image, n_dimensions, region)
            if how != APART:
                search.images[i] = search.images[n_inside]
                search.images[n_inside] = image
                n_inside += 1
                n_cut += int(how != WITHIN)
                was_in = was_in or image < middle
                is_in = is_in or image >= middle
        if n_inside == 0 or (n_cut == 0 and was_in == is_in):
            continue
        n_blocking = 0
        is_blocked = False
        for i in range(stack[top + 2]):
            row = search.blockers[i]
            how = compare_row(edge, rows.value, row, n_dimensions, region)
            if how == WITHIN:
                # Tested first next time: what blocks a node often blocks the next one.
                search.blockers[i] = search.blockers[0]
                search.blockers[0] = row
                is_blocked = True
                break
            if how != APART:
                search.blockers[i] = search.blockers[n_blocking]
                search.blockers[n_blocking] = row
                n_blocking += 1
        if is_blocked:
            continue
        first, end = find_places(node, n_built)
        if n_cut == 0 and n_blocking == 0:
            if n_log + end - first > len(search.log):
                return -1
            for at in range(first, end):
                key = 2 * np.int64(tree.slot[at]) + int(is_in)
                search.log[n_log] = (key << KEY_SHIFT) + code
                n_log += int(tree.slot[at] >= 0)
        elif node >= n_leaves:
            n_log = log_boxes(
                tree, first, end, rows, images, middle, n_inside, n_blocking, search, code, n_log
            )
        else:
            for child in range(2):
                stack[top] = 2 * node + child
                stack[top + 1] = n_inside
                stack[top + 2] = n_blocking
                top += 3
    return n_log


@lean_kernel
def list_neighbours(
    orders: Orders, rows: RowColumns, images: RowImages, n_images: int, search: Search, code: int
) -> int:
    """List the blockers next to images of a code, mostly without duplicates. Returns how many."""
    n_blockers = 0
    for i in range(n_images):
        x = images.value[search.images[i], 0]
        for side in range(2):
            row = (
                last_row(orders, code, rows.value, x) if side == 0 else first_row(orders, code, rows.value, x)
            )
            is_new = row >= 0 and (n_blockers == 0 or search.blockers[n_blockers - 1] != row)
            if is_new:
                search.blockers[n_blockers] = row
                n_blockers += 1
    return n_blockers


@lean_kernel
def list_chain(chains: Chains, search: Search, code: int) -> int:
    """List all blockers of a code. Returns how many."""
    n_blockers = 0
    row = np.int64(chains.head[code])
    while row >= 0:
        search.blockers[n_blockers] = row
        n_blockers += 1
        row = np.int64(chains.after[row])
    return n_blockers


@kernel
def log_step(
    tree: BoxTreeColumns,
    rows: RowColumns,
    chains: Chains,
    orders: Orders,
    is_ordered: bool,
    images: RowImages,
    step: int,
    search: Search,
) -> int:
    """Log the changes of a step, code by code. Returns how many entries there are, -1 if the log is full.

    Images are sorted by code, so that old and new ones of one code are met together.
    """
    bucket = images.bucket
    middle = images.middle[step]
    old = images.start[step]
    new = middle
    end = images.start[step + 1]
    n_log = 0
    while n_log >= 0 and (old < middle or new < end):
        code = bucket[old] if old < middle else bucket[new]
        if new < end:
            code = min(code, bucket[new])
        n_images = 0
        while old < middle and bucket[old] == code:
            search.images[n_images] = old
            old += 1
            n_images += 1
        while new < end and bucket[new] == code:
            search.images[n_images] = new
            new += 1
            n_images += 1
        if is_ordered:
            n_blockers = list_neighbours(orders, rows, images, n_images, search, code)
        else:
            n_blockers = list_chain(chains, search, code)
        n_log = log_code(tree, rows, images, middle, n_images, n_blockers, search, code, n_log)
    return n_log


@lean_kernel
def find_image(images: RowImages, step: int, code: Whole) -> int:
    """A new image of the step that has the code. Logarithmic."""
    return lower_bound(images.bucket, int(images.middle[step]), int(images.start[step + 1]) - 1, int(code))


@kernel
def report_distinct(
    tree: BoxTreeColumns,
    n_boxes: int,
    rows: RowColumns,
    chains: Chains,
    orders: Orders,
    is_ordered: bool,
    images: RowImages,
    search: Search,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes.

    Rows of equal code are in `orders`, if `is_ordered`, or in `chains`.
    FULL: call again with more capacity for changes; LOG_FULL: for the log.
    """
    n_dimensions = tree.lo.shape[0]
    while cursor[STEP] < len(images.middle):
        step = cursor[STEP]
        if cursor[IS_OPEN] == 0:
            if is_ordered:
                open_orders(orders, rows, images, step)
            else:
                open_chains(chains, rows, images, step)
            cursor[IS_OPEN] = OPENED
        if cursor[IS_OPEN] == OPENED:
            n_log = log_step(tree, rows, chains, orders, is_ordered, images, step, search)
            if n_log < 0:
                return LOG_FULL
            sort_values(search.log, n_log, KEY_SHIFT, 2 * n_boxes, search.spare, tree.begin)
            cursor[AT] = n_log
            cursor[IS_OPEN] = LOGGED
        n_log = int(cursor[AT])
        n_out = int(cursor[N_OUT])
        if n_out + n_log > len(out.step):
            return FULL
        for i in range(n_log):
            key = search.log[i] >> KEY_SHIFT
            code = np.int64(search.log[i] & CODE_BITS)
            out.op[n_out] = ENTER if key & 1 == 1 else LEAVE
            score = np.nan
            if key & 1 == 1:
                score = float(images.value[find_image(images, step, code), n_dimensions + 1])
            n_out = write_change(out, n_out, step, key >> 1, code, score)
        cursor[N_OUT] = n_out
        if is_ordered:
            close_orders(orders, rows, images, step)
        else:
            close_chains(chains, rows, images, step)
        cursor[IS_OPEN] = 0
        cursor[STEP] += 1
    return DONE


@inlined
def find_in_order(boxes: RangeBoxes, box: int, rows: RowColumns, orders: Orders, code: int) -> int:
    """A row of the code that is in the box, of one dimension; -1 if there is none."""
    row = first_row(orders, code, rows.value, boxes.lo[0, box])
    return row if row >= 0 and rows.value[row, 0] <= boxes.hi[0, box] else -1


@lean_kernel
def list_distinct(
    boxes: RangeBoxes,
    rows: RowColumns,
    chains: Chains,
    orders: Orders,
    is_ordered: bool,
    slots: Longs,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Write the codes in the boxes of `slots`, from the cursor on."""
    n_dimensions = boxes.lo.shape[0]
    while cursor[AT] < len(slots):
        box = slots[cursor[AT]]
        n_out = cursor[N_OUT]
        for code in range(len(orders.top) if is_ordered else len(chains.head)):
            if is_ordered:
                row = find_in_order(boxes, box, rows, orders, code)
            else:
                row = find_in_chain(boxes, box, rows, chains, code)
            if row >= 0:
                if n_out == len(out.step):
                    return FULL
                out.op[n_out] = ENTER
                n_out = write_change(out, n_out, cursor[STEP], box, code, rows.value[row, n_dimensions + 1])
        cursor[N_OUT] = n_out
        cursor[AT] += 1
    return DONE
