"""Kernels that match events by a BE*-Tree.

All matches: every bucket that the event meets, in any order. The best few: partitions in descending score
upper bound by their summaries, until the best one left cannot add a match.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.intrinsics import read_scalar
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.matching.access.bound_kernels import PredicateBounds
from tocsin.indexes.matching.access.layout_kernels import GUARDS, KEY_SHIFT, LACKING
from tocsin.indexes.matching.common_kernels import passes_test, read_prefix
from tocsin.indexes.matching.layout import (
    EVENT,
    KINDS,
    N_ROWS,
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
#: Events over which failed evaluations are averaged, about.
WINDOW = 1024.0
#: Scores round in another order than their bounds: this factor always covers the difference.
ROUNDING = 1.0 + 1e-9


class ExpandedEvent(NamedTuple):
    """One event expanded by key, and buckets and partitions to visit."""

    #: float64 (keys,): the value, NaN without one; its weight, 0 without one; WHOLE has the greatest weight,
    #: or one that bounds nothing
    low: Floats
    high: Floats
    weight: Floats
    #: int64 (keys,): the entry; and the packed value, LACKING without one, 0 for key 0
    entry: Longs
    code: Longs
    #: int32 (entries,): the keys that the event has
    keys: Ints
    #: int32 (buckets,): stack of buckets
    stack: Ints
    #: int32 (items of a bucket,): those that may match
    found: Ints
    #: float64 and int32 (partitions,): a heap of partitions by score upper bound, the best at its root
    queue_bound: Floats
    queue: Ints


@lean_kernel
def expand_event(
    bounds: PredicateBounds, events: EventColumns, event: Whole, is_capped: bool, expanded: ExpandedEvent
) -> tuple[int, bool, bool]:
    """Write an event's values by key.

    Returns their number, whether no weight is negative, and whether all are 1.
    """
    n_keys, is_bounded, is_unweighted, weight_bound = 0, True, True, 0.0
    for entry in range(events.offsets[event], events.offsets[event + 1]):
        known, kind = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
        low, high = events.low[entry], events.high[entry]
        if known < 0 or not low <= high:
            continue
        if kind == TEXT:
            low = read_prefix(events.heap, events.text_start[entry], np.int64(events.text_length[entry]))
            high = low
        key = KINDS * known + kind
        expanded.low[key], expanded.high[key], expanded.entry[key] = low, high, entry
        expanded.weight[key], expanded.code[key] = events.weight[entry], encode_value(bounds, key, low, high)
        is_unweighted &= events.weight[entry] == 1.0
        is_bounded &= events.weight[entry] >= 0.0
        weight_bound = max(weight_bound, events.weight[entry])
        expanded.keys[n_keys] = key
        n_keys += 1
    expanded.weight[WHOLE] = weight_bound if is_capped else HUGE
    return n_keys, is_bounded, is_unweighted


@lean_kernel
def clear_event(expanded: ExpandedEvent, n_keys: int) -> None:
    """Undo `expand_event`."""
    for number in range(n_keys):
        key = expanded.keys[number]
        expanded.low[key] = expanded.high[key] = np.nan
        expanded.weight[key], expanded.code[key] = 0.0, LACKING


@lean_kernel
def bound_score(entries: Records, begin: Whole, end: Whole, weight: Floats, kind: Whole) -> float:
    """The score upper bound of a summary's expressions for the expanded event.

    That is the sum over the event's keys, and no more than the whole of the greatest expression: an event has
    more keys than most expressions have predicates.
    """
    bound = 1.0 if kind == PRODUCT else 0.0
    # A key that the event lacks has weight 0 and adds nothing: a branch here could not be predicted.
    if kind == SUM:
        for number in range(np.uint32(begin + 1), np.uint32(end)):
            bound += weight[np.uint32(entries[number]["key"])] * entries[number]["weight"]
    else:
        for number in range(np.uint32(begin + 1), np.uint32(end)):
            term = weight[np.uint32(entries[number]["key"])] * entries[number]["weight"]
            bound = bound * max(term, 1.0) if kind == PRODUCT else max(bound, term)
    return float(min(bound, entries[begin]["weight"] * weight[WHOLE]) * ROUNDING)


@lean_kernel
def push_partition(queue_bound: Floats, queue: Ints, size: int, bound: float, partition: Whole) -> None:
    """Add a partition to the queue."""
    place = size
    while place > 0 and queue_bound[(place - 1) // 2] < bound:
        queue_bound[place], queue[place] = queue_bound[(place - 1) // 2], queue[(place - 1) // 2]
        place = (place - 1) // 2
    queue_bound[place], queue[place] = bound, partition


@lean_kernel
def pop_partition(queue_bound: Floats, queue: Ints, size: Whole) -> None:
    """Remove the root of a queue of `size`."""
    bound, partition, place = queue_bound[size - 1], queue[size - 1], 0
    while 2 * place + 1 < size - 1:
        child = 2 * place + 1
        if child + 1 < size - 1 and queue_bound[child + 1] > queue_bound[child]:
            child += 1
        if queue_bound[child] <= bound:
            break
        queue_bound[place], queue[place] = queue_bound[child], queue[child]
        place = child
    queue_bound[place], queue[place] = bound, partition


@lean_kernel
def holds_exactly(
    columns: MatchColumns, start: Whole, count: Whole, events: EventColumns, expanded: ExpandedEvent
) -> bool:
    """Whether the expanded event satisfies all of an expression's predicates, by their bounds and tests."""
    for place in range(start, start + count):
        predicate = columns.predicates[place]
        key = np.int64(predicate["key"])
        if not (expanded.low[key] <= predicate["high"] and predicate["low"] <= expanded.high[key]):
            return False
        if predicate["test"] >= 0:
            entry = expanded.entry[key]
            length = np.int64(events.text_length[entry])
            value = Value(
                expanded.low[key], expanded.high[key], events.text_start[entry], length, events.heap
            )
            if not passes_test(columns.tests[predicate["test"]], value, columns.operands, columns.heap):
                return False
    return True


