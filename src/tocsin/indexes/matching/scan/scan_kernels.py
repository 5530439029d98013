"""Kernels of the match scan.

Slots are scanned a *block* at a time, events a *tile* at a time. An event of a tile has its values in a table
indexed by key, an attribute and a kind of value in one small integer; a missing value is NaN, which meets no
filter. The first few filters of a block are columns of their own, in single precision and rounded outwards:
they are small, those of a block stay in the cache for all events of the tile, and if all slots of the block
have the same key, the loop over them vectorises. Candidates that pass are compared with their predicates.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.jit import kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.common_kernels import passes_test, read_prefix
from tocsin.indexes.matching.layout import (
    CURRENT_BLOCK,
    EVENT,
    KINDS,
    N_ROWS,
    OPERAND,
    PREDICATE,
    PRODUCT,
    SLOT,
    TEST,
    TEXT,
    EventColumns,
    IdOrder,
    Matches,
    MatchHeaps,
    Records,
    Value,
)
from tocsin.indexes.matching.score_kernels import add_term, offer_match, report_best

Singles: TypeAlias = NDArray[np.float32]

#: Slots of a block: a multiple of the bytes of a word.
BLOCK = 256
WORD = 8
#: Predicates of a conjunction that have a filter of their own.
FILTERS = 3
#: The key that every event has: the filter after a conjunction's last predicate.
ALWAYS = 0
#: In place of a block's shared key: there is none, or it is not known yet.
MIXED = -1
UNKNOWN = -2
#: Places in a bound, and in a value of a tile.
LOW = 0
HIGH = 1
WEIGHT = 2


class MatchColumns(NamedTuple):
    """All subscriptions by slot, their predicates, the tests of predicates, and the operands of tests."""

    #: bounds of the first predicates, LOW rounded down and HIGH up;
    #: LOW is NaN if the slot is free.
    filter_bound: Annotated[Singles, Column("blocks", FILTERS, 2, BLOCK, fill=np.nan)]
    #: their keys; ALWAYS beyond the last predicate.
    filter_key: Annotated[Ints, Column("blocks", FILTERS, BLOCK)]
    #: the key that all slots in use share, MIXED, or UNKNOWN after a change.
    block_key: Annotated[Ints, Column("blocks", FILTERS, fill=UNKNOWN)]
    #: Each points at a run of the next.
    slots: Annotated[Records, Column("slots", fill=-1, dtype=SLOT)]
    predicates: Annotated[Records, Column("predicates", dtype=PREDICATE)]
    tests: Annotated[Records, Column("tests", dtype=TEST)]
    operands: Annotated[Records, Column("operands", dtype=OPERAND)]
    #: the texts of all operands.
    heap: Annotated[Bytes, Column("bytes")]


class Tile(NamedTuple):
    """A few events expanded by key, and the best matches of each so far."""

    #: float64 (events, keys, 3): LOW and HIGH, NaN if the event lacks the key and between tiles; WEIGHT.
    value: Floats
    #: float32 (events, 2, keys): LOW rounded down and HIGH up; 0 for ALWAYS.
    rounded: Singles
    #: int64 (events, keys): the entry, if there is one.
    entry: Longs
    best: MatchHeaps


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
def expand_events(events: EventColumns, begin: Whole, size: int, tile: Tile) -> None:
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
def clear_events(events: EventColumns, begin: Whole, size: int, tile: Tile) -> None:
    """Undo `expand_events`."""
    for event in range(size):
        for entry in range(events.offsets[begin + event], events.offsets[begin + event + 1]):
            known, kind = np.int64(events.known[events.attribute[entry]]), np.int64(events.kind[entry])
            if known >= 0:
                key = KINDS * known + kind
                tile.value[event, key] = np.nan
                tile.rounded[event, LOW, key] = tile.rounded[event, HIGH, key] = np.nan


@kernel
def share_keys(bounds: Singles, keys: Ints, block: Whole, out_shared: Ints) -> None:
    """Find the key of each level that all slots of a block share; unsatisfiable slots need not agree."""
    for level in range(FILTERS):
        shared = np.int64(UNKNOWN)
        for place in range(BLOCK):
            low, key = bounds[block, level, LOW, place], np.int64(keys[block, level, place])
            if low == low and key != shared:
                shared = key if shared == UNKNOWN else np.int64(MIXED)
        out_shared[block, level] = ALWAYS if shared == UNKNOWN else shared


@kernel
def list_candidates(columns: MatchColumns, n_blocks: int, rounded: Singles, size: int, out: Matches) -> Whole:
    """Write which slots pass the filters of which events into the rows left, block by block.

    From the current block on, while the rows suffice. Returns the row after the last one written.
    """
    # One nest of loops: calls to the inner ones would take longer than the loops.
    bounds, keys, shared = columns.filter_bound, columns.filter_key, columns.block_key
    step, subscription = out.step, out.subscription
    row, block = out.progress[N_ROWS], out.progress[CURRENT_BLOCK]
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
                    # One key for all: nothing to look up, and nothing to do if the event lacks it.
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
                        # Always written, kept if it counts: a branch here could not be predicted.
                        step[row] = event
                        subscription[row] = BLOCK * block + place
                        row += np.int64(is_met[place])
        block += 1
    out.progress[CURRENT_BLOCK] = block
    return np.int64(row)


@kernel
def confirm_candidates(
    columns: MatchColumns,
    events: EventColumns,
    tile: Tile,
    end: Whole,
    top: int,
    kind: int,
    ids: IdOrder,
    out: Matches,
) -> None:
    """Score the candidates up to row `end`, and keep those whose predicates all hold."""
    slots, predicates, values = columns.slots, columns.predicates, tile.value
    first_event, kept = out.progress[EVENT], out.progress[N_ROWS]
    for row in range(kept, end):
        # Unsigned indexes here, too.
        event, slot = np.uint32(out.step[row]), np.uint32(out.subscription[row])
        start = np.uint64(slots[slot]["start"])
        score = 1.0 if kind == PRODUCT else 0.0
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
            term = predicate["weight"] * values[event, key, WEIGHT]
            score = add_term(score, term, np.int64(place - start), kind)
        if is_match and top > 0:
            offer_match(tile.best, np.int64(event), np.int64(slot), score, ids)
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
    kind: int,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches of the current tile, from the current block on; False if `out` is too full.

    Candidates are written after the finished rows, and matches replace them.
    """
    while True:
        begin = out.progress[CURRENT_BLOCK]
        end = list_candidates(columns, n_blocks, tile.rounded, size, out)
        confirm_candidates(columns, events, tile, end, top, kind, ids, out)
        if out.progress[CURRENT_BLOCK] == n_blocks:
            return True
        if out.progress[CURRENT_BLOCK] == begin:
            return False


@kernel
def match_events(
    columns: MatchColumns,
    n_blocks: int,
    events: EventColumns,
    tile: Tile,
    top: int,
    kind: int,
    ids: IdOrder,
    out: Matches,
) -> bool:
    """All matches, or with `top` the best of each event. False: `out` is too full, enlarge it and call again.

    `kind` is SUM … PRODUCT: how weights make a score.
    """
    n_events = events.offsets.shape[0] - 1
    while out.progress[EVENT] < n_events:
        begin = out.progress[EVENT]
        size = min(tile.entry.shape[0], n_events - begin)
        if out.progress[N_ROWS] + size * top > out.step.shape[0]:
            return False
        expand_events(events, begin, size, tile)
        is_done = match_tile(columns, n_blocks, events, size, tile, top, kind, ids, out)
        clear_events(events, begin, size, tile)
        if not is_done:
            return False
        if top > 0:
            for event in range(size):
                report_best(tile.best, event, begin + event, ids, out)
        out.progress[EVENT] = begin + size
        out.progress[CURRENT_BLOCK] = 0
    return True
