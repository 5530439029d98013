"""Kernels that keep the buckets of a BE*-Tree small: full ones are split, then partitioned."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Ints, Longs
from tocsin.indexes.matching.layout import Records
from tocsin.kernels.status import DONE, FULL
from tocsin.papers.be_star_tree.betree_grow_kernels import (
    choose_rigid_side,
    enqueue_bucket,
    find_enclosed,
    has_capacity,
    make_child,
    make_partition,
    place_expression,
    take_item,
    update_rank,
)
from tocsin.papers.be_star_tree.betree_layout_kernels import (
    ALPHA,
    BIGGEST,
    DEPTH,
    IS_EXHAUSTIVE,
    IS_RARE_FIRST,
    IS_RIGID,
    LEAF,
    LONGEST,
    Scratch,
    Tree,
    box_key,
    find_range,
    recompute_all,
    recompute_own,
)
from tocsin.papers.be_star_tree.betree_split_kernels import (
    LEFT,
    OVERLAP,
    RIGHT,
    middle_of,
    split_approximately,
    split_exhaustively,
    split_space,
)

#: Depth from which rigid buckets are not split: halving separates two close numbers very late.
MAX_HALVINGS = 64


@kernel
def can_place(tree: Tree, count: Whole, scratch: Scratch) -> bool:
    """Whether there is capacity to place one more expression of `count` predicates anywhere."""
    state = tree.state
    path = state[DEPTH] + 4
    entries = path * 4 * (state[LONGEST] + count + 2)
    # On the path at most one bucket a level is made, of at most as many dimensions as levels.
    return has_capacity(tree, scratch, path, 2 * (state[BIGGEST] + path), path * path, entries)


@kernel
def push_item_down(tree: Tree, node: Whole, predicates: Records, scratch: Scratch) -> bool:
    """Move an item of a bucket into the child that now contains it. False: there is none."""
    bucket = tree.nodes[node]
    for child in (bucket["left"], bucket["right"]):
        if child >= 0:
            low, high = tree.nodes[child]["low"], tree.nodes[child]["high"]
            number = find_enclosed(tree, node, low, high, predicates)
            if number >= 0:
                item = tree.items[number]
                start, count = np.int64(item["start"]), np.int64(item["count"])
                slot = np.int64(item["slot"])
                take_item(tree, node, np.int64(number))
                update_rank(tree, np.int64(bucket["partition"]), np.int64(-1))
                recompute_own(tree, node, predicates, scratch.mark)
                place_expression(tree, np.int64(child), slot, predicates, start, count, scratch)
                return True
    return False


@kernel
def choose_sides(tree: Tree, node: Whole, predicates: Records, out_side: Ints) -> bool:
    """A side for each item of a bucket that has no children yet. False: it cannot be split."""
    bucket, detail, count = tree.nodes[node], tree.details[node], np.int64(tree.nodes[node]["count"])
    low, high = np.empty(count), np.empty(count)
    for number in range(count):
        item = tree.items[bucket["first"] + number]
        low[number], high[number] = find_range(
            predicates, np.int64(item["start"]), np.int64(item["count"]), np.int64(bucket["key"])
        )
    if tree.settings[IS_RIGID]:
        is_split = False
        if detail["depth"] >= MAX_HALVINGS:
            return False
        for number in range(count):
            out_side[number] = choose_rigid_side(tree, node, low[number], high[number])
            is_split |= out_side[number] != OVERLAP
        return is_split and detail["cell_low"] < detail["cell_high"]
    least = max(count * tree.settings[ALPHA] // 100, 1)
    if tree.settings[IS_EXHAUSTIVE]:
        is_split = split_exhaustively(low, high, least, out_side)
    else:
        is_split = split_approximately(low, high, least, out_side)
    if not is_split:
        middle = middle_of(low, high)
        is_split = middle == middle and split_space(low, high, middle, out_side)
    return is_split


@kernel
def distribute_items(tree: Tree, node: Whole, owner: Ints, targets: Longs) -> None:
    """Distribute a bucket's items, and its capacity, over others: those of owner 0 stay."""
    begin, count = np.int64(tree.nodes[node]["first"]), np.int64(tree.nodes[node]["count"])
    items = tree.items[begin : begin + count].copy()
    place = np.zeros(targets.shape[0] + 1, np.int64)
    for number in range(count):
        place[owner[number] + 1] += 1
    for target in range(targets.shape[0]):
        place[target + 1] += place[target]
        if targets[target] >= 0:
            bucket, detail = tree.nodes[targets[target]], tree.details[targets[target]]
            bucket["first"], bucket["count"] = begin + place[target], place[target + 1] - place[target]
            detail["capacity"] = bucket["count"]
    for number in range(count):
        to = begin + place[owner[number]]
        place[owner[number]] += 1
        tree.items[to] = items[number]
        slot = items[number]["slot"]
        tree.home[slot], tree.place[slot] = targets[owner[number]], to


