"""Kernels that list the blocks each event visits, order the visits, and search the heads of blocks.

The best few matches of an event come from the *heads* of blocks. Records of a block are by descending score
bound, so the best matches are found soonest if records are examined by score bound over all blocks that the
event visits: one block is *opened* after the other, and the next record is the one with the highest bound
among the first unexamined records of the open blocks. Where a good share of the visited records match, a few
records suffice, and nothing else of a block is read.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.intrinsics import prefetch, read_scalar
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Ints, Longs
from tocsin.indexes.matching.access.bound_kernels import PredicateBounds, count_at_most, count_below, is_bound
from tocsin.indexes.matching.access.layout_kernels import (
    ALWAYS,
    BLOOM_BITS,
    GUARDS,
    KEY_SHIFT,
    LACKING,
    OPEN,
    SPREAD,
    SPREAD_MASK,
    AccessColumns,
    Chunks,
    EventCodes,
    RecordColumns,
    Tests,
    VisitLists,
    Visits,
    bit_of,
    high_of,
    key_of,
    low_of,
    pack_value,
)
from tocsin.indexes.matching.common_kernels import count_bits, passes_test, read_prefix
from tocsin.indexes.matching.layout import KINDS, PRODUCT, TEXT, EventColumns, IdOrder, MatchHeaps, Value
from tocsin.indexes.matching.score_kernels import add_term, offer_match

#: Scores round in another order than their bounds: this factor always covers the difference.
ROUNDING = 1.0 + 1e-9
#: Visits of a chunk: its matches should stay in the cache until they are sorted.
CHUNK = 1 << 12
#: Records examined without a match, for each match found and before the first one, until cells pay off.
PATIENCE = 128
#: Blocks of an event whose heads are prefetched; events prefetched at a time; packed predicates of a cache
#: line.
PREFETCH_BLOCKS = 4
PREFETCH_EVENTS = 8
LINE_PREDICATES = 8
#: Stands in `BlockHeads.n_examined` for an event that has all its best matches.
FINISHED = -1


@inlined
def encode_event(
    bounds: PredicateBounds, events: EventColumns, event: Whole, kind: int, codes: EventCodes
) -> None:
    """Write the codes of an event's values, and the upper bound of its weights."""
    number = codes.first_value[event]
    greatest, is_unweighted, is_bounding, present, keys = 1.0, True, True, np.uint32(0), np.uint64(0)
    for entry in range(events.offsets[event], events.offsets[event + 1]):
        known, of = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
        low, high = events.low[entry], events.high[entry]
        if known < 0 or not low <= high:
            continue
        key = KINDS * known + of
        if bounds.first[key] == bounds.first[key + 1]:
            continue
        if of == TEXT:
            low = read_prefix(events.heap, events.text_start[entry], np.int64(events.text_length[entry]))
            high = low
        first = count_below(bounds, key, low)
        # A value equals one bound at most; a range may hold any number of them.
        last = first if is_bound(bounds, key, first, low) else first - 1
        if low < high:
            last = count_at_most(bounds, key, high) - 1
        codes.value_key[number], codes.value_entry[number] = key, entry
        codes.value_code[number] = pack_value(first, last)
        number += 1
        present |= np.uint32(1) << np.uint32(key % BLOOM_BITS)
        keys |= bit_of(key)
        weight = events.weight[entry]
        is_unweighted &= weight == 1.0
        greatest = max(greatest, weight * ROUNDING) if weight >= 0.0 else np.inf
        # A product multiplies by a weight once for each predicate: how often is not known here.
        is_bounding &= kind != PRODUCT or weight <= 1.0
    codes.first_value[event + 1] = number
    codes.weight_bound[event] = 1.0 if is_unweighted else (greatest if is_bounding else np.inf)
    codes.is_unweighted[event] = is_unweighted
    codes.absent[event] = ~present
    codes.keys[event] = keys


