"""Kernels of lone ranges: conjunctions of one predicate, which its bounds alone decide.

The values of a key are cut into *stretches*, and each has a list of the ranges that meet it (the window
lists of Chazelle's "Filtering search", 1986). A stretch ends before its list outgrows what any value in it is
held by, to a factor of two; so the lists are linear in all, and a value reads one list, about half of which
holds it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.matching.access_report_kernels import Desk, place_rows
from tocsin.indexes.matching.common_kernels import (
    EVENT,
    KINDS,
    N_ROWS,
    N_RUNS,
    PRODUCT,
    TEXT,
    Best,
    EventColumns,
    IdOrder,
    Matches,
    Records,
    add_term,
    offer_match,
)
from tocsin.indexes.shared.jit import kernel, lean_kernel
from tocsin.indexes.shared.names_kernels import Whole

#: A list may always have so many ranges.
SHORT_LIST = 24
#: And this many times what any value of its stretch is held by.
SLACK = 2
#: Stretches that are no longer searched by halving.
WINDOW = 64
#: Place in `Matches.progress`, and what `match_lone` answers: as of the access index.
MISSING = 1
DONE = 0
DESK_FULL = 1
FULL = 2

#: A range in a list: its bounds, NaN once it has been terminated; its weight; whose it is.
LISTED = np.dtype(
    [("low", np.float64), ("high", np.float64), ("weight", np.float64), ("slot", np.int32)], align=True
)


class LoneColumns(NamedTuple):
    """Stretches by key, and their lists: each by weight, the greatest first, and then by slot."""

    #: int64 (keys + 1,): the first stretch of each key; a key without ranges has none
    first: Longs
    #: float64 (stretches + 1,): the least value of each, -inf of a key's first, and -inf; each ends before
    #: the next begins
    begin: Floats
    #: int64 (stretches + 1,): where its list begins
    starts: Longs
    #: LISTED: the lists, one after the other
    listed: Records


@kernel
def cut_stretches(key_first: Longs, low: Floats, end: Floats, out_first: Longs, out_begin: Floats) -> Whole:
    """Where the stretches of each key begin. Returns how many there are.

    Ranges come by key, from `key_first` on: of each key where they begin, in order, and the next values after
    them, in order. `out_begin` has room for one more a key than both have values.
    """
    n_stretches = np.int64(0)
    for key in range(key_first.shape[0] - 1):
        out_first[key] = n_stretches
        start, stop, beyond = key_first[key], key_first[key], key_first[key + 1]
        if start == beyond:
            continue
        out_begin[n_stretches] = -np.inf
        n_stretches += 1
        # How many hold a value here; the least of that in this stretch; the ranges of its list.
        n_held, least, n_listed = np.int64(0), np.int64(0), np.int64(0)
        while start < beyond or end[stop] < np.inf:
            value, n_before = end[stop], start
            if start < beyond:
                value = min(value, low[start])
            while start < beyond and low[start] == value:
                start += 1
            n_held += start - n_before
            # One that ends at the end of all values never does.
            while end[stop] == value and value < np.inf:
                stop += 1
                n_held -= 1
                if stop == beyond:
                    break
            least, n_listed = min(least, n_held), n_listed + start - n_before
            if n_listed > max(SHORT_LIST, SLACK * least) and value > out_begin[n_stretches - 1]:
                out_begin[n_stretches] = value
                n_stretches += 1
                least = n_listed = n_held
            if stop == beyond:
                break
    out_first[key_first.shape[0] - 1] = n_stretches
    return n_stretches


@lean_kernel
def stretch_of(part: LoneColumns, key: Whole, value: float) -> Whole:
    """The stretch that a value of a key, which has some, is in: the last that begins at or before it."""
    begin, first, n_before = part.begin, np.int64(part.first[key]), np.int64(0)
    length = part.first[key + 1] - first
    while length > WINDOW:
        half = length >> 1
        first = first + half if begin[first + half - 1] <= value else first
        length -= half
    # So few are counted without a branch.
    for place in range(np.uint64(first), np.uint64(first + length)):
        n_before += np.int64(begin[place] <= value)
    return np.int64(first + n_before - 1)


@kernel
def count_listed(part: LoneColumns, ranges: Records) -> None:
    """Lay out the lists of ranges, which may be unsatisfiable."""
    starts = part.starts
    starts[:] = 0
    for number in range(ranges.shape[0]):
        key, low, high = np.int64(ranges[number]["key"]), ranges[number]["low"], ranges[number]["high"]
        if low <= high:
            for stretch in range(stretch_of(part, key, low), stretch_of(part, key, high) + 1):
                starts[stretch + 1] += 1
    for stretch in range(1, starts.shape[0]):
        starts[stretch] += starts[stretch - 1]


@kernel
def fill_lists(part: LoneColumns, ranges: Records, slots: Ints) -> None:
    """Write ranges into the lists of all stretches that they meet, in their order."""
    starts, listed = part.starts, part.listed
    for number in range(ranges.shape[0]):
        key, low, high = np.int64(ranges[number]["key"]), ranges[number]["low"], ranges[number]["high"]
        if low <= high:
            for stretch in range(stretch_of(part, key, low), stretch_of(part, key, high) + 1):
                one = listed[starts[stretch]]
                one["low"], one["high"] = low, high
                one["weight"], one["slot"] = ranges[number]["weight"], slots[number]
                starts[stretch] += 1
    # Each has moved to where the next one begins.
    for stretch in range(starts.shape[0] - 1, 0, -1):
        starts[stretch] = starts[stretch - 1]
    starts[0] = 0


@kernel
def strike_ranges(part: LoneColumns, ranges: Records, slots: Ints) -> None:
    """Have nothing meet these ranges any more. Cost: the lists that they are in, times their logarithm."""
    listed = part.listed
    for number in range(ranges.shape[0]):
        key, low, high = np.int64(ranges[number]["key"]), ranges[number]["low"], ranges[number]["high"]
        if not low <= high:
            continue
        weight, slot = ranges[number]["weight"], slots[number]
        for stretch in range(stretch_of(part, key, low), stretch_of(part, key, high) + 1):
            place, beyond = part.starts[stretch], part.starts[stretch + 1]
            while place + 1 < beyond:
                middle = (place + beyond) >> 1
                one = listed[middle]
                is_behind = one["weight"] < weight or (one["weight"] == weight and one["slot"] > slot)
                place, beyond = (place, middle) if is_behind else (middle, beyond)
            listed[place]["low"] = np.nan


@lean_kernel
def locate_values(
    part: LoneColumns, events: EventColumns, begin: Whole, end: Whole, out_stretch: Ints
) -> None:
    """The stretch that each entry of some events begins in, -1 where no range may hold it."""
    for entry in range(events.offsets[begin], events.offsets[end]):
        known, of = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
        out_stretch[entry] = -1
        # Bounds alone do not decide about texts.
        if known >= 0 and of != TEXT and events.low[entry] <= events.high[entry]:
            key = KINDS * known + of
            if part.first[key] < part.first[key + 1]:
                out_stretch[entry] = stretch_of(part, key, events.low[entry])


@lean_kernel
def offer_ranges(
    part: LoneColumns,
    events: EventColumns,
    begin: int,
    end: int,
    stretches: Ints,
    kind: int,
    best: Best,
    ids: IdOrder,
) -> None:
    """Offer the matches of events to their heaps, as long as they may be among the best."""
    begins, starts, listed, top = part.begin, part.starts, part.listed, best.slot.shape[1]
    neutral = 1.0 if kind == PRODUCT else 0.0
    for event in range(begin, end):
        heap = np.int64(event - begin)
        for entry in range(events.offsets[event], events.offsets[event + 1]):
            low, high, weight = events.low[entry], events.high[entry], events.weight[entry]
            stretch, since, is_left = np.int64(stretches[entry]), -np.inf, stretches[entry] >= 0
            while is_left:
                for number in range(np.uint64(starts[stretch]), np.uint64(starts[stretch + 1])):
                    one = listed[number]
                    if since <= one["low"] <= high and low <= one["high"]:
                        score = add_term(neutral, one["weight"] * weight, np.int64(0), kind)
                        if weight >= 0.0 and best.size[heap] == top and score < best.score[heap, 0]:
                            break
                        offer_match(best, heap, np.int64(one["slot"]), score, ids)
                # What begins before a further stretch has been met already.
                stretch += 1
                since = begins[stretch]
                is_left = low < since <= high


@lean_kernel
def write_ranges(
    part: LoneColumns, events: EventColumns, end: int, stretches: Ints, kind: int, desk: Desk, out: Matches
) -> int:
    """Write all matches of events, a run by slot for each. DESK_FULL, FULL: as `match_lone`."""
    # One nest of loops over local names: functions in it, and columns looked up in it, would cost more than
    # what they do. Unsigned indexes: a signed one may be negative, which costs a check at each use.
    begins, starts, listed, offsets = part.begin, part.starts, part.listed, events.offsets
    lows, highs, weights, progress = events.low, events.high, events.weight, out.progress
    slots, scores, room = out.subscription, out.score, np.uint64(out.subscription.shape[0])
    neutral, base = 1.0 if kind == PRODUCT else 0.0, np.uint64(progress[N_ROWS])
    for event in range(progress[EVENT], end):
        progress[EVENT] = event
        row = base
        for entry in range(np.uint64(offsets[event]), np.uint64(offsets[event + 1])):
            first, low, high, weight = stretches[entry], lows[entry], highs[entry], weights[entry]
            if first < 0:
                continue
            stretch, since, is_left = np.uint64(first), -np.inf, True
            while is_left:
                place, last = np.uint64(starts[stretch]), np.uint64(starts[stretch + np.uint64(1)])
                if row + (last - place) > room:
                    progress[MISSING] = row + (last - place)
                    return FULL
                for number in range(place, last):
                    # Always written, kept if it counts: which ones do cannot be predicted.
                    one = listed[number]
                    slots[row] = one["slot"]
                    scores[row] = add_term(neutral, one["weight"] * weight, np.int64(0), kind)
                    row += np.uint64((since <= one["low"]) & (one["low"] <= high) & (low <= one["high"]))
                # What begins before a further stretch has been met already.
                stretch += np.uint64(1)
                since = begins[stretch]
                is_left = low < since <= high
        is_sorted = True
        for number in range(base + np.uint64(1), row):
            is_sorted &= slots[number - np.uint64(1)] < slots[number]
        if not is_sorted:
            size = np.int64(row - base)
            if size > desk.slot.shape[0]:
                progress[MISSING] = size
                return DESK_FULL
            for number in range(np.uint64(size)):
                desk.slot[number], desk.score[number] = slots[base + number], scores[base + number]
            place_rows(desk, np.int64(0), size, np.int64(base), slots, scores)
        if row > base:
            out.step[progress[N_RUNS]], out.rank[progress[N_RUNS]] = event, base
            progress[N_RUNS] += 1
            progress[N_ROWS] = base = row
    progress[EVENT] = end
    return DONE


@lean_kernel
def match_lone(
    part: LoneColumns,
    events: EventColumns,
    begin: int,
    end: int,
    kind: int,
    stretches: Ints,
    best: Best,
    ids: IdOrder,
    desk: Desk,
    out: Matches,
) -> int:
    """All matches of some events, a run by slot for each; or their best into `best`, as of the access index.

    `stretches` is (entries,): where values are found. DESK_FULL, FULL: let the desk or `out` have the rows
    that are MISSING, and call again.
    """
    if out.progress[EVENT] == begin:
        locate_values(part, events, begin, end, stretches)
    if best.slot.shape[1] == 0:
        return write_ranges(part, events, end, stretches, kind, desk, out)
    offer_ranges(part, events, begin, end, stretches, kind, best, ids)
    return DONE
