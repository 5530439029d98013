"""Kernels of the access index: events against a part.

An event visits the blocks whose access key it has and whose hull it meets. There its values are compared
with the cells of each column, many records at a time, and what is left are its candidates; where cells are
coarser than codes, packed predicates decide.
Visits are made block by block, not event by event: what a block keeps stays in the cache for all of its
visitors.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Longs
from tocsin.indexes.matching.access_head_kernels import passes_tests, try_heads, weigh_record
from tocsin.indexes.matching.access_layout_kernels import (
    CELL_GUARDS,
    COLUMN_BITS,
    GROUP,
    GUARDS,
    KEY_SHIFT,
    LACKING,
    OPEN,
    WORD_COLUMNS,
    AccessColumns,
    Visits,
    cell_of,
    high_of,
    low_of,
    pack_cells,
)
from tocsin.indexes.matching.access_report_kernels import Desk, place_rows
from tocsin.indexes.matching.access_visit_kernels import cut_chunks, find_visits, order_visits
from tocsin.indexes.matching.cells import met_cells
from tocsin.indexes.matching.common_kernels import (
    EVENT,
    N_ROWS,
    N_RUNS,
    Best,
    EventColumns,
    IdOrder,
    Matches,
    Records,
    count_bits,
    offer_match,
)
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.lanes import read_alone
from tocsin.indexes.shared.names_kernels import Whole

#: Place in `Matches.progress`: how many rows the desk or the report should have had.
MISSING = 1
#: What `match_events` answers: all is done, or the desk or the report is too full.
DONE = 0
DESK_FULL = 1
FULL = 2
#: Where no more records of a block than this can be among the best, cells are not worth their while.
HEAD = 16
HEAD_BITS = (1 << HEAD) - 1
#: Of so few best, most are found in the heads of blocks.
FEW_BEST = 16


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
def sift_visits(
    part: AccessColumns,
    events: EventColumns,
    visits: Visits,
    n_visits: Whole,
    best: Best,
    first_event: int,
    kind: int,
    ids: IdOrder,
) -> None:
    """Look into blocks: the records that match become bits of `visits.met`, or go into heaps."""
    # One nest of loops over local names: functions in it, and columns looked up in it, would cost more than
    # what they do. Unsigned indexes: a signed one may be negative, which costs a check at each use.
    blocks, records, tests = part.blocks, part.records, part.tests
    columns, cells, alive, sure = blocks.columns, blocks.cells, blocks.alive, blocks.sure
    block_reach, is_sieved, sieve, record_of = blocks.reach, blocks.is_sieved, records.sieve, blocks.record
    first, predicate, slots = records.first, records.predicate, records.slot
    scores, reach, is_tested = records.score, records.reach, tests.first.shape[0] > 0
    first_value, keys, codes, laid = visits.first_value, visits.value_key, visits.value_code, visits.laid_code
    laid_value, n_looked = visits.laid_value, visits.n_looked
    visit_event, visit_block, even, bounding = visits.event, visits.block, visits.is_even, visits.greatest
    best_size, best_score, n_found, absences = best.size, best.score, visits.n_found, visits.absent
    top, one, nothing, met, words = best.slot.shape[1], np.uint64(1), np.uint64(0), visits.met, blocks.word
    for visit in range(np.uint64(n_visits)):
        event, block = np.int64(visit_event[visit]), np.uint32(visit_block[visit])
        # Of the best, nothing is left to be written later.
        spot = visit if top == 0 else nothing
        heap, greatest, worst = event - first_event, bounding[event], -np.inf
        base_record, end_record = np.uint64(record_of[block]), np.uint64(record_of[block + np.uint32(1)])
        looked, is_short = nothing, False
        if 0 < top <= FEW_BEST and n_found[event] < OPEN:
            # The visits of an event come by reach, as its blocks were opened.
            looked = np.uint64(n_looked[event, n_found[event]])
            n_found[event] += 1
        if top > 0 and best_size[heap] == top:
            worst, beyond = best_score[heap, 0], base_record + looked + np.uint64(HEAD)
            if block_reach[block] * greatest < worst:
                continue
            is_short = bool(beyond >= end_record or reach[beyond] * greatest < worst)
            # All in the first word of bits.
            is_short = bool(is_short and looked <= np.uint64(GROUP - HEAD))
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = codes[number]
            laid_value[np.uint32(keys[number])] = number
        some, word, last = one, np.uint32(words[block]), np.uint32(words[block + np.uint32(1)])
        if is_short:
            # So few are held against their predicates at once: all other columns stay where they are.
            n_groups, word = one, last
            met[spot, 0] = alive[block, 0] & (np.uint64(HEAD_BITS) << looked)
        else:
            n_groups = (end_record - base_record + np.uint64(GROUP - 1)) // np.uint64(GROUP)
            while top > 0 and reach[base_record + np.uint64(GROUP) * (n_groups - one)] * greatest < worst:
                n_groups -= one
            for group in range(n_groups):
                met[spot, group] = alive[block, group]
            for group in range(looked // np.uint64(GROUP)):
                met[spot, group] = nothing
            if looked % np.uint64(GROUP) != nothing:
                met[spot, looked // np.uint64(GROUP)] &= ~((one << (looked % np.uint64(GROUP))) - one)
        # First the cells of the block, a word of them after the other.
        while word < last and some != nothing:
            value, some = cells_of(columns, word, laid), nothing
            for group in range(n_groups):
                met[spot, group] &= met_cells(cells, word, np.uint64(GROUP) * group, value)
                some |= met[spot, group]
            word = np.uint32(word + 1)
        if is_sieved[block] and some != nothing and not is_short:
            absent = absences[event]
            for group in range(n_groups):
                left = nothing
                for bit in range(np.uint64(GROUP)):
                    is_met = (sieve[base_record + np.uint64(GROUP) * group + bit] & absent) == 0
                    left |= np.uint64(is_met) << bit
                met[spot, group] &= left
        # Then what they leave: of all, those that cells do not decide; of the best, each by reach.
        is_even = even[event]
        for group in range(n_groups if some != nothing else nothing):
            origin = base_record + np.uint64(GROUP) * group
            left = met[spot, group] if top > 0 else met[spot, group] & ~sure[block, group]
            while left != nothing:
                lone = left & (~left + one)
                left ^= lone
                record = origin + count_bits(lone - one)
                if top > 0 and reach[record] * greatest < worst:
                    break
                is_match = True
                if is_short or sure[block, group] & lone == nothing:
                    # Nothing stops at the first that fails: most candidates have none.
                    guards = np.int64(GUARDS)
                    for number in range(np.uint32(first[record]), np.uint32(first[record + one])):
                        packed = read_alone(predicate, np.uint64(number))
                        guards &= packed - laid[np.uint64(packed) >> np.uint64(KEY_SHIFT)]
                    is_match = guards == GUARDS
                    if is_tested and is_match:
                        is_match = passes_tests(tests, record, predicate, events, visits)
                if top == 0:
                    met[spot, group] ^= lone * np.uint64(not is_match)
                elif is_match:
                    score = scores[record]
                    if not is_even:
                        score = weigh_record(records, record, events, visits, kind)
                    if not score < worst:
                        offer_match(best, heap, np.int64(slots[record]), score, ids)
                        worst = best_score[heap, 0] if best_size[heap] == top else -np.inf
            if top == 0:
                n_found[event] += np.int64(count_bits(met[spot, group]))
        for number in range(first_value[event], first_value[event + 1]):
            laid[np.uint32(keys[number])] = LACKING


@lean_kernel
def weigh_visit(
    part: AccessColumns,
    events: EventColumns,
    visits: Visits,
    visit: Whole,
    kind: int,
    row: np.uint64,
    out_score: Floats,
) -> None:
    """Write the scores of a visit's matches, from `row` on, for an event with weights of its own."""
    records, event, block = part.records, visits.event[visit], visits.block[visit]
    base, one = np.uint64(part.blocks.record[block]), np.uint64(1)
    n_groups = (np.uint64(part.blocks.record[block + 1]) - base + np.uint64(GROUP - 1)) // np.uint64(GROUP)
    for number in range(visits.first_value[event], visits.first_value[event + 1]):
        visits.laid_value[visits.value_key[number]] = number
    for group in range(n_groups):
        left = visits.met[visit, group]
        while left != np.uint64(0):
            lone = left & (~left + one)
            left ^= lone
            record = base + np.uint64(GROUP) * group + count_bits(lone - one)
            out_score[row] = weigh_record(records, record, events, visits, kind)
            row += one


