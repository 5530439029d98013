"""Kernels of the access index: which events look into which blocks of a part, and in what order."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints
from tocsin.indexes.matching.access_layout_kernels import (
    ALWAYS,
    LACKING,
    SIEVE,
    SPREAD,
    SPREAD_MASK,
    AccessColumns,
    Visits,
    bit_of,
    high_of,
    low_of,
    pack_value,
)
from tocsin.indexes.matching.bound_kernels import Bounds, count_at_most, count_below, is_bound
from tocsin.indexes.matching.common_kernels import (
    KINDS,
    PRODUCT,
    TEXT,
    EventColumns,
    count_bits,
    read_prefix,
)
from tocsin.indexes.shared.jit import inlined, lean_kernel
from tocsin.indexes.shared.names_kernels import Whole

#: Scores are rounded in another order than their bounds: this much more is always enough.
ROUNDING = 1.0 + 1e-9
#: Visits of a chunk: what is found on them should stay in the cache until it is sorted.
CHUNK = 1 << 12


@inlined
def encode_event(bounds: Bounds, events: EventColumns, event: Whole, kind: int, visits: Visits) -> None:
    """Write the codes of an event's values, and what bounds its weights."""
    number = visits.first_value[event]
    greatest, is_even, is_bounding, present, keys = 1.0, True, True, np.uint32(0), np.uint64(0)
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
        visits.value_key[number], visits.value_entry[number] = key, entry
        visits.value_code[number] = pack_value(first, last)
        number += 1
        present |= np.uint32(1) << np.uint32(key % SIEVE)
        keys |= bit_of(key)
        weight = events.weight[entry]
        is_even &= weight == 1.0
        greatest = max(greatest, weight * ROUNDING) if weight >= 0.0 else np.inf
        # A product takes in a weight once for each predicate: how often is not known here.
        is_bounding &= kind != PRODUCT or weight <= 1.0
    visits.first_value[event + 1] = number
    visits.greatest[event] = 1.0 if is_even else (greatest if is_bounding else np.inf)
    visits.is_even[event] = is_even
    visits.absent[event] = ~present
    visits.keys[event] = keys
    visits.n_found[event] = 0


@lean_kernel
def find_visits(
    part: AccessColumns, events: EventColumns, begin: Whole, end: int, kind: int, visits: Visits
) -> tuple[Whole, Whole]:
    """The blocks that events visit, from event `begin` on, as many as there is room for.

    An event meets their hulls, and has enough of the keys that their records ask for. Returns the event after
    the last, and how many visits there are: their events, and their blocks by reach.
    """
    # Unsigned indexes: a signed one may be negative, which costs a check at each use.
    strips, blocks, codes, value_keys = part.strips, part.blocks, visits.value_code, visits.value_key
    first, strip_low, strip_high, strip_key = strips.first, strips.low, strips.high, strips.key
    strip_block, laid, one = strips.block, visits.laid_code, np.uint32(1)
    place, n_blocks = blocks.place, np.uint64(blocks.low.shape[0])
    block_low, block_high, asked, least = blocks.low, blocks.high, blocks.keys, blocks.least
    found_event, found_place, room = visits.event, visits.block, np.uint64(visits.event.shape[0])
    n_visits, event = np.uint64(0), begin
    while event < end and n_visits + n_blocks < room:
        encode_event(part.bounds, events, event, kind, visits)
        first_visit, keys = n_visits, visits.keys[event]
        for block in range(np.uint32(strip_block[0]), np.uint32(strip_block[first[ALWAYS + 1]])):
            found_place[n_visits] = place[block]
            n_visits += np.uint64(1)
        values = range(np.uint64(visits.first_value[event]), np.uint64(visits.first_value[event + 1]))
        for number in values:
            laid[np.uint32(value_keys[number])] = codes[number]
        for number in values:
            key, low, high = np.uint32(value_keys[number]), high_of(codes[number]), low_of(codes[number])
            for strip in range(np.uint32(first[key]), np.uint32(first[key + one])):
                if low > strip_high[strip] or strip_low[strip] > high:
                    continue
                code = laid[np.uint32(strip_key[strip])]
                block_first, block_last = high_of(code), low_of(code)
                for block in range(np.uint32(strip_block[strip]), np.uint32(strip_block[strip + one])):
                    # Always written, kept if it counts: which ones do cannot be predicted.
                    found_place[n_visits] = place[block]
                    is_met = (block_first <= block_high[block]) & (block_low[block] <= block_last)
                    # A record that matches asks for no other keys than the event has: as many bits as it has.
                    is_met &= count_bits(asked[block] & keys) >= np.uint64(least[block])
                    n_visits += np.uint64(is_met)
        for number in values:
            laid[np.uint32(value_keys[number])] = LACKING
        # Of the blocks in an order that says nothing: popular ones come first no more than others.
        nearest, lowest = np.int64(n_blocks), np.int64(SPREAD_MASK)
        for visit in range(first_visit, n_visits):
            found_event[visit] = event
            shuffled = (np.int64(found_place[visit]) * SPREAD) & SPREAD_MASK
            if shuffled < lowest:
                nearest, lowest = np.int64(found_place[visit]), shuffled
        visits.nearest[event], visits.n_visits[event] = nearest, n_visits - first_visit
        visits.first_visit[event] = first_visit
        event += 1
    return event, np.int64(n_visits)


