"""The kernel that takes a delta's steps one after the other, and the one that lists answers."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ENTER, VALUE, ChangeSet, Floats, Ints, Longs
from tocsin.indexes.ranges.changes_columns import (
    AT,
    DELETE,
    DONE,
    LOG_LONG,
    LOWER,
    N_CELLS,
    N_KEPT,
    N_LOG,
    N_MOVES,
    N_OUT,
    OBJECTS_FULL,
    OUT_FULL,
    PHASE,
    RAISE,
    REPORT,
    SORT,
    STEP,
    Around,
    Gaps,
    Limits,
    Log,
    Replay,
    Update,
)
from tocsin.indexes.ranges.changes_log_kernels import report_log, score_of, sort_log, write_row
from tocsin.indexes.ranges.changes_update_kernels import list_first, log_update
from tocsin.indexes.ranges.objects_columns import NEVER, Objects
from tocsin.indexes.ranges.objects_kernels import has_room, is_before, put_row
from tocsin.indexes.ranges.points_kernels import Grid
from tocsin.indexes.ranges.step_kernels import Images
from tocsin.indexes.shared.jit import lean_kernel


@lean_kernel
def make_update(objects: Objects, images: Images, rows: Ints, image: int, phase: int) -> tuple[Update, bool]:
    """The update that an image stands for in a phase, and whether it stands for one.

    The rows that come and those that rank higher now go first, so that what is taken away later is replaced
    by what stays. A row that moves along x is taken away at one place and comes again at the other.
    """
    twin = images.twin[image]
    row = rows[image]
    x = images.value[image, 0]
    y = images.value[image, 1]
    born = int(images.born[image])
    if phase == DELETE:
        return Update(row, x, y, born, np.inf, NEVER, False, True), bool(twin < 0)
    if twin >= 0:
        old_x = images.value[twin, 0]
        old_y = images.value[twin, 1]
        old_born = int(images.born[twin])
        if old_x == x:
            is_raise = is_before(y, born, old_y, old_born)
            if is_raise:
                return Update(row, x, y, born, old_y, old_born, True, False), phase == RAISE
            return Update(row, x, old_y, old_born, y, born, False, False), phase == LOWER
        if objects.slot_place[row] >= 0 and phase == RAISE:
            return Update(row, old_x, old_y, old_born, np.inf, NEVER, False, True), True
    return Update(row, x, y, born, np.inf, NEVER, True, True), phase == RAISE


@lean_kernel
def apply_steps(
    objects: Objects,
    grid: Grid,
    limits: Limits,
    k: int,
    n_subscriptions: int,
    images: Images,
    rows: Ints,
    around: Around,
    gaps: Gaps,
    log: Log,
    replay: Replay,
    begin: Longs,
    is_extreme: bool,
    sign: float,
    most: int,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes.

    Not DONE: something must grow, or the log be shortened, before the next call.
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
                # Upwards the best come first; downwards the worst go first.
                at = int(cursor[AT])
                image = first + at if phase == RAISE else first + size - 1 - at
                update, is_due = make_update(objects, images, rows, image, phase)
                if not is_due:
                    cursor[AT] += 1
                    continue
                if cursor[N_LOG] > most:
                    return LOG_LONG
                if not has_room(objects):
                    return OBJECTS_FULL
                n_log, n_cells, n_moves = cursor[N_LOG], cursor[N_CELLS], cursor[N_MOVES]
                status = log_update(objects, grid, limits, k, update, around, gaps, log, cursor)
                if status != DONE:
                    cursor[N_LOG], cursor[N_CELLS], cursor[N_MOVES] = n_log, n_cells, n_moves
                    return status
                is_gone = update.is_absent and not update.is_raise
                y = update.low_y if update.is_raise else update.high_y
                born = update.low_born if update.is_raise else update.high_born
                put_row(objects, update.row, update.x, y, -1 if is_gone else born)
                is_halfway = phase == RAISE and is_gone
                cursor[AT] += 0 if is_halfway else 1
            cursor[PHASE] += 1
            cursor[AT] = 0
        if cursor[PHASE] == SORT:
            sort_log(log, int(cursor[N_LOG]), n_subscriptions, begin)
            cursor[PHASE] = REPORT
        mark_news(images, middle, end, is_extreme, replay, True)
        status = report_log(objects, limits, log, replay, is_extreme, sign, out, cursor)
        mark_news(images, middle, end, is_extreme, replay, False)
        if status != DONE:
            return status
        cursor[STEP] += 1
        cursor[PHASE] = RAISE
        cursor[AT] = 0
        cursor[N_LOG] = 0
        cursor[N_CELLS] = 0
        cursor[N_MOVES] = 0
        cursor[N_KEPT] = 0
    return DONE


@lean_kernel
def mark_news(images: Images, first: int, end: int, is_extreme: bool, replay: Replay, is_set: bool) -> None:
    """Say which rows a subscriber must hear of that holds them before and after; or forget it."""
    for image in range(first, end):
        twin = images.twin[image]
        if twin >= 0:
            is_other = images.value[image, 1] != images.value[twin, 1]
            is_touched = images.touched[image] and not is_extreme
            replay.is_news[images.row[image]] = is_set and (is_other or is_touched)


@lean_kernel
def list_answers(
    objects: Objects,
    lo: Floats,
    hi: Floats,
    limits: Limits,
    slots: Longs,
    gaps: Gaps,
    is_extreme: bool,
    sign: float,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Write the answers of the subscriptions in `slots`, from the cursor on."""
    while cursor[AT] < len(slots):
        who = slots[cursor[AT]]
        n_found = list_first(objects, lo[who], hi[who], int(limits.k[limits.kind[who]]), gaps)
        at = int(cursor[N_OUT])
        if at + n_found + 1 > len(out.step):
            return OUT_FULL
        for i in range(n_found):
            row = int(objects.slot[gaps.found[i]])
            out.op[at] = VALUE if is_extreme else ENTER
            at = write_row(out, at, 0, who, row, score_of(objects, row, sign), 0 if is_extreme else i + 1)
        if is_extreme and n_found == 0:
            out.op[at] = VALUE
            at = write_row(out, at, 0, who, -1, np.nan, 0)
        cursor[N_OUT] = at
        cursor[AT] += 1
    return DONE
