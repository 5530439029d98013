"""The different bounds of each key's predicates, by which predicates are packed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.matching.access_build_kernels import Table, encode_predicates, group_bounds
from tocsin.indexes.matching.access_layout_kernels import KEY_BITS, NEVER
from tocsin.indexes.matching.bound_kernels import Bounds, space_bounds
from tocsin.indexes.matching.common_kernels import Records
from tocsin.indexes.shared.lanes import LANES

#: No more predicates of a key, of two bounds each, and no more keys than packed predicates have codes for.
MOST_PREDICATES = NEVER // 2 - 1
MOST_KEYS = 1 << KEY_BITS


class Encoded(NamedTuple):
    """What is known of predicates by key."""

    #: the bounds of each key, and int64 (keys,): how many these are
    bounds: Bounds
    n_bounds: Longs
    #: int64 (keys + 1,): where its predicates begin in what follows
    first: Longs
    #: int64 and int32 (predicates,): packed; and how many others of its key each overlaps
    code: Longs
    crowd: Ints


def encoded_by_key(predicates: Records, n_keys: int) -> Encoded:
    """The bounds of each key, and predicates packed by them.

    Predicates come by key, those of a key in their order. Cost: linear, and the different bounds of a key
    times their logarithm.
    """
    count = len(predicates)
    key_first, low, high = np.empty(n_keys + 1, np.int64), np.empty(count), np.empty(count)
    group_bounds(predicates, key_first, low, high)
    most = int(np.diff(key_first).max())
    room = 1 << (4 * most).bit_length()
    table = Table(
        bits=np.empty(room, np.int64),
        number=np.full(room, -1, np.int32),
        place=np.empty(2 * most + 1, np.int32),
        code=np.empty(2 * most + 1, np.int32),
    )
    value, n_bounds = np.empty(2 * count), np.empty(n_keys, np.int64)
    code, crowd = np.empty(count, np.int64), np.empty(count, np.int32)
    with np.errstate(over="ignore"):
        encode_predicates(low, high, key_first, table, value, n_bounds, code, crowd)
    return Encoded(spaced_bounds(value, n_bounds), n_bounds, key_first, code, crowd)


def spaced_bounds(value: Floats, n_bounds: Longs) -> Bounds:
    """The bounds of keys, so many of each one after the other, as they are searched. Cost: linear."""
    first = np.zeros(len(n_bounds) + 1, np.int64)
    np.cumsum(LANES * -(-n_bounds // LANES), out=first[1:])
    n_places = int(first[-1])
    bounds = Bounds(first, np.full(n_places, np.nan), np.full(n_places // LANES + LANES, np.nan))
    space_bounds(value, n_bounds, bounds)
    return bounds


def has_codes(predicates: Records, n_keys: int) -> bool:
    """Whether packed predicates have codes for all of these and their keys. Cost: linear."""
    crowd = int(np.bincount(predicates["key"], minlength=1).max())
    return n_keys <= MOST_KEYS and crowd <= MOST_PREDICATES
