"""Kernels of distributed tracking over endpoint trees.

| here | in the paper |
|---|---|
| counter of a node | c(u) |
| signal of an entry | sigma_q(u), the counter at which the node next signals the query |
| slack of a query | lambda_q |
| entries of a query | U_q, its canonical nodes; their number is h_q |

Counters and signals are taken modulo 2**64, so that none of them ever overflows. Signals of a node are
compared by their distance from an origin, its counter before the row: a signal is less than 2**62 ahead of
the counter, and a row advances that by less than 2**63, so that distances do not wrap. Unsigned, because
signed overflow is undefined in compiled code.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.kernels.status import DONE, FULL
from tocsin.papers.thresholding.maturities import EVENT, N_DONE, N_DUE, N_ROWS, Counts, MaturityRows
from tocsin.papers.thresholding.nested_trees_kernels import NestedTrees, find_leaf, find_trees

#: An integer in a kernel, Python's or NumPy's. Links are widened to int64, so that each kernel is compiled
#: once.
Whole: TypeAlias = int | np.int64

#: Children of a heap place, as a power of two.
HEAP_SHIFT = 2
#: A query whose missing weight is at most this many times its entries gets a signal for every unit of weight.
FINAL = 6
#: How far ahead the next signal of a node without entries is.
FAR = 0x4000000000000000

#: Columns of `node_tally` and `query_round`.
COUNTER, NEXT = 0, 1
SLACK, LEFT = 0, 1


class TrackingState(NamedTuple):
    """The state of all queries of one level. Numbers that are read together are adjacent."""

    #: uint64 (nodes, 2): weight counted, and the smallest signal in the node's heap.
    node_tally: Counts
    #: int32 (nodes,): where the node's heap begins.
    node_begin: Ints
    #: int32 (nodes,): entries in the node's heap.
    node_size: Ints
    #: uint64 (entries,): a heap of signals for each node.
    heap_signal: Counts
    #: int32 (entries,): whose signal it is.
    heap_entry: Ints
    #: int32 (entries,): place in its heap, -1 once removed. Entries are ordered by query.
    entry_place: Ints
    #: int32 (entries,): node counted by.
    entry_node: Ints
    #: int32 (entries,): query counted for.
    entry_query: Ints
    #: int64 (queries + 1,): where the query's entries begin.
    query_begin: Longs
    #: uint64 (queries, 2): slack, and the signals left in this round; 0 once the query is gone.
    query_round: Counts
    #: uint64 (queries,): weight to reach, at least 1.
    query_target: Counts
    #: uint64 (queries,): sum of its counters when it started to count.
    query_base: Counts
    #: bool (queries,): start again from 0 after maturing.
    is_repeating: Bools


@kernel
def move_up(
    columns: TrackingState, begin: Whole, place: Whole, signal: np.uint64, entry: Whole, origin: np.uint64
) -> None:
    """Put an entry at `place` of the heap at `begin`, or nearer to its top."""
    while place > 0:
        parent = (place - 1) >> HEAP_SHIFT
        if columns.heap_signal[begin + parent] - origin <= signal - origin:
            break
        moved = columns.heap_entry[begin + parent]
        columns.heap_signal[begin + place] = columns.heap_signal[begin + parent]
        columns.heap_entry[begin + place] = moved
        columns.entry_place[moved] = place
        place = parent
    columns.heap_signal[begin + place] = signal
    columns.heap_entry[begin + place] = entry
    columns.entry_place[entry] = place


@kernel
def move_down(
    columns: TrackingState,
    begin: Whole,
    size: Whole,
    place: Whole,
    signal: np.uint64,
    entry: Whole,
    origin: np.uint64,
) -> None:
    """Put an entry at `place` of the heap at `begin`, or further from its top."""
    while True:
        child = (place << HEAP_SHIFT) + 1
        if child >= size:
            break
        least = columns.heap_signal[begin + child]
        for other in range(child + 1, min(child + (1 << HEAP_SHIFT), size)):
            if columns.heap_signal[begin + other] - origin < least - origin:
                child, least = other, columns.heap_signal[begin + other]
        if signal - origin <= least - origin:
            break
        moved = columns.heap_entry[begin + child]
        columns.heap_signal[begin + place] = least
        columns.heap_entry[begin + place] = moved
        columns.entry_place[moved] = place
        place = child
    columns.heap_signal[begin + place] = signal
    columns.heap_entry[begin + place] = entry
    columns.entry_place[entry] = place


@kernel
def remove_top(columns: TrackingState, node: int, origin: np.uint64) -> None:
    """Remove the first entry of a node's heap."""
    begin, size = np.int64(columns.node_begin[node]), np.int64(columns.node_size[node]) - 1
    columns.node_size[node] = size
    columns.entry_place[columns.heap_entry[begin]] = -1
    if size > 0:
        signal, entry = columns.heap_signal[begin + size], np.int64(columns.heap_entry[begin + size])
        move_down(columns, begin, size, np.int64(0), signal, entry, origin)


