"""Which rows enter, change within, or leave a box or a score interval: tiles of subscriptions by rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs, Ops
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.programs_kernels import Program, mark_tile, score_tile, tile_stride, tile_width
from tocsin.indexes.shared.scans import ChangeColumns

#: The contract's operations and statuses, again: kernels read the globals of their own file.
LEAVE = 0
UPDATE = 1
ENTER = 2
UNCHANGED = -1
DONE = 0
FULL = 1

#: Where to go on after FULL: places in `cursor`.
STEP = 0
SUBSCRIPTION = 1
N_OUT = 2


class Subscriptions(NamedTuple):
    """By subscription slot, column-wise."""

    #: float64 (dimensions, slots): closed bounds of the boxes
    lo: Floats
    hi: Floats
    #: float64 (n_theta, slots)
    theta: Floats
    #: float64 (slots,): closed bounds of the score
    score_lo: Floats
    score_hi: Floats
    #: bool (slots,)
    is_live: Bools


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
    #: int32 (entries,): the entries again, ordered by `born_before` within their step
    by_born_before: Ints
    #: float64 (columns, entries)
    before: Floats
    after: Floats


class Scratch(NamedTuple):
    """Working memory of one tile."""

    #: float64 (depth, BLOCK)
    stack: Floats
    #: float64 and bool (tile,)
    score_before: Floats
    score_after: Floats
    inside_before: Bools
    inside_after: Bools
    #: bool (BLOCK,): whether a subscription of the tile has any row inside, before or after
    is_reached: Bools
    #: int8 (entries of the largest step,): what an entry that is or was inside is to the subscription
    op: Ops
    #: int32 (entries of the largest step,): the entries that something is to be told of, in order
    told: Ints


@kernel
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


@kernel
def mark_reached(
    inside_before: Bools,
    inside_after: Bools,
    n_rows: int,
    stride: int,
    is_live: Bools,
    at: int,
    width: int,
    out_reached: Bools,
) -> None:
    """Which subscriptions of a tile have a row inside."""
    if width == 1:
        out_reached[0] = is_live[at] and (inside_before[:n_rows].any() or inside_after[:n_rows].any())
        return
    out_reached[:width] = False
    for r in range(n_rows):
        for i in range(width):
            out_reached[i] |= inside_before[r * stride + i] | inside_after[r * stride + i]
    for i in range(width):
        out_reached[i] &= is_live[at + i]


@kernel
def find_changes(
    cursor: Longs,
    program: Program,
    subscriptions: Subscriptions,
    n_subscriptions: int,
    entries: Entries,
    scratch: Scratch,
    out: ChangeColumns,
) -> int:
    """Write the changes of each step, from `cursor` on: by subscription, op, then born."""
    first_column = subscriptions.lo.shape[0]
    is_scored = len(program.ops) > 0
    for step in range(cursor[STEP], len(entries.bounds) - 1):
        start = entries.bounds[step]
        n_rows = entries.bounds[step + 1] - start
        is_any_before = entries.was_there[start : start + n_rows].any()
        is_any_after = entries.is_there[start : start + n_rows].any()
        at = cursor[SUBSCRIPTION]
        while n_rows > 0 and at < n_subscriptions:
            width = tile_width(n_rows, n_subscriptions - at)
            if width == 1 and not subscriptions.is_live[at]:
                at += 1
                continue
            stride = tile_stride(width)
            for side in range(2):
                columns = entries.before if side == 0 else entries.after
                is_there = entries.was_there if side == 0 else entries.is_there
                inside = scratch.inside_before if side == 0 else scratch.inside_after
                score = scratch.score_before if side == 0 else scratch.score_after
                if not (is_any_before if side == 0 else is_any_after):
                    inside[: n_rows * stride] = False
                    continue
                mark_tile(
                    columns, is_there, start, n_rows, subscriptions.lo, subscriptions.hi, at, width, inside
                )
                if is_scored and (width > 1 or inside[:n_rows].any()):
                    score_tile(
                        program, columns, first_column, start, n_rows,
                        subscriptions.theta, at, width, scratch.stack, score,
                    )  # fmt: skip
                    mark_scores(
                        score, n_rows, stride,
                        subscriptions.score_lo, subscriptions.score_hi, at, width, inside,
                    )  # fmt: skip
            # Most subscriptions see nothing of a step: the call that writes is for those that do.
            mark_reached(
                scratch.inside_before, scratch.inside_after, n_rows, stride,
                subscriptions.is_live, at, width, scratch.is_reached,
            )  # fmt: skip
            for i in range(width):
                if scratch.is_reached[i] and not write_changes(
                    cursor, step, at + i, i, stride, is_scored, entries, scratch, out
                ):
                    cursor[STEP] = step
                    cursor[SUBSCRIPTION] = at + i
                    return FULL
            at += width
        cursor[SUBSCRIPTION] = 0
    return DONE


@kernel
def write_changes(
    cursor: Longs,
    step: int,
    slot: int,
    offset: int,
    stride: int,
    is_scored: bool,
    entries: Entries,
    scratch: Scratch,
    out: ChangeColumns,
) -> bool:
    """Write one subscription's changes of one step; False, and nothing written, if they do not fit."""
    start = entries.bounds[step]
    n_rows = entries.bounds[step + 1] - start
    n_leaves = 0
    n_updates = 0
    n_enters = 0
    n_told = 0
    for r in range(n_rows):
        place = r * stride + offset
        was_in = scratch.inside_before[place]
        is_in = scratch.inside_after[place]
        if not (was_in or is_in):
            continue
        is_other = entries.touched[start + r] or (
            is_scored and scratch.score_before[place] != scratch.score_after[place]
        )
        scratch.op[r] = UNCHANGED
        scratch.told[n_told] = r
        n_told += 1
        if was_in and not is_in:
            scratch.op[r] = LEAVE
            n_leaves += 1
        elif was_in and is_other:
            scratch.op[r] = UPDATE
            n_updates += 1
        elif is_in and not was_in:
            scratch.op[r] = ENTER
            n_enters += 1
        else:
            n_told -= 1

    n_out = cursor[N_OUT]
    if n_out + n_leaves + n_updates + n_enters > len(out.step):
        return False
    for op in range(3):
        count = n_leaves if op == LEAVE else (n_updates if op == UPDATE else n_enters)
        if count == 0:
            continue
        # Leaves go by `born_before`, which is another order of all entries.
        for i in range(n_rows if op == LEAVE else n_told):
            r = entries.by_born_before[start + i] - start if op == LEAVE else scratch.told[i]
            place = r * stride + offset
            if scratch.op[r] != op or not (scratch.inside_before[place] or scratch.inside_after[place]):
                continue
            out.step[n_out] = step
            out.subscription[n_out] = slot
            out.op[n_out] = op
            out.row[n_out] = entries.row[start + r]
            # Adding zero turns minus zero into zero.
            is_shown = is_scored and op != LEAVE
            out.score[n_out] = scratch.score_after[place] + 0.0 if is_shown else np.nan
            out.rank[n_out] = 0
            n_out += 1
    cursor[N_OUT] = n_out
    return True
