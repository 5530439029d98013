"""Kernels that match events by a BE*-Tree.

All matches: every bucket that the event meets, in any order. The best few: partitions in the order of what
their summaries promise, until the best one left cannot add anything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.matching.access_layout_kernels import GUARDS, KEY_SHIFT, LACKING
from tocsin.indexes.matching.bound_kernels import Bounds
from tocsin.indexes.matching.common_kernels import (
    EVENT,
    KINDS,
    N_ROWS,
    PRODUCT,
    SUM,
    TEXT,
    Best,
    EventColumns,
    IdOrder,
    Matches,
    Records,
    Value,
    add_term,
    offer_match,
    passes_test,
    read_prefix,
    report_best,
)
from tocsin.indexes.matching.scan_kernels import MatchColumns
from tocsin.indexes.shared.jit import inlined, lean_kernel
from tocsin.indexes.shared.lanes import read_alone
from tocsin.indexes.shared.names_kernels import Whole
from tocsin.papers.be_star_tree.betree_code_kernels import Codes, encode_value
from tocsin.papers.be_star_tree.betree_layout_kernels import (
    ALL,
    COUNT,
    FIRST,
    HUGE,
    IS_CAPPED,
    IS_RIGID,
    OWN,
    SCORE,
    WHOLE,
    Tree,
)

#: Place in `Matches.progress`: runs written.
N_RUNS = 3
#: Events over which what partitions lose is averaged, about.
WINDOW = 1024.0
#: Scores are rounded in another order than their bounds: this much more is always enough.
ROUNDING = 1.0 + 1e-9


class Laid(NamedTuple):
    """One event laid out by key, and what is still to be visited."""

    #: float64 (keys,): the value, NaN where there is none; its weight, 0 where there is none; WHOLE has the
    #: greatest weight, or one that bounds nothing
    low: Floats
    high: Floats
    weight: Floats
    #: int64 (keys,): the entry; and the value packed, LACKING where there is none, nothing for key 0
    entry: Longs
    code: Longs
    #: int32 (entries,): the keys that the event has
    keys: Ints
    #: int32 (buckets,): buckets
    stack: Ints
    #: int32 (items of a bucket,): those that may match
    found: Ints
    #: float64 and int32 (partitions,): a heap of what partitions promise, the best at its root
    promise: Floats
    waiting: Ints


@lean_kernel
def lay_out_event(
    bounds: Bounds, events: EventColumns, event: Whole, is_capped: bool, laid: Laid
) -> tuple[int, bool, bool]:
    """Write an event's values by key.

    Returns how many there are, whether no weight is negative, and whether all are 1.
    """
    n_keys, is_bounded, is_even, greatest = 0, True, True, 0.0
    for entry in range(events.offsets[event], events.offsets[event + 1]):
        known, kind = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
        low, high = events.low[entry], events.high[entry]
        if known < 0 or not low <= high:
            continue
        if kind == TEXT:
            low = read_prefix(events.heap, events.text_start[entry], np.int64(events.text_length[entry]))
            high = low
        key = KINDS * known + kind
        laid.low[key], laid.high[key], laid.entry[key] = low, high, entry
        laid.weight[key], laid.code[key] = events.weight[entry], encode_value(bounds, key, low, high)
        is_even &= events.weight[entry] == 1.0
        is_bounded &= events.weight[entry] >= 0.0
        greatest = max(greatest, events.weight[entry])
        laid.keys[n_keys] = key
        n_keys += 1
    laid.weight[WHOLE] = greatest if is_capped else HUGE
    return n_keys, is_bounded, is_even


@lean_kernel
def take_out_event(laid: Laid, n_keys: int) -> None:
    """Leave no value."""
    for number in range(n_keys):
        key = laid.keys[number]
        laid.low[key] = laid.high[key] = np.nan
        laid.weight[key], laid.code[key] = 0.0, LACKING


@lean_kernel
def bound_score(entries: Records, begin: Whole, end: Whole, weight: Floats, kind: Whole) -> float:
    """What no expression of a summary can exceed for the event laid out.

    That is what the event's keys may add up to, and no more than the whole of the greatest expression: an
    event has more keys than most expressions ask for.
    """
    bound = 1.0 if kind == PRODUCT else 0.0
    # A key that the event lacks has no weight, and adds nothing: which these are cannot be predicted.
    if kind == SUM:
        for number in range(np.uint32(begin + 1), np.uint32(end)):
            bound += weight[np.uint32(entries[number]["key"])] * entries[number]["weight"]
    else:
        for number in range(np.uint32(begin + 1), np.uint32(end)):
            term = weight[np.uint32(entries[number]["key"])] * entries[number]["weight"]
            bound = bound * max(term, 1.0) if kind == PRODUCT else max(bound, term)
    return float(min(bound, entries[begin]["weight"] * weight[WHOLE]) * ROUNDING)


@lean_kernel
def push_promise(promise: Floats, waiting: Ints, size: int, bound: float, partition: Whole) -> None:
    """Add a partition to the heap."""
    place = size
    while place > 0 and promise[(place - 1) // 2] < bound:
        promise[place], waiting[place] = promise[(place - 1) // 2], waiting[(place - 1) // 2]
        place = (place - 1) // 2
    promise[place], waiting[place] = bound, partition


@lean_kernel
def pop_promise(promise: Floats, waiting: Ints, size: Whole) -> None:
    """Take the root away from a heap of `size`."""
    bound, partition, place = promise[size - 1], waiting[size - 1], 0
    while 2 * place + 1 < size - 1:
        child = 2 * place + 1
        if child + 1 < size - 1 and promise[child + 1] > promise[child]:
            child += 1
        if promise[child] <= bound:
            break
        promise[place], waiting[place] = promise[child], waiting[child]
        place = child
    promise[place], waiting[place] = bound, partition


@lean_kernel
def holds_exactly(
    columns: MatchColumns, start: Whole, count: Whole, events: EventColumns, laid: Laid
) -> bool:
    """Whether the event laid out satisfies all of an expression's predicates, by their bounds and tests."""
    for place in range(start, start + count):
        predicate = columns.predicates[place]
        key = np.int64(predicate["key"])
        if not (laid.low[key] <= predicate["high"] and predicate["low"] <= laid.high[key]):
            return False
        if predicate["test"] >= 0:
            entry = laid.entry[key]
            length = np.int64(events.text_length[entry])
            value = Value(laid.low[key], laid.high[key], events.text_start[entry], length, events.heap)
            if not passes_test(columns.tests[predicate["test"]], value, columns.operands, columns.heap):
                return False
    return True


