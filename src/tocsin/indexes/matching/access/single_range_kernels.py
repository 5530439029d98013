"""Kernels of single ranges: conjunctions of one predicate, decided by its bounds alone.

The values of a key are cut into *intervals*, and each has a list of the ranges that meet it (the window
lists of Chazelle's "Filtering search", 1986). An interval ends before its list exceeds twice the number of
ranges that contain any one of its values. So all lists together are linear, and a value reads one list, about
half of which contains it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.matching.layout import (
    EVENT,
    KINDS,
    N_ROWS,
    N_RUNS,
    PRODUCT,
    TEXT,
    EventColumns,
    IdOrder,
    Matches,
    MatchHeaps,
    Records,
)
from tocsin.indexes.matching.report_kernels import MatchSortBuffer, place_rows
from tocsin.indexes.matching.score_kernels import add_term, offer_match
from tocsin.kernels.status import DONE, FULL, SORT_FULL

#: A list may have this many ranges in any case.
SHORT_LIST = 24
#: And this many times the ranges that contain any value of its interval.
SLACK = 2
#: Up to this many intervals are compared one by one, without binary search.
LINEAR_SEARCH = 64
#: Place in `Matches.progress`, as in the access index.
ROWS_NEEDED = 1

#: A range in a list: its bounds, NaN once terminated; its weight; its slot.
LISTED = np.dtype(
    [("low", np.float64), ("high", np.float64), ("weight", np.float64), ("slot", np.int32)], align=True
)


class SingleRangeColumns(NamedTuple):
    """Intervals by key, and their lists: each by descending weight, then by slot."""

    #: the first interval of each key; a key without ranges has none
    first: Annotated[Longs, Column(Size("keys", plus=1))]
    #: the least value of each, -inf for a key's first, and -inf; each ends before
    #: the next begins
    begin: Annotated[Floats, Column(Size("intervals", plus=1))]
    #: where its list begins
    starts: Annotated[Longs, Column(Size("intervals", plus=1))]
    #: the lists, one after the other
    listed: Annotated[Records, Column("listed", dtype=LISTED)]


@kernel
def cut_intervals(key_first: Longs, low: Floats, end: Floats, out_first: Longs, out_begin: Floats) -> Whole:
    """Where the intervals of each key begin. Returns their number.

    Ranges come by key, from `key_first` on: `low` has their beginnings, ascending, and `end` the next values
    after their ends, ascending. `out_begin` has capacity for both and one more for each key.
    """
    n_intervals = np.int64(0)
    for key in range(key_first.shape[0] - 1):
        out_first[key] = n_intervals
        start, stop, beyond = key_first[key], key_first[key], key_first[key + 1]
        if start == beyond:
            continue
        out_begin[n_intervals] = -np.inf
        n_intervals += 1
        # Ranges that contain the current value; the least of that in this interval; the length of its list.
        n_containing, least, n_listed = np.int64(0), np.int64(0), np.int64(0)
        while start < beyond or end[stop] < np.inf:
            value, n_before = end[stop], start
            if start < beyond:
                value = min(value, low[start])
            while start < beyond and low[start] == value:
                start += 1
            n_containing += start - n_before
            # A range up to the largest value never ends.
            while end[stop] == value and value < np.inf:
                stop += 1
                n_containing -= 1
                if stop == beyond:
                    break
            least, n_listed = min(least, n_containing), n_listed + start - n_before
            if n_listed > max(SHORT_LIST, SLACK * least) and value > out_begin[n_intervals - 1]:
                out_begin[n_intervals] = value
                n_intervals += 1
                least = n_listed = n_containing
            if stop == beyond:
                break
    out_first[key_first.shape[0] - 1] = n_intervals
    return n_intervals


@lean_kernel
def find_interval(segment: SingleRangeColumns, key: Whole, value: float) -> Whole:
    """The interval that contains a value of a key that has ranges: the last that begins at or before it."""
    begin, first, n_before = segment.begin, np.int64(segment.first[key]), np.int64(0)
    length = segment.first[key + 1] - first
    while length > LINEAR_SEARCH:
        half = length >> 1
        first = first + half if begin[first + half - 1] <= value else first
        length -= half
    # A branch-free count.
    for place in range(np.uint64(first), np.uint64(first + length)):
        n_before += np.int64(begin[place] <= value)
    return np.int64(first + n_before - 1)


@kernel
def count_listed(segment: SingleRangeColumns, ranges: Records) -> None:
    """Assign places to the lists of ranges, which may be unsatisfiable."""
    starts = segment.starts
    starts[:] = 0
    for number in range(ranges.shape[0]):
        key, low, high = np.int64(ranges[number]["key"]), ranges[number]["low"], ranges[number]["high"]
        if low <= high:
            for interval in range(find_interval(segment, key, low), find_interval(segment, key, high) + 1):
                starts[interval + 1] += 1
    for interval in range(1, starts.shape[0]):
        starts[interval] += starts[interval - 1]


@kernel
def fill_lists(segment: SingleRangeColumns, ranges: Records, slots: Ints) -> None:
    """Write ranges, in their order, into the lists of all intervals that they meet."""
    starts, listed = segment.starts, segment.listed
    for number in range(ranges.shape[0]):
        key, low, high = np.int64(ranges[number]["key"]), ranges[number]["low"], ranges[number]["high"]
        if low <= high:
            for interval in range(find_interval(segment, key, low), find_interval(segment, key, high) + 1):
                one = listed[starts[interval]]
                one["low"], one["high"] = low, high
                one["weight"], one["slot"] = ranges[number]["weight"], slots[number]
                starts[interval] += 1
    # Each start has advanced to the next one.
    for interval in range(starts.shape[0] - 1, 0, -1):
        starts[interval] = starts[interval - 1]
    starts[0] = 0


@kernel
def delete_ranges(segment: SingleRangeColumns, ranges: Records, slots: Ints) -> None:
    """Delete ranges: no value meets them. Cost: the lists that they are in, times their logarithm."""
    listed = segment.listed
    for number in range(ranges.shape[0]):
        key, low, high = np.int64(ranges[number]["key"]), ranges[number]["low"], ranges[number]["high"]
        if not low <= high:
            continue
        weight, slot = ranges[number]["weight"], slots[number]
        for interval in range(find_interval(segment, key, low), find_interval(segment, key, high) + 1):
            place, beyond = segment.starts[interval], segment.starts[interval + 1]
            while place + 1 < beyond:
                middle = (place + beyond) >> 1
                one = listed[middle]
                is_behind = one["weight"] < weight or (one["weight"] == weight and one["slot"] > slot)
                place, beyond = (place, middle) if is_behind else (middle, beyond)
            listed[place]["low"] = np.nan


@lean_kernel
def locate_values(
    segment: SingleRangeColumns, events: EventColumns, begin: Whole, end: Whole, out_interval: Ints
) -> None:
    """The interval in which each entry of some events begins, -1 if no range can contain it."""
    for entry in range(events.offsets[begin], events.offsets[end]):
        known, of = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
        out_interval[entry] = -1
        # Bounds alone do not decide texts.
        if known >= 0 and of != TEXT and events.low[entry] <= events.high[entry]:
            key = KINDS * known + of
            if segment.first[key] < segment.first[key + 1]:
                out_interval[entry] = find_interval(segment, key, events.low[entry])


@lean_kernel
def offer_ranges(
    segment: SingleRangeColumns,
    events: EventColumns,
    begin: int,
    end: int,
    intervals: Ints,
    kind: int,
    best: MatchHeaps,
    ids: IdOrder,
) -> None:
    """Offer the matches of events to their heaps, while they can be among the best."""
    begins, starts, listed, top = segment.begin, segment.starts, segment.listed, best.slot.shape[1]
    neutral = 1.0 if kind == PRODUCT else 0.0
    for event in range(begin, end):
        heap = np.int64(event - begin)
        for entry in range(events.offsets[event], events.offsets[event + 1]):
            low, high, weight = events.low[entry], events.high[entry], events.weight[entry]
            interval, since, is_left = np.int64(intervals[entry]), -np.inf, intervals[entry] >= 0
            while is_left:
                for number in range(np.uint64(starts[interval]), np.uint64(starts[interval + 1])):
                    one = listed[number]
                    if since <= one["low"] <= high and low <= one["high"]:
                        score = add_term(neutral, one["weight"] * weight, np.int64(0), kind)
                        if weight >= 0.0 and best.size[heap] == top and score < best.score[heap, 0]:
                            break
                        offer_match(best, heap, np.int64(one["slot"]), score, ids)
                # Ranges that begin before a further interval have been met already.
                interval += 1
                since = begins[interval]
                is_left = low < since <= high


@lean_kernel
def write_ranges(
    segment: SingleRangeColumns,
    events: EventColumns,
    end: int,
    intervals: Ints,
    kind: int,
    sort_buffer: MatchSortBuffer,
    out: Matches,
) -> int:
    """Write all matches of events, one run by slot for each. SORT_FULL, FULL: as `match_single_ranges`."""
    # One nest of loops over local names: calls in it, and columns looked up in it, would cost more than what
    # they do. Unsigned indexes: a signed one may be negative, which costs a check at each use.
    begins, starts, listed, offsets = segment.begin, segment.starts, segment.listed, events.offsets
    lows, highs, weights, progress = events.low, events.high, events.weight, out.progress
    slots, scores, capacity = out.subscription, out.score, np.uint64(out.subscription.shape[0])
    neutral, base = 1.0 if kind == PRODUCT else 0.0, np.uint64(progress[N_ROWS])
    for event in range(progress[EVENT], end):
        progress[EVENT] = event
        row = base
        for entry in range(np.uint64(offsets[event]), np.uint64(offsets[event + 1])):
            first, low, high, weight = intervals[entry], lows[entry], highs[entry], weights[entry]
            if first < 0:
                continue
            interval, since, is_left = np.uint64(first), -np.inf, True
            while is_left:
                place, last = np.uint64(starts[interval]), np.uint64(starts[interval + np.uint64(1)])
                if row + (last - place) > capacity:
                    progress[ROWS_NEEDED] = row + (last - place)
                    return FULL
                for number in range(place, last):
                    # Always written, kept if it counts: a branch here could not be predicted.
                    one = listed[number]
                    slots[row] = one["slot"]
                    scores[row] = add_term(neutral, one["weight"] * weight, np.int64(0), kind)
                    row += np.uint64((since <= one["low"]) & (one["low"] <= high) & (low <= one["high"]))
                # Ranges that begin before a further interval have been met already.
                interval += np.uint64(1)
                since = begins[interval]
                is_left = low < since <= high
        is_sorted = True
        for number in range(base + np.uint64(1), row):
            is_sorted &= slots[number - np.uint64(1)] < slots[number]
        if not is_sorted:
            size = np.int64(row - base)
            if size > sort_buffer.slot.shape[0]:
                progress[ROWS_NEEDED] = size
                return SORT_FULL
            for number in range(np.uint64(size)):
                sort_buffer.slot[number], sort_buffer.score[number] = (
                    slots[base + number],
                    scores[base + number],
                )
            place_rows(sort_buffer, np.int64(0), size, np.int64(base), slots, scores)
        if row > base:
            out.step[progress[N_RUNS]], out.rank[progress[N_RUNS]] = event, base
            progress[N_RUNS] += 1
            progress[N_ROWS] = base = row
    progress[EVENT] = end
    return DONE


@lean_kernel
def match_single_ranges(
    segment: SingleRangeColumns,
    events: EventColumns,
    begin: int,
    end: int,
    kind: int,
    intervals: Ints,
    best: MatchHeaps,
    ids: IdOrder,
    sort_buffer: MatchSortBuffer,
    out: Matches,
) -> int:
    """All matches of some events, one run by slot for each; or their best, as in the access index.

    `intervals` is (entries,): scratch. SORT_FULL, FULL: give the sort buffer or `out` ROWS_NEEDED rows, and
    call again.
    """
    if out.progress[EVENT] == begin:
        locate_values(segment, events, begin, end, intervals)
    if best.slot.shape[1] == 0:
        return write_ranges(segment, events, end, intervals, kind, sort_buffer, out)
    offer_ranges(segment, events, begin, end, intervals, kind, best, ids)
    return DONE
