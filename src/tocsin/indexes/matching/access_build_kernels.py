"""Kernels that build a part of the access index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.matching.access_layout_kernels import (
    BEYOND,
    COLUMN_BITS,
    GROUP,
    NEVER,
    SIEVE,
    WORD_COLUMNS,
    Blocks,
    RecordColumns,
    Strips,
    bit_of,
    cell_of,
    high_of,
    key_of,
    low_of,
    pack_cells,
    pack_predicate,
)
from tocsin.indexes.matching.common_kernels import PRODUCT, Records, add_term, count_bits
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import Whole

#: A key with fewer records of a block than this has no column, which would take 2 bytes for each record of
#: the block: there the sieves of records decide.
FEW = 16


#: Of the hash table: an odd number without a pattern.
MULTIPLIER = 0x9E3779B97F4A7C15
#: Two numbers of bounds in one word.
HALF = 32


class Survey(NamedTuple):
    """What the records of one block ask for, by key."""

    #: int32 (keys,): records that ask for the key; 0 between blocks
    n_records: Ints
    #: int32 (keys,): least low and greatest high code
    low: Ints
    high: Ints
    #: int32 (keys,): the record that asked last
    last: Ints
    #: int32 (keys,): the key's column, -1 where it has none
    column: Ints
    #: int32: the keys, most asked for first
    keys: Ints


@kernel
def group_bounds(predicates: Records, out_first: Longs, out_low: Floats, out_high: Floats) -> None:
    """Bring the bounds of each key together, in the order of predicates; `out_first` is (keys + 1,)."""
    out_first[:] = 0
    for predicate in range(predicates.shape[0]):
        out_first[predicates[predicate]["key"] + 1] += 1
    for key in range(1, out_first.shape[0]):
        out_first[key] += out_first[key - 1]
    for predicate in range(predicates.shape[0]):
        key = predicates[predicate]["key"]
        # Both zeros have the same bits then.
        out_low[out_first[key]] = predicates[predicate]["low"] + 0.0
        out_high[out_first[key]] = predicates[predicate]["high"] + 0.0
        out_first[key] += 1
    # Each has moved to where the next one begins.
    for key in range(out_first.shape[0] - 1, 0, -1):
        out_first[key] = out_first[key - 1]
    out_first[0] = 0


class Table(NamedTuple):
    """A hash table of the different bounds of one key, in the order in which they come up."""

    #: int64 (a power of two,): a bound's bits; int32: its number, -1 where there is none
    bits: Longs
    number: Ints
    #: int32 (bounds,): the place of each number in the table, and its code
    place: Ints
    code: Ints


@kernel
def number_bound(table: Table, bits: np.int64, n_bounds: Whole) -> Whole:
    """The number of a bound; `n_bounds`, which it has from now on, if it is new."""
    mask = np.uint64(table.bits.shape[0] - 1)
    mixed = np.uint64(bits ^ (bits >> 32)) * np.uint64(MULTIPLIER)
    place = (mixed ^ (mixed >> np.uint64(32))) & mask
    while table.number[place] >= 0 and table.bits[place] != bits:
        place = (place + np.uint64(1)) & mask
    if table.number[place] < 0:
        table.bits[place], table.number[place], table.place[n_bounds] = bits, n_bounds, place
    return np.int64(table.number[place])


@kernel
def encode_predicates(
    low: Floats,
    high: Floats,
    key_first: Longs,
    table: Table,
    out_value: Floats,
    out_n_bounds: Longs,
    out_code: Longs,
    out_crowd: Ints,
) -> None:
    """Find the bounds of each key, pack predicates, and count how many others of its key each overlaps.

    Predicates come by key. `table` is empty, and has room for the bounds of any key; `out_value` has room for
    those of all. Cost: linear, and the different bounds of a key times their logarithm.
    """
    low_bits, high_bits = low.view(np.int64), high.view(np.int64)
    n_low, n_high = np.empty_like(table.code), np.empty_like(table.code)
    begin = np.int64(0)
    for key in range(key_first.shape[0] - 1):
        n_bounds = np.int64(0)
        for place in range(key_first[key], key_first[key + 1]):
            if low[place] <= high[place]:
                # The numbers of both ends, until codes are known.
                first = number_bound(table, low_bits[place], n_bounds)
                n_bounds += np.int64(first == n_bounds)
                last = number_bound(table, high_bits[place], n_bounds)
                n_bounds += np.int64(last == n_bounds)
                out_code[place] = (first << HALF) | last
        values = out_value[begin : begin + n_bounds]
        for number in range(n_bounds):
            values[number] = table.bits[table.place[number : number + 1]].view(np.float64)[0]
            table.number[table.place[number]] = -1
        order = np.argsort(values)
        values[:] = values[order]
        for code in range(n_bounds):
            table.code[order[code]] = code
        n_low[: n_bounds + 1] = 0
        n_high[: n_bounds + 1] = 0
        for place in range(key_first[key], key_first[key + 1]):
            low_code, high_code = np.int64(NEVER), np.int64(0)
            if low[place] <= high[place]:
                low_code = np.int64(table.code[out_code[place] >> HALF])
                high_code = np.int64(table.code[out_code[place] & ((1 << HALF) - 1)])
                n_low[low_code] += 1
                n_high[high_code + 1] += 1
            out_code[place] = pack_predicate(np.int64(key), low_code, high_code)
        for code in range(1, n_bounds + 1):
            n_low[code] += n_low[code - 1]
            n_high[code] += n_high[code - 1]
        for place in range(key_first[key], key_first[key + 1]):
            packed = out_code[place]
            crowd = np.int64(0)
            if low_of(packed) != NEVER:
                crowd = np.int64(n_low[high_of(packed)]) - n_high[low_of(packed)]
            out_crowd[place] = crowd
        out_n_bounds[key] = n_bounds
        begin += n_bounds


@kernel
def choose_access(
    predicates: Records,
    first: Longs,
    key_next: Longs,
    code: Longs,
    crowd: Ints,
    out_predicate: Longs,
    out_access: Ints,
) -> None:
    """Bring packed predicates back into their order, and find the one of each record that the fewest overlap.

    `key_next` begins as the first place of each key. A record without predicates has the access -1.
    """
    for record in range(out_access.shape[0]):
        access, least = np.int64(-1), np.int64(0)
        for predicate in range(first[record], first[record + 1]):
            key = predicates[predicate]["key"]
            place = key_next[key]
            key_next[key] += 1
            out_predicate[predicate] = code[place]
            if access < 0 or crowd[place] < least:
                access, least = np.int64(predicate), np.int64(crowd[place])
        out_access[record] = access


@kernel
def score_records(first: Longs, weight: Floats, kind: int, out_score: Floats, out_reach: Floats) -> None:
    """The scores of records where all weights of an event are 1, and what no other weights up to 1 exceed."""
    for record in range(out_score.shape[0]):
        score = 1.0 if kind == PRODUCT else 0.0
        reach = score
        for predicate in range(first[record], first[record + 1]):
            number, most = predicate - first[record], max(weight[predicate], 0.0)
            if kind == PRODUCT:
                most = abs(weight[predicate])
            score = add_term(score, weight[predicate], number, kind)
            reach = add_term(reach, most, number, kind)
        out_score[record] = score
        # A product that overflows, times 0, is no number: nothing bounds it.
        out_reach[record] = reach if reach == reach else np.inf


@kernel
def place_records(by_reach: Longs, block_of: Ints, out_next: Longs, out_source: Ints) -> None:
    """Which record comes where: by block, then by reach. `out_next` begins as each block's first place."""
    for number in range(by_reach.shape[0]):
        record = by_reach[number]
        block = block_of[record]
        out_source[out_next[block]] = record
        out_next[block] += 1