@lean_kernel
def score_expression(predicates: Records, start: Whole, count: Whole, weight: Floats, kind: Whole) -> float:
    """The score of an expression for the event laid out."""
    score = 1.0 if kind == PRODUCT else 0.0
    for place in range(start, start + count):
        term = predicates[place]["weight"] * weight[predicates[place]["key"]]
        score = add_term(score, term, np.int64(place - start), kind)
    return score


@lean_kernel
def sift_items(
    items: Records, packed: Longs, code: Longs, first: Whole, count: Whole, out_found: Ints
) -> tuple[int, Whole]:
    """Which items of a bucket the event laid out meets, as far as packed predicates tell.

    Returns how many these are, and how many predicates of items were compared.
    """
    # On its own, so that all it needs stays in registers. Unsigned indexes: a signed one may be negative,
    # which costs a check at each use.
    n_found, n_compared = np.uint32(0), np.int64(0)
    for number in range(np.uint32(first), np.uint32(first + count)):
        start, size = np.uint32(items[number]["start"]), np.uint32(items[number]["count"])
        # Nothing stops at the first that fails: when that is cannot be predicted.
        guards = np.int64(GUARDS)
        for place in range(start, start + size):
            one = read_alone(packed, np.uint64(place))
            guards &= one - code[np.uint64(one) >> np.uint64(KEY_SHIFT)]
        n_compared += np.int64(size)
        # Always written, kept if it counts.
        out_found[n_found] = number
        n_found += np.uint32(guards == GUARDS)
    return int(n_found), n_compared


@inlined
def note_losses(partition: np.void, lost: Whole) -> None:
    """Count what an event has evaluated in vain in a bucket of a partition."""
    partition["lost"] += lost
    partition["seen"] += 1.0
    if partition["seen"] > 2.0 * WINDOW:
        partition["lost"] /= 2.0
        partition["seen"] /= 2.0


