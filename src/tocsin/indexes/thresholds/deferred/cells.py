"""Histogram cells: one-dimensional subscriptions over event counters between their bounds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.arrays.argument_packs import ArgumentPack
from tocsin.arrays.jit import entry_point, suppress_fp_warnings
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.thresholds.deferred.batches import ThresholdBatch
from tocsin.indexes.thresholds.deferred.cells_kernels import (
    MemberScratch,
    absorb_events,
    count_countable,
    count_events,
    fill_buckets,
    find_cells,
    find_extent,
    find_matured,
    fit_groups,
    narrow_due,
    pack_members,
    sum_cells,
    weigh_members,
)
from tocsin.indexes.thresholds.deferred.common_kernels import are_set, release_places
from tocsin.indexes.thresholds.deferred.layout import (
    AHEAD,
    BLOCK_BITS,
    GROUP,
    IN_CELLS,
    MAX_SEGMENTS,
    NO_PLACE,
    PLACE_LIMIT,
    CellRangeColumns,
    HistogramColumns,
    PendingColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.deferred.sweep_kernels import (
    BUCKET_SCAN,
    Crossings,
    WaveletTree,
    build_wavelet,
    prepare_crossings,
    report_crossings,
)
from tocsin.indexes.thresholds.layout import LARGEST
from tocsin.indexes.thresholds.reports import MaturityReport
from tocsin.kernels.sort import order_of

#: With fewer places than this per SPARSE_RATIO, compaction does not pay.
MIN_COMPACTED_PLACES = 1 << 12
#: Ticks per unit of length that are tried; how many ticks there may be where ranges are few, and how far from
#: 0; how many bounds are sampled before all are tested.
TICKS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
BASE_TICK_LIMIT = 1 << 16
MAX_TICK = 2.0**50
SAMPLE = 1024
#: Buckets per event of a batch, as a power of 2.
BUCKET_BITS = 4
#: Events that may be pending: counted by segment only.
PENDING_CAPACITY = 1 << 17
#: Members whose crossings are searched for together.
CROSSINGS_BATCH = 1 << 12
#: Cells that can be summed in the time that it saves for one lookup.
CELLS_PER_LOOKUP = 8
NO_SUMS = np.empty(0, np.int64)
#: Places per member from which they are compacted, once groups were evaluated this often on average since
#: they were filled: compaction costs as much.
SPARSE_RATIO = 16
MIN_EVALUATIONS = 2


class CountedEvents(NamedTuple):
    """Events that count, in arrival order."""

    #: float64 (events,): where they are, never NaN.
    values: Floats
    #: int64 (events,): positive weights.
    weights: Longs
    #: int32 (events,): position in the batch.
    steps: Ints


class HistogramCells:
    """Built once for all its members: none can join, any may leave.

    An event costs three additions, however many members hold it.
    """

    def __init__(self, members: ThresholdBatch, slots: SlotColumns, clock: int) -> None:
        """Build cells for these members, which should be in their `order`. Cost: n log n."""
        count = len(members.slots)
        low, above = members.low[0], _next_double(members.high[0], np.inf)
        is_endless = members.high[0] == np.inf
        ticks, per_unit = _ticks(low, members.high[0])
        self.n_members = count
        self.n_groups = -(-count // GROUP)
        if len(ticks):
            self.cells = _cells_at_ticks(ticks, per_unit)
        else:
            self.cells = _cells_between(_distinct(np.concatenate([low, above[~is_endless]])))
        self.ranges = ranges = empty(CellRangeColumns, groups=self.n_groups)
        self._pending = empty(PendingColumns, events=PENDING_CAPACITY, groups=self.n_groups)
        # Written, not only allocated: else the first events would wait for page faults.
        self._pending.cells[:] = self._pending.weights[:] = 0
        #: pending events, and groups that may be due
        self._n_pending = self._n_due = 0
        #: groups evaluated since all were filled
        self._n_evaluations = 0
        #: the columns, as kernels receive them
        self._packed = ArgumentPack((self.cells, self.ranges, self._pending))
        self._scratch = empty(MemberScratch)
        self._crossings = _crossings(CROSSINGS_BATCH)
        with _ignoring_overflow():
            find_cells(self.cells, low, ranges.begin[:count])
            find_cells(self.cells, above, ranges.end[:count])
        ranges.end[:count][is_endless] = self._n_edges + 1
        ranges.target[:count] = members.need
        ranges.slot[:count] = members.slots
        slots.place[members.slots] = np.arange(IN_CELLS, IN_CELLS + count, dtype=np.int32)
        self._fit_groups(slots, clock)

    @property
    def _n_edges(self) -> int:
        return len(self.cells.edges) - AHEAD

    def is_sparse(self, n_terminated: int) -> bool:
        """Whether compaction pays, with `n_terminated` members gone."""
        is_worth_it = self._n_evaluations > MIN_EVALUATIONS * self.n_groups
        return is_worth_it and self.n_groups * GROUP > SPARSE_RATIO * max(
            self.n_members - n_terminated, MIN_COMPACTED_PLACES
        )

    @property
    def has_stale_edges(self) -> bool:
        """Whether most of the edges belong to members that have left."""
        return self._n_edges > SPARSE_RATIO * max(self.n_members, MIN_COMPACTED_PLACES)

    @property
    def due(self) -> int:
        """The clock before which no member can mature."""
        return self._pending.due.item() if self.n_members else LARGEST

    def compact(self, slots: SlotColumns, clock: int) -> None:
        """Close gaps in the places; the cells stay. Cost: linear in all slots.

        The columns keep their memory until the next rebuild: releasing it would cost more than the rest.
        """
        self._absorb()
        release_places(slots, PLACE_LIMIT)
        # Listing the slots first is several times as fast as selecting by a mask.
        places = slots.place[np.flatnonzero(slots.place >= IN_CELLS)] - np.int32(IN_CELLS)
        places = places[order_of(places.astype(np.uint64), len(self.ranges.slot).bit_length())]
        pack_members(self.ranges, slots.place, places)
        self.n_groups = -(-len(places) // GROUP)
        self.ranges = _first_groups(self.ranges, self.n_groups)
        self.ranges.slot[len(places) :] = NO_PLACE
        self._fit_groups(slots, clock)

    def vacate(self, places: Ints) -> None:
        """Free those of these places that are in the cells: their slots are reused. Cost: linear."""
        own = places[places >= IN_CELLS] - IN_CELLS
        self.ranges.slot[own] = -1

    def count(self, events: CountedEvents, clock: int) -> None:
        """Count events that advance the clock to this. If a member may be due, `report_matured` must follow.

        Cost: nanoseconds an event.
        """
        self._ensure_pending_capacity(len(events.weights))
        with suppress_fp_warnings(count_events):
            self._n_due = entry_point(count_events)(
                self._packed, events.values, events.weights, clock, self.n_groups, self._n_pending
            )
        self._n_pending += len(events.weights)

    def count_countable(self, events: CountedEvents, clock: int) -> int:
        """Count events as `count` does, and return their weight; `clock` is the one before them.

        Returns -1 and counts nothing if an event must be skipped or they weigh too much.
        """
        self._ensure_pending_capacity(len(events.weights))
        with suppress_fp_warnings(count_countable):
            weight, self._n_due = entry_point(count_countable)(
                self._packed, events.values, events.weights, clock, self.n_groups, self._n_pending
            )
        if weight >= 0:
            self._n_pending += len(events.weights)
        return weight

    def _ensure_pending_capacity(self, count: int) -> None:
        """Ensure capacity for `count` more pending events."""
        capacity = len(self._pending.cells)
        if self._n_pending + count > capacity:
            self._absorb()
            if count > capacity:
                self._pending = grow(self._pending, events=count)
                self._refresh_columns()

    def _refresh_columns(self) -> None:
        """Pass replaced columns on to the kernels."""
        self._packed.repack((self.cells, self.ranges, self._pending))

    def report_matured(
        self, slots: SlotColumns, clock: int, events: CountedEvents, report: MaturityReport
    ) -> None:
        """Report the members that matured at the last counted events; before them none was due."""
        if self._n_due == 0:
            return
        event_cells = self._pending.cells[self._n_pending - len(events.weights) : self._n_pending]
        n_due = entry_point(narrow_due)(self._packed, clock, self._n_pending, self._n_due)
        self._n_pending = self._n_due = 0
        self._n_evaluations += n_due
        cell_sums = self._cell_sums(n_due * GROUP)
        crossings = self._crossings
        wavelet: WaveletTree | None = None
        first = 0
        while first < n_due:
            first, count = entry_point(find_matured)(
                self._packed,
                slots,
                clock,
                first,
                n_due,
                cell_sums,
                self._scratch,
                crossings.place,
                crossings.total,
            )
            if count:
                wavelet = wavelet or _wavelet(event_cells, events.weights)
                self._report_crossings(slots, clock, events, wavelet, count, report)
        self._pending.due[0] = self.ranges.due.min()

    def _report_crossings(
        self,
        slots: SlotColumns,
        clock: int,
        events: CountedEvents,
        wavelet: WaveletTree,
        count: int,
        report: MaturityReport,
    ) -> None:
        """Report the first `count` crossings, each at the event that caused it."""
        entry_point(prepare_crossings)(self.ranges, slots, wavelet, self._crossings, count)
        while count:
            report.reserve(count)
            count, n_ended = entry_point(report_crossings)(
                self.ranges,
                slots,
                events.weights,
                events.steps,
                clock,
                wavelet,
                self._crossings,
                count,
                report.rows,
            )
            self.n_members -= n_ended

    def _cell_sums(self, n_lookups: int) -> Longs:
        """The weight before each cell, if this many lookups make summing all cells pay; else empty."""
        n_cells = self.cells.weights.size
        if n_lookups * CELLS_PER_LOOKUP < n_cells:
            return NO_SUMS
        sums = np.empty(n_cells, np.int64)
        sum_cells(self.cells, sums)
        return sums

    def missing(self, places: Ints) -> Longs:
        """What these members still need. Cost: linear in their number."""
        self._absorb()
        weights = np.empty(len(places), np.int64)
        begins, ends = self.ranges.begin[places], self.ranges.end[places]
        weigh_members(self.cells, self._cell_sums(len(places)), begins, ends, weights)
        return (self.ranges.target[places] - weights.astype(np.uint64)).astype(np.int64)

    def members(self, slots: SlotColumns) -> ThresholdBatch:
        """Every member. Cost: linear."""
        places = self._places(slots)
        return ThresholdBatch(self.ranges.slot[places], *self.bounds(places), self.missing(places))

    def bounds(self, places: Ints) -> tuple[Floats, Floats]:
        """Low and high, (axes, n), of the members at these places. Cost: linear in their number."""
        edges, end = self.cells.edges, self.ranges.end[places]
        is_endless = end > self._n_edges
        high = _next_double(edges[np.where(is_endless, 0, end - 1)], -np.inf)
        endless = np.full(len(places), np.inf)
        low = np.stack([edges[self.ranges.begin[places] - 1], -endless])
        return low, np.stack([np.where(is_endless, np.inf, high), endless])

    def check_invariants(self, slots: SlotColumns) -> None:
        """Assert that all columns agree. For tests."""
        self._absorb()
        cells, ranges = self.cells, self.ranges
        for columns in (cells, ranges, self._pending):
            check_layout(columns)
        edges, places = cells.edges[: self._n_edges], self._places(slots)
        assert len(places) == self.n_members
        assert (slots.place[ranges.slot[places]] == places + IN_CELLS).all()
        assert (edges[1:] > edges[:-1]).all()
        assert cells.bucket_edges[-1] == (0 if cells.tick_scale[0] else len(edges))
        assert (ranges.begin[places] < ranges.end[places]).all()
        assert (cells.weights.sum(axis=(1, 2)) == cells.block_weights).all()
        assert cells.weights.sum() == cells.segment_weights.sum()
        group, missing = places // GROUP, self.missing(places)
        assert (missing > 0).all()
        assert (ranges.cover_begin[group] << BLOCK_BITS <= ranges.begin[places]).all()
        assert (ranges.cover_end[group] << BLOCK_BITS >= ranges.end[places]).all()

    def restart(self, slots: SlotColumns) -> None:
        """Reset counters, clock and targets. Cost: linear."""
        places = self._places(slots)
        self.ranges.target[places] = self.missing(places)
        for name, column in self.cells._asdict().items():
            if name.split("_")[-1] in ("weights", "sums"):
                column[:] = 0
        self._fit_groups(slots, 0)

    def _fit_groups(self, slots: SlotColumns, clock: int) -> None:
        """Fit all groups to their members. Cost: linear."""
        cell_sums = self._cell_sums(self.n_members)
        fit_groups(self.cells, self.ranges, slots, clock, self.n_groups, cell_sums, self._scratch)
        self._n_due = self._n_evaluations = 0
        self._pending.due[0] = self.ranges.due.min(initial=LARGEST)
        self._refresh_columns()

    def _absorb(self) -> None:
        """Count pending events into the cells. Cost: nanoseconds an event."""
        pending = slice(0, self._n_pending)
        absorb_events(self.cells, self._pending.cells[pending], self._pending.weights[pending])
        self._n_pending = 0

    def _places(self, slots: SlotColumns) -> Ints:
        """The places of the members."""
        places: Ints = np.flatnonzero(self.ranges.slot >= 0).astype(np.int32)
        own_slots = self.ranges.slot[places]
        return places[are_set(slots.is_there, own_slots)]


def _ignoring_overflow() -> np.errstate:
    """Silence overflows of distances between doubles, and NaN between infinities."""
    return np.errstate(over="ignore", invalid="ignore")


def _first_groups(ranges: CellRangeColumns, groups: int) -> CellRangeColumns:
    """The columns of the first groups, as views."""
    n_groups = len(ranges.due)
    return CellRangeColumns._make(column[: len(column) // n_groups * groups] for column in ranges)


def _next_double(values: Floats, towards: float) -> Floats:
    """The next doubles; infinity follows the largest."""
    with np.errstate(over="ignore", under="ignore"):
        return np.nextafter(values, towards)


def _distinct(values: Floats) -> Floats:
    """The values in order, each once. Cost: n log n."""
    values = np.sort(values)
    is_first = np.ones(len(values), np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first]


def _ticks(low: Floats, high: Floats) -> tuple[Floats, float]:
    """The multiples of a unit that all bounds are multiples of, and how many make 1; empty without one.

    Cost: linear.
    """
    # A range that holds only an infinity has an edge next to it, far from any tick.
    is_far = high.min() == -np.inf or low.max() == np.inf
    most = float(max(len(low), BASE_TICK_LIMIT))
    sample = slice(None, None, len(low) // SAMPLE + 1)
    for per_unit in () if is_far else TICKS:
        with _ignoring_overflow():
            if find_extent(low[sample].copy(), high[sample].copy(), per_unit)[0]:
                are_ticks, first, last = find_extent(low, high, per_unit)
                if are_ticks and last - first <= most and max(-first, last) <= MAX_TICK:
                    return np.arange(first, last + 1), per_unit
    return np.empty(0), 0.0


def _cells_at_ticks(ticks: Floats, per_unit: float) -> HistogramColumns:
    """Cells at and between ticks, with nothing counted."""
    edges = np.full(2 * len(ticks) + 1, -np.inf)
    edges[1::2] = ticks / per_unit
    edges[2::2] = _next_double(edges[1::2], np.inf)
    cells = _empty_cells(edges, 1)
    cells.tick_scale[:] = per_unit, ticks[0]
    return cells


def _cells_between(edges: Floats) -> HistogramColumns:
    """Cells between these edges, with nothing counted."""
    finite = edges[np.isfinite(edges)]
    floor = float(finite[0]) if len(finite) else 0.0
    half_length = float(finite[-1]) / 2 - floor / 2 if len(finite) else 0.0
    buckets = max(len(edges), 1)
    cells = _empty_cells(edges, buckets)
    cells.bucket_scale[:] = floor, _per_unit(buckets, half_length)
    with _ignoring_overflow():
        fill_buckets(cells)
    return cells


def _empty_cells(edges: Floats, buckets: int) -> HistogramColumns:
    # Cell number `len(edges) + 1` does not exist, but sums are read up to there.
    last = len(edges) + 1
    blocks = (last >> BLOCK_BITS) + 1
    segment_bits = max((last // MAX_SEGMENTS).bit_length(), BLOCK_BITS)
    segments = (last >> segment_bits) + 1
    cells = empty(HistogramColumns, edges=len(edges), buckets=buckets, blocks=blocks, segments=segments)
    cells.edges[: len(edges)] = edges
    cells.segment_bits[0] = segment_bits
    # Written, not only allocated: else the first events would wait for page faults.
    cells.weights[:] = 0
    return cells


def _per_unit(count: int, half_length: float) -> float:
    """How many of `count` equal buckets there are per unit of length; 1 where that is not finite."""
    per_unit = count / 2 / half_length if half_length > 0 else 1.0
    return per_unit if math.isfinite(per_unit) else 1.0


def _crossings(count: int) -> Crossings:
    """Columns for `count` members."""
    ints, longs = (np.empty((columns, count), dtype) for columns, dtype in ((8, np.int32), (5, np.int64)))
    return Crossings(
        place=ints[0],
        slot=ints[1],
        begin=ints[2],
        end=ints[3],
        total=longs[0],
        spent=longs[1],
        need=longs[2],
        reached=longs[3],
        search=ints[4],
        level_begin=ints[5],
        level_end=ints[6],
        event=ints[7],
        rest=longs[4],
    )


def _wavelet(event_cells: Ints, weights: Longs) -> WaveletTree:
    """The wavelet tree of these events. Cost: n log n."""
    count = len(event_cells)
    levels = (count - 1).bit_length()
    order = order_of(event_cells.astype(np.uint64), int(event_cells.max()).bit_length())
    cells = event_cells[order]
    shift = max(int(cells[-1]).bit_length() - levels - BUCKET_BITS, 0)
    wavelet = WaveletTree(
        zeros=np.empty((levels, count + 1), np.int32),
        zero_weights=np.empty((levels, count + 1), np.int64),
        weights=np.empty(count + 1, np.int64),
        cells=np.concatenate([cells, np.full(BUCKET_SCAN, np.iinfo(np.int32).max, np.int32)]),
        starts=np.zeros((int(cells[-1]) >> shift) + 2, np.int32),
        shift=np.array([shift]),
    )
    build_wavelet(order, np.empty_like(order), weights, wavelet)
    return wavelet
