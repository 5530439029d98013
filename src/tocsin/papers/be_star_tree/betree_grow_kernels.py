"""Kernels that add expressions to a BE*-Tree and remove them.

Every kernel checks capacity first, and answers FULL before it has changed anything.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.indexes.matching.layout import Records
from tocsin.papers.be_star_tree.betree_layout_kernels import (
    ALL,
    BETA,
    BIGGEST,
    CAPACITY,
    DEPTH,
    FREE_NODE,
    FREE_PARTITION,
    IS_RARE_FIRST,
    IS_RIGID,
    LEAF,
    N_BOXES,
    N_ENTRIES,
    N_ITEMS,
    N_NODES,
    N_PARTITIONS,
    WANTED_BOXES,
    WANTED_ENTRIES,
    WANTED_ITEMS,
    WANTED_NODES,
    WANTED_PARTITIONS,
    WANTED_WORK,
    WASTED,
    Scratch,
    Tree,
    find_range,
    include_below,
    include_bucket,
    include_own,
    length_of,
    merge_summary,
)
from tocsin.papers.be_star_tree.betree_split_kernels import LEFT, OVERLAP, RIGHT


@kernel
def has_capacity(
    tree: Tree, scratch: Scratch, nodes: Whole, items: Whole, levels: Whole, entries: Whole
) -> bool:
    """Whether there is capacity for new buckets, each with a partition and to be settled, and the rest."""
    state = tree.state
    state[WANTED_NODES] = state[N_NODES] + nodes
    state[WANTED_PARTITIONS] = state[N_PARTITIONS] + nodes
    state[WANTED_ITEMS] = state[N_ITEMS] + items
    state[WANTED_BOXES] = state[N_BOXES] + 2 * levels
    state[WANTED_ENTRIES] = state[N_ENTRIES] + entries
    state[WANTED_WORK] = scratch.work[0] + nodes + 4
    return bool(
        state[WANTED_NODES] <= tree.nodes.shape[0]
        and state[WANTED_PARTITIONS] <= tree.partitions.shape[0]
        and state[WANTED_ITEMS] <= tree.items.shape[0]
        and state[WANTED_BOXES] <= tree.boxes.shape[0]
        and state[WANTED_ENTRIES] <= tree.entries.shape[0]
        and state[WANTED_WORK] <= scratch.work.shape[0]
    )


@kernel
def make_node(tree: Tree, partition: Whole, parent: Whole, level: Whole, capacity: Whole) -> int:
    """A new empty bucket with capacity for items."""
    state = tree.state
    node = state[FREE_NODE]
    if node >= 0:
        state[FREE_NODE] = tree.details[node]["parent"]
    else:
        node = state[N_NODES]
        state[N_NODES] += 1
    bucket, detail = tree.nodes[node], tree.details[node]
    bucket["low"], bucket["high"], bucket["own_low"], bucket["own_high"] = np.inf, -np.inf, np.inf, -np.inf
    bucket["left"], bucket["right"], bucket["partitions"] = -1, -1, -1
    bucket["first"], bucket["count"] = state[N_ITEMS], 0
    bucket["partition"], bucket["level"] = partition, level
    bucket["key"] = tree.partitions[partition]["key"] if partition >= 0 else 0
    detail["parent"], detail["capacity"], detail["max_items"] = parent, capacity, tree.settings[LEAF]
    detail["box"] = state[N_BOXES]
    detail["cell_low"], detail["cell_high"] = -np.inf, np.inf
    above = parent if parent >= 0 or partition < 0 else tree.partitions[partition]["home"]
    detail["depth"] = tree.details[above]["depth"] + 1 if above >= 0 else 0
    state[DEPTH] = max(state[DEPTH], detail["depth"])
    state[N_ITEMS] += capacity
    if not tree.settings[IS_RIGID]:
        state[N_BOXES] += 2 * level
        tree.boxes[detail["box"] : state[N_BOXES], 0] = np.inf
        tree.boxes[detail["box"] : state[N_BOXES], 1] = -np.inf
    tree.summaries[node] = 0
    return int(node)


@kernel
def free_node(tree: Tree, node: Whole) -> None:
    """Free an empty bucket."""
    waste = tree.details[node]["capacity"] + 2 * tree.nodes[node]["level"]
    tree.state[WASTED] += waste + tree.summaries[node, :, CAPACITY].sum()
    tree.nodes[node]["level"] = -1
    tree.details[node]["parent"] = tree.state[FREE_NODE]
    tree.state[FREE_NODE] = node


@kernel
def make_partition(tree: Tree, home: Whole, key: Whole) -> int:
    """A new partition of a bucket, with one bucket of its own, which is returned."""
    state = tree.state
    partition = state[FREE_PARTITION]
    if partition >= 0:
        state[FREE_PARTITION] = tree.partitions[partition]["next"]
    else:
        partition = state[N_PARTITIONS]
        state[N_PARTITIONS] += 1
    made = tree.partitions[partition]
    made["key"], made["next"], made["home"] = key, tree.nodes[home]["partitions"], home
    made["rank"], made["own_rank"], made["count"], made["lost"], made["seen"] = 0.0, 0.0, 0, 0.0, 0.0
    tree.nodes[home]["partitions"] = partition
    if home == 0:
        tree.root[key] = partition
    level = np.int64(tree.nodes[home]["level"])
    top = make_node(tree, partition, np.int64(-1), level + 1, np.int64(0))
    made["top"] = top
    return top


@kernel
def free_partition(tree: Tree, partition: Whole) -> int:
    """Free a partition whose top is gone. Returns the bucket that it belonged to."""
    gone = tree.partitions[partition]
    home, key, rank = gone["home"], gone["key"], gone["rank"]
    before = tree.nodes[home]["partitions"]
    if before == partition:
        tree.nodes[home]["partitions"] = gone["next"]
    else:
        while tree.partitions[before]["next"] != partition:
            before = tree.partitions[before]["next"]
        tree.partitions[before]["next"] = gone["next"]
    if home == 0:
        tree.root[key] = -1
    gone["home"], gone["next"] = -1, tree.state[FREE_PARTITION]
    tree.state[FREE_PARTITION] = partition
    above = tree.nodes[home]["partition"]
    while above >= 0:
        tree.partitions[above]["rank"] -= rank
        above = tree.nodes[tree.partitions[above]["home"]]["partition"]
    return int(home)


@kernel
def update_rank(tree: Tree, partition: Whole, change: Whole) -> None:
    """Add new expressions to a partition's rank, and to the ranks above.

    The gain of a bucket's items is the number of predicates decided on the path to them: the levels. The loss
    is evaluations that fail. A partition's rank is its own and that of those below.
    """
    one = tree.partitions[partition]
    one["count"] += change
    level = tree.nodes[one["top"]]["level"]
    own = one["count"] * level - one["lost"] / max(one["seen"], 1.0)
    difference = own - one["own_rank"]
    one["own_rank"] = own
    while partition >= 0:
        tree.partitions[partition]["rank"] += difference
        partition = tree.nodes[tree.partitions[partition]["home"]]["partition"]


@kernel
def put_item(tree: Tree, node: Whole, slot: Whole, start: Whole, count: Whole) -> None:
    """Add an item; a full bucket moves its items and doubles its capacity."""
    bucket, detail, state = tree.nodes[node], tree.details[node], tree.state
    held = bucket["count"]
    if held == detail["capacity"]:
        begin, capacity = state[N_ITEMS], max(2 * np.int64(held), 2)
        state[N_ITEMS] += capacity
        state[WASTED] += held
        for number in range(held):
            tree.items[begin + number] = tree.items[bucket["first"] + number]
            tree.place[tree.items[begin + number]["slot"]] = begin + number
        bucket["first"], detail["capacity"] = begin, capacity
    place = bucket["first"] + held
    item = tree.items[place]
    item["slot"], item["start"], item["count"] = slot, start, count
    item["score"], item["is_sure"] = tree.score[slot], tree.is_exact[slot]
    tree.home[slot], tree.place[slot] = node, place
    bucket["count"] = held + 1
    state[BIGGEST] = max(state[BIGGEST], held + 1)


@kernel
def take_item(tree: Tree, node: Whole, place: Whole) -> None:
    """Remove an item; the last of its bucket takes its place."""
    bucket = tree.nodes[node]
    last = bucket["first"] + bucket["count"] - 1
    tree.items[place] = tree.items[last]
    tree.place[tree.items[place]["slot"]] = place
    bucket["count"] -= 1


@kernel
def choose_partition(tree: Tree, node: Whole, predicates: Records, start: Whole, count: Whole) -> int:
    """The partition of a bucket with the best rank that an expression can go into; -1 without one."""
    best, best_rank = np.int64(-1), 0.0
    partition = np.int64(tree.nodes[node]["partitions"])
    number = start
    while (partition >= 0) if node > 0 else (number < start + count):
        if node == 0:
            partition = np.int64(tree.root[predicates[number]["key"]])
            number += 1
        if partition >= 0:
            key, rank = tree.partitions[partition]["key"], tree.partitions[partition]["rank"]
            if tree.settings[IS_RARE_FIRST]:
                rank = -rank
            low, _ = find_range(predicates, start, count, np.int64(key))
            if low == low and (best < 0 or rank > best_rank):
                best, best_rank = partition, rank
            if node > 0:
                partition = np.int64(tree.partitions[partition]["next"])
    return int(best)


@kernel
def insert_parent(tree: Tree, node: Whole) -> int:
    """Insert a bucket above `node`, which becomes its left child: the directory grows upwards."""
    partition, parent = tree.nodes[node]["partition"], tree.details[node]["parent"]
    above = make_node(
        tree, np.int64(partition), np.int64(parent), np.int64(tree.nodes[node]["level"]), np.int64(2)
    )
    tree.nodes[above]["left"] = node
    tree.details[node]["parent"] = above
    if parent < 0:
        tree.partitions[partition]["top"] = above
    elif tree.nodes[parent]["left"] == node:
        tree.nodes[parent]["left"] = above
    else:
        tree.nodes[parent]["right"] = above
    tree.state[DEPTH] += 1
    return above


@kernel
def make_child(tree: Tree, node: Whole, side: Whole, capacity: Whole) -> int:
    """A new bucket on one side of another; a rigid one has half of its cell."""
    bucket, detail = tree.nodes[node], tree.details[node]
    child = make_node(tree, np.int64(bucket["partition"]), node, np.int64(bucket["level"]), capacity)
    if side == LEFT:
        bucket["left"] = child
    else:
        bucket["right"] = child
    if tree.settings[IS_RIGID]:
        middle = detail["cell_low"] / 2 + detail["cell_high"] / 2
        low = detail["cell_low"] if side == LEFT else np.nextafter(middle, np.inf)
        high = middle if side == LEFT else detail["cell_high"]
        half, made = tree.details[child], tree.nodes[child]
        half["cell_low"], half["cell_high"] = low, high
        made["low"], made["own_low"], made["high"], made["own_high"] = low, low, high, high
    return child


@kernel
def choose_rigid_side(tree: Tree, node: Whole, low: float, high: float) -> int:
    """The half of a rigid bucket's cell that holds a range."""
    cell_low, cell_high = tree.details[node]["cell_low"], tree.details[node]["cell_high"]
    middle = cell_low / 2 + cell_high / 2
    if cell_low < cell_high and cell_low <= low and high <= middle:
        return LEFT
    if cell_low < cell_high and middle < low and high <= cell_high:
        return RIGHT
    return OVERLAP


