"""The cells: one-dimensional subscriptions over counters that lie between their bounds."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.thresholds.lazy_cells_kernels import (
    AHEAD,
    BLOCK_BITS,
    SPAN_BITS,
    UNREACHABLE,
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

#: Members from which on the cells are worth their while.
FEWEST = 1 << 12
#: Events that are absorbed at a time, at most.
LONGEST_BATCH = 1 << 14


class Cells:
    """Built once for all its members; others cannot join, but any may leave.

    An event costs two or three additions, however many members hold it.
    """

    def __init__(self, members: Members, slots: SlotColumns, clock: int) -> None:
        """Members should come in their `order`. Cost: n log n."""
        count = len(members.slots)
        low, above = members.low[0], np.nextafter(members.high[0], np.inf)
        is_endless = members.high[0] == np.inf
        self.cells = _empty_cells(_distinct(np.concatenate([low, above[~is_endless]])))
        self.n_groups = -(-count // GROUP)
        self.n_members = count
        places = self.n_groups * GROUP
        self.ranges = RangeColumns(
            begin=np.zeros(places, np.int32),
            end=np.zeros(places, np.int32),
            mark=np.full(places, UNREACHABLE, np.uint64),
            slot=np.full(places, NOWHERE, np.int32),
            cover_begin=np.zeros(self.n_groups, np.int32),
            cover_end=np.zeros(self.n_groups, np.int32),
            slack=np.zeros(self.n_groups, np.int64),
            base=np.zeros(self.n_groups, np.int64),
            due=np.zeros(self.n_groups, np.int64),
        )
        ranges = self.ranges
        find_cells(self.cells, low, ranges.begin[:count])
        find_cells(self.cells, above, ranges.end[:count])
        ranges.end[:count][is_endless] = self._n_edges + 1
        ranges.mark[:count] = members.need
        ranges.slot[:count] = members.slots
        slots.place[members.slots] = np.arange(IN_CELLS, IN_CELLS + count, dtype=np.int32)
        fit_groups(self.cells, ranges, clock, self.n_groups)
        self._event_cells = np.empty(LONGEST_BATCH, np.int32)

    @property
    def _n_edges(self) -> int:
        return len(self.cells.edges) - AHEAD

    @property
    def is_half_empty(self) -> bool:
        """Whether more than half of the places are free."""
        return self.n_groups * GROUP > 2 * max(self.n_members, FEWEST)

    @property
    def due(self) -> int:
        """The clock before which no member can mature. Cost: linear in the groups, a nanosecond each."""
        return int(self.ranges.due.min(initial=LARGEST))

    def remove(self, places: Ints) -> None:
        """Free these places. Cost: linear in their number."""
        self.n_members -= len(places)
        self.ranges.slot[places] = NOWHERE
        self.ranges.mark[places] = UNREACHABLE

    def absorb(self, log: LogColumns) -> None:
        """Count what is new in the log. To be called before anyone is due."""
        absorb_events(self.cells, log, self._event_cells)

    def settle(self, slots: SlotColumns, log: LogColumns, report: Report) -> None:
        """Count what is new in the log, and report who has matured in the current batch."""
        state = log.state
        first = int(state[ABSORBED])
        absorb_events(self.cells, log, self._event_cells)
        places, held = np.empty(self.n_members, np.int32), np.empty(self.n_members, np.int64)
        count = find_matured(self.cells, self.ranges, log, self.n_groups, places, held)
        if count == 0:
            return
        places = places[:count].copy()
        # Who has matured was not due before this batch, so it is among the batch's events that it did.
        begin = max(int(state[BATCH]), first)
        event_cells = self._event_cells[begin - first : int(state[LENGTH]) - first]
        wavelet = _wavelet(event_cells, log.weights[begin : int(state[LENGTH])])
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

    def members(self) -> Members:
        """Every member, as of the events absorbed. Cost: linear."""
        ranges, edges = self.ranges, self.cells.edges
        places = np.flatnonzero(ranges.slot >= 0).astype(np.int32)
        begin, end = ranges.begin[places], ranges.end[places]
        is_endless = end > self._n_edges
        high = np.nextafter(edges[np.where(is_endless, 0, end - 1)], -np.inf)
        endless = np.full(len(places), np.inf)
        return Members(
            ranges.slot[places],
            np.stack([edges[begin - 1], -endless]),
            np.stack([np.where(is_endless, np.inf, high), endless]),
            self.missing(places),
        )

    def restart(self) -> None:
        """Set the counters and the clock back to 0, and the marks with them. Cost: linear."""
        places = np.flatnonzero(self.ranges.slot >= 0).astype(np.int32)
        self.ranges.mark[places] = self.missing(places)
        for column in self.cells[3:]:
            column[:] = 0
        fit_groups(self.cells, self.ranges, 0, self.n_groups)


def _distinct(values: Floats) -> Floats:
    """The values in order, each once. Cost: n log n."""
    values = np.sort(values)
    is_first = np.ones(len(values), np.bool_)
    is_first[1:] = values[1:] != values[:-1]
    return values[is_first]


def _empty_cells(edges: Floats) -> CellColumns:
    """Cells between these edges, with nothing counted."""
    # Cell number `len(edges) + 1` is none, but sums are asked for up to there.
    blocks = ((len(edges) + 1) >> BLOCK_BITS) + 1
    spans = ((blocks - 1) >> SPAN_BITS) + 1
    finite = edges[np.isfinite(edges)]
    floor = float(finite[0]) if len(finite) else 0.0
    length = float(finite[-1]) / 2 - floor / 2 if len(finite) else 0.0
    buckets = max(len(edges), 1)
    per_unit = buckets / 2 / length if length > 0 else 1.0
    cells = CellColumns(
        edges=np.concatenate([edges, np.full(AHEAD, np.nan)]),
        bucket_edges=np.zeros(buckets + 1, np.int32),
        bucket_scale=np.array([floor, per_unit if np.isfinite(per_unit) else 1.0]),
        weights=np.zeros(blocks << BLOCK_BITS, np.int64),
        block_weights=np.zeros(blocks, np.int64),
        block_sums=np.zeros(blocks, np.int64),
        span_weights=np.zeros(spans, np.int64),
        span_sums=np.zeros(spans, np.int64),
        span_summed=np.zeros(spans, np.int64),
    )
    fill_buckets(cells)
    return cells


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
    wavelet = Wavelet(
        zeros=np.empty((levels, count + 1), np.int32),
        zero_weights=np.empty((levels, count + 1), np.int64),
        weights=np.empty(count + 1, np.int64),
        cells=np.empty(count, np.int32),
    )
    build_wavelet(np.argsort(event_cells).astype(np.int32), event_cells, weights, wavelet)
    return wavelet
