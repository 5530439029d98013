"""Kernels of the match scan.

Slots are taken a *block* at a time, events a few at a time (a *tile*). An event of a tile has its values
in a table indexed by key, an attribute and a kind of value in one small integer; what it lacks is NaN
there, which meets no filter. The first few filters of a block lie in columns of their own, in single
precision and rounded outwards: they are small, a block's stay in the cache for all events of the tile,
and where all slots of the block ask for the same key, the loop over them becomes a vector one. What
passes is held against the predicates themselves.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Bytes, Floats, Ints, Longs, Ops
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import Whole, compare_bytes, compare_names

Singles: TypeAlias = NDArray[np.float32]
Records: TypeAlias = NDArray[np.void]

#: Slots of a block: a multiple of the bytes of a word.
BLOCK = 256
WORD = 8
#: Predicates of a conjunction that have a filter of their own.
FILTERS = 3
#: The key that every event has: what a conjunction asks for beyond its last predicate.
ALWAYS = 0
#: In place of a key that a block shares: there is none, or it is not known yet.
MIXED = -1
UNKNOWN = -2
#: Bytes of a text that fit a double exactly.
PREFIX_BYTES = 6

#: Places in a bound, and in a value of a tile.
LOW = 0
HIGH = 1
WEIGHT = 2

#: Kinds of values, which do not compare with each other; and how many there are.
NUMBER = 1
TEXT = 2
BOOLEAN = 3
KINDS = 3

#: Tests. The bounds decide a RANGE alone, and it has no test.
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
BLOCK_IN_HAND = 1
N_ROWS = 2


# Records, not a column a field: what passes the filters is read as a whole and from anywhere, so that a
# row in one place costs one miss of the cache where five columns cost five.

#: A slot: first of its predicates, and how many; -1 where the slot is free.
SLOT = np.dtype([("start", np.int32), ("count", np.int32)], align=True)
#: A predicate: its bounds and weight; attribute and kind; which test, -1 for a RANGE.
PREDICATE = np.dtype(
    [
        ("low", np.float64),
        ("high", np.float64),
        ("weight", np.float64),
        ("key", np.int32),
        ("test", np.int32),
    ],
    align=True,
)
#: A test: ONE_OF … TEXT_BETWEEN; first of its operands, and how many.
TEST = np.dtype([("kind", np.int32), ("start", np.int32), ("count", np.int32)], align=True)
#: An operand: a number, or a text's first bytes, and where in the heap the text lies.
OPERAND = np.dtype([("value", np.float64), ("start", np.int64), ("length", np.int64)], align=True)


class MatchColumns(NamedTuple):
    """All subscriptions by slot, their predicates, the tests of these, and the operands of those."""

    #: float32 (blocks, FILTERS, 2, BLOCK): bounds of the first predicates, LOW rounded down and HIGH up;
    #: LOW is NaN where the slot is free.
    filter_bound: Singles
    #: int32 (blocks, FILTERS, BLOCK): their keys; ALWAYS beyond the last predicate.
    filter_key: Ints
    #: int32 (blocks, FILTERS): the key that all slots in use share, MIXED, or UNKNOWN after a change.
    block_key: Ints
    #: SLOT, PREDICATE, TEST and OPERAND, each pointing at a run of the next.
    slots: Records
    predicates: Records
    tests: Records
    operands: Records
    #: uint8: the texts of all operands.
    heap: Bytes


class EventColumns(NamedTuple):
    """A batch of events, as in `Events`, and the attributes of the batch as subscriptions know them."""

    #: int32 (names,): attribute of each name; -1 where no predicate is on it.
    known: Ints
    offsets: Longs
    attribute: Ints
    kind: Ops
    low: Floats
    high: Floats
    text_start: Longs
    text_length: Ints
    heap: Bytes
    weight: Floats


class Tile(NamedTuple):
    """A few events laid out by key, and the best matches of each so far."""

    #: float64 (events, keys, 3): LOW and HIGH, NaN where an event lacks the key and between tiles; WEIGHT.
    value: Floats
    #: float32 (events, 2, keys): LOW rounded down and HIGH up; 0 for ALWAYS.
    rounded: Singles
    #: int64 (events, keys): the entry, where there is one.
    entry: Longs
    #: float64 and int32 (events, top): a heap, the worst at its root.
    best_score: Floats
    best_slot: Ints
    #: int64 (events,): how many are in the heap.
    best_count: Longs


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
    #: int32: written where the best are asked for
    rank: Ints
    #: int64 (3,): first event of the tile in hand, first block not yet done in it, rows written.
    progress: Longs


@kernel
def read_prefix(heap: Bytes, start: Whole, length: Whole) -> float:
    """The first bytes of a text as a number, padded with zeros: texts in order have numbers in order."""
    code = np.int64(0)
    for place in range(PREFIX_BYTES):
        code *= 256
        if place < length:
            code += np.int64(heap[start + place])
    return float(code)


@kernel
def read_prefixes(heap: Bytes, starts: Longs, lengths: Ints, out_prefixes: Floats) -> None:
    """The first bytes of each text as a number."""
    for text in range(starts.shape[0]):
        out_prefixes[text] = read_prefix(heap, starts[text], np.int64(lengths[text]))


@kernel
def compare_operand(value: Value, operands: Records, heap: Bytes, operand: Whole) -> int:
    """-1, 0 or 1 as the event's text comes before, is, or comes after the operand's."""
    start, length = operands[operand]["start"], operands[operand]["length"]
    return compare_bytes(value.heap, value.text_start, value.text_length, heap, start, length)


@kernel
def passes_test(test: np.void, value: Value, operands: Records, heap: Bytes) -> bool:
    """Whether an event's value within the bounds of a predicate also satisfies its test."""
    kind, first, count = np.int64(test["kind"]), np.int64(test["start"]), np.int64(test["count"])
    is_listed = False
    if kind in (ONE_OF, NONE_OF):
        # A range of more than one number always holds another one than those listed.
        if kind == NONE_OF and value.low < value.high:
            return True
        for operand in range(first, first + count):
            is_listed |= value.low <= operands[operand]["value"] <= value.high
        return is_listed if kind == ONE_OF else not is_listed
    if kind in (TEXT_ONE_OF, TEXT_NONE_OF):
        for operand in range(first, first + count):
            if (
                value.low == operands[operand]["value"]
                and compare_operand(value, operands, heap, operand) == 0
            ):
                is_listed = True
        return is_listed if kind == TEXT_ONE_OF else not is_listed
    order = compare_operand(value, operands, heap, first)
    if kind == TEXT_BELOW:
        return order < 0
    if kind == TEXT_AT_MOST:
        return order <= 0
    if kind == TEXT_AT_LEAST:
        return order >= 0
    if kind == TEXT_ABOVE:
        return order > 0
    return order >= 0 and compare_operand(value, operands, heap, first + 1) <= 0


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
def offer_match(tile: Tile, event: Whole, slot: Whole, score: float, ids: IdOrder) -> None:
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
def round_down(number: float) -> np.float32:
    """The greatest single that is not above a double."""
    near = np.float32(number)
    return np.nextafter(near, np.float32(-np.inf)) if near > number else near


