"""Kernels that match events against a segment of the access index.

An event visits the blocks whose access key it has and whose hull it meets. There its values are compared with
the cells of each column, many records at a time, which leaves the event's candidates; where cells are coarser
than codes, packed predicates decide.
Visits go block by block, not event by event, so that a block stays in the cache for all of its visitors.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.matching.access.cells import compare_cells
from tocsin.indexes.matching.access.layout_kernels import (
    CELL_GUARDS,
    COLUMN_BITS,
    GROUP,
    LACKING,
    OPEN,
    WORD_COLUMNS,
    AccessColumns,
    Visits,
    Words,
    cell_of,
    high_of,
    low_of,
    pack_cells,
)
from tocsin.indexes.matching.access.visit_kernels import (
    cut_chunks,
    find_visits,
    meets_predicates,
    order_visits,
    passes_tests,
    score_record,
    search_heads,
)
from tocsin.indexes.matching.common_kernels import count_bits
from tocsin.indexes.matching.layout import (
    EVENT,
    N_ROWS,
    N_RUNS,
    EventColumns,
    IdOrder,
    Matches,
    MatchHeaps,
    Records,
)
from tocsin.indexes.matching.report_kernels import MatchSortBuffer, place_rows
from tocsin.indexes.matching.score_kernels import offer_match
from tocsin.kernels.status import DONE, FULL, SORT_FULL

#: Place in `Matches.progress`: rows that the sort buffer or the report should have had.
ROWS_NEEDED = 1
#: If no more records of a block than this can be among the best, cells do not pay off.
HEAD = 16
HEAD_BITS = (1 << HEAD) - 1
#: Up to this many best matches, most are found in the heads of blocks.
SMALL_TOP = 16


@lean_kernel
def cells_of(columns: Records, word: np.uint32, expanded: Longs) -> np.uint64:
    """The cells of the expanded event, for the columns of a word."""
    cells = np.uint64(CELL_GUARDS)
    for share in range(np.uint32(WORD_COLUMNS)):
        column = columns[np.uint32(WORD_COLUMNS) * word + share]
        base, shift = np.int64(column["low"]), np.int64(column["shift"])
        code = expanded[np.uint32(column["key"])]
        pair = pack_cells(cell_of(low_of(code), base, shift), cell_of(high_of(code), base, shift))
        cells |= pair << np.uint64(COLUMN_BITS * share)
    return cells


@inlined
def start_candidates(
    matched: Words, row: np.uint64, alive: Words, block: np.uint32, n_groups: np.uint64, examined: np.uint64
) -> None:
    """Make the live records of a block candidates, but for the first `examined` ones."""
    for group in range(n_groups):
        matched[row, group] = alive[block, group]
    for group in range(examined // np.uint64(GROUP)):
        matched[row, group] = np.uint64(0)
    rest = examined % np.uint64(GROUP)
    if rest != np.uint64(0):
        matched[row, examined // np.uint64(GROUP)] &= ~((np.uint64(1) << rest) - np.uint64(1))


@lean_kernel
def filter_visits(
    segment: AccessColumns,
    events: EventColumns,
    visits: Visits,
    n_visits: Whole,
    best: MatchHeaps,
    first_event: int,
    kind: int,
    ids: IdOrder,
) -> None:
    """Match events with the blocks they visit: into bits of `lists.matched`, or of the best, into heaps."""
    # One nest of loops over local names: calls in it, and columns looked up in it, would cost more than what
    # they do. Unsigned indexes: a signed one may be negative, which costs a check at each use. Columns that
    # are written are assigned three at a time, at most: see `find_visits`.
    blocks, records, tests = segment.blocks, segment.records, segment.tests
    codes, lists = visits.codes, visits.lists
    columns, cells, alive, exact = blocks.columns, blocks.cells, blocks.alive, blocks.exact
    block_bound, needs_bloom, record_of, words = (
        blocks.score_bound,
        blocks.needs_bloom,
        blocks.record,
        blocks.word,
    )
    first, predicate, slots, bloom = records.first, records.predicate, records.slot, records.bloom
    scores, score_bound, is_tested = records.score, records.score_bound, tests.first.shape[0] > 0
    first_value, keys, value_code = codes.first_value, codes.value_key, codes.value_code
    expanded, expanded_value, unweighted = codes.expanded_code, codes.expanded_value, codes.is_unweighted
    visit_event, visit_block, matched = lists.event, lists.block, lists.matched
    weight_bounds, absences, n_examined = codes.weight_bound, codes.absent, visits.heads.n_examined
    best_size, best_score, n_found = best.size, best.score, visits.chunks.n_found
    top, one, nothing = best.slot.shape[1], np.uint64(1), np.uint64(0)
    for visit in range(np.uint64(n_visits)):
        event, block = np.int64(visit_event[visit]), np.uint32(visit_block[visit])
        # Of the best, no bits are read later: one row serves all visits.
        row = np.uint64(visit) if top == 0 else nothing
        heap, weight_bound, worst = event - first_event, weight_bounds[event], -np.inf
        base_record, end_record = np.uint64(record_of[block]), np.uint64(record_of[block + np.uint32(1)])
        examined, is_short = nothing, False
        if 0 < top <= SMALL_TOP and n_found[event] < OPEN:
            # Blocks of an event are visited in descending score upper bound, as they were opened.
            examined = np.uint64(n_examined[event, n_found[event]])
            n_found[event] += 1
        if top > 0 and best_size[heap] == top:
            worst, beyond = best_score[heap, 0], base_record + examined + np.uint64(HEAD)
            if block_bound[block] * weight_bound < worst:
                continue
            is_short = bool(beyond >= end_record or score_bound[beyond] * weight_bound < worst)
            # All in the first word of bits.
            is_short = bool(is_short and examined <= np.uint64(GROUP - HEAD))
        for number in range(first_value[event], first_value[event + 1]):
            expanded[np.uint32(keys[number])] = value_code[number]
            expanded_value[np.uint32(keys[number])] = number
        some, word, last = one, np.uint32(words[block]), np.uint32(words[block + np.uint32(1)])
        n_groups = one
        if is_short:
            # So few are compared with their predicates at once, and columns are not read.
            word = last
            matched[row, 0] = alive[block, 0] & (np.uint64(HEAD_BITS) << examined)
        else:
            n_groups = (end_record - base_record + np.uint64(GROUP - 1)) // np.uint64(GROUP)
            while (
                top > 0
                and score_bound[base_record + np.uint64(GROUP) * (n_groups - one)] * weight_bound < worst
            ):
                n_groups -= one
            start_candidates(matched, row, alive, block, n_groups, examined)
        # First the cells of the block, one word of them after the other.
        while word < last and some != nothing:
            value, some = cells_of(columns, word, expanded), nothing
            for group in range(n_groups):
                matched[row, group] &= compare_cells(cells, word, np.uint64(GROUP) * group, value)
                some |= matched[row, group]
            word = np.uint32(word + 1)
        if needs_bloom[block] and some != nothing and not is_short:
            absent = absences[event]
            for group in range(n_groups):
                left = nothing
                for bit in range(np.uint64(GROUP)):
                    is_met = (bloom[base_record + np.uint64(GROUP) * group + bit] & absent) == 0
                    left |= np.uint64(is_met) << bit
                matched[row, group] &= left
        # Then the candidates: for all matches, those that cells do not decide; for the best, each in order.
        is_unweighted = unweighted[event]
        for group in range(n_groups if some != nothing else nothing):
            origin = base_record + np.uint64(GROUP) * group
            left = matched[row, group] if top > 0 else matched[row, group] & ~exact[block, group]
            while left != nothing:
                lowest = left & (~left + one)
                left ^= lowest
                record = origin + count_bits(lowest - one)
                if top > 0 and score_bound[record] * weight_bound < worst:
                    break
                is_match = True
                if is_short or exact[block, group] & lowest == nothing:
                    is_match = meets_predicates(
                        predicate, np.uint32(first[record]), np.uint32(first[record + one]), expanded
                    )
                    if is_tested and is_match:
                        is_match = passes_tests(tests, record, predicate, events, codes)
                if top == 0:
                    matched[row, group] ^= lowest * np.uint64(not is_match)
                elif is_match:
                    score = scores[record]
                    if not is_unweighted:
                        score = score_record(records, record, events, codes, kind)
                    if not score < worst:
                        offer_match(best, heap, np.int64(slots[record]), score, ids)
                        worst = best_score[heap, 0] if best_size[heap] == top else -np.inf
            if top == 0:
                n_found[event] += np.int64(count_bits(matched[row, group]))
        for number in range(first_value[event], first_value[event + 1]):
            expanded[np.uint32(keys[number])] = LACKING


@lean_kernel
def score_visit(
    segment: AccessColumns,
    events: EventColumns,
    visits: Visits,
    visit: Whole,
    kind: int,
    row: np.uint64,
    out_score: Floats,
) -> None:
    """Write the scores of a visit's matches, from `row` on, for an event with weights of its own."""
    codes, lists, records = visits.codes, visits.lists, segment.records
    event, block = lists.event[visit], lists.block[visit]
    base, one = np.uint64(segment.blocks.record[block]), np.uint64(1)
    n_groups = (np.uint64(segment.blocks.record[block + 1]) - base + np.uint64(GROUP - 1)) // np.uint64(GROUP)
    for number in range(codes.first_value[event], codes.first_value[event + 1]):
        codes.expanded_value[codes.value_key[number]] = number
    for group in range(n_groups):
        left = lists.matched[visit, group]
        while left != np.uint64(0):
            lowest = left & (~left + one)
            left ^= lowest
            record = base + np.uint64(GROUP) * group + count_bits(lowest - one)
            out_score[row] = score_record(records, record, events, codes, kind)
            row += one


