"""Kernels that match events by a BE*-Tree.

All matches: every bucket that the event meets, in any order. The best few: partitions in the order of what
their summaries promise, until the best one left cannot add anything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.matching.betree_layout_kernels import (
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
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import Whole

#: Place in `Matches.progress`: runs written.
N_RUNS = 3
#: Events over which what partitions lose is averaged, about.
WINDOW = 1024.0
#: Scores are rounded in another order than their bounds: this much more is always enough.
ROUNDING = 1.0 + 1e-9


class Laid(NamedTuple):
    """One event laid out by key, and what is still to be visited."""

    #: float64 (keys,): the value, NaN where there is none; its weight, -1 where there is none; WHOLE has the
    #: greatest weight, or none that bounds anything
    low: Floats
    high: Floats
    weight: Floats
    #: int64 (keys,): the entry
    entry: Longs
    #: int32 (entries,): the keys that the event has
    keys: Ints
    #: int32 (buckets,): buckets
    stack: Ints
    #: float64 and int32 (partitions,): a heap of what partitions promise, the best at its root
    promise: Floats
    waiting: Ints


@kernel
def lay_out_event(events: EventColumns, event: Whole, is_capped: bool, laid: Laid) -> tuple[int, bool]:
    """Write an event's values by key. Returns how many there are, and whether no weight is negative."""
    n_keys, is_bounded, greatest = 0, True, 0.0
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
        laid.weight[key] = events.weight[entry]
        is_bounded &= events.weight[entry] >= 0.0
        greatest = max(greatest, events.weight[entry])
        laid.keys[n_keys] = key
        n_keys += 1
    laid.weight[WHOLE] = greatest if is_capped else HUGE
    return n_keys, is_bounded


@kernel
def take_out_event(laid: Laid, n_keys: int) -> None:
    """Leave no value."""
    for number in range(n_keys):
        laid.low[laid.keys[number]] = laid.high[laid.keys[number]] = np.nan
        laid.weight[laid.keys[number]] = -1.0


@kernel
def bound_score(entries: Records, begin: Whole, end: Whole, weight: Floats, kind: Whole) -> float:
    """What no expression of a summary can exceed for the event laid out.

    That is what the event's keys may add up to, and no more than the whole of the greatest expression: an
    event has more keys than most expressions ask for.
    """
    bound = 1.0 if kind == PRODUCT else 0.0
    for number in range(begin + 1, end):
        event_weight = weight[entries[number]["key"]]
        if event_weight >= 0.0:
            term = event_weight * entries[number]["weight"]
            if kind == SUM:
                bound += term
            elif kind == PRODUCT:
                bound *= max(term, 1.0)
            else:
                bound = max(bound, term)
    return float(min(bound, entries[begin]["weight"] * weight[WHOLE]) * ROUNDING)


