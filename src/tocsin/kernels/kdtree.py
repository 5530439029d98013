"""Implicit kd-trees over boxes or points: the order of the leaves, and the places below a node.

Nodes are numbered as in a binary heap: the root is 1, the children of n are 2n and 2n + 1. All leaves are on
one level; leaf t of L holds the places from t n / L up to (t + 1) n / L, exclusive. A box is split like a
point whose coordinates alternate between its lower and upper bounds; a point is a box with equal bounds.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Floats, Ints


@lean_kernel
def find_places(node: int, n_built: int) -> tuple[int, int]:
    """The range of places below a node: the first, and the one after the last."""
    level = 0
    while node >> (level + 1) > 0:
        level += 1
    number = node - (1 << level)
    return (number * n_built) >> level, ((number + 1) * n_built) >> level


@inlined
def bound_at(lo: Floats, hi: Floats, coordinate: int, box: int) -> float:
    """A coordinate of the box as a point: lower and upper bounds alternate."""
    return np.float64(lo[coordinate >> 1, box] if coordinate & 1 == 0 else hi[coordinate >> 1, box])


@lean_kernel
def halve_boxes(
    lo: Floats, hi: Floats, coordinate: int, order: Ints, first: int, middle: int, end: int
) -> None:
    """Partition order[first:end] by a coordinate: nothing before `middle` exceeds anything from it on.

    Expected linear.
    """
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
                swapped = order[i]
                order[i] = order[j]
                order[j] = swapped
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
    """Sort the boxes into the leaves of a tree of this height, split by the first `n_split` dimensions.

    Cost: linear a level. A bound that all boxes of a node share is skipped for the next one.
    """
    n_boxes = len(order)
    for level in range(height):
        for number in range(1 << level):
            first = (number * n_boxes) >> level
            end = ((number + 1) * n_boxes) >> level
            middle = ((2 * number + 1) * n_boxes) >> (level + 1)
            for offset in range(2 * n_split):
                coordinate = (level + offset) % (2 * n_split)
                shared = bound_at(lo, hi, coordinate, order[first])
                is_shared = True
                for at in range(first + 1, end):
                    if bound_at(lo, hi, coordinate, order[at]) != shared:
                        is_shared = False
                        break
                if not is_shared:
                    halve_boxes(lo, hi, coordinate, order, first, middle, end)
                    break