@lean_kernel
def write_chunk(
    segment: AccessColumns,
    events: EventColumns,
    visits: Visits,
    chunk: Whole,
    kind: int,
    sort_buffer: MatchSortBuffer,
) -> None:
    """Write the matches of a chunk's visits into the sort buffer, those of an event from its row on."""
    record_of, slots, scores = segment.blocks.record, segment.records.slot, segment.records.score
    lists, chunks, unweighted, one = visits.lists, visits.chunks, visits.codes.is_unweighted, np.uint64(1)
    visit_event, visit_block, matched, rows = lists.event, lists.block, lists.matched, chunks.buffer_row
    out_slot, out_score = sort_buffer.slot, sort_buffer.score
    for visit in range(np.uint64(chunks.chunk_visit[chunk]), np.uint64(chunks.chunk_visit[chunk + 1])):
        event, block, row = visit_event[visit], visit_block[visit], np.uint64(rows[visit_event[visit]])
        base = np.uint64(record_of[block])
        n_groups = (np.uint64(record_of[block + 1]) - base + np.uint64(GROUP - 1)) // np.uint64(GROUP)
        for group in range(n_groups):
            left, origin = matched[visit, group], base + np.uint64(GROUP) * group
            while left != np.uint64(0):
                lowest = left & (~left + one)
                left ^= lowest
                record = origin + count_bits(lowest - one)
                out_slot[row], out_score[row] = slots[record], scores[record]
                row += one
        if not unweighted[event]:
            score_visit(segment, events, visits, visit, kind, np.uint64(rows[event]), out_score)
        rows[event] = row


