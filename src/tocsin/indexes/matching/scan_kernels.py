"""Kernels of the match scan.

Events are taken a few at a time (a *tile*). Each lays its values out in a table indexed by key, an
attribute and a kind of value in one small integer; what an event lacks is NaN there, which meets no
filter. A block of subscriptions then passes over the tile: first every subscription's first filter,
without a branch, and for those that pass, the other predicates until one fails.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bytes, Floats, Ints, Longs, Ops
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import Whole, compare_bytes, compare_names

#: Subscriptions of a block.
BLOCK = 2048
#: The key that every event has: the first filter of a conjunction of nothing.
ALWAYS = 0
#: Bytes of a text that fit a double exactly.
PREFIX_BYTES = 6

#: Tests. The filter decides a RANGE alone.
RANGE = 0
ONE_OF = 1
NONE_OF = 2
TEXT_ONE_OF = 3
TEXT_NONE_OF = 4
TEXT_BELOW = 5
TEXT_AT_MOST = 6
TEXT_AT_LEAST = 7
TEXT_ABOVE = 8
TEXT_BETWEEN = 9

#: Places in `Matches.progress`.
EVENT = 0
SLOT = 1
N_ROWS = 2


class MatchColumns(NamedTuple):
    """All subscriptions: one row a slot, its predicates in a row of their own, their operands in another."""

    #: int32 (slots,): key of the first predicate; ALWAYS where there is none.
    first_key: Ints
    #: float64 (slots,): its filter; `first_low` is NaN where the slot is free.
    first_low: Floats
    first_high: Floats
    #: int64 (slots,): first of the slot's predicates.
    slot_start: Longs
    #: int32 (slots,): how many predicates; -1 where the slot is free.
    slot_count: Ints
    #: int32 (predicates,): attribute and kind.
    predicate_key: Ints
    #: int8 (predicates,): RANGE … TEXT_BETWEEN.
    predicate_test: Ops
    #: float64 (predicates,): the filter.
    predicate_low: Floats
    predicate_high: Floats
    #: float64 (predicates,)
    predicate_weight: Floats
    #: int64 (predicates,): first of the operands that the test reads.
    predicate_start: Longs
    #: int32 (predicates,): how many.
    predicate_count: Ints
    #: float64 (operands,): a number, or a text's first bytes.
    operand_value: Floats
    #: int64 (operands,): where a text begins in `heap`.
    operand_start: Longs
    #: int32 (operands,): bytes of a text.
    operand_length: Ints
    #: uint8: the texts of all operands.
    heap: Bytes


class EventColumns(NamedTuple):
    """A batch of events, attributes translated to keys. See `Events`."""

    offsets: Longs
    #: int64 (entries,): -1 where no predicate can meet the entry.
    key: Longs
    low: Floats
    high: Floats
    text_start: Longs
    text_length: Ints
    heap: Bytes
    weight: Floats


class Tile(NamedTuple):
    """A few events laid out by key, and the best matches of each so far."""

    #: float64 (events, keys): NaN where an event lacks the key, and everywhere between tiles.
    low: Floats
    high: Floats
    #: int64 (events, keys): the entry, where there is one.
    entry: Longs
    #: float64 and int32 (events, top): a heap, the worst at its root.
    best_score: Floats
    best_slot: Ints
    #: int64 (events,): how many are in the heap.
    best_count: Longs


class Block(NamedTuple):
    """A few slots, from `first` to `end`."""

    first: Whole
    end: Whole
    #: whether their first predicates are all on one key
    is_uniform: bool
    #: the most that one of them has
    n_predicates: Whole


class Operands(NamedTuple):
    """The operand columns alone: a call that takes few arrays is a cheap one."""

    value: Floats
    start: Longs
    length: Ints
    heap: Bytes


class Value(NamedTuple):
    """One event's value of one attribute."""

    low: float
    high: float
    text_start: Whole
    text_length: Whole
    heap: Bytes


class IdOrder(NamedTuple):
    """Names of subscriptions, to break ties: those of `Names`, and which is whose."""

    heap: Bytes
    starts: Longs
    lengths: Ints
    #: int32 (slots,): subscription slot to slot of its name.
    owner: Ints


class Matches(NamedTuple):
    """Where the kernel reports, and how far it came."""

    step: Ints
    subscription: Ints
    score: Floats
    rank: Ints
    #: int64 (3,): first event of the tile in hand, first slot not yet done in it, rows written.
    progress: Longs


@kernel
def read_prefixes(heap: Bytes, starts: Longs, lengths: Ints, out_prefixes: Floats) -> None:
    """The first bytes of each text as a number, padded with zeros."""
    for text in range(starts.shape[0]):
        code = np.int64(0)
        for place in range(PREFIX_BYTES):
            code *= 256
            if place < lengths[text]:
                code += np.int64(heap[starts[text] + place])
        out_prefixes[text] = code


@kernel
def compare_operand(value: Value, operands: Operands, operand: Whole) -> int:
    """-1, 0 or 1 as the event's text comes before, is, or comes after the operand's."""
    length = np.int64(operands.length[operand])
    return compare_bytes(
        value.heap, value.text_start, value.text_length, operands.heap, operands.start[operand], length
    )


