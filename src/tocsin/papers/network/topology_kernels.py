"""Shortest paths in an unweighted graph."""

from __future__ import annotations

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Ints


@kernel
def count_hops(
    link_start: Ints, link_node: Ints, nodes: Ints, queue: Ints, seen: Ints, out_hops: Ints
) -> None:
    """Number of links between each two of `nodes`, by breadth-first search from each; -1 without a path.

    `queue` and `seen` have one place per node of the graph.
    """
    for row in range(len(nodes)):
        seen[:] = -1
        seen[nodes[row]] = 0
        queue[0] = nodes[row]
        n_queue = 1
        head = 0
        while head < n_queue:
            node = queue[head]
            head += 1
            for place in range(link_start[node], link_start[node + 1]):
                other = link_node[place]
                if seen[other] < 0:
                    seen[other] = seen[node] + 1
                    queue[n_queue] = other
                    n_queue += 1
        for column in range(len(nodes)):
            out_hops[row, column] = seen[nodes[column]]
