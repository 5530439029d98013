"""Kernels of the access index: events against a part.

An event visits the blocks whose access key it has and whose hull it meets. There it picks one row of each
of the block's columns, and what is left of their bits are its candidates, whose packed predicates decide.
Visits are made block by block, not event by event: what a block keeps stays in the cache for all of its
visitors.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.matching.access_layout_kernels import (
    ALWAYS,
    CHUNK,
    GUARDS,
    KEY_SHIFT,
    LACKING,
    SIEVE,
    WORD,
    WORDS,
    AccessColumns,
    Blocks,
    Bounds,
    Tests,
    Visits,
    high_of,
    key_of,
    low_of,
    pack_value,
)
from tocsin.indexes.matching.common_kernels import (
    EVENT,
    KINDS,
    N_ROWS,
    TEXT,
    Best,
    EventColumns,
    IdOrder,
    Matches,
    Value,
    count_at_most,
    count_below,
    offer_match,
    passes_test,
    read_prefix,
)
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import Whole

#: Places in `Matches.progress`: the first visit of the events in hand that is not yet done; runs written.
VISIT = 1
N_RUNS = 3
#: Scores are rounded in another order than their bounds: this much more is always enough.
ROUNDING = 1.0 + 1e-9
#: Every second bit, every second pair, every second four; and a one in every byte.
ODD_BITS = 0x5555555555555555
ODD_PAIRS = 0x3333333333333333
ODD_FOURS = 0x0F0F0F0F0F0F0F0F
ONES = 0x0101010101010101


@kernel
def encode_event(bounds: Bounds, events: EventColumns, event: Whole, visits: Visits) -> None:
    """Write the codes of an event's values, and what bounds its weights."""
    value = bounds.value
    number = visits.first_value[event]
    greatest, is_even, sieve = 1.0, True, np.uint64(0)
    for entry in range(events.offsets[event], events.offsets[event + 1]):
        known, kind = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
        low, high = events.low[entry], events.high[entry]
        if known < 0 or not low <= high:
            continue
        key = KINDS * known + kind
        begin, end = bounds.first[key], bounds.first[key + 1]
        if begin == end:
            continue
        if kind == TEXT:
            low = read_prefix(events.heap, events.text_start[entry], np.int64(events.text_length[entry]))
            high = low
        first = count_below(value, begin, end, low)
        # A value equals one bound at most; a range may hold any number of them.
        last = first if begin + first < end and value[begin + first] == low else first - 1
        if low < high:
            last = count_at_most(value, begin, end, high) - 1
        visits.value_key[number], visits.value_entry[number] = key, entry
        visits.value_code[number] = pack_value(first, last)
        number += 1
        sieve |= np.uint64(1) << np.uint64(key % SIEVE)
        weight = events.weight[entry]
        is_even &= weight == 1.0
        greatest = max(greatest, weight * ROUNDING) if weight >= 0.0 else np.inf
    visits.first_value[event + 1] = number
    visits.greatest[event] = 1.0 if is_even else greatest
    visits.is_even[event] = is_even
    visits.sieve[event] = sieve


@kernel
def find_visits(
    part: AccessColumns, events: EventColumns, begin: Whole, end: int, visits: Visits
) -> tuple[Whole, Whole]:
    """The blocks whose hulls events meet, from event `begin` on, as many as there is room for.

    Returns the event after the last, and how many visits there are.
    """
    first, place, n_blocks = part.blocks.first, part.blocks.place, part.blocks.low.shape[0]
    block_low, block_high = part.blocks.low, part.blocks.high
    found_event, found_place = visits.found[0], visits.found[1]
    n_visits, event = np.int64(0), begin
    while event < end and n_visits + n_blocks < found_event.shape[0]:
        encode_event(part.bounds, events, event, visits)
        for block in range(first[ALWAYS], first[ALWAYS + 1]):
            found_event[n_visits], found_place[n_visits] = event, place[block]
            n_visits += 1
        for number in range(visits.first_value[event], visits.first_value[event + 1]):
            key = visits.value_key[number]
            low, high = high_of(visits.value_code[number]), low_of(visits.value_code[number])
            for block in range(first[key], first[key + 1]):
                found_event[n_visits], found_place[n_visits] = event, place[block]
                n_visits += np.int64((low <= block_high[block]) & (block_low[block] <= high))
        event += 1
    return event, n_visits


@kernel
def order_visits(by_reach: Ints, n_visits: Whole, visits: Visits) -> None:
    """Order visits by block, the greatest reach first, and those of a block by event."""
    first, found, events, blocks = visits.first, visits.found, visits.event, visits.block
    first[:] = 0
    for visit in range(n_visits):
        first[found[1, visit] + 1] += 1
    for place in range(1, first.shape[0]):
        first[place] += first[place - 1]
    for visit in range(n_visits):
        place = found[1, visit]
        events[first[place]] = found[0, visit]
        blocks[first[place]] = by_reach[place]
        first[place] += 1