@lean_kernel
def report_events(
    segment: AccessColumns,
    events: EventColumns,
    begin: Whole,
    until: Whole,
    n_chunks: Whole,
    visits: Visits,
    kind: int,
    sort_buffer: MatchSortBuffer,
    out: Matches,
) -> int:
    """Write matches by event and slot, one run for each event. FULL, SORT_FULL: nothing is written."""
    chunks, n_found, n_rows = visits.chunks, visits.chunks.n_found, np.int64(0)
    for event in range(begin, until):
        n_rows += n_found[event]
    if out.progress[N_ROWS] + n_rows > out.step.shape[0]:
        out.progress[ROWS_NEEDED] = out.progress[N_ROWS] + n_rows
        return FULL
    most = np.int64(0)
    for chunk in range(n_chunks):
        row = np.int64(0)
        for place in range(chunks.chunk_event[chunk], chunks.chunk_event[chunk + 1]):
            row += n_found[chunks.ordered[place]]
        most = max(most, row)
    if most > sort_buffer.slot.shape[0]:
        out.progress[ROWS_NEEDED] = most
        return SORT_FULL
    for event in range(begin, until):
        if n_found[event] > 0:
            out.step[out.progress[N_RUNS]], out.rank[out.progress[N_RUNS]] = event, out.progress[N_ROWS]
            out.progress[N_RUNS] += 1
        chunks.row[event] = out.progress[N_ROWS]
        out.progress[N_ROWS] += n_found[event]
    for chunk in range(n_chunks):
        here, behind = chunks.chunk_event[chunk], chunks.chunk_event[chunk + 1]
        row = np.int64(0)
        for place in range(here, behind):
            event = chunks.ordered[place]
            chunks.buffer_row[event] = row
            row += n_found[event]
        write_chunk(segment, events, visits, chunk, kind, sort_buffer)
        for place in range(here, behind):
            event = chunks.ordered[place]
            size = n_found[event]
            first_row = chunks.buffer_row[event] - size
            place_rows(sort_buffer, first_row, size, chunks.row[event], out.subscription, out.score)
    return DONE


@lean_kernel
def match_events(
    segment: AccessColumns,
    events: EventColumns,
    begin: int,
    end: int,
    kind: int,
    visits: Visits,
    best: MatchHeaps,
    ids: IdOrder,
    sort_buffer: MatchSortBuffer,
    out: Matches,
) -> int:
    """All matches of some events, one run by slot for each; or their best into `best`, one heap for each.

    `kind` is SUM … PRODUCT: how weights make a score. Heaps are those of events from `begin` on.
    SORT_FULL, FULL: give the sort buffer or `out` ROWS_NEEDED rows, and call again.
    """
    while out.progress[EVENT] < end:
        first = out.progress[EVENT]
        until, n_visits = find_visits(segment, events, first, end, kind, visits)
        if 0 < best.slot.shape[1] <= SMALL_TOP:
            # Similar events follow each other: they examine the same heads.
            cut_chunks(first, until, visits.lists, visits.chunks)
            n_visits = search_heads(segment, events, visits, first, until, best, begin, kind, ids)
        n_chunks = cut_chunks(first, until, visits.lists, visits.chunks)
        order_visits(segment.blocks.by_score_bound, n_visits, n_chunks, visits.lists, visits.chunks)
        filter_visits(segment, events, visits, n_visits, best, begin, kind, ids)
        if best.slot.shape[1] == 0:
            status = report_events(segment, events, first, until, n_chunks, visits, kind, sort_buffer, out)
            if status != DONE:
                return status
        out.progress[EVENT] = until
    return DONE
