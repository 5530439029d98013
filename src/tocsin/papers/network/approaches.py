"""The papers' approaches: what a server computes from an event, and how that reaches the subscribers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.errors import ParameterError
from tocsin.indexes.ranges.messages.messages import Messages, Reformulator
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.messages.painters.sparse import PaintSparse
from tocsin.indexes.ranges.messages.receivers import Receivers, receiver_counts
from tocsin.network.areas import areas_of
from tocsin.network.topk_answers import TopKAnswers
from tocsin.papers.network.multicast import new_multicast_sums
from tocsin.papers.network.multicast_kernels import send_multicasts
from tocsin.papers.network.spreading_kernels import (
    AT_ENTRY,
    GatewayState,
    MinimumUpdates,
    SpreadInput,
    TrafficCounts,
    spread_all_cut_off,
    spread_messages,
)
from tocsin.papers.network.workloads import Rows
from tocsin.papers.network.world import World
from tocsin.papers.topk_paint.minmax import MarHull
from tocsin.papers.topk_paint.relax import relax_events

#: Bytes of messages; as in the papers, a field has four.
MESSAGE_BYTES = 24
UNICAST_BYTES = 16
MULTICAST_BYTES = 8
LISTED_BYTES = 4

#: Initial capacity of painters for messages.
CAPACITY = 1 << 14


class Traffic(NamedTuple):
    """The cost of each event of a batch: int64 (events,), microseconds float64."""

    #: messages between brokers, links of the graph that they cross, and bytes over both
    hops: Longs
    links: Longs
    bytes: Longs
    link_bytes: Longs
    #: messages of the busiest broker
    stress: Longs
    #: messages and bytes out of the server
    sent: Longs
    sent_bytes: Longs
    #: messages that subscribers receive; one that receives an event twice counts once
    received: Longs
    #: the server's time, as a share of its batch
    server_us: Floats


class Approach(ABC):
    """One way to notify subscribers: load a table, then process batches of events."""

    def __init__(self, world: World, k: int) -> None:
        self.world = world
        self.k = k

    def load(self, table: Rows) -> None:  # noqa: B027
        """Load the table as it is before the first event."""

    @abstractmethod
    def play(self, events: Rows, old_y: Floats) -> Traffic:
        """Process events; returns their cost."""


class ServerApproach(Approach):
    """Approaches whose server reformulates events."""

    def __init__(self, world: World, k: int, painter: Reformulator) -> None:
        super().__init__(world, k)
        self.painter = painter
        if isinstance(painter, PaintSparse):
            painter.points = world.points

    def load(self, table: Rows) -> None:
        self.painter.load(*table)

    def affected(self, messages: Messages, events: Rows) -> Messages:
        """Rectangles that contain each affected subscription exactly once.

        Those of a minimum are disjoint. Of top-k, each affected subscription gets one of the event's row.
        """
        is_minimum = isinstance(self.painter, MarHull)
        return messages if is_minimum else own_rectangles(messages, events.slot)


class SpreadApproach(ServerApproach):
    """S-CN and the Paint family: messages leave the server and spread from zone to zone."""

    #: DS-CN: no server; the zones along the diagonal keep the table
    is_distributed = False

    def play(self, events: Rows, old_y: Floats) -> Traffic:
        start = time.perf_counter()
        messages = self.painter.apply(*events)
        took = time.perf_counter() - start
        own = self.affected(messages, events)
        received = _by_event(own.event, len(events.slot), receiver_counts(self.world.points, own))
        counts = spread(self.world, messages, events, is_distributed=self.is_distributed)
        sent = _by_event(messages.event, len(events.slot))
        return _traffic(counts, MESSAGE_BYTES, 0 * sent if self.is_distributed else sent, received, took)


class DistributedSpreadApproach(SpreadApproach):
    """DS-CN."""

    is_distributed = True


class UnicastApproach(ServerApproach):
    """S-UN and Unicast: the server finds affected subscriptions, and sends a message to each."""

    def __init__(self, world: World, k: int, painter: Reformulator) -> None:
        super().__init__(world, k, painter)
        self._receivers = Receivers(world.points)

    def play(self, events: Rows, old_y: Floats) -> Traffic:
        start = time.perf_counter()
        own = self.affected(self.painter.apply(*events), events)
        slots, ends = self._receivers.list(own)
        took = time.perf_counter() - start
        count = np.diff(ends, prepend=0)
        event = np.repeat(own.event, count)
        links = self.world.distance[self.world.server, self.world.zone[slots]]
        hops = _by_event(event, len(events.slot))
        under = _by_event(event, len(events.slot), links)
        us = _shares(took, len(hops))
        return Traffic(
            hops,
            under,
            UNICAST_BYTES * hops,
            UNICAST_BYTES * under,
            hops,
            hops,
            UNICAST_BYTES * hops,
            hops,
            us,
        )


class MulticastApproach(ServerApproach):
    """S-MN: every message lists its receivers, and travels through a hierarchy of brokers."""

    def __init__(self, world: World, k: int, painter: Reformulator) -> None:
        super().__init__(world, k, painter)
        self._receivers = Receivers(world.points)

    def play(self, events: Rows, old_y: Floats) -> Traffic:
        n_events = len(events.slot)
        start = time.perf_counter()
        messages = self.painter.apply(*events)
        slots, ends = self._receivers.list(messages)
        took = time.perf_counter() - start
        sums = new_multicast_sums(len(self.world.distance), n_events)
        send_multicasts(self.world.hierarchy, self.world.zone[slots], ends, messages.event, sums)
        listed = np.diff(ends, prepend=0)
        sent = _by_event(messages.event, n_events, listed > 0)
        return Traffic(
            sums.out_hops,
            sums.out_links,
            MULTICAST_BYTES * sums.out_hops + LISTED_BYTES * sums.out_listed,
            MULTICAST_BYTES * sums.out_links + LISTED_BYTES * sums.out_listed_links,
            sums.out_stress,
            sent,
            MULTICAST_BYTES * sent + LISTED_BYTES * _by_event(messages.event, n_events, listed),
            _by_event(messages.event, n_events, listed),
            _shares(took, n_events),
        )


class RelaxedApproach(Approach):
    """CN and CN-Relax: without a server, every event goes to every range that contains it."""

    def play(self, events: Rows, old_y: Floats) -> Traffic:
        messages = relax_events(*events)
        counts = spread(self.world, messages, events, is_entering=True)
        received = receiver_counts(self.world.points, messages)
        return _traffic(counts, MESSAGE_BYTES, np.zeros(len(events.slot), np.int64), received, 0.0)


class CutOffApproach(ServerApproach):
    """CN+: as CN, but zones prune the area by their subscriptions' answers. Sends rows whose y decreases."""

    def __init__(self, world: World, k: int, painter: Reformulator) -> None:
        super().__init__(world, k, painter)
        self._receivers = Receivers(world.points)
        self._cut = np.empty((len(world.zones), 2))

    def load(self, table: Rows) -> None:
        super().load(table)
        world = self.world
        answers = TopKAnswers(world.lo, world.hi, k=1, is_whole=True)
        answers.start(*table)
        slots, rows, *_ = answers.entries()
        least_x, least_y = np.full(len(answers), np.nan), np.full(len(answers), np.nan)
        least_x[slots], least_y[slots] = table.x[rows], table.y[rows]
        order = np.argsort(world.zone, kind="stable").astype(np.int32)
        near = world.zones.neighbours()
        self._gates = GatewayState(
            np.searchsorted(world.zone[order], np.arange(len(world.zones) + 1)).astype(np.int32),
            order,
            world.lo,
            world.hi,
            least_y,
            least_x,
            np.cumsum([0, *map(len, near)]).astype(np.int32),
            np.concatenate(near),
        )

    def play(self, events: Rows, old_y: Floats) -> Traffic:
        messages = self.painter.apply(*events)
        slots, ends = self._receivers.list(messages)
        nobody = messages.payload_gone[messages.payload]
        updates = MinimumUpdates(
            messages.event,
            ends,
            slots,
            np.where(nobody, np.nan, messages.payload_x[messages.payload]),
            np.where(nobody, np.nan, messages.payload_y[messages.payload]),
        )
        world, is_lowered = self.world, events.y < old_y
        counts = new_counts(world, len(events.slot))
        given = (events.x, events.y, is_lowered)
        with np.errstate(over="ignore", under="ignore"):
            spread_all_cut_off(
                world.zones.tree, self._gates, given, updates, world.distance, counts, self._cut
            )
        received = _by_event(messages.event, len(events.slot), np.diff(ends, prepend=0))
        return _traffic(
            counts, MESSAGE_BYTES, np.zeros(len(events.slot), np.int64), received * is_lowered, 0.0
        )


