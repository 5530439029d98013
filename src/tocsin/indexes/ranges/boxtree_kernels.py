"""Kernels of the tree over boxes: which of them hold a row.

A box of d ranges is a point of 2d dimensions, its lower and upper bounds. A kd-tree halves the points by one
bound after the other, until a *leaf* has few; each node knows the least and the greatest of every bound below
it. So a row is outside all boxes of a node, or inside all of them, or both children must be asked. Boxes of a
leaf lie side by side. Those that came after the tree was built are its *tail*, and tested one by one.

Nodes are numbered as in a heap: the root is 1, the children of n are 2n and 2n + 1. All leaves are on one
level; leaf t of L has the places from t n / L to before (t + 1) n / L.

The kernels beside it call into this file; it calls itself and the kernels of regions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.jit import inlined, lean_kernel
from tocsin.indexes.shared.region_kernels import (
    APART,
    CUT,
    NO_REGION,
    REGION_ROWS,
    WITHIN,
    compare_region,
    mark_regions,
)

#: Places in `Tree.state`.
N_BUILT = 0
N_USED = 1
HEIGHT = 2
REGION = 3
STATE_SIZE = 4

#: Boxes tested at a time.
BLOCK = 512
#: Up to so many values are sorted by insertion; up to MANY by digits of a few bits, more by larger ones.
FEW = 24
MANY = 4096
FEW_BITS = 8
MANY_BITS = 11
LARGEST_DIGIT = 1 << MANY_BITS


class Tree(NamedTuple):
    """Boxes by place. A tree that is not in use has no places, and then every box is tested."""

    #: float64 (dimensions, room): bounds of the boxes; a box taken out is empty.
    lo: Floats
    hi: Floats
    #: int32 (room,): slot of the box, -1 where it was taken out.
    slot: Ints
    #: int32 (slots,): place of the slot's box, -1 for none.
    place: Ints
    #: float64 (nodes, 4 × dimensions): least lower bounds, greatest lower, least upper, greatest upper.
    edge: Floats
    #: int64 (STATE_SIZE,): boxes built in, places used, levels above the leaves, kind of region.
    state: Longs
    #: int64 (2 × (levels + 2),): scratch; nodes to look at, and how many rows to look at them with.
    stack: Longs
    #: int64 (rows of a step,): scratch; the rows looked for.
    listed: Longs
    #: bool (2, BLOCK): scratch; which boxes of a block hold a row.
    inside: Bools
    #: int64 (LARGEST_DIGIT + 1,): scratch for sorting.
    begin: Longs
    #: int64 (room,): scratch for sorting.
    spare: Longs


@inlined
def compare_row(edge: Floats, value: Floats, at: int, n_dimensions: int, region: int) -> int:
    """How row `at` of `value` stands to the boxes of a node: APART, CUT or WITHIN."""
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
def mark_boxes(tree: Tree, first: int, value: Floats, row: int, inside: Bools) -> None:
    """Tell of the boxes from place `first` on, as far as `inside` goes, which hold a row of `value`."""
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
def test_boxes(tree: Tree, first: int, end: int, value: Floats, n_rows: int, out: Longs, n_out: int) -> int:
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
            # Written always and kept if hit: no branch to mispredict.
            out[n_out] = block + at
            n_out += int(hit[at])
    return n_out


@lean_kernel
def find_boxes(tree: Tree, value: Floats, start: int, end: int, out: Longs) -> int:
    """Write the places of the boxes that hold a row of `value` from `start` to before `end`; say how many.

    They come in no order, each once; `out` has room for one more than all. Cost: the nodes that a row cuts,
    and what is found. The rows go down together: where one is in all boxes of a node, the others need not.
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
        # Rows that are not apart come to the front, where the children find them. Both children may order
        # them anew, since the parent's rows stay the first `n_listed`.
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
def find_places(node: int, n_built: int) -> tuple[int, int]:
    """The places of the boxes below a node: from which on, up to which."""
    level = 0
    while node >> (level + 1) > 0:
        level += 1
    number = node - (1 << level)
    return (number * n_built) >> level, ((number + 1) * n_built) >> level


