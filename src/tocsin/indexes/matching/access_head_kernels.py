"""Kernels of the access index: the best few matches of an event, from the heads of blocks.

Records of a block are by reach. So the best matches of an event are found soonest if records are taken by
reach over all blocks that it visits: one block is *opened* after the other, and the next record is the one
that reaches farthest of the first ones left of those that are open. Where a good share of what an event
visits matches, a few records are enough, and nothing else of a block is read.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.matching.access_layout_kernels import (
    GUARDS,
    KEY_SHIFT,
    LACKING,
    OPEN,
    AccessColumns,
    RecordColumns,
    Tests,
    Visits,
    key_of,
)
from tocsin.indexes.matching.common_kernels import (
    PRODUCT,
    TEXT,
    Best,
    EventColumns,
    IdOrder,
    Value,
    add_term,
    offer_match,
    passes_test,
    read_prefix,
)
from tocsin.indexes.shared.jit import inlined, lean_kernel
from tocsin.indexes.shared.lanes import read_alone
from tocsin.indexes.shared.names_kernels import Whole
from tocsin.indexes.shared.prefetch import prefetch

#: Records that are tried in vain for each match, and before the first one, until cells are worth their while.
PATIENCE = 128
#: Blocks of an event whose heads are fetched before it is looked at, for so many events at a time; and the
#: packed predicates of a line of the cache.
LEAD = 4
AHEAD = 8
LINE = 8
#: In place of a number of records: of all blocks.
DONE_WITH = -1


@lean_kernel
def passes_tests(
    tests: Tests, record: np.uint64, predicate: Longs, events: EventColumns, visits: Visits
) -> bool:
    """Whether the event laid out, which is within the bounds of a record, passes its tests."""
    for test in range(tests.first[record], tests.first[record + np.uint64(1)]):
        entry = visits.value_entry[visits.laid_value[key_of(predicate[tests.predicate[test]])]]
        start, length = events.text_start[entry], np.int64(events.text_length[entry])
        low = events.low[entry]
        if events.kind[entry] == TEXT:
            low = read_prefix(events.heap, start, length)
        value = Value(low, events.high[entry], start, length, events.heap)
        if not passes_test(tests.tests[test], value, tests.operands, tests.heap):
            return False
    return True


@lean_kernel
def weigh_record(
    records: RecordColumns, record: np.uint64, events: EventColumns, visits: Visits, kind: int
) -> float:
    """The score of a record that the event laid out matches, which has weights of its own."""
    first, end = np.uint32(records.first[record]), np.uint32(records.first[record + np.uint64(1)])
    score = 1.0 if kind == PRODUCT else 0.0
    for number in range(first, end):
        value = visits.laid_value[np.uint32(records.predicate[number] >> KEY_SHIFT)]
        term = records.weight[number] * events.weight[visits.value_entry[value]]
        score = add_term(score, term, np.int64(number) - np.int64(first), kind)
    return score


@inlined
def bring_next(places: Ints, begin: np.uint64, end: np.uint64) -> None:
    """Bring the least of the places from `begin` to `end`, if there are any, to the first of them."""
    least = begin
    for visit in range(begin, end):
        least = np.uint64(visit) if places[visit] < places[least] else least
    if begin < end:
        places[begin], places[least] = places[least], places[begin]


@lean_kernel
def fetch_heads(part: AccessColumns, visits: Visits, begin: Whole, until: Whole) -> None:
    """Have the first records of the blocks that events will open first fetched, a few events at a time."""
    by_reach, record_of = part.blocks.by_reach, part.blocks.record
    places, ordered = visits.block, visits.ordered
    first, reach, sieve = part.records.first, part.records.reach, part.records.sieve
    for turn in range(begin, until):
        visit = np.uint64(visits.first_visit[ordered[turn]])
        end_visit = visit + np.uint64(visits.n_visits[ordered[turn]])
        for number in range(visit, min(visit + np.uint64(LEAD), end_visit)):
            bring_next(places, np.uint64(number), end_visit)
            record = record_of[by_reach[places[number]]]
            prefetch(sieve, record)
            prefetch(reach, record)
            prefetch(first, record)
    for turn in range(begin, until):
        visit = np.uint64(visits.first_visit[ordered[turn]])
        end_visit = visit + np.uint64(visits.n_visits[ordered[turn]])
        for number in range(visit, min(visit + np.uint64(LEAD), end_visit)):
            record = record_of[by_reach[places[number]]]
            prefetch(part.records.predicate, first[record])
            prefetch(part.records.predicate, first[record] + LINE)
            prefetch(part.records.slot, record)
            prefetch(part.records.score, record)


@lean_kernel
def try_heads(
    part: AccessColumns,
    events: EventColumns,
    visits: Visits,
    begin: Whole,
    until: Whole,
    best: Best,
    first_event: int,
    kind: int,
    ids: IdOrder,
) -> Whole:
    """Find the best matches of events from the heads of the blocks that they visit, as far as that goes well.

    Events are taken as they are ordered. The visits of those that have all their best are taken off the list;
    of the others, `visits.n_looked` says how far they came. Returns how many visits are left.
    """
    blocks, records, tests = part.blocks, part.records, part.tests
    by_reach, block_reach, record_of = blocks.by_reach, blocks.reach, blocks.record
    first, predicate, slots, reach = records.first, records.predicate, records.slot, records.reach
    scores, is_tested, top, one = records.score, tests.first.shape[0] > 0, best.slot.shape[1], np.uint64(1)
    first_value, keys, codes, laid = visits.first_value, visits.value_key, visits.value_code, visits.laid_code
    laid_value, places, n_looked, sieve = visits.laid_value, visits.block, visits.n_looked, records.sieve
    open_block, open_record, open_reach = visits.open_block, visits.open_record, visits.open_reach
    for turn in range(until - begin):
        if turn % AHEAD == 0:
            fetch_heads(part, visits, turn, min(turn + AHEAD, until - begin))
        event = np.int64(visits.ordered[turn])
        first_visit, heap = np.uint64(visits.first_visit[event]), event - first_event
        end_visit = first_visit + np.uint64(visits.n_visits[event])
        greatest, is_even, worst = visits.greatest[event], visits.is_even[event], -np.inf
        absent = visits.absent[event]
        if best.size[heap] == top:
            worst = best.score[heap, 0]
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = codes[number]
            laid_value[np.uint32(keys[number])] = number
        n_open, patience, is_done = np.uint64(0), PATIENCE, False
        while True:
            # The record that reaches farthest, of those that are next in open blocks.
            chosen, farthest = n_open, -1.0
            for number in range(n_open):
                is_farther = open_reach[number] > farthest
                chosen = np.uint64(number) if is_farther else chosen
                farthest = open_reach[number] if is_farther else farthest
            is_match, following_visit = False, first_visit + n_open
            promise = -1.0
            if following_visit < end_visit:
                promise = block_reach[by_reach[places[following_visit]]]
            if max(farthest, promise) < 0.0 or max(farthest, promise) * greatest < worst:
                is_done = True
                break
            if promise >= farthest:
                # The first record of another block may reach as far.
                if n_open == OPEN:
                    break
                block = np.uint32(by_reach[places[following_visit]])
                chosen, following = n_open, np.uint64(record_of[block])
                open_block[n_open] = block
                n_open += one
                if n_open >= LEAD:
                    bring_next(places, first_visit + n_open, end_visit)
            else:
                if patience == 0:
                    break
                patience -= 1
                block, record = np.uint32(open_block[chosen]), np.uint64(open_record[chosen])
                following, guards = record + one, np.int64(GUARDS)
                for number in range(np.uint32(first[record]), np.uint32(first[following])):
                    packed = read_alone(predicate, np.uint64(number))
                    guards &= packed - laid[np.uint64(packed) >> np.uint64(KEY_SHIFT)]
                is_match = guards == GUARDS
            # The next record of the block whose keys the event may have.
            end = np.uint64(record_of[block + np.uint32(1)])
            while following < end and sieve[following] & absent != 0:
                following += one
            open_record[chosen] = following
            open_reach[chosen] = reach[following] if following < end else -1.0
            if is_match:
                slot = np.int64(slots[record])
                if slot < 0 or (is_tested and not passes_tests(tests, record, predicate, events, visits)):
                    continue
                patience += PATIENCE
                score = scores[record] if is_even else weigh_record(records, record, events, visits, kind)
                if not score < worst:
                    offer_match(best, heap, slot, score, ids)
                    worst = best.score[heap, 0] if best.size[heap] == top else -np.inf
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = LACKING
        n_looked[event, 0] = DONE_WITH
        if not is_done:
            for number in range(np.uint64(OPEN)):
                n_looked[event, number] = 0
            for number in range(n_open):
                n_looked[event, number] = open_record[number] - record_of[open_block[number]]
    n_left = 0
    for each in range(begin, until):
        if n_looked[each, 0] == DONE_WITH:
            visits.n_visits[each] = 0
        for number in range(visits.n_visits[each]):
            visits.event[n_left], places[n_left] = each, places[visits.first_visit[each] + number]
            n_left += 1
    return n_left
