"""The columns of candidate lists, and the cursor of their kernels.

`index` and `step_kernels` explain how they work together.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Bools, Bytes, Floats, Ints, Longs, Ops
from tocsin.kernels.scoring import BLOCK, Program
from tocsin.kernels.status import OWN

#: Subscriptions per tile, which a row is compared with at once.
TILE = 64

#: Places of the cursor beyond those that all cursors have. Where to resume:
PHASE = OWN
AT_BYTE = OWN + 1
#: the next row to be compared with tiles;
AT_ROW = OWN + 2
N_PENDING = OWN + 3
N_EVENTS = OWN + 4
N_AFFECTED = OWN + 5
#: rows found to refill a list, -1 until they are searched for, and the list's length without them;
N_REFILL = OWN + 6
N_REMAINING = OWN + 7
#: candidates that leave in the step, and how many of these may be in a list;
N_LEAVING = OWN + 8
N_LISTED_LEAVING = OWN + 9
#: rows that arrive in active parts, events routed to their lists, and changes written.
N_ARRIVING = OWN + 10
N_ROUTED = OWN + 11
N_RAW = OWN + 12
#: The places above are reset by each delta; those below are not:
TRANSIENT = OWN + 13
#: stored rows, where the pool's free part begins, and where the candidates end;
N_ROWS = TRANSIENT
POOL_END = TRANSIENT + 1
N_CANDIDATES = TRANSIENT + 2
#: since the grid was built: rows compared with tiles, tests of a row against a tile, and how many tests may
#: make it stale;
N_COMPARED = TRANSIENT + 3
N_TESTS = TRANSIENT + 4
MAX_TESTS = TRANSIENT + 5
#: holes among the candidates;
N_HOLES = TRANSIENT + 6
#: and the entries of a delta below which the working memory is shrunk.
SHRINK_BELOW = TRANSIENT + 7
STATE_SIZE = TRANSIENT + 8

#: What a row slot holds: nothing, a row, a candidate row.
NO_ROW = 0
STORED = 1
CANDIDATE = 2

#: Ranks below all other ties.
LOWEST_TIE = -(2**63)


class CandidateRanking(NamedTuple):
    """How the subscriptions of one index rank rows."""

    program: Program
    #: where the program's columns begin, after the box's dimensions
    first_column: int
    #: 1.0 where large scores come first, -1.0 where small ones do
    key_sign: float
    #: 1 where newer rows win ties, -1 where older ones do
    tie_sign: int
    #: int32 (terms,): if the program is `column * weight + column * weight + …`, its columns, and its weights
    #: as rows of the lanes' thetas; else empty. Weights are padded with zeros to a multiple of four
    term_column: Ints
    term_theta: Ints


class SubscriptionLanes(NamedTuple):
    """Subscriptions by lane: similar ones are neighbours, and so are their lists.

    A free lane has `slot` -1, `k` 0, an empty list, and no row reaches it.
    """

    #: subscription slot
    slot: Annotated[Ints, Column("lanes", fill=-1)]
    #: rows in the answer, at most
    k: Annotated[Longs, Column("lanes")]
    #: closed bounds of the boxes
    lo: Annotated[Floats, Column("dimensions", "lanes")]
    hi: Annotated[Floats, Column("dimensions", "lanes")]
    #: thetas, zeros for padding, and weights computed from thetas
    theta: Annotated[Floats, Column("thetas", "lanes")]
    #: the admission floor: the list holds exactly the rows not below this place. The key is NaN where the
    #: lane is free
    floor: Annotated[Floats, Column("lanes", fill=np.nan)]
    floor_tie: Annotated[Longs, Column("lanes")]
    #: the key of the list's k-th row, -inf where there are fewer; NaN in a free lane
    kth_key: Annotated[Floats, Column("lanes", fill=np.nan)]
    #: at most the floor; every row with a key not below it is a candidate, in a cell that
    #: has the tile's bit, so that the list can be refilled from candidates. NaN in a free lane
    refill_floor: Annotated[Floats, Column("lanes", fill=np.nan)]
    #: where the list is in the pool, its capacity, and its length
    list_start: Annotated[Longs, Column("lanes")]
    list_capacity: Annotated[Longs, Column("lanes")]
    list_size: Annotated[Longs, Column("lanes")]
    #: the last of its events in the current step, -1 for none
    head: Annotated[Ints, Column("lanes", fill=-1)]


class RowGrid(NamedTuple):
    """Cells of the space of rows. Cell 0 is for rows outside of the grid, and has the bits of all tiles.

    The space is also cut into uniform *parts*, which are found faster than cells; those at the border are
    unbounded, and take NaN too. A cell is active if it has any tile's bit, a part if an active cell, or the
    outside of the grid, reaches into it.
    """

    #: int32 (columns,): bins per column
    bins: Ints
    #: int32 (columns,): distance between cells of neighbouring bins
    stride: Ints
    #: float64 (columns, most bins + 1): bin `b` holds what is not below `edge[b]` and below `edge[b + 1]`
    edge: Floats
    #: float64 (columns,): buckets of equal width map to the first bin
    scale: Floats
    #: int32 (columns, BUCKETS)
    bucket: Ints
    #: uint8 (cells, tiles / 8): a bit for each tile with a list that a row of the cell may enter
    tile_bits: Bytes
    #: bool (cells,): whether any bit is set
    is_active: Bools
    #: float64 (columns,): the last part of a column; int32: distance between neighbouring parts
    last_part: Floats
    part_stride: Ints
    #: float64 (columns,): a value's part is `value * part_scale - part_offset`, at least 0, at most the last
    part_scale: Floats
    part_offset: Floats
    #: uint8 (parts / 8,): a bit for each active part; bits, so that they stay in the first-level cache
    active_parts: Bytes


class StoredRows(NamedTuple):
    """Rows by slot."""

    #: a multiple of eight slots, aligned to cache lines
    values: Annotated[Floats, Column("columns", "slots", fill=None)]
    #: insertion number; undefined where there is no row
    born: Annotated[Longs, Column("slots")]
    #: NO_ROW, STORED or CANDIDATE
    mark: Annotated[Bytes, Column("slots")]
    #: position among the candidates; undefined for other rows
    candidate_at: Annotated[Ints, Column("slots")]


class CandidateRows(NamedTuple):
    """The candidate pool: rows in active cells, in the order in which they joined.

    In a window they leave in that order too. One that leaves is a hole, until half are holes.
    """

    #: -1 for a hole
    row: Annotated[Ints, Column("rows", fill=None)]
    #: where in the grid it is
    cell: Annotated[Ints, Column("rows", fill=None)]
    #: row-major, so that a row is contiguous
    values: Annotated[Floats, Column("rows", "columns", fill=None)]
    #: whether it may be in a list
    is_listed: Annotated[Bools, Column("rows", fill=None)]


class ListPool(NamedTuple):
    """The lists, each contiguous: the answer, best first, then the other rows in any order."""

    #: slot of the row
    row: Annotated[Ints, Column("rows", fill=None)]
    #: its key
    key: Annotated[Floats, Column("rows", fill=None)]


class ListEvents(NamedTuple):
    """What a step's rows do to lists. Events that may change an answer are chained by lane, from
    `SubscriptionLanes.head` on."""

    #: lane of the list
    lane: Annotated[Ints, Column("events", fill=None)]
    #: the next event of the lane, -1 for none
    next: Annotated[Ints, Column("events", fill=None)]
    #: the entry by which the row arrives; if it leaves, the entry's complement
    entry: Annotated[Ints, Column("events", fill=None)]
    #: the key that the row has or had
    key: Annotated[Floats, Column("events", fill=None)]


class DeltaEntries(NamedTuple):
    """A delta's entries, in its order."""

    #: int64 (steps + 1,): where each step's entries begin
    bounds: Longs
    row: Ints
    born_before: Longs
    born_after: Longs
    touched: Bools
    #: float64 (entries, columns)
    after: Floats


