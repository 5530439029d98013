"""Orders of many whole numbers."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints
from tocsin.indexes.shared.orders_kernels import DIGIT_BITS, DIGITS, Words, sort_words


def order_of(keys: Words, n_bits: int) -> Ints:
    """The places of the keys in ascending order, equals as they come; keys have at most `n_bits` bits.

    Cost: linear, for every twelve bits. Each key brings its own place along; where both do not go into one
    word, they are compared.
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
    """Whole numbers, uint32, in the order of these float32, none of them NaN; -0 comes before 0."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    ascending: np.ndarray = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return ascending
