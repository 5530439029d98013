"""Columns of the range top-k index: whose lists an update of one row changes, and how.

A row that moves in rank does the same to the lists of many subscriptions: all that hold the same of the
rows around it. Such subscriptions share a *cell*, and a cell is told by one or two *moves*: a row is taken
from a rank of the list, a row is put at a rank of the list. The *log* of a step holds, in the order of
happening, the subscription and the cell.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.indexes.contract import Bools, Floats, Ints, Longs

#: What a kernel answers: it is through, or what must grow before it is called again.
DONE = 0
LOG_FULL = 1
AROUND_FULL = 2
OBJECTS_FULL = 3
OUT_FULL = 4
LOG_LONG = 5

#: Places in a cursor (int64): where in the delta a kernel is, and how much has been written.
STEP = 0
PHASE = 1
AT = 2
N_LOG = 3
N_CELLS = 4
N_MOVES = 5
N_OUT = 6
N_KEPT = 7
CURSOR_SIZE = 8

#: Phases of a step: what ranks higher now, what goes, what ranks lower now, the report.
RAISE = 0
DELETE = 1
LOWER = 2
SORT = 3
REPORT = 4


class Limits(NamedTuple):
    """How many rows each subscription may have."""

    #: int32 (subscriptions,): the place of the subscription's k in `k`.
    kind: Ints
    #: int64 (kinds,): each k in use, at least one.
    k: Longs


class Side(NamedTuple):
    """The rows around one that moves, on one side, nearest first.

    First of all the nearest k that rank before it wherever it is; then the *exposed* come in between: those
    that it passes and that some subscription can see it pass.
    """

    #: float64 (1,): 1 on the right, -1 on the left.
    sign: Floats
    #: float64 (room,): x on the right, -x on the left: ascends on both.
    far: Floats
    #: int32 (room,): place of the row.
    place: Ints
    #: int32 (room,): number of the exposed row, -1 if it ranks before the one that moves anyway.
    number: Ints
    #: int32 (room + 1,): of the nearest rows, how many rank before the one that moves anyway.
    before: Ints
    #: int32 (room,): place of the lowest row between this one and the one nearer, -1 for none.
    gap: Ints
    #: int32 (2,): the places that bound the gap at hand.
    ends: Ints


class Around(NamedTuple):
    """Scratch of one update: the rows around the one that moves, which decide what happens where."""

    left: Side
    right: Side
    #: int64 (room,): slot of each exposed row, by number.
    exposed: Longs
    #: int32 (room,): its position, left from 0 up, right from -1 down.
    position: Ints
    #: int32 (TABLE_ROOM,): cell by nearest rows inside on either side and by k; UNKNOWN, UNTOLD or a cell.
    table: Ints


class Log(NamedTuple):
    """What has happened in the step at hand."""

    #: int32 (room,), int32 (room,): who, and the cell.
    subscription: Ints
    cell: Ints
    #: int32 (room,), int32 (room,): scratch for sorting.
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
    #: bool (rows,): whether a row of the step that stays in a list must be told of.
    is_news: Bools


class Gaps(NamedTuple):
    """Scratch of a search for the first rows of a range: stretches between those found, and their best."""

    #: int32 (largest k + 2,): places that bound the stretch, -1 for none.
    left: Ints
    right: Ints
    #: int32 (largest k + 2,): place of its lowest row, -1 for none.
    best: Ints
    #: int32 (largest k + 1,): places of the rows found, in rank order.
    found: Ints


class Update(NamedTuple):
    """One row on its way between two ranks, at one x. It ranks before all others at the lower end."""

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