@lean_kernel
def score_expression(predicates: Records, start: Whole, count: Whole, weight: Floats, kind: Whole) -> float:
    """The score of an expression for the expanded event."""
    score = 1.0 if kind == PRODUCT else 0.0
    for place in range(start, start + count):
        term = predicates[place]["weight"] * weight[predicates[place]["key"]]
        score = add_term(score, term, np.int64(place - start), kind)
    return score


@lean_kernel
def filter_items(
    items: Records, packed: Longs, code: Longs, first: Whole, count: Whole, out_found: Ints
) -> tuple[int, Whole]:
    """The items of a bucket whose packed predicates the expanded event meets.

    Returns their number, and the number of predicates compared.
    """
    # A function of its own, so that everything stays in registers. Unsigned indexes: a signed one may be
    # negative, which costs a check at each use.
    n_found, n_compared = np.uint32(0), np.int64(0)
    for number in range(np.uint32(first), np.uint32(first + count)):
        start, size = np.uint32(items[number]["start"]), np.uint32(items[number]["count"])
        # No early exit: when the first one fails could not be predicted.
        guards = np.int64(GUARDS)
        for place in range(start, start + size):
            one = read_scalar(packed, np.uint64(place))
            guards &= one - code[np.uint64(one) >> np.uint64(KEY_SHIFT)]
        n_compared += np.int64(size)
        # Always written, kept if it counts.
        out_found[n_found] = number
        n_found += np.uint32(guards == GUARDS)
    return int(n_found), n_compared


@inlined
def count_losses(partition: np.void, lost: Whole) -> None:
    """Count an event's failed evaluations in a bucket of a partition."""
    partition["lost"] += lost
    partition["seen"] += 1.0
    if partition["seen"] > 2.0 * WINDOW:
        partition["lost"] /= 2.0
        partition["seen"] /= 2.0


