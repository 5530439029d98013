"""An internet-like graph, generated as INET does, and the brokers in it.

Degrees follow a power law. The graph grows as a tree in which nodes with more open links are chosen more
often, and the remaining links are joined at random. Everything is determined by the seed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.types import Ints
from tocsin.papers.network.topology_kernels import count_hops

#: The share of nodes with d links falls with d to this power; measured near 2.2 between autonomous systems.
EXPONENT = 2.2
#: No node has links to more than this share of all nodes.
LARGEST = 0.1


class Topology(NamedTuple):
    """A connected graph as adjacency lists, and the nodes that are brokers."""

    #: int32 (nodes + 1,): where each node's links begin
    link_start: Ints
    #: int32 (2 links,): the other end
    link_node: Ints
    #: int32 (brokers,)
    brokers: Ints

    @classmethod
    def draw(cls, nodes: int, brokers: int, seed: int) -> Topology:
        """A random graph, and distinct nodes of it as brokers. Cost: linear."""
        random = np.random.default_rng(seed)
        pairs = _pairs(_degrees(random, nodes), random)
        ends = np.concatenate((pairs, pairs[:, ::-1]))
        ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
        start = np.searchsorted(ends[:, 0], np.arange(nodes + 1))
        chosen = random.permutation(nodes)[:brokers]
        return cls(start.astype(np.int32), ends[:, 1].astype(np.int32), chosen.astype(np.int32))

    def hops(self) -> Ints:
        """int32 (brokers, brokers): number of links between each two. Cost: the graph, for each broker."""
        nodes = len(self.link_start) - 1
        found = np.empty((len(self.brokers), len(self.brokers)), np.int32)
        queue, seen = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
        count_hops(self.link_start, self.link_node, self.brokers, queue, seen, found)
        return found


def _degrees(random: np.random.Generator, nodes: int) -> list[int]:
    """The wanted degree of each node, descending."""
    wanted = np.arange(1, max(2, int(nodes * LARGEST)) + 1)
    shares = wanted**-EXPONENT
    drawn = random.choice(wanted, nodes, p=shares / shares.sum())
    found: list[int] = np.sort(drawn)[::-1].tolist()
    return found


def _pairs(degrees: list[int], random: np.random.Generator) -> np.ndarray:
    """Links, each once: a tree over all nodes, then their remaining degrees joined at random."""
    open_ends = [0] * degrees[0]
    pairs = []
    for node in range(1, len(degrees)):
        if open_ends:
            # Order does not matter: the last one fills the gap.
            place = int(random.integers(len(open_ends)))
            other, open_ends[place] = open_ends[place], open_ends[-1]
            open_ends.pop()
        else:
            other = int(random.integers(node))
        pairs.append((other, node))
        open_ends += [node] * (degrees[node] - 1)
    rest = random.permutation(np.array(open_ends, np.int64))
    rest = rest[: len(rest) // 2 * 2].reshape(-1, 2)
    every = np.sort(np.concatenate((np.array(pairs, np.int64).reshape(-1, 2), rest)), axis=1)
    return np.unique(every[every[:, 0] != every[:, 1]], axis=0)
