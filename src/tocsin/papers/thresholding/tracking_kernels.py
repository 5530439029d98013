"""Kernels of distributed tracking over endpoint trees.

| here | in the paper |
|---|---|
| counter of a node | c(u) |
| signal of an entry | sigma_q(u), the counter at which the node speaks to the query next |
| slack of a query | lambda_q |
| entries of a query | U_q, its canonical nodes; their number is h_q |

Counters and signals are taken modulo 2**64, so that none of them ever overflows. Signals of a node are
compared by how far they lie ahead of an origin, its counter before the row: a signal lies less than 2**62
ahead of the counter, and a row moves that by less than 2**63, so the distances are true ones. Unsigned,
because compiled signed numbers may not wrap.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.jit import kernel
from tocsin.papers.thresholding.tracking_crossings import (
    DONE,
    EVENT,
    FULL,
    N_DONE,
    N_DUE,
    N_ROWS,
    Counts,
    Crossings,
)
from tocsin.papers.thresholding.tracking_nests_kernels import Nest, find_leaf, find_trees

#: A whole number in a kernel: Python's or NumPy's, compiled the same. Links are widened, so that each
#: kernel is compiled once.
Whole: TypeAlias = int | np.int64

#: Children of a heap place, as a power of two.
HEAP_SHIFT = 2
#: A query whose missing weight is at most this many times its entries hears of every unit of weight.
FINAL = 6
#: How far ahead a node without entries puts its next look.
FAR = 0x4000000000000000

#: Columns of `node_tally` and `query_round`.
COUNTER, NEXT = 0, 1
SLACK, LEFT = 0, 1


class Tracking(NamedTuple):
    """The state of all queries of one nest. Two numbers that are read together lie together."""

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
    #: int32 (entries,): place in its heap, -1 once removed. Entries lie query by query.
    entry_place: Ints
    #: int32 (entries,): node counted by.
    entry_node: Ints
    #: int32 (entries,): query counted for.
    entry_query: Ints
    #: int64 (queries + 1,): where the query's entries begin.
    query_begin: Longs
    #: uint64 (queries, 2): slack, and the signals still to come in this round; 0 once the query is gone.
    query_round: Counts
    #: uint64 (queries,): weight to reach, at least 1.
    query_target: Counts
    #: uint64 (queries,): sum of its counters when it began to count.
    query_base: Counts
    #: bool (queries,): start again from 0 after maturing.
    is_repeating: Bools


@kernel
def move_up(
    columns: Tracking, begin: Whole, place: Whole, signal: np.uint64, entry: Whole, origin: np.uint64
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
    columns: Tracking,
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
def remove_top(columns: Tracking, node: int, origin: np.uint64) -> None:
    """Take the first entry out of a node's heap."""
    begin, size = np.int64(columns.node_begin[node]), np.int64(columns.node_size[node]) - 1
    columns.node_size[node] = size
    columns.entry_place[columns.heap_entry[begin]] = -1
    if size > 0:
        signal, entry = columns.heap_signal[begin + size], np.int64(columns.heap_entry[begin + size])
        move_down(columns, begin, size, np.int64(0), signal, entry, origin)


@kernel
def sum_counters(columns: Tracking, query: Whole) -> np.uint64:
    """What the query's nodes have counted."""
    total = np.uint64(0)
    for entry in range(columns.query_begin[query], columns.query_begin[query + 1]):
        total += columns.node_tally[columns.entry_node[entry], COUNTER]
    return total


@kernel
def start_round(columns: Tracking, query: Whole, missing: np.uint64, weight: np.uint64) -> None:
    """Share out the missing weight: half of it as slack, or each unit a signal when little is missing."""
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
    columns: Tracking, node: int, event: int, weight: np.uint64, cursor: Longs, out: Crossings
) -> bool:
    """Send every signal that the node's counter has passed; False if `out` is full, to be called again."""
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
        # The round is over, and all counters are collected. They count from the start of the tree, so
        # what they held when the query began is taken off.
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
    nest: Nest, columns: Tracking, values: Floats, event: int, weight: np.uint64, trees: Ints, out_due: Ints
) -> int:
    """Add to all counters whose region holds the event; how many nodes have signals to send."""
    axis = values.shape[1] - 1
    n_due = 0
    begin, end = find_trees(nest, values, event, trees)
    for place in range(begin, end):
        tree = trees[place]
        leaf = find_leaf(nest, tree, values[event, axis])
        if leaf < 0:
            continue
        first = nest.tree_begin[tree]
        node = nest.tree_begin[tree + 1] - first + leaf
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
    nest: Nest,
    columns: Tracking,
    values: Floats,
    weights: Longs,
    trees: Ints,
    due: Ints,
    cursor: Longs,
    out: Crossings,
) -> int:
    """Count a batch, values (events, axes), from where the cursor stands.

    All counters are raised before a signal is sent: of the nodes that hold one event, a query has at
    most one, so the others cannot disturb it.
    """
    while cursor[EVENT] < weights.shape[0]:
        event = cursor[EVENT]
        weight = np.uint64(weights[event])
        if cursor[N_DUE] == 0 and weights[event] > 0:
            is_null = False
            for axis in range(values.shape[1]):
                is_null |= values[event, axis] != values[event, axis]
            if not is_null:
                cursor[N_DUE] = add_weight(nest, columns, values, event, weight, trees, due)
        while cursor[N_DONE] < cursor[N_DUE]:
            if not send_signals(columns, due[cursor[N_DONE]], event, weight, cursor, out):
                return FULL
            cursor[N_DONE] += 1
        cursor[N_DUE] = 0
        cursor[N_DONE] = 0
        cursor[EVENT] = event + 1
    return DONE


@kernel
def place_entries(columns: Tracking, order: Longs) -> None:
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
def sum_reached(columns: Tracking, queries: Longs, out_reached: Counts) -> None:
    """The weight that each of the queries has counted."""
    for row in range(queries.shape[0]):
        out_reached[row] = sum_counters(columns, queries[row]) - columns.query_base[queries[row]]
