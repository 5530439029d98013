"""Kernels of DISTINCT. After the dimensions a row has its code, then its value; codes are chain numbers."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ENTER, LEAVE, ChangeSet, Longs
from tocsin.indexes.ranges.step_kernels import (
    AT,
    DONE,
    FULL,
    IS_OPEN,
    N_AFFECTED,
    N_OUT,
    STEP,
    Boxes,
    Chains,
    Images,
    RowColumns,
    close_chains,
    find_affected,
    is_inside,
    open_chains,
    write_change,
)
from tocsin.indexes.shared.jit import kernel


@kernel
def find_in_chain(boxes: Boxes, box: int, rows: RowColumns, chains: Chains, code: int) -> int:
    """A row of the code's chain that is in the box, -1 if there is none."""
    # Links are int32; widened, so that `is_inside` is compiled once.
    row = np.int64(chains.head[code])
    while row >= 0:
        if is_inside(boxes, box, rows.value, row, boxes.lo.shape[0]):
            return int(row)
        row = np.int64(chains.after[row])
    return -1


@kernel
def report_codes(
    boxes: Boxes,
    box: int,
    rows: RowColumns,
    chains: Chains,
    images: Images,
    step: int,
    out: ChangeSet,
    n_out: int,
) -> int:
    """Write the codes that leave and enter one box. Answers the new length of the output.

    Images are sorted by code, so that old and new ones of one code are met together. A code comes or
    goes only if no row that the step leaves alone has it too.
    """
    n_dimensions = boxes.lo.shape[0]
    value = images.value
    bucket = images.bucket
    old = images.start[step]
    new = images.middle[step]
    old_end = new
    end = images.start[step + 1]
    n_entering = images.start[step]
    while old < old_end or new < end:
        code = bucket[old] if old < old_end else bucket[new]
        if new < end:
            code = min(code, bucket[new])
        was_in = False
        while old < old_end and bucket[old] == code:
            was_in = was_in or is_inside(boxes, box, value, old, n_dimensions)
            old += 1
        is_in = False
        newest = new
        while new < end and bucket[new] == code:
            is_in = is_in or is_inside(boxes, box, value, new, n_dimensions)
            new += 1
        if was_in != is_in and find_in_chain(boxes, box, rows, chains, code) < 0:
            if was_in:
                out.op[n_out] = LEAVE
                n_out = write_change(out, n_out, step, box, code, np.nan)
            else:
                images.position[n_entering] = newest
                n_entering += 1
    for i in range(images.start[step], n_entering):
        image = images.position[i]
        code = bucket[image]
        out.op[n_out] = ENTER
        n_out = write_change(out, n_out, step, box, code, value[image, n_dimensions + 1])
    return n_out


@kernel
def report_distinct(
    boxes: Boxes,
    n_boxes: int,
    rows: RowColumns,
    chains: Chains,
    images: Images,
    out: ChangeSet,
    cursor: Longs,
) -> int:
    """Apply the steps from the cursor on, and write what each changes. FULL: call again with more room."""
    while cursor[STEP] < len(images.middle):
        step = cursor[STEP]
        if cursor[IS_OPEN] == 0:
            open_chains(chains, rows, images, step)
            cursor[N_AFFECTED] = find_affected(boxes, n_boxes, images, step)
            cursor[AT] = 0
            cursor[IS_OPEN] = 1
        while cursor[AT] < cursor[N_AFFECTED]:
            # No image makes more than one change.
            if cursor[N_OUT] + images.start[step + 1] - images.start[step] > len(out.step):
                return FULL
            box = boxes.affected[cursor[AT]]
            cursor[N_OUT] = report_codes(boxes, box, rows, chains, images, step, out, cursor[N_OUT])
            cursor[AT] += 1
        close_chains(chains, rows, images, step)
        cursor[IS_OPEN] = 0
        cursor[STEP] += 1
    return DONE


@kernel
def list_distinct(
    boxes: Boxes, rows: RowColumns, chains: Chains, slots: Longs, out: ChangeSet, cursor: Longs
) -> int:
    """Write the codes in the boxes of `slots`, from the cursor on."""
    n_dimensions = boxes.lo.shape[0]
    while cursor[AT] < len(slots):
        box = slots[cursor[AT]]
        n_out = cursor[N_OUT]
        for code in range(len(chains.head)):
            row = find_in_chain(boxes, box, rows, chains, code)
            if row >= 0:
                if n_out == len(out.step):
                    return FULL
                out.op[n_out] = ENTER
                n_out = write_change(out, n_out, cursor[STEP], box, code, rows.value[row, n_dimensions + 1])
        cursor[N_OUT] = n_out
        cursor[AT] += 1
    return DONE
