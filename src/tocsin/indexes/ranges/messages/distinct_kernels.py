"""Kernels of DISTINCT messages: the ranges, as rectangles, that get or lose a value in a batch.

Notation: a *node* is a pair of a value's code and an x at which some rows have it. One skip list holds the
nodes, ordered by code, then x. A range has a value if it holds a node of it. B and A are the nodes of a value
before and after a batch: a range that holds a node of A and none of B gets the value, one that holds a node
of B and none of A loses it. Together these ranges are the value's maximum affected range (Mar).

The ranges that get it are divided by their first node q, which is in A but not in B: they begin after the
node before q, in A or B, and end before the next node of B. The ranges that lose it are divided in the same
way.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Floats, Ints, Longs

#: A node reaches each level with a quarter of the probability of the one below: enough for millions.
LEVELS = 12
#: The node before all others.
HEAD = 0

#: Positions in `SkipList.heads`: nodes made, the first one free.
N_MADE = 0
FREE = 1

#: Positions in the cursor: the next change, nodes touched.
CHANGE = 0
N_TOUCHED = 1


class SkipList(NamedTuple):
    """The skip list. A free node's `after` on the lowest level is the next free one.

    Not a treap, as of rows of equal code: a node that came or went needs both neighbours, one link away.
    """

    code: Annotated[Longs, Column("nodes", fill=-1)]
    x: Annotated[Floats, Column("nodes")]
    #: rows that have the code at x; before the batch, and now
    was: Annotated[Ints, Column("nodes")]
    now: Annotated[Ints, Column("nodes")]
    #: whether the batch has touched it; only then `was` says anything
    is_touched: Annotated[Bools, Column("nodes")]
    #: the next node on each level, -1 for none
    after: Annotated[Ints, Column("nodes", LEVELS, fill=-1)]
    #: the node before, on the lowest level
    before: Annotated[Ints, Column("nodes", fill=-1)]
    #: scratch: where the ranges of a changed node end
    edge: Annotated[Floats, Column("nodes", fill=None)]
    #: see N_MADE
    heads: Annotated[Longs, Column(2)]


@kernel
def level_of(node: int) -> int:
    """The highest level of a node: by chance, but always the same for the same node."""
    mixed = (node * 2654435761 >> 5) ^ node
    level = 0
    while mixed & 3 == 3 and level < LEVELS - 1:
        level += 1
        mixed >>= 2
    return level


@kernel
def find_node(nodes: SkipList, code: int, x: float, out_path: Ints) -> int:
    """The node of a pair, -1 for none; on each level the last node before it. Logarithmic."""
    at = HEAD
    following = -1
    for level in range(LEVELS - 1, -1, -1):
        following = nodes.after[at, level]
        while following >= 0 and (
            nodes.code[following] < code or (nodes.code[following] == code and nodes.x[following] < x)
        ):
            at = following
            following = nodes.after[at, level]
        out_path[level] = at
    if following >= 0 and nodes.code[following] == code and nodes.x[following] == x:
        return int(following)
    return -1


@kernel
def insert_node(nodes: SkipList, code: int, x: float, path: Ints) -> int:
    """A new node after those of `path`; -1 if there is no capacity. Constant."""
    node = int(nodes.heads[FREE])
    if node >= 0:
        nodes.heads[FREE] = nodes.after[node, 0]
    else:
        node = int(nodes.heads[N_MADE])
        if node == len(nodes.code):
            return -1
        nodes.heads[N_MADE] = node + 1
    nodes.code[node] = code
    nodes.x[node] = x
    nodes.was[node] = nodes.now[node] = 0
    nodes.is_touched[node] = False
    for level in range(level_of(node) + 1):
        nodes.after[node, level] = nodes.after[path[level], level]
        nodes.after[path[level], level] = node
    nodes.before[node] = path[0]
    if nodes.after[node, 0] >= 0:
        nodes.before[nodes.after[node, 0]] = node
    return node


@kernel
def change_counts(
    nodes: SkipList,
    code: Longs,
    x: Floats,
    by: Ints,
    path: Ints,
    out_node: Longs,
    out_change: Ints,
    cursor: Longs,
) -> bool:
    """Add `by` to the rows of each pair, from the cursor on; a negative code is no pair. False: no capacity.

    Each node touched is written once, with the change that touched it first. No count gets below zero.
    """
    while cursor[CHANGE] < len(code):
        change = cursor[CHANGE]
        if code[change] >= 0:
            node = find_node(nodes, code[change], x[change], path)
            if node < 0:
                node = insert_node(nodes, code[change], x[change], path)
            if node < 0:
                return False
            if not nodes.is_touched[node]:
                nodes.is_touched[node] = True
                nodes.was[node] = nodes.now[node]
                out_node[cursor[N_TOUCHED]] = node
                out_change[cursor[N_TOUCHED]] = change
                cursor[N_TOUCHED] += 1
            nodes.now[node] += by[change]
        cursor[CHANGE] = change + 1
    return True


@kernel
def find_edges(nodes: SkipList, touched: Longs, out_outer_lo: Floats, out_outer_hi: Floats) -> None:
    """The Mar of each node that came or went. `touched` is in descending order, so that what comes after a
    node is known before it. Constant a node."""
    for i in range(len(touched)):
        node = int(touched[i])
        is_gone = nodes.now[node] == 0
        left, right = nodes.before[node], nodes.after[node, 0]
        edge = np.nan
        if right >= 0 and nodes.code[right] == nodes.code[node]:
            was_there = nodes.was[right] > 0 if nodes.is_touched[right] else True
            is_end = nodes.now[right] > 0 if is_gone else was_there
            edge = nodes.x[right] if is_end else nodes.edge[right]
        nodes.edge[node] = edge
        out_outer_lo[i] = nodes.x[left] if left != HEAD and nodes.code[left] == nodes.code[node] else np.nan
        out_outer_hi[i] = edge


@kernel
def forget_nodes(nodes: SkipList, touched: Longs, path: Ints) -> None:
    """End a batch: nodes without rows go. Logarithmic each."""
    for i in range(len(touched)):
        node = int(touched[i])
        nodes.is_touched[node] = False
        if nodes.now[node] == 0:
            find_node(nodes, nodes.code[node], nodes.x[node], path)
            for level in range(level_of(node) + 1):
                nodes.after[path[level], level] = nodes.after[node, level]
            if nodes.after[node, 0] >= 0:
                nodes.before[nodes.after[node, 0]] = path[0]
            nodes.after[node, 0] = nodes.heads[FREE]
            nodes.heads[FREE] = node