class GridScratch(NamedTuple):
    """Working memory to mark the cells that a tile reaches."""

    #: the box of a part of the grid
    low: Annotated[Floats, Column("columns", 1, fill=None)]
    high: Annotated[Floats, Column("columns", 1, fill=None)]
    #: stacks of the program's bounds
    stack_low: Annotated[Floats, Column("depth", BLOCK, fill=None)]
    stack_high: Annotated[Floats, Column("depth", BLOCK, fill=None)]
    #: the smallest and the largest key that a row in the box may have
    least: Annotated[Floats, Column(TILE, fill=None)]
    most: Annotated[Floats, Column(TILE, fill=None)]
    #: parts still to be halved, as first bin and end of each column; row 0
    #: counts the cells of a part
    parts: Annotated[Ints, Column(Size("columns", times=8, plus=64), Size("columns", times=2), fill=None)]


class LaneChanges(NamedTuple):
    """A step's changes, lane by lane as lists are patched."""

    #: as in `ChangeSet`
    op: Annotated[Ops, Column("changes", fill=None)]
    row: Annotated[Ints, Column("changes", fill=None)]
    score: Annotated[Floats, Column("changes", fill=None)]
    rank: Annotated[Ints, Column("changes", fill=None)]


class StepOutput(NamedTuple):
    """Where a step's changes are written: as lists are patched, then in the order of slots."""

    raw: LaneChanges
    changes: ChangeSet


