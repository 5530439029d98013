"""Columns of the range top-k tiles: which lists an update of one row changes, and how.

A row that changes rank has the same *effect* on the lists of many subscriptions: all that contain the same of
the rows around it. An effect consists of one or two *moves*: a row is taken from a rank of the list, a row is
put at a rank of the list. The *log* of a step holds, in order of time, the subscription and the effect.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.kernels.status import OWN

#: Places in a cursor (int64): the phase of the step, and how much has been written.
PHASE = OWN
N_LOG = OWN + 1
N_EFFECTS = OWN + 2
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

    #: by subscription: the index of its k in `k`
    kind: Annotated[Ints, Column("subscriptions")]
    #: each k in use, at least one
    k: Annotated[Longs, Column("kinds", fill=1)]


class TileSide(NamedTuple):
    """The rows around one that moves, on one side, nearest first.

    Initially the nearest k that rank before both its ranks; then the *exposed* are inserted: those that it
    passes within the range of some subscription.
    """

    #: 1 on the right, -1 on the left
    sign: Annotated[Floats, Column(1)]
    #: x on the right, -x on the left: ascends on both
    far: Annotated[Floats, Column("rows", fill=None)]
    #: place of the row
    place: Annotated[Ints, Column("rows", fill=None)]
    #: number of the exposed row, -1 if it ranks before both ranks of the one that moves
    number: Annotated[Ints, Column("rows", fill=None)]
    #: of the nearest rows, how many rank before both ranks of the one that moves
    before: Annotated[Ints, Column(Size("rows", plus=1))]
    #: place of the lowest row between this one and the one nearer, -1 for none
    gap: Annotated[Ints, Column("rows", fill=None)]
    #: the places that bound the current gap
    ends: Annotated[Ints, Column(2, fill=None)]


class Around(NamedTuple):
    """Scratch of one update: the rows around the one that moves, which decide its effect."""

    left: TileSide
    right: TileSide
    #: slot of each exposed row, by number
    exposed: Annotated[Longs, Column("rows", fill=None)]
    #: its position, left from 0 up, right from -1 down
    position: Annotated[Ints, Column("rows", fill=None)]
    #: effect by nearest rows inside on either side and by k; or UNKNOWN, UNAFFECTED
    table: Annotated[Ints, Column("table", fill=None)]


class Log(NamedTuple):
    """The changes of the current step."""

    #: the subscription, and the effect
    subscription: Annotated[Ints, Column("entries", fill=None)]
    effect: Annotated[Ints, Column("entries", fill=None)]
    #: scratch for sorting
    spare_subscription: Annotated[Ints, Column("entries", fill=None)]
    spare_effect: Annotated[Ints, Column("entries", fill=None)]
    #: the moves of effect c are those from start[c] to before start[c + 1]
    start: Annotated[Ints, Column(Size("entries", plus=1))]
    #: by move: slot of the row
    row: Annotated[Ints, Column(Size("entries", times=2), fill=None)]
    #: by move: the rank that it is put at; negative, the rank that it is taken from
    rank: Annotated[Ints, Column(Size("entries", times=2), fill=None)]


class Replay(NamedTuple):
    """Scratch of the report on one subscription."""

    #: by rank, -r for what was at rank r before, row + 1 for a row put there, 0 unknown
    held: Annotated[Ints, Column("k", fill=None)]
    #: rows taken that were there before, and the ranks they had
    taken: Annotated[Ints, Column("k", fill=None)]
    taken_rank: Annotated[Ints, Column("k", fill=None)]
    #: by row slot: zeros; 1 for a row taken, 2 for one taken and put back
    seen: Annotated[Ints, Column("rows")]
    #: by row slot: whether a row of the step must be reported where it stays in a list
    is_reported: Annotated[Bools, Column("rows")]


class Gaps(NamedTuple):
    """Scratch of a search for the first rows of a range: stretches between those found, and their best."""

    #: places that bound the stretch, -1 for none
    left: Annotated[Ints, Column(Size("k", plus=2), fill=None)]
    right: Annotated[Ints, Column(Size("k", plus=2), fill=None)]
    #: place of its lowest row, -1 for none
    best: Annotated[Ints, Column(Size("k", plus=2), fill=None)]
    #: places of the rows found, in rank order
    found: Annotated[Ints, Column(Size("k", plus=2), fill=None)]


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