@lean_kernel
def list_buckets(tree: Tree, laid: Laid, n_keys: int) -> int:
    """List the buckets with items that the event laid out meets, into `laid.waiting`; returns how many."""
    nodes, partitions, root = tree.nodes, tree.partitions, tree.root
    value_low, value_high, laid_code = laid.low, laid.high, laid.code
    stack, listed = laid.stack, laid.waiting
    n_stack, n_listed = np.uint32(0), np.uint32(0)
    listed[0] = 0
    n_listed += np.uint32(nodes[0]["count"] > 0)
    for number in range(n_keys):
        asked = root[laid.keys[number]]
        if asked >= 0:
            stack[n_stack] = partitions[asked]["top"]
            n_stack += np.uint32(1)
    while n_stack > 0:
        n_stack -= np.uint32(1)
        node = np.uint32(stack[n_stack])
        bucket = nodes[node]
        low, high = value_low[np.uint32(bucket["key"])], value_high[np.uint32(bucket["key"])]
        if not (low <= bucket["high"] and bucket["low"] <= high):
            continue
        for child in (bucket["left"], bucket["right"]):
            if child >= 0:
                stack[n_stack] = child
                n_stack += np.uint32(1)
        if not (low <= bucket["own_high"] and bucket["own_low"] <= high):
            continue
        if bucket["count"] > 0:
            listed[n_listed] = node
            n_listed += np.uint32(1)
        asked = bucket["partitions"]
        while asked >= 0:
            if laid_code[np.uint32(partitions[asked]["key"])] != LACKING:
                stack[n_stack] = partitions[asked]["top"]
                n_stack += np.uint32(1)
            asked = partitions[asked]["next"]
    return int(n_listed)


@lean_kernel
def match_all(
    tree: Tree,
    columns: MatchColumns,
    codes: Codes,
    events: EventColumns,
    event: Whole,
    laid: Laid,
    n_keys: int,
    is_even: bool,
    out: Matches,
) -> bool:
    """All matches of the event laid out, into `out`. False: it is too full."""
    nodes, partitions, items, packed = tree.nodes, tree.partitions, tree.items, codes.packed
    out_slot, out_score, found, listed = out.subscription, out.score, laid.found, laid.waiting
    row, kind = out.progress[N_ROWS], tree.settings[SCORE]
    n_listed = list_buckets(tree, laid, n_keys)
    for turn in range(n_listed):
        bucket = nodes[np.uint32(listed[turn])]
        count, first = np.int64(bucket["count"]), np.int64(bucket["first"])
        if row + count > out_slot.shape[0]:
            return False
        n_found, lost = sift_items(items, packed, laid.code, first, count, found)
        for number in range(np.uint32(n_found)):
            item = items[np.uint32(found[number])]
            start, size, score = np.int64(item["start"]), np.int64(item["count"]), item["score"]
            if item["is_sure"] == 0 and not holds_exactly(columns, start, size, events, laid):
                continue
            lost -= size
            if not is_even:
                score = score_expression(columns.predicates, start, size, laid.weight, kind)
            out_slot[row], out_score[row] = item["slot"], score
            row += 1
        if bucket["partition"] >= 0:
            note_losses(partitions[bucket["partition"]], lost)
    if row > out.progress[N_ROWS]:
        out.step[out.progress[N_RUNS]], out.rank[out.progress[N_RUNS]] = event, out.progress[N_ROWS]
        out.progress[N_RUNS] += 1
        out.progress[N_ROWS] = row
    return True


