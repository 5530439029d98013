"""Kernels that build a segment of the access index."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.matching.access.layout_kernels import (
    BEYOND,
    BLOOM_BITS,
    COLUMN_BITS,
    GROUP,
    NEVER,
    WORD_COLUMNS,
    Blocks,
    Partitions,
    RecordColumns,
    bit_of,
    cell_of,
    high_of,
    key_of,
    low_of,
    pack_cells,
    pack_predicate,
)
from tocsin.indexes.matching.common_kernels import count_bits
from tocsin.indexes.matching.layout import PRODUCT, Records
from tocsin.indexes.matching.score_kernels import add_term

#: A key with predicates of fewer records of a block has no column, which would take 2 bytes for each record
#: of the block: the records' Bloom filters stand in.
MIN_COLUMN_RECORDS = 16

#: Multiplier of the hash table.
MULTIPLIER = 0x9E3779B97F4A7C15
#: Bits of half a word: two numbers of bounds in one.
HALF = 32


class BlockStatistics(NamedTuple):
    """Attribute statistics of one block: on which keys its records have predicates."""

    #: records with a predicate on the key; 0 between blocks
    n_records: Annotated[Ints, Column("keys")]
    #: least low and greatest high code
    low: Annotated[Ints, Column("keys")]
    high: Annotated[Ints, Column("keys")]
    #: the last record counted
    last: Annotated[Ints, Column("keys")]
    #: the key's column, -1 where it has none
    column: Annotated[Ints, Column("keys")]
    #: the keys that occur, the most frequent first
    keys: Annotated[Ints, Column("keys")]


@kernel
def group_bounds(predicates: Records, out_first: Longs, out_low: Floats, out_high: Floats) -> None:
    """Group bounds by key, in the order of predicates; `out_first` is (keys + 1,)."""
    out_first[:] = 0
    for predicate in range(predicates.shape[0]):
        out_first[predicates[predicate]["key"] + 1] += 1
    for key in range(1, out_first.shape[0]):
        out_first[key] += out_first[key - 1]
    for predicate in range(predicates.shape[0]):
        key = predicates[predicate]["key"]
        # Gives both zeros the same bits.
        out_low[out_first[key]] = predicates[predicate]["low"] + 0.0
        out_high[out_first[key]] = predicates[predicate]["high"] + 0.0
        out_first[key] += 1
    # Each start has advanced to the next one.
    for key in range(out_first.shape[0] - 1, 0, -1):
        out_first[key] = out_first[key - 1]
    out_first[0] = 0


class HashTable(NamedTuple):
    """A hash table of the distinct bounds of one key, numbered in order of appearance."""

    #: a bound's bits, and its number, -1 where there is none
    bits: Annotated[Longs, Column("places", fill=None)]
    number: Annotated[Ints, Column("places", fill=-1)]
    #: place of each number in the table, and its code
    place: Annotated[Ints, Column("bounds", fill=None)]
    code: Annotated[Ints, Column("bounds", fill=None)]


@kernel
def intern_bound(table: HashTable, bits: np.int64, n_bounds: Whole) -> Whole:
    """The number of a bound; a new one gets `n_bounds`."""
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
    table: HashTable,
    out_value: Floats,
    out_n_bounds: Longs,
    out_code: Longs,
    out_overlaps: Ints,
) -> None:
    """Find the bounds of each key, pack predicates, and count how many others of its key each overlaps.

    Predicates come by key. `table` is empty, with capacity for the bounds of any key, and `out_value` for
    those of all. Cost: linear, and the distinct bounds of a key times their logarithm.
    """
    low_bits, high_bits = low.view(np.int64), high.view(np.int64)
    n_low, n_high = np.empty_like(table.code), np.empty_like(table.code)
    begin = np.int64(0)
    for key in range(key_first.shape[0] - 1):
        n_bounds = np.int64(0)
        for place in range(key_first[key], key_first[key + 1]):
            if low[place] <= high[place]:
                # The numbers of both ends stand in for codes.
                first = intern_bound(table, low_bits[place], n_bounds)
                n_bounds += np.int64(first == n_bounds)
                last = intern_bound(table, high_bits[place], n_bounds)
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
            overlaps = np.int64(0)
            if low_of(packed) != NEVER:
                overlaps = np.int64(n_low[high_of(packed)]) - n_high[low_of(packed)]
            out_overlaps[place] = overlaps
        out_n_bounds[key] = n_bounds
        begin += n_bounds


@kernel
def choose_access(
    predicates: Records,
    first: Longs,
    key_next: Longs,
    code: Longs,
    overlaps: Ints,
    out_predicate: Longs,
    out_access: Ints,
) -> None:
    """Put packed predicates back into record order, and find the one of each record that the fewest overlap.

    `key_next` begins as the first place of each key. A record without predicates has the access -1.
    """
    for record in range(out_access.shape[0]):
        access, least = np.int64(-1), np.int64(0)
        for predicate in range(first[record], first[record + 1]):
            key = predicates[predicate]["key"]
            place = key_next[key]
            key_next[key] += 1
            out_predicate[predicate] = code[place]
            if access < 0 or overlaps[place] < least:
                access, least = np.int64(predicate), np.int64(overlaps[place])
        out_access[record] = access


@kernel
def score_records(
    first: Longs, weight: Floats, kind: int, out_score: Floats, out_score_bound: Floats
) -> None:
    """Scores of records if all weights of an event are 1, and upper bounds for any weights from 0 to 1."""
    for record in range(out_score.shape[0]):
        score = 1.0 if kind == PRODUCT else 0.0
        score_bound = score
        for predicate in range(first[record], first[record + 1]):
            number, most = predicate - first[record], max(weight[predicate], 0.0)
            if kind == PRODUCT:
                most = abs(weight[predicate])
            score = add_term(score, weight[predicate], number, kind)
            score_bound = add_term(score_bound, most, number, kind)
        out_score[record] = score
        # An overflowing product times 0 is NaN: nothing bounds it.
        out_score_bound[record] = score_bound if score_bound == score_bound else np.inf


@kernel
def place_records(by_score_bound: Longs, block_of: Ints, out_next: Longs, out_source: Ints) -> None:
    """Order records by block, then by score bound. `out_next` begins as each block's first place."""
    for number in range(by_score_bound.shape[0]):
        record = by_score_bound[number]
        block = block_of[record]
        out_source[out_next[block]] = record
        out_next[block] += 1


