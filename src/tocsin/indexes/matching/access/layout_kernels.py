"""Columns of a segment of the access index, and how predicates, values and cells are packed."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.jit import kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.access.bound_kernels import PredicateBounds
from tocsin.indexes.matching.layout import Records

Words: TypeAlias = NDArray[np.uint64]

#: Records of a block, and of a group, whose results are the bits of one word.
BLOCK = 256
GROUP = 64
#: Blocks of one event that are open at the same time, at most.
OPEN = 16
#: The key that every event has: conjunctions without predicates are found there.
ALWAYS = 0
#: A code is the rank of a bound among those of its key. A packed predicate holds, from the highest bit down,
#: its key, a guard bit, its high code + 1, a guard bit, and MASK - 1 - its low code. An event's value has, in
#: the same places, zeros, the code of the first bound not below it + 1, and MASK - 1 - the code of the last
#: bound not above it. A guard bit is left after subtraction if and only if they meet at that end.
CODE_BITS = 22
MASK = (1 << CODE_BITS) - 1
HIGH_SHIFT = CODE_BITS + 1
KEY_SHIFT = 2 * CODE_BITS + 2
KEY_BITS = 63 - KEY_SHIFT
GUARDS = (1 << CODE_BITS) | (1 << (CODE_BITS + HIGH_SHIFT))
#: The low code of a predicate that nothing satisfies: above all others.
NEVER = MASK - 1
#: Stands for the value of a key that the event lacks: no predicate meets it.
LACKING = (MASK << HIGH_SHIFT) | MASK
#: Bits of the Bloom filter that each record has of its keys (one hash: the key modulo this).
BLOOM_BITS = 32
#: A set of keys as one word, a 64-bit Bloom filter: multiplier that spreads keys, mask of the product, shift.
SPREAD = 0x9E3779B1
SPREAD_MASK = (1 << 32) - 1
SPREAD_SHIFT = 26
#: The cells of records that have no predicate on a column's key: from below the first cell to past the last.
BELOW = 0
BEYOND = 127
#: A cell takes one byte of a word, below a guard bit. Subtracting a record's cells from an event's, eight at
#: a time, leaves all guard bits if and only if none of the record's cells is greater.
CELL_BITS = 8
CELL_GUARDS = 0x8080808080808080
#: Columns of a word: each has the first cell that satisfies a record, and BEYOND minus the last one.
WORD_COLUMNS = 4
COLUMN_BITS = 2 * CELL_BITS

#: A column of a block: a key on which many of its records have a predicate; the least code of these; how many
#: low bits of a code a cell drops.
COLUMN = np.dtype([("key", np.int32), ("low", np.int32), ("shift", np.int32)], align=True)


class Partitions(NamedTuple):
    """Partitions of each access key: runs of blocks whose hulls are in the same key."""

    #: the first partition of each access key
    first: Annotated[Ints, Column(Size("keys", plus=1))]
    #: least low and greatest high code of its records' predicates on the access key
    low: Annotated[Ints, Column("partitions")]
    high: Annotated[Ints, Column("partitions")]
    #: key of its blocks' hulls: the access key, or one on which all have predicates
    key: Annotated[Ints, Column("partitions")]
    #: its first block
    block: Annotated[Ints, Column(Size("partitions", plus=1))]


class Blocks(NamedTuple):
    """Blocks of records, and their predicates as cells, one byte for each end."""

    #: hull: least low and greatest high code of its records in its partition's key
    low: Annotated[Ints, Column("blocks")]
    high: Annotated[Ints, Column("blocks")]
    #: keys of all its records, as a set; the fewest bits that a record sets in it
    keys: Annotated[Words, Column("blocks")]
    min_keys: Annotated[Ints, Column("blocks")]
    #: the greatest score bound of its records
    score_bound: Annotated[Floats, Column("blocks")]
    #: blocks by descending score bound; and the rank of each block in that order
    by_score_bound: Annotated[Ints, Column("blocks")]
    place: Annotated[Ints, Column("blocks")]
    #: its first record
    record: Annotated[Ints, Column(Size("blocks", plus=1))]
    #: its first word of cells
    word: Annotated[Ints, Column(Size("blocks", plus=1))]
    #: some of its records have predicates on keys without a column
    needs_bloom: Annotated[NDArray[np.bool_], Column("blocks")]
    #: a bit for each record that is live and can be satisfied
    alive: Annotated[Words, Column("blocks", BLOCK // GROUP)]
    #: a bit for each record that cells decide exactly
    exact: Annotated[Words, Column("blocks", BLOCK // GROUP)]
    #: the columns of each word; surplus ones constrain nothing
    columns: Annotated[Records, Column(Size("words", times=WORD_COLUMNS), dtype=COLUMN)]
    #: the cells of each record, 0 in columns on which it has no predicate
    cells: Annotated[Words, Column("words", BLOCK)]


class RecordColumns(NamedTuple):
    """Conjunctions, here *records*: blocks in order, within a block by descending score bound."""

    #: its first predicate
    first: Annotated[Ints, Column(Size("records", plus=1))]
    #: the subscription; -1 once terminated
    slot: Annotated[Ints, Column("records")]
    #: its score if all weights of an event are 1
    score: Annotated[Floats, Column("records")]
    #: upper bound of its score while no weight of an event is negative or above 1
    score_bound: Annotated[Floats, Column("records")]
    #: Bloom filter of its keys
    bloom: Annotated[NDArray[np.uint32], Column(Size("records", plus=GROUP))]
    #: packed
    predicate: Annotated[Longs, Column("predicates")]
    weight: Annotated[Floats, Column("predicates")]


class Tests(NamedTuple):
    """Conditions that bounds cannot decide."""

    #: int32 (records + 1,) if there are tests, else empty: first test of each record
    first: Ints
    #: int32 (tests,): predicate of each test, ascending
    predicate: Ints
    #: TEST and OPERAND, and the texts of all operands
    tests: Records
    operands: Records
    heap: Bytes


class AccessColumns(NamedTuple):
    """A segment of the access index."""

    bounds: PredicateBounds
    partitions: Partitions
    blocks: Blocks
    records: RecordColumns
    tests: Tests


class EventCodes(NamedTuple):
    """The values of a run of events as codes, and one event expanded by key."""

    #: the first of each event's values that some predicate is on
    first_value: Annotated[Longs, Column(Size("events", plus=1))]
    #: key of each value, and its packed codes
    value_key: Annotated[Ints, Column("entries", fill=None)]
    value_code: Annotated[Longs, Column("entries", fill=None)]
    #: the entry that it comes from
    value_entry: Annotated[Ints, Column("entries", fill=None)]
    #: upper bound of the event's weights; infinite if one is negative
    weight_bound: Annotated[Floats, Column("events", fill=None)]
    #: all weights are 1
    is_unweighted: Annotated[NDArray[np.bool_], Column("events", fill=None)]
    #: bits of the records' Bloom filters that no key of the event sets
    absent: Annotated[NDArray[np.uint32], Column("events", fill=None)]
    #: its keys, as a set
    keys: Annotated[Words, Column("events", fill=None)]
    #: codes of the expanded event, LACKING without a value; and the number of its value
    expanded_code: Annotated[Longs, Column("keys", fill=LACKING)]
    expanded_value: Annotated[Longs, Column("keys")]


class VisitLists(NamedTuple):
    """Which events visit which blocks."""

    #: min-hash of the blocks that it visits, mostly equal for similar events; its visits
    signature: Annotated[Ints, Column("events", fill=None)]
    n_visits: Annotated[Ints, Column("events", fill=None)]
    #: its first visit, in the order in which visits are found
    first_visit: Annotated[Longs, Column("events", fill=None)]
    #: event and block of each visit; and scratch to reorder them
    event: Annotated[Ints, Column("visits", fill=None)]
    block: Annotated[Ints, Column("visits", fill=None)]
    reordered: Annotated[Ints, Column(2, "visits", fill=None)]
    #: a bit for each record of the visited block that matches
    matched: Annotated[Words, Column("visits", BLOCK // GROUP, fill=None)]
    #: counting sort: where the visits of each block, or its events by signature, begin
    counts: Annotated[Longs, Column(Size("blocks", plus=2), fill=None)]


class Chunks(NamedTuple):
    """Events in chunks of similar ones, whose matches are collected and sorted together."""

    #: the events, similar ones together; and the chunk of each event
    ordered: Annotated[Ints, Column("events", fill=None)]
    chunk: Annotated[Ints, Column("events", fill=None)]
    #: where each chunk begins in `ordered`, and among the visits
    chunk_event: Annotated[Longs, Column(Size("events", plus=1), fill=None)]
    chunk_visit: Annotated[Longs, Column(Size("events", plus=1), fill=None)]
    #: its matches so far; where the next one goes in the sort buffer; its first row
    n_found: Annotated[Longs, Column("events", fill=None)]
    buffer_row: Annotated[Longs, Column("events", fill=None)]
    row: Annotated[Longs, Column("events", fill=None)]


class BlockHeads(NamedTuple):
    """Search of the best matches in the heads of blocks."""

    #: records examined of each block that the event opened, by descending score bound
    n_examined: Annotated[Ints, Column("events", OPEN, fill=None)]
    #: open blocks of the current event; the next record of each, its score bound
    open_block: Annotated[Ints, Column(OPEN, fill=None)]
    open_record: Annotated[Ints, Column(OPEN, fill=None)]
    open_score_bound: Annotated[Floats, Column(OPEN, fill=None)]


class Visits(NamedTuple):
    """Working columns for a run of events."""

    codes: EventCodes
    lists: VisitLists
    chunks: Chunks
    heads: BlockHeads


@kernel
def pack_predicate(key: Whole, low: Whole, high: Whole) -> np.int64:
    """Pack a predicate."""
    return np.int64((key << KEY_SHIFT) | GUARDS | ((high + 1) << HIGH_SHIFT) | (NEVER - low))


@kernel
def pack_value(low: Whole, high: Whole) -> np.int64:
    """Pack an event's value: the codes of the first bound not below it, and of the last one not above it."""
    return np.int64(((low + 1) << HIGH_SHIFT) | (NEVER - high))


