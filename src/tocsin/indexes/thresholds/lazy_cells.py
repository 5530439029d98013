"""The cells: one-dimensional subscriptions over counters that lie between their bounds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.direct import compiled, unwarned
from tocsin.indexes.shared.kept import Kept
from tocsin.indexes.shared.orders import order_of
from tocsin.indexes.thresholds.lazy_cells_columns import (
    AHEAD,
    BLOCK_BITS,
    EVEN,
    STRETCHES,
    CellColumns,
    LateColumns,
    RangeColumns,
)
from tocsin.indexes.thresholds.lazy_cells_kernels import (
    Looks,
    absorb_events,
    count_events,
    count_plain,
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
from tocsin.indexes.thresholds.lazy_columns import (
    ANYWHERE,
    GROUP,
    IN_CELLS,
    LARGEST,
    NOWHERE,
    SlotColumns,
    are_set,
    leave_places,
)
from tocsin.indexes.thresholds.lazy_crossings_kernels import (
    PIECE,
    Crossings,
    Wavelet,
    build_wavelet,
    prepare_crossings,
    report_crossings,
)
from tocsin.indexes.thresholds.lazy_log import Report
from tocsin.indexes.thresholds.lazy_members import Members

#: Places that are not worth giving up.
FEWEST = 1 << 12
#: Ticks to a unit of length that are tried; how many there may be where there are few ranges, and how far
#: from 0; how many bounds are looked at before all are.
TICKS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
FEW_TICKS = 1 << 16
FARTHEST_TICK = 2.0**50
SAMPLE = 1024
#: Pieces of the line to an event of a batch, as a power of 2.
PIECE_BITS = 4
#: Events that may be counted by stretch only.
LATE = 1 << 17
#: Members whose crossings are looked for together.
TOGETHER = 1 << 12
#: Cells that are added up in the time that one look saves by it.
CELLS_A_LOOK = 8
NO_SUMS = np.empty(0, np.int64)
#: So many places for each member, and they are given up, if groups are looked at: so often, on average, since
#: they were filled. To give up places takes as long.
SPARSE = 16
LOOKS = 2


class Events(NamedTuple):
    """Events that count, in order of arrival."""

    #: float64 (events,): where they are, never NaN.
    values: Floats
    #: int64 (events,): positive weights.
    weights: Longs
    #: int32 (events,): position in the batch.
    steps: Ints


class Cells:
    """Built once for all its members; others cannot join, but any may leave.

    An event costs three additions, however many members hold it.
    """

    def __init__(self, members: Members, slots: SlotColumns, clock: int) -> None:
        """Cells for these members, who should come in their `order`. Cost: n log n."""
        count = len(members.slots)
        low, above = members.low[0], _next(members.high[0], np.inf)
        is_endless = members.high[0] == np.inf
        ticks, per_unit = _ticks(low, members.high[0])
        self.n_members = count
        self.n_groups = -(-count // GROUP)
        if len(ticks):
            self.cells = _cells_at_ticks(ticks, per_unit)
        else:
            self.cells = _cells_between(_distinct(np.concatenate([low, above[~is_endless]])))
        self.ranges = ranges = _free_ranges(self.n_groups)
        self._late = LateColumns(
            cells=np.full(LATE, 0, np.int32),
            weights=np.full(LATE, 0, np.int64),
            groups=np.empty(self.n_groups, np.int32),
            due=np.full(1, LARGEST),
        )
        #: how many events are late, and how many groups may be due
        self._n_late = self._n_due = 0
        #: groups looked at since all were filled
        self._n_looks = 0
        #: what kernels work on
        self._kept = Kept((self.cells, self.ranges, self._late))
        ints = np.empty((3, GROUP), np.int32)
        self._looks = Looks(ints[0], ints[1], ints[2], np.empty(GROUP, np.int64))
        self._crossings = _crossings(TOGETHER)
        with _far_apart():
            find_cells(self.cells, low, ranges.begin[:count])
            find_cells(self.cells, above, ranges.end[:count])
        ranges.end[:count][is_endless] = self._n_edges + 1
        ranges.mark[:count] = members.need
        ranges.slot[:count] = members.slots
        slots.place[members.slots] = np.arange(IN_CELLS, IN_CELLS + count, dtype=np.int32)
        self._fit_groups(slots, clock)

    @property
    def _n_edges(self) -> int:
        return len(self.cells.edges) - AHEAD

    def is_sparse(self, n_left: int) -> bool:
        """Whether most of the places would be free without `n_left` of the members, and that matters."""
        is_worth_it = self._n_looks > LOOKS * self.n_groups
        return is_worth_it and self.n_groups * GROUP > SPARSE * max(self.n_members - n_left, FEWEST)

    @property
    def is_fine(self) -> bool:
        """Whether most of the edges are of members that have gone."""
        return self._n_edges > SPARSE * max(self.n_members, FEWEST)

    @property
    def due(self) -> int:
        """The clock before which no member can mature."""
        return self._late.due.item() if self.n_members else LARGEST

    def compact(self, slots: SlotColumns, clock: int) -> None:
        """Give up free places; the cells stay. Cost: linear in all slots.

        The columns keep their memory until all is built anew: to give it back takes longer than all else.
        """
        self._absorb()
        leave_places(slots, ANYWHERE)
        # To list the slots first is several times as fast as to choose by a mask.
        places = slots.place[np.flatnonzero(slots.place >= IN_CELLS)] - np.int32(IN_CELLS)
        places = places[order_of(places.astype(np.uint64), len(self.ranges.slot).bit_length())]
        pack_members(self.ranges, slots.place, places)
        self.n_groups = -(-len(places) // GROUP)
        self.ranges = _first_groups(self.ranges, self.n_groups)
        self.ranges.slot[len(places) :] = NOWHERE
        self._fit_groups(slots, clock)

    def vacate(self, places: Ints) -> None:
        """Give up those of these places that are in the cells: their slots come anew. Cost: linear."""
        own = places[places >= IN_CELLS] - IN_CELLS
        self.ranges.slot[own] = -1

    def count(self, events: Events, clock: int) -> None:
        """Count events, which bring the clock to here. If someone may have matured, `settle` must follow.

        Cost: nanoseconds an event.
        """
        self._make_room(len(events.weights))
        with unwarned(count_events):
            self._n_due = compiled(count_events)(
                self._kept, events.values, events.weights, clock, self.n_groups, self._n_late
            )
        self._n_late += len(events.weights)

    def count_plain(self, events: Events, clock: int) -> int:
        """As `count`, from this clock on; tells the weight of the events.

        That is -1, and nothing is counted, if some do not count or weigh too much.
        """
        self._make_room(len(events.weights))
        with unwarned(count_plain):
            weight, self._n_due = compiled(count_plain)(
                self._kept, events.values, events.weights, clock, self.n_groups, self._n_late
            )
        if weight >= 0:
            self._n_late += len(events.weights)
        return weight

    def _make_room(self, count: int) -> None:
        """Room for so many more late events."""
        cells, weights, groups, due = self._late
        if self._n_late + count > len(cells):
            self._absorb()
            if count > len(cells):
                self._late = LateColumns(grown(cells, count), grown(weights, count), groups, due)
                self._keep()

    def _keep(self) -> None:
        """Let kernels know of columns that are new."""
        self._kept.keep((self.cells, self.ranges, self._late))

    def settle(self, slots: SlotColumns, clock: int, events: Events, report: Report) -> None:
        """Report who has matured at the last events counted; before them nobody was due."""
        if self._n_due == 0:
            return
        event_cells = self._late.cells[self._n_late - len(events.weights) : self._n_late]
        n_due = compiled(narrow_due)(self._kept, clock, self._n_late, self._n_due)
        self._n_late = self._n_due = 0
        self._n_looks += n_due
        cell_sums = self._cell_sums(n_due * GROUP)
        crossings = self._crossings
        wavelet: Wavelet | None = None
        first = 0
        while first < n_due:
            first, count = compiled(find_matured)(
                self._kept,
                slots,
                clock,
                first,
                n_due,
                cell_sums,
                self._looks,
                crossings.place,
                crossings.total,
            )
            if count:
                wavelet = wavelet or _wavelet(event_cells, events.weights)
                self._report_crossings(slots, clock, events, wavelet, count, report)
        self._late.due[0] = self.ranges.due.min()

    def _report_crossings(
        self,
        slots: SlotColumns,
        clock: int,
        events: Events,
        wavelet: Wavelet,
        count: int,
        report: Report,
    ) -> None:
        """Report the first of the crossings, each at the event that brought it there."""
        compiled(prepare_crossings)(self.ranges, slots, wavelet, self._crossings, count)
        while count:
            report.reserve(count)
            count, n_ended = compiled(report_crossings)(
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

    def _cell_sums(self, n_looks: int) -> Longs:
        """The weight before each cell, if so many looks make it worth to add up all; else nothing."""
        n_cells = self.cells.weights.size
        if n_looks * CELLS_A_LOOK < n_cells:
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
        return (self.ranges.mark[places] - weights.astype(np.uint64)).astype(np.int64)

    def members(self, slots: SlotColumns) -> Members:
        """Every member. Cost: linear."""
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
        self._absorb()
        cells, ranges = self.cells, self.ranges
        edges, places = cells.edges[: self._n_edges], self._places(slots)
        assert len(places) == self.n_members
        assert (slots.place[ranges.slot[places]] == places + IN_CELLS).all()
        assert (edges[1:] > edges[:-1]).all()
        assert cells.bucket_edges[-1] == (0 if cells.tick_scale[0] else len(edges))
        assert (ranges.begin[places] < ranges.end[places]).all()
        assert (cells.weights.sum(axis=(1, 2)) == cells.block_weights).all()
        assert cells.weights.sum() == cells.stretch_weights.sum()
        group, missing = places // GROUP, self.missing(places)
        assert (missing > 0).all()
        assert (ranges.cover_begin[group] << BLOCK_BITS <= ranges.begin[places]).all()
        assert (ranges.cover_end[group] << BLOCK_BITS >= ranges.end[places]).all()

    def restart(self, slots: SlotColumns) -> None:
        """Set the counters and the clock back to 0, and the marks with them. Cost: linear."""
        places = self._places(slots)
        self.ranges.mark[places] = self.missing(places)
        for name, column in self.cells._asdict().items():
            if name.split("_")[-1] in ("weights", "sums"):
                column[:] = 0
        self._fit_groups(slots, 0)

    def _fit_groups(self, slots: SlotColumns, clock: int) -> None:
        """Make all groups what their members say. Cost: linear."""
        cell_sums = self._cell_sums(self.n_members)
        fit_groups(self.cells, self.ranges, slots, clock, self.n_groups, cell_sums, self._looks)
        self._n_due = self._n_looks = 0
        self._late.due[0] = self.ranges.due.min(initial=LARGEST)
        self._keep()

    def _absorb(self) -> None:
        """Count into the cells whatever is not. Cost: nanoseconds an event."""
        late = slice(0, self._n_late)
        absorb_events(self.cells, self._late.cells[late], self._late.weights[late])
        self._n_late = 0

    def _places(self, slots: SlotColumns) -> Ints:
        """Where members are."""
        places: Ints = np.flatnonzero(self.ranges.slot >= 0).astype(np.int32)
        own_slots = self.ranges.slot[places]
        return places[are_set(slots.is_there, own_slots)]


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


def _first_groups(ranges: RangeColumns, groups: int) -> RangeColumns:
    """The columns of the first groups, in the memory of all."""
    n_groups = len(ranges.due)
    return RangeColumns._make(column[: len(column) // n_groups * groups] for column in ranges)


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


def _ticks(low: Floats, high: Floats) -> tuple[Floats, float]:
    """All multiples of the unit that the bounds are multiples of, and how many there are to 1; few or none.

    Cost: linear.
    """
    # A range that holds nothing but an infinity has an edge next to it, far from any tick.
    is_far = high.min() == -np.inf or low.max() == np.inf
    most = float(max(len(low), FEW_TICKS))
    some = slice(None, None, len(low) // SAMPLE + 1)
    for per_unit in () if is_far else TICKS:
        with _far_apart():
            if find_extent(low[some].copy(), high[some].copy(), per_unit)[0]:
                are_ticks, first, last = find_extent(low, high, per_unit)
                if are_ticks and last - first <= most and max(-first, last) <= FARTHEST_TICK:
                    return np.arange(first, last + 1), per_unit
    return np.empty(0), 0.0


def _cells_at_ticks(ticks: Floats, per_unit: float) -> CellColumns:
    """Cells at and between ticks, with nothing counted."""
    edges = np.full(2 * len(ticks) + 1, -np.inf)
    edges[1::2] = ticks / per_unit
    edges[2::2] = _next(edges[1::2], np.inf)
    return _empty_cells(edges, 1)._replace(tick_scale=np.array([per_unit, ticks[0]]))


def _cells_between(edges: Floats) -> CellColumns:
    """Cells between these edges, with nothing counted."""
    finite = edges[np.isfinite(edges)]
    floor = float(finite[0]) if len(finite) else 0.0
    half_length = float(finite[-1]) / 2 - floor / 2 if len(finite) else 0.0
    buckets = max(len(edges), 1)
    cells = _empty_cells(edges, buckets)
    cells.bucket_scale[:] = floor, _per_unit(buckets, half_length)
    with _far_apart():
        fill_buckets(cells)
    return cells


def _empty_cells(edges: Floats, buckets: int) -> CellColumns:
    # Cell number `len(edges) + 1` is none, but sums are asked for up to there.
    last = len(edges) + 1
    blocks = (last >> BLOCK_BITS) + 1
    stretch_bits = max((last // STRETCHES).bit_length(), BLOCK_BITS)
    stretches = (last >> stretch_bits) + 1
    return CellColumns(
        edges=np.concatenate([edges, np.full(AHEAD, np.nan)]),
        bucket_edges=np.zeros(buckets + 1, np.int32),
        bucket_scale=np.zeros(2),
        tick_scale=np.zeros(2),
        # Written, not only asked for: else the first events would wait until the system finds the memory.
        weights=np.full((blocks, 2, EVEN), 0, np.int64),
        block_weights=np.zeros(blocks, np.int64),
        block_sums=np.zeros(blocks + 1, np.int64),
        stretch_weights=np.zeros(stretches, np.int64),
        stretch_sums=np.zeros(stretches + 1, np.int64),
        stretch_bits=np.array([stretch_bits]),
    )


def _per_unit(count: int, half_length: float) -> float:
    """How many of `count` equal pieces there are to a unit of length; 1 where that says nothing."""
    per_unit = count / 2 / half_length if half_length > 0 else 1.0
    return per_unit if math.isfinite(per_unit) else 1.0


def _crossings(count: int) -> Crossings:
    """Room for so many members."""
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


def _wavelet(event_cells: Ints, weights: Longs) -> Wavelet:
    """The wavelet of these events. Cost: n log n."""
    count = len(event_cells)
    levels = (count - 1).bit_length()
    order = order_of(event_cells.astype(np.uint64), int(event_cells.max()).bit_length())
    cells = event_cells[order]
    shift = max(int(cells[-1]).bit_length() - levels - PIECE_BITS, 0)
    wavelet = Wavelet(
        zeros=np.empty((levels, count + 1), np.int32),
        zero_weights=np.empty((levels, count + 1), np.int64),
        weights=np.empty(count + 1, np.int64),
        cells=np.concatenate([cells, np.full(PIECE, np.iinfo(np.int32).max, np.int32)]),
        starts=np.zeros((int(cells[-1]) >> shift) + 2, np.int32),
        shift=np.array([shift]),
    )
    build_wavelet(order, np.empty_like(order), weights, wavelet)
    return wavelet
