"""Kernels of tiles: apply the steps of a delta, and replay the log of what they change.

The log of a step is sorted by subscription, replayed, and reported as changes. A subscription's moves are
replayed on a list of unknowns: its rows before, rank by rank, whatever they were. A move that takes an
unknown reveals which row it was. In the end the rows taken and not put back have left, those put have
entered, and those that are both were updated.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import ENTER, LEAVE, UPDATE, VALUE, ChangeSet
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.ranges.steps.step_kernels import RowImages
from tocsin.indexes.ranges.structures.blocked_rows_kernels import has_capacity, is_before, put_row
from tocsin.indexes.ranges.structures.blocked_rows_layout import NEVER, BlockedColumns
from tocsin.indexes.ranges.structures.points_kernels import Grid
from tocsin.indexes.ranges.topk.ranking import Ranking
from tocsin.indexes.ranges.topk.tiles_layout import (
    DELETE,
    LOWER,
    N_EFFECTS,
    N_LOG,
    N_MOVES,
    N_NETTED,
    PHASE,
    RAISE,
    REPORT,
    SORT,
    Gaps,
    Limits,
    Log,
    Replay,
    TileScratch,
    Update,
)
from tocsin.indexes.ranges.topk.tiles_update_kernels import list_first, log_update
from tocsin.kernels.status import AT, BLOCKS_FULL, DONE, FULL, LOG_LONG, N_OUT, STEP

#: Bits that one pass of the sort goes by.
DIGIT = 11
N_DIGITS = 1 << DIGIT


@lean_kernel
def sort_log(log: Log, count: int, n_subscriptions: int, begin: Longs) -> None:
    """Sort the log by subscription; each keeps its order in time. `begin`: N_DIGITS + 1 of scratch.

    Cost: linear, a pass for every 11 bits of a slot.
    """
    shift = 0
    is_spare = False
    while (n_subscriptions - 1) >> shift > 0:
        source, source_effect = log.subscription, log.effect
        target, target_effect = log.spare_subscription, log.spare_effect
        if is_spare:
            source, target = target, source
            source_effect, target_effect = target_effect, source_effect
        for digit in range(N_DIGITS + 1):
            begin[digit] = 0
        for i in range(count):
            begin[((source[i] >> shift) & (N_DIGITS - 1)) + 1] += 1
        for digit in range(N_DIGITS):
            begin[digit + 1] += begin[digit]
        for i in range(count):
            digit = (source[i] >> shift) & (N_DIGITS - 1)
            target[begin[digit]] = source[i]
            target_effect[begin[digit]] = source_effect[i]
            begin[digit] += 1
        is_spare = not is_spare
        shift += DIGIT
    if is_spare:
        for i in range(count):
            log.subscription[i] = log.spare_subscription[i]
            log.effect[i] = log.spare_effect[i]


@lean_kernel
def replay_moves(log: Log, first: int, end: int, k: int, replay: Replay) -> int:
    """Replay the moves of the log entries from `first` to before `end`. Returns how many rows were taken.

    Leaves what is held in `held`, rows taken by their rank in `taken`. Cost: k, and up to k a move.
    """
    held = replay.held
    for rank in range(k):
        held[rank] = -1 - rank
    n_taken = 0
    for entry in range(first, end):
        effect = log.effect[entry]
        for move in range(log.start[effect], log.start[effect + 1]):
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
    """Write one change at place `at`, without its op. Returns the next place."""
    out.step[at] = step
    out.subscription[at] = subscription
    out.row[at] = row
    out.other[at] = -1
    out.score[at] = score
    out.rank[at] = rank
    return at + 1


@inlined
def score_of(blocked: BlockedColumns, row: int, sign: float) -> float:
    """The score of a row that is there."""
    return float(blocked.y[blocked.slot_place[row]] * sign + 0.0)


@lean_kernel
def write_net(
    blocked: BlockedColumns,
    replay: Replay,
    n_taken: int,
    k: int,
    sign: float,
    step: int,
    subscription: int,
    out: ChangeSet,
    at: int,
) -> int:
    """Write the net of a replay: leaves, updates, enters. Returns the new length of the output."""
    seen = replay.seen
    for i in range(n_taken):
        seen[replay.taken[i]] = 1
    for i in range(k):
        if replay.held[i] > 0 and seen[replay.held[i] - 1] == 1:
            seen[replay.held[i] - 1] = 2
    for i in range(n_taken):
        if seen[replay.taken[i]] == 1:
            out.op[at] = LEAVE
            at = write_row(out, at, step, subscription, int(replay.taken[i]), np.nan, 0)
    for i in range(k):
        row = int(replay.held[i]) - 1
        if row >= 0 and seen[row] == 2 and replay.is_reported[row]:
            out.op[at] = UPDATE
            at = write_row(out, at, step, subscription, row, score_of(blocked, row, sign), i + 1)
    for i in range(k):
        row = int(replay.held[i]) - 1
        if row >= 0 and seen[row] == 0:
            out.op[at] = ENTER
            at = write_row(out, at, step, subscription, row, score_of(blocked, row, sign), i + 1)
    for i in range(n_taken):
        seen[replay.taken[i]] = 0
    return at


@inlined
def write_one(
    blocked: BlockedColumns,
    replay: Replay,
    log: Log,
    effect: int,
    sign: float,
    step: int,
    subscription: int,
    out: ChangeSet,
    at: int,
) -> int:
    """Write the net of one effect, without a replay. Returns the new length of the output."""
    first = log.start[effect]
    last = log.start[effect + 1] - 1
    row = int(log.row[last])
    rank = int(log.rank[last])
    if first < last and log.row[first] == row:
        if replay.is_reported[row]:
            out.op[at] = UPDATE
            at = write_row(out, at, step, subscription, row, score_of(blocked, row, sign), rank)
        return at
    if log.rank[first] < 0:
        out.op[at] = LEAVE
        at = write_row(out, at, step, subscription, int(log.row[first]), np.nan, 0)
    if rank > 0:
        out.op[at] = ENTER
        at = write_row(out, at, step, subscription, row, score_of(blocked, row, sign), rank)
    return at


@inlined
def write_minmax(
    blocked: BlockedColumns,
    replay: Replay,
    n_taken: int,
    sign: float,
    step: int,
    subscription: int,
    out: ChangeSet,
    at: int,
) -> int:
    """Write the row that a replay put first, or that there is none, if that is a change."""
    row = int(replay.held[0]) - 1
    if row >= 0:
        if n_taken == 0 or replay.taken[0] != row or replay.is_reported[row]:
            out.op[at] = VALUE
            at = write_row(out, at, step, subscription, row, score_of(blocked, row, sign), 0)
    elif n_taken > 0:
        out.op[at] = VALUE
        at = write_row(out, at, step, subscription, -1, np.nan, 0)
    return at


@lean_kernel
def report_log(
    blocked: BlockedColumns,
    limits: Limits,
    log: Log,
    replay: Replay,
    ranking: Ranking,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Report the changes of a sorted log by subscription, from the cursor on."""
    step = int(cursor[STEP])
    while cursor[AT] < cursor[N_LOG]:
        first = int(cursor[AT])
        end = first + 1
        subscription = int(log.subscription[first])
        while end < cursor[N_LOG] and log.subscription[end] == subscription:
            end += 1
        # With one k in use there is no need to fetch the subscription's.
        k = int(limits.k[limits.kind[subscription] if len(limits.k) > 1 else 0])
        effect = int(log.effect[first])
        # An effect of a shortened log may have moves of any kind.
        is_one = end == first + 1 and not ranking.is_minmax and effect >= cursor[N_NETTED]
        if cursor[N_OUT] + (2 if is_one else 2 * k) > len(out.step):
            return FULL
        at = int(cursor[N_OUT])
        if is_one:
            at = write_one(blocked, replay, log, effect, ranking.sign, step, subscription, out, at)
        else:
            n_taken = replay_moves(log, first, end, k, replay)
            if ranking.is_minmax:
                at = write_minmax(blocked, replay, n_taken, ranking.sign, step, subscription, out, at)
            else:
                at = write_net(blocked, replay, n_taken, k, ranking.sign, step, subscription, out, at)
        cursor[N_OUT] = at
        cursor[AT] = end
    return DONE


