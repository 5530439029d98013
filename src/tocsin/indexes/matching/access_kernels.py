"""Kernels of the access index: events against a part.

An event visits the blocks whose access key it has and whose hull it meets. There its values are compared
with the cells of each column, many records at a time, and what is left are its candidates; where cells are
coarser than codes, packed predicates decide.
Visits are made block by block, not event by event: what a block keeps stays in the cache for all of its
visitors.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.matching.access_layout_kernels import (
    ALWAYS,
    BLOCK,
    GUARDS,
    KEY_SHIFT,
    LACKING,
    LANES,
    SIEVE,
    AccessColumns,
    Bounds,
    Tests,
    Visits,
    cell_of,
    high_of,
    key_of,
    low_of,
    pack_value,
)
from tocsin.indexes.matching.common_kernels import (
    EVENT,
    KINDS,
    N_ROWS,
    PRODUCT,
    TEXT,
    Best,
    EventColumns,
    IdOrder,
    Matches,
    Value,
    add_term,
    count_at_most,
    count_below,
    offer_match,
    passes_test,
    read_prefix,
)
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.names_kernels import Whole

#: Places in `Matches.progress`: the first visit of the events in hand that is not yet done; runs written.
VISIT = 1
N_RUNS = 3
#: Scores are rounded in another order than their bounds: this much more is always enough.
ROUNDING = 1.0 + 1e-9
#: Records whose bytes are gathered in one word of bits, and the factor that does so for eight of them.
WORD = 64
BYTE = 8
GATHER = 0x0102040810204080
#: Every second bit, every second pair, every second four; and a one in every byte.
ODD_BITS = 0x5555555555555555
ODD_PAIRS = 0x3333333333333333
ODD_FOURS = 0x0F0F0F0F0F0F0F0F
ONES = 0x0101010101010101


@lean_kernel
def encode_event(bounds: Bounds, events: EventColumns, event: Whole, kind: int, visits: Visits) -> None:
    """Write the codes of an event's values, and what bounds its weights."""
    value = bounds.value
    number = visits.first_value[event]
    greatest, is_even, is_bounding, present = 1.0, True, True, np.uint32(0)
    for entry in range(events.offsets[event], events.offsets[event + 1]):
        known, of = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
        low, high = events.low[entry], events.high[entry]
        if known < 0 or not low <= high:
            continue
        key = KINDS * known + of
        begin, end = bounds.first[key], bounds.first[key + 1]
        if begin == end:
            continue
        if of == TEXT:
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
        present |= np.uint32(1) << np.uint32(key % SIEVE)
        weight = events.weight[entry]
        is_even &= weight == 1.0
        greatest = max(greatest, weight * ROUNDING) if weight >= 0.0 else np.inf
        # A product takes in a weight once for each predicate: how often is not known here.
        is_bounding &= kind != PRODUCT or weight <= 1.0
    visits.first_value[event + 1] = number
    visits.greatest[event] = 1.0 if is_even else (greatest if is_bounding else np.inf)
    visits.is_even[event] = is_even
    visits.absent[event] = ~present


@lean_kernel
def find_visits(
    part: AccessColumns, events: EventColumns, begin: Whole, end: int, kind: int, visits: Visits
) -> tuple[Whole, Whole]:
    """The blocks whose hulls events meet, from event `begin` on, as many as there is room for.

    Returns the event after the last, and how many visits there are.
    """
    first, place, n_blocks = part.blocks.first, part.blocks.place, part.blocks.low.shape[0]
    block_low, block_high = part.blocks.low, part.blocks.high
    found_event, found_place = visits.found[0], visits.found[1]
    n_visits, event = np.int64(0), begin
    while event < end and n_visits + n_blocks < found_event.shape[0]:
        encode_event(part.bounds, events, event, kind, visits)
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


@lean_kernel
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


