"""Kernels that build a part of the access index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.matching.access_layout_kernels import (
    NEVER,
    SIEVE,
    WORD,
    Blocks,
    Bounds,
    RecordColumns,
    Words,
    high_of,
    key_of,
    low_of,
    pack_predicate,
)
from tocsin.indexes.matching.common_kernels import Records, count_below
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import Whole

#: A key with fewer records of a block than this has no column, and shares a row of the sieve.
FEW = 8
#: Rows of a block's columns, about: the more, the sharper they sift. Each takes as many bits as a block has
#: records.
BLOCK_ROWS = 400


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
        out_low[out_first[key]] = predicates[predicate]["low"]
        out_high[out_first[key]] = predicates[predicate]["high"]
        out_first[key] += 1
    # Each has moved to where the next one begins.
    for key in range(out_first.shape[0] - 1, 0, -1):
        out_first[key] = out_first[key - 1]
    out_first[0] = 0


@kernel
def encode_predicates(
    low: Floats,
    high: Floats,
    key_first: Longs,
    bounds: Bounds,
    scratch: Ints,
    out_code: Longs,
    out_crowd: Ints,
) -> None:
    """Pack predicates, whose bounds come by key, and count how many others of its key each overlaps.

    `scratch` is (2, more than the bounds of any key).
    """
    value, n_low, n_high = bounds.value, scratch[0], scratch[1]
    for key in range(key_first.shape[0] - 1):
        begin, end = bounds.first[key], bounds.first[key + 1]
        n_low[: end - begin + 1] = 0
        n_high[: end - begin + 1] = 0
        for place in range(key_first[key], key_first[key + 1]):
            low_code, high_code = np.int64(NEVER), np.int64(0)
            if low[place] <= high[place]:
                low_code = np.int64(count_below(value, begin, end, low[place]))
                high_code = np.int64(count_below(value, begin, end, high[place]))
                n_low[low_code] += 1
                n_high[high_code + 1] += 1
            out_code[place] = pack_predicate(np.int64(key), low_code, high_code)
        for code in range(1, end - begin + 1):
            n_low[code] += n_low[code - 1]
            n_high[code] += n_high[code - 1]
        for place in range(key_first[key], key_first[key + 1]):
            packed = out_code[place]
            crowd = np.int64(0)
            if low_of(packed) != NEVER:
                crowd = np.int64(n_low[high_of(packed)]) - n_high[low_of(packed)]
            out_crowd[place] = crowd


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
def score_records(first: Longs, weight: Floats, out_score: Floats, out_reach: Floats) -> None:
    """The scores of records where all weights of an event are 1, and the same without what subtracts."""
    for record in range(out_score.shape[0]):
        score, reach = 0.0, 0.0
        for predicate in range(first[record], first[record + 1]):
            score += weight[predicate]
            reach += max(weight[predicate], 0.0)
        out_score[record] = score
        out_reach[record] = reach


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
def bound_blocks(blocks: Blocks, records: RecordColumns) -> None:
    """Hull and reach of each block, and a bit for each record that some event can satisfy."""
    first, predicate, alive = records.first, records.predicate, blocks.alive
    for key in range(blocks.first.shape[0] - 1):
        for block in range(blocks.first[key], blocks.first[key + 1]):
            # A record without predicates is met by every event: at code 0 of a key that all have.
            low, high, reach = np.int64(NEVER), np.int64(0), 0.0
            for record in range(blocks.record[block], blocks.record[block + 1]):
                reach = max(reach, records.reach[record])
                is_possible = True
                if first[record] == first[record + 1]:
                    low = np.int64(0)
                for number in range(first[record], first[record + 1]):
                    packed = predicate[number]
                    if low_of(packed) == NEVER:
                        is_possible = False
                    elif key_of(packed) == key:
                        low = min(low, low_of(packed))
                        high = max(high, high_of(packed))
                if is_possible:
                    place = record - blocks.record[block]
                    alive[block, place // WORD] |= np.uint64(1) << np.uint64(place % WORD)
            blocks.low[block], blocks.high[block], blocks.reach[block] = low, high, reach


@kernel
def survey_block(records: RecordColumns, begin: Whole, end: Whole, survey: Survey) -> tuple[int, bool]:
    """List the keys of a block's records, the most asked for first.

    Returns how many there are, and whether any is asked for twice by one record.
    """
    first, predicate = records.first, records.predicate
    asking, keys, last, low, high = survey.n_records, survey.keys, survey.last, survey.low, survey.high
    n_keys, is_repeated = 0, False
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
                is_repeated = True
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
    return n_keys, is_repeated


@kernel
def choose_shift(n_asking: Whole, n_predicates: Whole, span: Whole) -> Whole:
    """How many bits of a code a column leaves out: cells are shared out by how many ask for a key."""
    shift, n_cells = np.int64(0), max(BLOCK_ROWS * n_asking // n_predicates, 2)
    while (span >> shift) + 1 > n_cells:
        shift += 1
    return shift


@kernel
def count_rows(blocks: Blocks, records: RecordColumns, survey: Survey) -> Whole:
    """Lay out the columns and sieves of all blocks; how many rows they take."""
    n_columns, n_rows = 0, np.int64(0)
    for block in range(blocks.low.shape[0]):
        blocks.column[block] = n_columns
        blocks.sieve[block] = -1
        begin, end = blocks.record[block], blocks.record[block + 1]
        n_predicates = np.int64(records.first[end] - records.first[begin])
        n_keys, _ = survey_block(records, begin, end, survey)
        for number in range(n_keys):
            key = survey.keys[number]
            asking, span = np.int64(survey.n_records[key]), np.int64(survey.high[key]) - survey.low[key]
            if asking >= FEW:
                n_rows += 2 + (span >> choose_shift(asking, n_predicates, span))
                n_columns += 1
            else:
                blocks.sieve[block] = 0
            survey.n_records[key] = 0
        if blocks.sieve[block] == 0:
            blocks.sieve[block] = n_rows
            n_rows += SIEVE
    blocks.column[blocks.low.shape[0]] = n_columns
    return n_rows


@kernel
def write_columns(
    blocks: Blocks, block: int, n_predicates: Whole, n_keys: int, survey: Survey, n_rows: Whole
) -> tuple[Whole, bool]:
    """Write the columns of a block, whose rows begin at `n_rows`; where they end, and if all are exact."""
    is_exact = blocks.sieve[block] < 0
    for number in range(n_keys):
        key = survey.keys[number]
        asking, span = np.int64(survey.n_records[key]), np.int64(survey.high[key]) - survey.low[key]
        survey.column[key] = -1
        if asking >= FEW:
            place, shift = blocks.column[block] + number, choose_shift(asking, n_predicates, span)
            survey.column[key] = place
            column = blocks.columns[place]
            column["key"], column["low"], column["high"] = key, survey.low[key], survey.high[key]
            column["shift"], column["row"] = shift, n_rows
            n_rows += 2 + (span >> shift)
            is_exact &= shift == 0
        survey.n_records[key] = 0
        survey.last[key] = -1
    return n_rows, is_exact


@kernel
def clear_bit(rows: Words, row: Whole, place: Whole) -> None:
    """Take a record out of a row."""
    rows[row, place // WORD] &= ~(np.uint64(1) << np.uint64(place % WORD))


@kernel
def fill_rows(blocks: Blocks, records: RecordColumns, survey: Survey, first_test: Ints) -> None:
    """Write columns, and take records out of the rows that do not satisfy them: all bits are set before.

    Only the first predicate of a record on a key counts: a range in an event may satisfy two, each by another
    number.
    """
    first, predicate, last, column_of = records.first, records.predicate, survey.last, survey.column
    rows, columns = blocks.rows, blocks.columns
    n_rows: Whole = np.int64(0)
    for block in range(blocks.low.shape[0]):
        begin, end = blocks.record[block], blocks.record[block + 1]
        n_keys, is_repeated = survey_block(records, begin, end, survey)
        n_predicates = np.int64(first[end] - first[begin])
        n_rows, is_exact = write_columns(blocks, block, n_predicates, n_keys, survey, n_rows)
        sieve = blocks.sieve[block]
        if sieve >= 0:
            n_rows += SIEVE
        is_tested = first_test.shape[0] > 0 and first_test[begin] < first_test[end]
        blocks.is_exact[block] = is_exact and not is_repeated and not is_tested
        for record in range(begin, end):
            place = np.int64(record - begin)
            for number in range(first[record], first[record + 1]):
                packed = predicate[number]
                key, low = key_of(packed), low_of(packed)
                if low == NEVER or last[key] == record:
                    continue
                last[key] = record
                if column_of[key] < 0:
                    clear_bit(rows, sieve + key % SIEVE, place)
                    continue
                column = columns[column_of[key]]
                row, shift, base = np.int64(column["row"]), np.int64(column["shift"]), np.int64(column["low"])
                clear_bit(rows, row, place)
                for cell in range((low - base) >> shift):
                    clear_bit(rows, row + 1 + cell, place)
                begin_cell, end_cell = (
                    (high_of(packed) - base) >> shift,
                    (column["high"] - base) >> shift,
                )
                for cell in range(begin_cell + 1, end_cell + 1):
                    clear_bit(rows, row + 1 + cell, place)