@lean_kernel
def shorten_log(log: Log, limits: Limits, replay: Replay, out_log: Log, cursor: Longs) -> None:
    """Write a sorted log to another, with one effect per subscription that does all of its moves.

    The other log has capacity for as many entries, effects and moves as this one has.
    """
    n_out = 0
    n_moves = 0
    first = 0
    while first < cursor[N_LOG]:
        subscription = log.subscription[first]
        end = first + 1
        while end < cursor[N_LOG] and log.subscription[end] == subscription:
            end += 1
        k = int(limits.k[limits.kind[subscription]])
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
        out_log.subscription[n_out] = subscription
        out_log.effect[n_out] = n_out
        n_out += 1
        out_log.start[n_out] = n_moves
        first = end
    cursor[N_LOG] = n_out
    cursor[N_NETTED] = n_out
    cursor[N_EFFECTS] = n_out
    cursor[N_MOVES] = n_moves


# Applying a delta, and listing answers


@lean_kernel
def make_update(
    blocked: BlockedColumns, images: RowImages, rows: Ints, image: int, phase: int
) -> tuple[Update, bool]:
    """The update that an image causes in a phase, and whether there is one.

    Insertions and rows that rank higher now go first, so that later removals are replaced by rows that stay.
    A row that moves along x is removed at one place and inserted at the other.
    """
    other_image = images.other_image[image]
    row = rows[image]
    x = images.value[image, 0]
    y = images.value[image, 1]
    born = int(images.born[image])
    if phase == DELETE:
        return Update(row, x, y, born, np.inf, NEVER, False, True), bool(other_image < 0)
    if other_image >= 0:
        old_x = images.value[other_image, 0]
        old_y = images.value[other_image, 1]
        old_born = int(images.born[other_image])
        if old_x == x:
            is_raise = is_before(y, born, old_y, old_born)
            if is_raise:
                return Update(row, x, y, born, old_y, old_born, True, False), phase == RAISE
            return Update(row, x, old_y, old_born, y, born, False, False), phase == LOWER
        if blocked.slot_place[row] >= 0 and phase == RAISE:
            return Update(row, old_x, old_y, old_born, np.inf, NEVER, False, True), True
    return Update(row, x, y, born, np.inf, NEVER, True, True), phase == RAISE


