"""Order-statistic treaps: ordered lists of rows with rank queries, all in one pool of nodes.

A list is ordered by (key, tie). Subtree sizes give the rank of a row, and the row of a rank, on the way down.
Priorities are a hash of node numbers, so that trees are balanced in expectation, but deterministic.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Floats, Ints, Longs

#: Odd factors and a mask of 32 bits: the hash is a bijection, so that no two nodes have the same priority.
HASH_FACTOR = 2654435769
HASH_FACTOR_2 = 2246822507
HASH_MASK = (1 << 32) - 1

#: Positions in `TreapNodes.state`: the first free node, -1 for none; nodes ever used; nodes in use.
FREE = 0
MADE = 1
USED = 2
STATE_SIZE = 3


class TreapNodes(NamedTuple):
    """The nodes of all lists."""

    #: what the list is ordered by, ascending.
    key: Annotated[Floats, Column("nodes")]
    tie: Annotated[Longs, Column("nodes")]
    #: slot of the row.
    row: Annotated[Ints, Column("nodes")]
    #: the left child, -1 for none; of a free node, the next free one.
    before: Annotated[Ints, Column("nodes")]
    #: the right child, -1 for none.
    after: Annotated[Ints, Column("nodes")]
    #: size of the subtree.
    size: Annotated[Ints, Column("nodes")]
    #: see FREE … USED
    state: Annotated[Longs, Column(STATE_SIZE)]


@inlined
def priority_of(node: int) -> int:
    """The priority of a node: distinct for all nodes."""
    spread = (node * HASH_FACTOR) & HASH_MASK
    spread ^= spread >> 15
    return (spread * HASH_FACTOR_2) & HASH_MASK


@inlined
def precedes(nodes: TreapNodes, node: int, key: float, tie: int) -> bool:
    """Whether a node comes before (key, tie)."""
    return bool(nodes.key[node] < key or (nodes.key[node] == key and nodes.tie[node] < tie))


@inlined
def size_of(nodes: TreapNodes, node: int) -> int:
    """Size of a subtree; 0 for none."""
    return int(nodes.size[node]) if node >= 0 else 0


@inlined
def link_child(nodes: TreapNodes, top: Ints, which: int, above: int, is_after: bool, node: int) -> None:
    """Make a node, -1 for none, a child of `above`; the root of the list if that is -1."""
    if above < 0:
        top[which] = node
    elif is_after:
        nodes.after[above] = node
    else:
        nodes.before[above] = node


@lean_kernel
def count_before(nodes: TreapNodes, node: int, key: float, tie: int) -> int:
    """How many nodes of a subtree come before (key, tie). Cost: logarithmic."""
    count = 0
    while node >= 0:
        if precedes(nodes, node, key, tie):
            count += size_of(nodes, int(nodes.before[node])) + 1
            node = int(nodes.after[node])
        else:
            node = int(nodes.before[node])
    return count


@lean_kernel
def find_node(nodes: TreapNodes, node: int, place: int) -> int:
    """The node at a 0-based rank of a subtree that has as many. Cost: logarithmic."""
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
def allocate_node(nodes: TreapNodes) -> int:
    """Allocate a node. The caller has checked the capacity."""
    node = int(nodes.state[FREE])
    if node >= 0:
        nodes.state[FREE] = nodes.before[node]
    else:
        node = int(nodes.state[MADE])
        nodes.state[MADE] += 1
    nodes.state[USED] += 1
    return node


@lean_kernel
def insert_row(nodes: TreapNodes, top: Ints, which: int, key: float, tie: int, row: int) -> None:
    """Insert a row into a list. The caller has checked the capacity. Cost: logarithmic."""
    new = allocate_node(nodes)
    rank = priority_of(new)
    above, is_after = -1, False
    node = int(top[which])
    while node >= 0 and priority_of(node) > rank:
        nodes.size[node] += 1
        above, is_after = node, precedes(nodes, node, key, tie)
        node = int(nodes.after[node]) if is_after else int(nodes.before[node])
    link_child(nodes, top, which, above, is_after, new)
    nodes.key[new] = key
    nodes.tie[new] = tie
    nodes.row[new] = row
    nodes.size[new] = size_of(nodes, node) + 1
    # Split the subtree below: nodes before the row go to its left, those after to its right.
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
def remove_row(nodes: TreapNodes, top: Ints, which: int, key: float, tie: int) -> None:
    """Remove the row of (key, tie), which is present, from a list. Cost: logarithmic."""
    above, is_after = -1, False
    node = int(top[which])
    while nodes.key[node] != key or nodes.tie[node] != tie:
        nodes.size[node] -= 1
        above, is_after = node, precedes(nodes, node, key, tie)
        node = int(nodes.after[node]) if is_after else int(nodes.before[node])
    one, other = int(nodes.before[node]), int(nodes.after[node])
    while one >= 0 and other >= 0:
        size = nodes.size[one] + nodes.size[other]
        if priority_of(one) > priority_of(other):
            link_child(nodes, top, which, above, is_after, one)
            nodes.size[one] = size
            above, is_after = one, True
            one = int(nodes.after[one])
        else:
            link_child(nodes, top, which, above, is_after, other)
            nodes.size[other] = size
            above, is_after = other, False
            other = int(nodes.before[other])
    link_child(nodes, top, which, above, is_after, one if one >= 0 else other)
    release_node(nodes, node)


@inlined
def release_node(nodes: TreapNodes, node: int) -> None:
    """Release a node."""
    nodes.before[node] = nodes.state[FREE]
    nodes.state[FREE] = node
    nodes.state[USED] -= 1


@lean_kernel
def list_nodes(nodes: TreapNodes, top: int, count: int, out_node: Ints) -> None:
    """Write the first `count` nodes of a list in order. Cost: a logarithmic search each."""
    for place in range(count):
        out_node[place] = find_node(nodes, top, place)


@lean_kernel
def release_nodes(nodes: TreapNodes, given: Ints) -> None:
    """Release the nodes of a deleted list. Cost: linear."""
    for node in given:
        release_node(nodes, node)
