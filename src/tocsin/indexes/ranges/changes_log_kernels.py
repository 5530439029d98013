"""Kernels over the log of a step: sorted by subscription, replayed, and reported as changes.

A subscription's moves are replayed on a list of unknowns: what it held before, rank by rank, whatever that
was. A move that takes an unknown tells which row it was. In the end the rows taken and not put back have
left, those put there have entered, and those that are both were updated.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ENTER, LEAVE, UPDATE, VALUE, ChangeSet, Longs
from tocsin.indexes.ranges.changes_columns import (
    AT,
    DONE,
    N_CELLS,
    N_KEPT,
    N_LOG,
    N_MOVES,
    N_OUT,
    OUT_FULL,
    STEP,
    Limits,
    Log,
    Replay,
)
from tocsin.indexes.ranges.objects_columns import Objects
from tocsin.indexes.shared.jit import inlined, lean_kernel

#: Bits that one pass of the sort goes by.
DIGIT = 11
N_DIGITS = 1 << DIGIT


@lean_kernel
def sort_log(log: Log, count: int, n_subscriptions: int, begin: Longs) -> None:
    """Sort the log by subscription; each keeps its order of happening. `begin`: N_DIGITS + 1 of scratch.

    Cost: linear, a pass for every 11 bits of a slot.
    """
    shift = 0
    is_spare = False
    while (n_subscriptions - 1) >> shift > 0:
        source, source_cell = log.subscription, log.cell
        target, target_cell = log.spare_subscription, log.spare_cell
        if is_spare:
            source, target = target, source
            source_cell, target_cell = target_cell, source_cell
        for digit in range(N_DIGITS + 1):
            begin[digit] = 0
        for i in range(count):
            begin[((source[i] >> shift) & (N_DIGITS - 1)) + 1] += 1
        for digit in range(N_DIGITS):
            begin[digit + 1] += begin[digit]
        for i in range(count):
            digit = (source[i] >> shift) & (N_DIGITS - 1)
            target[begin[digit]] = source[i]
            target_cell[begin[digit]] = source_cell[i]
            begin[digit] += 1
        is_spare = not is_spare
        shift += DIGIT
    if is_spare:
        for i in range(count):
            log.subscription[i] = log.spare_subscription[i]
            log.cell[i] = log.spare_cell[i]


@lean_kernel
def replay_moves(log: Log, first: int, end: int, k: int, replay: Replay) -> int:
    """Replay the moves of the log entries from `first` to before `end`. Answers how many rows were taken.

    Leaves what is held in `held`, rows taken by their rank in `taken`. Cost: k, and up to k a move.
    """
    held = replay.held
    for rank in range(k):
        held[rank] = -1 - rank
    n_taken = 0
    for entry in range(first, end):
        cell = log.cell[entry]
        for move in range(log.start[cell], log.start[cell + 1]):
            row = log.row[move]
            rank = log.rank[move]
            if rank > 0:
                for i in range(k - 1, rank - 1, -1):
                    held[i] = held[i - 1]
                held[rank - 1] = row + 1
                continue
            was = held[-rank - 1]
            for i in range(-rank - 1, k - 1):
                held[i] = held[i + 1]
            held[k - 1] = 0
            if was < 0:
                at = n_taken
                while at > 0 and replay.taken_rank[at - 1] > -was:
                    replay.taken[at] = replay.taken[at - 1]
                    replay.taken_rank[at] = replay.taken_rank[at - 1]
                    at -= 1
                replay.taken[at] = row
                replay.taken_rank[at] = -was
                n_taken += 1
    return n_taken


@inlined
def write_row(
    out: ChangeSet, at: int, step: int, subscription: int, row: int, score: float, rank: int
) -> int:
    """Write one change at place `at`, without its op. Answers the next place."""
    out.step[at] = step
    out.subscription[at] = subscription
    out.row[at] = row
    out.other[at] = -1
    out.score[at] = score
    out.rank[at] = rank
    return at + 1


@inlined
def score_of(objects: Objects, row: int, sign: float) -> float:
    """The score of a row that is there."""
    return float(objects.y[objects.slot_place[row]] * sign + 0.0)


@lean_kernel
def write_net(
    objects: Objects,
    replay: Replay,
    n_taken: int,
    k: int,
    sign: float,
    step: int,
    who: int,
    out: ChangeSet,
    at: int,
) -> int:
    """Write what a replay came to: leaves, updates, enters. Answers the new length of the output."""
    seen = replay.seen
    for i in range(n_taken):
        seen[replay.taken[i]] = 1
    for i in range(k):
        if replay.held[i] > 0 and seen[replay.held[i] - 1] == 1:
            seen[replay.held[i] - 1] = 2
    for i in range(n_taken):
        if seen[replay.taken[i]] == 1:
            out.op[at] = LEAVE
            at = write_row(out, at, step, who, int(replay.taken[i]), np.nan, 0)
    for i in range(k):
        row = int(replay.held[i]) - 1
        if row >= 0 and seen[row] == 2 and replay.is_news[row]:
            out.op[at] = UPDATE
            at = write_row(out, at, step, who, row, score_of(objects, row, sign), i + 1)
    for i in range(k):
        row = int(replay.held[i]) - 1
        if row >= 0 and seen[row] == 0:
            out.op[at] = ENTER
            at = write_row(out, at, step, who, row, score_of(objects, row, sign), i + 1)
    for i in range(n_taken):
        seen[replay.taken[i]] = 0
    return at


@inlined
def write_one(
    objects: Objects,
    replay: Replay,
    log: Log,
    cell: int,
    sign: float,
    step: int,
    who: int,
    out: ChangeSet,
    at: int,
) -> int:
    """Write what one cell came to, without a replay. Answers the new length of the output."""
    first = log.start[cell]
    last = log.start[cell + 1] - 1
    row = int(log.row[last])
    rank = int(log.rank[last])
    if first < last and log.row[first] == row:
        if replay.is_news[row]:
            out.op[at] = UPDATE
            at = write_row(out, at, step, who, row, score_of(objects, row, sign), rank)
        return at
    if log.rank[first] < 0:
        out.op[at] = LEAVE
        at = write_row(out, at, step, who, int(log.row[first]), np.nan, 0)
    if rank > 0:
        out.op[at] = ENTER
        at = write_row(out, at, step, who, row, score_of(objects, row, sign), rank)
    return at


@inlined
def write_extreme(
    objects: Objects, replay: Replay, n_taken: int, sign: float, step: int, who: int, out: ChangeSet, at: int
) -> int:
    """Write the row that a replay put first, or that there is none, if that is any news."""
    row = int(replay.held[0]) - 1
    if row >= 0:
        if n_taken == 0 or replay.taken[0] != row or replay.is_news[row]:
            out.op[at] = VALUE
            at = write_row(out, at, step, who, row, score_of(objects, row, sign), 0)
    elif n_taken > 0:
        out.op[at] = VALUE
        at = write_row(out, at, step, who, -1, np.nan, 0)
    return at


@lean_kernel
def report_log(
    objects: Objects,
    limits: Limits,
    log: Log,
    replay: Replay,
    is_extreme: bool,
    sign: float,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Report on the subscriptions of a sorted log, from the cursor on."""
    step = int(cursor[STEP])
    while cursor[AT] < cursor[N_LOG]:
        first = int(cursor[AT])
        end = first + 1
        who = int(log.subscription[first])
        while end < cursor[N_LOG] and log.subscription[end] == who:
            end += 1
        # With one k in use there is no need to fetch whose it is.
        k = int(limits.k[limits.kind[who] if len(limits.k) > 1 else 0])
        cell = int(log.cell[first])
        # A cell of a shortened log may have moves of any kind.
        is_one = end == first + 1 and not is_extreme and cell >= cursor[N_KEPT]
        if cursor[N_OUT] + (2 if is_one else 2 * k) > len(out.step):
            return OUT_FULL
        at = int(cursor[N_OUT])
        if is_one:
            at = write_one(objects, replay, log, cell, sign, step, who, out, at)
        else:
            n_taken = replay_moves(log, first, end, k, replay)
            if is_extreme:
                at = write_extreme(objects, replay, n_taken, sign, step, who, out, at)
            else:
                at = write_net(objects, replay, n_taken, k, sign, step, who, out, at)
        cursor[N_OUT] = at
        cursor[AT] = end
    return DONE


