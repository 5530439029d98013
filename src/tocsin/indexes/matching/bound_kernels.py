"""The different bounds of each key, and where a value lies among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Longs
from tocsin.indexes.matching.common_kernels import count_bits
from tocsin.indexes.shared.jit import inlined, lean_kernel
from tocsin.indexes.shared.lanes import LANES, bits_at_most, bits_below
from tocsin.indexes.shared.names_kernels import Whole


class Bounds(NamedTuple):
    """The different bounds of each key's predicates, in order: a bound's place is its code.

    They are searched sixteen at a time: those that are the last of sixteen have a column of their own, so
    that most values are found by two comparisons.
    """

    #: int64 (keys + 1,): where each key begins in `value`: at multiples of LANES
    first: Longs
    #: float64: the bounds of each key, and NaN up to where the next one begins
    value: Floats
    #: float64 (values / LANES + LANES,): the last of each LANES values, and NaN
    mark: Floats


@lean_kernel
def space_bounds(values: Floats, counts: Longs, bounds: Bounds) -> None:
    """Write the bounds of keys, so many of each one after the other, to where they begin; all else is NaN."""
    place = np.int64(0)
    for key in range(counts.shape[0]):
        for number in range(counts[key]):
            bounds.value[bounds.first[key] + number] = values[place]
            place += 1
    for group in range(bounds.value.shape[0] // LANES):
        bounds.mark[group] = bounds.value[LANES * group + LANES - 1]


@inlined
def count_below(bounds: Bounds, key: Whole, value: float) -> np.int64:
    """How many bounds of a key are below a value. Cost: the logarithm of a sixteenth of them."""
    mark, lanes, one = bounds.mark, np.uint64(LANES), np.uint64(1)
    begin, end = np.uint64(bounds.first[key]) // lanes, np.uint64(bounds.first[key + 1]) // lanes
    group, length, more = begin, end - begin, np.uint64(0)
    while length > lanes:
        half = length >> one
        group = group + half if mark[group + half - one] < value else group
        length -= half
    if begin < end:
        # The last of them has all that are left, even if it ends below the value.
        group += count_bits(bits_below(mark, group, value) & ((one << (length - one)) - one))
        more = count_bits(bits_below(bounds.value, lanes * group, value))
    return np.int64(lanes * (group - begin) + more)


@lean_kernel
def count_at_most(bounds: Bounds, key: Whole, value: float) -> np.int64:
    """How many bounds of a key are not above a value. Cost: as above."""
    mark, lanes, one = bounds.mark, np.uint64(LANES), np.uint64(1)
    begin, end = np.uint64(bounds.first[key]) // lanes, np.uint64(bounds.first[key + 1]) // lanes
    if begin == end:
        return np.int64(0)
    group, length = begin, end - begin
    while length > lanes:
        half = length >> one
        group = group + half if mark[group + half - one] <= value else group
        length -= half
    group += count_bits(bits_at_most(mark, group, value) & ((one << (length - one)) - one))
    more = count_bits(bits_at_most(bounds.value, lanes * group, value))
    return np.int64(lanes * (group - begin) + more)


@inlined
def is_bound(bounds: Bounds, key: Whole, place: Whole, value: float) -> bool:
    """Whether a value is the bound of a key at a place, which may be beyond either end."""
    place += bounds.first[key]
    return bool(bounds.first[key] <= place < bounds.first[key + 1] and bounds.value[place] == value)
