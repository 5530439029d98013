"""LSD radix sort of integers.

Several times as fast as a comparison sort of thousands of keys that differ in few digits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Ints, Longs

#: Bits of a digit, and the number of digit values.
DIGIT_BITS = 12
DIGITS = 1 << DIGIT_BITS
#: Up to so many values are sorted by insertion; up to MANY by digits of a few bits, more by larger ones.
INSERTION_MAX = 24
SMALL_DIGITS_MAX = 4096
SMALL_DIGIT_BITS = 8
LARGE_DIGIT_BITS = 11
LARGEST_DIGIT = 1 << LARGE_DIGIT_BITS

Words = NDArray[np.uint64]


@lean_kernel
def count_digits(words: Words, first_bit: int, out_counts: Longs) -> None:
    """Histogram of the digits at each place from `first_bit` on, a row of `out_counts` each."""
    mask = np.uint64(DIGITS - 1)
    for index in range(words.shape[0]):
        rest = words[index] >> np.uint64(first_bit)
        for place in range(out_counts.shape[0]):
            out_counts[place, rest & mask] += 1
            rest >>= np.uint64(DIGIT_BITS)


@lean_kernel
def sort_words(words: Words, others: Words, first_bit: int, counts: Longs) -> bool:
    """Stable sort by the bits from `first_bit` on, a digit for each row of `counts`, which are all 0.

    `others` is scratch of the same length. Returns whether the result is there and not in `words`.
    """
    count_digits(words, first_bit, counts)
    mask = np.uint64(DIGITS - 1)
    n_words = words.shape[0]
    is_other = False
    for place in range(counts.shape[0]):
        shift, begins = np.uint64(first_bit + place * DIGIT_BITS), counts[place]
        if n_words == 0 or begins[(words[0] >> shift) & mask] == n_words:
            continue
        total = 0
        for digit in range(DIGITS):
            count = begins[digit]
            begins[digit] = total
            total += count
        for index in range(n_words):
            word = words[index]
            digit = (word >> shift) & mask
            others[begins[digit]] = word
            begins[digit] += 1
        words, others = others, words
        is_other = not is_other
    return is_other


@lean_kernel
def sort_values(values: Longs, count: int, shift: int, largest: int, spare: Longs, begin: Longs) -> None:
    """Sort the first `count` values by their bits from `shift` on, none above `largest`. Stable.

    `spare` has the same capacity, `begin` LARGEST_DIGIT + 1. Cost: linear, by digits, unless there are few.
    """
    if count <= INSERTION_MAX:
        for i in range(1, count):
            value = values[i]
            at = i
            while at > 0 and (values[at - 1] >> shift) > (value >> shift):
                values[at] = values[at - 1]
                at -= 1
            values[at] = value
        return
    n_bits = 1
    while (largest >> n_bits) > 0:
        n_bits += 1
    widest = SMALL_DIGIT_BITS if count <= SMALL_DIGITS_MAX else LARGE_DIGIT_BITS
    n_passes = (n_bits + widest - 1) // widest
    bits = (n_bits + n_passes - 1) // n_passes
    n_digits = 1 << bits
    for _ in range(n_passes):
        for digit in range(n_digits + 1):
            begin[digit] = 0
        for i in range(count):
            begin[((values[i] >> shift) & (n_digits - 1)) + 1] += 1
        for digit in range(n_digits):
            begin[digit + 1] += begin[digit]
        for i in range(count):
            digit = (values[i] >> shift) & (n_digits - 1)
            spare[begin[digit]] = values[i]
            begin[digit] += 1
        for i in range(count):
            values[i] = spare[i]
        shift += bits


def order_of(keys: Words, n_bits: int) -> Ints:
    """Stable argsort of keys of at most `n_bits` bits.

    Cost: linear, for every twelve bits. Each key is packed into one word with its index; where both do not
    fit, this is a comparison sort.
    """
    count = len(keys)
    place_bits = max(count - 1, 0).bit_length()
    if n_bits + place_bits > 64:
        return np.argsort(keys, kind="stable").astype(np.int32)
    words = keys << np.uint64(place_bits)
    words |= np.arange(count, dtype=np.uint64)
    others = np.empty_like(words)
    counts = np.zeros((-(-n_bits // DIGIT_BITS), DIGITS), np.int64)
    found = others if sort_words(words, others, place_bits, counts) else words
    found &= np.uint64((1 << place_bits) - 1)
    return found.astype(np.int32)


def ascending_bits(values: np.ndarray) -> np.ndarray:
    """Integers, uint32, in the order of float32 values without NaN; -0 comes before 0."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    ascending: np.ndarray = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return ascending
