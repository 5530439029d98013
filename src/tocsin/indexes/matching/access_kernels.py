"""Kernels of the access index: events against a part.

An event visits the blocks whose access key it has and whose hull it meets. There its values are compared
with the cells of each column, many records at a time, and what is left are its candidates; where cells are
coarser than codes, packed predicates decide.
Visits are made block by block, not event by event: what a block keeps stays in the cache for all of its
visitors.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Longs
from tocsin.indexes.matching.access_layout_kernels import (
    BLOCK,
    CELL_GUARDS,
    COLUMN_BITS,
    GROUP,
    GUARDS,
    KEY_SHIFT,
    LACKING,
    WORD_COLUMNS,
    AccessColumns,
    RecordColumns,
    Tests,
    Visits,
    Words,
    cell_of,
    high_of,
    key_of,
    low_of,
    pack_cells,
)
from tocsin.indexes.matching.access_report_kernels import Desk, sort_chunk
from tocsin.indexes.matching.access_visit_kernels import cut_chunks, find_visits, order_visits
from tocsin.indexes.matching.common_kernels import (
    EVENT,
    N_ROWS,
    N_RUNS,
    PRODUCT,
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
)
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.names_kernels import Whole

#: Place in `Matches.progress`: the first chunk of the events in hand that is not yet done.
CHUNK_IN_HAND = 1
#: What `match_events` answers: all is done, or the desk or the report is too full.
DONE = 0
DESK_FULL = 1
FULL = 2
#: Words of cells that are compared together.
WORDS = 4
#: Every second bit, every second pair, every second four; and a one in every byte.
ODD_BITS = 0x5555555555555555
ODD_PAIRS = 0x3333333333333333
ODD_FOURS = 0x0F0F0F0F0F0F0F0F
ONES = 0x0101010101010101


@lean_kernel
def count_bits(word: np.uint64) -> np.uint64:
    """How many bits of a word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(ODD_BITS))
    word = (word & np.uint64(ODD_PAIRS)) + ((word >> np.uint64(2)) & np.uint64(ODD_PAIRS))
    word = (word + (word >> np.uint64(4))) & np.uint64(ODD_FOURS)
    return (word * np.uint64(ONES)) >> np.uint64(56)