@lean_kernel
def find_visits(
    segment: AccessColumns, events: EventColumns, begin: Whole, end: int, kind: int, visits: Visits
) -> tuple[Whole, Whole]:
    """List the blocks that events visit, from event `begin` on, until the capacity is used up.

    An event visits the blocks whose hulls it meets, if it has enough of the keys of their records. Returns
    the event after the last one listed, and the number of visits: `lists` has their events, and the ranks of
    their blocks by score bound.
    """
    # Unsigned indexes: a signed one may be negative, which costs a check at each use. Columns that are
    # written are assigned three at a time, at most: beyond, the compiler builds a tuple, takes its arrays for
    # the kernel's own if a function is inlined, and drops what is written to them.
    partitions, blocks = segment.partitions, segment.blocks
    codes, lists = visits.codes, visits.lists
    value_code, value_keys, expanded = codes.value_code, codes.value_key, codes.expanded_code
    first, hull_low, hull_high, hull_key = partitions.first, partitions.low, partitions.high, partitions.key
    first_block, place, n_blocks = partitions.block, blocks.place, np.uint64(blocks.low.shape[0])
    block_low, block_high, block_keys, min_keys = blocks.low, blocks.high, blocks.keys, blocks.min_keys
    found_event, found_place, capacity = lists.event, lists.block, np.uint64(lists.event.shape[0])
    n_visits, event, one = np.uint64(0), begin, np.uint32(1)
    while event < end and n_visits + n_blocks < capacity:
        encode_event(segment.bounds, events, event, kind, codes)
        visits.chunks.n_found[event] = 0
        first_visit, keys = n_visits, codes.keys[event]
        for block in range(np.uint32(first_block[0]), np.uint32(first_block[first[ALWAYS + 1]])):
            found_place[n_visits] = place[block]
            n_visits += np.uint64(1)
        values = range(np.uint64(codes.first_value[event]), np.uint64(codes.first_value[event + 1]))
        for number in values:
            expanded[np.uint32(value_keys[number])] = value_code[number]
        for number in values:
            key = np.uint32(value_keys[number])
            low, high = high_of(value_code[number]), low_of(value_code[number])
            for partition in range(np.uint32(first[key]), np.uint32(first[key + one])):
                if low > hull_high[partition] or hull_low[partition] > high:
                    continue
                code = expanded[np.uint32(hull_key[partition])]
                block_first, block_last = high_of(code), low_of(code)
                for block in range(
                    np.uint32(first_block[partition]), np.uint32(first_block[partition + one])
                ):
                    # Always written, kept if it counts: a branch here could not be predicted.
                    found_place[n_visits] = place[block]
                    is_met = (block_first <= block_high[block]) & (block_low[block] <= block_last)
                    # The event has all keys of a matching record: as many bits in common as the record sets.
                    is_met &= count_bits(block_keys[block] & keys) >= np.uint64(min_keys[block])
                    n_visits += np.uint64(is_met)
        for number in values:
            expanded[np.uint32(value_keys[number])] = LACKING
        # The minimum of a hash: popular blocks are no likelier than others.
        signature, lowest = np.int64(n_blocks), np.int64(SPREAD_MASK)
        for visit in range(first_visit, n_visits):
            found_event[visit] = event
            hashed = (np.int64(found_place[visit]) * SPREAD) & SPREAD_MASK
            if hashed < lowest:
                signature, lowest = np.int64(found_place[visit]), hashed
        lists.signature[event], lists.n_visits[event] = signature, n_visits - first_visit
        lists.first_visit[event] = first_visit
        event += 1
    return event, np.int64(n_visits)


@lean_kernel
def cut_chunks(begin: Whole, until: Whole, lists: VisitLists, chunks: Chunks) -> Whole:
    """Cut events into chunks of a bounded number of visits, events of equal signature together.

    Returns the number of chunks.
    """
    counts, signature, ordered, n_visits = lists.counts, lists.signature, chunks.ordered, lists.n_visits
    chunk_event, chunk_visit = chunks.chunk_event, chunks.chunk_visit
    counts[:] = 0
    for event in range(begin, until):
        counts[signature[event] + 1] += 1
    for block in range(1, counts.shape[0]):
        counts[block] += counts[block - 1]
    for event in range(begin, until):
        ordered[counts[signature[event]]] = event
        counts[signature[event]] += 1
    n_chunks, n_listed = np.int64(0), np.int64(0)
    chunk_event[0] = chunk_visit[0] = 0
    for place in range(until - begin):
        event = ordered[place]
        is_full = n_listed + n_visits[event] > chunk_visit[n_chunks] + CHUNK
        if n_listed > chunk_visit[n_chunks] and is_full:
            n_chunks += 1
            chunk_event[n_chunks], chunk_visit[n_chunks] = place, n_listed
        chunks.chunk[event] = n_chunks
        n_listed += n_visits[event]
    chunk_event[n_chunks + 1], chunk_visit[n_chunks + 1] = until - begin, n_listed
    return n_chunks + 1


@lean_kernel
def order_visits(
    by_score_bound: Ints, n_visits: Whole, n_chunks: Whole, lists: VisitLists, chunks: Chunks
) -> None:
    """Order visits by chunk, then by block in descending score bound, then by event."""
    counts, events, places, chunk_of = lists.counts, lists.event, lists.block, chunks.chunk
    counts[:] = 0
    for visit in range(n_visits):
        counts[places[visit] + 1] += 1
    for place in range(1, counts.shape[0]):
        counts[place] += counts[place - 1]
    by_event, by_block = lists.reordered[0], lists.reordered[1]
    for visit in range(n_visits):
        place = places[visit]
        by_event[counts[place]], by_block[counts[place]] = events[visit], by_score_bound[place]
        counts[place] += 1
    here = chunks.chunk_visit
    for visit in range(n_visits):
        chunk = chunk_of[by_event[visit]]
        events[here[chunk]], places[here[chunk]] = by_event[visit], by_block[visit]
        here[chunk] += 1
    # Each start has advanced to the next one.
    for chunk in range(n_chunks, 0, -1):
        here[chunk] = here[chunk - 1]
    here[0] = 0


