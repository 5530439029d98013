"""Ordered lists of rows that know their places: a treap for each list, all in one pool of nodes.

A list is ordered by (key, tie). Where a row would be in it, and which row is at a place, are found on the way
down from the top, as each node knows how many are below it. Nodes rank above those below them by a hash of
their numbers, so that trees are balanced by chance, but always the same for the same history.

This is a leaf file.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.jit import inlined, lean_kernel

#: Odd factors and a mask of 32 bits: what they make of a number can be undone, so that no two nodes have
#: the same rank.
SPREAD = 2654435769
SPREAD_AGAIN = 2246822507
RANKS = (1 << 32) - 1

#: Places in `Nodes.state`: the first free node, -1 for none; nodes ever used; nodes in use.
FREE = 0
MADE = 1
USED = 2
STATE_SIZE = 3


class Nodes(NamedTuple):
    """The nodes of all lists."""

    #: float64 (nodes,), int64 (nodes,): what the list is ordered by, ascending.
    key: Floats
    tie: Longs
    #: int32 (nodes,): slot of the row.
    row: Ints
    #: int32 (nodes,): the node just below on the side of those before it, -1 for none; the next free node.
    before: Ints
    #: int32 (nodes,): the same, of those after it.
    after: Ints
    #: int32 (nodes,): nodes from this one down.
    size: Ints
    #: int64 (STATE_SIZE,)
    state: Longs


@inlined
def rank_of(node: int) -> int:
    """How high a node is: no two have the same rank."""
    spread = (node * SPREAD) & RANKS
    spread ^= spread >> 15
    return (spread * SPREAD_AGAIN) & RANKS


@inlined
def precedes(nodes: Nodes, node: int, key: float, tie: int) -> bool:
    """Whether a node comes before (key, tie)."""
    return bool(nodes.key[node] < key or (nodes.key[node] == key and nodes.tie[node] < tie))


@inlined
def size_of(nodes: Nodes, node: int) -> int:
    """Nodes from this one down; 0 for none."""
    return int(nodes.size[node]) if node >= 0 else 0


@inlined
def hang(nodes: Nodes, top: Ints, which: int, above: int, is_after: bool, node: int) -> None:
    """Put a node, -1 for none, below another one, on one of its sides; on top of the list, if that is -1."""
    if above < 0:
        top[which] = node
    elif is_after:
        nodes.after[above] = node
    else:
        nodes.before[above] = node


@lean_kernel
def count_before(nodes: Nodes, node: int, key: float, tie: int) -> int:
    """How many of those from `node` down come before (key, tie). Cost: logarithmic."""
    count = 0
    while node >= 0:
        if precedes(nodes, node, key, tie):
            count += size_of(nodes, int(nodes.before[node])) + 1
            node = int(nodes.after[node])
        else:
            node = int(nodes.before[node])
    return count


@lean_kernel
def find_node(nodes: Nodes, node: int, place: int) -> int:
    """The node at a place, from 0, among those from `node` down, where there are more. Cost: logarithmic."""
    while True:
        n_before = size_of(nodes, int(nodes.before[node]))
        if place == n_before:
            return node
        if place < n_before:
            node = int(nodes.before[node])
        else:
            place -= n_before + 1
            node = int(nodes.after[node])


@inlined
def make_node(nodes: Nodes) -> int:
    """A node that is in no list. The caller has seen that there is one."""
    node = int(nodes.state[FREE])
    if node >= 0:
        nodes.state[FREE] = nodes.before[node]
    else:
        node = int(nodes.state[MADE])
        nodes.state[MADE] += 1
    nodes.state[USED] += 1
    return node


@lean_kernel
def put_row(nodes: Nodes, top: Ints, which: int, key: float, tie: int, row: int) -> None:
    """Put a row into a list. There is a free node. Cost: logarithmic."""
    new = make_node(nodes)
    rank = rank_of(new)
    above, is_after = -1, False
    node = int(top[which])
    while node >= 0 and rank_of(node) > rank:
        nodes.size[node] += 1
        above, is_after = node, precedes(nodes, node, key, tie)
        node = int(nodes.after[node]) if is_after else int(nodes.before[node])
    hang(nodes, top, which, above, is_after, new)
    nodes.key[new] = key
    nodes.tie[new] = tie
    nodes.row[new] = row
    nodes.size[new] = size_of(nodes, node) + 1
    # What is below is split: those before the row go to one side of it, those after to the other.
    n_before = count_before(nodes, node, key, tie)
    last_before, last_after = -1, -1
    while node >= 0:
        if precedes(nodes, node, key, tie):
            inside = size_of(nodes, int(nodes.before[node])) + 1
            nodes.size[node] = n_before
            n_before -= inside
            if last_before < 0:
                nodes.before[new] = node
            else:
                nodes.after[last_before] = node
            last_before = node
            node = int(nodes.after[node])
        else:
            nodes.size[node] -= n_before
            if last_after < 0:
                nodes.after[new] = node
            else:
                nodes.before[last_after] = node
            last_after = node
            node = int(nodes.before[node])
    if last_before < 0:
        nodes.before[new] = -1
    else:
        nodes.after[last_before] = -1
    if last_after < 0:
        nodes.after[new] = -1
    else:
        nodes.before[last_after] = -1


@lean_kernel
def take_row(nodes: Nodes, top: Ints, which: int, key: float, tie: int) -> None:
    """Take the row of (key, tie), which is there, out of a list. Cost: logarithmic."""
    above, is_after = -1, False
    node = int(top[which])
    while nodes.key[node] != key or nodes.tie[node] != tie:
        nodes.size[node] -= 1
        above, is_after = node, precedes(nodes, node, key, tie)
        node = int(nodes.after[node]) if is_after else int(nodes.before[node])
    one, other = int(nodes.before[node]), int(nodes.after[node])
    while one >= 0 and other >= 0:
        size = nodes.size[one] + nodes.size[other]
        if rank_of(one) > rank_of(other):
            hang(nodes, top, which, above, is_after, one)
            nodes.size[one] = size
            above, is_after = one, True
            one = int(nodes.after[one])
        else:
            hang(nodes, top, which, above, is_after, other)
            nodes.size[other] = size
            above, is_after = other, False
            other = int(nodes.before[other])
    hang(nodes, top, which, above, is_after, one if one >= 0 else other)
    free_node(nodes, node)


@inlined
def free_node(nodes: Nodes, node: int) -> None:
    """Let a node be used again."""
    nodes.before[node] = nodes.state[FREE]
    nodes.state[FREE] = node
    nodes.state[USED] -= 1


@lean_kernel
def list_nodes(nodes: Nodes, top: int, count: int, out_node: Ints) -> None:
    """Write the first `count` nodes of a list in order. Cost: a logarithmic search each."""
    for place in range(count):
        out_node[place] = find_node(nodes, top, place)


@lean_kernel
def free_nodes(nodes: Nodes, given: Ints) -> None:
    """Let the nodes of a list that is no more be used again. Cost: linear."""
    for node in given:
        free_node(nodes, node)