@kernel
def passes_test(test: Whole, value: Value, operands: Operands, first: Whole, count: Whole) -> bool:
    """Whether an event's value that passed the filter satisfies the predicate with those operands."""
    is_listed = False
    if test in (ONE_OF, NONE_OF):
        # A range of more than one number always holds another one than those listed.
        if test == NONE_OF and value.low < value.high:
            return True
        for operand in range(first, first + count):
            is_listed |= value.low <= operands.value[operand] <= value.high
        return is_listed if test == ONE_OF else not is_listed
    if test in (TEXT_ONE_OF, TEXT_NONE_OF):
        for operand in range(first, first + count):
            if value.low == operands.value[operand] and compare_operand(value, operands, operand) == 0:
                is_listed = True
        return is_listed if test == TEXT_ONE_OF else not is_listed
    order = compare_operand(value, operands, first)
    if test == TEXT_BELOW:
        return order < 0
    if test == TEXT_AT_MOST:
        return order <= 0
    if test == TEXT_AT_LEAST:
        return order >= 0
    if test == TEXT_ABOVE:
        return order > 0
    return order >= 0 and compare_operand(value, operands, first + 1) <= 0


@kernel
def ranks_before(score: float, slot: Whole, other_score: float, other: Whole, ids: IdOrder) -> bool:
    """Whether the first match is better: a higher score, or the same and a smaller id."""
    if score != other_score:
        return score > other_score
    name, other_name = np.int64(ids.owner[slot]), np.int64(ids.owner[other])
    return compare_names(ids.heap, ids.starts, ids.lengths, name, other_name) < 0


@kernel
def sink_worst(scores: Floats, slots: Ints, size: Whole, ids: IdOrder) -> None:
    """Move the root of a heap down to where no child is worse."""
    place = 0
    while True:
        worst = place
        for child in range(2 * place + 1, min(2 * place + 3, size)):
            if ranks_before(
                scores[worst], np.int64(slots[worst]), scores[child], np.int64(slots[child]), ids
            ):
                worst = child
        if worst == place:
            return
        scores[place], scores[worst] = scores[worst], scores[place]
        slots[place], slots[worst] = slots[worst], slots[place]
        place = worst


@kernel
def offer_match(tile: Tile, event: int, slot: Whole, score: float, ids: IdOrder) -> None:
    """Keep a match if it is among the best of its event so far."""
    scores, slots = tile.best_score[event], tile.best_slot[event]
    size = tile.best_count[event]
    if size == scores.shape[0]:
        if ranks_before(score, slot, scores[0], np.int64(slots[0]), ids):
            scores[0], slots[0] = score, slot
            sink_worst(scores, slots, size, ids)
        return
    place = size
    scores[place], slots[place] = score, slot
    tile.best_count[event] += 1
    while place > 0:
        parent = (place - 1) // 2
        if not ranks_before(scores[parent], np.int64(slots[parent]), score, slot, ids):
            return
        scores[place], slots[place] = scores[parent], slots[parent]
        scores[parent], slots[parent] = score, slot
        place = parent


@kernel
def report_best(tile: Tile, event: int, step: Whole, ids: IdOrder, out: Matches) -> None:
    """Empty an event's heap into the report, the worst first into the last place."""
    scores, slots = tile.best_score[event], tile.best_slot[event]
    size = tile.best_count[event]
    base = out.progress[N_ROWS]
    out.progress[N_ROWS] += size
    while size > 0:
        row = base + size - 1
        out.step[row] = step
        out.subscription[row] = slots[0]
        out.score[row] = scores[0]
        out.rank[row] = size
        size -= 1
        scores[0], slots[0] = scores[size], slots[size]
        sink_worst(scores, slots, size, ids)
    tile.best_count[event] = 0


@kernel
def lay_out_events(events: EventColumns, begin: Whole, size: int, is_there: bool, tile: Tile) -> None:
    """Write the values of `size` events from `begin` on into the tile, or take them out again."""
    for event in range(size):
        for entry in range(events.offsets[begin + event], events.offsets[begin + event + 1]):
            key = events.key[entry]
            if key >= 0:
                tile.low[event, key] = events.low[entry] if is_there else np.nan
                tile.high[event, key] = events.high[entry] if is_there else np.nan
                tile.entry[event, key] = entry


@kernel
def filter_block(columns: MatchColumns, block: Block, low: Floats, high: Floats, hits: Longs) -> int:
    """List the slots of a block whose first filter an event meets."""
    n_slots = block.end - block.first
    key = columns.first_key[block.first : block.end]
    first_low = columns.first_low[block.first : block.end]
    first_high = columns.first_high[block.first : block.end]
    is_met = np.empty(BLOCK, np.bool_)
    if block.is_uniform:
        # One key for all: nothing to look up, and the loop becomes a vector one.
        one_low, one_high = low[key[0]], high[key[0]]
        for place in range(n_slots):
            is_met[place] = (one_low <= first_high[place]) & (first_low[place] <= one_high)
    else:
        for place in range(n_slots):
            one = np.uint32(key[place])
            is_met[place] = (low[one] <= first_high[place]) & (first_low[place] <= high[one])
    n_hits = 0
    for place in range(n_slots):
        hits[n_hits] = block.first + place
        n_hits += is_met[place]
    return n_hits