@kernel
def move_predicates(
    source: Ints, first: Longs, predicate: Longs, weight: Floats, records: RecordColumns
) -> None:
    """Copy the predicates of records into their new order."""
    out_first, out_predicate, out_weight = records.first, records.predicate, records.weight
    place = 0
    for record in range(source.shape[0]):
        out_first[record] = place
        for number in range(first[source[record]], first[source[record] + 1]):
            out_predicate[place] = predicate[number]
            out_weight[place] = weight[number]
            place += 1
    out_first[source.shape[0]] = place


@kernel
def bound_strips(strips: Strips, blocks: Blocks, records: RecordColumns) -> None:
    """The hull of each strip."""
    first, predicate, out_low, out_high = records.first, records.predicate, strips.low, strips.high
    for access in range(strips.first.shape[0] - 1):
        for strip in range(strips.first[access], strips.first[access + 1]):
            out_low[strip], out_high[strip] = NEVER, 0
            begin, end = blocks.record[strips.block[strip]], blocks.record[strips.block[strip + 1]]
            for number in range(first[begin], first[end]):
                packed = predicate[number]
                if key_of(packed) == access and low_of(packed) != NEVER:
                    out_low[strip] = min(np.int64(out_low[strip]), low_of(packed))
                    out_high[strip] = max(np.int64(out_high[strip]), high_of(packed))


