"""What a part of the access index is made of, and how predicates are packed."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.bound_kernels import Bounds
from tocsin.indexes.matching.common_kernels import Records
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import Whole

Words: TypeAlias = NDArray[np.uint64]

#: Records of a block, and those of a group, which have a word of bits.
BLOCK = 256
GROUP = 64
#: Blocks of an event that are open at the same time, at most.
OPEN = 16
#: The key that every event has: where a conjunction without predicates is found.
ALWAYS = 0
#: A code is a bound's place among those of its key. A packed predicate has, from the highest bit on, its
#: key, a guard bit, its high code + 1, a guard bit, and MASK - 1 - its low code. An event's value has in the
#: same places nothing, the code of the first bound not below it + 1, and MASK - 1 - the code of the last
#: bound not above it. Whether a guard bit is left after subtraction tells whether they meet at that end.
CODE_BITS = 22
MASK = (1 << CODE_BITS) - 1
HIGH_SHIFT = CODE_BITS + 1
KEY_SHIFT = 2 * CODE_BITS + 2
KEY_BITS = 63 - KEY_SHIFT
GUARDS = (1 << CODE_BITS) | (1 << (CODE_BITS + HIGH_SHIFT))
#: The low code of a predicate that nothing satisfies: above all others.
NEVER = MASK - 1
#: In place of the value that an event lacks: it meets nothing.
LACKING = (MASK << HIGH_SHIFT) | MASK
#: The keys of a record share so many bits.
SIEVE = 32
#: A set of keys as a word: a factor that spreads keys, the bits of the product, and how many are left out.
SPREAD = 0x9E3779B1
SPREAD_MASK = (1 << 32) - 1
SPREAD_SHIFT = 26
#: The cells of records that do not ask for a column's key: from below the first cell to beyond the last.
BELOW = 0
BEYOND = 127
#: A cell has a byte of a word, below a guard bit: subtracting the cells of a record from those of an event,
#: eight at a time, leaves all guard bits if and only if none of the record's is greater.
CELL_BITS = 8
CELL_GUARDS = 0x8080808080808080
#: Columns of a word: of each, the first cell that satisfies a record, and how far the last is from BEYOND.
WORD_COLUMNS = 4
COLUMN_BITS = 2 * CELL_BITS

#: A column of a block: a key that many of its records ask for; the least of the codes that they ask for; how
#: many of a code's bits a cell leaves out.
COLUMN = np.dtype([("key", np.int32), ("low", np.int32), ("shift", np.int32)], align=True)


class Strips(NamedTuple):
    """The blocks of each access key, in strips: those of a strip have their hulls in the same key."""

    #: int32 (keys + 1,): the first strip of each access key
    first: Ints
    #: int32 (strips,): least low and greatest high code of its records' predicates in the access key
    low: Ints
    high: Ints
    #: int32 (strips,): the key in which its blocks have their hulls: the access key, or one that all ask for
    key: Ints
    #: int32 (strips + 1,): its first block
    block: Ints


class Blocks(NamedTuple):
    """Records in blocks, and what these ask for as cells, a byte for each end."""

    #: int32 (blocks,): least low and greatest high code of its records' predicates in the key of its strip
    low: Ints
    high: Ints
    #: uint64 (blocks,): the keys that its records ask for, as a set; int32: how many bits each has at least
    keys: Words
    least: Ints
    #: float64 (blocks,): the greatest reach of its records
    reach: Floats
    #: int32 (blocks,): blocks by reach, the greatest first; and the place of each among them
    by_reach: Ints
    place: Ints
    #: int32 (blocks + 1,): its first record
    record: Ints
    #: int32 (blocks + 1,): its first word of cells
    word: Ints
    #: bool (blocks,): some of its records ask for keys without a column
    is_sieved: NDArray[np.bool_]
    #: uint64 (blocks, BLOCK / GROUP): a bit for each record that is there and can be satisfied
    alive: Words
    #: uint64 (blocks, BLOCK / GROUP): a bit for each record that cells alone decide
    sure: Words
    #: COLUMN (WORD_COLUMNS * words,): the columns of each word; those that a block does not need ask nothing
    columns: Records
    #: uint64 (words, BLOCK): the cells of each record, 0 in columns that it does not ask for
    cells: Words


class RecordColumns(NamedTuple):
    """The conjunctions, here *records*, the predicates of each one after the other. In a block, by reach."""

    #: int32 (records + 1,): its first predicate
    first: Ints
    #: int32 (records,): the subscription; -1 where it has been terminated
    slot: Ints
    #: float64 (records,): its score where all weights of an event are 1
    score: Floats
    #: float64 (records,): what its score cannot exceed where no weight of an event is negative or above 1
    reach: Floats
    #: uint32 (records + GROUP,): its sieve, a bit for each share of the keys that it asks for
    sieve: NDArray[np.uint32]
    #: int64 (predicates,): packed
    predicate: Longs
    #: float64 (predicates,)
    weight: Floats


class Tests(NamedTuple):
    """What bounds cannot decide."""

    #: int32 (records + 1,) if there are tests, else empty: first test of each record
    first: Ints
    #: int32 (tests,): predicate of each test, in order
    predicate: Ints
    #: TEST and OPERAND, and the texts of all operands
    tests: Records
    operands: Records
    heap: Bytes


class AccessColumns(NamedTuple):
    """A part of the access index."""

    bounds: Bounds
    strips: Strips
    blocks: Blocks
    records: RecordColumns
    tests: Tests


class Visits(NamedTuple):
    """Which events visit which blocks, some events at a time; and one of them laid out by key."""

    #: int64 (events + 1,): the first of each event's values that predicates ask for
    first_value: Longs
    #: int32 and int64 (entries,): key of each of them, and its packed codes
    value_key: Ints
    value_code: Longs
    #: int32 (entries,): the entry that it comes from
    value_entry: Ints
    #: float64 (events,): not less than any weight of the event; infinite if one is negative
    greatest: Floats
    #: bool (events,): all weights are 1
    is_even: NDArray[np.bool_]
    #: uint32 (events,): a bit for each share of a sieve that the event has no key of
    absent: NDArray[np.uint32]
    #: uint64 (events,): the keys that it has, as a set
    keys: Words
    #: int32 (events,): a block that it visits, mostly the same for events alike; and how many it visits
    nearest: Ints
    n_visits: Ints
    #: int64 (events,): the first of its visits, as they are listed at first
    first_visit: Longs
    #: int32 (events,): the events, those that visit the same blocks together
    ordered: Ints
    #: int32 (events,): its chunk of these, and its place there
    chunk: Ints
    local: Ints
    #: int64 (events + 1,): where each chunk begins in `ordered`, and among the visits
    chunk_event: Longs
    chunk_visit: Longs
    #: int64 (events,): how many matches it has; where the next one is written on the desk; its first row
    n_found: Longs
    desk_row: Longs
    row: Longs
    #: int32 (visits,): event and block of each visit; and where they are brought into another order
    event: Ints
    block: Ints
    spare: Ints
    #: uint64 (visits, BLOCK / GROUP): a bit for each record of the block visited that matches
    met: Words
    #: int64 (blocks + 2,): where the visits of each block, or the events that it is nearest to, begin
    counts: Longs
    #: int32 (events, OPEN): how many records of the blocks that an event visits, by reach, are done with
    n_looked: Ints
    #: int32 and float64 (OPEN,): the open blocks of an event; the next record of each, and its reach
    open_block: Ints
    open_record: Ints
    open_reach: Floats
    #: int64 (keys,): the codes of the event laid out, LACKING without a value; and where its value is
    laid_code: Longs
    laid_value: Longs


@kernel
def pack_predicate(key: Whole, low: Whole, high: Whole) -> np.int64:
    """A predicate of these codes."""
    return np.int64((key << KEY_SHIFT) | GUARDS | ((high + 1) << HIGH_SHIFT) | (NEVER - low))


@kernel
def pack_value(low: Whole, high: Whole) -> np.int64:
    """An event's value: the codes of the first bound not below it, and of the last one not above."""
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
    """The cell of a code in a column: from 1 on, BELOW before the first and at most BEYOND."""
    return np.uint64(min(max(1 + ((code - base) >> shift), BELOW), BEYOND))


@kernel
def pack_cells(first: np.uint64, last: np.uint64) -> np.uint64:
    """The cells of one column: no greater than those of an event that meets the cells from first to last."""
    return np.uint64(first | ((np.uint64(BEYOND) - last) << np.uint64(CELL_BITS)))


@kernel
def bit_of(key: Whole) -> np.uint64:
    """The bit of a key in a set of keys: other keys may share it."""
    return np.uint64(1) << np.uint64(((key * SPREAD) & SPREAD_MASK) >> SPREAD_SHIFT)