@kernel
def narrow_hits(
    columns: MatchColumns, level: int, low: Floats, high: Floats, hits: Longs, n_hits: int
) -> int:
    """Keep the slots whose predicate number `level`, if they have one, has a filter that the event meets."""
    n_kept = 0
    for hit in range(n_hits):
        # Unsigned: a signed index may be negative, which costs a check at each use.
        slot = np.uint64(hits[hit])
        is_met = True
        if level < columns.slot_count[slot]:
            predicate = np.uint64(columns.slot_start[slot] + level)
            key = np.uint32(columns.predicate_key[predicate])
            # No short cut: whether it is met cannot be predicted, and a wrong guess costs more than both.
            is_met = (low[key] <= columns.predicate_high[predicate]) & (
                columns.predicate_low[predicate] <= high[key]
            )
        hits[n_kept] = hits[hit]
        n_kept += is_met
    return n_kept


@kernel
def confirm_hits(
    columns: MatchColumns, events: EventColumns, entries: Longs, hits: Longs, n_hits: int
) -> int:
    """Keep the slots whose tests all pass, where a filter alone does not decide."""
    operands = Operands(columns.operand_value, columns.operand_start, columns.operand_length, columns.heap)
    n_kept = 0
    for hit in range(n_hits):
        slot = hits[hit]
        is_match = True
        start = columns.slot_start[slot]
        for predicate in range(start, start + columns.slot_count[slot]):
            test = np.int64(columns.predicate_test[predicate])
            if test != RANGE:
                entry = entries[columns.predicate_key[predicate]]
                value = Value(
                    events.low[entry],
                    events.high[entry],
                    events.text_start[entry],
                    np.int64(events.text_length[entry]),
                    events.heap,
                )
                first, count = (
                    columns.predicate_start[predicate],
                    np.int64(columns.predicate_count[predicate]),
                )
                if not passes_test(test, value, operands, first, count):
                    is_match = False
                    break
        hits[n_kept] = slot
        n_kept += is_match
    return n_kept


@kernel
def look_over(columns: MatchColumns, first: Whole, end: Whole) -> Block:
    """What the slots of a block have in common."""
    n_same = 0
    n_predicates = 0
    for slot in range(first, end):
        n_same += columns.first_key[slot] == columns.first_key[first]
        n_predicates = max(n_predicates, columns.slot_count[slot])
    return Block(first, end, n_same == end - first, n_predicates)


@kernel
def match_tile(
    columns: MatchColumns,
    n_slots: int,
    events: EventColumns,
    size: int,
    tile: Tile,
    top: int,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches of the tile in hand, from slot `progress[SLOT]` on; False when `out` is too full."""
    hits = np.empty(BLOCK, np.int64)
    for first in range(out.progress[SLOT], n_slots, BLOCK):
        block = look_over(columns, first, min(first + BLOCK, n_slots))
        out.progress[SLOT] = first
        if top == 0 and out.progress[N_ROWS] + (block.end - first) * size > out.step.shape[0]:
            return False
        for event in range(size):
            low, high, entries = tile.low[event], tile.high[event], tile.entry[event]
            n_hits = filter_block(columns, block, low, high, hits)
            level = 1
            while n_hits > 0 and level < block.n_predicates:
                n_hits = narrow_hits(columns, level, low, high, hits, n_hits)
                level += 1
            n_hits = confirm_hits(columns, events, entries, hits, n_hits)
            for hit in range(n_hits):
                slot = hits[hit]
                score = 0.0
                start = columns.slot_start[slot]
                for predicate in range(start, start + columns.slot_count[slot]):
                    entry = entries[columns.predicate_key[predicate]]
                    score += columns.predicate_weight[predicate] * events.weight[entry]
                if top > 0:
                    offer_match(tile, event, slot, score, ids)
                    continue
                row = out.progress[N_ROWS]
                out.step[row] = out.progress[EVENT] + event
                out.subscription[row] = slot
                out.score[row] = score
                out.rank[row] = 0
                out.progress[N_ROWS] += 1
    return True


@kernel
def match_events(
    columns: MatchColumns,
    n_slots: int,
    events: EventColumns,
    tile: Tile,
    top: int,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches, or with `top` the best of each event. False: `out` is too full, grow it and call again."""
    n_events = events.offsets.shape[0] - 1
    while out.progress[EVENT] < n_events:
        begin = out.progress[EVENT]
        size = min(tile.low.shape[0], n_events - begin)
        if out.progress[N_ROWS] + size * top > out.step.shape[0]:
            return False
        lay_out_events(events, begin, size, True, tile)
        is_done = match_tile(columns, n_slots, events, size, tile, top, ids, out)
        lay_out_events(events, begin, size, False, tile)
        if not is_done:
            return False
        if top > 0:
            for event in range(size):
                report_best(tile, event, begin + event, ids, out)
        out.progress[EVENT] = begin + size
        out.progress[SLOT] = 0
    return True
