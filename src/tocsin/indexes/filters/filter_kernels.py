"""Kernels of the filter index: which subscriptions a row enters, changes within, or leaves.

Subscriptions are stored in *tiles* of neighbours, the leaves of a tree with a fanout of `width`. Each node
bounds the boxes, parameters and score intervals under it, and is skipped if interval arithmetic shows that
none of them can hold the row.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import ENTER, LEAVE, UPDATE, ChangeSet
from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.indexes.filters.layout import FilterEntries, FilterScratch, FilterSubscriptions, TileTree
from tocsin.kernels.score_bounds import bound_block
from tocsin.kernels.scoring import BLOCK, Program, mark_tile, score_tile
from tocsin.kernels.status import AT, DONE, FULL, N_OUT, STEP

#: Bits of an image mask: the row before the step, and after it; and the number of masks.
PRE_IMAGE = 1
POST_IMAGE = 2
N_IMAGE_MASKS = 4


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
    """Clear `out_inside` where the score is outside of the interval. NaN is in none."""
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
def mark_nodes(
    bounding: Program,
    nodes: TileTree,
    first: int,
    count: int,
    columns: Floats,
    entry: int,
    scratch: FilterScratch,
    image: int,
) -> None:
    """Set bit `image` in the mask of each of `count` nodes that may hold this image of a row.

    `bounding` is the score program with columns and parameters exchanged: a node is a box of parameters.
    """
    n_dimensions = nodes.lo.shape[0]
    may_match = scratch.inside_before[:count]
    may_match[:] = True
    for d in range(n_dimensions):
        x = columns[d, entry]
        lo = nodes.lo[d, first : first + count]
        hi = nodes.hi[d, first : first + count]
        for i in range(count):
            may_match[i] &= (lo[i] <= x) & (x <= hi[i])
    if len(bounding.ops) > 0 and may_match.any():
        bound_block(
            bounding, nodes.theta_lo, nodes.theta_hi, 0, first,
            columns[n_dimensions:], entry, True, count, scratch.stack_low, scratch.stack_high,
        )  # fmt: skip
        least = scratch.stack_low[0]
        most = scratch.stack_high[0]
        for i in range(count):
            may_match[i] &= (most[i] >= nodes.score_lo[first + i]) & (least[i] <= nodes.score_hi[first + i])
    for i in range(count):
        scratch.image_mask[i] |= np.uint8(image if may_match[i] else 0)


@lean_kernel
def mark_subscriptions(
    program: Program,
    subscriptions: FilterSubscriptions,
    at: int,
    width: int,
    columns: Floats,
    is_there: Bools,
    entry: int,
    stack: Floats,
    out_score: Floats,
    out_inside: Bools,
) -> None:
    """Which subscriptions of a tile hold a row, and its scores there."""
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
def push_nodes(nodes: TileTree, level: int, first: int, count: int, scratch: FilterScratch, top: int) -> int:
    """Push the nodes with a non-empty mask; returns the new height of the stack."""
    for i in range(count):
        scratch.node_stack[2 * top] = first + i
        scratch.node_stack[2 * top + 1] = N_IMAGE_MASKS * level + scratch.image_mask[i]
        top += int(scratch.image_mask[i] > 0)
    return top


@lean_kernel
def find_changes(
    cursor: Longs,
    program: Program,
    bounding: Program,
    subscriptions: FilterSubscriptions,
    nodes: TileTree,
    entries: FilterEntries,
    scratch: FilterScratch,
    out: ChangeSet,
) -> int:
    """Write the changes of each step, from `cursor` on. `rank` is what changes of one op are ordered by."""
    n_levels = len(nodes.first) - 1
    is_scored = len(program.ops) > 0
    width = nodes.width
    for step in range(cursor[STEP], len(entries.bounds) - 1):
        cursor[STEP] = step
        for entry in range(max(cursor[AT], entries.bounds[step]), entries.bounds[step + 1]):
            n_out = cursor[N_OUT]
            image_mask = PRE_IMAGE if entries.was_there[entry] else 0
            image_mask |= POST_IMAGE if entries.is_there[entry] else 0
            # The top level is visited as if it had a parent.
            level = n_levels
            first = nodes.first[n_levels - 1]
            count = nodes.first[n_levels] - first
            top = 0
            while True:
                if level > 0:
                    scratch.image_mask[:count] = 0
                    if image_mask & PRE_IMAGE:
                        mark_nodes(bounding, nodes, first, count, entries.before, entry, scratch, PRE_IMAGE)
                    if image_mask & POST_IMAGE:
                        mark_nodes(bounding, nodes, first, count, entries.after, entry, scratch, POST_IMAGE)
                    top = push_nodes(nodes, level - 1, first, count, scratch, top)
                else:
                    at = first * width
                    scratch.inside_before[:width] = False
                    scratch.inside_after[:width] = False
                    if image_mask & PRE_IMAGE:
                        mark_subscriptions(
                            program, subscriptions, at, width, entries.before, entries.was_there, entry,
                            scratch.stack, scratch.score_before, scratch.inside_before,
                        )  # fmt: skip
                    if image_mask & POST_IMAGE:
                        mark_subscriptions(
                            program, subscriptions, at, width, entries.after, entries.is_there, entry,
                            scratch.stack, scratch.score_after, scratch.inside_after,
                        )  # fmt: skip
                    n_out = write_tile_changes(
                        n_out, step, entry, is_scored, subscriptions, at, width, entries, scratch, out
                    )
                    if n_out < 0:
                        cursor[AT] = entry
                        return FULL
                if top == 0:
                    break
                top -= 1
                node = scratch.node_stack[2 * top]
                level = scratch.node_stack[2 * top + 1] // N_IMAGE_MASKS
                image_mask = scratch.node_stack[2 * top + 1] % N_IMAGE_MASKS
                first = node
                if level > 0:
                    level_first = nodes.first[level - 1]
                    first = level_first + (node - nodes.first[level]) * width
                    count = min(width, nodes.first[level] - first)
            cursor[N_OUT] = n_out
        cursor[AT] = 0
    return DONE


@lean_kernel
def write_tile_changes(
    n_out: int,
    step: int,
    entry: int,
    is_scored: bool,
    subscriptions: FilterSubscriptions,
    at: int,
    width: int,
    entries: FilterEntries,
    scratch: FilterScratch,
    out: ChangeSet,
) -> int:
    """Write the changes that a row makes in a tile; returns the end of the output, -1 if it is full."""
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
        out.rank[n_out] = entry if is_in else entries.leave_rank[entry]
        n_out += 1
    return n_out


@lean_kernel
def find_rows(
    program: Program,
    subscriptions: FilterSubscriptions,
    place: int,
    columns: Floats,
    is_there: Bools,
    stack: Floats,
    inside: Bools,
    score: Floats,
    out_row: Ints,
    out_score: Floats,
) -> int:
    """List the rows that one subscription holds; returns how many. Cost: all rows."""
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
