"""The columns that the scan's kernels work on. What they mean together is told in `scan_kernels.py`."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.indexes.contract import Bools, Floats, Ints, Longs, Ops
from tocsin.indexes.shared.programs_kernels import Program


class ScanRanking(NamedTuple):
    """How one shape ranks."""

    program: Program
    #: where the program's columns begin, after the box's dimensions
    first_column: int
    #: 1.0 where large scores come first, -1.0 where small ones do
    key_sign: float
    #: 1 where newer rows win ties, -1 where older ones do
    tie_sign: int


class ScanSubscriptions(NamedTuple):
    """By subscription slot. One that is not there has an empty list under an unreachable floor."""

    #: float64 (dimensions, slots): closed bounds of the boxes
    lo: Floats
    hi: Floats
    #: float64 (n_theta, slots)
    theta: Floats
    #: int64 (slots,)
    k: Longs
    #: float64, int64 (slots,): the floor's place
    floor_key: Floats
    floor_tie: Longs
    #: int64 (slots,): the list's room in the pool, and how much of it is in use
    list_start: Longs
    list_room: Longs
    list_size: Longs


class ScanPool(NamedTuple):
    """The lists, each in its own stretch, best first."""

    #: int32: slot of the row
    row: Ints
    #: float64: its key
    key: Floats


class ScanRows(NamedTuple):
    """Live rows, packed together for ranking, and what is known by slot."""

    #: int32 (rows,): slot of the packed row
    slot: Ints
    #: float64 (columns, rows): its values
    values: Floats
    #: int32 (slots,): where the row is packed
    position: Ints
    #: int64 (slots,): ABSENT where there is none
    born: Longs
    #: int32 (slots,): in how many lists the row is
    listings: Ints
    #: int32 (slots,): the row's entry in the step being taken, else -1
    entry: Ints
    #: int32 (slots,): the row's index in the old answer while it is compared with the new, else -1
    mark: Ints


class ScanEntries(NamedTuple):
    """A delta's entries; within a step, rows that are there after it come first."""

    #: int64 (steps + 1,): where each step's entries begin
    bounds: Longs
    #: int64 (steps,): how many rows are there after it
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
    #: bool (BLOCK,): whether a subscription of the tile has to look closer
    is_reached: Bools
    #: float64, int64, int32 (longest list,): candidates, a heap with the worst on top until sorted
    heap_key: Floats
    heap_tie: Longs
    heap_row: Ints
    #: float64, int32, int8 (longest list,): the new list, and what each row of it is to the subscriber
    new_key: Floats
    new_row: Ints
    new_op: Ops