@kernel
def split_bucket(tree: Tree, node: Whole, side: Ints, predicates: Records, scratch: Scratch) -> None:
    """Give a bucket its children, and each item to its side."""
    sizes, targets = np.zeros(3, np.int64), np.full(3, -1, np.int64)
    for number in range(side.shape[0]):
        sizes[side[number]] += 1
    targets[OVERLAP] = node
    for which in (LEFT, RIGHT):
        if sizes[which] > 0:
            targets[which] = make_child(tree, node, which, np.int64(0))
    distribute_items(tree, node, side, targets)
    for which in (LEFT, RIGHT):
        if sizes[which] > 0:
            recompute_own(tree, targets[which], predicates, scratch.mark)
            recompute_all(tree, targets[which], scratch.mark)
            enqueue_bucket(scratch, targets[which])
    recompute_own(tree, node, predicates, scratch.mark)


@kernel
def count_askers(tree: Tree, node: Whole, predicates: Records, scratch: Scratch) -> tuple[int, int]:
    """Count the items of a bucket with predicates on each key that is not used above it.

    Returns the number of keys in `scratch.keys`, and the sum over them.
    """
    bucket, asking, keys = tree.nodes[node], scratch.asking, scratch.keys
    n_found = 0
    for number in range(bucket["first"], bucket["first"] + bucket["count"]):
        start = tree.items[number]["start"]
        for place in range(start, start + tree.items[number]["count"]):
            key = predicates[place]["key"]
            is_first = True
            for before in range(start, place):
                is_first &= predicates[before]["key"] != key
            if is_first:
                if asking[key] == 0:
                    keys[n_found] = key
                    n_found += 1
                asking[key] += 1
    for dimension in range(np.int64(bucket["level"])):
        asking[box_key(tree, node, dimension)] = 0
    n_keys, total = 0, np.int64(0)
    for number in range(n_found):
        key = keys[number]
        if asking[key] > 0:
            keys[n_keys] = key
            n_keys += 1
            total += asking[key]
    return n_keys, int(total)


@kernel
def list_askers(
    tree: Tree, node: Whole, predicates: Records, n_keys: int, scratch: Scratch, out_item: Ints
) -> None:
    """List the items of a bucket by key: `scratch.first` says where each run begins."""
    bucket, asking, first = tree.nodes[node], scratch.asking, scratch.first
    begin = np.int32(0)
    for number in range(n_keys):
        first[scratch.keys[number]] = begin
        begin += asking[scratch.keys[number]]
    for number in range(bucket["count"]):
        item = tree.items[bucket["first"] + number]
        start = item["start"]
        for place in range(start, start + item["count"]):
            key = predicates[place]["key"]
            is_first = asking[key] > 0
            for before in range(start, place):
                is_first &= predicates[before]["key"] != key
            if is_first:
                out_item[first[key]] = number
                first[key] += 1
    for number in range(n_keys):
        first[scratch.keys[number]] -= asking[scratch.keys[number]]


@kernel
def assign_items(
    tree: Tree,
    node: Whole,
    predicates: Records,
    n_keys: int,
    total: int,
    scratch: Scratch,
    out_owner: Ints,
) -> int:
    """Assign items to keys, the best ranked first, until the rest fit a leaf: 1 + the key's number, or 0.

    Popular keys gain the most: those with predicates of the most items. Rare first is the reverse order.
    Returns the number of keys with items.
    """
    bucket, asking, keys = tree.nodes[node], scratch.asking, scratch.keys
    run = np.empty(total, np.int32)
    list_askers(tree, node, predicates, n_keys, scratch, run)
    begins, ends = np.empty(n_keys, np.int64), np.empty(n_keys, np.int64)
    for number in range(n_keys):
        begins[number] = scratch.first[keys[number]]
        ends[number] = begins[number] + asking[keys[number]]
    out_owner[:] = 0
    left, n_chosen = np.int64(bucket["count"]), 0
    is_rare_first = tree.settings[IS_RARE_FIRST] != 0
    while left > tree.settings[LEAF]:
        best = -1
        for number in range(n_keys):
            gain = asking[keys[number]]
            is_better = best < 0 or (
                gain < asking[keys[best]] if is_rare_first else gain > asking[keys[best]]
            )
            if gain > 0 and is_better:
                best = number
        if best < 0:
            break
        n_chosen += 1
        for place in range(begins[best], ends[best]):
            chosen = run[place]
            if out_owner[chosen] == 0:
                out_owner[chosen] = 1 + best
                left -= 1
                item = tree.items[bucket["first"] + chosen]
                for number in range(item["start"], item["start"] + item["count"]):
                    # Keys used above count 0; two predicates of an item on a key count twice.
                    asking[predicates[number]["key"]] = max(asking[predicates[number]["key"]] - 1, 0)
        asking[keys[best]] = 0
    for number in range(n_keys):
        asking[keys[number]] = 0
    return n_chosen