@kernel
def sum_counters(columns: TrackingState, query: Whole) -> np.uint64:
    """The sum of the query's counters."""
    total = np.uint64(0)
    for entry in range(columns.query_begin[query], columns.query_begin[query + 1]):
        total += columns.node_tally[columns.entry_node[entry], COUNTER]
    return total


@kernel
def start_round(columns: TrackingState, query: Whole, missing: np.uint64, weight: np.uint64) -> None:
    """Divide the missing weight: half of it as slack, or a signal per unit when little is missing."""
    first, last = columns.query_begin[query], columns.query_begin[query + 1]
    n_entries = np.uint64(last - first)
    if missing <= np.uint64(FINAL) * n_entries:
        slack, left = np.uint64(1), missing
    else:
        slack, left = missing // (np.uint64(2) * n_entries), n_entries
    columns.query_round[query, SLACK] = slack
    columns.query_round[query, LEFT] = left
    for entry in range(first, last):
        node, place = columns.entry_node[entry], np.int64(columns.entry_place[entry])
        begin, size = np.int64(columns.node_begin[node]), np.int64(columns.node_size[node])
        counter = columns.node_tally[node, COUNTER]
        signal, origin = counter + slack, counter - weight
        if signal - origin < columns.heap_signal[begin + place] - origin:
            move_up(columns, begin, place, signal, entry, origin)
        else:
            move_down(columns, begin, size, place, signal, entry, origin)
        columns.node_tally[node, NEXT] = columns.heap_signal[begin]


@kernel
def send_signals(
    columns: TrackingState, node: int, event: int, weight: np.uint64, cursor: Longs, out: MaturityRows
) -> bool:
    """Send every signal that the node's counter has passed; False if `out` is full and must grow."""
    counter, begin = columns.node_tally[node, COUNTER], np.int64(columns.node_begin[node])
    origin = counter - weight
    while columns.node_size[node] > 0:
        ahead = columns.heap_signal[begin] - origin
        if ahead > weight:
            break
        entry = np.int64(columns.heap_entry[begin])
        query = np.int64(columns.entry_query[entry])
        slack, left = columns.query_round[query, SLACK], columns.query_round[query, LEFT]
        if left == 0:
            remove_top(columns, node, origin)
            continue
        # One heavy row may be worth many signals.
        n_signals = (weight - ahead) // slack + np.uint64(1)
        if n_signals < left:
            columns.query_round[query, LEFT] = left - n_signals
            signal = columns.heap_signal[begin] + n_signals * slack
            size = np.int64(columns.node_size[node])
            move_down(columns, begin, size, np.int64(0), signal, entry, origin)
            continue
        # The round is over, and all counters are collected. They count since the tree was built: their sum
        # when the query started is subtracted.
        total = sum_counters(columns, query)
        reached, target = total - columns.query_base[query], columns.query_target[query]
        if reached < target:
            start_round(columns, query, target - reached, weight)
            continue
        row = cursor[N_ROWS]
        if row == out.event.shape[0]:
            return False
        out.event[row] = event
        out.query[row] = query
        out.reached[row] = reached
        cursor[N_ROWS] = row + 1
        if columns.is_repeating[query]:
            columns.query_base[query] = total
            start_round(columns, query, target, weight)
        else:
            columns.query_round[query, LEFT] = 0
            remove_top(columns, node, origin)
    if columns.node_size[node] > 0:
        columns.node_tally[node, NEXT] = columns.heap_signal[begin]
    else:
        columns.node_tally[node, NEXT] = counter + np.uint64(FAR)
    return True


