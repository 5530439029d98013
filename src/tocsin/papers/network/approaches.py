"""The papers' approaches: what a server makes of an event, and how that reaches the subscribers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tocsin.errors import ParameterError
from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.indexes.ranges.dense import PaintDense
from tocsin.indexes.ranges.messages import Messages
from tocsin.indexes.ranges.messages_apply import Reformulator
from tocsin.indexes.ranges.minmax import ExtremeMessages
from tocsin.indexes.ranges.receivers import Receivers, receiver_counts
from tocsin.indexes.ranges.sparse import PaintSparse
from tocsin.network.areas import areas_of
from tocsin.network.lists import Lists
from tocsin.papers.network.multicast import new_sums
from tocsin.papers.network.multicast_kernels import send_multicasts
from tocsin.papers.network.spreading_kernels import (
    AT_ENTRY,
    Gateways,
    Spreading,
    Tally,
    Updates,
    spread_all_cut_off,
    spread_messages,
)
from tocsin.papers.network.workloads import Rows
from tocsin.papers.network.world import World
from tocsin.papers.topk_paint.relax import relax_events

#: Bytes: the papers' numbers are those of four bytes a field.
MESSAGE = 24
LETTER = 16
MULTICAST = 8
LISTED = 4

#: Room for messages that painters start with.
CAPACITY = 1 << 14


class Traffic(NamedTuple):
    """What each event of a batch has cost: int64 (events,), microseconds float64."""

    #: messages between brokers, links of the graph under them, and bytes over both
    hops: Longs
    links: Longs
    bytes: Longs
    link_bytes: Longs
    #: messages of the broker that sends the most
    stress: Longs
    #: messages and bytes out of the server
    sent: Longs
    sent_bytes: Longs
    #: messages that subscribers receive; one who hears of an event twice counts once
    received: Longs
    #: the server's time, as a share of its batch
    server_us: Floats


class Approach:
    """One way to tell: load a table, then play batches of events."""

    def __init__(self, world: World, k: int) -> None:
        self.world = world
        self.k = k

    def load(self, table: Rows) -> None:
        """Take the table as it is before the first event."""

    def play(self, events: Rows, old_y: Floats) -> Traffic:
        """What telling of each event costs."""
        raise NotImplementedError


class Serving(Approach):
    """Approaches whose server reformulates events."""

    def __init__(self, world: World, k: int, painter: Reformulator) -> None:
        super().__init__(world, k)
        self.painter = painter
        if isinstance(painter, PaintSparse):
            painter.points = world.points

    def load(self, table: Rows) -> None:
        self.painter.load(*table)

    def affected(self, messages: Messages, events: Rows) -> Messages:
        """Tiles that hold each subscription that an event affects once.

        Those of a minimum are disjoint. Of the k best, all that are affected hear of the event's own row.
        """
        is_minimum = isinstance(self.painter, ExtremeMessages)
        return messages if is_minimum else own_tiles(messages, events.slot)


class Spread(Serving):
    """S-CN and the Paint family: messages leave the server and spread from zone to zone."""

    #: DS-CN: no server; the zones along the diagonal keep the table
    is_distributed = False

    def play(self, events: Rows, old_y: Floats) -> Traffic:
        start = time.perf_counter()
        messages = self.painter.apply(*events)
        took = time.perf_counter() - start
        own = self.affected(messages, events)
        received = _by_event(own.event, len(events.slot), receiver_counts(self.world.points, own))
        tally = spread(self.world, messages, events, is_distributed=self.is_distributed)
        sent = _by_event(messages.event, len(events.slot))
        return _traffic(tally, MESSAGE, 0 * sent if self.is_distributed else sent, received, took)


class DistributedSpread(Spread):
    """DS-CN."""

    is_distributed = True


class Letters(Serving):
    """S-UN and Unicast: the server finds who is affected, and tells each by itself."""

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
        return Traffic(hops, under, LETTER * hops, LETTER * under, hops, hops, LETTER * hops, hops, us)


class Multicast(Serving):
    """S-MN: every message lists who it is for, and goes through a hierarchy of brokers."""

    def __init__(self, world: World, k: int, painter: Reformulator) -> None:
        super().__init__(world, k, painter)
        self._receivers = Receivers(world.points)

    def play(self, events: Rows, old_y: Floats) -> Traffic:
        n_events = len(events.slot)
        start = time.perf_counter()
        messages = self.painter.apply(*events)
        slots, ends = self._receivers.list(messages)
        took = time.perf_counter() - start
        sums = new_sums(len(self.world.distance), n_events)
        send_multicasts(self.world.hierarchy, self.world.zone[slots], ends, messages.event, sums)
        listed = np.diff(ends, prepend=0)
        sent = _by_event(messages.event, n_events, listed > 0)
        return Traffic(
            sums.out_hops,
            sums.out_links,
            MULTICAST * sums.out_hops + LISTED * sums.out_listed,
            MULTICAST * sums.out_links + LISTED * sums.out_listed_links,
            sums.out_stress,
            sent,
            MULTICAST * sent + LISTED * _by_event(messages.event, n_events, listed),
            _by_event(messages.event, n_events, listed),
            _shares(took, n_events),
        )


class Relaxed(Approach):
    """CN and CN-Relax: no server, every event to every range that holds it."""

    def play(self, events: Rows, old_y: Floats) -> Traffic:
        messages = relax_events(*events)
        tally = spread(self.world, messages, events, is_entering=True)
        received = receiver_counts(self.world.points, messages)
        return _traffic(tally, MESSAGE, np.zeros(len(events.slot), np.int64), received, 0.0)


class CutOff(Serving):
    """CN+: as CN, but zones cut the area by what their subscriptions hold. Tells of rows that come down."""

    def __init__(self, world: World, k: int, painter: Reformulator) -> None:
        super().__init__(world, k, painter)
        self._receivers = Receivers(world.points)
        self._cut = np.empty((len(world.zones), 2))

    def load(self, table: Rows) -> None:
        super().load(table)
        world = self.world
        lists = Lists(world.lo, world.hi, k=1, is_whole=True)
        lists.start(*table)
        slots, rows, *_ = lists.entries()
        least_x, least_y = np.full(len(lists), np.nan), np.full(len(lists), np.nan)
        least_x[slots], least_y[slots] = table.x[rows], table.y[rows]
        order = np.argsort(world.zone, kind="stable").astype(np.int32)
        near = world.zones.neighbours()
        self._gates = Gateways(
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
        nobody = messages.note_gone[messages.note]
        updates = Updates(
            messages.event,
            ends,
            slots,
            np.where(nobody, np.nan, messages.note_x[messages.note]),
            np.where(nobody, np.nan, messages.note_y[messages.note]),
        )
        world, is_told = self.world, events.y < old_y
        tally = new_tally(world, len(events.slot))
        given = (events.x, events.y, is_told)
        with np.errstate(over="ignore", under="ignore"):
            spread_all_cut_off(
                world.zones.tree, self._gates, given, updates, world.distance, tally, self._cut
            )
        received = _by_event(messages.event, len(events.slot), np.diff(ends, prepend=0))
        return _traffic(tally, MESSAGE, np.zeros(len(events.slot), np.int64), received * is_told, 0.0)


def approach_of(name: str, world: World, k: int) -> Approach:
    """An approach by the papers' name; `Paint-Dense(0.5)` and `Paint-Sparse(1)` have an epsilon."""
    if name in _MINIMUM:
        if k != 1:
            raise ParameterError(f"{name} is for minima: k must be 1")
        return _MINIMUM[name](world, 1, ExtremeMessages(capacity=CAPACITY))
    if name in ("CN", "CN-Relax"):
        return Relaxed(world, k)
    if name == "Unicast":
        return Letters(world, k, PaintDense(k, capacity=CAPACITY))
    kind, _, rest = name.partition("(")
    try:
        epsilon = float(rest.rstrip(")")) if rest else 0.0
    except ValueError:
        epsilon = -1.0
    if kind in ("Paint-Dense", "Paint-Sparse") and 0 <= epsilon <= 1:
        maker: Callable[..., Reformulator] = PaintDense if kind == "Paint-Dense" else PaintSparse
        return Spread(world, k, maker(k, epsilon=epsilon, capacity=CAPACITY))
    raise ParameterError(f"unknown approach {name!r}; known are {', '.join(NAMES)}")


