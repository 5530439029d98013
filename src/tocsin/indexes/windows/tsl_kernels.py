"""TSL: rows that come are scored for every query; short views are filled by the threshold algorithm."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.jit import kernel


@kernel
def zero() -> int:
    """Where a counter begins that is passed on: a literal 0 would make a signature of its own."""
    return int(np.int64(0))


@kernel
def most_rows(k: int) -> int:
    """k_max: how many rows a view holds at most. The paper's tuning is near one and a half times k."""
    return k + k // 2 + 2


@kernel
def put_in(
    rows: Ints, keys: Floats, size: int, limit: int, born: Longs, tie_sign: int, row: int, key: float
) -> int:
    """Put a row into a sorted view of at most `limit`; answers its new size."""
    tie = tie_sign * born[row]
    at = size
    while at > 0 and (key > keys[at - 1] or (key == keys[at - 1] and tie > tie_sign * born[rows[at - 1]])):
        if at < limit:
            rows[at] = rows[at - 1]
            keys[at] = keys[at - 1]
        at -= 1
    if at < limit:
        rows[at] = row
        keys[at] = key
        return min(size + 1, limit)
    return size


@kernel
def patch_views(
    slots: Ints,
    k: Longs,
    weight: Floats,
    lo: Floats,
    hi: Floats,
    list_row: Ints,
    list_key: Floats,
    size: Ints,
    is_whole: Bools,
    values: Floats,
    born: Longs,
    scored: Ints,
    came: Ints,
    is_going: Bools,
    tie_sign: int,
    out_short: Bools,
) -> None:
    """Bring every view up to date with the rows that come and go, and mark those that fall below k."""
    n_terms = len(scored)
    for i in range(len(slots)):
        slot = slots[i]
        rows = list_row[slot]
        keys = list_key[slot]
        limit = most_rows(k[slot])
        kept = zero()
        for j in range(size[slot]):
            if not is_going[rows[j]]:
                rows[kept] = rows[j]
                keys[kept] = keys[j]
                kept += 1
        is_open = is_whole[slot]
        last = -np.inf if is_open or kept == 0 else keys[kept - 1]
        if kept > 0 or is_open:
            for a in range(len(came)):
                row = came[a]
                key = weight[slot, 0] * values[row, scored[0]]
                for t in range(1, n_terms):
                    key += weight[slot, t] * values[row, scored[t]]
                key += 0.0
                if not key >= last:
                    continue
                is_inside = True
                for d in range(lo.shape[1]):
                    is_inside &= lo[slot, d] <= values[row, d] and values[row, d] <= hi[slot, d]
                if not is_inside:
                    continue
                tie = tie_sign * born[row]
                if not is_open and key == keys[kept - 1] and tie < tie_sign * born[rows[kept - 1]]:
                    continue
                before = kept
                kept = put_in(rows, keys, kept, limit, born, tie_sign, row, key)
                if kept == before:
                    # Some row was left out: from now on the last one bounds the view.
                    is_open = False
                if not is_open:
                    last = keys[kept - 1]
        size[slot] = kept
        is_whole[slot] = is_open
        out_short[slot] = kept < k[slot] and not is_open


@kernel
def refill_views(
    slots: Ints,
    k: Longs,
    weight: Floats,
    lo: Floats,
    hi: Floats,
    list_row: Ints,
    list_key: Floats,
    size: Ints,
    is_whole: Bools,
    values: Floats,
    born: Longs,
    scored: Ints,
    order: Ints,
    ranked: Floats,
    seen: Ints,
    tie_sign: int,
) -> None:
    """The threshold algorithm: down all lists in turn, until no row that was not seen can be in the view."""
    n_terms = len(scored)
    n_rows = order.shape[1]
    for i in range(len(slots)):
        slot = slots[i]
        rows = list_row[slot]
        keys = list_key[slot]
        limit = most_rows(k[slot])
        kept = zero()
        n_inside = 0
        for depth in range(n_rows):
            threshold = 0.0
            for t in range(n_terms):
                w = weight[slot, t]
                at = n_rows - 1 - depth if w > 0.0 else depth
                if w != 0.0:
                    threshold += w * ranked[t, at]
                row = order[t, at]
                if seen[row] == i:
                    continue
                seen[row] = i
                key = weight[slot, 0] * values[row, scored[0]]
                for s in range(1, n_terms):
                    key += weight[slot, s] * values[row, scored[s]]
                key += 0.0
                is_inside = key == key
                for d in range(lo.shape[1]):
                    is_inside &= lo[slot, d] <= values[row, d] and values[row, d] <= hi[slot, d]
                if is_inside:
                    n_inside += 1
                    kept = put_in(rows, keys, kept, limit, born, tie_sign, row, key)
            if kept == limit and keys[kept - 1] > threshold:
                break
        size[slot] = kept
        is_whole[slot] = n_inside == kept and kept < limit