@kernel
def add_weight(
    nested: NestedTrees,
    columns: TrackingState,
    values: Floats,
    event: int,
    weight: np.uint64,
    trees: Ints,
    out_due: Ints,
) -> int:
    """Add to all counters whose region holds the event; returns how many nodes have signals to send."""
    axis = values.shape[1] - 1
    n_due = 0
    begin, end = find_trees(nested, values, event, trees)
    for place in range(begin, end):
        tree = trees[place]
        leaf = find_leaf(nested, tree, values[event, axis])
        if leaf < 0:
            continue
        first = nested.tree_begin[tree]
        node = nested.tree_begin[tree + 1] - first + leaf
        while node > 0:
            counter = columns.node_tally[2 * first + node, COUNTER]
            columns.node_tally[2 * first + node, COUNTER] = counter + weight
            if columns.node_tally[2 * first + node, NEXT] - counter <= weight:
                out_due[n_due] = 2 * first + node
                n_due += 1
            node >>= 1
    return n_due


@kernel
def count_events(
    nested: NestedTrees,
    columns: TrackingState,
    values: Floats,
    weights: Longs,
    trees: Ints,
    due: Ints,
    cursor: Longs,
    out: MaturityRows,
) -> int:
    """Count a batch, values (events, axes), from the cursor on.

    All counters are raised before a signal is sent: of the nodes that hold one event, a query has at
    most one, so that the others do not interfere.
    """
    while cursor[EVENT] < weights.shape[0]:
        event = cursor[EVENT]
        weight = np.uint64(weights[event])
        if cursor[N_DUE] == 0 and weights[event] > 0:
            is_null = False
            for axis in range(values.shape[1]):
                is_null |= values[event, axis] != values[event, axis]
            if not is_null:
                cursor[N_DUE] = add_weight(nested, columns, values, event, weight, trees, due)
        while cursor[N_DONE] < cursor[N_DUE]:
            if not send_signals(columns, due[cursor[N_DONE]], event, weight, cursor, out):
                return FULL
            cursor[N_DONE] += 1
        cursor[N_DUE] = 0
        cursor[N_DONE] = 0
        cursor[EVENT] = event + 1
    return DONE


@kernel
def place_entries(columns: TrackingState, order: Longs) -> None:
    """Fill the empty heaps, queries in `order` of their slack: an ascending list is a heap."""
    for rank in range(order.shape[0]):
        query = order[rank]
        slack = columns.query_round[query, SLACK]
        for entry in range(columns.query_begin[query], columns.query_begin[query + 1]):
            node = columns.entry_node[entry]
            place = columns.node_size[node]
            columns.heap_signal[columns.node_begin[node] + place] = slack
            columns.heap_entry[columns.node_begin[node] + place] = entry
            columns.entry_place[entry] = place
            columns.node_size[node] = place + 1
            if place == 0:
                columns.node_tally[node, NEXT] = slack


@kernel
def sum_reached(columns: TrackingState, queries: Longs, out_reached: Counts) -> None:
    """The weight that each of the queries has counted."""
    for row in range(queries.shape[0]):
        out_reached[row] = sum_counters(columns, queries[row]) - columns.query_base[queries[row]]
