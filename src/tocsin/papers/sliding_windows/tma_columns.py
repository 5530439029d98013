"""The columns of the paper's algorithms: a regular grid with point lists and influence lists.

| paper | here |
|---|---|
| query q, its function f and k | a slot, `weight` or `theta`, `k` |
| q.top_list, q.top_score | the first k of `list_row`, `list_key`; `top_key` |
| q.skyband, p.DC | `list_row`, `list_key`, `list_count` |
| influence list IL_c | the bits of `influence[c]` |
| maxscore(c) | `cell_key` |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.programs_kernels import Program

#: What a kernel answers: through; no room for points, for lists, for changes.
DONE = 0
POINTS_FULL = 1
LISTS_FULL = 2
OUT_FULL = 3
#: Queries must be computed from scratch.
SEARCH = 4

#: Places in `state`: where free room for points begins, how many queries a step touches, how many changes
#: were written, and where to go on.
POINTS_END = 0
N_TOUCHED = 1
N_OUT = 2
STEP = 3
PHASE = 4
AT = 5
IS_STORED = 6
#: How often queries were computed from scratch, and cells that took.
N_SEARCHES = 7
N_CELLS = 8
#: The longest list so far.
LONGEST = 9
#: How many queries must be computed from scratch.
N_AFFECTED = 10
#: Whether rows of the step were there before and after it.
HAS_UPDATES = 11
STATE_SIZE = 12


class PaperScorer(NamedTuple):
    """How one shape ranks."""

    program: Program
    first_column: int
    key_sign: float
    tie_sign: int
    #: int32 (terms,): the columns of a weighted sum; empty for other scores
    term_column: Ints


class PaperQueries(NamedTuple):
    """By subscription slot."""

    #: int64 (slots,): 0 where there is none
    k: Longs
    #: float64 (slots, dimensions)
    lo: Floats
    hi: Floats
    #: float64 (n_theta, slots)
    theta: Floats
    #: float64 (slots, terms): of a weighted sum, so that it makes keys
    weight: Floats
    #: int8 (slots, grid's columns): 1 where the key rises with the column, else -1
    direction: NDArray[np.int8]
    #: float64 (slots,): rows whose key is below it are of no interest
    top_key: Floats
    #: int32 (slots,): length of the list
    size: Ints
    #: int32, float64, int32 (slots, room): the list, best first; in a skyband, by how many each is dominated
    list_row: Ints
    list_key: Floats
    list_count: Ints
    #: the answer before the step, of queries that it touches; and its length, -1 where it does not
    old_row: Ints
    old_key: Floats
    old_size: Ints
    #: bool (slots,): whether a row of the answer is gone
    is_affected: Bools
    #: bool (slots,): whether no row inside the box was ever left out of the list, but for dominated ones
    is_whole: Bools


class PaperGrid(NamedTuple):
    """Cells of equal extent; those at the border reach as far as rows have been seen."""

    #: cells along an axis
    side: int
    #: float64 (columns,): where the grid begins, and cells along an axis by unit
    low: Floats
    scale: Floats
    #: float64 (columns, side): the cells' ends
    cell_low: Floats
    cell_high: Floats
    #: int64 (columns,): how far apart neighbouring cells are; int16 (cells, columns): where each cell is
    stride: Longs
    place: NDArray[np.int16]
    #: int64 (cells,): each cell's room among the points, a ring whose size is a power of two; where in it
    #: the list begins, and how long that is
    start: Longs
    room: Longs
    first: Longs
    n_points: Longs
    #: uint64 (cells, slots / 64): a bit for each query that the cell influences
    influence: NDArray[np.uint64]
    #: int32 (cells,): how many those are
    n_influence: Ints
    #: int64 (64,): which bit stands alone, by what a multiplication makes of it
    bit_place: Longs


class PaperPoints(NamedTuple):
    """Rows: where they are, and what they hold."""

    #: int32, and float64 (room, terms): the cells' point lists, with what is weighted and added
    list: Ints
    list_values: Floats
    #: float64 (slots, columns)
    values: Floats
    #: int64, int32, int32 (slots,): ABSENT where there is none; the cell, and where in its ring
    born: Longs
    cell: Ints
    place: Ints


class PaperEntries(NamedTuple):
    """A delta's entries; within a step by `born_after`."""

    #: int64 (steps + 1,)
    bounds: Longs
    row: Ints
    born_before: Longs
    born_after: Longs
    touched: Bools
    #: float64 (entries, columns)
    after: Floats


class PaperScratch(NamedTuple):
    """Working memory."""

    #: int32 (slots,): queries that the step touches
    touched: Ints
    #: int32 (slots,): those that must be computed from scratch
    affected: Ints
    #: float64, int32: the heap of cells, and which of them were put there
    heap_key: Floats
    heap_cell: Ints
    #: int32 (cells,): the last search that put the cell into its heap; int32 (1,): the number of searches
    stamp: Ints
    searches: Ints
    #: float64 (terms, side): what a cell's place adds to the largest key in it
    share: Floats
    #: float64, int64, int32 (longest list,): the best rows so far, sorted
    best_key: Floats
    best_tie: Longs
    best_row: Ints
    #: float64 (depth, BLOCK) and (columns, 1), (1,)
    stack_low: Floats
    stack_high: Floats
    low: Floats
    high: Floats
    score: Floats
    #: int32 (rows,): where a row was in the old answer, else -1; bool: whether a subscriber must hear of it
    mark: Ints
    is_touched: Bools
