"""Kernels of the stabbing baselines: find all boxes that hold a point, and count in each of them.

What a query is missing is counted down in `left`. A terminated query starts again from the largest int64, and
is ignored when that is used up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.kernels.status import DONE, FULL
from tocsin.papers.thresholding.maturities import EVENT, N_DONE, N_DUE, N_ROWS, MaturityRows
from tocsin.papers.thresholding.nested_trees_kernels import NestedTrees, find_leaf, find_trees

#: The largest int64.
LARGEST = 0x7FFFFFFFFFFFFFFF

#: Boxes under one node of the R-tree, as a power of two.
FAN_SHIFT = 4


class Tallies(NamedTuple):
    """What each query has still to count."""

    #: int64 (queries,): weight missing; at least 1 while the query counts.
    left: Longs
    #: int64 (queries,): weight to reach, at least 1.
    target: Longs
    #: bool (queries,): the query was terminated or has matured for good.
    is_gone: Bools
    #: bool (queries,): start again from 0 after maturing.
    is_repeating: Bools
    #: int32 (queries,): scratch; the queries that one event brought to 0.
    due: Ints


class Intervals(NamedTuple):
    """An interval tree for each nested tree of the last axis, over the numbers of its leaves.

    An interval tree is implicit: its nodes are the leaves, the middle one is its root, and both halves
    are trees alike. Each interval is stored at the highest node that it covers.
    """

    #: int64 (bounds + 1,): where the list of each node begins.
    list_begin: Longs
    #: int32 (pairs,): first leaf, ascending within a node.
    first: Ints
    #: int32 (pairs,): its query.
    first_query: Ints
    #: int32 (pairs,): leaf after the last, descending within a node.
    last: Ints
    #: int32 (pairs,): its query.
    last_query: Ints


class RectangleTree(NamedTuple):
    """A packed R-tree. Level 0 is the queries' boxes; each further level bounds runs of the previous one."""

    #: float64 (rectangles, axes): smallest values, level by level.
    low: Floats
    #: float64 (rectangles, axes): largest values.
    high: Floats
    #: int64 (levels + 1,): where each level begins.
    level_begin: Longs


@kernel
def count_into(tallies: Tallies, query: int | np.int64, weight: int, cursor: Longs) -> None:
    """Count a weight into one query, and list it as due if that was all it needed."""
    left = tallies.left[query] - weight
    tallies.left[query] = left
    if left <= 0:
        tallies.due[cursor[N_DUE]] = query
        cursor[N_DUE] += 1


@kernel
def report_due(tallies: Tallies, event: int, cursor: Longs, out: MaturityRows) -> bool:
    """Report the queries that are due; False if `out` is full, to be called again."""
    while cursor[N_DONE] < cursor[N_DUE]:
        query = tallies.due[cursor[N_DONE]]
        if not tallies.is_gone[query]:
            row = cursor[N_ROWS]
            if row == out.event.shape[0]:
                return False
            out.event[row] = event
            out.query[row] = query
            # Unsigned, because the difference may overflow int64.
            out.reached[row] = np.uint64(tallies.target[query]) - np.uint64(tallies.left[query])
            cursor[N_ROWS] = row + 1
            tallies.is_gone[query] = not tallies.is_repeating[query]
        tallies.left[query] = LARGEST if tallies.is_gone[query] else tallies.target[query]
        cursor[N_DONE] += 1
    return True


@kernel
def is_counted(values: Floats, weights: Longs, event: int) -> bool:
    """Whether the event adds anything: a positive weight, and no NULL."""
    if weights[event] <= 0:
        return False
    is_null = False
    for axis in range(values.shape[1]):
        is_null |= values[event, axis] != values[event, axis]
    return not is_null


