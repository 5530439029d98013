"""Kernels that remove expressions from a BE*-Tree, and keep its bounds tight."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Ints
from tocsin.indexes.matching.layout import Records
from tocsin.kernels.status import DONE, FULL
from tocsin.papers.be_star_tree.betree_grow_kernels import (
    free_node,
    free_partition,
    has_capacity,
    put_item,
    take_item,
    update_rank,
)
from tocsin.papers.be_star_tree.betree_layout_kernels import (
    ALL,
    BIGGEST,
    DEPTH,
    IS_RIGID,
    LEAF,
    LONGEST,
    OWN,
    Scratch,
    Tree,
    box_key,
    find_range,
    is_summary_touched,
    recompute_all,
    recompute_own,
)


@kernel
def is_box_touched(
    tree: Tree, node: Whole, which: Whole, predicates: Records, start: Whole, count: Whole
) -> bool:
    """Whether a removed expression touched an end of a box."""
    level, is_touched = np.int64(tree.nodes[node]["level"]), False
    for dimension in range(level):
        low, high = find_range(predicates, start, count, np.int64(box_key(tree, node, dimension)))
        box = tree.boxes[tree.details[node]["box"] + which * level + dimension]
        is_touched |= low == box[0] or high == box[1]
    return is_touched


@kernel
def leave_parent(tree: Tree, node: Whole) -> int:
    """Free an empty bucket, and its partition if that is then empty. Returns the bucket above."""
    parent, partition = tree.details[node]["parent"], tree.nodes[node]["partition"]
    free_node(tree, node)
    if parent < 0:
        return free_partition(tree, np.int64(partition))
    if tree.nodes[parent]["left"] == node:
        tree.nodes[parent]["left"] = -1
    else:
        tree.nodes[parent]["right"] = -1
    return int(parent)


@kernel
def close_buckets(tree: Tree, node: Whole) -> Whole:
    """Remove empty buckets from `node` upwards, and merge small ones into parents with capacity.

    Only parents without partitions take items. Returns the first bucket that stays.
    """
    while node > 0:
        bucket, parent = tree.nodes[node], tree.details[node]["parent"]
        if bucket["left"] >= 0 or bucket["right"] >= 0 or bucket["partitions"] >= 0:
            break
        if bucket["count"] > 0:
            if parent < 0 or tree.nodes[parent]["partitions"] >= 0:
                break
            if tree.nodes[parent]["count"] + bucket["count"] > tree.settings[LEAF]:
                break
            for number in range(bucket["first"], bucket["first"] + bucket["count"]):
                item = tree.items[number]
                put_item(
                    tree,
                    np.int64(parent),
                    np.int64(item["slot"]),
                    np.int64(item["start"]),
                    np.int64(item["count"]),
                )
        node = np.int64(leave_parent(tree, node))
    return node


@kernel
def tighten_bounds(
    tree: Tree, node: Whole, predicates: Records, start: Whole, count: Whole, scratch: Scratch
) -> None:
    """Recompute bounds from a bucket upwards, as far as they depended on a removed expression."""
    is_first, is_from_child = True, False
    while node > 0 and not tree.settings[IS_RIGID]:
        is_changed = is_first
        if is_first or (
            not is_from_child and is_box_touched(tree, node, np.int64(OWN), predicates, start, count)
        ):
            recompute_own(tree, node, predicates, scratch.mark)
            is_changed = True
        if (
            is_changed
            or is_box_touched(tree, node, np.int64(ALL), predicates, start, count)
            or is_summary_touched(tree, node, np.int64(ALL), predicates, start, count, scratch.mark)
        ):
            recompute_all(tree, node, scratch.mark)
            is_changed = True
        if not is_changed:
            return
        parent, partition = np.int64(tree.details[node]["parent"]), tree.nodes[node]["partition"]
        is_first, is_from_child = False, bool(parent >= 0)
        node = parent if parent >= 0 else np.int64(tree.partitions[partition]["home"])


@kernel
def remove_expressions(
    tree: Tree, predicates: Records, given: Ints, begin: Whole, scratch: Scratch
) -> tuple[int, int]:
    """Remove expressions, from `begin` on. Returns a status, and the first unfinished one."""
    for number in range(begin, given.shape[0]):
        slot = given[number]
        node = np.int64(tree.home[slot])
        if node < 0:
            continue
        state, leaf = tree.state, tree.settings[LEAF]
        # Each bucket on the path up may be merged into the next one, which may then need more capacity.
        path = state[DEPTH] + 1
        items, entries = path * (4 * leaf + 2), 8 * path * (state[LONGEST] * (leaf + 1) + 4)
        if not has_capacity(tree, scratch, np.int64(0), 2 * state[BIGGEST] + items, np.int64(0), entries):
            return FULL, number
        place = np.int64(tree.place[slot])
        start, count = np.int64(tree.items[place]["start"]), np.int64(tree.items[place]["count"])
        take_item(tree, node, place)
        tree.home[slot], tree.place[slot] = -1, -1
        if tree.nodes[node]["partition"] >= 0:
            update_rank(tree, np.int64(tree.nodes[node]["partition"]), np.int64(-1))
        tighten_bounds(tree, close_buckets(tree, node), predicates, start, count, scratch)
    return DONE, given.shape[0]
