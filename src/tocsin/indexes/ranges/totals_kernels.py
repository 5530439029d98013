"""Kernels of COUNT, SUM and AVG.

Rows are in the order of dimension 0; the value to sum comes after the dimensions. In one dimension the
rows of a box are neighbours in that order, so that a step which concerns many boxes first sums up to
every 64th row once: a *checkpoint*. A box is then the difference of two, and the few rows to its ends.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ABSENT, VALUE, ChangeSet, Longs
from tocsin.indexes.ranges.step_kernels import (
    AT,
    DONE,
    FULL,
    HAS_CHECKPOINTS,
    IS_OPEN,
    N_AFFECTED,
    N_OUT,
    N_RANKED,
    STEP,
    Boxes,
    Images,
    Ranking,
    RowColumns,
    close_ranked,
    count_before,
    find_affected,
    find_first,
    is_inside,
    mark_inside,
    open_ranked,
    write_change,
)
from tocsin.indexes.shared.exact_sum_kernels import (
    add_total,
    add_value,
    carry_limbs,
    clear_total,
    is_zero_total,
    round_total,
)
from tocsin.indexes.shared.jit import kernel

COUNT = 0
SUM = 1
AVG = 2

#: Larger than any insertion number.
LAST_BORN = (1 << 63) - 1

#: Ranked rows tested at a time.
WALK = 256

#: Ranked rows between two checkpoints.
SPACING = 64


@kernel
def find_span(boxes: Boxes, box: int, rows: RowColumns, ranking: Ranking, n_ranked: int) -> tuple[int, int]:
    """The ranked rows within the first range of the box: from which on, up to which."""
    if boxes.lo[0, box] > boxes.hi[0, box]:
        return 0, 0
    first = count_before(ranking, n_ranked, rows, 0, boxes.lo[0, box], ABSENT)
    stop = count_before(ranking, n_ranked, rows, 0, boxes.hi[0, box], LAST_BORN)
    return first, stop


@kernel
def sum_checkpoints(
    boxes: Boxes,
    slots: Longs,
    rows: RowColumns,
    ranking: Ranking,
    n_ranked: int,
    function: int,
    checkpoints: Longs,
) -> bool:
    """Set the checkpoints if the boxes have more rows to sum than there are. Says whether it did."""
    n_dimensions = boxes.lo.shape[0]
    if n_dimensions > 1 or function == COUNT:
        return False
    n_to_sum = 0
    for i in range(len(slots)):
        first, stop = find_span(boxes, slots[i], rows, ranking, n_ranked)
        n_to_sum += stop - first
        if n_to_sum > n_ranked:
            break
    if n_to_sum <= n_ranked:
        return False
    clear_total(checkpoints[0])
    for i in range(n_ranked // SPACING):
        checkpoints[i + 1] = checkpoints[i]
        for rank in range(i * SPACING, (i + 1) * SPACING):
            add_value(checkpoints[i + 1], ranking.value[n_dimensions, rank], 1)
        carry_limbs(checkpoints[i + 1])
    return True


@kernel
def add_inside(
    boxes: Boxes,
    box: int,
    rows: RowColumns,
    ranking: Ranking,
    n_ranked: int,
    function: int,
    checkpoints: Longs,
    has_checkpoints: bool,
    total: Longs,
) -> int:
    """Add the rows in the box to `total` (COUNT needs none). Answers how many there are."""
    n_dimensions = boxes.lo.shape[0]
    first, stop = find_span(boxes, box, rows, ranking, n_ranked)
    if function == COUNT and n_dimensions == 1:
        return stop - first
    if has_checkpoints and stop - first > SPACING:
        before = first // SPACING
        last = stop // SPACING
        add_total(total, checkpoints[last], 1)
        add_total(total, checkpoints[before], -1)
        for rank in range(last * SPACING, stop):
            add_value(total, ranking.value[n_dimensions, rank], 1)
        for rank in range(before * SPACING, first):
            add_value(total, ranking.value[n_dimensions, rank], -1)
        return stop - first
    count = 0
    inside = np.empty(WALK, np.bool_)
    for start in range(first, stop, WALK):
        size = min(WALK, stop - start)
        count += mark_inside(boxes, box, n_dimensions, ranking, start, inside[:size])
        if function != COUNT:
            for i in range(size):
                if inside[i]:
                    add_value(total, ranking.value[n_dimensions, start + i], 1)
    return count


@kernel
def finish_total(function: int, count: int, total: Longs) -> float:
    """The aggregate of `count` rows that sum to `total`; NaN for null."""
    if function == COUNT:
        return np.float64(count)
    if count == 0:
        return np.nan
    rounded = round_total(total) + 0.0
    if function == SUM:
        return rounded
    return rounded / count


@kernel
def report_totals(
    boxes: Boxes,
    n_boxes: int,
    rows: RowColumns,
    key: int,
    ranking: Ranking,
    images: Images,
    function: int,
    checkpoints: Longs,
    total: Longs,
    change: Longs,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes. FULL: call again with more room.

    `key` is the column of the ranking, which is 0: as an argument, since Numba would compile
    `open_ranked` once more for the constant.
    """
    n_dimensions = boxes.lo.shape[0]
    while cursor[STEP] < len(images.middle):
        step = cursor[STEP]
        end = images.start[step + 1]
        if cursor[IS_OPEN] == 0:
            cursor[N_RANKED] = open_ranked(ranking, cursor[N_RANKED], rows, key, images, step)
            cursor[N_AFFECTED] = find_affected(boxes, n_boxes, images, step)
            cursor[AT] = 0
            cursor[IS_OPEN] = 1
            affected = boxes.affected[: cursor[N_AFFECTED]]
            cursor[HAS_CHECKPOINTS] = sum_checkpoints(
                boxes, affected, rows, ranking, cursor[N_RANKED], function, checkpoints
            )
        while cursor[AT] < cursor[N_AFFECTED]:
            if cursor[N_OUT] == len(out.step):
                return FULL
            box = boxes.affected[cursor[AT]]
            cursor[AT] += 1
            if function != COUNT:
                clear_total(total)
                clear_total(change)
            n_old = 0
            n_new = 0
            at = find_first(images, step, boxes.lo[0, box])
            while at < end and images.first[at] <= boxes.hi[0, box]:
                image = images.by_first[at]
                at += 1
                if is_inside(boxes, box, images.value, image, n_dimensions):
                    y = images.value[image, n_dimensions]
                    is_old = image < images.middle[step]
                    n_old += int(is_old)
                    n_new += int(not is_old)
                    if function != COUNT:
                        add_value(change, y, -1 if is_old else 1)
                        if is_old:
                            add_value(total, y, 1)
            if n_old == n_new and (function == COUNT or is_zero_total(change)):
                continue
            has_checkpoints = cursor[HAS_CHECKPOINTS] == 1
            count = add_inside(
                boxes,
                box,
                rows,
                ranking,
                cursor[N_RANKED],
                function,
                checkpoints,
                has_checkpoints,
                total,
            )
            before = finish_total(function, count + n_old, total)
            if function != COUNT:
                add_total(total, change, 1)
            after = finish_total(function, count + n_new, total)
            if before != after and (before == before or after == after):
                out.op[cursor[N_OUT]] = VALUE
                cursor[N_OUT] = write_change(out, cursor[N_OUT], step, box, -1, after)
        cursor[N_RANKED] = close_ranked(ranking, cursor[N_RANKED], rows, images, step)
        cursor[IS_OPEN] = 0
        cursor[STEP] += 1
    return DONE


@kernel
def list_totals(
    boxes: Boxes,
    rows: RowColumns,
    ranking: Ranking,
    n_ranked: int,
    slots: Longs,
    function: int,
    checkpoints: Longs,
    total: Longs,
    out: ChangeSet,
) -> None:
    """Write the answers of the boxes in `slots`; `out` has room for one each."""
    has_checkpoints = sum_checkpoints(boxes, slots, rows, ranking, n_ranked, function, checkpoints)
    for i in range(len(slots)):
        clear_total(total)
        box = slots[i]
        count = add_inside(boxes, box, rows, ranking, n_ranked, function, checkpoints, has_checkpoints, total)
        out.op[i] = VALUE
        write_change(out, i, 0, box, -1, finish_total(function, count, total))