@kernel
def bound_blocks(strips: Strips, blocks: Blocks, records: RecordColumns) -> None:
    """Hull, keys and reach of each block, which records some event can satisfy, and the sieves of all."""
    first, predicate, sieve, alive = records.first, records.predicate, records.sieve, blocks.alive
    for strip in range(strips.key.shape[0]):
        key = strips.key[strip]
        for block in range(strips.block[strip], strips.block[strip + 1]):
            # A record without predicates is met by every event: at code 0 of a key that all have.
            low, high, reach = np.int64(NEVER), np.int64(0), 0.0
            asked, least = np.uint64(0), np.int64(GROUP)
            for record in range(blocks.record[block], blocks.record[block + 1]):
                reach = max(reach, records.reach[record])
                is_possible, mine = True, np.uint64(0)
                if first[record] == first[record + 1]:
                    low = np.int64(0)
                for number in range(first[record], first[record + 1]):
                    packed = predicate[number]
                    mine |= bit_of(key_of(packed))
                    sieve[record] |= np.uint32(1) << np.uint32(key_of(packed) % SIEVE)
                    if low_of(packed) == NEVER:
                        is_possible = False
                    elif key_of(packed) == key:
                        low = min(low, low_of(packed))
                        high = max(high, high_of(packed))
                asked |= mine
                least = min(least, np.int64(count_bits(mine)))
                if is_possible:
                    place = record - blocks.record[block]
                    alive[block, place // GROUP] |= np.uint64(1) << np.uint64(place % GROUP)
            blocks.low[block], blocks.high[block], blocks.reach[block] = low, high, reach
            blocks.keys[block], blocks.least[block] = asked, least


@kernel
def survey_block(records: RecordColumns, begin: Whole, end: Whole, survey: Survey) -> int:
    """List the keys of a block's records, the most asked for first. Returns how many there are."""
    first, predicate = records.first, records.predicate
    asking, keys, last, low, high = survey.n_records, survey.keys, survey.last, survey.low, survey.high
    n_keys = 0
    for record in range(begin, end):
        for number in range(first[record], first[record + 1]):
            packed = predicate[number]
            key, code = key_of(packed), low_of(packed)
            if code == NEVER:
                continue
            if asking[key] == 0:
                keys[n_keys] = key
                n_keys += 1
                low[key], high[key], last[key] = code, high_of(packed), -1
            if last[key] == record:
                continue
            last[key] = record
            asking[key] += 1
            low[key] = min(np.int64(low[key]), code)
            high[key] = max(np.int64(high[key]), high_of(packed))
    for place in range(1, n_keys):
        key, here = np.int64(keys[place]), place
        if asking[key] < FEW:
            continue
        while here > 0 and asking[keys[here - 1]] < asking[key]:
            keys[here] = keys[here - 1]
            here -= 1
        keys[here] = key
    return n_keys


@kernel
def count_columns(blocks: Blocks, records: RecordColumns, survey: Survey) -> None:
    """Lay out the words of columns of all blocks, and find out which have keys without one."""
    n_words = 0
    for block in range(blocks.low.shape[0]):
        n_columns = 0
        blocks.word[block] = n_words
        n_keys = survey_block(records, blocks.record[block], blocks.record[block + 1], survey)
        for number in range(n_keys):
            key = survey.keys[number]
            if survey.n_records[key] >= FEW:
                n_columns += 1
            else:
                blocks.is_sieved[block] = True
            survey.n_records[key] = 0
        n_words += (n_columns + WORD_COLUMNS - 1) // WORD_COLUMNS
    blocks.word[blocks.low.shape[0]] = n_words


@kernel
def write_columns(blocks: Blocks, block: int, n_keys: int, survey: Survey) -> None:
    """Write the columns of a block, whose keys are surveyed."""
    for number in range(n_keys):
        key = survey.keys[number]
        survey.column[key] = -1
        if survey.n_records[key] >= FEW:
            place = WORD_COLUMNS * blocks.word[block] + number
            span, shift = np.int64(survey.high[key]) - survey.low[key], 0
            while (span >> shift) + 2 > BEYOND:
                shift += 1
            survey.column[key] = place
            column = blocks.columns[place]
            column["key"], column["low"], column["shift"] = key, survey.low[key], shift
        survey.n_records[key] = 0
        survey.last[key] = -1


@kernel
def fill_columns(blocks: Blocks, records: RecordColumns, survey: Survey, first_test: Ints) -> None:
    """Write columns, the cells of records that ask for them, and which records these decide.

    Only the first predicate of a record on a key has cells: a range in an event may satisfy two, each by
    another number.
    """
    first, predicate, last, column_of = records.first, records.predicate, survey.last, survey.column
    columns, cells, sure = blocks.columns, blocks.cells, blocks.sure
    for block in range(blocks.low.shape[0]):
        begin, end = blocks.record[block], blocks.record[block + 1]
        n_keys = survey_block(records, begin, end, survey)
        write_columns(blocks, block, n_keys, survey)
        for record in range(begin, end):
            place = np.int64(record - begin)
            is_sure = first_test.shape[0] == 0 or first_test[record] == first_test[record + 1]
            for number in range(first[record], first[record + 1]):
                packed = predicate[number]
                key, low = key_of(packed), low_of(packed)
                if low == NEVER or last[key] == record:
                    is_sure = False
                    continue
                last[key] = record
                if column_of[key] < 0:
                    is_sure = False
                    continue
                column = columns[column_of[key]]
                base, shift = np.int64(column["low"]), np.int64(column["shift"])
                pair = pack_cells(cell_of(low, base, shift), cell_of(high_of(packed), base, shift))
                word, share = divmod(np.int64(column_of[key]), WORD_COLUMNS)
                cells[word, place] |= pair << np.uint64(COLUMN_BITS * share)
                is_sure &= shift == 0
            if is_sure:
                sure[block, place // GROUP] |= np.uint64(1) << np.uint64(place % GROUP)
