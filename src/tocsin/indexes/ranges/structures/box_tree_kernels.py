"""Kernels of the tree over boxes: which of them hold a row.

A box of d ranges is a point of 2d dimensions, its lower and upper bounds. A kd-tree splits the points by the
bounds in rotation, until a *leaf* has few; each node holds the least and the greatest of every bound below
it. So a row is outside all boxes of a node, or inside all of them, or both children must be visited. Boxes of
a leaf lie side by side. Those added after the tree was built form its *tail*, and are tested one by one.

Nodes and places are numbered as in `kernels/kdtree.py`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.kernels.kdtree import find_places
from tocsin.kernels.regions import (
    APART,
    CUT,
    NO_REGION,
    REGION_ROWS,
    WITHIN,
    compare_region,
    mark_regions,
)
from tocsin.kernels.sort import LARGEST_DIGIT

#: Places in `BoxTreeColumns.state`.
N_BUILT = 0
N_USED = 1
HEIGHT = 2
REGION = 3
STATE_SIZE = 4

#: Boxes tested at a time.
BLOCK = 512


class BoxTreeColumns(NamedTuple):
    """Boxes by place. A tree that is not in use has no places, and then every box is tested."""

    #: bounds of the boxes; a box taken out is empty
    lo: Annotated[Floats, Column("dimensions", "places", fill=None)]
    hi: Annotated[Floats, Column("dimensions", "places", fill=None)]
    #: slot of the box, -1 where it was taken out
    slot: Annotated[Ints, Column("places", fill=None)]
    #: place of the slot's box, -1 for none
    place: Annotated[Ints, Column("slots", fill=-1)]
    #: least lower bounds, greatest lower, least upper, greatest upper
    edge: Annotated[Floats, Column("nodes", Size("dimensions", times=4), fill=None)]
    #: boxes built in, places used, levels above the leaves, kind of region
    state: Annotated[Longs, Column(STATE_SIZE)]
    #: scratch; nodes to visit, and with how many rows
    stack: Annotated[Longs, Column(Size("levels", times=2, plus=4), fill=None)]
    #: scratch; the rows of a step that are searched for
    listed: Annotated[Longs, Column("rows", fill=None)]
    #: scratch; which boxes of a block hold a row
    inside: Annotated[Bools, Column(2, BLOCK, fill=None)]
    #: scratch for sorting
    begin: Annotated[Longs, Column(LARGEST_DIGIT + 1, fill=None)]
    spare: Annotated[Longs, Column("places", fill=None)]


@inlined
def compare_row(edge: Floats, value: Floats, at: int, n_dimensions: int, region: int) -> int:
    """How row `at` of `value` relates to the boxes of a node: APART, CUT or WITHIN."""
    is_within = True
    n_passed = 0 if region == NO_REGION else REGION_ROWS
    for i in range(n_dimensions - n_passed):
        j = i if i == 0 else i + n_passed
        x = value[at, j]
        if not (edge[j] <= x <= edge[3 * n_dimensions + j]):
            return APART
        is_within &= edge[n_dimensions + j] <= x <= edge[2 * n_dimensions + j]
    if region != NO_REGION:
        top = 3 * n_dimensions
        x = value[at, 1]
        z = value[at, 2]
        how = compare_region(
            region, edge[1], edge[top + 1], edge[2], edge[top + 2], edge[3], edge[top + 3], x, x, z, z
        )
        if how == APART:
            return APART
        is_within &= how == WITHIN
    return WITHIN if is_within else CUT


@lean_kernel
def mark_boxes(tree: BoxTreeColumns, first: int, value: Floats, row: int, inside: Bools) -> None:
    """Set `inside` for the boxes from place `first` on that hold a row of `value`."""
    size = len(inside)
    region = tree.state[REGION]
    n_passed = 0 if region == NO_REGION else REGION_ROWS
    inside[:] = True
    for i in range(tree.lo.shape[0] - n_passed):
        j = i if i == 0 else i + n_passed
        x = value[row, j]
        lo = tree.lo[j, first : first + size]
        hi = tree.hi[j, first : first + size]
        for at in range(size):
            inside[at] = inside[at] & (lo[at] <= x) & (x <= hi[at])
    if region != NO_REGION:
        end = first + size
        lo = tree.lo
        mark_regions(
            region, lo[1, first:end], lo[2, first:end], lo[3, first:end], value[row, 1], value[row, 2], inside
        )


@lean_kernel
def test_boxes(
    tree: BoxTreeColumns, first: int, end: int, value: Floats, n_rows: int, out: Longs, n_out: int
) -> int:
    """Append the places from `first` to before `end` whose box holds one of the rows listed."""
    for block in range(first, end, BLOCK):
        size = min(BLOCK, end - block)
        hit = tree.inside[0, :size]
        inside = tree.inside[1, :size]
        hit[:] = False
        for i in range(n_rows):
            mark_boxes(tree, block, value, tree.listed[i], inside)
            for at in range(size):
                hit[at] = hit[at] | inside[at]
        for at in range(size):
            # Always written, counted if hit: no branch to mispredict.
            out[n_out] = block + at
            n_out += int(hit[at])
    return n_out


@lean_kernel
def find_boxes(tree: BoxTreeColumns, value: Floats, start: int, end: int, out: Longs) -> int:
    """Write the places of the boxes that hold one of value[start:end]; returns how many.

    In no order, each once; `out` has capacity for one more than all. Cost: the nodes that a row cuts, and
    what is found. The rows descend together: where one is in all boxes of a node, the others need not.
    """
    n_dimensions = tree.lo.shape[0]
    n_built = tree.state[N_BUILT]
    height = tree.state[HEIGHT]
    region = tree.state[REGION]
    n_leaves = 1 << height
    n_rows = end - start
    for i in range(n_rows):
        tree.listed[i] = start + i
    n_out = test_boxes(tree, n_built, tree.state[N_USED], value, n_rows, out, 0)
    tree.stack[0] = 1
    tree.stack[1] = n_rows
    top = 2 if n_built > 0 else 0
    while top > 0:
        top -= 2
        node = tree.stack[top]
        n_listed = tree.stack[top + 1]
        edge = tree.edge[node]
        # Rows that are not apart move to the front, where the children find them. Both children may reorder
        # them, since the parent's rows stay the first `n_listed`.
        n_kept = 0
        is_within = False
        for i in range(n_listed):
            row = tree.listed[i]
            how = compare_row(edge, value, row, n_dimensions, region)
            if how == WITHIN:
                is_within = True
                break
            if how == CUT:
                tree.listed[i] = tree.listed[n_kept]
                tree.listed[n_kept] = row
                n_kept += 1
        if not is_within and n_kept == 0:
            continue
        is_leaf = node >= n_leaves
        if not is_within and not is_leaf:
            tree.stack[top] = 2 * node + 1
            tree.stack[top + 1] = n_kept
            tree.stack[top + 2] = 2 * node
            tree.stack[top + 3] = n_kept
            top += 4
            continue
        first, last = find_places(node, n_built)
        if is_within:
            for at in range(first, last):
                out[n_out] = at
                n_out += int(tree.slot[at] >= 0)
        else:
            n_out = test_boxes(tree, first, last, value, n_kept, out, n_out)
    return n_out


@lean_kernel
def move_top(tree: BoxTreeColumns, slot: int, value: float) -> None:
    """Set the upper bound of a box in the last dimension, and update the nodes above.

    Cost: a leaf at most, and the levels of the tree on which it makes a difference.
    """
    if len(tree.place) == 0 or tree.place[slot] < 0:
        return
    place = int(tree.place[slot])
    last = tree.lo.shape[0] - 1
    known = 4 * last + 3
    before = tree.hi[last, place]
    tree.hi[last, place] = value
    n_built = tree.state[N_BUILT]
    if place >= n_built:
        return
    height = tree.state[HEIGHT]
    leaf = ((place + 1) * (1 << height) - 1) // n_built
    node = (1 << height) + leaf
    most = max(tree.edge[node, known], value)
    if before == tree.edge[node, known]:
        first, end = find_places(node, n_built)
        most = -np.inf
        for at in range(first, end):
            most = max(most, tree.hi[last, at])
    above = node
    while above > 0 and tree.edge[above, known] != most:
        tree.edge[above, known] = most
        if above > 1:
            most = max(most, tree.edge[above ^ 1, known])
        above >>= 1
    # The least may stay too low: then a row is tested against more boxes, and found in the same.
    known -= last + 1
    while node > 0 and tree.edge[node, known] > value:
        tree.edge[node, known] = value
        node >>= 1


@lean_kernel
def bound_nodes(tree: BoxTreeColumns) -> None:
    """Compute every node, from the leaves up. Linear."""
    n_dimensions = tree.lo.shape[0]
    n_built = tree.state[N_BUILT]
    height = tree.state[HEIGHT]
    n_leaves = 1 << height
    for node in range(2 * n_leaves - 1, 0, -1):
        edge = tree.edge[node]
        for j in range(n_dimensions):
            edge[j] = np.inf
            edge[n_dimensions + j] = -np.inf
            edge[2 * n_dimensions + j] = np.inf
            edge[3 * n_dimensions + j] = -np.inf
        if node < n_leaves:
            for j in range(n_dimensions):
                for child in range(2 * node, 2 * node + 2):
                    edge[j] = min(edge[j], tree.edge[child, j])
                    at = n_dimensions + j
                    edge[at] = max(edge[at], tree.edge[child, at])
                    at += n_dimensions
                    edge[at] = min(edge[at], tree.edge[child, at])
                    at += n_dimensions
                    edge[at] = max(edge[at], tree.edge[child, at])
            continue
        first, end = find_places(node, n_built)
        for j in range(n_dimensions):
            for at in range(first, end):
                edge[j] = min(edge[j], tree.lo[j, at])
                edge[n_dimensions + j] = max(edge[n_dimensions + j], tree.lo[j, at])
                edge[2 * n_dimensions + j] = min(edge[2 * n_dimensions + j], tree.hi[j, at])
                edge[3 * n_dimensions + j] = max(edge[3 * n_dimensions + j], tree.hi[j, at])