@kernel
def choose_side(tree: Tree, node: Whole, low: float, high: float) -> int:
    """The child of a split bucket that a range goes to: the one that it meets, or that grows the least.

    Children never meet: what meets both is for neither.
    """
    if tree.settings[IS_RIGID]:
        return choose_rigid_side(tree, node, low, high)
    left, right = tree.nodes[node]["left"], tree.nodes[node]["right"]
    if left < 0 or right < 0:
        # An only child does not grow: it would take all of its parent, and so would its own only child.
        only = tree.nodes[max(left, right)]
        if not (low <= only["high"] and only["low"] <= high):
            return RIGHT if left >= 0 else LEFT
        if only["low"] <= low and high <= only["high"]:
            return LEFT if left >= 0 else RIGHT
        return OVERLAP
    one, other = tree.nodes[left], tree.nodes[right]
    meets_left = low <= one["high"] and one["low"] <= high
    meets_right = low <= other["high"] and other["low"] <= high
    if meets_left or meets_right:
        return OVERLAP if meets_left and meets_right else (LEFT if meets_left else RIGHT)
    left_low, left_high = min(low, one["low"]), max(high, one["high"])
    right_low, right_high = min(low, other["low"]), max(high, other["high"])
    # Lengths may both be infinite: a side that would swallow the other one is never right.
    if left_low <= other["high"] and other["low"] <= left_high:
        return RIGHT
    if right_low <= one["high"] and one["low"] <= right_high:
        return LEFT
    return LEFT if length_of(left_low, left_high) < length_of(right_low, right_high) else RIGHT


