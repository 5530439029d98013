"""The columns that the kernels of the views work on, and what the kernels say to the class.

What they mean together is told in `views.py` and `views_kernels.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.indexes.contract import Bools, Bytes, Floats, Ints, Longs, Ops
from tocsin.indexes.shared.programs_kernels import Program

#: Subscriptions of a tile: they are held together against a row.
TILE = 64

#: What a kernel answers: through; no room for changes, lists, events; a step that replaces most rows and is
#: better ranked afresh; too many tests, the grid may be out of date; a list that must be filled up; no room
#: for a row; working memory that does not fit the delta.
DONE = 0
OUT_FULL = 1
POOL_FULL = 2
EVENTS_FULL = 3
BULK = 4
STALE = 5
SHORT = 6
ROWS_FULL = 7
CROWDED = 8

#: Places in `state`: how many rows there are, where free room in the pool begins, where the hot rows end,
N_ROWS = 0
POOL_END = 1
N_HOT = 2
#: rows held against tiles, and tiles held against rows, since the grid was built, and how many of those
#: make it stale,
N_HELD = 3
N_TESTS = 4
MOST_TESTS = 5
#: how many holes there are among the hot rows,
N_HOLES = 6
#: how few entries of a delta make working memory much too large,
FEW_ENTRIES = 7
#: and where to go on after an answer that is not DONE.
STEP = 8
PHASE = 9
AT = 10
AT_BYTE = 11
N_TODO = 12
N_EVENTS = 13
N_AFFECTED = 14
N_OUT = 15
#: How many rows have been found to fill a list up with, -1 while they have not been sought.
N_MORE = 16
#: And how long that list is without them.
N_KEPT = 17
#: How many of the step's hot rows were there before, and how many of these may be in a list.
N_GOING = 18
N_GONE = 23
#: Which of the rows that are held against tiles to go on with.
AT_ROW = 19
#: How many rows come into hot parts.
N_NEAR = 20
#: How many events have been taken to their lists.
N_LANDED = 21
#: How many changes the step has made.
N_RAW = 22
STATE_SIZE = 24

#: What a row slot holds: nothing, a row, a hot row.
NOT_THERE = 0
THERE = 1
HOT = 2

#: Ties below all others.
LOWEST_TIE = -(2**63)


class ViewRanking(NamedTuple):
    """How one shape ranks."""

    program: Program
    #: where the program's columns begin, after the box's dimensions
    first_column: int
    #: 1.0 where large scores come first, -1.0 where small ones do
    key_sign: float
    #: 1 where newer rows win ties, -1 where older ones do
    tie_sign: int
    #: int32 (terms,): where the program is `column * weight + column * weight + …`, the columns and the
    #: weights of its terms, which are rows of the lanes' thetas; else empty. Weights are filled up to a
    #: multiple of four with zeros
    term_column: Ints
    term_theta: Ints


class ViewLanes(NamedTuple):
    """Subscriptions by lane: those that are alike are neighbours, and so are their lists.

    Where a lane is free, `slot` is -1, `k` is 0, the list is empty and nothing reaches it.
    """

    #: int32 (lanes,): whose lane it is
    slot: Ints
    #: int64 (lanes,)
    k: Longs
    #: float64 (dimensions, lanes): closed bounds of the boxes
    lo: Floats
    hi: Floats
    #: float64 (n_theta + 1 + weights, lanes): thetas, zero for terms that are not there, and weights of terms
    #: that are no thetas as they are
    theta: Floats
    #: float64, int64 (lanes,): the floor's place; the list holds exactly the rows not below it. The key is
    #: NaN where the lane is free
    floor: Floats
    floor_tie: Longs
    #: float64 (lanes,): the key of the list's k-th row, -inf where there are fewer; NaN where it is free
    last: Floats
    #: float64 (lanes,): not above the floor; every row with a key not below it is in a cell that knows
    #: the lane's tile. NaN where the lane is free
    base: Floats
    #: int64 (lanes,): the list's room in the pool, and how much of it is in use
    list_start: Longs
    list_room: Longs
    list_size: Longs
    #: int32 (lanes,): the last of its events in the step being taken, -1 for none
    head: Ints


class ViewGrid(NamedTuple):
    """Cells of the space that rows are in. Cell 0 is for rows outside of the grid, and knows all tiles.

    Space is also cut into *parts*, all of one size, which are found faster than cells; those at the border
    reach as far as there are numbers, and are for NaN too.
    """

    #: int32 (columns,): how many bins a column is cut into
    bins: Ints
    #: int32 (columns,): how far apart the cells of neighbouring bins are
    stride: Ints
    #: float64 (columns, most bins + 1): bin `b` holds what is not below `edge[b]` and below `edge[b + 1]`
    edge: Floats
    #: float64 (columns,): buckets of equal width lead to the bin
    scale: Floats
    #: int32 (columns, BUCKETS)
    bucket: Ints
    #: uint8 (cells, tiles / 8): a bit for each tile that a row of the cell may concern
    reach: Bytes
    #: bool (cells,): whether there is any
    is_hot: Bools
    #: float64 (columns,): the last part of a column; int32: how far apart neighbouring parts are
    last_part: Floats
    part_stride: Ints
    #: float64 (columns,): a value's part is `value * part_scale - part_offset`, at least 0, at most the last
    part_scale: Floats
    part_offset: Floats
    #: uint8 (parts / 8,): a bit for each part, whether a hot cell or what is outside of the grid reaches
    #: into it: so few bytes stay in the first-level cache
    hot_parts: Bytes


class ViewRows(NamedTuple):
    """By row slot."""

    #: float64 (columns, slots): a multiple of eight slots, from a cache line's beginning on
    values: Floats
    #: int64 (slots,): of no meaning where there is no row
    born: Longs
    #: uint8 (slots,): whether there is a row, NOT_THERE, THERE or HOT
    mark: Bytes
    #: int32 (slots,): where it is among the hot rows; of no meaning where it is not
    hot_at: Ints


class HotRows(NamedTuple):
    """The rows in hot cells, in the order in which they joined; in a window they go in that order too.

    Where one has gone there is a hole, until half are holes.
    """

    #: int32 (rows,): -1 for a hole
    row: Ints
    #: int32 (rows,)
    cell: Ints
    #: float64 (rows, columns): so that a row is in one place
    values: Floats
    #: bool (rows,): whether it has been in a list since it came
    is_listed: Bools


class ViewPool(NamedTuple):
    """The lists, each in its own stretch: the answer, best first, and then the others in any order."""

    #: int32: slot of the row
    row: Ints
    #: float64: its key
    key: Floats


class ViewEvents(NamedTuple):
    """What a step's rows do to lists. Those that may change answers are in a chain for each lane, from
    `ViewLanes.head` on."""

    #: int32: whose list it is
    lane: Ints
    #: int32: the next event of the lane, -1 for none
    next: Ints
    #: int32: the entry that makes the row come; where it goes, the entry's complement
    entry: Ints
    #: float64: the key that the row has or had
    key: Floats


class ViewEntries(NamedTuple):
    """A delta's entries, as in the delta."""

    #: int64 (steps + 1,): where each step's entries begin
    bounds: Longs
    row: Ints
    born_before: Longs
    born_after: Longs
    touched: Bools
    #: float64 (entries, columns)
    after: Floats


