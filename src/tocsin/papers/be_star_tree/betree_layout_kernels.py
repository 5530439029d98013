"""What a BE*-Tree is made of, and the boxes and weight summaries of its buckets.

| paper | here |
|---|---|
| l-node | the items of a bucket |
| c-node | a bucket, with items and partitions of its own |
| c-directory | the buckets of a partition: each may have a left and a right one, and is the overlapping one |
| p-node, p-directory | a partition; the partitions of a bucket, linked by `next` |
| B^k, its active dimension | a box of as many dimensions as there are partitions above; the last one |
| sum_wt | the summary of a bucket: for each key the greatest weight that an expression below puts on it |

Bucket 0 is the root: it has no box, and all expressions are below it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Floats, Ints, Longs, Ops
from tocsin.indexes.matching.layout import PRODUCT, SUM, Records

#: A bucket as matching reads it, one cache line: range in the active dimension of everything in and below it,
#: and of what is not in its children; children; first partition; items; active key, level.
NODE = np.dtype(
    [
        ("low", np.float64),
        ("high", np.float64),
        ("own_low", np.float64),
        ("own_high", np.float64),
        ("left", np.int32),
        ("right", np.int32),
        ("partitions", np.int32),
        ("first", np.int32),
        ("count", np.int32),
        ("key", np.int32),
        ("partition", np.int32),
        ("level", np.int32),
    ],
    align=True,
)
#: The rest of a bucket: parent in its directory; allocated items, and the number that triggers a split; its
#: boxes; lower bound of its depth; the cell that a rigid bucket stands for.
DETAIL = np.dtype(
    [
        ("parent", np.int32),
        ("capacity", np.int32),
        ("max_items", np.int32),
        ("box", np.int32),
        ("depth", np.int32),
        ("cell_low", np.float64),
        ("cell_high", np.float64),
    ],
    align=True,
)
#: A partition: its key; the next one of the same bucket; that bucket; the top of its directory; rank;
#: expressions in its directory; failed evaluations of predicates by events, and these events.
PARTITION = np.dtype(
    [
        ("key", np.int32),
        ("next", np.int32),
        ("home", np.int32),
        ("top", np.int32),
        ("rank", np.float64),
        ("own_rank", np.float64),
        ("count", np.int64),
        ("lost", np.float64),
        ("seen", np.float64),
    ],
    align=True,
)
#: An expression in a bucket: its score if all weights of an event are 1; its slot, and its predicates; 1 if
#: these decide exactly as they are packed.
ITEM = np.dtype(
    [
        ("score", np.float64),
        ("slot", np.int32),
        ("start", np.int32),
        ("count", np.int32),
        ("is_sure", np.int32),
    ],
    align=True,
)
#: An entry of a summary.
ENTRY = np.dtype([("weight", np.float64), ("key", np.int32)], align=True)

#: Places in `Tree.state`: used length of each column; heads of the free lists of buckets and partitions;
#: wasted items, boxes and entries; the greatest depth so far; upper bounds of the longest summary and of the
#: items of a bucket.
N_NODES = 0
N_PARTITIONS = 1
N_ITEMS = 2
N_BOXES = 3
N_ENTRIES = 4
FREE_NODE = 5
FREE_PARTITION = 6
WASTED = 7
DEPTH = 8
LONGEST = 9
BIGGEST = 10
#: Lengths of columns, and of `Scratch.work`, that a kernel needs when it answers FULL.
WANTED_NODES = 11
WANTED_PARTITIONS = 12
WANTED_ITEMS = 13
WANTED_BOXES = 14
WANTED_ENTRIES = 15
WANTED_WORK = 16
STATES = 17

#: Places in `Tree.settings`.
LEAF = 0
BETA = 1
ALPHA = 2
IS_RIGID = 3
IS_EXHAUSTIVE = 4
IS_RARE_FIRST = 5
SCORE = 6
IS_CAPPED = 7
SETTINGS = 8

#: A bucket's two boxes and summaries: of all in and below it, and of its own without its children.
ALL = 0
OWN = 1
#: The key that stands for an expression's whole weight: the first entry of each summary.
WHOLE = 0
#: More than any bound; times 0 it is 0.
HUGE = 1e308
#: Places in `Tree.summaries`.
FIRST = 0
COUNT = 1
CAPACITY = 2


class Tree(NamedTuple):
    """All columns of a BE*-Tree."""

    nodes: Records
    details: Records
    partitions: Records
    items: Records
    #: float64 (…, 2): low and high of each dimension of each box, ALL before OWN
    boxes: Floats
    #: ENTRY, and int32 (buckets, 2, 3): FIRST, COUNT and CAPACITY of the summaries of a bucket, ALL and OWN
    entries: Records
    summaries: Ints
    #: int32 (slots,): bucket and item of each expression, -1 without one
    home: Ints
    place: Ints
    #: float64 and int8 (slots,): copies of its item's
    score: Floats
    is_exact: Ops
    #: int32 (keys,): the partition of the root for each key, -1 without one
    root: Ints
    #: int64 (STATES,) and (SETTINGS,); ALPHA is in percent
    state: Longs
    settings: Longs


class Scratch(NamedTuple):
    """Scratch of kernels, which restore it before they return."""

    #: float64 (keys,): weights of one expression or bucket; -1 without one
    mark: Floats
    #: int32 (keys,): items with a predicate on a key; 0
    asking: Ints
    #: int32 (keys,): first of a run; anything
    first: Ints
    #: int32 (keys,): keys of a bucket; anything
    keys: Ints
    #: int32: stack of buckets to settle; its first element is their number
    work: Ints


@kernel
def length_of(low: float, high: float) -> float:
    """The length of a range; a point at infinity has none."""
    return 0.0 if low == high else high - low


@kernel
def find_range(predicates: Records, start: Whole, count: Whole, key: Whole) -> tuple[float, float]:
    """The range of an expression's first predicate on a key; NaN without one."""
    for number in range(start, start + count):
        if predicates[number]["key"] == key:
            return predicates[number]["low"], predicates[number]["high"]
    return np.nan, np.nan