@lean_kernel
def apply_steps(
    blocked: BlockedColumns,
    grid: Grid,
    limits: Limits,
    k: int,
    n_subscriptions: int,
    images: RowImages,
    scratch: TileScratch,
    log: Log,
    ranking: Ranking,
    longest_log: int,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes.

    If not DONE, something must grow, or the log be netted, before the next call.
    """
    while cursor[STEP] < len(images.middle):
        step = int(cursor[STEP])
        start = int(images.start[step])
        middle = int(images.middle[step])
        end = int(images.start[step + 1])
        while cursor[PHASE] < SORT:
            phase = int(cursor[PHASE])
            first = start if phase == DELETE else middle
            size = middle - start if phase == DELETE else end - middle
            while cursor[AT] < size:
                # Raises go best first; deletes and lowers go worst first.
                at = int(cursor[AT])
                image = first + at if phase == RAISE else first + size - 1 - at
                update, is_due = make_update(blocked, images, scratch.rows, image, phase)
                if not is_due:
                    cursor[AT] += 1
                    continue
                if cursor[N_LOG] > longest_log:
                    return LOG_LONG
                if not has_capacity(blocked):
                    return BLOCKS_FULL
                n_log, n_effects, n_moves = cursor[N_LOG], cursor[N_EFFECTS], cursor[N_MOVES]
                status = log_update(
                    blocked, grid, limits, k, update, scratch.around, scratch.gaps, log, cursor
                )
                if status != DONE:
                    cursor[N_LOG], cursor[N_EFFECTS], cursor[N_MOVES] = n_log, n_effects, n_moves
                    return status
                is_gone = update.is_absent and not update.is_raise
                y = update.low_y if update.is_raise else update.high_y
                born = update.low_born if update.is_raise else update.high_born
                put_row(blocked, update.row, update.x, y, -1 if is_gone else born)
                is_halfway = phase == RAISE and is_gone
                cursor[AT] += 0 if is_halfway else 1
            cursor[PHASE] += 1
            cursor[AT] = 0
        if cursor[PHASE] == SORT:
            sort_log(log, int(cursor[N_LOG]), n_subscriptions, scratch.begin)
            cursor[PHASE] = REPORT
        mark_reported(images, middle, end, ranking.is_minmax, scratch.replay, True)
        status = report_log(blocked, limits, log, scratch.replay, ranking, out, cursor)
        mark_reported(images, middle, end, ranking.is_minmax, scratch.replay, False)
        if status != DONE:
            return status
        cursor[STEP] += 1
        cursor[PHASE] = RAISE
        cursor[AT] = 0
        cursor[N_LOG] = 0
        cursor[N_EFFECTS] = 0
        cursor[N_MOVES] = 0
        cursor[N_NETTED] = 0
    return DONE


@lean_kernel
def mark_reported(
    images: RowImages, first: int, end: int, is_minmax: bool, replay: Replay, is_set: bool
) -> None:
    """Mark the rows to report where they stay in an answer; or clear the marks."""
    for image in range(first, end):
        other_image = images.other_image[image]
        if other_image >= 0:
            is_other = images.value[image, 1] != images.value[other_image, 1]
            is_touched = images.touched[image] and not is_minmax
            replay.is_reported[images.row[image]] = is_set and (is_other or is_touched)


@lean_kernel
def list_answers(
    blocked: BlockedColumns,
    lo: Floats,
    hi: Floats,
    limits: Limits,
    slots: Longs,
    gaps: Gaps,
    ranking: Ranking,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Write the answers of the subscriptions in `slots`, from the cursor on."""
    while cursor[AT] < len(slots):
        subscription = slots[cursor[AT]]
        n_found = list_first(
            blocked, lo[subscription], hi[subscription], int(limits.k[limits.kind[subscription]]), gaps
        )
        at = int(cursor[N_OUT])
        if at + n_found + 1 > len(out.step):
            return FULL
        for i in range(n_found):
            row = int(blocked.slot[gaps.found[i]])
            out.op[at] = VALUE if ranking.is_minmax else ENTER
            at = write_row(
                out,
                at,
                0,
                subscription,
                row,
                score_of(blocked, row, ranking.sign),
                0 if ranking.is_minmax else i + 1,
            )
        if ranking.is_minmax and n_found == 0:
            out.op[at] = VALUE
            at = write_row(out, at, 0, subscription, -1, np.nan, 0)
        cursor[N_OUT] = at
        cursor[AT] += 1
    return DONE
