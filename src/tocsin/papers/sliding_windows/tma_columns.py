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

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.kernels.scoring import Program
from tocsin.kernels.status import OWN

#: Places of the cursor beyond those that all cursors have: the phase of a step, how many queries it touches,
#: whether its rows are stored.
PHASE = OWN
N_TOUCHED = OWN + 1
IS_STORED = OWN + 2
#: The places above are reset by each delta; those below are not: where the free part of the points begins,
TRANSIENT = OWN + 3
POINTS_END = TRANSIENT
#: how often queries were computed from scratch, and the cells visited for that,
N_SEARCHES = TRANSIENT + 1
N_CELLS = TRANSIENT + 2
#: the longest list so far,
LONGEST = TRANSIENT + 3
#: queries to be computed from scratch,
N_AFFECTED = TRANSIENT + 4
#: and whether the step updates any row.
HAS_UPDATES = TRANSIENT + 5
STATE_SIZE = TRANSIENT + 6


class MonitoringRanking(NamedTuple):
    """How the queries of one index rank rows."""

    program: Program
    first_column: int
    key_sign: float
    tie_sign: int
    #: int32 (terms,): the columns of a weighted sum; empty for other scores
    term_column: Ints


class MonitoringQueries(NamedTuple):
    """Queries by subscription slot."""

    #: 0 where there is none
    k: Annotated[Longs, Column("slots")]
    #: closed bounds of the boxes
    lo: Annotated[Floats, Column("slots", "dimensions", fill=None)]
    hi: Annotated[Floats, Column("slots", "dimensions", fill=None)]
    #: parameters of the score
    theta: Annotated[Floats, Column("thetas", "slots", fill=None)]
    #: of a weighted sum, with the sign of the key
    weight: Annotated[Floats, Column("slots", "terms", fill=None)]
    #: 1 where the key rises with the column, else -1
    direction: Annotated[NDArray[np.int8], Column("slots", "columns", fill=1)]
    #: rows with a smaller key cannot enter the list
    top_key: Annotated[Floats, Column("slots", fill=None)]
    #: length of the list
    size: Annotated[Ints, Column("slots")]
    #: the list, best first; in a skyband, the dominance count
    list_row: Annotated[Ints, Column("slots", "list_rows", fill=None)]
    list_key: Annotated[Floats, Column("slots", "list_rows", fill=None)]
    list_count: Annotated[Ints, Column("slots", "list_rows")]
    #: the answer before the step, of queries that it touches, and its length, -1 for other queries
    old_row: Annotated[Ints, Column("slots", "list_rows", fill=None)]
    old_key: Annotated[Floats, Column("slots", "list_rows", fill=None)]
    old_size: Annotated[Ints, Column("slots", fill=-1)]
    #: whether a row of the answer has left
    is_affected: Annotated[Bools, Column("slots")]
    #: whether the list holds every row inside the box, except dominated ones
    is_whole: Annotated[Bools, Column("slots")]


class MonitoringGrid(NamedTuple):
    """Cells of equal extent; those at the border extend to the outermost rows so far."""

    #: cells along an axis
    side: int
    #: float64 (columns,): where the grid begins, and cells per unit along an axis
    low: Floats
    scale: Floats
    #: float64 (columns, side): the cells' ends
    cell_low: Floats
    cell_high: Floats
    #: int64 (columns,): distance between neighbouring cells; int16 (cells, columns): coordinates of each cell
    stride: Longs
    place: NDArray[np.int16]
    #: int64 (cells,): each cell's ring among the points: start and capacity, a power of two; where in it the
    #: list begins, and its length
    start: Longs
    capacity: Longs
    first: Longs
    n_points: Longs
    #: uint64 (cells, slots / 64): the influence list: a bit for each query that the cell influences
    influence: NDArray[np.uint64]
    #: int32 (cells,): their number
    n_influence: Ints
    #: int64 (64,): index of a single set bit, by its de Bruijn hash
    bit_place: Longs


class PointLists(NamedTuple):
    """Rows by slot, and the cells' point lists."""

    #: the cells' point lists, with their values in the scored columns
    list: Annotated[Ints, Column("points", fill=None)]
    list_values: Annotated[Floats, Column("points", "terms", fill=None)]
    #: the rows' columns
    values: Annotated[Floats, Column("slots", "columns", fill=None)]
    #: ABSENT where there is none; the cell, and the place in its ring
    born: Annotated[Longs, Column("slots", fill=ABSENT)]
    cell: Annotated[Ints, Column("slots")]
    place: Annotated[Ints, Column("slots")]


class MonitoringEntries(NamedTuple):
    """A delta's entries, within a step by `born_after`."""

    #: int64 (steps + 1,)
    bounds: Longs
    row: Ints
    born_before: Longs
    born_after: Longs
    touched: Bools
    #: float64 (entries, columns)
    after: Floats


class MonitoringScratch(NamedTuple):
    """Working memory."""

    #: int32 (slots,): queries that the step touches
    touched: Ints
    #: int32 (slots,): queries to be computed from scratch
    affected: Ints
    #: float64, int32: the heap of cells: bounds and cells
    heap_key: Floats
    heap_cell: Ints
    #: int32 (cells,): the last search that pushed the cell; int32 (1,): the number of searches
    stamp: Ints
    searches: Ints
    #: float64 (terms, side): what a cell's coordinate adds to the largest key in it
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
    #: int32 (rows,): index in the old answer, else -1; bool: whether an unchanged rank must be reported too
    mark: Ints
    is_touched: Bools