@lean_kernel
def write_chunk(
    part: AccessColumns, events: EventColumns, visits: Visits, chunk: Whole, kind: int, desk: Desk
) -> None:
    """Write the matches of a chunk's visits on the desk, those of an event from its row on."""
    record_of, slots, scores, one = part.blocks.record, part.records.slot, part.records.score, np.uint64(1)
    visit_event, visit_block, met, rows = visits.event, visits.block, visits.met, visits.desk_row
    even, out_slot, out_score = visits.is_even, desk.slot, desk.score
    for visit in range(np.uint64(visits.chunk_visit[chunk]), np.uint64(visits.chunk_visit[chunk + 1])):
        event, block, row = visit_event[visit], visit_block[visit], np.uint64(rows[visit_event[visit]])
        base = np.uint64(record_of[block])
        n_groups = (np.uint64(record_of[block + 1]) - base + np.uint64(GROUP - 1)) // np.uint64(GROUP)
        for group in range(n_groups):
            left, origin = met[visit, group], base + np.uint64(GROUP) * group
            while left != np.uint64(0):
                lone = left & (~left + one)
                left ^= lone
                record = origin + count_bits(lone - one)
                out_slot[row], out_score[row] = slots[record], scores[record]
                row += one
        if not even[event]:
            weigh_visit(part, events, visits, visit, kind, np.uint64(rows[event]), out_score)
        rows[event] = row


