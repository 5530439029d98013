"""The different bounds of each key's predicates, by which predicates are packed."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.matching.access_build_kernels import Table, encode_predicates, group_bounds
from tocsin.indexes.matching.access_layout_kernels import KEY_BITS, NEVER, Bounds
from tocsin.indexes.matching.common_kernels import Records

#: No more predicates of a key, of two bounds each, and no more keys than packed predicates have codes for.
MOST_PREDICATES = NEVER // 2 - 1
MOST_KEYS = 1 << KEY_BITS


def encoded_by_key(predicates: Records, n_keys: int) -> tuple[Bounds, Longs, Longs, Ints]:
    """The bounds of each key; where its predicates begin; these packed; and how many others each overlaps.

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
    bounds = Bounds(np.empty(n_keys + 1, np.int64), np.empty(2 * count))
    code, crowd = np.empty(count, np.int64), np.empty(count, np.int32)
    with np.errstate(over="ignore"):
        encode_predicates(low, high, key_first, table, bounds, code, crowd)
    return bounds._replace(value=bounds.value[: bounds.first[-1]].copy()), key_first, code, crowd


def has_codes(predicates: Records, n_keys: int) -> bool:
    """Whether packed predicates have codes for all of these and their keys. Cost: linear."""
    crowd = int(np.bincount(predicates["key"], minlength=1).max())
    return n_keys <= MOST_KEYS and crowd <= MOST_PREDICATES
