"""Kernels of the tree over rows: the first rows of a box by y, how many there are, and their exact sum.

A kd-tree splits the rows by the dimensions in rotation. Each node holds the box around its rows, their
number, their least y, and their sum (see `tally_kernels`). A changed row keeps its *place* unless it moves;
one that is inserted or moves goes to the *tail*, which is scanned row by row until the tree is rebuilt. Nodes
and places are numbered as in `kernels/kdtree.py`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.steps.step_kernels import RangeBoxes, RowColumns, RowImages
from tocsin.indexes.ranges.structures.tally_kernels import add_y
from tocsin.kernels.heap import Heap, pop_item, push_item
from tocsin.kernels.kdtree import find_places
from tocsin.kernels.regions import (
    APART,
    CUT,
    NO_REGION,
    REGION_ROWS,
    WITHIN,
    compare_region,
    is_in_region,
)
from tocsin.kernels.status import AT

#: Places in `RowTreeColumns.state`.
N_BUILT = 0
N_USED = 1
HEIGHT = 2
FIRST_LIMB = 3
LONGEST_TAIL = 4
STATE_SIZE = 5

#: The tie of a node in the heap: a node comes before the rows of equal y.
NODE = -1


class RowTreeColumns(NamedTuple):
    """Rows by place. A place whose row was removed has slot -1, and keeps its x."""

    #: the rows
    x: Annotated[Floats, Column("dimensions", "places", fill=None)]
    y: Annotated[Floats, Column("places", fill=None)]
    born: Annotated[Longs, Column("places", fill=None)]
    slot: Annotated[Ints, Column("places", fill=-1)]
    #: the last place that the row of a slot had, -1 for none
    place: Annotated[Ints, Column("slots", fill=-1)]
    #: least x, greatest x, of all places below
    edge: Annotated[Floats, Column("nodes", Size("dimensions", times=2), fill=None)]
    #: least y, number and sum of the rows below
    least: Annotated[Floats, Column("nodes", fill=None)]
    n_rows: Annotated[Longs, Column("nodes")]
    total: Annotated[Longs, Column("nodes", "columns")]
    #: places built in, places used, levels above the leaves, first limb of sums, and the longest tail allowed
    #: before a step
    state: Annotated[Longs, Column(STATE_SIZE)]
    #: scratch; nodes to visit
    stack: Annotated[Longs, Column(Size("levels", plus=2), fill=None)]


@inlined
def compare_node(tree: RowTreeColumns, node: int, boxes: RangeBoxes, box: int) -> int:
    """How the places below a node relate to a box: APART, CUT or WITHIN."""
    n_dimensions = tree.x.shape[0]
    is_within = True
    n_passed = 0 if boxes.region == NO_REGION else REGION_ROWS
    for i in range(n_dimensions - n_passed):
        j = i if i == 0 else i + n_passed
        lo = boxes.lo[j, box]
        hi = boxes.hi[j, box]
        least = tree.edge[node, j]
        most = tree.edge[node, n_dimensions + j]
        if most < lo or hi < least:
            return APART
        is_within &= lo <= least and most <= hi
    if n_passed > 0:
        a = boxes.lo[1, box]
        b = boxes.lo[2, box]
        c = boxes.lo[3, box]
        edge = tree.edge[node]
        how = compare_region(
            boxes.region, a, a, b, b, c, c, edge[1], edge[n_dimensions + 1], edge[2], edge[n_dimensions + 2]
        )
        if how == APART:
            return APART
        is_within &= how == WITHIN
    return WITHIN if is_within else CUT


@inlined
def is_in_box(tree: RowTreeColumns, place: int, boxes: RangeBoxes, box: int) -> bool:
    """Whether a place has a row, and the box holds it."""
    is_in = tree.slot[place] >= 0
    n_passed = 0 if boxes.region == NO_REGION else REGION_ROWS
    for i in range(tree.x.shape[0] - n_passed):
        j = i if i == 0 else i + n_passed
        is_in = is_in and boxes.lo[j, box] <= tree.x[j, place] <= boxes.hi[j, box]
    if n_passed > 0:
        a = boxes.lo[1, box]
        b = boxes.lo[2, box]
        c = boxes.lo[3, box]
        is_in = is_in and is_in_region(boxes.region, a, b, c, tree.x[1, place], tree.x[2, place])
    return bool(is_in)


@lean_kernel
def push_rows(
    tree: RowTreeColumns, heap: Heap, size: int, boxes: RangeBoxes, box: int, first: int, end: int
) -> int:
    """Add the rows of the box from place `first` to before `end` to the heap."""
    for place in range(first, end):
        if is_in_box(tree, place, boxes, box):
            size = push_item(heap, size, tree.y[place], tree.born[place], place)
    return size


@lean_kernel
def start_search(tree: RowTreeColumns, heap: Heap, boxes: RangeBoxes, box: int) -> int:
    """Start a search for the rows of a box by (y, born). Returns the size of the heap. Cost: the tail."""
    n_built = tree.state[N_BUILT]
    size = push_rows(tree, heap, 0, boxes, box, n_built, tree.state[N_USED])
    if n_built > 0 and tree.n_rows[1] > 0 and compare_node(tree, 1, boxes, box) != APART:
        size = push_item(heap, size, tree.least[1], NODE, 1)
    return size


@lean_kernel
def find_next(tree: RowTreeColumns, heap: Heap, size: int, boxes: RangeBoxes, box: int) -> int:
    """Bring the next row of the box to the front of the heap. Returns its size, 0 if there is no such row.

    `pop_item` then removes the row. Cost: the nodes on the way to it not yet expanded.
    """
    n_leaves = 1 << tree.state[HEIGHT]
    while size > 0 and heap.tie[0] == NODE:
        node = heap.item[0]
        size = pop_item(heap, size)
        if node >= n_leaves:
            first, end = find_places(node, tree.state[N_BUILT])
            size = push_rows(tree, heap, size, boxes, box, first, end)
            continue
        for child in range(2 * node, 2 * node + 2):
            if tree.n_rows[child] > 0 and compare_node(tree, child, boxes, box) != APART:
                size = push_item(heap, size, tree.least[child], NODE, child)
    return size


@lean_kernel
def sum_box(tree: RowTreeColumns, boxes: RangeBoxes, box: int, total: Longs) -> int:
    """Add the sum of the rows of a box to `total`; returns how many there are. Cost: the nodes it cuts."""
    n_built = tree.state[N_BUILT]
    n_leaves = 1 << tree.state[HEIGHT]
    first_limb = int(tree.state[FIRST_LIMB])
    n_columns = len(total)
    count = 0
    first = n_built
    end = tree.state[N_USED]
    tree.stack[0] = 1
    top = 1 if n_built > 0 else 0
    while True:
        for place in range(first, end):
            if is_in_box(tree, place, boxes, box):
                count += 1
                add_y(total, tree.y[place], 1, first_limb)
        if top == 0:
            return count
        top -= 1
        node = tree.stack[top]
        first = end
        how = compare_node(tree, node, boxes, box)
        if how == WITHIN:
            count += tree.n_rows[node]
            for i in range(n_columns):
                total[i] += tree.total[node, i]
        elif how == CUT and node >= n_leaves:
            first, end = find_places(node, n_built)
        elif how == CUT:
            tree.stack[top] = 2 * node + 1
            tree.stack[top + 1] = 2 * node
            top += 2


@lean_kernel
def change_nodes(tree: RowTreeColumns, place: int, sign: int) -> None:
    """Update the nodes above a place whose row was inserted, or removed if `sign` is -1."""
    n_built = tree.state[N_BUILT]
    if place >= n_built:
        return
    height = tree.state[HEIGHT]
    leaf = (1 << height) + ((place + 1) * (1 << height) - 1) // n_built
    first_limb = int(tree.state[FIRST_LIMB])
    y = tree.y[place]
    node = leaf
    while node > 0:
        tree.n_rows[node] += sign
        add_y(tree.total[node], y, sign, first_limb)
        node >>= 1
    node = leaf
    least = min(tree.least[leaf], y)
    if sign < 0 and y == tree.least[leaf]:
        first, end = find_places(leaf, n_built)
        least = np.inf
        for at in range(first, end):
            if tree.slot[at] >= 0:
                least = min(least, tree.y[at])
    while node > 0 and tree.least[node] != least:
        tree.least[node] = least
        if node > 1:
            least = min(least, tree.least[node ^ 1])
        node >>= 1


@lean_kernel
def drop_row(tree: RowTreeColumns, row: int) -> None:
    """Remove an existing row. Cost: a leaf and the levels above it."""
    place = int(np.int64(tree.place[row]))
    tree.slot[place] = -1
    change_nodes(tree, place, -1)


@lean_kernel
def put_row(tree: RowTreeColumns, row: int, value: Floats, at: int, born: int) -> bool:
    """Insert an absent row, with the values of row `at` of `value`. Returns whether it had capacity.

    Cost: a leaf and the levels above it.
    """
    n_dimensions = tree.x.shape[0]
    place = int(tree.place[row])
    is_same = place >= 0
    for j in range(n_dimensions):
        is_same = is_same and tree.x[j, place] == value[at, j]
    if not is_same:
        place = int(tree.state[N_USED])
        if place == len(tree.y):
            return False
        tree.state[N_USED] += 1
        tree.place[row] = place
        for j in range(n_dimensions):
            tree.x[j, place] = value[at, j]
    tree.y[place] = value[at, n_dimensions]
    tree.born[place] = born
    tree.slot[place] = row
    change_nodes(tree, place, 1)
    return True


@lean_kernel
def is_long(tree: RowTreeColumns) -> bool:
    """Whether the tail is so long that rebuilding the tree pays."""
    return bool(tree.state[N_USED] - tree.state[N_BUILT] > tree.state[LONGEST_TAIL])


@lean_kernel
def open_rows(tree: RowTreeColumns, rows: RowColumns, images: RowImages, step: int) -> None:
    """Remove the step's old images from the rows."""
    for image in range(images.start[step], images.middle[step]):
        row = int(images.row[image])
        drop_row(tree, row)
        rows.born[row] = ABSENT


