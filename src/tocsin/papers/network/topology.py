"""An internet-like graph, drawn as INET draws it, and the brokers in it.

Degrees follow a power law. The graph is grown as a tree in which nodes with more links left are chosen more
often, and the links that remain are joined at random. Everything follows from the seed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Ints
from tocsin.papers.network.topology_kernels import count_hops

#: Share of nodes with d links falls with d to this power: between autonomous systems it was found near 2.2.
EXPONENT = 2.2
#: No node has links to more than this share of all.
LARGEST = 0.1


class Topology(NamedTuple):
    """A connected graph as lists of links, and which nodes are brokers."""

    #: int32 (nodes + 1,): where each node's links begin
    link_start: Ints
    #: int32 (2 links,): the other end
    link_node: Ints
    #: int32 (brokers,)
    brokers: Ints

    @classmethod
    def draw(cls, nodes: int, brokers: int, seed: int) -> Topology:
        """A graph with so many nodes, and distinct nodes of it as brokers. Cost: linear."""
        random = np.random.default_rng(seed)
        pairs = _pairs(_degrees(random, nodes), random)
        ends = np.concatenate((pairs, pairs[:, ::-1]))
        ends = ends[np.lexsort((ends[:, 1], ends[:, 0]))]
        start = np.searchsorted(ends[:, 0], np.arange(nodes + 1))
        chosen = random.permutation(nodes)[:brokers]
        return cls(start.astype(np.int32), ends[:, 1].astype(np.int32), chosen.astype(np.int32))

    def hops(self) -> Ints:
        """int32 (brokers, brokers): links between each two. Cost: the graph, for each broker."""
        nodes = len(self.link_start) - 1
        found = np.empty((len(self.brokers), len(self.brokers)), np.int32)
        queue, seen = np.empty(nodes, np.int32), np.empty(nodes, np.int32)
        count_hops(self.link_start, self.link_node, self.brokers, queue, seen, found)
        return found


def _degrees(random: np.random.Generator, nodes: int) -> list[int]:
    """How many links each node wants, the most first."""
    wanted = np.arange(1, max(2, int(nodes * LARGEST)) + 1)
    shares = wanted**-EXPONENT
    drawn = random.choice(wanted, nodes, p=shares / shares.sum())
    found: list[int] = np.sort(drawn)[::-1].tolist()
    return found


def _pairs(degrees: list[int], random: np.random.Generator) -> np.ndarray:
    """Links, each once: a tree over all nodes, then what is left of their degrees joined at random."""
    open_ends = [0] * degrees[0]
    pairs = []
    for node in range(1, len(degrees)):
        if open_ends:
            # The last one takes the place of the one that is taken: no order to keep.
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