@kernel
def move_predicates(
    source: Ints, first: Longs, predicate: Longs, weight: Floats, records: RecordColumns
) -> None:
    """Copy predicates into the new order of records."""
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
def bound_partitions(partitions: Partitions, blocks: Blocks, records: RecordColumns) -> None:
    """Compute the hull of each partition."""
    first, predicate, out_low, out_high = records.first, records.predicate, partitions.low, partitions.high
    for access in range(partitions.first.shape[0] - 1):
        for partition in range(partitions.first[access], partitions.first[access + 1]):
            out_low[partition], out_high[partition] = NEVER, 0
            begin, end = (
                blocks.record[partitions.block[partition]],
                blocks.record[partitions.block[partition + 1]],
            )
            for number in range(first[begin], first[end]):
                packed = predicate[number]
                if key_of(packed) == access and low_of(packed) != NEVER:
                    out_low[partition] = min(np.int64(out_low[partition]), low_of(packed))
                    out_high[partition] = max(np.int64(out_high[partition]), high_of(packed))


@kernel
def bound_blocks(partitions: Partitions, blocks: Blocks, records: RecordColumns) -> None:
    """Compute hull, keys and score bound of each block, which records can match, and their Bloom filters."""
    first, predicate, bloom, alive = records.first, records.predicate, records.bloom, blocks.alive
    for partition in range(partitions.key.shape[0]):
        key = partitions.key[partition]
        for block in range(partitions.block[partition], partitions.block[partition + 1]):
            # Every event meets a record without predicates: at code 0 of a key that all have.
            low, high, score_bound = np.int64(NEVER), np.int64(0), 0.0
            keys_asked, min_keys = np.uint64(0), np.int64(GROUP)
            for record in range(blocks.record[block], blocks.record[block + 1]):
                score_bound = max(score_bound, records.score_bound[record])
                is_possible, mine = True, np.uint64(0)
                if first[record] == first[record + 1]:
                    low = np.int64(0)
                for number in range(first[record], first[record + 1]):
                    packed = predicate[number]
                    mine |= bit_of(key_of(packed))
                    bloom[record] |= np.uint32(1) << np.uint32(key_of(packed) % BLOOM_BITS)
                    if low_of(packed) == NEVER:
                        is_possible = False
                    elif key_of(packed) == key:
                        low = min(low, low_of(packed))
                        high = max(high, high_of(packed))
                keys_asked |= mine
                min_keys = min(min_keys, np.int64(count_bits(mine)))
                if is_possible:
                    place = record - blocks.record[block]
                    alive[block, place // GROUP] |= np.uint64(1) << np.uint64(place % GROUP)
            blocks.low[block], blocks.high[block], blocks.score_bound[block] = low, high, score_bound
            blocks.keys[block], blocks.min_keys[block] = keys_asked, min_keys


@kernel
def gather_statistics(records: RecordColumns, begin: Whole, end: Whole, statistics: BlockStatistics) -> int:
    """List the keys of a block's records, the most frequent first. Returns their number."""
    first, predicate = records.first, records.predicate
    asking, keys, last, low, high = (
        statistics.n_records,
        statistics.keys,
        statistics.last,
        statistics.low,
        statistics.high,
    )
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
        if asking[key] < MIN_COLUMN_RECORDS:
            continue
        while here > 0 and asking[keys[here - 1]] < asking[key]:
            keys[here] = keys[here - 1]
            here -= 1
        keys[here] = key
    return n_keys


@kernel
def count_columns(blocks: Blocks, records: RecordColumns, statistics: BlockStatistics) -> None:
    """Assign words of columns to all blocks, and mark the blocks that have keys without a column."""
    n_words = 0
    for block in range(blocks.low.shape[0]):
        n_columns = 0
        blocks.word[block] = n_words
        n_keys = gather_statistics(records, blocks.record[block], blocks.record[block + 1], statistics)
        for number in range(n_keys):
            key = statistics.keys[number]
            if statistics.n_records[key] >= MIN_COLUMN_RECORDS:
                n_columns += 1
            else:
                blocks.needs_bloom[block] = True
            statistics.n_records[key] = 0
        n_words += (n_columns + WORD_COLUMNS - 1) // WORD_COLUMNS
    blocks.word[blocks.low.shape[0]] = n_words


@kernel
def write_columns(blocks: Blocks, block: int, n_keys: int, statistics: BlockStatistics) -> None:
    """Write the columns of a block from its statistics."""
    for number in range(n_keys):
        key = statistics.keys[number]
        statistics.column[key] = -1
        if statistics.n_records[key] >= MIN_COLUMN_RECORDS:
            place = WORD_COLUMNS * blocks.word[block] + number
            span, shift = np.int64(statistics.high[key]) - statistics.low[key], 0
            while (span >> shift) + 2 > BEYOND:
                shift += 1
            statistics.column[key] = place
            column = blocks.columns[place]
            column["key"], column["low"], column["shift"] = key, statistics.low[key], shift
        statistics.n_records[key] = 0
        statistics.last[key] = -1


@kernel
def fill_columns(
    blocks: Blocks, records: RecordColumns, statistics: BlockStatistics, first_test: Ints
) -> None:
    """Write columns, the cells of records with predicates on them, and which records they decide exactly.

    Only the first predicate of a record on a key has cells: a range in an event may satisfy two, each by
    another number.
    """
    first, predicate, last, column_of = records.first, records.predicate, statistics.last, statistics.column
    columns, cells, exact = blocks.columns, blocks.cells, blocks.exact
    for block in range(blocks.low.shape[0]):
        begin, end = blocks.record[block], blocks.record[block + 1]
        n_keys = gather_statistics(records, begin, end, statistics)
        write_columns(blocks, block, n_keys, statistics)
        for record in range(begin, end):
            place = np.int64(record - begin)
            is_exact = first_test.shape[0] == 0 or first_test[record] == first_test[record + 1]
            for number in range(first[record], first[record + 1]):
                packed = predicate[number]
                key, low = key_of(packed), low_of(packed)
                if low == NEVER or last[key] == record:
                    is_exact = False
                    continue
                last[key] = record
                if column_of[key] < 0:
                    is_exact = False
                    continue
                column = columns[column_of[key]]
                base, shift = np.int64(column["low"]), np.int64(column["shift"])
                pair = pack_cells(cell_of(low, base, shift), cell_of(high_of(packed), base, shift))
                word, share = divmod(np.int64(column_of[key]), WORD_COLUMNS)
                cells[word, place] |= pair << np.uint64(COLUMN_BITS * share)
                is_exact &= shift == 0
            if is_exact:
                exact[block, place // GROUP] |= np.uint64(1) << np.uint64(place % GROUP)