@kernel
def mark_weights(predicates: Records, start: Whole, count: Whole, score: Whole, mark: Floats) -> None:
    """Mark an expression's entries of a summary: the most that each key, and all together, add to its score.

    All together are key 0, which no predicate has. Event weights are taken to be 1.
    """
    total = 0.0
    for number in range(start, start + count):
        key, weight = predicates[number]["key"], predicates[number]["weight"]
        if score == PRODUCT:
            mark[key] = abs(weight) * (1.0 if mark[key] < 0.0 else mark[key])
        elif score == SUM:
            mark[key] = max(weight, 0.0) + max(mark[key], 0.0)
        else:
            mark[key] = max(max(weight, 0.0), mark[key])
        total = total + max(weight, 0.0) if score == SUM else max(total, weight)
    # No whole bounds a product: event weights multiply once for each predicate.
    mark[WHOLE] = HUGE if score == PRODUCT else total


@kernel
def unmark_weights(predicates: Records, start: Whole, count: Whole, mark: Floats) -> None:
    """Undo `mark_weights`."""
    mark[WHOLE] = -1.0
    for number in range(start, start + count):
        mark[predicates[number]["key"]] = -1.0


@kernel
def add_entry(tree: Tree, node: Whole, which: Whole, key: Whole, weight: float) -> None:
    """Add an entry to a summary, which moves and doubles its capacity if it is full."""
    summary, state = tree.summaries[node, which], tree.state
    count, capacity = summary[COUNT], np.int64(summary[CAPACITY])
    if count == capacity:
        begin, larger = state[N_ENTRIES], max(2 * capacity, 4)
        state[N_ENTRIES] += larger
        state[WASTED] += capacity
        for number in range(count):
            tree.entries[begin + number] = tree.entries[summary[FIRST] + number]
        summary[FIRST], summary[CAPACITY] = begin, larger
    entry = tree.entries[summary[FIRST] + count]
    entry["key"], entry["weight"] = key, weight
    summary[COUNT] = count + 1
    state[LONGEST] = max(state[LONGEST], count + 1)