@lean_kernel
def cut_chunks(begin: Whole, until: Whole, visits: Visits) -> Whole:
    """Cut events into chunks of not too many visits, those that visit the same blocks together.

    Returns how many chunks there are.
    """
    counts, nearest, ordered, n_visits = visits.counts, visits.nearest, visits.ordered, visits.n_visits
    counts[:] = 0
    for event in range(begin, until):
        counts[nearest[event] + 1] += 1
    for block in range(1, counts.shape[0]):
        counts[block] += counts[block - 1]
    for event in range(begin, until):
        ordered[counts[nearest[event]]] = event
        counts[nearest[event]] += 1
    n_chunks, n_listed = np.int64(0), np.int64(0)
    visits.chunk_event[0] = visits.chunk_visit[0] = 0
    for place in range(until - begin):
        event = ordered[place]
        if n_listed > visits.chunk_visit[n_chunks] and (
            n_listed + n_visits[event] > visits.chunk_visit[n_chunks] + CHUNK
        ):
            n_chunks += 1
            visits.chunk_event[n_chunks], visits.chunk_visit[n_chunks] = place, n_listed
        visits.chunk[event], visits.local[event] = n_chunks, place - visits.chunk_event[n_chunks]
        n_listed += n_visits[event]
    visits.chunk_event[n_chunks + 1], visits.chunk_visit[n_chunks + 1] = until - begin, n_listed
    return n_chunks + 1


@lean_kernel
def order_visits(by_reach: Ints, n_visits: Whole, n_chunks: Whole, visits: Visits) -> None:
    """Order visits by chunk, then by block, the greatest reach first, then by event."""
    counts, events, places, chunk_of = visits.counts, visits.event, visits.block, visits.chunk
    counts[:] = 0
    for visit in range(n_visits):
        counts[places[visit] + 1] += 1
    for place in range(1, counts.shape[0]):
        counts[place] += counts[place - 1]
    by_event, by_block = visits.spare[0], visits.spare[1]
    for visit in range(n_visits):
        place = places[visit]
        by_event[counts[place]], by_block[counts[place]] = events[visit], by_reach[place]
        counts[place] += 1
    here = visits.chunk_visit
    for visit in range(n_visits):
        chunk = chunk_of[by_event[visit]]
        events[here[chunk]], places[here[chunk]] = by_event[visit], by_block[visit]
        here[chunk] += 1
    # Each has moved to where the next one begins.
    for chunk in range(n_chunks, 0, -1):
        here[chunk] = here[chunk - 1]
    here[0] = 0
