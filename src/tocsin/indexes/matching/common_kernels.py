"""Kernels that all matching indexes share: tests of values, prefixes of texts, counts of bounds and bits."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.strings_kernels import Whole, compare_bytes
from tocsin.arrays.types import Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.layout import (
    NONE_OF,
    ONE_OF,
    TEXT_ABOVE,
    TEXT_AT_LEAST,
    TEXT_AT_MOST,
    TEXT_BELOW,
    TEXT_NONE_OF,
    TEXT_ONE_OF,
    Records,
    Value,
)

#: Bytes of a text that a double represents exactly.
PREFIX_BYTES = 6
#: Up to this many bounds are all compared, several at a time: a search would mispredict each branch.
WINDOW = 64

#: Every second bit, every second pair, every second four; and a one in every byte.
ODD_BITS = 0x5555555555555555
ODD_PAIRS = 0x3333333333333333
ODD_FOURS = 0x0F0F0F0F0F0F0F0F
ONES = 0x0101010101010101


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