@kernel
def round_up(number: float) -> np.float32:
    """The least single that is not below a double."""
    return -round_down(-number)


@kernel
def set_filters(columns: MatchColumns, slots: Ints) -> None:
    """Derive the filters of slots from their predicates."""
    for number in range(slots.shape[0]):
        slot = np.int64(slots[number])
        block, place = slot // BLOCK, slot % BLOCK
        for level in range(FILTERS):
            key, low, high = np.int64(ALWAYS), -np.inf, np.inf
            if level < columns.slots[slot]["count"]:
                predicate = columns.predicates[columns.slots[slot]["start"] + level]
                key, low, high = np.int64(predicate["key"]), predicate["low"], predicate["high"]
            columns.filter_bound[block, level, LOW, place] = round_down(low)
            columns.filter_bound[block, level, HIGH, place] = round_up(high)
            columns.filter_key[block, level, place] = key
        columns.block_key[block] = UNKNOWN


@kernel
def lay_out_events(events: EventColumns, begin: Whole, size: int, tile: Tile) -> None:
    """Write the values of `size` events from `begin` on into the tile."""
    for event in range(size):
        for entry in range(events.offsets[begin + event], events.offsets[begin + event + 1]):
            known, kind = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
            low, high = events.low[entry], events.high[entry]
            if known < 0 or not low <= high:
                continue
            if kind == TEXT:
                low = read_prefix(events.heap, events.text_start[entry], np.int64(events.text_length[entry]))
                high = low
            key = KINDS * known + kind
            tile.value[event, key, LOW] = low
            tile.value[event, key, HIGH] = high
            tile.value[event, key, WEIGHT] = events.weight[entry]
            tile.rounded[event, LOW, key] = round_down(low)
            tile.rounded[event, HIGH, key] = round_up(high)
            tile.entry[event, key] = entry


