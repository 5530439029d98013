"""A segment of the access index: built at once, after that records are only removed."""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np

from tocsin.arrays.intrinsics import LANES
from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Ints, Longs
from tocsin.indexes.matching.access.bound_kernels import PredicateBounds
from tocsin.indexes.matching.access.bounds import encoded_by_key, has_codes
from tocsin.indexes.matching.access.build_kernels import (
    BlockStatistics,
    bound_blocks,
    bound_partitions,
    choose_access,
    count_columns,
    fill_columns,
    move_predicates,
    place_records,
    score_records,
)
from tocsin.indexes.matching.access.layout_kernels import (
    ALWAYS,
    BELOW,
    BEYOND,
    BLOCK,
    BLOOM_BITS,
    CODE_BITS,
    COLUMN_BITS,
    GROUP,
    HIGH_SHIFT,
    KEY_SHIFT,
    MASK,
    NEVER,
    WORD_COLUMNS,
    AccessColumns,
    BlockHeads,
    Blocks,
    Chunks,
    EventCodes,
    Partitions,
    RecordColumns,
    Tests,
    VisitLists,
    Visits,
    bit_of,
    cell_of,
    pack_cells,
)
from tocsin.indexes.matching.access.order_kernels import (
    TRAITS,
    FamilyStatistics,
    cut_partitions,
    sort_families,
)
from tocsin.indexes.matching.access.search_kernels import match_events
from tocsin.indexes.matching.access.single_ranges import SingleRangeSegment, is_single_range
from tocsin.indexes.matching.conjunctions import Conjunctions, runs_of, starts_of
from tocsin.indexes.matching.events import Attributes, Events
from tocsin.indexes.matching.layout import KINDS, PREDICATE, EventColumns, IdOrder, Matches, MatchHeaps
from tocsin.indexes.matching.report_kernels import MatchSortBuffer

#: Working columns are reused for the next events if they take no more than this for each record, or in all.
MAX_CACHED_BYTES = 4
MIN_CACHED_BYTES = 1 << 16


