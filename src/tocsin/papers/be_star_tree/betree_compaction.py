"""Rewrites a BE*-Tree so that memory follows the order in which events visit it."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.types import Ints
from tocsin.indexes.matching.conjunctions import runs_of, starts_of
from tocsin.papers.be_star_tree.betree_layout_kernels import (
    CAPACITY,
    COUNT,
    FIRST,
    FREE_NODE,
    FREE_PARTITION,
    IS_RIGID,
    N_BOXES,
    N_ENTRIES,
    N_ITEMS,
    N_NODES,
    N_PARTITIONS,
    WASTED,
    Tree,
    order_buckets,
)


def compacted(tree: Tree) -> Tree:
    """The same tree with buckets and partitions in visiting order, without gaps. Cost: linear.

    Items, boxes and summaries follow the order of their buckets.
    """
    return _without_gaps(_in_order(tree))


def _in_order(tree: Tree) -> Tree:
    """Buckets and partitions in visiting order, without free ones."""
    order, stack = np.empty(len(tree.nodes), np.int32), np.empty(len(tree.nodes), np.int32)
    listed = np.empty(len(tree.partitions), np.int32)
    n_nodes, n_partitions = order_buckets(tree, stack, order, listed)
    node_of, partition_of = _numbers(order[:n_nodes]), _numbers(listed[:n_partitions])
    nodes, details = tree.nodes[order[:n_nodes]], tree.details[order[:n_nodes]]
    partitions = tree.partitions[listed[:n_partitions]]
    for links, fields, numbers in (
        (nodes, ("left", "right"), node_of),
        (nodes, ("partition", "partitions"), partition_of),
        (details, ("parent",), node_of),
        (partitions, ("home", "top"), node_of),
        (partitions, ("next",), partition_of),
    ):
        for field in fields:
            links[field] = numbers[links[field]]
    state = tree.state
    state[[N_NODES, N_PARTITIONS]] = n_nodes, n_partitions
    state[[FREE_NODE, FREE_PARTITION]] = -1
    return tree._replace(
        nodes=nodes,
        details=details,
        summaries=tree.summaries[order[:n_nodes]],
        partitions=_padded(partitions),
        home=node_of[tree.home],
        root=partition_of[tree.root],
    )


def _without_gaps(tree: Tree) -> Tree:
    """Items, boxes and entries bucket by bucket, without spare capacity."""
    nodes, details, state = tree.nodes, tree.details, tree.state
    counts = nodes["count"]
    items = tree.items[runs_of(nodes["first"].astype(np.int64), counts)]
    nodes["first"], details["capacity"] = starts_of(counts), counts
    tree.place[items["slot"]] = np.arange(len(items))
    sizes = np.zeros_like(counts) if tree.settings[IS_RIGID] else 2 * nodes["level"]
    boxes = tree.boxes[runs_of(details["box"].astype(np.int64), sizes)]
    details["box"] = starts_of(sizes)
    kept = tree.summaries.reshape(-1, 3)
    entries = tree.entries[runs_of(kept[:, FIRST].astype(np.int64), kept[:, COUNT])]
    kept[:, FIRST], kept[:, CAPACITY] = starts_of(kept[:, COUNT]), kept[:, COUNT]
    state[[N_ITEMS, N_BOXES, N_ENTRIES, WASTED]] = len(items), len(boxes), len(entries), 0
    return tree._replace(items=_padded(items), boxes=_padded(boxes), entries=_padded(entries))


def _numbers(order: Ints) -> Ints:
    """The position of each number in an order; -1 for those not in it, and for -1."""
    numbers = np.full((int(order.max()) if len(order) else -1) + 2, -1, np.int32)
    numbers[order] = np.arange(len(order))
    return numbers


def _padded(rows: np.ndarray) -> np.ndarray:
    """The same rows, at least one."""
    return rows if len(rows) else np.zeros((1, *rows.shape[1:]), rows.dtype)