@lean_kernel
def sort_values(values: Longs, count: int, shift: int, largest: int, spare: Longs, begin: Longs) -> None:
    """Sort the first `count` values by their bits from `shift` on, none above `largest`. Stable.

    `spare` has room for as many, `begin` for LARGEST_DIGIT + 1. Cost: linear, by digits, unless they are few.
    """
    if count <= FEW:
        for i in range(1, count):
            value = values[i]
            at = i
            while at > 0 and (values[at - 1] >> shift) > (value >> shift):
                values[at] = values[at - 1]
                at -= 1
            values[at] = value
        return
    n_bits = 1
    while (largest >> n_bits) > 0:
        n_bits += 1
    widest = FEW_BITS if count <= MANY else MANY_BITS
    n_passes = (n_bits + widest - 1) // widest
    bits = (n_bits + n_passes - 1) // n_passes
    n_digits = 1 << bits
    for _ in range(n_passes):
        for digit in range(n_digits + 1):
            begin[digit] = 0
        for i in range(count):
            begin[((values[i] >> shift) & (n_digits - 1)) + 1] += 1
        for digit in range(n_digits):
            begin[digit + 1] += begin[digit]
        for i in range(count):
            digit = (values[i] >> shift) & (n_digits - 1)
            spare[begin[digit]] = values[i]
            begin[digit] += 1
        for i in range(count):
            values[i] = spare[i]
        shift += bits


@lean_kernel
def move_top(tree: Tree, slot: int, value: float) -> None:
    """Set the upper bound of a box in the last dimension, and what the nodes above know of it.

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
    # The least may stay too low: then a row is looked for in more boxes, and found in the same.
    known -= last + 1
    while node > 0 and tree.edge[node, known] > value:
        tree.edge[node, known] = value
        node >>= 1


@inlined
def bound_at(lo: Floats, hi: Floats, coordinate: int, box: int) -> float:
    """A coordinate of the box as a point: its lower bounds and its upper bounds by turns."""
    return np.float64(lo[coordinate >> 1, box] if coordinate & 1 == 0 else hi[coordinate >> 1, box])


@lean_kernel
def halve_boxes(
    lo: Floats, hi: Floats, coordinate: int, order: Ints, first: int, middle: int, end: int
) -> None:
    """Reorder `order` from `first` to before `end`: none before `middle` has more of the coordinate than
    any from there on. Linear, on average."""
    left = first
    right = end - 1
    while left < right:
        pivot = bound_at(lo, hi, coordinate, order[(left + right) >> 1])
        i = left
        j = right
        while i <= j:
            while bound_at(lo, hi, coordinate, order[i]) < pivot:
                i += 1
            while bound_at(lo, hi, coordinate, order[j]) > pivot:
                j -= 1
            if i <= j:
                kept = order[i]
                order[i] = order[j]
                order[j] = kept
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@lean_kernel
def order_boxes(lo: Floats, hi: Floats, n_split: int, height: int, order: Ints) -> None:
    """Put the boxes in the order of the leaves of a tree so high, split by the first `n_split` dimensions.

    Cost: linear a level. A bound that all boxes of a node share is passed over for the next one.
    """
    n_boxes = len(order)
    for level in range(height):
        for number in range(1 << level):
            first = (number * n_boxes) >> level
            end = ((number + 1) * n_boxes) >> level
            middle = ((2 * number + 1) * n_boxes) >> (level + 1)
            for turn in range(2 * n_split):
                coordinate = (level + turn) % (2 * n_split)
                shared = bound_at(lo, hi, coordinate, order[first])
                is_shared = True
                for at in range(first + 1, end):
                    if bound_at(lo, hi, coordinate, order[at]) != shared:
                        is_shared = False
                        break
                if not is_shared:
                    halve_boxes(lo, hi, coordinate, order, first, middle, end)
                    break


@lean_kernel
def bound_nodes(tree: Tree) -> None:
    """Set what every node knows, from the leaves up. Linear."""
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