class BlockSegment:
    """Conjunctions that were indexed together, in blocks. Records are their numbers in this segment."""

    def __init__(self, slots: Ints, given: Conjunctions, score: int) -> None:
        """Index conjunctions, whose scores are the SUM … PRODUCT of weights.

        Cost: n log n, and linear in predicates times their logarithm.
        """
        self._names = given.names
        self.n_keys = KINDS * len(given.names) + KINDS
        self.columns = _build(slots, given, self.n_keys, score)
        self.n_records = len(slots)
        self.n_alive = len(slots)
        self._cached_visits = self._empty_visits(0, 0, 0)
        self._attributes = Attributes(given.names)

    @property
    def slots(self) -> Ints:
        """The subscription of each record, -1 where it has been terminated."""
        return self.columns.records.slot

    def prepare(self, events: Events, capacity: int) -> tuple[EventColumns, Visits]:
        """Events with this segment's attribute numbers, and working columns. Cost: that of `visits`."""
        return self._attributes.translate(events), self.visits(events, capacity)

    def match(
        self,
        prepared: tuple[EventColumns, Visits],
        begin: int,
        end: int,
        kind: int,
        best: MatchHeaps,
        ids: IdOrder,
        sort_buffer: MatchSortBuffer,
        out: Matches,
    ) -> int:
        """All matches of some events, or their best: see `match_events`."""
        return entry_point(match_events)(
            self.columns, prepared[0], begin, end, kind, prepared[1], best, ids, sort_buffer, out
        )

    def visits(self, events: Events, capacity: int) -> Visits:
        """Working columns for events, with capacity for about `capacity` visits at a time.

        Cost: linear in entries and keys; constant if the cached ones suffice.
        """
        n_events, n_entries, n_blocks = events.n_events, len(events.attribute), len(self.columns.blocks.low)
        capacity = min(capacity, n_events * n_blocks) + n_blocks + 1
        cached = self._cached_visits
        n_cached_events, n_cached_entries = len(cached.chunks.row), len(cached.codes.value_key)
        if (
            n_cached_events >= n_events
            and n_cached_entries >= n_entries
            and len(cached.lists.event) >= capacity
        ):
            return cached
        fresh = self._empty_visits(n_events, n_entries, capacity)
        n_bytes = sum(column.nbytes for columns in fresh for column in columns)
        if n_bytes <= max(MAX_CACHED_BYTES * self.n_records, MIN_CACHED_BYTES):
            self._cached_visits = fresh
        return fresh

    def remove(self, records: Ints) -> None:
        """Remove records. Cost: linear in them."""
        blocks = self.columns.blocks
        self.columns.records.slot[records] = -1
        block = np.searchsorted(blocks.record, records, side="right") - 1
        group, bit = np.divmod(records - blocks.record[block], GROUP)
        np.bitwise_and.at(blocks.alive, (block, group), ~(np.uint64(1) << bit.astype(np.uint64)))
        self.n_alive -= len(records)

    def records(self) -> Ints:
        """The live records."""
        return np.flatnonzero(self.columns.records.slot >= 0).astype(np.int32)

    def conjunctions(self, records: Ints) -> Conjunctions:
        """The conjunctions that records were built from, in their order. Cost: linear in their predicates."""
        bounds, stored, tests = self.columns.bounds, self.columns.records, self.columns.tests
        counts = np.diff(stored.first)[records]
        number = runs_of(stored.first[records].astype(np.int64), counts)
        packed = stored.predicate[number]
        key = packed >> KEY_SHIFT
        low, high = NEVER - (packed & MASK), ((packed >> HIGH_SHIFT) & MASK) - 1
        predicates = np.zeros(len(number), PREDICATE)
        predicates["key"], predicates["weight"], predicates["test"] = key, stored.weight[number], -1
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

    def _empty_visits(self, n_events: int, n_entries: int, capacity: int) -> Visits:
        n_blocks = len(self.columns.blocks.low)
        return Visits(
            empty(EventCodes, events=n_events, entries=n_entries, keys=self.n_keys),
            empty(VisitLists, events=n_events, visits=capacity, blocks=n_blocks),
            empty(Chunks, events=n_events),
            empty(BlockHeads, events=n_events),
        )

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        bounds, partitions, blocks, records, tests = self.columns
        for columns in (bounds, partitions, blocks, records, *self._cached_visits):
            check_layout(columns)
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
        assert partitions.first[-1] == len(partitions.low) == len(partitions.block) - 1
        assert partitions.block[-1] == len(blocks.low) == len(blocks.record) - 1
        assert (np.diff(partitions.block) > 0).all()
        for key in range(self.n_keys):
            for partition in range(partitions.first[key], partitions.first[key + 1]):
                for block in range(partitions.block[partition], partitions.block[partition + 1]):
                    self._check_block(key, partition, block)
        if len(tests.tests):
            assert tests.first[-1] == len(tests.tests) == len(tests.predicate)
            assert (np.diff(tests.predicate) > 0).all()

    def _check_block(self, access: int, partition: int, block: int) -> None:
        """Records are by score bound and within the hulls; each has the cells that its predicates meet."""
        partitions, blocks, records = self.columns.partitions, self.columns.blocks, self.columns.records
        begin, end = blocks.record[block], blocks.record[block + 1]
        assert 0 < end - begin <= BLOCK
        assert (np.diff(records.score_bound[begin:end]) <= 0).all()
        assert blocks.score_bound[block] == records.score_bound[begin]
        first, last = (WORD_COLUMNS * int(word) for word in blocks.word[block : block + 2])
        columns = {int(blocks.columns[number]["key"]): number for number in range(first, last)}
        # The key of surplus columns.
        columns.pop(ALWAYS, None)
        sets = [self._key_set(record) for record in range(begin, end)]
        assert int(blocks.keys[block]) == reduce(or_, sets)
        assert blocks.min_keys[block] == min(one.bit_count() for one in sets)
        for place, record in enumerate(range(begin, end)):
            packed = records.predicate[records.first[record] : records.first[record + 1]]
            keys, lows = packed >> KEY_SHIFT, NEVER - (packed & MASK)
            assert int(records.bloom[record]) == reduce(
                or_, (1 << key % BLOOM_BITS for key in keys.tolist()), 0
            )
            highs = ((packed >> HIGH_SHIFT) & MASK) - 1
            is_alive = bool(int(blocks.alive[block, place // GROUP]) >> place % GROUP & 1)
            if (lows == NEVER).any() or records.slot[record] < 0:
                assert not is_alive
                continue
            assert is_alive
            for hulls, place_of, key in (
                (partitions, partition, access),
                (blocks, block, partitions.key[partition]),
            ):
                is_within = (hulls.low[place_of] <= lows) & (highs <= hulls.high[place_of])
                assert key == ALWAYS or is_within[keys == key].all()
                assert key == ALWAYS or (keys == key).any()
            first_of = {int(asked): number for number, asked in reversed(list(enumerate(keys)))}
            assert len(first_of) == len(keys) or not self._is_exact(block, place)
            for asked, number in first_of.items():
                self._check_cells(
                    block, columns.get(asked), asked, place, int(lows[number]), int(highs[number])
                )
            for asked in columns.keys() - first_of.keys():
                assert self._cells(columns[asked], place) == 0

    def _check_cells(self, block: int, column: int | None, key: int, place: int, low: int, high: int) -> None:
        """The cells of one record in one key."""
        blocks = self.columns.blocks
        is_exact = self._is_exact(block, place)
        if column is None:
            assert blocks.needs_bloom[block]
            assert not is_exact
            return
        base, shift = (int(blocks.columns[column][name]) for name in ("low", "shift"))
        first, last = (cell_of(code, base, shift) for code in (low, high))
        assert self._cells(column, place) == pack_cells(np.uint64(first), np.uint64(last))
        assert BELOW < first <= last < BEYOND
        assert shift == 0 or not is_exact

    def _key_set(self, record: int) -> int:
        """The keys of a record, as a set."""
        first, end = self.columns.records.first[record : record + 2]
        keys = self.columns.records.predicate[first:end] >> KEY_SHIFT
        return reduce(or_, (int(bit_of(key)) for key in keys.tolist()), 0)

    def _is_exact(self, block: int, place: int) -> bool:
        """Whether cells alone decide a record."""
        return bool(int(self.columns.blocks.exact[block, place // GROUP]) >> place % GROUP & 1)

    def _cells(self, column: int, place: int) -> int:
        """The cells of one record in one column, packed."""
        word, share = divmod(column, WORD_COLUMNS)
        return int(self.columns.blocks.cells[word, place]) >> COLUMN_BITS * share & ((1 << COLUMN_BITS) - 1)


def build_segments(
    slots: Ints, given: Conjunctions, score: int, min_single: int
) -> list[BlockSegment | SingleRangeSegment]:
    """Segments for conjunctions, the largest first: single ranges apart if there are at least `min_single`.

    The others take as few segments as the codes of packed predicates allow. Cost: that of building them.
    """
    is_single = is_single_range(given)
    n_single = np.count_nonzero(is_single)
    if n_single < min_single:
        return [*_block_segments(slots, given, score)]
    if n_single == len(slots):
        return [SingleRangeSegment(slots, given)]
    rows, others = np.flatnonzero(is_single), np.flatnonzero(~is_single)
    segments: list[BlockSegment | SingleRangeSegment] = [
        SingleRangeSegment(slots[rows], given.take(rows)),
        *_block_segments(slots[others], given.take(others), score),
    ]
    return sorted(segments, key=lambda segment: -segment.n_records)


def _block_segments(slots: Ints, given: Conjunctions, score: int) -> list[BlockSegment]:
    n_keys = KINDS * len(given.names) + KINDS
    if len(slots) < 2 or has_codes(given.predicates, n_keys):
        return [BlockSegment(slots, given, score)]
    segments = []
    for rows in np.array_split(np.arange(len(slots)), 2):
        segments += _block_segments(slots[rows], given.take(rows), score)
    return segments


def _build(slots: Ints, given: Conjunctions, n_keys: int, kind: int) -> AccessColumns:
    first = np.append(starts_of(given.counts), len(given.predicates))
    weight = given.predicates["weight"].copy()
    bounds, n_bounds, predicate, access = _encode(given, first, n_keys)
    score, score_bound = np.empty(len(slots)), np.empty(len(slots))
    score_records(first, weight, kind, score, score_bound)
    if np.array_equal(score, score_bound):
        score_bound = score
    partitions, block_record, block_of = _assign_blocks(predicate, access, first, n_bounds)
    source = np.empty(len(slots), np.int32)
    place_records(
        np.argsort(-score_bound, kind="stable"), block_of, block_record[:-1].astype(np.int64), source
    )
    moved_score = score[source]
    records = RecordColumns(
        first=np.zeros(len(slots) + 1, np.int32),
        slot=slots[source],
        score=moved_score,
        score_bound=moved_score if score_bound is score else score_bound[source],
        bloom=np.zeros(len(slots) + GROUP, np.uint32),
        predicate=np.empty(len(predicate), np.int64),
        weight=np.empty(len(predicate)),
    )
    move_predicates(source, first, predicate, weight, records)
    tests = _order_tests(given, first, source)
    blocks = _fill_blocks(partitions, _empty_blocks(block_record), records, tests, n_keys)
    return AccessColumns(bounds, partitions, blocks, records, tests)


def _encode(given: Conjunctions, first: Longs, n_keys: int) -> tuple[PredicateBounds, Longs, Longs, Ints]:
    """Bounds by key and their number; packed predicates, and the access predicate of each record or -1."""
    bounds, n_bounds, key_first, code, overlaps = encoded_by_key(given.predicates, n_keys)
    predicate, access = np.empty(len(code), np.int64), np.empty(len(given.counts), np.int32)
    choose_access(given.predicates, first, key_first, code, overlaps, predicate, access)
    return bounds, n_bounds, predicate, access


def _assign_blocks(
    predicate: Longs, access: Ints, first: Longs, n_bounds: Longs
) -> tuple[Partitions, Ints, Ints]:
    """Partitions without hulls, the first record of each block, and the block of each conjunction.

    Conjunctions of an access key are ordered by the length of their ranges, to a factor of two, and by where
    these begin, so that hulls are short. Those with predicates on the same keys share blocks, so that blocks
    need few columns.
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
    partition_first, partition_key = np.empty_like(family_first), np.empty_like(order)
    n_partitions = cut_partitions(
        first,
        predicate,
        n_bounds,
        key_record,
        family_first[: n_families + 1],
        ordered,
        empty(FamilyStatistics, keys=n_keys),
        partition_first,
        partition_key,
    )
    partition_first[n_partitions] = len(order)
    partition_first = partition_first[: n_partitions + 1]
    block_record = _cut_evenly(partition_first)
    partitions = Partitions(
        first=np.searchsorted(partition_first, key_record).astype(np.int32),
        low=np.zeros(n_partitions, np.int32),
        high=np.zeros(n_partitions, np.int32),
        key=partition_key[:n_partitions].copy(),
        block=np.searchsorted(block_record, partition_first).astype(np.int32),
    )
    block_of = np.empty(len(order), np.int32)
    block_of[ordered] = np.repeat(np.arange(len(block_record) - 1), np.diff(block_record))
    return partitions, block_record, block_of


def _cut_evenly(first: Ints) -> Ints:
    """Where blocks begin, and the last one ends: runs from `first` cut evenly into as few as possible."""
    sizes = np.diff(first)
    n_blocks = -(-sizes // BLOCK)
    number = np.arange(n_blocks.sum()) - np.repeat(starts_of(n_blocks), n_blocks)
    begin = np.repeat(first[:-1], n_blocks) + number * np.repeat(sizes, n_blocks) // np.repeat(
        n_blocks, n_blocks
    )
    return np.append(begin, first[-1]).astype(np.int32)


def _order_tests(given: Conjunctions, first: Longs, source: Ints) -> Tests:
    """Tests in the order of their records."""
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
    """Blocks with records and nothing else."""
    return empty(Blocks, blocks=len(block_record) - 1, words=0)._replace(record=block_record)


def _fill_blocks(
    partitions: Partitions, blocks: Blocks, records: RecordColumns, tests: Tests, n_keys: int
) -> Blocks:
    """The blocks with all columns derived from their records; partitions get their hulls."""
    bound_partitions(partitions, blocks, records)
    # Without the compiler, counting bits would warn.
    with np.errstate(over="ignore"):
        bound_blocks(partitions, blocks, records)
    blocks.by_score_bound[:] = np.argsort(-blocks.score_bound, kind="stable")
    blocks.place[blocks.by_score_bound] = np.arange(len(blocks.place))
    statistics = empty(BlockStatistics, keys=n_keys)
    count_columns(blocks, records, statistics)
    blocks = grow(blocks, words=int(blocks.word[-1]))
    fill_columns(blocks, records, statistics, tests.first)
    return blocks