@kernel
def stab_intervals(
    lists: Intervals, tallies: Tallies, begin: int, end: int, leaf: int, weight: int, cursor: Longs
) -> None:
    """Count into each interval of the tree between `begin` and `end` that covers the leaf."""
    offset, low, high = begin, begin, end
    point = offset + leaf
    while low < high:
        middle = (low + high) >> 1
        begin, end = lists.list_begin[middle], lists.list_begin[middle + 1]
        if point < middle:
            for place in range(begin, end):
                if lists.first[place] > leaf:
                    break
                count_into(tallies, np.int64(lists.first_query[place]), weight, cursor)
            high = middle
        else:
            for place in range(begin, end):
                if lists.last[place] <= leaf:
                    break
                count_into(tallies, np.int64(lists.last_query[place]), weight, cursor)
            low = middle + 1
            if point == middle:
                break


@kernel
def count_in_intervals(
    nested: NestedTrees,
    lists: Intervals,
    tallies: Tallies,
    values: Floats,
    weights: Longs,
    trees: Ints,
    cursor: Longs,
    out: MaturityRows,
) -> int:
    """Count a batch, values (events, axes), from the cursor on."""
    axis = values.shape[1] - 1
    while cursor[EVENT] < weights.shape[0]:
        event = cursor[EVENT]
        if cursor[N_DUE] == 0 and is_counted(values, weights, event):
            begin, end = find_trees(nested, values, event, trees)
            for place in range(begin, end):
                tree = trees[place]
                leaf = find_leaf(nested, tree, values[event, axis])
                if leaf >= 0:
                    first, last = nested.tree_begin[tree], nested.tree_begin[tree + 1]
                    stab_intervals(lists, tallies, first, last, leaf, weights[event], cursor)
        if not report_due(tallies, event, cursor, out):
            return FULL
        cursor[N_DUE] = 0
        cursor[N_DONE] = 0
        cursor[EVENT] = event + 1
    return DONE


@kernel
def stab_rectangles(
    tree: RectangleTree,
    tallies: Tallies,
    values: Floats,
    event: int,
    weight: int,
    stack: Longs,
    cursor: Longs,
) -> None:
    """Count into each box that holds the event's point."""
    top = tree.level_begin.shape[0] - 2
    n_stacked = 1
    # A stacked number is a level and the number of a run of rectangles within it.
    stack[0] = top
    n_levels = top + 1
    while n_stacked > 0:
        n_stacked -= 1
        level, run = stack[n_stacked] % n_levels, stack[n_stacked] // n_levels
        begin = tree.level_begin[level]
        stop = min(begin + ((run + 1) << FAN_SHIFT), tree.level_begin[level + 1])
        for rectangle in range(begin + (run << FAN_SHIFT), stop):
            is_inside = True
            for axis in range(values.shape[1]):
                value = values[event, axis]
                is_inside &= (tree.low[rectangle, axis] <= value) & (value <= tree.high[rectangle, axis])
            if not is_inside:
                continue
            if level == 0:
                count_into(tallies, rectangle, weight, cursor)
            else:
                stack[n_stacked] = (rectangle - begin) * n_levels + level - 1
                n_stacked += 1


@kernel
def count_in_rectangles(
    tree: RectangleTree,
    tallies: Tallies,
    values: Floats,
    weights: Longs,
    stack: Longs,
    cursor: Longs,
    out: MaturityRows,
) -> int:
    """Count a batch, values (events, axes), from the cursor on."""
    while cursor[EVENT] < weights.shape[0]:
        event = cursor[EVENT]
        if cursor[N_DUE] == 0 and is_counted(values, weights, event):
            stab_rectangles(tree, tallies, values, event, weights[event], stack, cursor)
        if not report_due(tallies, event, cursor, out):
            return FULL
        cursor[N_DUE] = 0
        cursor[N_DONE] = 0
        cursor[EVENT] = event + 1
    return DONE


@kernel
def find_centres(tree_begin: Longs, pair_tree: Ints, first: Ints, last: Ints, out_node: Longs) -> None:
    """The highest node of its interval tree that each interval covers."""
    for pair in range(pair_tree.shape[0]):
        tree = pair_tree[pair]
        low, high = tree_begin[tree], tree_begin[tree + 1]
        begin, end = low + first[pair], low + last[pair]
        middle = (low + high) >> 1
        while not begin <= middle < end:
            if end <= middle:
                high = middle
            else:
                low = middle + 1
            middle = (low + high) >> 1
        out_node[pair] = middle