_MINIMUM: dict[str, Callable[[World, int, Reformulator], Approach]] = {
    "S-UN": Letters,
    "S-MN": Multicast,
    "CN+": CutOff,
    "S-CN": Spread,
    "DS-CN": DistributedSpread,
}
NAMES = (*_MINIMUM, "CN", "CN-Relax", "Unicast", "Paint-Dense", "Paint-Sparse")


def own_tiles(messages: Messages, slots: Ints) -> Messages:
    """Only the tiles that tell of the event's own row; `slots` are the events' rows."""
    is_own = (messages.note_row == slots[messages.note_event])[messages.note]
    tiles = [column[is_own] for column in messages[:5]]
    return Messages._make([*tiles, *messages[5:]])


def spread(
    world: World, messages: Messages, events: Rows, *, is_distributed: bool = False, is_entering: bool = False
) -> Tally:
    """Messages from zone to zone: from the server, from where they enter, or from their event's own zone."""
    n_events = len(events.slot)
    areas = areas_of(messages)
    own = world.diagonal_place(events.x)
    first, last = own, own
    if is_distributed:
        first, last = _reach(world, messages, own)
        start = world.diagonal[own][messages.event]
    else:
        start = np.full(len(messages.note), AT_ENTRY if is_entering else world.server, np.int32)
    given = Spreading(*areas, messages.event, start, own, first, last, world.diagonal, world.distance)
    tally = new_tally(world, n_events)
    with np.errstate(over="ignore", under="ignore"):
        spread_messages(world.zones.tree, given, tally)
    return tally