@lean_kernel
def list_buckets(tree: Tree, expanded: ExpandedEvent, n_keys: int) -> int:
    """List the buckets with items that the expanded event meets in `expanded.queue`; returns their number."""
    nodes, partitions, root = tree.nodes, tree.partitions, tree.root
    value_low, value_high, expanded_code = expanded.low, expanded.high, expanded.code
    stack, listed = expanded.stack, expanded.queue
    n_stack, n_listed = np.uint32(0), np.uint32(0)
    listed[0] = 0
    n_listed += np.uint32(nodes[0]["count"] > 0)
    for number in range(n_keys):
        asked = root[expanded.keys[number]]
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
            if expanded_code[np.uint32(partitions[asked]["key"])] != LACKING:
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
    expanded: ExpandedEvent,
    n_keys: int,
    is_unweighted: bool,
    out: Matches,
) -> bool:
    """All matches of the expanded event, into `out`. False: it is too full."""
    nodes, partitions, items, packed = tree.nodes, tree.partitions, tree.items, codes.packed
    out_slot, out_score, found, listed = out.subscription, out.score, expanded.found, expanded.queue
    row, kind = out.progress[N_ROWS], tree.settings[SCORE]
    n_listed = list_buckets(tree, expanded, n_keys)
    for place in range(n_listed):
        bucket = nodes[np.uint32(listed[place])]
        count, first = np.int64(bucket["count"]), np.int64(bucket["first"])
        if row + count > out_slot.shape[0]:
            return False
        n_found, lost = filter_items(items, packed, expanded.code, first, count, found)
        for number in range(np.uint32(n_found)):
            item = items[np.uint32(found[number])]
            start, size, score = np.int64(item["start"]), np.int64(item["count"]), item["score"]
            if item["is_sure"] == 0 and not holds_exactly(columns, start, size, events, expanded):
                continue
            lost -= size
            if not is_unweighted:
                score = score_expression(columns.predicates, start, size, expanded.weight, kind)
            out_slot[row], out_score[row] = item["slot"], score
            row += 1
        if bucket["partition"] >= 0:
            count_losses(partitions[bucket["partition"]], lost)
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
    expanded: ExpandedEvent,
    n_keys: int,
    is_bounded: bool,
    is_unweighted: bool,
    best: MatchHeaps,
    ids: IdOrder,
) -> None:
    """The best matches of the expanded event, into a heap."""
    # One nest of loops over local names, for the same reasons as in the access index.
    nodes, partitions, items, entries = tree.nodes, tree.partitions, tree.items, tree.entries
    summaries, root, packed, kind = tree.summaries, tree.root, codes.packed, tree.settings[SCORE]
    value_low, value_high, weight, expanded_code = expanded.low, expanded.high, expanded.weight, expanded.code
    stack, found, queue_bound, queue = expanded.stack, expanded.found, expanded.queue_bound, expanded.queue
    predicates, top = columns.predicates, best.slot.shape[1]
    is_bounded &= not tree.settings[IS_RIGID]
    n_stack, n_queued, worst = 1, 0, -np.inf
    stack[0] = 0
    while True:
        is_from_queue = n_stack == 0
        if is_from_queue:
            if n_queued == 0 or queue_bound[0] < worst:
                break
            stack[0], n_stack = partitions[queue[0]]["top"], 1
            pop_partition(queue_bound, queue, np.int64(n_queued))
            n_queued -= 1
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
        # A bucket that is all of its partition has just been compared by the same bound.
        is_from_queue &= bucket["left"] < 0 and bucket["right"] < 0 and bucket["partitions"] < 0
        if is_bounded and worst > -np.inf and count > 0 and node > 0 and not is_from_queue:
            begin = np.int64(summaries[node, OWN, FIRST])
            end = begin + summaries[node, OWN, COUNT]
            # The whole first: it is cheap, and mostly enough.
            if (
                entries[begin]["weight"] * weight[WHOLE] * ROUNDING < worst
                or bound_score(entries, begin, end, weight, kind) < worst
            ):
                count = np.int64(0)
        n_found, lost = filter_items(items, packed, expanded_code, first, count, found)
        for number in range(np.uint32(n_found)):
            item = items[np.uint32(found[number])]
            start, size, score = np.int64(item["start"]), np.int64(item["count"]), item["score"]
            if item["is_sure"] == 0 and not holds_exactly(columns, start, size, events, expanded):
                continue
            lost -= size
            if not is_unweighted:
                score = score_expression(predicates, start, size, weight, kind)
            if not score < worst:
                offer_match(best, np.int64(0), np.int64(item["slot"]), score, ids)
                worst = best.score[0, 0] if best.size[0] == top else -np.inf
        if node > 0 and count > 0:
            count_losses(partitions[bucket["partition"]], lost)
        asked = np.int64(bucket["partitions"])
        number = 0
        while (asked >= 0) if node > 0 else (number < n_keys):
            if node == 0:
                asked = np.int64(root[expanded.keys[number]])
                number += 1
            if asked >= 0:
                below = np.int64(partitions[asked]["top"])
                if expanded_code[np.uint32(partitions[asked]["key"])] != LACKING:
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
                            push_partition(queue_bound, queue, n_queued, bound, asked)
                            n_queued += 1
                if node > 0:
                    asked = np.int64(partitions[asked]["next"])


@lean_kernel
def match_tree(
    tree: Tree,
    columns: MatchColumns,
    codes: Codes,
    events: EventColumns,
    expanded: ExpandedEvent,
    best: MatchHeaps,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches, a run for each event, or the best of each. False: `out` is too full, call again."""
    top, is_capped = best.slot.shape[1], tree.settings[IS_CAPPED] != 0
    while out.progress[EVENT] < events.offsets.shape[0] - 1:
        event = out.progress[EVENT]
        if out.progress[N_ROWS] + top > out.step.shape[0] or out.progress[N_RUNS] == out.step.shape[0]:
            return False
        n_keys, is_bounded, is_unweighted = expand_event(codes.bounds, events, event, is_capped, expanded)
        is_done = True
        if top == 0:
            is_done = match_all(tree, columns, codes, events, event, expanded, n_keys, is_unweighted, out)
        else:
            match_best(tree, columns, codes, events, expanded, n_keys, is_bounded, is_unweighted, best, ids)
        clear_event(expanded, n_keys)
        if not is_done:
            return False
        if top > 0:
            report_best(best, 0, event, ids, out)
        out.progress[EVENT] += 1
    return True