@kernel
def partition_bucket(
    tree: Tree, node: Whole, n_keys: int, owner: Ints, predicates: Records, scratch: Scratch
) -> None:
    """Create the partitions of a bucket and move its items to them."""
    bucket, count = tree.nodes[node], np.int64(tree.nodes[node]["count"])
    size, tops = np.zeros(n_keys + 1, np.int64), np.full(n_keys + 1, -1, np.int64)
    for number in range(count):
        size[owner[number]] += 1
    tops[0] = node
    for number in range(1, n_keys + 1):
        if size[number] > 0:
            tops[number] = make_partition(tree, node, np.int64(scratch.keys[number - 1]))
    distribute_items(tree, node, owner, tops)
    if bucket["partition"] >= 0:
        update_rank(tree, np.int64(bucket["partition"]), bucket["count"] - count)
    for number in range(1, n_keys + 1):
        if tops[number] >= 0:
            top = tops[number]
            recompute_own(tree, top, predicates, scratch.mark)
            recompute_all(tree, top, scratch.mark)
            update_rank(tree, np.int64(tree.nodes[top]["partition"]), size[number])
            enqueue_bucket(scratch, top)
            if tree.settings[IS_RIGID]:
                open_cell(tree, top, predicates)
    recompute_own(tree, node, predicates, scratch.mark)


@kernel
def open_cell(tree: Tree, top: Whole, predicates: Records) -> None:
    """Set the cell of a rigid directory to the extent of its items; later ones outside stay at its top."""
    bucket, detail = tree.nodes[top], tree.details[top]
    least, most = np.inf, -np.inf
    for number in range(bucket["first"], bucket["first"] + bucket["count"]):
        start, count = np.int64(tree.items[number]["start"]), np.int64(tree.items[number]["count"])
        low, high = find_range(predicates, start, count, np.int64(bucket["key"]))
        for end in (low, high):
            if -np.inf < end < np.inf:
                least, most = min(least, end), max(most, end)
    detail["cell_low"], detail["cell_high"] = least, most
    bucket["low"], bucket["own_low"], bucket["high"], bucket["own_high"] = -np.inf, -np.inf, np.inf, np.inf


@kernel
def settle_bucket(tree: Tree, node: Whole, predicates: Records, scratch: Scratch) -> int:
    """Push down, split or partition a bucket if needed; new buckets are settled next."""
    bucket, detail, state = tree.nodes[node], tree.details[node], tree.state
    is_split = bucket["left"] >= 0 or bucket["right"] >= 0
    if is_split and bucket["count"] > 0:
        if not can_place(tree, state[LONGEST], scratch):
            return FULL
        if push_item_down(tree, node, predicates, scratch):
            return DONE
    scratch.work[0] -= 1
    count, level = np.int64(bucket["count"]), np.int64(bucket["level"])
    if count <= detail["max_items"]:
        return DONE
    if node > 0 and not is_split and bucket["partitions"] < 0:
        side = np.empty(count, np.int32)
        if choose_sides(tree, node, predicates, side):
            scratch.work[0] += 1
            if not has_capacity(
                tree, scratch, np.int64(2), np.int64(0), 2 * level, 16 * scratch.mark.shape[0] + 64
            ):
                return FULL
            split_bucket(tree, node, side, predicates, scratch)
            return DONE
    n_keys, total = count_askers(tree, node, predicates, scratch)
    n_entries = 8 * n_keys + 4 * min(total, n_keys * n_keys) + 16 * scratch.mark.shape[0]
    if not has_capacity(tree, scratch, np.int64(n_keys), np.int64(0), n_keys * (level + 1), n_entries):
        for number in range(n_keys):
            scratch.asking[scratch.keys[number]] = 0
        scratch.work[0] += 1
        return FULL
    owner = np.empty(count, np.int32)
    assign_items(tree, node, predicates, n_keys, total, scratch, owner)
    partition_bucket(tree, node, n_keys, owner, predicates, scratch)
    # What cannot be distributed further is retried at twice the size.
    left = np.int64(bucket["count"])
    detail["max_items"] = 2 * left if left > tree.settings[LEAF] else tree.settings[LEAF]
    return DONE


@kernel
def settle_buckets(tree: Tree, predicates: Records, scratch: Scratch) -> int:
    """Settle all buckets on the stack."""
    while scratch.work[0] > 0:
        if settle_bucket(tree, np.int64(scratch.work[scratch.work[0]]), predicates, scratch) == FULL:
            return FULL
    return DONE


@kernel
def insert_expressions(
    tree: Tree, slots: Records, predicates: Records, given: Ints, begin: Whole, scratch: Scratch
) -> tuple[int, int]:
    """Add the expressions of slots one by one from `begin` on; each is settled before the next one.

    Returns a status, and the first unfinished one.
    """
    for number in range(begin, given.shape[0]):
        if scratch.work[0] == 0:
            slot = np.int64(given[number])
            start, count = np.int64(slots[slot]["start"]), np.int64(slots[slot]["count"])
            if not can_place(tree, count, scratch):
                return FULL, number
            place_expression(tree, np.int64(-1), slot, predicates, start, count, scratch)
        if settle_buckets(tree, predicates, scratch) == FULL:
            return FULL, number
    return DONE, given.shape[0]
