"""Kernels that pack the predicates of a BE*-Tree and the values of an event, eight bytes each.

Codes are places among the bounds of a key, as in the access index. There are bounds for what was in the
tree when they were last collected: a later predicate whose bounds are not among them has the codes around
it. These let through all that satisfies it and perhaps more, and its expression is not *sure*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs, Ops
from tocsin.indexes.matching.access_layout_kernels import (
    GUARDS,
    KEY_BITS,
    pack_predicate,
    pack_value,
)
from tocsin.indexes.matching.bound_kernels import Bounds, count_at_most, count_below, is_bound
from tocsin.indexes.matching.common_kernels import PRODUCT, Records, add_term
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.names_kernels import Whole


class Codes(NamedTuple):
    """Packed predicates, and what their codes stand for."""

    bounds: Bounds
    #: int64 (predicates,): packed, in the places of the store's
    packed: Longs


@lean_kernel
def pack_expressions(
    predicates: Records,
    slots: Records,
    given: Ints,
    kind: Whole,
    codes: Codes,
    out_score: Floats,
    out_is_sure: Ops,
) -> None:
    """Pack the predicates of slots, and score these. Cost: linear, times the logarithm of a key's bounds."""
    bounds, packed = codes.bounds, codes.packed
    for number in range(given.shape[0]):
        start, count = np.int64(slots[given[number]]["start"]), np.int64(slots[given[number]]["count"])
        score, is_sure = 1.0 if kind == PRODUCT else 0.0, True
        for place in range(start, start + count):
            predicate = predicates[place]
            key, low, high = np.int64(predicate["key"]), predicate["low"], predicate["high"]
            score = add_term(score, predicate["weight"], np.int64(place - start), kind)
            if key >> KEY_BITS:
                # Key 0, which every event meets.
                packed[place] = GUARDS
                is_sure = False
                continue
            low_code = np.int64(count_at_most(bounds, key, low) - 1)
            high_code = count_below(bounds, key, high)
            packed[place] = pack_predicate(key, low_code, high_code)
            is_sure &= predicate["test"] < 0
            is_sure &= is_bound(bounds, key, low_code, low)
            is_sure &= is_bound(bounds, key, high_code, high)
        out_score[given[number]], out_is_sure[given[number]] = score, is_sure


@lean_kernel
def encode_value(bounds: Bounds, key: Whole, low: float, high: float) -> np.int64:
    """The codes of an event's value. Cost: the logarithm of the key's bounds."""
    first = count_below(bounds, key, low)
    # A value equals one bound at most; a range may hold any number of them.
    last = first if is_bound(bounds, key, first, low) else first - 1
    if low < high:
        last = np.int64(count_at_most(bounds, key, high) - 1)
    return pack_value(first, last)