@kernel
def enqueue_bucket(scratch: Scratch, node: Whole) -> None:
    """Push a bucket on the stack of buckets to settle."""
    scratch.work[0] += 1
    scratch.work[scratch.work[0]] = node


@kernel
def find_enclosed(tree: Tree, node: Whole, low: float, high: float, predicates: Records) -> int:
    """The first item of a bucket that lies within a range of the active dimension; -1 without one."""
    bucket = tree.nodes[node]
    for number in range(bucket["first"], bucket["first"] + bucket["count"]):
        start, count = np.int64(tree.items[number]["start"]), np.int64(tree.items[number]["count"])
        item_low, item_high = find_range(predicates, start, count, np.int64(bucket["key"]))
        if low <= item_low and item_high <= high:
            return number
    return -1


@kernel
def enter_bucket(
    tree: Tree, top: Whole, predicates: Records, start: Whole, count: Whole, scratch: Scratch
) -> Whole:
    """Go down a directory to the smallest bucket for an expression, and extend those on the path.

    Buckets with items that a child now contains are enqueued.
    """
    node = top
    low, high = find_range(predicates, start, count, np.int64(tree.nodes[top]["key"]))
    while True:
        bucket = tree.nodes[node]
        if bucket["left"] < 0 and bucket["right"] < 0:
            break
        if not tree.settings[IS_RIGID]:
            wide = length_of(min(low, bucket["low"]), max(high, bucket["high"]))
            if wide > tree.settings[BETA] * length_of(bucket["low"], bucket["high"]):
                above = np.int64(insert_parent(tree, node))
                include_bucket(tree, above, np.int64(ALL), node)
                merge_summary(tree, above, node, np.int64(ALL), scratch.mark)
                node = above
                break
        side = choose_side(tree, node, low, high)
        if side == OVERLAP:
            break
        include_below(tree, node, predicates, start, count, scratch.mark)
        child = np.int64(bucket["left"] if side == LEFT else bucket["right"])
        if child < 0:
            child = np.int64(make_child(tree, node, side, np.int64(2)))
        child_low, child_high = min(low, tree.nodes[child]["low"]), max(high, tree.nodes[child]["high"])
        if find_enclosed(tree, node, child_low, child_high, predicates) >= 0:
            enqueue_bucket(scratch, node)
        node = child
    include_below(tree, node, predicates, start, count, scratch.mark)
    return node


@kernel
def place_expression(
    tree: Tree, top: Whole, slot: Whole, predicates: Records, start: Whole, count: Whole, scratch: Scratch
) -> None:
    """Insert an expression below a bucket, -1 for the root; enqueue the bucket that this may overfill."""
    node: Whole = np.int64(0)
    if top >= 0:
        node = enter_bucket(tree, top, predicates, start, count, scratch)
    while True:
        # The own box covers everything but the children, partitions included.
        partition = choose_partition(tree, node, predicates, start, count)
        include_own(tree, node, partition < 0, predicates, start, count, scratch.mark)
        if partition < 0:
            break
        below = np.int64(tree.partitions[partition]["top"])
        node = enter_bucket(tree, below, predicates, start, count, scratch)
    put_item(tree, node, slot, start, count)
    if tree.nodes[node]["partition"] >= 0:
        update_rank(tree, np.int64(tree.nodes[node]["partition"]), np.int64(1))
    enqueue_bucket(scratch, node)
