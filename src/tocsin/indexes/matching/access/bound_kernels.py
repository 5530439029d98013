"""The distinct bounds of each key, and the rank of a value among them."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.intrinsics import LANES, bits_at_most, bits_below
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.matching.common_kernels import count_bits


class PredicateBounds(NamedTuple):
    """The distinct bounds of each key's predicates, ascending: a bound's rank is its code.

    They are searched sixteen at a time: the last of each sixteen is in a column of its own, so that most
    values are found by two vector comparisons.
    """

    #: where each key begins in `value`: at multiples of LANES
    first: Annotated[Longs, Column(Size("keys", plus=1))]
    #: the bounds of each key, and NaN up to where the next one begins
    value: Annotated[Floats, Column(Size("groups", times=LANES), fill=np.nan)]
    #: the last of each LANES values, and NaN
    mark: Annotated[Floats, Column(Size("groups", plus=LANES), fill=np.nan)]


@lean_kernel
def space_bounds(values: Floats, counts: Longs, bounds: PredicateBounds) -> None:
    """Spread the bounds of keys, `counts` of each in a row, to their aligned places; all else is NaN."""
    place = np.int64(0)
    for key in range(counts.shape[0]):
        for number in range(counts[key]):
            bounds.value[bounds.first[key] + number] = values[place]
            place += 1
    for group in range(bounds.value.shape[0] // LANES):
        bounds.mark[group] = bounds.value[LANES * group + LANES - 1]


@inlined
def count_below(bounds: PredicateBounds, key: Whole, value: float) -> np.int64:
    """How many bounds of a key are below a value. Cost: the logarithm of a sixteenth of them."""
    mark, lanes, one = bounds.mark, np.uint64(LANES), np.uint64(1)
    begin, end = np.uint64(bounds.first[key]) // lanes, np.uint64(bounds.first[key + 1]) // lanes
    group, length, more = begin, end - begin, np.uint64(0)
    while length > lanes:
        half = length >> one
        group = group + half if mark[group + half - one] < value else group
        length -= half
    if begin < end:
        # The last group takes all that are left, even if it ends below the value.
        group += count_bits(bits_below(mark, group, value) & ((one << (length - one)) - one))
        more = count_bits(bits_below(bounds.value, lanes * group, value))
    return np.int64(lanes * (group - begin) + more)


@lean_kernel
def count_at_most(bounds: PredicateBounds, key: Whole, value: float) -> np.int64:
    """How many bounds of a key are not above a value. Cost: as `count_below`."""
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
def is_bound(bounds: PredicateBounds, key: Whole, place: Whole, value: float) -> bool:
    """Whether a value equals the bound of a key at a place, which may be past either end."""
    place += bounds.first[key]
    return bool(bounds.first[key] <= place < bounds.first[key + 1] and bounds.value[place] == value)