@kernel
def key_of(packed: Whole) -> np.int64:
    """The key of a packed predicate."""
    return np.int64(packed >> KEY_SHIFT)


@kernel
def low_of(packed: Whole) -> np.int64:
    """The low code of a packed predicate, or the high one of a value."""
    return np.int64(NEVER - (packed & MASK))


@kernel
def high_of(packed: Whole) -> np.int64:
    """The high code of a packed predicate, or the low one of a value."""
    return np.int64(((packed >> HIGH_SHIFT) & MASK) - 1)


@kernel
def cell_of(code: Whole, base: Whole, shift: Whole) -> np.uint64:
    """The cell of a code in a column: 1 and up, BELOW before the first, at most BEYOND."""
    return np.uint64(min(max(1 + ((code - base) >> shift), BELOW), BEYOND))


@kernel
def pack_cells(first: np.uint64, last: np.uint64) -> np.uint64:
    """The cells of one column: no greater than those of an event that meets some cell from first to last."""
    return np.uint64(first | ((np.uint64(BEYOND) - last) << np.uint64(CELL_BITS)))


@kernel
def bit_of(key: Whole) -> np.uint64:
    """The bit of a key in a set of keys. Keys may share bits."""
    return np.uint64(1) << np.uint64(((key * SPREAD) & SPREAD_MASK) >> SPREAD_SHIFT)
