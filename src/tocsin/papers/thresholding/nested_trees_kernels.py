"""Kernels of nested segment trees: rank endpoints, decompose boxes into nodes, find the leaves of a point.

A tree of `size` leaves is implicit: its nodes are 1 to 2 * size - 1, leaf i is node size + i, and the
parent of a node is half its number. The ancestors of a leaf are the nodes that cover it.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Floats, Ints, Longs


class NestedTrees(NamedTuple):
    """Trees on the first axis, then on the second one for each node of the first, and so on."""

    #: int64 (trees + 1,): where each tree's bounds begin; its node n is at twice that, plus n.
    tree_begin: Longs
    #: float64 (bounds,): where each leaf begins, ascending within a tree; a leaf ends where the next begins.
    bound: Floats
    #: int32 (nodes before the last axis,): tree of the boxes that have this node, -1 for none.
    node_child: Ints


@kernel
def find_leaf(nested: NestedTrees, tree: int, value: float) -> int:
    """The leaf of `tree` that covers `value`, -1 if it lies before the first. Cost: logarithmic."""
    begin, end = nested.tree_begin[tree], nested.tree_begin[tree + 1]
    low, high = begin, end
    while low < high:
        middle = (low + high) >> 1
        if nested.bound[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return int(low - begin - 1)


@kernel
def find_trees(nested: NestedTrees, values: Floats, event: int, out_trees: Ints) -> tuple[int, int]:
    """List the trees of the last axis whose region holds the event's point: a slice of `out_trees`."""
    out_trees[0] = 0
    begin, end = 0, 1
    for axis in range(values.shape[1] - 1):
        stop = end
        for place in range(begin, stop):
            tree = out_trees[place]
            leaf = find_leaf(nested, tree, values[event, axis])
            if leaf < 0:
                continue
            first = nested.tree_begin[tree]
            node = nested.tree_begin[tree + 1] - first + leaf
            while node > 0:
                child = nested.node_child[2 * first + node]
                if child >= 0:
                    out_trees[end] = child
                    end += 1
                node >>= 1
        begin = stop
    return begin, end


@kernel
def rank_bounds(
    order: Longs,
    ends: Floats,
    pair_begin: Longs,
    pair_tree: Ints,
    tree_last: Floats,
    tree_size: Longs,
    out_first: Ints,
    out_last: Ints,
) -> None:
    """Number the distinct endpoints within each tree, in ascending order.

    `ends` holds the low ends of all boxes, then their high ends, and `order` sorts it. Afterwards
    `out_first` and `out_last` of a pair are the numbers of its box's ends in its tree.
    """
    n_boxes = pair_begin.shape[0] - 1
    for place in range(order.shape[0]):
        which = order[place]
        value = ends[which]
        is_low = which < n_boxes
        box = which if is_low else which - n_boxes
        for pair in range(pair_begin[box], pair_begin[box + 1]):
            tree = pair_tree[pair]
            if tree_size[tree] == 0 or tree_last[tree] != value:
                tree_last[tree] = value
                tree_size[tree] += 1
            if is_low:
                out_first[pair] = tree_size[tree] - 1
            else:
                out_last[pair] = tree_size[tree] - 1


@kernel
def count_nodes(
    tree_begin: Longs, pair_tree: Ints, pair_first: Ints, pair_last: Ints, out_count: Longs
) -> None:
    """How many canonical nodes cover the leaves from `pair_first` to before `pair_last`."""
    for pair in range(pair_tree.shape[0]):
        tree = pair_tree[pair]
        size = tree_begin[tree + 1] - tree_begin[tree]
        left, right = size + pair_first[pair], size + pair_last[pair]
        count = 0
        while left < right:
            count += (left & 1) + (right & 1)
            left = (left + 1) >> 1
            right >>= 1
        out_count[pair] = count


@kernel
def list_nodes(
    tree_begin: Longs, pair_tree: Ints, pair_first: Ints, pair_last: Ints, out_begin: Longs, out_node: Ints
) -> None:
    """List these nodes, those of each pair from its `out_begin` on."""
    for pair in range(pair_tree.shape[0]):
        tree = pair_tree[pair]
        first = tree_begin[tree]
        size = tree_begin[tree + 1] - first
        left, right = size + pair_first[pair], size + pair_last[pair]
        place = out_begin[pair]
        while left < right:
            if left & 1:
                out_node[place] = 2 * first + left
                place += 1
            if right & 1:
                out_node[place] = 2 * first + right - 1
                place += 1
            left = (left + 1) >> 1
            right >>= 1
