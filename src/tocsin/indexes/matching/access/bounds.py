"""The distinct bounds of each key's predicates, and predicates packed by them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.intrinsics import LANES
from tocsin.arrays.layout import empty
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.matching.access.bound_kernels import PredicateBounds, space_bounds
from tocsin.indexes.matching.access.build_kernels import (
    HashTable,
    encode_predicates,
    group_bounds,
)
from tocsin.indexes.matching.access.layout_kernels import KEY_BITS, NEVER
from tocsin.indexes.matching.layout import Records

#: Limits of packed predicates: predicates of a key, of two bounds each, and keys.
MAX_PREDICATES = NEVER // 2 - 1
MAX_KEYS = 1 << KEY_BITS


class Encoded(NamedTuple):
    """Predicates by key."""

    #: the bounds of each key, and int64 (keys,): their number
    bounds: PredicateBounds
    n_bounds: Longs
    #: int64 (keys + 1,): where its predicates begin in what follows
    first: Longs
    #: int64 and int32 (predicates,): packed; and the number of others of its key that each overlaps
    code: Longs
    overlaps: Ints


def encoded_by_key(predicates: Records, n_keys: int) -> Encoded:
    """The bounds of each key, and predicates packed by them.

    Predicates come by key, those of a key in their order. Cost: linear, and the distinct bounds of a key
    times their logarithm.
    """
    count = len(predicates)
    key_first, low, high = np.empty(n_keys + 1, np.int64), np.empty(count), np.empty(count)
    group_bounds(predicates, key_first, low, high)
    most = int(np.diff(key_first).max())
    capacity = 1 << (4 * most).bit_length()
    table = empty(HashTable, places=capacity, bounds=2 * most + 1)
    value, n_bounds = np.empty(2 * count), np.empty(n_keys, np.int64)
    code, overlaps = np.empty(count, np.int64), np.empty(count, np.int32)
    with np.errstate(over="ignore"):
        encode_predicates(low, high, key_first, table, value, n_bounds, code, overlaps)
    return Encoded(spaced_bounds(value, n_bounds), n_bounds, key_first, code, overlaps)


def spaced_bounds(value: Floats, n_bounds: Longs) -> PredicateBounds:
    """The bounds of keys, `n_bounds` of each in a row, laid out for search. Cost: linear."""
    n_groups = -(-n_bounds // LANES)
    bounds = empty(PredicateBounds, keys=len(n_bounds), groups=int(n_groups.sum()))
    np.cumsum(LANES * n_groups, out=bounds.first[1:])
    space_bounds(value, n_bounds, bounds)
    return bounds


def has_codes(predicates: Records, n_keys: int) -> bool:
    """Whether packed predicates can represent all of these and their keys. Cost: linear."""
    overlaps = int(np.bincount(predicates["key"], minlength=1).max())
    return n_keys <= MAX_KEYS and overlaps <= MAX_PREDICATES
