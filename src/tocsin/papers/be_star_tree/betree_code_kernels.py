"""Kernels that pack the predicates of a BE*-Tree and the values of an event, eight bytes each.

Codes are ranks among the bounds of a key, as in the access index. Bounds are those of the predicates in the
tree when they were last collected: a later predicate with other bounds gets the nearest codes outside. These
pass all values that satisfy it and perhaps more, and its expression is not decided *exactly*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Floats, Ints, Longs, Ops
from tocsin.indexes.matching.access.bound_kernels import PredicateBounds, count_at_most, count_below, is_bound
from tocsin.indexes.matching.access.layout_kernels import (
    GUARDS,
    KEY_BITS,
    pack_predicate,
    pack_value,
)
from tocsin.indexes.matching.layout import PRODUCT, Records
from tocsin.indexes.matching.score_kernels import add_term


class Codes(NamedTuple):
    """Packed predicates, and the bounds of their codes."""

    bounds: PredicateBounds
    #: int64 (predicates,): packed, parallel to the store's
    packed: Longs


@lean_kernel
def pack_expressions(
    predicates: Records,
    slots: Records,
    given: Ints,
    kind: Whole,
    codes: Codes,
    out_score: Floats,
    out_is_exact: Ops,
) -> None:
    """Pack the predicates of slots, and score these. Cost: linear, times the logarithm of a key's bounds."""
    bounds, packed = codes.bounds, codes.packed
    for number in range(given.shape[0]):
        start, count = np.int64(slots[given[number]]["start"]), np.int64(slots[given[number]]["count"])
        score, is_exact = 1.0 if kind == PRODUCT else 0.0, True
        for place in range(start, start + count):
            predicate = predicates[place]
            key, low, high = np.int64(predicate["key"]), predicate["low"], predicate["high"]
            score = add_term(score, predicate["weight"], np.int64(place - start), kind)
            if key >> KEY_BITS:
                # Key 0, which every event meets.
                packed[place] = GUARDS
                is_exact = False
                continue
            low_code = np.int64(count_at_most(bounds, key, low) - 1)
            high_code = count_below(bounds, key, high)
            packed[place] = pack_predicate(key, low_code, high_code)
            is_exact &= predicate["test"] < 0
            is_exact &= is_bound(bounds, key, low_code, low)
            is_exact &= is_bound(bounds, key, high_code, high)
        out_score[given[number]], out_is_exact[given[number]] = score, is_exact


@lean_kernel
def encode_value(bounds: PredicateBounds, key: Whole, low: float, high: float) -> np.int64:
    """The codes of an event's value. Cost: the logarithm of the key's bounds."""
    first = count_below(bounds, key, low)
    # A value equals one bound at most; a range may hold any number of them.
    last = first if is_bound(bounds, key, first, low) else first - 1
    if low < high:
        last = np.int64(count_at_most(bounds, key, high) - 1)
    return pack_value(first, last)