class RawChanges(NamedTuple):
    """A step's changes, lane after lane as lists are patched."""

    #: int8, int32, float64, int32: as in `ChangeSet`
    op: Ops
    row: Ints
    score: Floats
    rank: Ints


class ViewScratch(NamedTuple):
    """Working memory."""

    #: float64 (depth, BLOCK)
    stack: Floats
    #: float64 (BLOCK,)
    score: Floats
    #: int32 (3, BLOCK): rows of a stretch, or lanes of a tile
    stretch: Ints
    #: float64 (columns, 1): one row, as programs are scored
    row_values: Floats
    #: int32 (2 * entries,): hot rows to be held against tiles, and their entries: who goes, then who comes
    todo: Ints
    todo_entry: Ints
    #: int32 (entries,): entries of hot rows that were there
    going: Ints
    #: int32 (entries,): entries of rows that come, and their cells
    coming: Ints
    cell: Ints
    #: int32 (lanes,): lanes that have events, and where in the raw changes theirs end
    affected: Ints
    raw_end: Ints
    #: int32 (slots,): slots that are told, in order; which of the lanes with events it is, -1 for none
    told: Ints
    told_at: Ints
    #: float64, int64, int32, int32 (events,): rows that come into a list: key, tie, slot, rank there
    add_key: Floats
    add_tie: Longs
    add_row: Ints
    add_rank: Ints
    #: int32 (events,): rows that go, of which a subscriber must hear even if they come back as they were
    touched_row: Ints
    #: float64, int32 (longest list,): rows to fill a list up with
    more_key: Floats
    more_row: Ints
    #: int32, float64, int8 (longest list,): the old answer, and what each rank of the new one is
    old_row: Ints
    old_key: Floats
    new_op: Ops
