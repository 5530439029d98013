"""The columns of the scan. `scan_kernels` explains how they work together."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.arrays.types import Bools, Floats, Ints, Longs, Ops
from tocsin.kernels.scoring import Program


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

    #: float64 (dimensions, slots): closed bounds of the boxes
    lo: Floats
    hi: Floats
    #: float64 (n_theta, slots)
    theta: Floats
    #: int64 (slots,)
    k: Longs
    #: float64, int64 (slots,): place of the floor
    floor_key: Floats
    floor_tie: Longs
    #: int64 (slots,): where the list is in the pool, its capacity, and its length
    list_start: Longs
    list_capacity: Longs
    list_size: Longs


class ScanPool(NamedTuple):
    """The lists, each contiguous, best first."""

    #: int32: slot of the row
    row: Ints
    #: float64: its key
    key: Floats


class ScanRows(NamedTuple):
    """Live rows, packed for ranking, and columns by row slot."""

    #: int32 (rows,): slot of the packed row
    slot: Ints
    #: float64 (columns, rows): values of the packed row
    values: Floats
    #: int32 (slots,): where the row is packed
    position: Ints
    #: int64 (slots,): ABSENT where there is none
    born: Longs
    #: int32 (slots,): number of lists that hold the row
    listings: Ints
    #: int32 (slots,): the row's entry in the current step, else -1
    entry: Ints
    #: int32 (slots,): the row's index in the old answer while it is compared with the new, else -1
    mark: Ints


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