@lean_kernel
def shorten_log(log: Log, limits: Limits, replay: Replay, out_log: Log, cursor: Longs) -> None:
    """Write a sorted log to another, with one cell for each subscription, which does all of its moves.

    The other log has room for as many entries, cells and moves as this one has.
    """
    n_out = 0
    n_moves = 0
    first = 0
    while first < cursor[N_LOG]:
        who = log.subscription[first]
        end = first + 1
        while end < cursor[N_LOG] and log.subscription[end] == who:
            end += 1
        k = int(limits.k[limits.kind[who]])
        n_taken = replay_moves(log, first, end, k, replay)
        for i in range(n_taken - 1, -1, -1):
            out_log.row[n_moves] = replay.taken[i]
            out_log.rank[n_moves] = -replay.taken_rank[i]
            n_moves += 1
        for i in range(k):
            if replay.held[i] > 0:
                out_log.row[n_moves] = replay.held[i] - 1
                out_log.rank[n_moves] = i + 1
                n_moves += 1
        out_log.subscription[n_out] = who
        out_log.cell[n_out] = n_out
        n_out += 1
        out_log.start[n_out] = n_moves
        first = end
    cursor[N_LOG] = n_out
    cursor[N_KEPT] = n_out
    cursor[N_CELLS] = n_out
    cursor[N_MOVES] = n_moves
