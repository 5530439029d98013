"""The cells: one-dimensional subscriptions over counters that lie between their bounds."""

from __future__ import annotations

import math

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.thresholds.lazy_cells_kernels import (
    AHEAD,
    BLOCK_BITS,
    STRETCHES,
    CellColumns,
    Crossings,
    RangeColumns,
    Wavelet,
    absorb_events,
    build_wavelet,
    fill_buckets,
    find_cells,
    find_matured,
    fit_groups,
    list_due,
    pack_members,
    prepare_crossings,
    report_crossings,
    weigh_places,
)
from tocsin.indexes.thresholds.lazy_columns import (
    ABSORBED,
    BATCH,
    GROUP,
    IN_CELLS,
    LARGEST,
    LENGTH,
    NOWHERE,
    LogColumns,
    SlotColumns,
)
from tocsin.indexes.thresholds.lazy_log import Report
from tocsin.indexes.thresholds.lazy_members import Members

#: Places that are not worth giving up.
FEWEST = 1 << 12
#: Ticks to a unit of length that are tried, how many there may be to an edge, and how many bounds are
#: looked at before all are.
TICKS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
TICKS_TO_EDGES = 8
SAMPLE = 1024
#: So many places for each member, and they are given up.
SPARSE = 32


class Cells:
    """Built once for all its members; others cannot join, but any may leave.

    An event costs three additions, however many members hold it.
    """

    def __init__(self, members: Members, slots: SlotColumns, clock: int) -> None:
        """Cells for these members, who should come in their `order`. Cost: n log n."""
        count = len(members.slots)
        low, above = members.low[0], _next(members.high[0], np.inf)
        is_endless = members.high[0] == np.inf
        edges = _distinct(np.concatenate([low, above[~is_endless]]))
        self.n_members = count
        self.n_groups = -(-count // GROUP)
        self.cells = _empty_cells(edges, *_ticks(low, members.high[0], len(edges)))
        self.ranges = ranges = _free_ranges(self.n_groups)
        with _far_apart():
            find_cells(self.cells, low, ranges.begin[:count])
            find_cells(self.cells, above, ranges.end[:count])
        ranges.end[:count][is_endless] = len(edges) + 1
        ranges.mark[:count] = members.need
        ranges.slot[:count] = members.slots
        slots.place[members.slots] = np.arange(IN_CELLS, IN_CELLS + count, dtype=np.int32)
        fit_groups(self.cells, ranges, slots, clock, self.n_groups)

    @property
    def _n_edges(self) -> int:
        return len(self.cells.edges) - AHEAD

    @property
    def is_sparse(self) -> bool:
        """Whether most of the places are free."""
        return self.n_groups * GROUP > SPARSE * max(self.n_members, FEWEST)

    @property
    def is_fine(self) -> bool:
        """Whether most of the edges are of members that have gone."""
        return self._n_edges > SPARSE * max(self.n_members, FEWEST)

    @property
    def due(self) -> int:
        """The clock before which no member can mature. Cost: linear in the groups, a nanosecond each."""
        return int(self.ranges.due.min()) if self.n_members else LARGEST

    def compact(self, slots: SlotColumns, clock: int) -> None:
        """Give up free places; the cells stay. Everything is absorbed. Cost: linear."""
        count = pack_members(self.ranges, slots)
        self.n_groups = -(-count // GROUP)
        ranges = _free_ranges(self.n_groups)
        for name in ("begin", "end", "mark", "slot"):
            getattr(ranges, name)[:count] = getattr(self.ranges, name)[:count]
        self.ranges = ranges
        fit_groups(self.cells, ranges, slots, clock, self.n_groups)

    def absorb(self, log: LogColumns) -> Ints:
        """Count into the cells what is new in the log; the events' cells. Cost: nanoseconds an event."""
        event_cells = np.empty(int(log.state[LENGTH] - log.state[ABSORBED]), np.int32)
        with _far_apart():
            absorb_events(self.cells, log, event_cells)
        return event_cells

    def settle(self, slots: SlotColumns, log: LogColumns, report: Report, n_left: int) -> None:
        """Count what is new in the log, and report who has matured in the current batch.

        Up to `n_left` of the members have been terminated.
        """
        state = log.state
        groups = np.empty(self.n_groups, np.int32)
        with _far_apart():
            groups = groups[: list_due(self.cells, self.ranges, log, self.n_groups, groups)]
        if len(groups) == 0:
            return
        first = int(state[ABSORBED])
        event_cells = self.absorb(log)
        places, held = np.empty(self.n_members, np.int32), np.empty(self.n_members, np.int64)
        is_thin = self.n_members - n_left < self.n_groups * GROUP // 2
        count = find_matured(self.cells, self.ranges, slots, log, groups, is_thin, places, held)
        if count == 0:
            return
        places = places[:count].copy()
        # Who has matured was not due before this batch, so it is among the batch's events that it did.
        begin = max(int(state[BATCH]), first)
        wavelet = _wavelet(event_cells[begin - first :], log.weights[begin : int(state[LENGTH])])
        crossings = _crossings(places, held[:count].copy())
        prepare_crossings(self.ranges, slots, wavelet, crossings)
        self.n_members -= int(np.count_nonzero(~slots.is_repeating[self.ranges.slot[places]]))
        n_crossings = len(places)
        while n_crossings:
            report.reserve(n_crossings)
            n_crossings = report_crossings(
                self.ranges, slots, log, wavelet, crossings, n_crossings, report.rows
            )

    def missing(self, places: Ints) -> Longs:
        """What these members still need, of the events absorbed. Cost: linear in their number."""
        weights = np.empty(len(places), np.int64)
        weigh_places(self.cells, self.ranges, places, weights)
        return (self.ranges.mark[places] - weights.astype(np.uint64)).astype(np.int64)

    def members(self, slots: SlotColumns) -> Members:
        """Every member, as of the events absorbed. Cost: linear."""
        places = self._places(slots)
        return Members(self.ranges.slot[places], *self.bounds(places), self.missing(places))

    def bounds(self, places: Ints) -> tuple[Floats, Floats]:
        """Low and high, (axes, n), of the members at these places. Cost: linear in their number."""
        edges, end = self.cells.edges, self.ranges.end[places]
        is_endless = end > self._n_edges
        high = _next(edges[np.where(is_endless, 0, end - 1)], -np.inf)
        endless = np.full(len(places), np.inf)
        low = np.stack([edges[self.ranges.begin[places] - 1], -endless])
        return low, np.stack([np.where(is_endless, np.inf, high), endless])

    def check_invariants(self, slots: SlotColumns) -> None:
        """Assert that all columns agree. For tests."""
        cells, ranges = self.cells, self.ranges
        edges, places = cells.edges[: self._n_edges], self._places(slots)
        assert len(places) == self.n_members == np.count_nonzero(slots.place >= IN_CELLS)
        assert (edges[1:] > edges[:-1]).all()
        assert cells.bucket_edges[-1] == len(edges)
        assert (ranges.begin[places] < ranges.end[places]).all()
        in_blocks = cells.weights.reshape(len(cells.block_weights), -1).sum(axis=1)
        assert (in_blocks == cells.block_weights).all()
        assert in_blocks.sum() <= cells.stretch_weights.sum()
        group, missing = places // GROUP, self.missing(places)
        assert (missing > 0).all()
        assert (ranges.cover_begin[group] <= ranges.begin[places]).all()
        assert (ranges.cover_end[group] >= ranges.end[places]).all()

    def restart(self, slots: SlotColumns) -> None:
        """Set the counters and the clock back to 0, and the marks with them. Cost: linear."""
        places = self._places(slots)
        self.ranges.mark[places] = self.missing(places)
        for name, column in self.cells._asdict().items():
            if name.split("_")[-1] in ("weights", "sums"):
                column[:] = 0
        fit_groups(self.cells, self.ranges, slots, 0, self.n_groups)

    def _places(self, slots: SlotColumns) -> Ints:
        """Where members are: at the places that their slots know."""
        places: Ints = np.flatnonzero(self.ranges.slot >= 0).astype(np.int32)
        is_there: Bools = slots.place[self.ranges.slot[places]] == places + IN_CELLS
        return places[is_there & slots.is_there[self.ranges.slot[places]]]


def _far_apart() -> np.errstate:
    """Let distances between doubles be infinite, or those between infinities NaN, without a warning."""
    return np.errstate(over="ignore", invalid="ignore")


def _free_ranges(groups: int) -> RangeColumns:
    places = groups * GROUP
    return RangeColumns(
        begin=np.zeros(places, np.int32),
        end=np.zeros(places, np.int32),
        mark=np.zeros(places, np.uint64),
        slot=np.full(places, NOWHERE, np.int32),
        cover_begin=np.zeros(groups, np.int32),
        cover_end=np.zeros(groups, np.int32),
        stretch_begin=np.zeros(groups, np.int32),
        stretch_end=np.zeros(groups, np.int32),
        slack=np.zeros(groups, np.int64),
        base=np.zeros(groups, np.int64),
        stretch_base=np.zeros(groups, np.int64),
        due=np.zeros(groups, np.int64),
        ripe=np.zeros(groups, np.int64),
    )


def _next(values: Floats, towards: float) -> Floats:
    """The next doubles; beyond the largest comes infinity."""
    with np.errstate(over="ignore", under="ignore"):
        return np.nextafter(values, towards)


def _distinct(values: Floats) -> Floats:
    """The values in order, each once. Cost: n log n."""
    values = np.sort(values)
    is_first = np.ones(len(values), np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first]


def _ticks(low: Floats, high: Floats, n_edges: int) -> tuple[Floats, float]:
    """All multiples of the unit that the bounds are multiples of, and how many there are to 1; few or none.

    Cost: linear.
    """
    bounds = np.concatenate([low, high])
    bounds = bounds[np.isfinite(bounds)]
    # A range that holds nothing but an infinity has an edge next to it, far from any tick.
    is_far = high.min() == -np.inf or low.max() == np.inf
    for per_unit in TICKS if len(bounds) and not is_far else ():
        for some in (bounds[:: len(bounds) // SAMPLE + 1], bounds):
            with _far_apart():
                numbers = np.rint(some * per_unit)
                first, last = numbers.min(), numbers.max()
                length = last - first
            if not length <= TICKS_TO_EDGES * n_edges or (numbers / per_unit != some).any():
                break
        else:
            return np.arange(first, last + 1), per_unit
    return np.empty(0), 1.0


def _empty_cells(edges: Floats, ticks: Floats, per_unit: float) -> CellColumns:
    """Cells between these edges, with nothing counted."""
    # Cell number `len(edges) + 1` is none, but sums are asked for up to there.
    blocks = ((len(edges) + 1) >> BLOCK_BITS) + 1
    finite = edges[np.isfinite(edges)]
    floor = float(finite[0]) if len(finite) else 0.0
    half_length = float(finite[-1]) / 2 - floor / 2 if len(finite) else 0.0
    buckets = max(len(edges), 1)
    cells = CellColumns(
        edges=np.concatenate([edges, np.full(AHEAD, np.nan)]),
        bucket_edges=np.zeros(buckets + 1, np.int32),
        bucket_scale=np.array([floor, _per_unit(buckets, half_length)]),
        stretch_scale=np.array([floor, _per_unit(STRETCHES, half_length)]),
        ticks=np.searchsorted(edges, np.concatenate([[-np.inf], ticks / per_unit, [np.inf]]), "right").astype(
            np.int32
        ),
        tick_scale=np.array([per_unit, ticks[0] if len(ticks) else 0.0]),
        weights=np.zeros(blocks << BLOCK_BITS, np.int64),
        block_weights=np.zeros(blocks, np.int64),
        block_sums=np.zeros(blocks, np.int64),
        stretch_weights=np.zeros(STRETCHES, np.int64),
        stretch_sums=np.zeros(STRETCHES + 1, np.int64),
    )
    with _far_apart():
        fill_buckets(cells)
    return cells


def _per_unit(count: int, half_length: float) -> float:
    """How many of `count` equal pieces there are to a unit of length; 1 where that says nothing."""
    per_unit = count / 2 / half_length if half_length > 0 else 1.0
    return per_unit if math.isfinite(per_unit) else 1.0


def _crossings(places: Ints, held: Longs) -> Crossings:
    """The members at these places, before they are prepared."""
    ints, longs = ((np.empty((count, len(places)), dtype)) for count, dtype in ((3, np.int32), (4, np.int64)))
    return Crossings(
        place=places,
        begin=ints[0],
        end=ints[1],
        total=held,
        spent=longs[0],
        need=longs[1],
        reached=longs[2],
        event=ints[2],
        before=longs[3],
    )


def _wavelet(event_cells: Ints, weights: Longs) -> Wavelet:
    """The wavelet of these events. Cost: n log n."""
    count = len(event_cells)
    levels = (count - 1).bit_length()
    # Numbers are sorted several times as fast as their places, so each cell brings its own place along.
    keys = np.sort((event_cells.astype(np.int64) << levels) + np.arange(count))
    cells = (keys >> levels).astype(np.int32)
    shift = max(int(cells[-1]).bit_length() - levels, 0)
    wavelet = Wavelet(
        zeros=np.empty((levels, count + 1), np.int32),
        zero_weights=np.empty((levels, count + 1), np.int64),
        weights=np.empty(count + 1, np.int64),
        cells=cells,
        starts=np.empty((int(cells[-1]) >> shift) + 2, np.int32),
        shift=np.array([shift]),
    )
    build_wavelet((keys & ((1 << levels) - 1)).astype(np.int32), weights, wavelet)
    return wavelet
