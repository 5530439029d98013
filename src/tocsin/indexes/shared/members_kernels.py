"""Which subscriptions a row enters, changes within, or leaves: boxes and score intervals.

Subscriptions lie in *tiles*, near ones together. A *node* is a tile, or as many nodes of the level below as a
tile has subscriptions. It knows the bounds of all that is below it; what no box and no score interval of a
node can hold, by interval arithmetic, is not looked for there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bools, Bytes, Floats, Ints, Longs
from tocsin.indexes.shared.bounds_kernels import bound_block
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.programs_kernels import BLOCK, Program, mark_tile, score_tile
from tocsin.indexes.shared.scans import ChangeColumns

#: The contract's operations and statuses, again: kernels read the globals of their own file.
LEAVE = 0
UPDATE = 1
ENTER = 2
DONE = 0
FULL = 1

#: A row as it was, and as it is; and how many different things a node may hold of it.
BEFORE = 1
AFTER = 2
IMAGES = 4

#: Where to go on after FULL: places in `cursor`.
STEP = 0
ENTRY = 1
N_OUT = 2


class Subscriptions(NamedTuple):
    """By place, column-wise; the places of a tile lie side by side."""

    #: float64 (dimensions, places): closed bounds of the boxes
    lo: Floats
    hi: Floats
    #: float64 (n_theta, places)
    theta: Floats
    #: float64 (places,): closed bounds of the score
    score_lo: Floats
    score_hi: Floats
    #: int32 (places,): whose place it is, -1 for nobody's
    slot: Ints


class Nodes(NamedTuple):
    """What each node knows, level after level: first the tiles, in the end at most as many as a node has."""

    #: int64 (levels + 1,): where each level begins
    first: Longs
    #: float64 (dimensions, nodes): around all boxes below
    lo: Floats
    hi: Floats
    #: float64 (n_theta, nodes): around all parameters below
    theta_lo: Floats
    theta_hi: Floats
    #: float64 (nodes,): around all score intervals below
    score_lo: Floats
    score_hi: Floats
    #: places of a tile, and nodes of a node
    width: int


class Entries(NamedTuple):
    """A delta's entries; within a step they are ordered by `born_after`."""

    #: int64 (steps + 1,): where each step's entries begin
    bounds: Longs
    #: int32 (entries,)
    row: Ints
    #: bool (entries,)
    was_there: Bools
    is_there: Bools
    touched: Bools
    #: int32 (entries,): how many of all entries come before, ordered by `born_before` within their step
    left_at: Ints
    #: float64 (columns, entries)
    before: Floats
    after: Floats


class Scratch(NamedTuple):
    """Working memory."""

    #: float64 (depth, BLOCK): stacks of programs, and of their bounds
    stack: Floats
    stack_low: Floats
    stack_high: Floats
    #: float64 and bool (BLOCK,): one row and the subscriptions of a tile
    score_before: Floats
    score_after: Floats
    inside_before: Bools
    inside_after: Bools
    #: uint8 (BLOCK,): what of the row each of a node's children may hold: BEFORE, AFTER, both or nothing
    holds: Bytes
    #: int64 (2 × (levels + 1) × width,): nodes to look at; IMAGES times their levels, and what they may hold
    todo: Longs


@lean_kernel
def mark_scores(
    score: Floats,
    n_rows: int,
    stride: int,
    score_lo: Floats,
    score_hi: Floats,
    at: int,
    width: int,
    out_inside: Bools,
) -> None:
    """Keep those of a tile inside whose score is in the interval. NaN is in none."""
    if width == 1:
        low = score_lo[at]
        high = score_hi[at]
        for r in range(n_rows):
            out_inside[r] &= (low <= score[r]) & (score[r] <= high)
        return
    lows = score_lo[at : at + width]
    highs = score_hi[at : at + width]
    for r in range(n_rows):
        for i in range(width):
            x = score[r * stride + i]
            out_inside[r * stride + i] &= (lows[i] <= x) & (x <= highs[i])