@lean_kernel
def count_bits(word: np.uint64) -> np.uint64:
    """How many bits of a word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(ODD_BITS))
    word = (word & np.uint64(ODD_PAIRS)) + ((word >> np.uint64(2)) & np.uint64(ODD_PAIRS))
    word = (word + (word >> np.uint64(4))) & np.uint64(ODD_FOURS)
    return (word * np.uint64(ONES)) >> np.uint64(56)


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
def make_visits(
    part: AccessColumns,
    events: EventColumns,
    visits: Visits,
    begin: Whole,
    end: Whole,
    best: Best,
    first_event: int,
    kind: int,
    ids: IdOrder,
    out: Matches,
) -> Whole:
    """Look into blocks: matches go into `out`, or into heaps. Returns the first visit that found no room.

    The matches of a visit are a *run*: `out.step` has the event of each run, `out.rank` its first row.
    """
    # One nest of loops over local names: functions in it, and columns looked up in it, would cost more than
    # what they do. Unsigned indexes: a signed one may be negative, which costs a check at each use.
    blocks, records, tests = part.blocks, part.records, part.tests
    columns, cells, alive, first_column = blocks.columns, blocks.cells, blocks.alive, blocks.column
    block_reach, block_sieve, sieves, record_of = blocks.reach, blocks.sieve, blocks.sieves, blocks.record
    first, predicate, weight, slots = records.first, records.predicate, records.weight, records.slot
    scores, reach, sure, is_tested = records.score, records.reach, records.is_sure, tests.first.shape[0] > 0
    first_value, keys, codes, laid = visits.first_value, visits.value_key, visits.value_code, visits.laid_code
    laid_value, value_entry, event_weight = visits.laid_value, visits.value_entry, events.weight
    visit_event, visit_block, even, bounding = visits.event, visits.block, visits.is_even, visits.greatest
    out_slot, out_score, best_size, best_score = out.subscription, out.score, best.size, best.score
    top, one, nothing, absences = best.slot.shape[1], np.uint64(1), np.uint64(0), visits.absent
    is_met, words = visits.is_met, visits.is_met.view(np.uint64)
    row, n_runs = np.uint64(out.progress[N_ROWS]), out.progress[N_RUNS]
    most_rows = np.uint64(out.step.shape[0])
    for visit in range(begin, end):
        if top == 0 and row + np.uint64(BLOCK) > most_rows:
            end = visit
            break
        event, block = np.int64(visit_event[visit]), np.uint32(visit_block[visit])
        heap, greatest, worst, first_row = event - first_event, bounding[event], -np.inf, row
        base_record = np.uint64(record_of[block])
        count = np.uint64(record_of[block + np.uint32(1)]) - base_record
        count = (count + np.uint64(LANES - 1)) // np.uint64(LANES) * np.uint64(LANES)
        if top > 0 and best_size[heap] == top:
            worst = best_score[heap, 0]
            if block_reach[block] * greatest < worst:
                continue
            while reach[base_record + count - np.uint64(LANES)] * greatest < worst:
                count -= np.uint64(LANES)
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = codes[number]
            laid_value[np.uint32(keys[number])] = number
        # First the cells of the block.
        for place in range(count):
            is_met[place] = alive[block, place]
        some = np.uint8(1)
        for number in range(np.uint32(first_column[block]), np.uint32(first_column[block + np.uint32(1)])):
            column = columns[number]
            base, shift = np.int64(column["low"]), np.int64(column["shift"])
            code = laid[np.uint32(column["key"])]
            low, high = cell_of(high_of(code), base, shift), cell_of(low_of(code), base, shift)
            some = np.uint8(0)
            for place in range(count):
                # Bytes throughout, so that this becomes a vector loop.
                is_above, is_below = cells[number, 0, place] <= high, low <= cells[number, 1, place]
                met = np.uint8(is_met[place] & np.uint8(is_above) & np.uint8(is_below))
                is_met[place] = met
                some = np.uint8(some | met)
            if some == 0:
                break
        if block_sieve[block] >= 0 and some != 0:
            sieve, absent = np.uint32(block_sieve[block]), absences[event]
            for place in range(count):
                is_met[place] &= (sieves[sieve, place] & absent) == 0
        # Then what they leave, a word of bits at a time.
        is_even = even[event]
        for origin in range(nothing, count if some != 0 else nothing, np.uint64(WORD)):
            left = nothing
            for share in range(np.uint64(BYTE)):
                gathered = (words[origin // np.uint64(BYTE) + share] * np.uint64(GATHER)) >> np.uint64(56)
                left |= gathered << (np.uint64(BYTE) * share)
            if origin + np.uint64(LANES) == count:
                left &= (one << np.uint64(LANES)) - one
            while left != nothing:
                lone = left & (~left + one)
                left ^= lone
                record = base_record + origin + count_bits(lone - one)
                if top > 0 and reach[record] * greatest < worst:
                    break
                is_match = True
                if not sure[record]:
                    # Nothing stops at the first that fails: most candidates have none.
                    guards = np.int64(GUARDS)
                    for number in range(np.uint32(first[record]), np.uint32(first[record + one])):
                        packed = predicate[number]
                        guards &= packed - laid[np.uint32(packed >> KEY_SHIFT)]
                    is_match = guards == GUARDS
                    if is_tested and is_match:
                        is_match = passes_tests(tests, record, predicate, events, visits)
                score = scores[record]
                if not is_even and is_match:
                    score = 1.0 if kind == PRODUCT else 0.0
                    for number in range(np.uint32(first[record]), np.uint32(first[record + one])):
                        value = laid_value[np.uint32(predicate[number] >> KEY_SHIFT)]
                        term = weight[number] * event_weight[value_entry[value]]
                        score = add_term(score, term, np.int64(number) - np.int64(first[record]), kind)
                if top == 0:
                    # Always written, kept if it counts: which ones do cannot be predicted.
                    out_slot[row] = slots[record]
                    out_score[row] = score
                    row += np.uint64(is_match)
                elif is_match and not score < worst:
                    offer_match(best, heap, np.int64(slots[record]), score, ids)
                    worst = best_score[heap, 0] if best_size[heap] == top else -np.inf
        if row > first_row:
            out.step[n_runs], out.rank[n_runs] = event, first_row
            n_runs += 1
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = LACKING
    out.progress[N_ROWS], out.progress[N_RUNS] = row, n_runs
    return end


@lean_kernel
def match_events(
    part: AccessColumns,
    events: EventColumns,
    begin: int,
    end: int,
    kind: int,
    visits: Visits,
    best: Best,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches of some events, or their best into `best`, which has a heap for each from `begin` on.

    `kind` is SUM … PRODUCT: how weights make a score.

    False: `out` is too full, grow it and call again.
    """
    while out.progress[EVENT] < end:
        until, n_visits = find_visits(part, events, out.progress[EVENT], end, kind, visits)
        order_visits(part.blocks.by_reach, n_visits, visits)
        first = out.progress[VISIT]
        out.progress[VISIT] = make_visits(part, events, visits, first, n_visits, best, begin, kind, ids, out)
        if out.progress[VISIT] < n_visits:
            return False
        out.progress[EVENT] = until
        out.progress[VISIT] = 0
    return True