@lean_kernel
def passes_tests(
    tests: Tests, record: np.uint64, predicate: Longs, events: EventColumns, codes: EventCodes
) -> bool:
    """Whether the expanded event, which is within the bounds of a record, passes its tests."""
    for test in range(tests.first[record], tests.first[record + np.uint64(1)]):
        entry = codes.value_entry[codes.expanded_value[key_of(predicate[tests.predicate[test]])]]
        start, length = events.text_start[entry], np.int64(events.text_length[entry])
        low = events.low[entry]
        if events.kind[entry] == TEXT:
            low = read_prefix(events.heap, start, length)
        value = Value(low, events.high[entry], start, length, events.heap)
        if not passes_test(tests.tests[test], value, tests.operands, tests.heap):
            return False
    return True


@inlined
def score_record(
    records: RecordColumns, record: np.uint64, events: EventColumns, codes: EventCodes, kind: int
) -> float:
    """The score of a record that the expanded event matches; the event has weights of its own."""
    first, end = np.uint32(records.first[record]), np.uint32(records.first[record + np.uint64(1)])
    score = 1.0 if kind == PRODUCT else 0.0
    for number in range(first, end):
        value = codes.expanded_value[np.uint32(records.predicate[number] >> KEY_SHIFT)]
        term = records.weight[number] * events.weight[codes.value_entry[value]]
        score = add_term(score, term, np.int64(number) - np.int64(first), kind)
    return score


@inlined
def meets_predicates(predicate: Longs, first: np.uint32, end: np.uint32, expanded: Longs) -> bool:
    """Whether the expanded event meets all packed predicates from `first` to `end`."""
    # No early exit: when the first one fails could not be predicted.
    guards = np.int64(GUARDS)
    for number in range(first, end):
        packed = read_scalar(predicate, np.uint64(number))
        guards &= packed - expanded[np.uint64(packed) >> np.uint64(KEY_SHIFT)]
    return bool(guards == GUARDS)


@inlined
def select_next(places: Ints, begin: np.uint64, end: np.uint64) -> None:
    """Swap the least of the places from `begin` to `end`, if there are any, to the front."""
    least = begin
    for visit in range(begin, end):
        least = np.uint64(visit) if places[visit] < places[least] else least
    if begin < end:
        places[begin], places[least] = places[least], places[begin]


@lean_kernel
def prefetch_heads(segment: AccessColumns, visits: Visits, begin: Whole, until: Whole) -> None:
    """Prefetch the first records of the blocks that a few events will open first."""
    by_score_bound, record_of, records = segment.blocks.by_score_bound, segment.blocks.record, segment.records
    lists, ordered = visits.lists, visits.chunks.ordered
    places, first = lists.block, records.first
    for place in range(begin, until):
        visit = np.uint64(lists.first_visit[ordered[place]])
        end_visit = visit + np.uint64(lists.n_visits[ordered[place]])
        for number in range(visit, min(visit + np.uint64(PREFETCH_BLOCKS), end_visit)):
            select_next(places, np.uint64(number), end_visit)
            record = record_of[by_score_bound[places[number]]]
            prefetch(records.bloom, record)
            prefetch(records.score_bound, record)
            prefetch(first, record)
    for place in range(begin, until):
        visit = np.uint64(lists.first_visit[ordered[place]])
        end_visit = visit + np.uint64(lists.n_visits[ordered[place]])
        for number in range(visit, min(visit + np.uint64(PREFETCH_BLOCKS), end_visit)):
            record = record_of[by_score_bound[places[number]]]
            prefetch(records.predicate, first[record])
            prefetch(records.predicate, first[record] + LINE_PREDICATES)
            prefetch(records.slot, record)
            prefetch(records.score, record)


