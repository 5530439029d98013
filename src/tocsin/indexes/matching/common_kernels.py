"""Shared by the kernels of all matching indexes: records, values, tests, and the report of matches."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.strings_kernels import Whole, compare_bytes
from tocsin.arrays.types import Bytes, Floats, Ints, Longs, Ops

Records: TypeAlias = NDArray[np.void]

#: Bytes of a text that a double represents exactly.
PREFIX_BYTES = 6

#: Kinds of values, which do not compare with each other; and their number.
NUMBER = 1
TEXT = 2
BOOLEAN = 3
KINDS = 3

#: Tests. Bounds alone decide a RANGE, which has no test.
RANGE = 0
ONE_OF = 1
NONE_OF = 2
TEXT_ONE_OF = 3
TEXT_NONE_OF = 4
TEXT_BELOW = 5
TEXT_AT_MOST = 6
TEXT_AT_LEAST = 7
TEXT_ABOVE = 8
TEXT_BETWEEN = 9

#: Up to this many bounds are all compared, several at a time: a search would mispredict each branch.
WINDOW = 64

#: Every second bit, every second pair, every second four; and a one in every byte.
ODD_BITS = 0x5555555555555555
ODD_PAIRS = 0x3333333333333333
ODD_FOURS = 0x0F0F0F0F0F0F0F0F
ONES = 0x0101010101010101

#: Places in `Matches.progress`.
EVENT = 0
CURRENT_BLOCK = 1
N_ROWS = 2
N_RUNS = 3

# Records, not a column a field: candidates are read whole and at random, and a row in one place costs one
# cache miss where five columns cost five.

#: A slot: first of its predicates, and their number; -1 if the slot is free.
SLOT = np.dtype([("start", np.int32), ("count", np.int32)], align=True)
#: A predicate: its bounds and weight; key, an attribute and a kind; its test, -1 for a RANGE.
PREDICATE = np.dtype(
    [
        ("low", np.float64),
        ("high", np.float64),
        ("weight", np.float64),
        ("key", np.int32),
        ("test", np.int32),
    ],
    align=True,
)
#: A test: ONE_OF … TEXT_BETWEEN; first of its operands, and their number.
TEST = np.dtype([("kind", np.int32), ("start", np.int32), ("count", np.int32)], align=True)
#: An operand: a number, or a text's first bytes, and where in the heap the text lies.
OPERAND = np.dtype([("value", np.float64), ("start", np.int64), ("length", np.int64)], align=True)


class EventColumns(NamedTuple):
    """A batch of events, as in `Events`, and the index's numbers of their attributes."""

    #: int32 (names,): attribute number of each name; -1 if no predicate is on it.
    known: Ints
    offsets: Longs
    attribute: Ints
    kind: Ops
    low: Floats
    high: Floats
    text_start: Longs
    text_length: Ints
    heap: Bytes
    weight: Floats


class Value(NamedTuple):
    """One event's value of one attribute."""

    low: float
    high: float
    text_start: Whole
    text_length: Whole
    heap: Bytes


class Matches(NamedTuple):
    """Output of a kernel, and its progress."""

    step: Ints
    subscription: Ints
    score: Floats
    #: int32: written if the best are asked for
    rank: Ints
    #: int64 (4,): first unfinished event, its first unfinished block, rows and runs written.
    progress: Longs


@lean_kernel
def read_prefix(heap: Bytes, start: Whole, length: Whole) -> float:
    """The first bytes of a text as a number, padded with zeros: texts in order have numbers in order."""
    code = np.int64(0)
    for place in range(PREFIX_BYTES):
        code *= 256
        if place < length:
            code += np.int64(heap[start + place])
    return float(code)


@lean_kernel
def read_prefixes(heap: Bytes, starts: Longs, lengths: Ints, out_prefixes: Floats) -> None:
    """The first bytes of each text as a number."""
    for text in range(starts.shape[0]):
        out_prefixes[text] = read_prefix(heap, starts[text], np.int64(lengths[text]))


@lean_kernel
def compare_operand(value: Value, operands: Records, heap: Bytes, operand: Whole) -> int:
    """-1, 0 or 1 as the event's text comes before, is, or comes after the operand's."""
    start, length = operands[operand]["start"], operands[operand]["length"]
    return compare_bytes(value.heap, value.text_start, value.text_length, heap, start, length)


@lean_kernel
def passes_test(test: np.void, value: Value, operands: Records, heap: Bytes) -> bool:
    """Whether an event's value within the bounds of a predicate also satisfies its test."""
    kind, first, count = np.int64(test["kind"]), np.int64(test["start"]), np.int64(test["count"])
    is_listed = False
    if kind in (ONE_OF, NONE_OF):
        # A range of more than one number always holds another one than those listed.
        if kind == NONE_OF and value.low < value.high:
            return True
        for operand in range(first, first + count):
            is_listed |= value.low <= operands[operand]["value"] <= value.high
        return is_listed if kind == ONE_OF else not is_listed
    if kind in (TEXT_ONE_OF, TEXT_NONE_OF):
        for operand in range(first, first + count):
            if (
                value.low == operands[operand]["value"]
                and compare_operand(value, operands, heap, operand) == 0
            ):
                is_listed = True
        return is_listed if kind == TEXT_ONE_OF else not is_listed
    order = compare_operand(value, operands, heap, first)
    if kind == TEXT_BELOW:
        return order < 0
    if kind == TEXT_AT_MOST:
        return order <= 0
    if kind == TEXT_AT_LEAST:
        return order >= 0
    if kind == TEXT_ABOVE:
        return order > 0
    return order >= 0 and compare_operand(value, operands, heap, first + 1) <= 0


@lean_kernel
def count_below(bounds: Floats, begin: Whole, end: Whole, value: float) -> Whole:
    """How many of the sorted bounds are below a value."""
    first, length, more = begin, end - begin, np.int64(0)
    while length > WINDOW:
        half = length >> 1
        first = first + half if bounds[first + half - 1] < value else first
        length -= half
    for place in range(np.uint64(first), np.uint64(first + length)):
        more += np.int64(bounds[place] < value)
    return first - begin + more


@lean_kernel
def count_bits(word: np.uint64) -> np.uint64:
    """How many bits of a word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(ODD_BITS))
    word = (word & np.uint64(ODD_PAIRS)) + ((word >> np.uint64(2)) & np.uint64(ODD_PAIRS))
    word = (word + (word >> np.uint64(4))) & np.uint64(ODD_FOURS)
    return (word * np.uint64(ONES)) >> np.uint64(56)
