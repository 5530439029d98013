"""Sorting whole numbers digit by digit, the lowest first.

Several times as fast as comparing them, where there are thousands and the digits that differ are few.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Longs
from tocsin.indexes.shared.jit import lean_kernel

#: Bits of a digit, and how many digits there are.
DIGIT_BITS = 12
DIGITS = 1 << DIGIT_BITS

Words = NDArray[np.uint64]


@lean_kernel
def count_digits(words: Words, first_bit: int, out_counts: Longs) -> None:
    """Count how often each digit comes at each place, a row of `out_counts` each, from `first_bit` on."""
    mask = np.uint64(DIGITS - 1)
    for index in range(words.shape[0]):
        rest = words[index] >> np.uint64(first_bit)
        for place in range(out_counts.shape[0]):
            out_counts[place, rest & mask] += 1
            rest >>= np.uint64(DIGIT_BITS)


@lean_kernel
def sort_words(words: Words, others: Words, first_bit: int, counts: Longs) -> bool:
    """Sort by the bits from `first_bit` on, as far as `counts` has rows, all 0; equals keep their order.

    `others` is room for as many; whether the sorted ones are there.
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
