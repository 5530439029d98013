"""Columns of the range top-k tiles: which lists an update of one row changes, and how.

A row that changes rank has the same effect on the lists of many subscriptions: all that contain the same of
the rows around it. Such subscriptions share a *cell*, which consists of one or two *moves*: a row is taken
from a rank of the list, a row is put at a rank of the list. The *log* of a step holds, in order of time, the
subscription and the cell.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.kernels.status import OWN

#: Places in a cursor (int64): the phase of the step, and how much has been written.
PHASE = OWN
N_LOG = OWN + 1
N_CELLS = OWN + 2
N_MOVES = OWN + 3
N_NETTED = OWN + 4
CURSOR_SIZE = OWN + 5

#: Phases of a step: rows that rank higher now, removed rows, rows that rank lower now, the report.
RAISE = 0
DELETE = 1
LOWER = 2
SORT = 3
REPORT = 4


class Limits(NamedTuple):
    """How many rows each subscription may have."""

    #: int32 (subscriptions,): the index of the subscription's k in `k`.
    kind: Ints
    #: int64 (kinds,): each k in use, at least one.
    k: Longs


class TileSide(NamedTuple):
    """The rows around one that moves, on one side, nearest first.

    Initially the nearest k that rank before both its ranks; then the *exposed* are inserted: those that it
    passes within the range of some subscription.
    """

    #: float64 (1,): 1 on the right, -1 on the left.
    sign: Floats
    #: float64 (capacity,): x on the right, -x on the left: ascends on both.
    far: Floats
    #: int32 (capacity,): place of the row.
    place: Ints
    #: int32 (capacity,): number of the exposed row, -1 if it ranks before both ranks of the one that moves.
    number: Ints
    #: int32 (capacity + 1,): of the nearest rows, how many rank before both ranks of the one that moves.
    before: Ints
    #: int32 (capacity,): place of the lowest row between this one and the one nearer, -1 for none.
    gap: Ints
    #: int32 (2,): the places that bound the current gap.
    ends: Ints


class Around(NamedTuple):
    """Scratch of one update: the rows around the one that moves, which decide its effect."""

    left: TileSide
    right: TileSide
    #: int64 (capacity,): slot of each exposed row, by number.
    exposed: Longs
    #: int32 (capacity,): its position, left from 0 up, right from -1 down.
    position: Ints
    #: int32 (TABLE_CAPACITY,): cell by nearest rows inside on either side and by k; or UNKNOWN, UNAFFECTED.
    table: Ints


class Log(NamedTuple):
    """The changes of the current step."""

    #: int32 (capacity,), int32 (capacity,): the subscription, and the cell.
    subscription: Ints
    cell: Ints
    #: int32 (capacity,), int32 (capacity,): scratch for sorting.
    spare_subscription: Ints
    spare_cell: Ints
    #: int32 (cells + 1,): the moves of cell c are those from start[c] to before start[c + 1].
    start: Ints
    #: int32 (moves,): slot of the row.
    row: Ints
    #: int32 (moves,): the rank that it is put at; negative, the rank that it is taken from.
    rank: Ints


class Replay(NamedTuple):
    """Scratch of the report on one subscription."""

    #: int32 (largest k,): by rank, -r for what was at rank r before, row + 1 for a row put there, 0 unknown.
    held: Ints
    #: int32 (largest k,), int32 (largest k,): rows taken that were there before, and the ranks they had.
    taken: Ints
    taken_rank: Ints
    #: int32 (rows,): zeros; 1 for a row taken, 2 for one taken and put back.
    seen: Ints
    #: bool (rows,): whether a row of the step must be reported where it stays in a list.
    is_reported: Bools


class Gaps(NamedTuple):
    """Scratch of a search for the first rows of a range: stretches between those found, and their best."""

    #: int32 (largest k + 2,): places that bound the stretch, -1 for none.
    left: Ints
    right: Ints
    #: int32 (largest k + 2,): place of its lowest row, -1 for none.
    best: Ints
    #: int32 (largest k + 1,): places of the rows found, in rank order.
    found: Ints


class TileScratch(NamedTuple):
    """All scratch of `apply_steps`, besides the log."""

    #: int32 (images,): slots of the images' rows
    rows: Ints
    around: Around
    gaps: Gaps
    replay: Replay
    #: int64 (N_DIGITS + 1,): for sorting
    begin: Longs


class Update(NamedTuple):
    """One row that moves between two ranks, at one x; the low one ranks first."""

    row: int
    x: float
    low_y: float
    low_born: int
    high_y: float
    high_born: int
    #: whether it goes up in the ranking, to the low end
    is_raise: bool
    #: whether the high end means that the row is not there
    is_absent: bool