@lean_kernel
def close_rows(tree: RowTreeColumns, rows: RowColumns, images: RowImages, step: int, cursor: Longs) -> bool:
    """Insert the step's new images, from the cursor on. Returns whether all had capacity."""
    cursor[AT] = max(cursor[AT], images.middle[step])
    while cursor[AT] < images.start[step + 1]:
        image = int(cursor[AT])
        row = int(images.row[image])
        if not put_row(tree, row, images.value, image, int(images.born[image])):
            return False
        rows.born[row] = images.born[image]
        for j in range(images.value.shape[1]):
            rows.value[row, j] = images.value[image, j]
        cursor[AT] += 1
    return True


@lean_kernel
def bound_rows(tree: RowTreeColumns) -> None:
    """Compute every node, from the leaves up. All places have rows. Linear."""
    n_dimensions = tree.x.shape[0]
    n_columns = tree.total.shape[1]
    n_built = tree.state[N_BUILT]
    n_leaves = 1 << tree.state[HEIGHT]
    first_limb = int(tree.state[FIRST_LIMB])
    for node in range(2 * n_leaves - 1, 0, -1):
        tree.least[node] = np.inf
        tree.n_rows[node] = 0
        for i in range(n_columns):
            tree.total[node, i] = 0
        for j in range(n_dimensions):
            tree.edge[node, j] = np.inf
            tree.edge[node, n_dimensions + j] = -np.inf
        if node >= n_leaves:
            first, end = find_places(node, n_built)
            tree.n_rows[node] = end - first
            for place in range(first, end):
                tree.least[node] = min(tree.least[node], tree.y[place])
                add_y(tree.total[node], tree.y[place], 1, first_limb)
                for j in range(n_dimensions):
                    at = n_dimensions + j
                    tree.edge[node, j] = min(tree.edge[node, j], tree.x[j, place])
                    tree.edge[node, at] = max(tree.edge[node, at], tree.x[j, place])
            continue
        for child in range(2 * node, 2 * node + 2):
            tree.least[node] = min(tree.least[node], tree.least[child])
            tree.n_rows[node] += tree.n_rows[child]
            for i in range(n_columns):
                tree.total[node, i] += tree.total[child, i]
            for j in range(n_dimensions):
                at = n_dimensions + j
                tree.edge[node, j] = min(tree.edge[node, j], tree.edge[child, j])
                tree.edge[node, at] = max(tree.edge[node, at], tree.edge[child, at])