def new_tally(world: World, events: int) -> Tally:
    """Scratch, and room for the sums of so many events."""
    n_zones, n_nodes = len(world.zones), len(world.zones.tree.node_dim)
    scratch = (np.empty(n_nodes, np.int32), np.empty(n_zones, np.int32), np.zeros(n_zones, np.int32))
    return Tally(*scratch, *(np.zeros(events, np.int64) for _ in range(3)))


def _reach(world: World, messages: Messages, own: Ints) -> tuple[Ints, Ints]:
    """How far each event must look along the diagonal: to the ends of all its messages' ranges."""
    first, last = own.copy(), own.copy()
    low = np.where(np.isnan(messages.outer_lo), -np.inf, messages.outer_lo)
    high = np.where(np.isnan(messages.outer_hi), np.inf, messages.outer_hi)
    np.minimum.at(first, messages.event, world.diagonal_place(low))
    np.maximum.at(last, messages.event, world.diagonal_place(high))
    return first, last


def _by_event(event: Ints, n_events: int, weights: np.ndarray | None = None) -> Longs:
    return np.bincount(event, weights, n_events).astype(np.int64)


def _traffic(tally: Tally, size: int, sent: Longs, received: Longs, took: float) -> Traffic:
    hops, links = tally.out_hops, tally.out_links
    us = _shares(took, len(hops))
    return Traffic(hops, links, size * hops, size * links, tally.out_stress, sent, size * sent, received, us)


def _shares(seconds: float, events: int) -> Floats:
    """A batch's time in microseconds, in equal parts."""
    return np.full(events, 1e6 * seconds / max(1, events))