def approach_of(name: str, world: World, k: int) -> Approach:
    """An approach by the papers' name; `Paint-Dense(0.5)` and `Paint-Sparse(1)` have an epsilon."""
    if name in _MINIMUM:
        if k != 1:
            raise ParameterError(f"{name} is for minima: k must be 1")
        return _MINIMUM[name](world, 1, MarHull(capacity=CAPACITY))
    if name in ("CN", "CN-Relax"):
        return RelaxedApproach(world, k)
    if name == "Unicast":
        return UnicastApproach(world, k, PaintDense(k, capacity=CAPACITY))
    kind, _, rest = name.partition("(")
    try:
        epsilon = float(rest.rstrip(")")) if rest else 0.0
    except ValueError:
        epsilon = -1.0
    if kind in ("Paint-Dense", "Paint-Sparse") and 0 <= epsilon <= 1:
        maker: Callable[..., Reformulator] = PaintDense if kind == "Paint-Dense" else PaintSparse
        return SpreadApproach(world, k, maker(k, epsilon=epsilon, capacity=CAPACITY))
    raise ParameterError(f"unknown approach {name!r}; known are {', '.join(NAMES)}")


_MINIMUM: dict[str, Callable[[World, int, Reformulator], Approach]] = {
    "S-UN": UnicastApproach,
    "S-MN": MulticastApproach,
    "CN+": CutOffApproach,
    "S-CN": SpreadApproach,
    "DS-CN": DistributedSpreadApproach,
}
NAMES = (*_MINIMUM, "CN", "CN-Relax", "Unicast", "Paint-Dense", "Paint-Sparse")