@kernel
def count_bits(word: np.uint64) -> np.uint64:
    """How many bits of a word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(ODD_BITS))
    word = (word & np.uint64(ODD_PAIRS)) + ((word >> np.uint64(2)) & np.uint64(ODD_PAIRS))
    word = (word + (word >> np.uint64(4))) & np.uint64(ODD_FOURS)
    return (word * np.uint64(ONES)) >> np.uint64(56)


@kernel
def sift_visits(
    blocks: Blocks, visits: Visits, begin: Whole, end: Whole, best: Best, first_event: int
) -> Whole:
    """The bits of the records that events may satisfy, of visits from `begin` on; how many there are.

    Where the best matches are asked for, blocks that do not reach an event's worst are left out.
    """
    # One nest of loops: as functions of their own, the inner ones would take longer to call than to run.
    rows, columns, alive, first_column = blocks.rows, blocks.columns, blocks.alive, blocks.column
    first_value, keys, codes, laid = visits.first_value, visits.value_key, visits.value_code, visits.laid_code
    bits, top, one, nothing = visits.bits, best.slot.shape[1], np.uint64(1), np.uint64(0)
    visit_event, visit_block, greatest, presence = visits.event, visits.block, visits.greatest, visits.sieve
    reach, sieves, best_size, best_score = blocks.reach, blocks.sieve, best.size, best.score
    n_bits = np.uint64(0)
    for visit in range(begin, end):
        event, block = np.int64(visit_event[visit]), np.uint32(visit_block[visit])
        place = visit - begin
        bits[place, 0] = bits[place, 1] = bits[place, 2] = bits[place, 3] = nothing
        heap = event - first_event
        if top > 0 and best_size[heap] == top and reach[block] * greatest[event] < best_score[heap, 0]:
            continue
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = codes[number]
        a, b, c, d = alive[block, 0], alive[block, 1], alive[block, 2], alive[block, 3]
        for number in range(first_column[block], first_column[block + np.uint32(1)]):
            column = columns[np.uint32(number)]
            base, most, code = (
                np.int64(column["low"]),
                np.int64(column["high"]),
                laid[np.uint32(column["key"])],
            )
            low, high = high_of(code), low_of(code)
            row = np.uint64(column["row"])
            last = row
            if low <= most and base <= high:
                shift = np.int64(column["shift"])
                last = row + one + np.uint64((min(high, most) - base) >> shift)
                row = row + one + np.uint64((max(low, base) - base) >> shift)
            e, f, g, h = rows[row, 0], rows[row, 1], rows[row, 2], rows[row, 3]
            if row > last:
                # Between two bounds: a range that holds the value holds both.
                e, f, g, h = e & rows[last, 0], f & rows[last, 1], g & rows[last, 2], h & rows[last, 3]
            while row < last:
                row += one
                e, f, g, h = e | rows[row, 0], f | rows[row, 1], g | rows[row, 2], h | rows[row, 3]
            a, b, c, d = a & e, b & f, c & g, d & h
            if (a | b | c | d) == nothing:
                break
        if sieves[block] >= 0 and (a | b | c | d) != nothing:
            row, present = np.uint64(sieves[block]), presence[event]
            for share in range(SIEVE):
                if (present >> np.uint64(share)) & one == nothing:
                    a, b, c, d = a & rows[row, 0], b & rows[row, 1], c & rows[row, 2], d & rows[row, 3]
                row += one
        n_bits += count_bits(a) + count_bits(b) + count_bits(c) + count_bits(d)
        bits[place, 0], bits[place, 1], bits[place, 2], bits[place, 3] = a, b, c, d
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = LACKING
    return np.int64(n_bits)


@kernel
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


@kernel
def report_visits(
    part: AccessColumns, events: EventColumns, visits: Visits, begin: Whole, end: Whole, out: Matches
) -> None:
    """Write all matches among the candidates of visits. `out` has room for all candidates.

    The matches of a visit are a *run*: `out.step` has the event of each run, `out.rank` its first row.
    """
    first, predicate, weight = part.records.first, part.records.predicate, part.records.weight
    slots, scores, tests, record_of = part.records.slot, part.records.score, part.tests, part.blocks.record
    first_value, keys, codes, laid = visits.first_value, visits.value_key, visits.value_code, visits.laid_code
    laid_value, value_entry, event_weight = visits.laid_value, visits.value_entry, events.weight
    visit_event, visit_block, event_is_even = visits.event, visits.block, visits.is_even
    out_subscription, out_score, candidates = out.subscription, out.score, visits.bits
    block_is_exact, is_tested = part.blocks.is_exact, tests.first.shape[0] > 0
    row, one, nothing = np.uint64(out.progress[N_ROWS]), np.uint64(1), np.uint64(0)
    for visit in range(begin, end):
        event, block = np.int64(visit_event[visit]), np.uint32(visit_block[visit])
        first_row = row
        is_exact, is_even = block_is_exact[block], event_is_even[event]
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = codes[number]
            laid_value[np.uint32(keys[number])] = number
        for word in range(WORDS):
            left = candidates[visit - begin, word]
            base = np.uint64(record_of[block] + WORD * word)
            while left != nothing:
                lone = left & (~left + one)
                left ^= lone
                record = base + count_bits(lone - one)
                # Nothing stops at the first that fails: most candidates have none.
                guards = np.int64(GUARDS)
                if not is_exact:
                    for number in range(np.uint32(first[record]), np.uint32(first[record + one])):
                        packed = predicate[number]
                        guards &= packed - laid[np.uint32(packed >> KEY_SHIFT)]
                is_match = guards == GUARDS
                if is_tested and is_match:
                    is_match = passes_tests(tests, record, predicate, events, visits)
                score = scores[record]
                if not is_even and is_match:
                    score = 0.0
                    for number in range(np.uint32(first[record]), np.uint32(first[record + one])):
                        value = laid_value[np.uint32(predicate[number] >> KEY_SHIFT)]
                        score += weight[number] * event_weight[value_entry[value]]
                # Always written, kept if it counts: which ones do cannot be predicted.
                out_subscription[row] = slots[record]
                out_score[row] = score
                row += np.uint64(is_match)
        if row > first_row:
            out.step[out.progress[N_RUNS]] = event
            out.rank[out.progress[N_RUNS]] = first_row
            out.progress[N_RUNS] += 1
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = LACKING
    out.progress[N_ROWS] = row


@kernel
def rank_visits(
    part: AccessColumns,
    events: EventColumns,
    visits: Visits,
    begin: Whole,
    end: Whole,
    best: Best,
    first_event: int,
    ids: IdOrder,
) -> None:
    """Offer the matches among the candidates of visits to the heaps of their events."""
    first, predicate, weight, reach = (
        part.records.first,
        part.records.predicate,
        part.records.weight,
        part.records.reach,
    )
    slots, scores, tests, record_of = part.records.slot, part.records.score, part.tests, part.blocks.record
    first_value, keys, codes, laid = visits.first_value, visits.value_key, visits.value_code, visits.laid_code
    laid_value, value_entry, event_weight = visits.laid_value, visits.value_entry, events.weight
    visit_event, visit_block, event_is_even = visits.event, visits.block, visits.is_even
    candidates, event_greatest, best_size, best_score = visits.bits, visits.greatest, best.size, best.score
    block_is_exact, is_tested, top = part.blocks.is_exact, tests.first.shape[0] > 0, best.slot.shape[1]
    one, nothing = np.uint64(1), np.uint64(0)
    for visit in range(begin, end):
        event, block = np.int64(visit_event[visit]), np.uint32(visit_block[visit])
        heap, greatest = event - first_event, event_greatest[event]
        worst = best_score[heap, 0] if best_size[heap] == top else -np.inf
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = codes[number]
            laid_value[np.uint32(keys[number])] = number
        for word in range(WORDS):
            left = candidates[visit - begin, word]
            base = np.uint64(record_of[block] + WORD * word)
            while left != nothing:
                lone = left & (~left + one)
                left ^= lone
                record = base + count_bits(lone - one)
                if reach[record] * greatest < worst:
                    break
                guards = np.int64(GUARDS)
                if not block_is_exact[block]:
                    for number in range(np.uint32(first[record]), np.uint32(first[record + one])):
                        packed = predicate[number]
                        guards &= packed - laid[np.uint32(packed >> KEY_SHIFT)]
                is_match = guards == GUARDS
                if is_tested and is_match:
                    is_match = passes_tests(tests, record, predicate, events, visits)
                if not is_match:
                    continue
                score = scores[record]
                if not event_is_even[event]:
                    score = 0.0
                    for number in range(np.uint32(first[record]), np.uint32(first[record + one])):
                        value = laid_value[np.uint32(predicate[number] >> KEY_SHIFT)]
                        score += weight[number] * event_weight[value_entry[value]]
                if not score < worst:
                    offer_match(best, heap, np.int64(slots[record]), score, ids)
                    worst = best_score[heap, 0] if best_size[heap] == top else -np.inf
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = LACKING


@kernel
def match_events(
    part: AccessColumns,
    events: EventColumns,
    begin: int,
    end: int,
    visits: Visits,
    best: Best,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches of some events, or their best into `best`, which has a heap for each from `begin` on.

    False: `out` is too full, grow it and call again.
    """
    top = best.slot.shape[1]
    while out.progress[EVENT] < end:
        until, n_visits = find_visits(part, events, out.progress[EVENT], end, visits)
        order_visits(part.blocks.by_reach, n_visits, visits)
        while out.progress[VISIT] < n_visits:
            first = out.progress[VISIT]
            last = min(first + CHUNK, n_visits)
            n_bits = sift_visits(part.blocks, visits, first, last, best, begin)
            if n_bits > 0 and top > 0:
                rank_visits(part, events, visits, first, last, best, begin, ids)
            elif n_bits > 0:
                # One row more: what does not match is written, too, and then written over.
                if out.progress[N_ROWS] + n_bits >= out.step.shape[0]:
                    return False
                report_visits(part, events, visits, first, last, out)
            out.progress[VISIT] = last
        out.progress[EVENT] = until
        out.progress[VISIT] = 0
    return True