@lean_kernel
def open_nodes(
    bounding: Program,
    nodes: Nodes,
    first: int,
    count: int,
    columns: Floats,
    entry: int,
    scratch: Scratch,
    image: int,
) -> None:
    """Add an image of a row to what those of some nodes may hold that may hold it.

    `bounding` is the score program with columns and parameters in each other's place: a node is a box of
    parameters.
    """
    n_dimensions = nodes.lo.shape[0]
    mine = scratch.inside_before[:count]
    mine[:] = True
    for d in range(n_dimensions):
        x = columns[d, entry]
        lo = nodes.lo[d, first : first + count]
        hi = nodes.hi[d, first : first + count]
        for i in range(count):
            mine[i] &= (lo[i] <= x) & (x <= hi[i])
    if len(bounding.ops) > 0 and mine.any():
        bound_block(
            bounding, nodes.theta_lo, nodes.theta_hi, 0, first,
            columns[n_dimensions:], entry, True, count, scratch.stack_low, scratch.stack_high,
        )  # fmt: skip
        least = scratch.stack_low[0]
        most = scratch.stack_high[0]
        for i in range(count):
            mine[i] &= (most[i] >= nodes.score_lo[first + i]) & (least[i] <= nodes.score_hi[first + i])
    for i in range(count):
        scratch.holds[i] |= np.uint8(image if mine[i] else 0)


@lean_kernel
def mark_subscriptions(
    program: Program,
    subscriptions: Subscriptions,
    at: int,
    width: int,
    columns: Floats,
    is_there: Bools,
    entry: int,
    stack: Floats,
    out_score: Floats,
    out_inside: Bools,
) -> None:
    """Tell which subscriptions of a tile a row is inside of, and its scores."""
    mark_tile(columns, is_there, entry, 1, subscriptions.lo, subscriptions.hi, at, width, out_inside)
    if len(program.ops) > 0 and out_inside[:width].any():
        score_tile(
            program, columns, subscriptions.lo.shape[0], entry, 1,
            subscriptions.theta, at, width, stack, out_score,
        )  # fmt: skip
        mark_scores(
            out_score, 1, BLOCK, subscriptions.score_lo, subscriptions.score_hi, at, width, out_inside
        )


@lean_kernel
def push_open(nodes: Nodes, level: int, first: int, count: int, scratch: Scratch, top: int) -> int:
    """Put those of some nodes of a level on the stack that may hold something; its new height."""
    for i in range(count):
        scratch.todo[2 * top] = first + i
        scratch.todo[2 * top + 1] = IMAGES * level + scratch.holds[i]
        top += int(scratch.holds[i] > 0)
    return top