@kernel
def raise_summary(
    tree: Tree, node: Whole, which: Whole, predicates: Records, start: Whole, count: Whole, mark: Floats
) -> None:
    """Extend a summary to one more expression. Cost: linear in both."""
    begin = tree.summaries[node, which, FIRST]
    mark_weights(predicates, start, count, tree.settings[SCORE], mark)
    for number in range(begin, begin + tree.summaries[node, which, COUNT]):
        entry = tree.entries[number]
        if mark[entry["key"]] >= 0.0:
            entry["weight"] = max(entry["weight"], mark[entry["key"]])
            mark[entry["key"]] = -1.0
    for number in range(start - 1, start + count):
        key = np.int64(WHOLE if number < start else predicates[number]["key"])
        if mark[key] >= 0.0:
            add_entry(tree, node, which, key, mark[key])
            mark[key] = -1.0


@kernel
def merge_summary(tree: Tree, node: Whole, other: Whole, which: Whole, mark: Floats) -> None:
    """Extend the summary of all below a bucket to a summary of another one, or its own. Cost: linear."""
    begin, mine = tree.summaries[other, which, FIRST], tree.summaries[node, ALL, FIRST]
    end = begin + tree.summaries[other, which, COUNT]
    for number in range(begin, end):
        mark[tree.entries[number]["key"]] = tree.entries[number]["weight"]
    for number in range(mine, mine + tree.summaries[node, ALL, COUNT]):
        entry = tree.entries[number]
        if mark[entry["key"]] >= 0.0:
            entry["weight"] = max(entry["weight"], mark[entry["key"]])
            mark[entry["key"]] = -1.0
    for number in range(begin, end):
        key = np.int64(tree.entries[number]["key"])
        if mark[key] >= 0.0:
            add_entry(tree, node, np.int64(ALL), key, mark[key])
            mark[key] = -1.0


@kernel
def is_summary_touched(
    tree: Tree, node: Whole, which: Whole, predicates: Records, start: Whole, count: Whole, mark: Floats
) -> bool:
    """Whether a removed expression had the greatest weight of some key."""
    mark_weights(predicates, start, count, tree.settings[SCORE], mark)
    begin, is_touched = tree.summaries[node, which, FIRST], False
    for number in range(begin, begin + tree.summaries[node, which, COUNT]):
        entry = tree.entries[number]
        is_touched |= mark[entry["key"]] >= entry["weight"]
    unmark_weights(predicates, start, count, mark)
    return is_touched


@kernel
def box_key(tree: Tree, node: Whole, dimension: Whole) -> int:
    """The key of a dimension of a bucket's boxes, the last one being the active one."""
    for _ in range(tree.nodes[node]["level"] - 1 - dimension):
        node = tree.partitions[tree.nodes[node]["partition"]]["home"]
    return int(tree.nodes[node]["key"])


@kernel
def extend_dimension(
    tree: Tree, node: Whole, which: Whole, dimension: Whole, low: float, high: float
) -> None:
    """Extend one dimension of a box to a range."""
    level = tree.nodes[node]["level"]
    box = tree.boxes[tree.details[node]["box"] + which * level + dimension]
    box[0], box[1] = min(box[0], low), max(box[1], high)


@kernel
def copy_active_dimension(tree: Tree, node: Whole) -> None:
    """Copy the active dimension of both boxes to the bucket, where matching reads it."""
    bucket, first = tree.nodes[node], tree.details[node]["box"]
    level = bucket["level"]
    bucket["low"], bucket["high"] = tree.boxes[first + level - 1, 0], tree.boxes[first + level - 1, 1]
    own = tree.boxes[first + 2 * level - 1]
    bucket["own_low"], bucket["own_high"] = own[0], own[1]


@kernel
def extend_box(
    tree: Tree, node: Whole, which: Whole, predicates: Records, start: Whole, count: Whole
) -> None:
    """Extend a box of a bucket to one more expression."""
    for dimension in range(np.int64(tree.nodes[node]["level"])):
        low, high = find_range(predicates, start, count, np.int64(box_key(tree, node, dimension)))
        extend_dimension(tree, node, which, dimension, low, high)
    copy_active_dimension(tree, node)


@kernel
def include_below(
    tree: Tree, node: Whole, predicates: Records, start: Whole, count: Whole, mark: Floats
) -> None:
    """Extend the bounds of all below a bucket to one more expression."""
    if node > 0 and not tree.settings[IS_RIGID]:
        extend_box(tree, node, np.int64(ALL), predicates, start, count)
        raise_summary(tree, node, np.int64(ALL), predicates, start, count, mark)


