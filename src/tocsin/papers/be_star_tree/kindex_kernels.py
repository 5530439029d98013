"""Kernels of the inverted indexes: counting, and the conjunction algorithm of the k-index.

The distinct bounds of a key are cut into cells: one for each bound, and one for each gap between two. The
cells of a key are the leaves of a segment tree, and the range of a predicate is a union of a few of its
*segments*. Each segment has a posting list of the expressions whose ranges contain it; a value lies in one
segment of each height, and an expression is in at most one of their lists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.jit import kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.common_kernels import count_below, passes_test, read_prefix
from tocsin.indexes.matching.layout import (
    EVENT,
    KINDS,
    N_ROWS,
    N_RUNS,
    PRODUCT,
    SUM,
    TEXT,
    EventColumns,
    IdOrder,
    Matches,
    MatchHeaps,
    Records,
    Value,
)
from tocsin.indexes.matching.scan.scan_kernels import MatchColumns
from tocsin.indexes.matching.score_kernels import add_term, offer_match, report_best

#: In place of the size of an expression that no event can satisfy.
NEVER = -1
#: Scores round in another order than their bounds: this factor always covers the difference.
ROUNDING = 1.0 + 1e-9


class Postings(NamedTuple):
    """Expressions by number: those of fewer keys first, and similar ones together."""

    #: int32 and uint8 (expressions,): the slot; its number of distinct keys
    slot: Ints
    size: Bytes
    #: bool (expressions,): it matches if all its keys hold
    is_plain: NDArray[np.bool_]
    #: float64 (expressions,): its score if all weights of an event are 1
    score: Floats
    #: float64 (keys + 1,) and float64: where the bounds of each key begin, and the bounds
    bound_first: Longs
    bound: Floats
    #: int64 (keys + 1,): the first segment of each key; a key of n cells has 2 n of them, its root being 1
    segment_first: Longs
    #: int64 (segments + 1,), int32: where the posting list of each segment begins, and all lists
    first: Longs
    number: Ints
    #: float64 (segments,): the greatest weight that an expression of the list puts on the key
    weight: Floats
    #: int32 (sizes + 1,): the first expression of each size
    size_first: Ints


class Counter(NamedTuple):
    """Counters of kernels, and one event expanded by key."""

    #: uint8 (expressions,): keys of an expression that do not hold yet
    n_left: Bytes
    #: int32 (expressions,): the key counted last, if an event has ranges
    last: Ints
    #: float64 (keys,): the value, NaN without one; its weight; int64 (keys,): the entry
    low: Floats
    high: Floats
    weight: Floats
    entry: Longs
    keys: Ints
    #: int64 and float64 (lists,): the cursor and end of each posting list, and the most that it adds
    here: Longs
    end: Longs
    most: Floats
    #: int32 and float64 (expressions,): candidates, and upper bounds of their scores
    found: Ints
    found_most: Floats


@kernel
def cells_of(bounds: Floats, begin: Whole, end: Whole, low: float, high: float) -> tuple[Whole, Whole]:
    """The first and the last cell that a range meets: odd ones are bounds, even ones lie between."""
    first, last = count_below(bounds, begin, end, low), count_below(bounds, begin, end, high)
    is_low, is_high = begin + first < end and bounds[begin + first] == low, False
    if begin + last < end:
        is_high = bounds[begin + last] == high
    return 2 * first + np.int64(is_low), 2 * last + np.int64(is_high)


@kernel
def measure_expressions(
    slots: Records, predicates: Records, chosen: Longs, out_size: Ints, out_least: Ints, out_low: Floats
) -> None:
    """Each chosen slot's number of distinct keys, or NEVER; its least key, and the beginning of its range.

    If several predicates are on that key, the range is that of the first.
    """
    for number in range(chosen.shape[0]):
        start, count = np.int64(slots[chosen[number]]["start"]), np.int64(slots[chosen[number]]["count"])
        size, least, low, is_never = 0, np.int64(-1), 0.0, False
        for place in range(start, start + count):
            key, is_first = np.int64(predicates[place]["key"]), True
            for before in range(start, place):
                is_first &= predicates[before]["key"] != key
            size += int(is_first)
            is_never |= np.isnan(predicates[place]["low"])
            if least < 0 or key < least:
                least, low = key, predicates[place]["low"]
        out_size[number], out_least[number], out_low[number] = NEVER if is_never else size, least, low


@kernel
def post_expressions(
    slots: Records, predicates: Records, postings: Postings, is_counting: bool, out_next: Longs
) -> None:
    """Count the postings of each segment, or write them at `out_next`."""
    bound_first, segment_first = postings.bound_first, postings.segment_first
    # Earlier ones are compared with every event.
    for number in range(postings.size_first[1], postings.slot.shape[0]):
        start = np.int64(slots[postings.slot[number]]["start"])
        for place in range(start, start + slots[postings.slot[number]]["count"]):
            key, is_first = np.int64(predicates[place]["key"]), True
            for before in range(start, place):
                is_first &= predicates[before]["key"] != key
            if not is_first:
                continue
            first, last = cells_of(
                postings.bound,
                bound_first[key],
                bound_first[key + 1],
                predicates[place]["low"],
                predicates[place]["high"],
            )
            weight = 0.0
            for other in range(place, start + slots[postings.slot[number]]["count"]):
                if predicates[other]["key"] == key:
                    weight += max(predicates[other]["weight"], 0.0)
            n_cells = (segment_first[key + 1] - segment_first[key]) // 2
            # The segments of a range, from both ends towards the root.
            left, right = first + n_cells, last + n_cells + 1
            while left < right:
                for is_taken, segment in ((left % 2 == 1, left), (right % 2 == 1, right - 1)):
                    if is_taken:
                        at = segment_first[key] + segment
                        if not is_counting:
                            postings.number[out_next[at]] = number
                            postings.weight[at] = max(postings.weight[at], weight)
                        out_next[at] += 1
                left, right = (left + 1) // 2, right // 2


@kernel
def score_expressions(slots: Records, predicates: Records, postings: Postings, kind: Whole) -> None:
    """Compute which expressions are plain, and their scores."""
    for number in range(postings.slot.shape[0]):
        slot = slots[postings.slot[number]]
        start, count = np.int64(slot["start"]), np.int64(slot["count"])
        is_plain = count > 0 and postings.size[number] == count
        score = 1.0 if kind == PRODUCT else 0.0
        for place in range(start, start + count):
            is_plain &= predicates[place]["test"] < 0
            score = add_term(score, predicates[place]["weight"], place - start, kind)
        postings.is_plain[number], postings.score[number] = is_plain, score


@kernel
def expand_event(events: EventColumns, event: Whole, counter: Counter) -> tuple[int, bool, bool, bool]:
    """Expand an event by key. Returns its keys; is no weight negative, is each 1, is no value a range."""
    n_keys, is_bounded, is_unweighted, is_point = 0, True, True, True
    for entry in range(events.offsets[event], events.offsets[event + 1]):
        known, kind = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
        low, high = events.low[entry], events.high[entry]
        if known < 0 or not low <= high:
            continue
        if kind == TEXT:
            low = read_prefix(events.heap, events.text_start[entry], np.int64(events.text_length[entry]))
            high = low
        key = KINDS * known + kind
        counter.low[key], counter.high[key] = low, high
        counter.weight[key], counter.entry[key] = events.weight[entry], entry
        is_bounded &= events.weight[entry] >= 0.0
        is_unweighted &= events.weight[entry] == 1.0
        is_point &= low == high
        counter.keys[n_keys] = key
        n_keys += 1
    return n_keys, is_bounded, is_unweighted, is_point


@kernel
def confirm_candidates(
    postings: Postings,
    columns: MatchColumns,
    events: EventColumns,
    counter: Counter,
    n_found: int,
    is_unweighted: bool,
    kind: Whole,
    best: MatchHeaps,
    ids: IdOrder,
    out: Matches,
) -> None:
    """Compare candidates with their predicates; matches go into the heap, or into the next rows.

    A plain one is a match, and if all weights are 1, its score is known.
    """
    slots, predicates, found, slot_of = columns.slots, columns.predicates, counter.found, postings.slot
    lows, highs, weights, scores, is_plain = (
        counter.low,
        counter.high,
        counter.weight,
        postings.score,
        postings.is_plain,
    )
    top, row, out_slot, out_score = best.slot.shape[1], out.progress[N_ROWS], out.subscription, out.score
    for place in range(n_found):
        if top > 0 and best.size[0] == top and counter.found_most[place] < best.score[0, 0]:
            continue
        slot, is_match = np.int64(slot_of[found[place]]), True
        start, count = np.int64(0), np.int64(0)
        score = scores[found[place]]
        if not (is_unweighted and is_plain[found[place]]):
            start, count = np.int64(slots[slot]["start"]), np.int64(slots[slot]["count"])
            score = 1.0 if kind == PRODUCT else 0.0
        for number in range(count):
            predicate = predicates[start + number]
            key = np.int64(predicate["key"])
            low, high = lows[key], highs[key]
            is_match = low <= predicate["high"] and predicate["low"] <= high
            if is_match and predicate["test"] >= 0:
                entry = counter.entry[key]
                length = np.int64(events.text_length[entry])
                value = Value(low, high, events.text_start[entry], length, events.heap)
                is_match = passes_test(
                    columns.tests[predicate["test"]], value, columns.operands, columns.heap
                )
            if not is_match:
                break
            score = add_term(score, predicate["weight"] * weights[key], number, kind)
        if is_match and top > 0:
            offer_match(best, np.int64(0), slot, score, ids)
        elif is_match:
            out_slot[row], out_score[row] = slot, score
            row += 1
    out.progress[N_ROWS] = row


@kernel
def count_event(postings: Postings, counter: Counter, n_keys: int, is_point: bool, n_found: int) -> int:
    """Count down each expression's keys as they hold; those that reach 0 become candidates.

    Returns the number of candidates, including `n_found` earlier ones.
    """
    left, last, found = counter.n_left, counter.last, counter.found
    lists, number_of, size_first = postings.first, postings.number, postings.size_first
    # Expressions of equal size are contiguous: sizes need not be read.
    for size in range(size_first.shape[0] - 1):
        for expression in range(np.uint64(size_first[size]), np.uint64(size_first[size + 1])):
            left[expression] = size
    if not is_point:
        last[:] = -1
    for place in range(n_keys):
        key = np.int64(counter.keys[place])
        begin, end = postings.bound_first[key], postings.bound_first[key + 1]
        first, until = cells_of(postings.bound, begin, end, counter.low[key], counter.high[key])
        base = postings.segment_first[key]
        n_cells = (postings.segment_first[key + 1] - base) // 2
        begin_at, end_at = first + n_cells, until + n_cells
        while begin_at > 0 and n_cells > 0:
            for segment in range(begin_at, end_at + 1):
                for at in range(np.uint64(lists[base + segment]), np.uint64(lists[base + segment + 1])):
                    number = np.uint32(number_of[at])
                    if not is_point:
                        # A range may meet several segments of one expression.
                        if last[number] == key:
                            continue
                        last[number] = key
                    # Counting down: the number required is not looked up for each key.
                    rest = np.uint8(left[number] - np.uint8(1))
                    left[number] = rest
                    if rest == 0:
                        found[n_found] = number
                        n_found += 1
            begin_at, end_at = begin_at // 2, end_at // 2
    return int(n_found)


@kernel
def open_lists(postings: Postings, counter: Counter, n_keys: int, size: int) -> int:
    """The posting lists of an event of plain values, restricted to expressions of one size."""
    n_lists, first, last = 0, postings.size_first[size], postings.size_first[size + 1]
    for place in range(n_keys):
        key = np.int64(counter.keys[place])
        begin, end = postings.bound_first[key], postings.bound_first[key + 1]
        cell, _ = cells_of(postings.bound, begin, end, counter.low[key], counter.high[key])
        base = postings.segment_first[key]
        segment = cell + (postings.segment_first[key + 1] - base) // 2
        while segment > 0 and postings.segment_first[key + 1] > base:
            here, until = postings.first[base + segment], postings.first[base + segment + 1]
            here += np.searchsorted(postings.number[here:until], first)
            until = here + np.searchsorted(postings.number[here:until], last)
            if here < until:
                counter.here[n_lists], counter.end[n_lists] = here, until
                counter.most[n_lists] = counter.weight[key] * postings.weight[base + segment]
                n_lists += 1
            segment //= 2
    return n_lists


@kernel
def skip_list(number: Ints, here: Whole, end: Whole, goal: Whole) -> Whole:
    """The first place of a posting list whose expression is not before `goal`. Cost: log of the distance."""
    step = np.int64(1)
    while here + step < end and number[here + step] < goal:
        here += step
        step *= 2
    while step > 0:
        if here + step < end and number[here + step] < goal:
            here += step
        else:
            step //= 2
    return here + np.int64(here < end and number[here] < goal)


@kernel
def sort_lists(number: Ints, counter: Counter, order: Longs, n_moved: Whole, n_lists: int) -> int:
    """Reorder posting lists by their cursors after the first few advanced. Returns how many are left."""
    here, end = counter.here, counter.end
    for place in range(n_moved - 1, -1, -1):
        moved, to = order[place], place
        if here[moved] == end[moved]:
            # Exhausted: all after it move up.
            n_lists -= 1
            for behind in range(place, n_lists):
                order[behind] = order[behind + 1]
            continue
        current = number[here[moved]]
        while to + 1 < n_lists and number[here[order[to + 1]]] < current:
            order[to] = order[to + 1]
            to += 1
        order[to] = moved
    return n_lists


@kernel
def join_lists(
    postings: Postings, counter: Counter, n_lists: int, size: int, is_bounded: bool, n_found: int
) -> int:
    """The conjunction algorithm: an expression of `size` keys is a candidate if as many lists contain it.

    Lists are ordered by their cursors. The first one's expression is in enough lists only if the cursor of
    the list at place `size` is there, too; else all before that one skip to its cursor. The sum over the
    lists of a candidate bounds its score. Returns the number of candidates, including `n_found` earlier ones.
    """
    number, here, end = postings.number, counter.here, counter.end
    order = np.arange(n_lists)
    for place in range(n_lists - 1, -1, -1):
        sort_lists(number, counter, order[place:], np.int64(1), n_lists - place)
    while n_lists >= size:
        current, goal = np.int64(number[here[order[0]]]), np.int64(number[here[order[size - 1]]])
        n_moved = np.int64(0)
        if current < goal:
            while number[here[order[n_moved]]] < goal:
                here[order[n_moved]] = skip_list(number, here[order[n_moved]], end[order[n_moved]], goal)
                n_moved += 1
            n_lists = sort_lists(number, counter, order, n_moved, n_lists)
            continue
        most = 0.0
        while n_moved < n_lists and number[here[order[n_moved]]] == current:
            most += max(counter.most[order[n_moved]], 0.0)
            here[order[n_moved]] += 1
            n_moved += 1
        n_lists = sort_lists(number, counter, order, n_moved, n_lists)
        counter.found[n_found] = current
        counter.found_most[n_found] = most * ROUNDING if is_bounded else np.inf
        n_found += 1
    return n_found


@kernel
def match_postings(
    postings: Postings,
    columns: MatchColumns,
    events: EventColumns,
    counter: Counter,
    is_joining: bool,
    kind: Whole,
    best: MatchHeaps,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches, a run for each event, or the best of each. False: `out` is too full, call again."""
    top, n_always = best.slot.shape[1], np.int64(postings.size_first[1])
    while out.progress[EVENT] < events.offsets.shape[0] - 1:
        event, first_row = out.progress[EVENT], out.progress[N_ROWS]
        if first_row + max(top, 1) > out.step.shape[0]:
            return False
        n_keys, is_bounded, is_unweighted, is_point = expand_event(events, event, counter)
        counter.found[:n_always] = np.arange(n_always)
        counter.found_most[:n_always] = np.inf
        n_found = int(n_always)
        if is_joining and is_point:
            for size in range(min(n_keys, postings.size_first.shape[0] - 2), 0, -1):
                n_lists = open_lists(postings, counter, n_keys, size)
                n_found = join_lists(postings, counter, n_lists, size, is_bounded and kind == SUM, n_found)
        else:
            n_found = count_event(postings, counter, n_keys, is_point, n_found)
            counter.found_most[:n_found] = np.inf
        is_done = top > 0 or first_row + n_found <= out.step.shape[0]
        if is_done:
            confirm_candidates(
                postings, columns, events, counter, n_found, is_unweighted, kind, best, ids, out
            )
        for place in range(n_keys):
            counter.low[counter.keys[place]] = counter.high[counter.keys[place]] = np.nan
        if not is_done:
            return False
        if top > 0:
            report_best(best, 0, event, ids, out)
        elif out.progress[N_ROWS] > first_row:
            out.step[out.progress[N_RUNS]], out.rank[out.progress[N_RUNS]] = event, first_row
            out.progress[N_RUNS] += 1
        out.progress[EVENT] += 1
    return True