@lean_kernel
def find_changes(
    cursor: Longs,
    program: Program,
    bounding: Program,
    subscriptions: Subscriptions,
    nodes: Nodes,
    entries: Entries,
    scratch: Scratch,
    out: ChangeColumns,
) -> int:
    """Write the changes of each step, from `cursor` on. As rank they get what orders those of one kind."""
    n_levels = len(nodes.first) - 1
    is_scored = len(program.ops) > 0
    width = nodes.width
    for step in range(cursor[STEP], len(entries.bounds) - 1):
        cursor[STEP] = step
        for entry in range(max(cursor[ENTRY], entries.bounds[step]), entries.bounds[step + 1]):
            n_out = cursor[N_OUT]
            holds = BEFORE if entries.was_there[entry] else 0
            holds |= AFTER if entries.is_there[entry] else 0
            # The top level is looked at as if it had a parent.
            level = n_levels
            first = nodes.first[n_levels - 1]
            count = nodes.first[n_levels] - first
            top = 0
            while True:
                if level > 0:
                    scratch.holds[:count] = 0
                    if holds & BEFORE:
                        open_nodes(bounding, nodes, first, count, entries.before, entry, scratch, BEFORE)
                    if holds & AFTER:
                        open_nodes(bounding, nodes, first, count, entries.after, entry, scratch, AFTER)
                    top = push_open(nodes, level - 1, first, count, scratch, top)
                else:
                    at = first * width
                    scratch.inside_before[:width] = False
                    scratch.inside_after[:width] = False
                    if holds & BEFORE:
                        mark_subscriptions(
                            program, subscriptions, at, width, entries.before, entries.was_there, entry,
                            scratch.stack, scratch.score_before, scratch.inside_before,
                        )  # fmt: skip
                    if holds & AFTER:
                        mark_subscriptions(
                            program, subscriptions, at, width, entries.after, entries.is_there, entry,
                            scratch.stack, scratch.score_after, scratch.inside_after,
                        )  # fmt: skip
                    n_out = write_tile(
                        n_out, step, entry, is_scored, subscriptions, at, width, entries, scratch, out
                    )
                    if n_out < 0:
                        cursor[ENTRY] = entry
                        return FULL
                if top == 0:
                    break
                top -= 1
                node = scratch.todo[2 * top]
                level = scratch.todo[2 * top + 1] // IMAGES
                holds = scratch.todo[2 * top + 1] % IMAGES
                first = node
                if level > 0:
                    below = nodes.first[level - 1]
                    first = below + (node - nodes.first[level]) * width
                    count = min(width, nodes.first[level] - first)
            cursor[N_OUT] = n_out
        cursor[ENTRY] = 0
    return DONE


@lean_kernel
def write_tile(
    n_out: int,
    step: int,
    entry: int,
    is_scored: bool,
    subscriptions: Subscriptions,
    at: int,
    width: int,
    entries: Entries,
    scratch: Scratch,
    out: ChangeColumns,
) -> int:
    """Write what a row is to the subscriptions of a tile; how many changes there are, -1 if too many."""
    touched = entries.touched[entry]
    for i in range(width):
        was_in = scratch.inside_before[i]
        is_in = scratch.inside_after[i]
        slot = subscriptions.slot[at + i]
        if not (was_in or is_in) or slot < 0:
            continue
        is_other = touched or (is_scored and scratch.score_before[i] != scratch.score_after[i])
        if was_in and is_in and not is_other:
            continue
        if n_out == len(out.step):
            return -1
        out.step[n_out] = step
        out.subscription[n_out] = slot
        out.op[n_out] = UPDATE if was_in and is_in else (ENTER if is_in else LEAVE)
        out.row[n_out] = entries.row[entry]
        # Adding zero turns minus zero into zero.
        out.score[n_out] = scratch.score_after[i] + 0.0 if is_scored and is_in else np.nan
        out.rank[n_out] = entry if is_in else entries.left_at[entry]
        n_out += 1
    return n_out


@lean_kernel
def find_rows(
    program: Program,
    subscriptions: Subscriptions,
    place: int,
    columns: Floats,
    is_there: Bools,
    stack: Floats,
    inside: Bools,
    score: Floats,
    out_row: Ints,
    out_score: Floats,
) -> int:
    """Write the rows, of all there are, that are inside of a subscription; how many. Cost: all rows."""
    n_out = 0
    for row in range(0, len(is_there), BLOCK):
        count = min(BLOCK, len(is_there) - row)
        mark_tile(columns, is_there, row, count, subscriptions.lo, subscriptions.hi, place, 1, inside)
        if len(program.ops) > 0 and inside[:count].any():
            score_tile(
                program, columns, subscriptions.lo.shape[0], row, count,
                subscriptions.theta, place, 1, stack, score,
            )  # fmt: skip
            mark_scores(score, count, 1, subscriptions.score_lo, subscriptions.score_hi, place, 1, inside)
        for i in range(count):
            if inside[i]:
                out_row[n_out] = row + i
                out_score[n_out] = score[i] + 0.0 if len(program.ops) > 0 else np.nan
                n_out += 1
    return n_out