@kernel
def take_out_events(events: EventColumns, begin: Whole, size: int, tile: Tile) -> None:
    """Leave the tile as it was before those events were laid out."""
    for event in range(size):
        for entry in range(events.offsets[begin + event], events.offsets[begin + event + 1]):
            known, kind = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
            if known >= 0:
                key = KINDS * known + kind
                tile.value[event, key] = np.nan
                tile.rounded[event, LOW, key] = tile.rounded[event, HIGH, key] = np.nan


@kernel
def share_keys(bounds: Singles, keys: Ints, block: Whole, out_shared: Ints) -> None:
    """Find the key of each level that all slots of a block share; what nothing meets need not agree."""
    for level in range(FILTERS):
        shared = np.int64(UNKNOWN)
        for place in range(BLOCK):
            low, key = bounds[block, level, LOW, place], np.int64(keys[block, level, place])
            if low == low and key != shared:
                shared = key if shared == UNKNOWN else np.int64(MIXED)
        out_shared[block, level] = ALWAYS if shared == UNKNOWN else shared


@kernel
def list_candidates(columns: MatchColumns, n_blocks: int, rounded: Singles, size: int, out: Matches) -> Whole:
    """Write which slots pass the filters of which events into the rows that are left, as far as these reach.

    A block at a time, from the one in hand on. Returns the row after the last one written.
    """
    # One nest of loops: as functions of their own, the inner ones would take longer to call than to run.
    bounds, keys, shared = columns.filter_bound, columns.filter_key, columns.block_key
    step, subscription = out.step, out.subscription
    row, block = out.progress[N_ROWS], out.progress[BLOCK_IN_HAND]
    is_met = np.empty(BLOCK, np.uint8)
    words = is_met.view(np.uint64)
    while block < n_blocks and row + BLOCK * size <= step.shape[0]:
        if shared[block, 0] == UNKNOWN:
            share_keys(bounds, keys, block, shared)
        for event in range(size):
            is_met[:] = 1
            some = np.uint64(1)
            for level in range(FILTERS):
                key = np.int64(shared[block, level])
                if some == 0 or (level > 0 and key == ALWAYS):
                    break
                if key >= 0:
                    # One key for all: nothing to look up, and nothing to do where the event lacks it.
                    low, high = rounded[event, LOW, key], rounded[event, HIGH, key]
                    if low != low:
                        some = np.uint64(0)
                        break
                    for place in range(BLOCK):
                        is_met[place] &= (low <= bounds[block, level, HIGH, place]) & (
                            bounds[block, level, LOW, place] <= high
                        )
                else:
                    for place in range(BLOCK):
                        # Unsigned: a signed index may be negative, which costs a check at each use.
                        one = np.uint32(keys[block, level, place])
                        is_met[place] &= (rounded[event, LOW, one] <= bounds[block, level, HIGH, place]) & (
                            bounds[block, level, LOW, place] <= rounded[event, HIGH, one]
                        )
                some = np.uint64(0)
                for word in range(BLOCK // WORD):
                    some |= words[word]
            if some == 0:
                continue
            for word in range(BLOCK // WORD):
                if words[word] != 0:
                    for place in range(WORD * word, WORD * word + WORD):
                        # Always written, kept if it counts: which ones do cannot be predicted.
                        step[row] = event
                        subscription[row] = BLOCK * block + place
                        row += np.int64(is_met[place])
        block += 1
    out.progress[BLOCK_IN_HAND] = block
    return np.int64(row)


@kernel
def confirm_candidates(
    columns: MatchColumns, events: EventColumns, tile: Tile, end: Whole, top: int, ids: IdOrder, out: Matches
) -> None:
    """Score the candidates up to row `end`, keeping those whose predicates all hold."""
    slots, predicates, values = columns.slots, columns.predicates, tile.value
    first_event, kept = out.progress[EVENT], out.progress[N_ROWS]
    for row in range(kept, end):
        # Unsigned here, too.
        event, slot = np.uint32(out.step[row]), np.uint32(out.subscription[row])
        start = np.uint64(slots[slot]["start"])
        score = 0.0
        is_match = True
        for place in range(start, start + np.uint64(slots[slot]["count"])):
            predicate = predicates[place]
            key = np.uint32(predicate["key"])
            low, high = values[event, key, LOW], values[event, key, HIGH]
            is_match = (low <= predicate["high"]) & (predicate["low"] <= high)
            if is_match and predicate["test"] >= 0:
                entry = tile.entry[event, key]
                length = np.int64(events.text_length[entry])
                value = Value(low, high, events.text_start[entry], length, events.heap)
                is_match = passes_test(
                    columns.tests[predicate["test"]], value, columns.operands, columns.heap
                )
            if not is_match:
                break
            score += predicate["weight"] * values[event, key, WEIGHT]
        if is_match and top > 0:
            offer_match(tile, np.int64(event), np.int64(slot), score, ids)
        elif is_match:
            out.step[kept] = first_event + np.int64(event)
            out.subscription[kept] = slot
            out.score[kept] = score
            kept += 1
    out.progress[N_ROWS] = kept


@kernel
def match_tile(
    columns: MatchColumns,
    n_blocks: int,
    events: EventColumns,
    size: int,
    tile: Tile,
    top: int,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches of the tile in hand, from the block in hand on; False when `out` is too full.

    Candidates go into the rows after those that are done, and matches take their place.
    """
    while True:
        begin = out.progress[BLOCK_IN_HAND]
        end = list_candidates(columns, n_blocks, tile.rounded, size, out)
        confirm_candidates(columns, events, tile, end, top, ids, out)
        if out.progress[BLOCK_IN_HAND] == n_blocks:
            return True
        if out.progress[BLOCK_IN_HAND] == begin:
            return False


@kernel
def match_events(
    columns: MatchColumns,
    n_blocks: int,
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
        size = min(tile.entry.shape[0], n_events - begin)
        if out.progress[N_ROWS] + size * top > out.step.shape[0]:
            return False
        lay_out_events(events, begin, size, tile)
        is_done = match_tile(columns, n_blocks, events, size, tile, top, ids, out)
        take_out_events(events, begin, size, tile)
        if not is_done:
            return False
        if top > 0:
            for event in range(size):
                report_best(tile, event, begin + event, ids, out)
        out.progress[EVENT] = begin + size
        out.progress[BLOCK_IN_HAND] = 0
    return True
