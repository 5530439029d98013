"""The columns of the scan. `scan_kernels` explains how they work together."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Floats, Ints, Longs, Ops
from tocsin.indexes.contract import ABSENT
from tocsin.kernels.scoring import Program

#: Ranks above all other ties: with a floor there, no row can reach a list.
HIGHEST_TIE = 2**63 - 1


class ScanRanking(NamedTuple):
    """How the subscriptions of one index rank rows."""

    program: Program
    #: where the program's columns begin, after the box's dimensions
    first_column: int
    #: 1.0 where large scores come first, -1.0 where small ones do
    key_sign: float
    #: 1 where newer rows win ties, -1 where older ones do
    tie_sign: int


class ScanSubscriptions(NamedTuple):
    """Subscriptions by slot. A free slot has an empty list and an unreachable floor."""

    #: closed bounds of the boxes
    lo: Annotated[Floats, Column("dimensions", "slots", fill=None)]
    hi: Annotated[Floats, Column("dimensions", "slots", fill=None)]
    #: parameters of the score
    theta: Annotated[Floats, Column("thetas", "slots", fill=None)]
    #: rows in the answer, at most
    k: Annotated[Longs, Column("slots")]
    #: place of the floor
    floor_key: Annotated[Floats, Column("slots", fill=np.inf)]
    floor_tie: Annotated[Longs, Column("slots", fill=HIGHEST_TIE)]
    #: where the list is in the pool, its capacity, and its length
    list_start: Annotated[Longs, Column("slots")]
    list_capacity: Annotated[Longs, Column("slots")]
    list_size: Annotated[Longs, Column("slots")]


class ScanPool(NamedTuple):
    """The lists, each contiguous, best first."""

    #: slot of the row
    row: Annotated[Ints, Column("rows", fill=None)]
    #: its key
    key: Annotated[Floats, Column("rows", fill=None)]


class ScanRows(NamedTuple):
    """Live rows, packed for ranking, and columns by row slot."""

    #: slot of the packed row
    slot: Annotated[Ints, Column("slots", fill=None)]
    #: values of the packed row
    values: Annotated[Floats, Column("columns", "slots", fill=None)]
    #: where the row is packed
    position: Annotated[Ints, Column("slots", fill=None)]
    #: ABSENT where there is none
    born: Annotated[Longs, Column("slots", fill=ABSENT)]
    #: number of lists that hold the row
    listings: Annotated[Ints, Column("slots")]
    #: the row's entry in the current step, else -1
    entry: Annotated[Ints, Column("slots", fill=-1)]
    #: the row's index in the old answer while it is compared with the new, else -1
    mark: Annotated[Ints, Column("slots", fill=-1)]


class ScanEntries(NamedTuple):
    """A delta's entries; within a step, rows that exist after it come first."""

    #: int64 (steps + 1,): where each step's entries begin
    bounds: Longs
    #: int64 (steps,): how many rows exist after it
    n_arrivals: Longs
    #: (entries,), as in the delta
    row: Ints
    born_before: Longs
    born_after: Longs
    touched: Bools
    #: float64 (columns, entries)
    after: Floats


class ScanScratch(NamedTuple):
    """Working memory."""

    #: float64 (depth, BLOCK)
    stack: Floats
    #: float64 (tile,): scores of the step's rows
    score: Floats
    #: float64 (BLOCK,): scores of packed rows
    row_score: Floats
    #: bool (BLOCK,): whether a row may reach a subscription of the tile
    is_reached: Bools
    #: float64, int64, int32 (longest list,): candidates, a heap with the worst on top until sorted
    heap_key: Floats
    heap_tie: Longs
    heap_row: Ints
    #: float64, int32, int8 (longest list,): the new list, and the op of each row
    new_key: Floats
    new_row: Ints
    new_op: Ops
