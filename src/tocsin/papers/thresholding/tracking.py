"""Endpoint trees with distributed tracking: the algorithm of "Range Thresholding on Streams".

Each node of a tree over the endpoints of all boxes counts the weight that falls into its region. A box is
the union of a few such nodes, so the weight inside it is a sum of a few counters. A query does not read them
after each row: it assigns each of its nodes a *slack*, an even share of half its missing weight, and a node
signals only when its counter has grown by that much. After as many signals as the query has nodes, the round
is over: the query collects the counters and starts again with what is still missing. A node holds the next
signals of its queries in a heap, so that a row checks one signal a node.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.types import Bools, Floats, Longs
from tocsin.papers.thresholding.logarithmic_method import LogarithmicMethod, QueryBoxes, StaticLevel
from tocsin.papers.thresholding.maturities import Counts, MaturityRows
from tocsin.papers.thresholding.nested_trees import build_nested_trees, canonical_nodes
from tocsin.papers.thresholding.tracking_kernels import (
    COUNTER,
    FAR,
    FINAL,
    HEAP_SHIFT,
    LEFT,
    NEXT,
    SLACK,
    TrackingState,
    count_events,
    place_entries,
    sum_reached,
)


class EndpointTree:
    """Nested endpoint trees over a fixed set of queries."""

    def __init__(self, boxes: QueryBoxes) -> None:
        pairs = build_nested_trees(boxes.low, boxes.high)
        nested = self._nested = pairs.nested
        node_begin, entry_node = canonical_nodes(
            nested.tree_begin, pairs.pair_tree, pairs.pair_first, pairs.pair_last
        )
        query_begin = node_begin[pairs.pair_begin]
        target = np.maximum(boxes.tau, 1)
        n_queries, n_entries, n_nodes = len(boxes.tau), len(entry_node), 2 * len(nested.bound)
        per_query = np.diff(query_begin)
        tally = np.zeros((n_nodes, 2), np.uint64)
        tally[:, NEXT] = FAR
        counts = np.bincount(entry_node, minlength=n_nodes)
        self._columns = TrackingState(
            node_tally=tally,
            node_begin=(np.cumsum(counts) - counts).astype(np.int32),
            node_size=np.zeros(n_nodes, np.int32),
            heap_signal=np.empty(n_entries, np.uint64),
            heap_entry=np.empty(n_entries, np.int32),
            entry_place=np.empty(n_entries, np.int32),
            entry_node=entry_node,
            entry_query=np.repeat(np.arange(n_queries, dtype=np.int32), per_query),
            query_begin=query_begin,
            query_round=_first_rounds(target - boxes.reached, per_query),
            query_target=target.astype(np.uint64),
            query_base=(-boxes.reached).astype(np.uint64),
            is_repeating=boxes.is_repeating,
        )
        place_entries(self._columns, np.argsort(self._columns.query_round[:, SLACK], kind="stable"))
        # Scratch of a kernel: the trees that hold an event, and the nodes with signals to send.
        depth = int(np.diff(nested.tree_begin).max(initial=0)).bit_length() + 1
        self._trees = np.empty(pairs.max_trees, np.int32)
        self._due = np.empty(pairs.max_trees * depth, np.int32)

    def count(self, values: Floats, weights: Longs, cursor: Longs, out: MaturityRows) -> int:
        """Count a batch from the cursor on.

        Cost: log(queries) ** axes counters an event, and log(tau) rounds over the life of a query.
        """
        return count_events(self._nested, self._columns, values, weights, self._trees, self._due, cursor, out)

    def drop(self, queries: Longs) -> None:
        """Stop reporting queries; entries are removed when they top their heap. Cost: constant each."""
        self._columns.query_round[queries, LEFT] = 0

    def reached(self, queries: Longs) -> Longs:
        """The weight that live queries have counted. Cost: that of summing their counters."""
        reached = np.empty(len(queries), np.uint64)
        sum_reached(self._columns, queries, reached)
        return reached.astype(np.int64)

    def check(self, is_living: Bools) -> None:
        """Assert that heaps are heaps, and that no live query can mature between its signals."""
        columns = self._columns
        size, begin = columns.node_size.tolist(), columns.node_begin.tolist()
        for node, (counter, following) in enumerate(columns.node_tally):
            heap = slice(begin[node], begin[node] + size[node])
            ahead, entries = columns.heap_signal[heap] - counter, columns.heap_entry[heap]
            assert (columns.entry_node[entries] == node).all()
            assert (columns.entry_place[entries] == np.arange(size[node])).all()
            assert 0 < following - counter <= FAR
            assert size[node] == 0 or following - counter == ahead[0]
            assert all(ahead[(place - 1) >> HEAP_SHIFT] <= ahead[place] for place in range(1, size[node]))
        for query in np.flatnonzero(is_living):
            entries = np.arange(columns.query_begin[query], columns.query_begin[query + 1])
            nodes = columns.entry_node[entries]
            slack, left = columns.query_round[query].tolist()
            assert left > 0
            assert slack > 0
            places = columns.node_begin[nodes] + columns.entry_place[entries]
            ahead = columns.heap_signal[places] - columns.node_tally[nodes, COUNTER]
            assert all(0 < distance <= slack for distance in ahead.tolist())
            reached = int(self.reached(np.array([query]))[0])
            unreported = (left - 1) * slack + sum(ahead.tolist()) - len(entries)
            assert reached + unreported < int(columns.query_target[query]) or len(entries) == 0
        assert (columns.query_round[~is_living, LEFT] == 0).all()


class EndpointTrees(LogarithmicMethod):
    """Range thresholds by distributed tracking, in any number of dimensions."""

    def _build_level(self, boxes: QueryBoxes) -> StaticLevel:
        return EndpointTree(boxes)

    def explain(self) -> str:
        """One line: how it works."""
        return (
            f"{sum(map(bool, self._n_living))} endpoint trees over "
            f"{sum(self._n_living)} boxes of {self._dimensions} ranges; nodes signal when a share of a box's "
            "missing weight has come"
        )


def _first_rounds(missing: Longs, n_entries: Longs) -> Counts:
    """Slack and signals of each query's first round, as `start_round` computes them for later ones."""
    is_final = missing <= FINAL * n_entries
    slack = np.where(is_final, 1, missing // np.maximum(2 * n_entries, 1))
    left = np.where(is_final, missing, np.maximum(n_entries, 1))
    return np.column_stack([slack, left]).astype(np.uint64)
