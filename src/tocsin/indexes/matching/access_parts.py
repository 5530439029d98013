"""A part of the access index: built at once, then only thinned out."""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np

from tocsin.indexes.contract import Ints, Longs
from tocsin.indexes.matching.access_build_kernels import (
    Survey,
    bound_blocks,
    bound_strips,
    choose_access,
    count_columns,
    fill_columns,
    move_predicates,
    place_records,
    score_records,
)
from tocsin.indexes.matching.access_kernels import match_events
from tocsin.indexes.matching.access_layout_kernels import (
    ALWAYS,
    BELOW,
    BEYOND,
    BLOCK,
    CODE_BITS,
    COLUMN,
    COLUMN_BITS,
    GROUP,
    HIGH_SHIFT,
    KEY_SHIFT,
    LACKING,
    MASK,
    NEVER,
    OPEN,
    SIEVE,
    WORD_COLUMNS,
    AccessColumns,
    Blocks,
    RecordColumns,
    Strips,
    Tests,
    Visits,
    bit_of,
    cell_of,
    pack_cells,
)
from tocsin.indexes.matching.access_order_kernels import TRAITS, Census, lay_strips, sort_families
from tocsin.indexes.matching.access_report_kernels import Desk
from tocsin.indexes.matching.attributes import Attributes
from tocsin.indexes.matching.bound_kernels import Bounds
from tocsin.indexes.matching.bounds import encoded_by_key, has_codes
from tocsin.indexes.matching.common_kernels import KINDS, PREDICATE, Best, EventColumns, IdOrder, Matches
from tocsin.indexes.matching.conjunctions import Conjunctions, runs_of, starts_of
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.lone import LoneRanges, is_lone
from tocsin.indexes.shared.direct import compiled
from tocsin.indexes.shared.lanes import LANES

#: Where visits were listed is kept for the next events if it takes no more than this for each record.
KEPT_BYTES = 4