@lean_kernel
def report_events(
    part: AccessColumns,
    events: EventColumns,
    begin: Whole,
    until: Whole,
    n_chunks: Whole,
    visits: Visits,
    kind: int,
    desk: Desk,
    out: Matches,
) -> int:
    """Write the matches of events by event and slot, a run for each. FULL, DESK_FULL: nothing is written."""
    n_rows = np.int64(0)
    for event in range(begin, until):
        n_rows += visits.n_found[event]
    if out.progress[N_ROWS] + n_rows > out.step.shape[0]:
        out.progress[MISSING] = out.progress[N_ROWS] + n_rows
        return FULL
    most = np.int64(0)
    for chunk in range(n_chunks):
        row = np.int64(0)
        for place in range(visits.chunk_event[chunk], visits.chunk_event[chunk + 1]):
            row += visits.n_found[visits.ordered[place]]
        most = max(most, row)
    if most > desk.slot.shape[0]:
        out.progress[MISSING] = most
        return DESK_FULL
    for event in range(begin, until):
        if visits.n_found[event] > 0:
            out.step[out.progress[N_RUNS]], out.rank[out.progress[N_RUNS]] = event, out.progress[N_ROWS]
            out.progress[N_RUNS] += 1
        visits.row[event] = out.progress[N_ROWS]
        out.progress[N_ROWS] += visits.n_found[event]
    for chunk in range(n_chunks):
        here, behind = visits.chunk_event[chunk], visits.chunk_event[chunk + 1]
        row = np.int64(0)
        for place in range(here, behind):
            event = visits.ordered[place]
            visits.desk_row[event] = row
            row += visits.n_found[event]
        write_chunk(part, events, visits, chunk, kind, desk)
        for place in range(here, behind):
            event = visits.ordered[place]
            size = visits.n_found[event]
            place_rows(
                desk, visits.desk_row[event] - size, size, visits.row[event], out.subscription, out.score
            )
    return DONE


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
    DESK_FULL, FULL: let the desk or `out` have the rows that are MISSING, and call again.
    """
    while out.progress[EVENT] < end:
        first = out.progress[EVENT]
        until, n_visits = find_visits(part, events, first, end, kind, visits)
        if 0 < best.slot.shape[1] <= FEW_BEST:
            # Events alike after each other: they look at the same heads.
            cut_chunks(first, until, visits)
            n_visits = try_heads(part, events, visits, first, until, best, begin, kind, ids)
        n_chunks = cut_chunks(first, until, visits)
        order_visits(part.blocks.by_reach, n_visits, n_chunks, visits)
        sift_visits(part, events, visits, n_visits, best, begin, kind, ids)
        if best.slot.shape[1] == 0:
            status = report_events(part, events, first, until, n_chunks, visits, kind, desk, out)
            if status != DONE:
                return status
        out.progress[EVENT] = until
    return DONE
