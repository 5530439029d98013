"""Columns of a segment of the access index, and how predicates, values and cells are packed."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.jit import kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.bound_kernels import PredicateBounds
from tocsin.indexes.matching.common_kernels import Records

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

    #: int32 (keys + 1,): the first partition of each access key
    first: Ints
    #: int32 (partitions,): least low and greatest high code of its records' predicates on the access key
    low: Ints
    high: Ints
    #: int32 (partitions,): key of its blocks' hulls: the access key, or one on which all have predicates
    key: Ints
    #: int32 (partitions + 1,): its first block
    block: Ints


class Blocks(NamedTuple):
    """Blocks of records, and their predicates as cells, one byte for each end."""

    #: int32 (blocks,): hull: least low and greatest high code of its records in its partition's key
    low: Ints
    high: Ints
    #: uint64 (blocks,): keys of all its records, as a set; int32: the fewest bits that a record sets in it
    keys: Words
    min_keys: Ints
    #: float64 (blocks,): the greatest score bound of its records
    score_bound: Floats
    #: int32 (blocks,): blocks by descending score bound; and the rank of each block in that order
    by_score_bound: Ints
    place: Ints
    #: int32 (blocks + 1,): its first record
    record: Ints
    #: int32 (blocks + 1,): its first word of cells
    word: Ints
    #: bool (blocks,): some of its records have predicates on keys without a column
    needs_bloom: NDArray[np.bool_]
    #: uint64 (blocks, BLOCK / GROUP): a bit for each record that is live and can be satisfied
    alive: Words
    #: uint64 (blocks, BLOCK / GROUP): a bit for each record that cells decide exactly
    exact: Words
    #: COLUMN (WORD_COLUMNS * words,): the columns of each word; surplus ones constrain nothing
    columns: Records
    #: uint64 (words, BLOCK): the cells of each record, 0 in columns on which it has no predicate
    cells: Words


class RecordColumns(NamedTuple):
    """Conjunctions, here *records*: blocks in order, within a block by descending score bound."""

    #: int32 (records + 1,): its first predicate
    first: Ints
    #: int32 (records,): the subscription; -1 once terminated
    slot: Ints
    #: float64 (records,): its score if all weights of an event are 1
    score: Floats
    #: float64 (records,): upper bound of its score while no weight of an event is negative or above 1
    score_bound: Floats
    #: uint32 (records + GROUP,): Bloom filter of its keys
    bloom: NDArray[np.uint32]
    #: int64 (predicates,): packed
    predicate: Longs
    #: float64 (predicates,)
    weight: Floats


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

    #: int64 (events + 1,): the first of each event's values that some predicate is on
    first_value: Longs
    #: int32 and int64 (entries,): key of each value, and its packed codes
    value_key: Ints
    value_code: Longs
    #: int32 (entries,): the entry that it comes from
    value_entry: Ints
    #: float64 (events,): upper bound of the event's weights; infinite if one is negative
    weight_bound: Floats
    #: bool (events,): all weights are 1
    is_unweighted: NDArray[np.bool_]
    #: uint32 (events,): bits of the records' Bloom filters that no key of the event sets
    absent: NDArray[np.uint32]
    #: uint64 (events,): its keys, as a set
    keys: Words
    #: int64 (keys,): codes of the expanded event, LACKING without a value; and the number of its value
    expanded_code: Longs
    expanded_value: Longs


class VisitLists(NamedTuple):
    """Which events visit which blocks."""

    #: int32 (events,): min-hash of the blocks that it visits, mostly equal for similar events; its visits
    signature: Ints
    n_visits: Ints
    #: int64 (events,): its first visit, in the order in which visits are found
    first_visit: Longs
    #: int32 (visits,): event and block of each visit; and (2, visits): scratch to reorder them
    event: Ints
    block: Ints
    reordered: Ints
    #: uint64 (visits, BLOCK / GROUP): a bit for each record of the visited block that matches
    matched: Words
    #: int64 (blocks + 2,): counting sort: where the visits of each block, or its events by signature, begin
    counts: Longs


class Chunks(NamedTuple):
    """Events in chunks of similar ones, whose matches are collected and sorted together."""

    #: int32 (events,): the events, similar ones together; and the chunk of each event
    ordered: Ints
    chunk: Ints
    #: int64 (events + 1,): where each chunk begins in `ordered`, and among the visits
    chunk_event: Longs
    chunk_visit: Longs
    #: int64 (events,): its matches so far; where the next one goes in the sort buffer; its first row
    n_found: Longs
    buffer_row: Longs
    row: Longs


class BlockHeads(NamedTuple):
    """Search of the best matches in the heads of blocks."""

    #: int32 (events, OPEN): records examined of each block that the event opened, by descending score bound
    n_examined: Ints
    #: int32 and float64 (OPEN,): open blocks of the current event; the next record of each, its score bound
    open_block: Ints
    open_record: Ints
    open_score_bound: Floats


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