@kernel
def push_promise(promise: Floats, waiting: Ints, size: int, bound: float, partition: Whole) -> None:
    """Add a partition to the heap."""
    place = size
    while place > 0 and promise[(place - 1) // 2] < bound:
        promise[place], waiting[place] = promise[(place - 1) // 2], waiting[(place - 1) // 2]
        place = (place - 1) // 2
    promise[place], waiting[place] = bound, partition


@kernel
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


@kernel
def passes_predicate_test(
    columns: MatchColumns, test: Whole, events: EventColumns, laid: Laid, key: Whole
) -> bool:
    """Whether the event laid out, which is within a predicate's bounds, passes its test."""
    entry = laid.entry[key]
    length = np.int64(events.text_length[entry])
    value = Value(laid.low[key], laid.high[key], events.text_start[entry], length, events.heap)
    return passes_test(columns.tests[test], value, columns.operands, columns.heap)


@kernel
def match_event(
    tree: Tree,
    columns: MatchColumns,
    events: EventColumns,
    event: Whole,
    laid: Laid,
    n_keys: int,
    is_bounded: bool,
    best: Best,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """The matches of the event laid out, into `out` or its heap. False: `out` is too full."""
    # One nest of loops over local names, for the same reasons as in the access index.
    nodes, partitions, items, entries = tree.nodes, tree.partitions, tree.items, tree.entries
    summaries, root, predicates, kind = tree.summaries, tree.root, columns.predicates, tree.settings[SCORE]
    value_low, value_high, weight = laid.low, laid.high, laid.weight
    stack, promise, waiting = laid.stack, laid.promise, laid.waiting
    out_slot, out_score = out.subscription, out.score
    row, top = out.progress[N_ROWS], best.slot.shape[1]
    is_bounded &= not tree.settings[IS_RIGID]
    n_stack, n_waiting, worst = 1, 0, -np.inf
    stack[0] = 0
    while True:
        if n_stack == 0:
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
        if top > 0 and is_bounded and worst > -np.inf and count > 0 and node > 0:
            begin = np.int64(summaries[node, OWN, FIRST])
            end = begin + summaries[node, OWN, COUNT]
            # The whole first: it is there at hand, and mostly enough.
            if (
                entries[begin]["weight"] * weight[WHOLE] * ROUNDING < worst
                or bound_score(entries, begin, end, weight, kind) < worst
            ):
                count = np.int64(0)
        if top == 0 and row + count > out_slot.shape[0]:
            return False
        lost = np.int64(0)
        for number in range(np.uint32(first), np.uint32(first + count)):
            item = items[number]
            start, is_match = np.uint32(item["start"]), True
            score = 1.0 if kind == PRODUCT else 0.0
            for place in range(start, start + np.uint32(item["count"])):
                predicate = predicates[place]
                key = np.uint32(predicate["key"])
                is_match = (value_low[key] <= predicate["high"]) & (predicate["low"] <= value_high[key])
                if is_match and predicate["test"] >= 0:
                    is_match = passes_predicate_test(columns, predicate["test"], events, laid, np.int64(key))
                if not is_match:
                    lost += np.int64(place - start) + 1
                    break
                score = add_term(score, predicate["weight"] * weight[key], np.int64(place - start), kind)
            if is_match and top == 0:
                out_slot[row], out_score[row] = item["slot"], score
                row += 1
            elif is_match and not score < worst:
                offer_match(best, 0, np.int64(item["slot"]), score, ids)
                worst = best.score[0, 0] if best.size[0] == top else -np.inf
        if node > 0 and count > 0:
            partition = partitions[bucket["partition"]]
            partition["lost"] += lost
            partition["seen"] += 1.0
            if partition["seen"] > 2.0 * WINDOW:
                partition["lost"] /= 2.0
                partition["seen"] /= 2.0
        asked = np.int64(bucket["partitions"])
        number = 0
        while (asked >= 0) if node > 0 else (number < n_keys):
            if node == 0:
                asked = np.int64(root[laid.keys[number]])
                number += 1
            if asked >= 0:
                below = np.int64(partitions[asked]["top"])
                if (
                    value_low[np.uint32(partitions[asked]["key"])]
                    == value_low[np.uint32(partitions[asked]["key"])]
                ):
                    if top == 0 or not is_bounded:
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
    if top == 0 and row > out.progress[N_ROWS]:
        out.step[out.progress[N_RUNS]], out.rank[out.progress[N_RUNS]] = event, out.progress[N_ROWS]
        out.progress[N_RUNS] += 1
        out.progress[N_ROWS] = row
    return True


@kernel
def match_tree(
    tree: Tree,
    columns: MatchColumns,
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
        n_keys, is_bounded = lay_out_event(events, event, is_capped, laid)
        is_done = match_event(tree, columns, events, event, laid, n_keys, is_bounded, best, ids, out)
        take_out_event(laid, n_keys)
        if not is_done:
            return False
        if top > 0:
            report_best(best, 0, event, ids, out)
        out.progress[EVENT] += 1
    return True
