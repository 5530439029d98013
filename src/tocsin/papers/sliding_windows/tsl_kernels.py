"""Kernels of TSL: score arriving rows for every query; refill short views by the threshold algorithm."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel, zero
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.papers.sliding_windows.tsl_columns import SumQueries, SumRows, SumScratch, SumViews


@lean_kernel
def max_view_size(k: int) -> int:
    """k_max, the capacity of a view: about one and a half times k, as the paper tunes it."""
    return k + k // 2 + 2


@lean_kernel
def insert_row(
    rows: Ints, keys: Floats, size: int, limit: int, born: Longs, tie_sign: int, row: int, key: float
) -> int:
    """Insert a row into a sorted view of at most `limit`; returns its new size."""
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


@lean_kernel
def find_value(ranked: Floats, n: int, value: float) -> int:
    """The index of the first of `n` sorted values that is not below `value`."""
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if ranked[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@lean_kernel
def merge_list(
    order: Ints,
    ranked: Floats,
    n: int,
    removed: Ints,
    gone_value: Floats,
    arrived: Ints,
    came_value: Floats,
    is_removing: Bools,
    out_order: Ints,
    out_ranked: Floats,
) -> int:
    """Merge arriving rows into a sorted list and drop leaving ones, both sorted by value; returns its length.

    Runs between them are copied. Cost: linear, with a small factor for rows that stay.
    """
    at = 0
    end = 0
    g = 0
    c = 0
    while g < len(removed) or c < len(arrived):
        is_coming = g == len(removed) or (c < len(arrived) and came_value[c] < gone_value[g])
        value = came_value[c] if is_coming else gone_value[g]
        stop = at + find_value(ranked[at:], n - at, value)
        for i in range(stop - at):
            out_order[end + i] = order[at + i]
            out_ranked[end + i] = ranked[at + i]
        end += stop - at
        at = stop
        if is_coming:
            out_order[end] = arrived[c]
            out_ranked[end] = value
            end += 1
            c += 1
            continue
        # Of equal values, some may stay.
        while at < n and ranked[at] == value:
            if is_removing[order[at]]:
                g += 1
            else:
                out_order[end] = order[at]
                out_ranked[end] = value
                end += 1
            at += 1
    for i in range(n - at):
        out_order[end + i] = order[at + i]
        out_ranked[end + i] = ranked[at + i]
    return end + n - at


@lean_kernel
def drop_rows(
    slots: Ints, list_row: Ints, list_key: Floats, size: Ints, is_removing: Bools, out_touched: Bools
) -> None:
    """Remove leaving rows from every view; mark the views that held one."""
    for i in range(len(slots)):
        slot = slots[i]
        rows = list_row[slot]
        keys = list_key[slot]
        kept = zero()
        for j in range(size[slot]):
            if not is_removing[rows[j]]:
                rows[kept] = rows[j]
                keys[kept] = keys[j]
                kept += 1
        out_touched[slot] = kept < size[slot]
        size[slot] = kept


@inlined
def score_queries(weight: Floats, x: Floats, begin: int, n: int, last: Floats, out_key: Floats) -> int:
    """Score a row for `n` queries from `begin` on; returns how many of them it reaches."""
    first = np.uint64(begin)
    for j in range(np.uint64(n)):
        out_key[j] = weight[0, first + j] * x[0]
    for t in range(1, len(x)):
        for j in range(np.uint64(n)):
            out_key[j] += weight[t, first + j] * x[t]
    n_hits = 0
    for j in range(np.uint64(n)):
        n_hits += 1 if out_key[j] >= last[first + j] else 0
    return n_hits


@lean_kernel
def add_rows(
    slots: Ints,
    queries: SumQueries,
    views: SumViews,
    table: SumRows,
    arrived: Ints,
    scratch: SumScratch,
    out_touched: Bools,
    out_short: Bools,
) -> None:
    """Score each arriving row for every query, insert it into the views it concerns; mark views below k."""
    k, weight, lo, hi = queries
    list_row, list_key, size, is_whole = views
    values, born, scored, tie_sign = table
    last, key, x = scratch
    n_slots, together = weight.shape[1], len(key)
    last[:] = np.inf
    for i in range(len(slots)):
        slot = slots[i]
        if is_whole[slot]:
            last[slot] = -np.inf
        elif size[slot] > 0:
            last[slot] = list_key[slot, size[slot] - 1]
    for a in range(len(arrived)):
        row = arrived[a]
        for t in range(len(scored)):
            x[t] = values[row, scored[t]]
        for begin in range(0, n_slots, together):
            n = min(together, n_slots - begin)
            if score_queries(weight, x, begin, n, last, key) == 0:
                continue
            for j in range(n):
                slot = begin + j
                if not key[j] >= last[slot] or (size[slot] == 0 and not is_whole[slot]):
                    continue
                is_inside = True
                for d in range(lo.shape[1]):
                    is_inside &= lo[slot, d] <= values[row, d] and values[row, d] <= hi[slot, d]
                if not is_inside:
                    continue
                rows = list_row[slot]
                keys = list_key[slot]
                kept = int(np.int64(size[slot]))
                exact = key[j] + 0.0
                tie = tie_sign * born[row]
                if not is_whole[slot] and exact == keys[kept - 1] and tie < tie_sign * born[rows[kept - 1]]:
                    continue
                size[slot] = insert_row(rows, keys, kept, max_view_size(k[slot]), born, tie_sign, row, exact)
                out_touched[slot] = True
                if size[slot] == kept:
                    # Some row was left out: from now on the last row bounds the view.
                    is_whole[slot] = False
                if not is_whole[slot]:
                    last[slot] = keys[size[slot] - 1]
    for i in range(len(slots)):
        slot = slots[i]
        out_short[slot] = size[slot] < k[slot] and not is_whole[slot]


@lean_kernel
def refill_views(
    slots: Ints,
    queries: SumQueries,
    views: SumViews,
    table: SumRows,
    order: Ints,
    ranked: Floats,
    n_rows: int,
    seen: Ints,
) -> None:
    """The threshold algorithm: descends all lists in turn, until no unseen row can be in the view."""
    k, weight, lo, hi = queries
    list_row, list_key, size, is_whole = views
    values, born, scored, tie_sign = table
    n_terms = len(scored)
    for i in range(len(slots)):
        slot = slots[i]
        rows = list_row[slot]
        keys = list_key[slot]
        limit = max_view_size(k[slot])
        kept = zero()
        n_inside = 0
        for depth in range(n_rows):
            threshold = 0.0
            for t in range(n_terms):
                w = weight[t, slot]
                at = n_rows - 1 - depth if w > 0.0 else depth
                if w != 0.0:
                    threshold += w * ranked[t, at]
                row = order[t, at]
                if seen[row] == i:
                    continue
                seen[row] = i
                key = weight[0, slot] * values[row, scored[0]]
                for s in range(1, n_terms):
                    key += weight[s, slot] * values[row, scored[s]]
                key += 0.0
                if kept == limit and not key >= keys[kept - 1]:
                    n_inside += 1
                    continue
                is_inside = key == key
                for d in range(lo.shape[1]):
                    is_inside &= lo[slot, d] <= values[row, d] and values[row, d] <= hi[slot, d]
                if is_inside:
                    n_inside += 1
                    kept = insert_row(rows, keys, kept, limit, born, tie_sign, row, key)
            if kept == limit and keys[kept - 1] > threshold:
                break
        size[slot] = kept
        is_whole[slot] = n_inside == kept and kept < limit