def own_rectangles(messages: Messages, slots: Ints) -> Messages:
    """Only the rectangles of the event's own row; `slots` are the events' rows."""
    is_own = (messages.payload_row == slots[messages.payload_event])[messages.payload]
    rectangles = [column[is_own] for column in messages[:5]]
    return Messages._make([*rectangles, *messages[5:]])


def spread(
    world: World, messages: Messages, events: Rows, *, is_distributed: bool = False, is_entering: bool = False
) -> TrafficCounts:
    """Spread messages from zone to zone: from the server, their entry, or their event's own zone."""
    n_events = len(events.slot)
    areas = areas_of(messages)
    own = world.diagonal_place(events.x)
    first, last = own, own
    if is_distributed:
        first, last = _reach(world, messages, own)
        start = world.diagonal[own][messages.event]
    else:
        start = np.full(len(messages.payload), AT_ENTRY if is_entering else world.server, np.int32)
    given = SpreadInput(*areas, messages.event, start, own, first, last, world.diagonal, world.distance)
    counts = new_counts(world, n_events)
    with np.errstate(over="ignore", under="ignore"):
        spread_messages(world.zones.tree, given, counts)
    return counts


def new_counts(world: World, events: int) -> TrafficCounts:
    """Scratch arrays, and zeroed counts of `events`."""
    n_zones, n_nodes = len(world.zones), len(world.zones.tree.node_dim)
    scratch = (np.empty(n_nodes, np.int32), np.empty(n_zones, np.int32), np.zeros(n_zones, np.int32))
    return TrafficCounts(*scratch, *(np.zeros(events, np.int64) for _ in range(3)))


def _reach(world: World, messages: Messages, own: Ints) -> tuple[Ints, Ints]:
    """How far each event must walk along the diagonal: to the ends of all its messages' ranges."""
    first, last = own.copy(), own.copy()
    low = np.where(np.isnan(messages.outer_lo), -np.inf, messages.outer_lo)
    high = np.where(np.isnan(messages.outer_hi), np.inf, messages.outer_hi)
    np.minimum.at(first, messages.event, world.diagonal_place(low))
    np.maximum.at(last, messages.event, world.diagonal_place(high))
    return first, last


def _by_event(event: Ints, n_events: int, weights: np.ndarray | None = None) -> Longs:
    return np.bincount(event, weights, n_events).astype(np.int64)


def _traffic(counts: TrafficCounts, size: int, sent: Longs, received: Longs, took: float) -> Traffic:
    hops, links = counts.out_hops, counts.out_links
    us = _shares(took, len(hops))
    return Traffic(hops, links, size * hops, size * links, counts.out_stress, sent, size * sent, received, us)


def _shares(seconds: float, events: int) -> Floats:
    """A batch's time in microseconds, split evenly over its events."""
    return np.full(events, 1e6 * seconds / max(1, events))