@lean_kernel
def match_best(
    tree: Tree,
    columns: MatchColumns,
    codes: Codes,
    events: EventColumns,
    laid: Laid,
    n_keys: int,
    is_bounded: bool,
    is_even: bool,
    best: Best,
    ids: IdOrder,
) -> None:
    """The best matches of the event laid out, into a heap."""
    # One nest of loops over local names, for the same reasons as in the access index.
    nodes, partitions, items, entries = tree.nodes, tree.partitions, tree.items, tree.entries
    summaries, root, packed, kind = tree.summaries, tree.root, codes.packed, tree.settings[SCORE]
    value_low, value_high, weight, laid_code = laid.low, laid.high, laid.weight, laid.code
    stack, found, promise, waiting = laid.stack, laid.found, laid.promise, laid.waiting
    predicates, top = columns.predicates, best.slot.shape[1]
    is_bounded &= not tree.settings[IS_RIGID]
    n_stack, n_waiting, worst = 1, 0, -np.inf
    stack[0] = 0
    while True:
        is_promising = n_stack == 0
        if is_promising:
            if n_waiting == 0 or promise[0] < worst:
                break
            stack[0], n_stack = partitions[waiting[0]]["top"], 1
            pop_promise(promise, waiting, np.int64(n_waiting))
            n_waiting -= 1
        n_stack -= 1
        node = np.uint32(stack[n_stack])
        bucket = nodes[node]
        if node > 0:
            low, high = value_low[np.uint32(bucket["key"])], value_high[np.uint32(bucket["key"])]
            if not (low <= bucket["high"] and bucket["low"] <= high):
                continue
            for child in (bucket["left"], bucket["right"]):
                if child >= 0:
                    stack[n_stack] = child
                    n_stack += 1
            if not (low <= bucket["own_high"] and bucket["own_low"] <= high):
                continue
        count, first = np.int64(bucket["count"]), np.int64(bucket["first"])
        # A bucket that is all of its partition has just been held against its promise.
        is_promising &= bucket["left"] < 0 and bucket["right"] < 0 and bucket["partitions"] < 0
        if is_bounded and worst > -np.inf and count > 0 and node > 0 and not is_promising:
            begin = np.int64(summaries[node, OWN, FIRST])
            end = begin + summaries[node, OWN, COUNT]
            # The whole first: it is there at hand, and mostly enough.
            if (
                entries[begin]["weight"] * weight[WHOLE] * ROUNDING < worst
                or bound_score(entries, begin, end, weight, kind) < worst
            ):
                count = np.int64(0)
        n_found, lost = sift_items(items, packed, laid_code, first, count, found)
        for number in range(np.uint32(n_found)):
            item = items[np.uint32(found[number])]
            start, size, score = np.int64(item["start"]), np.int64(item["count"]), item["score"]
            if item["is_sure"] == 0 and not holds_exactly(columns, start, size, events, laid):
                continue
            lost -= size
            if not is_even:
                score = score_expression(predicates, start, size, weight, kind)
            if not score < worst:
                offer_match(best, 0, np.int64(item["slot"]), score, ids)
                worst = best.score[0, 0] if best.size[0] == top else -np.inf
        if node > 0 and count > 0:
            note_losses(partitions[bucket["partition"]], lost)
        asked = np.int64(bucket["partitions"])
        number = 0
        while (asked >= 0) if node > 0 else (number < n_keys):
            if node == 0:
                asked = np.int64(root[laid.keys[number]])
                number += 1
            if asked >= 0:
                below = np.int64(partitions[asked]["top"])
                if laid_code[np.uint32(partitions[asked]["key"])] != LACKING:
                    if not is_bounded:
                        stack[n_stack] = below
                        n_stack += 1
                    else:
                        begin = np.int64(summaries[below, ALL, FIRST])
                        end = begin + summaries[below, ALL, COUNT]
                        bound = entries[begin]["weight"] * weight[WHOLE] * ROUNDING
                        if worst > -np.inf and not bound < worst:
                            bound = bound_score(entries, begin, end, weight, kind)
                        if not bound < worst:
                            push_promise(promise, waiting, n_waiting, bound, asked)
                            n_waiting += 1
                if node > 0:
                    asked = np.int64(partitions[asked]["next"])


@lean_kernel
def match_tree(
    tree: Tree,
    columns: MatchColumns,
    codes: Codes,
    events: EventColumns,
    laid: Laid,
    best: Best,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches, a run for each event, or the best of each. False: `out` is too full, call again."""
    top, is_capped = best.slot.shape[1], tree.settings[IS_CAPPED] != 0
    while out.progress[EVENT] < events.offsets.shape[0] - 1:
        event = out.progress[EVENT]
        if out.progress[N_ROWS] + top > out.step.shape[0] or out.progress[N_RUNS] == out.step.shape[0]:
            return False
        n_keys, is_bounded, is_even = lay_out_event(codes.bounds, events, event, is_capped, laid)
        is_done = True
        if top == 0:
            is_done = match_all(tree, columns, codes, events, event, laid, n_keys, is_even, out)
        else:
            match_best(tree, columns, codes, events, laid, n_keys, is_bounded, is_even, best, ids)
        take_out_event(laid, n_keys)
        if not is_done:
            return False
        if top > 0:
            report_best(best, 0, event, ids, out)
        out.progress[EVENT] += 1
    return True
