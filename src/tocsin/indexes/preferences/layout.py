"""The columns of candidate lists, and the cursor of their kernels.

`index` and `step_kernels` explain how they work together.
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Bools, Bytes, Floats, Ints, Longs, Ops
from tocsin.kernels.scoring import Program
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

    #: int32 (lanes,): subscription slot
    slot: Ints
    #: int64 (lanes,)
    k: Longs
    #: float64 (dimensions, lanes): closed bounds of the boxes
    lo: Floats
    hi: Floats
    #: float64 (n_theta + 1 + weights, lanes): thetas, zeros for padding, and weights computed from thetas
    theta: Floats
    #: float64, int64 (lanes,): the admission floor: the list holds exactly the rows not below this place. The
    #: key is NaN where the lane is free
    floor: Floats
    floor_tie: Longs
    #: float64 (lanes,): the key of the list's k-th row, -inf where there are fewer; NaN in a free lane
    kth_key: Floats
    #: float64 (lanes,): at most the floor; every row with a key not below it is a candidate, in a cell that
    #: has the tile's bit, so that the list can be refilled from candidates. NaN in a free lane
    refill_floor: Floats
    #: int64 (lanes,): where the list is in the pool, its capacity, and its length
    list_start: Longs
    list_capacity: Longs
    list_size: Longs
    #: int32 (lanes,): the last of its events in the current step, -1 for none
    head: Ints


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

    #: float64 (columns, slots): a multiple of eight slots, aligned to cache lines
    values: Floats
    #: int64 (slots,): insertion number; undefined where there is no row
    born: Longs
    #: uint8 (slots,): NO_ROW, STORED or CANDIDATE
    mark: Bytes
    #: int32 (slots,): position among the candidates; undefined for other rows
    candidate_at: Ints


class CandidateRows(NamedTuple):
    """The candidate pool: rows in active cells, in the order in which they joined.

    In a window they leave in that order too. One that leaves is a hole, until half are holes.
    """

    #: int32 (rows,): -1 for a hole
    row: Ints
    #: int32 (rows,)
    cell: Ints
    #: float64 (rows, columns): row-major, so that a row is contiguous
    values: Floats
    #: bool (rows,): whether it may be in a list
    is_listed: Bools


class ListPool(NamedTuple):
    """The lists, each contiguous: the answer, best first, then the other rows in any order."""

    #: int32: slot of the row
    row: Ints
    #: float64: its key
    key: Floats


class ListEvents(NamedTuple):
    """What a step's rows do to lists. Events that may change an answer are chained by lane, from
    `SubscriptionLanes.head` on."""

    #: int32: lane of the list
    lane: Ints
    #: int32: the next event of the lane, -1 for none
    next: Ints
    #: int32: the entry by which the row arrives; if it leaves, the entry's complement
    entry: Ints
    #: float64: the key that the row has or had
    key: Floats


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

    #: float64 (columns, 1): the box of a part of the grid
    low: Floats
    high: Floats
    #: float64 (depth, BLOCK): stacks of the program's bounds
    stack_low: Floats
    stack_high: Floats
    #: float64 (lanes,): the smallest and the largest key that a row in the box may have
    least: Floats
    most: Floats
    #: int32 (levels, 2 * columns): parts still to be halved, as first bin and end of each column; row 0
    #: counts the cells of a part
    parts: Ints


class LaneChanges(NamedTuple):
    """A step's changes, lane by lane as lists are patched."""

    #: int8, int32, float64, int32: as in `ChangeSet`
    op: Ops
    row: Ints
    score: Floats
    rank: Ints


class StepOutput(NamedTuple):
    """Where a step's changes are written: as lists are patched, then in the order of slots."""

    raw: LaneChanges
    changes: ChangeSet


class PatchScratch(NamedTuple):
    """Working memory of a step."""

    #: float64 (depth, BLOCK)
    stack: Floats
    #: float64 (BLOCK,)
    score: Floats
    #: int32 (3, BLOCK): entries, row slots and parts of rows that are stored together
    batch_rows: Ints
    #: float64 (columns, 1): one row, as the interpreter expects it
    row_values: Floats
    #: int32 (2 * entries,): candidates to compare with tiles, and their entries: leaving, then arriving rows
    pending: Ints
    pending_entry: Ints
    #: int32 (entries,): entries of candidates that leave
    leaving: Ints
    #: int32 (entries,): entries of rows that arrive, and their cells
    arriving: Ints
    cell: Ints
    #: int32 (lanes,): lanes that have events, and where their changes end
    affected: Ints
    raw_end: Ints
    #: int32 (slots,): slots with changes, in order; by slot, the index into `affected`, -1 for none
    slot_order: Ints
    affected_at: Ints
    #: float64, int64, int32, int32 (events,): rows that enter a list: key, tie, slot, rank there
    add_key: Floats
    add_tie: Longs
    add_row: Ints
    add_rank: Ints
    #: int32 (events,): rows that leave and must be reported even if they return unchanged
    touched_row: Ints
    #: float64, int32 (longest list,): rows to refill a list with
    refill_key: Floats
    refill_row: Ints
    #: int32, float64, int8 (longest list,): the old answer, and the op of each rank of the new one
    old_row: Ints
    old_key: Floats
    new_op: Ops