class PatchScratch(NamedTuple):
    """Working memory of a step."""

    #: to score rows
    stack: Annotated[Floats, Column("depth", BLOCK, fill=None)]
    score: Annotated[Floats, Column(BLOCK, fill=None)]
    #: entries, row slots and parts of rows that are stored together
    batch_rows: Annotated[Ints, Column(3, BLOCK, fill=None)]
    #: one row, as the interpreter expects it
    row_values: Annotated[Floats, Column("columns", 1, fill=None)]
    #: candidates to compare with tiles, and their entries: leaving, then arriving rows
    pending: Annotated[Ints, Column(Size("entries", times=2), fill=None)]
    pending_entry: Annotated[Ints, Column(Size("entries", times=2), fill=None)]
    #: entries of candidates that leave
    leaving: Annotated[Ints, Column("entries", fill=None)]
    #: entries of rows that arrive, and their cells
    arriving: Annotated[Ints, Column("entries", fill=None)]
    cell: Annotated[Ints, Column("entries", fill=None)]
    #: lanes that have events, and where their changes end
    affected: Annotated[Ints, Column("lanes", fill=None)]
    raw_end: Annotated[Ints, Column("lanes", fill=None)]
    #: slots with changes, in order; by slot, the index into `affected`, -1 for none
    slot_order: Annotated[Ints, Column("slots", fill=None)]
    affected_at: Annotated[Ints, Column("slots", fill=-1)]
    #: rows that enter a list: key, tie, slot, rank there
    add_key: Annotated[Floats, Column("events", fill=None)]
    add_tie: Annotated[Longs, Column("events", fill=None)]
    add_row: Annotated[Ints, Column("events", fill=None)]
    add_rank: Annotated[Ints, Column("events", fill=None)]
    #: rows that leave and must be reported even if they return unchanged
    touched_row: Annotated[Ints, Column("events", fill=None)]
    #: rows to refill a list with
    refill_key: Annotated[Floats, Column("list_rows", fill=None)]
    refill_row: Annotated[Ints, Column("list_rows", fill=None)]
    #: the old answer, and the op of each rank of the new one
    old_row: Annotated[Ints, Column("list_rows", fill=None)]
    old_key: Annotated[Floats, Column("list_rows", fill=None)]
    new_op: Annotated[Ops, Column("list_rows", fill=None)]