@lean_kernel
def search_heads(
    segment: AccessColumns,
    events: EventColumns,
    visits: Visits,
    begin: Whole,
    until: Whole,
    best: MatchHeaps,
    first_event: int,
    kind: int,
    ids: IdOrder,
) -> Whole:
    """Find the best matches of events in the heads of the blocks that they visit, until patience runs out.

    Events are taken in the order of their chunks. Visits of events that have all their best matches are
    dropped from the list; for the others, `heads.n_examined` says how far the search went. Returns the number
    of visits left.
    """
    blocks, records, tests = segment.blocks, segment.records, segment.tests
    # Columns that are written are assigned three at a time, at most: see `find_visits`.
    codes, lists, heads = visits.codes, visits.lists, visits.heads
    ordered = visits.chunks.ordered
    by_score_bound, block_bound, record_of = blocks.by_score_bound, blocks.score_bound, blocks.record
    first, predicate, slots, score_bound = records.first, records.predicate, records.slot, records.score_bound
    scores, is_tested, top, one = records.score, tests.first.shape[0] > 0, best.slot.shape[1], np.uint64(1)
    first_value, keys, value_code = codes.first_value, codes.value_key, codes.value_code
    expanded, expanded_value = codes.expanded_code, codes.expanded_value
    places, n_examined, bloom = lists.block, heads.n_examined, records.bloom
    open_block, open_record, open_bound = heads.open_block, heads.open_record, heads.open_score_bound
    for place in range(until - begin):
        if place % PREFETCH_EVENTS == 0:
            prefetch_heads(segment, visits, place, min(place + PREFETCH_EVENTS, until - begin))
        event = np.int64(ordered[place])
        first_visit, heap = np.uint64(lists.first_visit[event]), event - first_event
        end_visit = first_visit + np.uint64(lists.n_visits[event])
        weight_bound, is_unweighted, worst = codes.weight_bound[event], codes.is_unweighted[event], -np.inf
        absent = codes.absent[event]
        if best.size[heap] == top:
            worst = best.score[heap, 0]
        for number in range(first_value[event], first_value[event + 1]):
            expanded[np.uint32(keys[number])] = value_code[number]
            expanded_value[np.uint32(keys[number])] = number
        n_open, patience, is_done = np.uint64(0), PATIENCE, False
        while True:
            # Among the next records of the open blocks, the one with the highest bound.
            chosen, highest = n_open, -1.0
            for number in range(n_open):
                is_higher = open_bound[number] > highest
                chosen = np.uint64(number) if is_higher else chosen
                highest = open_bound[number] if is_higher else highest
            is_match, following_visit = False, first_visit + n_open
            next_bound = -1.0
            if following_visit < end_visit:
                next_bound = block_bound[by_score_bound[places[following_visit]]]
            if max(highest, next_bound) < 0.0 or max(highest, next_bound) * weight_bound < worst:
                is_done = True
                break
            if next_bound >= highest:
                # The first record of another block may have as high a bound.
                if n_open == OPEN:
                    break
                block = np.uint32(by_score_bound[places[following_visit]])
                chosen, following = n_open, np.uint64(record_of[block])
                open_block[n_open] = block
                n_open += one
                if n_open >= PREFETCH_BLOCKS:
                    select_next(places, first_visit + n_open, end_visit)
            else:
                if patience == 0:
                    break
                patience -= 1
                block, record = np.uint32(open_block[chosen]), np.uint64(open_record[chosen])
                following = record + one
                is_match = meets_predicates(
                    predicate, np.uint32(first[record]), np.uint32(first[following]), expanded
                )
            # The next record of the block whose keys the event may have.
            end = np.uint64(record_of[block + np.uint32(1)])
            while following < end and bloom[following] & absent != 0:
                following += one
            open_record[chosen] = following
            open_bound[chosen] = score_bound[following] if following < end else -1.0
            if is_match:
                slot = np.int64(slots[record])
                if slot < 0 or (is_tested and not passes_tests(tests, record, predicate, events, codes)):
                    continue
                patience += PATIENCE
                score = scores[record]
                if not is_unweighted:
                    score = score_record(records, record, events, codes, kind)
                if not score < worst:
                    offer_match(best, heap, slot, score, ids)
                    worst = best.score[heap, 0] if best.size[heap] == top else -np.inf
        for number in range(first_value[event], first_value[event + 1]):
            expanded[np.uint32(keys[number])] = LACKING
        n_examined[event, 0] = FINISHED
        if not is_done:
            for number in range(np.uint64(OPEN)):
                n_examined[event, number] = 0
            for number in range(n_open):
                n_examined[event, number] = open_record[number] - record_of[open_block[number]]
    return drop_finished(begin, until, visits)


@lean_kernel
def drop_finished(begin: Whole, until: Whole, visits: Visits) -> Whole:
    """Drop the visits of events that have all their best matches. Returns how many visits are left."""
    lists, n_examined, n_left = visits.lists, visits.heads.n_examined, np.int64(0)
    for event in range(begin, until):
        if n_examined[event, 0] == FINISHED:
            lists.n_visits[event] = 0
        for number in range(lists.n_visits[event]):
            lists.event[n_left], lists.block[n_left] = event, lists.block[lists.first_visit[event] + number]
            n_left += 1
    return n_left