@kernel
def include_own(
    tree: Tree, node: Whole, is_item: bool, predicates: Records, start: Whole, count: Whole, mark: Floats
) -> None:
    """Extend a bucket's own box to an expression, and its own summary if that is one of its items."""
    if node > 0 and not tree.settings[IS_RIGID]:
        extend_box(tree, node, np.int64(OWN), predicates, start, count)
        if is_item:
            raise_summary(tree, node, np.int64(OWN), predicates, start, count, mark)


@kernel
def include_bucket(tree: Tree, node: Whole, which: Whole, other: Whole) -> None:
    """Extend a box of a bucket to all of another one, which has at least its dimensions."""
    theirs = tree.details[other]["box"]
    for dimension in range(np.int64(tree.nodes[node]["level"])):
        box = tree.boxes[theirs + dimension]
        extend_dimension(tree, node, which, dimension, box[0], box[1])


@kernel
def recompute_own(tree: Tree, node: Whole, predicates: Records, mark: Floats) -> None:
    """Recompute the own box and summary of a bucket, from its items and the partitions below it."""
    bucket, own = tree.nodes[node], np.int64(OWN)
    if node == 0 or tree.settings[IS_RIGID]:
        return
    first, level = np.int64(tree.details[node]["box"]), np.int64(bucket["level"])
    tree.boxes[first + level : first + 2 * level, 0] = np.inf
    tree.boxes[first + level : first + 2 * level, 1] = -np.inf
    tree.summaries[node, OWN, COUNT] = 0
    for number in range(bucket["first"], bucket["first"] + bucket["count"]):
        start, count = np.int64(tree.items[number]["start"]), np.int64(tree.items[number]["count"])
        for dimension in range(level):
            low, high = find_range(predicates, start, count, np.int64(box_key(tree, node, dimension)))
            extend_dimension(tree, node, own, dimension, low, high)
        raise_summary(tree, node, own, predicates, start, count, mark)
    partition = bucket["partitions"]
    while partition >= 0:
        include_bucket(tree, node, own, np.int64(tree.partitions[partition]["top"]))
        partition = tree.partitions[partition]["next"]
    copy_active_dimension(tree, node)


@kernel
def recompute_all(tree: Tree, node: Whole, mark: Floats) -> None:
    """Recompute box and summary of all below a bucket, from its own and its descendants'."""
    bucket, below = tree.nodes[node], np.int64(ALL)
    if node == 0 or tree.settings[IS_RIGID]:
        return
    first, level = np.int64(tree.details[node]["box"]), np.int64(bucket["level"])
    tree.boxes[first : first + level] = tree.boxes[first + level : first + 2 * level]
    tree.summaries[node, ALL, COUNT] = 0
    merge_summary(tree, node, node, np.int64(OWN), mark)
    for child in (bucket["left"], bucket["right"]):
        if child >= 0:
            include_bucket(tree, node, below, np.int64(child))
            merge_summary(tree, node, np.int64(child), below, mark)
    partition = bucket["partitions"]
    while partition >= 0:
        merge_summary(tree, node, np.int64(tree.partitions[partition]["top"]), below, mark)
        partition = tree.partitions[partition]["next"]
    copy_active_dimension(tree, node)


@kernel
def order_buckets(tree: Tree, stack: Ints, out_nodes: Ints, out_partitions: Ints) -> tuple[int, int]:
    """Buckets and partitions in the order in which an event that meets all of them visits them.

    Returns the number of each.
    """
    n_nodes, n_partitions, n_stack = 0, 0, 1
    stack[0] = 0
    while n_stack > 0:
        n_stack -= 1
        bucket = tree.nodes[stack[n_stack]]
        out_nodes[n_nodes] = stack[n_stack]
        n_nodes += 1
        for child in (bucket["left"], bucket["right"]):
            if child >= 0:
                stack[n_stack] = child
                n_stack += 1
        partition = bucket["partitions"]
        while partition >= 0:
            out_partitions[n_partitions] = partition
            n_partitions += 1
            stack[n_stack] = tree.partitions[partition]["top"]
            n_stack += 1
            partition = tree.partitions[partition]["next"]
    return n_nodes, n_partitions
