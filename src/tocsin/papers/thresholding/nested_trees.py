"""Nested segment trees over the endpoints of boxes, built in bulk.

The first axis has one tree, over the endpoints of all boxes. A box is the disjoint union of at most two nodes
a level: its canonical nodes. Each node has a tree on the next axis, over the endpoints of the boxes that have
it, and so on. A *pair* is a box in a tree. Pairs are ordered by box.

A closed range [low, high] is stored as [low, next double after high), an unbounded one as open to the right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.papers.thresholding.nested_trees_kernels import NestedTrees, count_nodes, list_nodes, rank_bounds


class TreePairs(NamedTuple):
    """Nested trees, and the pairs of their last axis."""

    nested: NestedTrees
    #: int64 (boxes + 1,): where the pairs of each box begin.
    pair_begin: Longs
    #: int32 (pairs,): tree of the last axis.
    pair_tree: Ints
    #: int32 (pairs,): first leaf of the box in that tree.
    pair_first: Ints
    #: int32 (pairs,): the leaf after its last.
    pair_last: Ints
    #: upper bound of the trees, over all axes, that hold a point
    max_trees: int


def build_nested_trees(low: Floats, high: Floats) -> TreePairs:
    """Build the trees of all axes of `low` and `high`, (boxes, axes). Empty boxes get no pair.

    Cost: boxes x log(boxes) ** axes, in time and space.
    """
    n_boxes, n_axes = low.shape
    is_full = np.all(low <= high, axis=1)
    pair_begin = _offsets(is_full)
    pair_tree = np.zeros(pair_begin[-1], np.int32)
    tree_begin = np.zeros(1, np.int64)
    bounds: list[Floats] = []
    children: list[Ints] = []
    max_trees = width = n_new = 1
    for axis in range(n_axes):
        first_tree = len(tree_begin) - 1
        is_endless = np.isposinf(high[:, axis])
        ends = np.concatenate([low[:, axis], np.nextafter(high[:, axis], np.inf)])
        order = np.argsort(ends, kind="stable")
        # An unbounded range ends at the last leaf, whatever begins there.
        order = order[np.concatenate([np.ones(n_boxes, np.bool_), ~is_endless])[order]]
        first = np.empty(len(pair_tree), np.int32)
        last = np.full(len(pair_tree), -1, np.int32)
        size = np.zeros(n_new, np.int64)
        rank_bounds(order, ends, pair_begin, pair_tree - first_tree, np.zeros(n_new), size, first, last)

        tree_begin = np.concatenate([tree_begin, tree_begin[-1] + np.cumsum(size)])
        has_end = last >= 0
        last = np.where(has_end, last, size[pair_tree - first_tree].astype(np.int32))
        box = np.repeat(np.arange(n_boxes), np.diff(pair_begin))
        bound = np.empty(int(size.sum()))
        offset = tree_begin[pair_tree] - tree_begin[first_tree]
        bound[offset + first] = ends[box]
        bound[(offset + last)[has_end]] = ends[box + n_boxes][has_end]
        bounds.append(bound)
        if axis == n_axes - 1:
            break

        node_begin, node = canonical_nodes(tree_begin, pair_tree, first, last)
        is_used = np.zeros(2 * len(bound), np.bool_)
        is_used[node - 2 * tree_begin[first_tree]] = True
        child = np.where(is_used, np.cumsum(is_used) + (len(tree_begin) - 2), -1).astype(np.int32)
        children.append(child)
        pair_tree = child[node - 2 * tree_begin[first_tree]]
        pair_begin = node_begin[pair_begin]
        n_new = int(is_used.sum())
        width *= int(size.max(initial=0)).bit_length() + 1
        max_trees += width
    nested = NestedTrees(
        tree_begin, np.concatenate(bounds), np.concatenate([np.empty(0, np.int32), *children])
    )
    return TreePairs(nested, pair_begin, pair_tree, first, last, max_trees)


def canonical_nodes(tree_begin: Longs, pair_tree: Ints, first: Ints, last: Ints) -> tuple[Longs, Ints]:
    """The canonical nodes of each pair: where they begin, and the nodes pair by pair."""
    count = np.empty(len(pair_tree), np.int64)
    count_nodes(tree_begin, pair_tree, first, last, count)
    begin = _offsets(count)
    node = np.empty(begin[-1], np.int32)
    list_nodes(tree_begin, pair_tree, first, last, begin, node)
    return begin, node


def _offsets(counts: np.ndarray) -> Longs:
    """Where each group begins, and where the last one ends."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
