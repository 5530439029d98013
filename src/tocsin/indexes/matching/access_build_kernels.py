"""Kernels that build a part of the access index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.matching.access_layout_kernels import (
    BELOW,
    BEYOND,
    NEVER,
    SIEVE,
    Blocks,
    Bounds,
    RecordColumns,
    cell_of,
    high_of,
    key_of,
    low_of,
    pack_predicate,
)
from tocsin.indexes.matching.common_kernels import PRODUCT, Records, add_term
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import Whole

#: A key with fewer records of a block than this has no column, which would take 2 bytes for each record of
#: the block, and shares a bit of the sieve.
FEW = 16


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
                # Both ends in one binary search: neither has to wait for what the other reads. Both are
                # among the bounds.
                least, most, length = low[place], high[place], np.uint64(end - begin)
                first, last = np.uint64(begin), np.uint64(begin)
                while length > 1:
                    half = length >> np.uint64(1)
                    # Arithmetic, not jumps that cannot be predicted.
                    first += half * np.uint64(value[first + half - np.uint64(1)] < least)
                    last += half * np.uint64(value[last + half - np.uint64(1)] < most)
                    length -= half
                low_code, high_code = np.int64(first) - begin, np.int64(last) - begin
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
    """Hull and reach of each block, and which records some event can satisfy."""
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
                    alive[block, record - blocks.record[block]] = 1
            blocks.low[block], blocks.high[block], blocks.reach[block] = low, high, reach


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
def count_columns(blocks: Blocks, records: RecordColumns, survey: Survey) -> int:
    """Lay out the columns and sieves of all blocks; how many sieves there are."""
    n_columns, n_sieves = 0, 0
    for block in range(blocks.low.shape[0]):
        blocks.column[block] = n_columns
        blocks.sieve[block] = -1
        n_keys = survey_block(records, blocks.record[block], blocks.record[block + 1], survey)
        for number in range(n_keys):
            key = survey.keys[number]
            if survey.n_records[key] >= FEW:
                n_columns += 1
            elif blocks.sieve[block] < 0:
                blocks.sieve[block] = n_sieves
                n_sieves += 1
            survey.n_records[key] = 0
    blocks.column[blocks.low.shape[0]] = n_columns
    return n_sieves


@kernel
def write_columns(blocks: Blocks, block: int, n_keys: int, survey: Survey) -> None:
    """Write the columns of a block, whose keys are surveyed."""
    for number in range(n_keys):
        key = survey.keys[number]
        survey.column[key] = -1
        if survey.n_records[key] >= FEW:
            place = blocks.column[block] + number
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
    columns, cells, is_sure = blocks.columns, blocks.cells, records.is_sure
    for block in range(blocks.low.shape[0]):
        begin, end = blocks.record[block], blocks.record[block + 1]
        n_keys = survey_block(records, begin, end, survey)
        write_columns(blocks, block, n_keys, survey)
        cells[blocks.column[block] : blocks.column[block + 1], 0] = BELOW
        cells[blocks.column[block] : blocks.column[block + 1], 1] = BEYOND
        for record in range(begin, end):
            place = np.int64(record - begin)
            is_sure[record] = first_test.shape[0] == 0 or first_test[record] == first_test[record + 1]
            for number in range(first[record], first[record + 1]):
                packed = predicate[number]
                key, low = key_of(packed), low_of(packed)
                if low == NEVER or last[key] == record:
                    is_sure[record] = False
                    continue
                last[key] = record
                if column_of[key] < 0:
                    blocks.sieves[blocks.sieve[block], place] |= np.uint32(1) << np.uint32(key % SIEVE)
                    is_sure[record] = False
                    continue
                column = columns[column_of[key]]
                base, shift = np.int64(column["low"]), np.int64(column["shift"])
                cells[column_of[key], 0, place] = cell_of(low, base, shift)
                cells[column_of[key], 1, place] = cell_of(high_of(packed), base, shift)
                is_sure[record] &= shift == 0