class Part:
    """Conjunctions that were indexed together. Records are its own numbers for them."""

    def __init__(self, slots: Ints, given: Conjunctions, score: int) -> None:
        """Index conjunctions, whose scores are the SUM … PRODUCT of weights.

        Cost: n log n, and linear in predicates times their logarithm.
        """
        self._names = given.names
        self.n_keys = KINDS * len(given.names) + KINDS
        self.columns = _build(slots, given, self.n_keys, score)
        self.n_records = len(slots)
        self.n_alive = len(slots)
        self._kept = self._empty_visits(0, 0, 0)
        self._attributes = Attributes(given.names)

    @property
    def slots(self) -> Ints:
        """The subscription of each record, -1 where it has been terminated."""
        return self.columns.records.slot

    def ask(self, events: Events, room: int) -> tuple[EventColumns, Visits]:
        """Events as this part knows them, and where to list their visits. Cost: as to make room for these."""
        return self._attributes.translate(events), self.visits(events, room)

    def match(
        self,
        asked: tuple[EventColumns, Visits],
        begin: int,
        end: int,
        kind: int,
        best: Best,
        ids: IdOrder,
        desk: Desk,
        out: Matches,
    ) -> int:
        """All matches of some events, or their best: see `match_events`."""
        return compiled(match_events)(
            self.columns, asked[0], begin, end, kind, asked[1], best, ids, desk, out
        )

    def visits(self, events: Events, room: int) -> Visits:
        """Where to list the visits of events, about `room` at a time.

        Cost: linear in entries and keys; nothing if the last ones, which were no more, did not take much.
        """
        n_events, n_entries, n_blocks = events.n_events, len(events.attribute), len(self.columns.blocks.low)
        room = min(room, n_events * n_blocks) + n_blocks + 1
        kept = self._kept
        if len(kept.row) >= n_events and len(kept.value_key) >= n_entries and len(kept.event) >= room:
            return kept
        fresh = self._empty_visits(n_events, n_entries, room)
        if sum(column.nbytes for column in fresh) <= KEPT_BYTES * self.n_records:
            self._kept = fresh
        return fresh

    def remove(self, records: Ints) -> None:
        """Forget records. Cost: linear in them."""
        blocks = self.columns.blocks
        self.columns.records.slot[records] = -1
        block = np.searchsorted(blocks.record, records, side="right") - 1
        group, bit = np.divmod(records - blocks.record[block], GROUP)
        np.bitwise_and.at(blocks.alive, (block, group), ~(np.uint64(1) << bit.astype(np.uint64)))
        self.n_alive -= len(records)

    def records(self) -> Ints:
        """The records that are there."""
        return np.flatnonzero(self.columns.records.slot >= 0).astype(np.int32)

    def conjunctions(self, records: Ints) -> Conjunctions:
        """What records were made from, in their order. Cost: linear in their predicates."""
        bounds, kept, tests = self.columns.bounds, self.columns.records, self.columns.tests
        counts = np.diff(kept.first)[records]
        number = runs_of(kept.first[records].astype(np.int64), counts)
        packed = kept.predicate[number]
        key = packed >> KEY_SHIFT
        low, high = NEVER - (packed & MASK), ((packed >> HIGH_SHIFT) & MASK) - 1
        predicates = np.zeros(len(number), PREDICATE)
        predicates["key"], predicates["weight"], predicates["test"] = key, kept.weight[number], -1
        is_never = low == NEVER
        # A key of which nothing can be satisfied has no bounds, and may be the last.
        value = np.append(bounds.value, np.nan)
        predicates["low"] = np.where(is_never, np.nan, value[bounds.first[key] + np.where(is_never, 0, low)])
        predicates["high"] = np.where(is_never, np.nan, value[bounds.first[key] + high])
        if len(tests.tests):
            place = np.minimum(np.searchsorted(tests.predicate, number), len(tests.tests) - 1)
            predicates["test"] = np.where(tests.predicate[place] == number, place, -1)
        return Conjunctions(
            self._names, counts, predicates, tests.tests, tests.operands, tests.heap
        ).compacted()

    def _empty_visits(self, n_events: int, n_entries: int, room: int) -> Visits:
        n_blocks = len(self.columns.blocks.low)
        return Visits(
            first_value=np.zeros(n_events + 1, np.int64),
            value_key=np.empty(n_entries, np.int32),
            value_code=np.empty(n_entries, np.int64),
            value_entry=np.empty(n_entries, np.int32),
            greatest=np.empty(n_events),
            is_even=np.empty(n_events, np.bool_),
            absent=np.empty(n_events, np.uint32),
            keys=np.empty(n_events, np.uint64),
            nearest=np.empty(n_events, np.int32),
            n_visits=np.empty(n_events, np.int32),
            first_visit=np.empty(n_events, np.int64),
            ordered=np.empty(n_events, np.int32),
            chunk=np.empty(n_events, np.int32),
            local=np.empty(n_events, np.int32),
            chunk_event=np.empty(n_events + 1, np.int64),
            chunk_visit=np.empty(n_events + 1, np.int64),
            n_found=np.empty(n_events, np.int64),
            desk_row=np.empty(n_events, np.int64),
            row=np.empty(n_events, np.int64),
            event=np.empty(room, np.int32),
            block=np.empty(room, np.int32),
            spare=np.empty((2, room), np.int32),
            met=np.empty((room, BLOCK // GROUP), np.uint64),
            counts=np.empty(n_blocks + 2, np.int64),
            n_looked=np.empty((n_events, OPEN), np.int32),
            open_block=np.empty(OPEN, np.int32),
            open_record=np.empty(OPEN, np.int32),
            open_reach=np.empty(OPEN),
            laid_code=np.full(self.n_keys, LACKING, np.int64),
            laid_value=np.zeros(self.n_keys, np.int64),
        )

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        bounds, strips, blocks, records, tests = self.columns
        assert self.n_records == len(records.slot) == len(records.first) - 1
        assert self.n_alive == np.count_nonzero(records.slot >= 0)
        assert records.first[-1] == len(records.predicate) == len(records.weight)
        for begin, end in zip(bounds.first[:-1].tolist(), bounds.first[1:].tolist(), strict=True):
            value = bounds.value[begin:end]
            n_bounds = np.count_nonzero(~np.isnan(value))
            assert (np.diff(value[:n_bounds]) > 0).all()
            assert end - begin - LANES < n_bounds <= end - begin
            assert begin % LANES == 0
        assert blocks.record[0] == 0
        assert blocks.record[-1] == self.n_records
        assert strips.first[-1] == len(strips.low) == len(strips.block) - 1
        assert strips.block[-1] == len(blocks.low) == len(blocks.record) - 1
        assert (np.diff(strips.block) > 0).all()
        for key in range(self.n_keys):
            for strip in range(strips.first[key], strips.first[key + 1]):
                for block in range(strips.block[strip], strips.block[strip + 1]):
                    self._check_block(key, strip, block)
        if len(tests.tests):
            assert tests.first[-1] == len(tests.tests) == len(tests.predicate)
            assert (np.diff(tests.predicate) > 0).all()

    def _check_block(self, access: int, strip: int, block: int) -> None:
        """Records are by reach and within the hulls, and each has the cells that its predicates meet."""
        strips, blocks, records = self.columns.strips, self.columns.blocks, self.columns.records
        begin, end = blocks.record[block], blocks.record[block + 1]
        assert 0 < end - begin <= BLOCK
        assert (np.diff(records.reach[begin:end]) <= 0).all()
        assert blocks.reach[block] == records.reach[begin]
        first, last = (WORD_COLUMNS * int(word) for word in blocks.word[block : block + 2])
        columns = {int(blocks.columns[number]["key"]): number for number in range(first, last)}
        # The key that columns have which a block does not need.
        columns.pop(ALWAYS, None)
        sets = [self._key_set(record) for record in range(begin, end)]
        assert int(blocks.keys[block]) == reduce(or_, sets)
        assert blocks.least[block] == min(one.bit_count() for one in sets)
        for place, record in enumerate(range(begin, end)):
            packed = records.predicate[records.first[record] : records.first[record + 1]]
            keys, lows = packed >> KEY_SHIFT, NEVER - (packed & MASK)
            assert int(records.sieve[record]) == reduce(or_, (1 << key % SIEVE for key in keys.tolist()), 0)
            highs = ((packed >> HIGH_SHIFT) & MASK) - 1
            is_alive = bool(int(blocks.alive[block, place // GROUP]) >> place % GROUP & 1)
            if (lows == NEVER).any() or records.slot[record] < 0:
                assert not is_alive
                continue
            assert is_alive
            for hulls, place_of, key in ((strips, strip, access), (blocks, block, strips.key[strip])):
                is_within = (hulls.low[place_of] <= lows) & (highs <= hulls.high[place_of])
                assert key == ALWAYS or is_within[keys == key].all()
                assert key == ALWAYS or (keys == key).any()
            first_of = {int(asked): number for number, asked in reversed(list(enumerate(keys)))}
            assert len(first_of) == len(keys) or not self._is_sure(block, place)
            for asked, number in first_of.items():
                self._check_cells(
                    block, columns.get(asked), asked, place, int(lows[number]), int(highs[number])
                )
            for asked in columns.keys() - first_of.keys():
                assert self._cells(columns[asked], place) == 0

    def _check_cells(self, block: int, column: int | None, key: int, place: int, low: int, high: int) -> None:
        """The cells of one record in one key."""
        blocks = self.columns.blocks
        is_sure = self._is_sure(block, place)
        if column is None:
            assert blocks.is_sieved[block]
            assert not is_sure
            return
        base, shift = (int(blocks.columns[column][name]) for name in ("low", "shift"))
        first, last = (cell_of(code, base, shift) for code in (low, high))
        assert self._cells(column, place) == pack_cells(np.uint64(first), np.uint64(last))
        assert BELOW < first <= last < BEYOND
        assert shift == 0 or not is_sure

    def _key_set(self, record: int) -> int:
        """The keys that a record asks for, as a set."""
        first, end = self.columns.records.first[record : record + 2]
        keys = self.columns.records.predicate[first:end] >> KEY_SHIFT
        return reduce(or_, (int(bit_of(key)) for key in keys.tolist()), 0)

    def _is_sure(self, block: int, place: int) -> bool:
        """Whether cells alone decide about a record."""
        return bool(int(self.columns.blocks.sure[block, place // GROUP]) >> place % GROUP & 1)

    def _cells(self, column: int, place: int) -> int:
        """The cells of one record in one column, packed."""
        word, share = divmod(column, WORD_COLUMNS)
        return int(self.columns.blocks.cells[word, place]) >> COLUMN_BITS * share & ((1 << COLUMN_BITS) - 1)


def build_parts(slots: Ints, given: Conjunctions, score: int, many: int) -> list[Part | LoneRanges]:
    """A part for lone ranges, if they are many, and for others as few as packed predicates have codes for.

    The largest comes first. Cost: that of building them.
    """
    lone = is_lone(given)
    n_lone = np.count_nonzero(lone)
    if n_lone < many:
        return [*_blocked_parts(slots, given, score)]
    if n_lone == len(slots):
        return [LoneRanges(slots, given)]
    rows, others = np.flatnonzero(lone), np.flatnonzero(~lone)
    parts: list[Part | LoneRanges] = [
        LoneRanges(slots[rows], given.take(rows)),
        *_blocked_parts(slots[others], given.take(others), score),
    ]
    return sorted(parts, key=lambda part: -part.n_records)


def _blocked_parts(slots: Ints, given: Conjunctions, score: int) -> list[Part]:
    n_keys = KINDS * len(given.names) + KINDS
    if len(slots) < 2 or has_codes(given.predicates, n_keys):
        return [Part(slots, given, score)]
    parts = []
    for rows in np.array_split(np.arange(len(slots)), 2):
        parts += _blocked_parts(slots[rows], given.take(rows), score)
    return parts


def _build(slots: Ints, given: Conjunctions, n_keys: int, kind: int) -> AccessColumns:
    first = np.append(starts_of(given.counts), len(given.predicates))
    weight = given.predicates["weight"].copy()
    bounds, n_bounds, predicate, access = _encode(given, first, n_keys)
    score, reach = np.empty(len(slots)), np.empty(len(slots))
    score_records(first, weight, kind, score, reach)
    if np.array_equal(score, reach):
        reach = score
    strips, block_record, block_of = _assign_blocks(predicate, access, first, n_bounds)
    source = np.empty(len(slots), np.int32)
    place_records(np.argsort(-reach, kind="stable"), block_of, block_record[:-1].astype(np.int64), source)
    moved_score = score[source]
    records = RecordColumns(
        first=np.zeros(len(slots) + 1, np.int32),
        slot=slots[source],
        score=moved_score,
        reach=moved_score if reach is score else reach[source],
        sieve=np.zeros(len(slots) + GROUP, np.uint32),
        predicate=np.empty(len(predicate), np.int64),
        weight=np.empty(len(predicate)),
    )
    move_predicates(source, first, predicate, weight, records)
    tests = _order_tests(given, first, source)
    blocks = _fill_blocks(strips, _empty_blocks(block_record), records, tests, n_keys)
    return AccessColumns(bounds, strips, blocks, records, tests)


def _encode(given: Conjunctions, first: Longs, n_keys: int) -> tuple[Bounds, Longs, Longs, Ints]:
    """Bounds by key, how many these are, packed predicates, and the access predicate of each, -1 without."""
    bounds, n_bounds, key_first, code, crowd = encoded_by_key(given.predicates, n_keys)
    predicate, access = np.empty(len(code), np.int64), np.empty(len(given.counts), np.int32)
    choose_access(given.predicates, first, key_first, code, crowd, predicate, access)
    return bounds, n_bounds, predicate, access


def _assign_blocks(
    predicate: Longs, access: Ints, first: Longs, n_bounds: Longs
) -> tuple[Strips, Ints, Ints]:
    """Strips without hulls, the first record of each block, and the block of each conjunction.

    Those of a key are ordered by how long their ranges are, to a factor of two, and by where these begin, so
    that hulls are short; and those that ask for the same keys are in the same blocks, so that these need few
    columns.
    """
    n_keys = len(n_bounds)
    if len(predicate) == 0:
        predicate = np.zeros(1, np.int64)
    packed = predicate[access]
    is_free = access < 0
    key = np.where(is_free, ALWAYS, packed >> KEY_SHIFT)
    low, high = (
        np.where(is_free, 0, NEVER - (packed & MASK)),
        np.where(is_free, 0, (packed >> HIGH_SHIFT) & MASK),
    )
    length = np.frexp(np.maximum(high - low, 0).astype(np.float64))[1]
    order = np.argsort((((key << 6) | length) << CODE_BITS) | low, kind="stable").astype(np.int32)
    key_record = np.append(starts_of(np.bincount(key, minlength=n_keys)), len(order))
    ordered, family_first = np.empty_like(order), np.empty(len(order) + 1, np.int32)
    holders, family_of = np.zeros(TRAITS * n_keys, np.uint64), np.empty(len(order), np.uint8)
    n_families = sort_families(
        first, predicate, n_bounds, key_record, order, holders, family_of, ordered, family_first
    )
    family_first[n_families] = len(order)
    strip_first, strip_key = np.empty_like(family_first), np.empty_like(order)
    census = Census(
        n_asking=np.zeros(n_keys, np.int32),
        width=np.zeros(n_keys),
        last=np.zeros(n_keys, np.int32),
        keys=np.zeros(n_keys, np.int32),
    )
    n_strips = lay_strips(
        first,
        predicate,
        n_bounds,
        key_record,
        family_first[: n_families + 1],
        ordered,
        census,
        strip_first,
        strip_key,
    )
    strip_first[n_strips] = len(order)
    strip_first = strip_first[: n_strips + 1]
    block_record = _cut_evenly(strip_first)
    strips = Strips(
        first=np.searchsorted(strip_first, key_record).astype(np.int32),
        low=np.zeros(n_strips, np.int32),
        high=np.zeros(n_strips, np.int32),
        key=strip_key[:n_strips].copy(),
        block=np.searchsorted(block_record, strip_first).astype(np.int32),
    )
    block_of = np.empty(len(order), np.int32)
    block_of[ordered] = np.repeat(np.arange(len(block_record) - 1), np.diff(block_record))
    return strips, block_record, block_of


def _cut_evenly(first: Ints) -> Ints:
    """Where blocks begin, and the last ends: runs that begin at `first` are cut into as few as possible."""
    sizes = np.diff(first)
    n_blocks = -(-sizes // BLOCK)
    number = np.arange(n_blocks.sum()) - np.repeat(starts_of(n_blocks), n_blocks)
    begin = np.repeat(first[:-1], n_blocks) + number * np.repeat(sizes, n_blocks) // np.repeat(
        n_blocks, n_blocks
    )
    return np.append(begin, first[-1]).astype(np.int32)


def _order_tests(given: Conjunctions, first: Longs, source: Ints) -> Tests:
    """Tests in the order of the records that they have come to belong to."""
    if len(given.tests) == 0:
        nothing = np.zeros(0, np.int32)
        return Tests(nothing, nothing, given.tests, given.operands, given.heap)
    number = runs_of(first[source], given.counts[source])
    test = given.predicates["test"][number]
    predicate = np.flatnonzero(test >= 0).astype(np.int32)
    record_predicate = np.append(starts_of(given.counts[source]), len(number))
    first_test = np.searchsorted(predicate, record_predicate).astype(np.int32)
    return Tests(first_test, predicate, given.tests[test[predicate]], given.operands, given.heap)


def _empty_blocks(block_record: Ints) -> Blocks:
    """Blocks of which only records are known."""
    n_blocks = len(block_record) - 1
    return Blocks(
        low=np.zeros(n_blocks, np.int32),
        high=np.zeros(n_blocks, np.int32),
        keys=np.zeros(n_blocks, np.uint64),
        least=np.zeros(n_blocks, np.int32),
        reach=np.zeros(n_blocks),
        by_reach=np.zeros(n_blocks, np.int32),
        place=np.zeros(n_blocks, np.int32),
        record=block_record,
        word=np.zeros(n_blocks + 1, np.int32),
        is_sieved=np.zeros(n_blocks, np.bool_),
        alive=np.zeros((n_blocks, BLOCK // GROUP), np.uint64),
        sure=np.zeros((n_blocks, BLOCK // GROUP), np.uint64),
        columns=np.zeros(0, COLUMN),
        cells=np.zeros((0, BLOCK), np.uint64),
    )


def _fill_blocks(strips: Strips, blocks: Blocks, records: RecordColumns, tests: Tests, n_keys: int) -> Blocks:
    """The same blocks with all that follows from their records; strips get their hulls."""
    bound_strips(strips, blocks, records)
    # Without the compiler, counting bits would warn.
    with np.errstate(over="ignore"):
        bound_blocks(strips, blocks, records)
    blocks.by_reach[:] = np.argsort(-blocks.reach, kind="stable")
    blocks.place[blocks.by_reach] = np.arange(len(blocks.place))
    survey = Survey(*(np.zeros(n_keys, np.int32) for _ in Survey._fields))
    count_columns(blocks, records, survey)
    n_words = int(blocks.word[-1])
    blocks = blocks._replace(
        columns=np.zeros(WORD_COLUMNS * n_words, COLUMN),
        cells=np.zeros((n_words, BLOCK), np.uint64),
    )
    fill_columns(blocks, records, survey, tests.first)
    return blocks
