"""A step's rows are stored, and those found that hot cells may concern."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Bytes, Floats, Ints, Longs
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.streams import stream
from tocsin.indexes.windows.views_columns import (
    HOT,
    N_GOING,
    N_NEAR,
    N_ROWS,
    NOT_THERE,
    THERE,
    ViewEntries,
    ViewGrid,
    ViewRows,
    ViewScratch,
)

#: Rows that are stored together: no more than BLOCK.
STRETCH = 256

#: Kinds of stretches.
MIXED = 0
ALL_NEW = 1
ALL_GONE = 2


@lean_kernel
def is_run(row: Ints) -> bool:
    """Whether rows are neighbours, in order."""
    skew = np.int32(0)
    first = row[0]
    for i in range(len(row)):
        skew |= row[i] - first - np.int32(i)
    return bool(skew == 0)


@lean_kernel
def kind_of(mark: Bytes, born_after: Longs) -> int:
    """What a stretch of neighbouring rows is: all new, all go, or a mixture.

    In a window a mixture is the exception.
    """
    n_absent = 0
    for i in range(len(mark)):
        n_absent += 1 if mark[i] == NOT_THERE else 0
    # A sign that is set once stays.
    after = 0
    not_after = 0
    for i in range(len(born_after)):
        after |= born_after[i]
        not_after |= ~born_after[i]
    if n_absent == len(mark) and after >= 0:
        return ALL_NEW
    if n_absent == 0 and not_after >= 0:
        return ALL_GONE
    return MIXED


@lean_kernel
def forget_run(state: Longs, first: int, mark: Bytes, going: Ints) -> None:
    """Note that neighbouring rows go, from entry `first` on: as `note_rows`, which takes longer."""
    n_going = state[N_GOING]
    for i in range(len(mark)):
        # Without a branch, because it is hard to foretell.
        going[n_going] = first + i
        n_going += mark[i] == HOT
    for i in range(len(mark)):
        mark[i] = NOT_THERE
    state[N_ROWS] -= len(mark)
    state[N_GOING] = n_going


@lean_kernel
def note_rows(
    state: Longs,
    entries: ViewEntries,
    first: int,
    n: int,
    rows: ViewRows,
    scratch: ViewScratch,
) -> int:
    """Note which rows of a stretch are there after the step; how many come.

    Lists the entries of rows that come, and of hot rows that were there.
    """
    entry_row = entries.row
    born_after = entries.born_after
    born = rows.born
    mark = rows.mark
    coming = scratch.stretch[0]
    n_going = state[N_GOING]
    n_coming = np.uint64(0)
    n_gone = 0
    # Unsigned, so that no index is taken for one from the end.
    for e in range(np.uint64(first), np.uint64(first + n)):
        row = np.uint64(entry_row[e])
        after = born_after[e]
        before = mark[row]
        born[row] = after
        mark[row] = after >= 0
        coming[n_coming] = e
        n_coming += np.uint64(after >= 0)
        if before != NOT_THERE:
            n_gone += 1
            if before == HOT:
                scratch.going[n_going] = e
                n_going += 1
    state[N_ROWS] += np.int64(n_coming) - n_gone
    state[N_GOING] = n_going
    return int(np.int64(n_coming))


@lean_kernel
def add_parts(x: Floats, scale: float, offset: float, last: float, stride: int, part: Ints) -> None:
    """Add to `part` what a column's values say of it."""
    for i in range(len(x)):
        # Without a branch; NaN comes out as 0.
        place = x[i] * scale - offset
        place = place if place > 0.0 else 0.0
        place = place if place < last else last
        part[i] += np.int32(place) * stride


@lean_kernel
def take_rows(
    state: Longs,
    entries: ViewEntries,
    begin: int,
    end: int,
    grid: ViewGrid,
    rows: ViewRows,
    scratch: ViewScratch,
) -> int:
    """Store a step's rows; how many come.

    Lists what `note_rows` does, but of the entries of rows that come only those in hot parts.
    """
    after = entries.after
    hot_parts = grid.hot_parts
    come = scratch.stretch[0]
    row = scratch.stretch[1]
    state[N_GOING] = 0
    all_coming = 0
    n_near = 0
    # A column after the other, for so many rows at a time as stay in the first-level cache.
    for first in range(begin, end, STRETCH):
        last = min(first + STRETCH, end)
        n = last - first
        start = int(np.int64(entries.row[first]))
        mark = rows.mark[start : start + n]
        kind = MIXED
        if is_run(entries.row[first:last]):
            kind = kind_of(mark, entries.born_after[first:last])
        if kind == ALL_GONE:
            forget_run(state, first, mark, scratch.going)
            continue
        if kind == ALL_NEW:
            stream(rows.born[start : start + n], entries.born_after[first:last])
            for i in range(n):
                mark[i] = THERE
            for i in range(n):
                come[i] = first + i
            state[N_ROWS] += n
        else:
            n = note_rows(state, entries, first, n, rows, scratch)
        all_coming += n
        part = scratch.stretch[2, :n]
        column = scratch.score[:n]
        for i in range(n):
            part[i] = 0
        if kind == MIXED:
            for i in range(n):
                row[i] = entries.row[np.uint64(come[i])]
        for c in range(rows.values.shape[0]):
            if kind == ALL_NEW:
                for i in range(n):
                    column[i] = after[np.uint64(first + i), np.uint64(c)]
                stream(rows.values[c, start : start + n], column)
            else:
                for i in range(n):
                    column[i] = after[np.uint64(come[i]), c]
                for i in range(n):
                    rows.values[c, np.uint64(row[i])] = column[i]
            add_parts(
                column, grid.part_scale[c], grid.part_offset[c], grid.last_part[c], grid.part_stride[c], part
            )
        for i in range(n):
            whole = part[i]
            # Without a branch, because it is hard to foretell.
            scratch.coming[n_near] = come[i]
            n_near += (hot_parts[np.uint64(whole >> 3)] >> (whole & 7)) & 1
    state[N_NEAR] = n_near
    return all_coming