@lean_kernel
def cells_of(columns: Records, word: np.uint32, laid: Longs) -> np.uint64:
    """The cells of the event laid out, of the columns of a word."""
    cells = np.uint64(CELL_GUARDS)
    for share in range(np.uint32(WORD_COLUMNS)):
        column = columns[np.uint32(WORD_COLUMNS) * word + share]
        base, shift, code = np.int64(column["low"]), np.int64(column["shift"]), laid[np.uint32(column["key"])]
        pair = pack_cells(cell_of(low_of(code), base, shift), cell_of(high_of(code), base, shift))
        cells |= pair << np.uint64(COLUMN_BITS * share)
    return cells


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
def write_sure(
    records: RecordColumns, base: np.uint64, n_groups: np.uint64, met: Words, row: np.uint64, out: Matches
) -> np.uint64:
    """Write the records met that cells decide, and leave the bits of the others. Returns the row after."""
    # On its own, so that all it needs stays in registers: this is done once for every match.
    sure, slots, scores, one = records.is_sure, records.slot, records.score, np.uint64(1)
    out_slot, out_score = out.subscription, out.score
    for group in range(n_groups):
        left, others, origin = met[group], np.uint64(0), base + np.uint64(GROUP) * group
        while left != np.uint64(0):
            lone = left & (~left + one)
            left ^= lone
            record = origin + count_bits(lone - one)
            # Always written, kept if it counts: which ones do cannot be predicted.
            out_slot[row], out_score[row] = slots[record], scores[record]
            row += np.uint64(sure[record])
            others |= lone * np.uint64(not sure[record])
        met[group] = others
    return row


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

    The matches of a visit are a *run*: `out.step` has the event of each run, as a place in its chunk, and
    `out.rank` its first row.
    """
    # One nest of loops over local names: functions in it, and columns looked up in it, would cost more than
    # what they do. Unsigned indexes: a signed one may be negative, which costs a check at each use.
    blocks, records, tests = part.blocks, part.records, part.tests
    columns, cells, alive = blocks.columns, blocks.cells, blocks.alive
    block_reach, block_sieve, sieves, record_of = blocks.reach, blocks.sieve, blocks.sieves, blocks.record
    first, predicate, weight, slots = records.first, records.predicate, records.weight, records.slot
    scores, reach, sure, is_tested = records.score, records.reach, records.is_sure, tests.first.shape[0] > 0
    first_value, keys, codes, laid = visits.first_value, visits.value_key, visits.value_code, visits.laid_code
    laid_value, value_entry, event_weight = visits.laid_value, visits.value_entry, events.weight
    visit_event, visit_block, even, bounding = visits.event, visits.block, visits.is_even, visits.greatest
    out_slot, out_score, best_size, best_score = out.subscription, out.score, best.size, best.score
    top, one, nothing, absences = best.slot.shape[1], np.uint64(1), np.uint64(0), visits.absent
    met, words = visits.met, blocks.word
    row, n_runs = np.uint64(out.progress[N_ROWS]), out.progress[N_RUNS]
    most_rows = np.uint64(out.step.shape[0])
    for visit in range(begin, end):
        if top == 0 and row + np.uint64(BLOCK) > most_rows:
            end = visit
            break
        event, block = np.int64(visit_event[visit]), np.uint32(visit_block[visit])
        heap, greatest, worst, first_row = event - first_event, bounding[event], -np.inf, row
        base_record = np.uint64(record_of[block])
        n_groups = np.uint64(record_of[block + np.uint32(1)]) - base_record
        n_groups = (n_groups + np.uint64(GROUP - 1)) // np.uint64(GROUP)
        if top > 0 and best_size[heap] == top:
            worst = best_score[heap, 0]
            if block_reach[block] * greatest < worst:
                continue
            while reach[base_record + np.uint64(GROUP) * (n_groups - one)] * greatest < worst:
                n_groups -= one
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = codes[number]
            laid_value[np.uint32(keys[number])] = number
        # First the cells of the block, a few words of them at a time.
        for group in range(n_groups):
            met[group] = alive[block, group]
        some, word, last = one, np.uint32(words[block]), np.uint32(words[block + np.uint32(1)])
        while word < last and some != nothing:
            second, third = (
                min(np.uint32(word + 1), np.uint32(last - 1)),
                min(np.uint32(word + 2), np.uint32(last - 1)),
            )
            fourth = min(np.uint32(word + 3), np.uint32(last - 1))
            value, value2 = cells_of(columns, word, laid), cells_of(columns, second, laid)
            value3, value4 = cells_of(columns, third, laid), cells_of(columns, fourth, laid)
            some = nothing
            for group in range(n_groups):
                left = nothing
                for bit in range(np.uint64(GROUP)):
                    place = np.uint64(GROUP) * group + bit
                    guards = (value - cells[word, place]) & (value2 - cells[second, place])
                    guards &= (value3 - cells[third, place]) & (value4 - cells[fourth, place])
                    is_met = guards & np.uint64(CELL_GUARDS) == np.uint64(CELL_GUARDS)
                    left |= np.uint64(is_met) << bit
                met[group] &= left
                some |= met[group]
            word = np.uint32(word + WORDS)
        if block_sieve[block] >= 0 and some != nothing:
            sieve, absent = np.uint32(block_sieve[block]), absences[event]
            for group in range(n_groups):
                left = nothing
                for bit in range(np.uint64(GROUP)):
                    is_met = (sieves[sieve, np.uint64(GROUP) * group + bit] & absent) == 0
                    left |= np.uint64(is_met) << bit
                met[group] &= left
        # Then what they leave.
        is_even = even[event]
        # Mostly all records of a block are sure, or none is: the first one tells.
        if top == 0 and is_even and some != nothing and sure[base_record]:
            row = write_sure(records, base_record, n_groups, met, row, out)
        for group in range(n_groups if some != nothing else nothing):
            left, origin = met[group], np.uint64(GROUP) * group
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
            out.step[n_runs], out.rank[n_runs] = visits.local[event], first_row
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
    desk: Desk,
    out: Matches,
) -> int:
    """All matches of some events, a run by slot for each; or their best into `best`, a heap for each.

    `kind` is SUM … PRODUCT: how weights make a score. Heaps are those of events from `begin` on.
    DESK_FULL, FULL: grow the desk or `out`, and call again.
    """
    found = desk.found
    while out.progress[EVENT] < end:
        first = out.progress[EVENT]
        until, n_visits = find_visits(part, events, first, end, kind, visits)
        n_chunks = cut_chunks(first, until, visits)
        order_visits(part.blocks.by_reach, n_visits, n_chunks, visits)
        while out.progress[CHUNK_IN_HAND] < n_chunks:
            chunk = out.progress[CHUNK_IN_HAND]
            last = visits.chunk_visit[chunk + 1]
            found.progress[:] = 0
            if (
                make_visits(
                    part, events, visits, visits.chunk_visit[chunk], last, best, begin, kind, ids, found
                )
                < last
            ):
                return DESK_FULL
            if out.progress[N_ROWS] + found.progress[N_ROWS] > out.step.shape[0]:
                return FULL
            if found.progress[N_ROWS] > 0:
                here, behind = visits.chunk_event[chunk], visits.chunk_event[chunk + 1]
                sort_chunk(desk, visits.ordered, here, behind, out)
            out.progress[CHUNK_IN_HAND] += 1
        out.progress[EVENT] = until
        out.progress[CHUNK_IN_HAND] = 0
    return DONE
