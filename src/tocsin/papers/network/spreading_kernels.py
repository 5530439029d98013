"""Spreads messages through zones, link by link, and sums up the traffic of each event."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.network.zones_kernels import ZoneTree, find_zone, list_intersecting, step_inwards, step_towards

#: `start` of a message that begins at its inner corner.
AT_ENTRY = -1


class SpreadInput(NamedTuple):
    """Messages by event, where each starts, and how far their events first walk along the diagonal."""

    #: float64 (messages, dimensions)
    low: Floats
    #: float64 (messages, dimensions)
    high: Floats
    #: int32 (messages,): position of the event, ascending
    event: Ints
    #: int32 (messages,): the zone that sends it, or AT_ENTRY
    start: Ints
    #: int32 (events,): positions in `diagonal` of the event's own zone, and the first and last queried
    walk_own: Ints
    walk_first: Ints
    walk_last: Ints
    #: int32: zones along the diagonal, in order
    diagonal: Ints
    #: int32 (zones, zones): number of links between the brokers of two zones
    distance: Ints


class TrafficCounts(NamedTuple):
    """Scratch arrays, and sums by event."""

    #: int32 (nodes,)
    stack: Ints
    #: int32 (zones,): zones that a message intersects
    found: Ints
    #: int32 (zones,): messages that each broker has sent in this event; all 0 between events
    sent: Ints
    #: int64 (events,): overlay hops
    out_hops: Longs
    #: int64 (events,): links of the graph that they cross
    out_links: Longs
    #: int64 (events,): messages of the busiest broker
    out_stress: Longs


@kernel
def send_one(counts: TrafficCounts, distance: Ints, event: int, sender: int, receiver: int) -> None:
    """Count one message from broker to broker."""
    counts.sent[sender] += 1
    counts.out_hops[event] += 1
    counts.out_links[event] += distance[sender, receiver]
    if counts.sent[sender] > counts.out_stress[event]:
        counts.out_stress[event] = counts.sent[sender]


@kernel
def walk_diagonal(given: SpreadInput, counts: TrafficCounts, event: int) -> None:
    """Query the zones along the diagonal, outwards on both sides; the last of each side replies directly."""
    own = given.walk_own[event]
    for place in range(own, given.walk_last[event]):
        send_one(counts, given.distance, event, given.diagonal[place], given.diagonal[place + 1])
    for place in range(own, given.walk_first[event], -1):
        send_one(counts, given.distance, event, given.diagonal[place], given.diagonal[place - 1])
    for end in (given.walk_first[event], given.walk_last[event]):
        if end != own:
            send_one(counts, given.distance, event, given.diagonal[end], given.diagonal[own])


@kernel
def spread_messages(tree: ZoneTree, given: SpreadInput, counts: TrafficCounts) -> None:
    """Route every message to its entry, and spread it to all zones that it intersects."""
    point = np.empty(given.low.shape[1])
    target = np.empty(given.low.shape[1])
    half = given.low.shape[1] // 2
    message = 0
    for event in range(len(given.walk_own)):
        walk_diagonal(given, counts, event)
        while message < len(given.event) and given.event[message] == event:
            low = given.low[message]
            high = given.high[message]
            zone = given.start[message]
            if zone >= 0:
                for dim in range(len(low)):
                    target[dim] = high[dim] if dim < half else low[dim]
                while step_towards(tree, zone, target, point):
                    next_zone = find_zone(tree, point)
                    send_one(counts, given.distance, event, zone, next_zone)
                    zone = next_zone
            n_found = list_intersecting(tree, low, high, counts.stack, counts.found)
            for place in range(n_found):
                zone = counts.found[place]
                if step_inwards(tree, zone, low, high, point):
                    send_one(counts, given.distance, event, find_zone(tree, point), zone)
            message += 1
        counts.sent[:] = 0


class GatewayState(NamedTuple):
    """What gateways store for CN+: the minimum of each subscription in their zones."""

    #: int32 (zones + 1,): where each zone's subscriptions begin
    zone_start: Ints
    #: int32 (subscriptions,): slots, by zone
    member: Ints
    #: float64 (subscriptions,)
    lo: Floats
    #: float64 (subscriptions,)
    hi: Floats
    #: float64 (subscriptions,): the least y in the range; NaN if it is empty
    least_y: Floats
    #: float64 (subscriptions,): x of that row
    least_x: Floats
    #: int32 (zones + 1,), int32: neighbours of each zone
    near_start: Ints
    near: Ints


@kernel
def spread_cut_off(
    tree: ZoneTree,
    gates: GatewayState,
    x: float,
    y: float,
    distance: Ints,
    event: int,
    counts: TrafficCounts,
    cut: Floats,
) -> None:
    """CN+: spread a row at x whose y decreased; subscriptions that it does not affect prune the area.

    A zone passes its cut-off points on to the zones after it. `cut` has two numbers per zone.
    """
    low = np.array([-np.inf, x])
    high = np.array([x, np.inf])
    point = np.empty(2)
    point[:] = x
    first = find_zone(tree, point)
    cut[first, 0] = -np.inf
    cut[first, 1] = np.inf
    counts.stack[0] = first
    n_stack = 1
    while n_stack:
        n_stack -= 1
        zone = counts.stack[n_stack]
        left = cut[zone, 0]
        right = cut[zone, 1]
        for place in range(gates.zone_start[zone], gates.zone_start[zone + 1]):
            slot = gates.member[place]
            is_inside = left < gates.lo[slot] <= x <= gates.hi[slot] < right
            # A minimum of the same y may still lose to this row, if that is older.
            if is_inside and gates.least_y[slot] < y:
                if gates.least_x[slot] <= x:
                    left = max(left, gates.least_x[slot])
                if gates.least_x[slot] >= x:
                    right = min(right, gates.least_x[slot])
        for place in range(gates.near_start[zone], gates.near_start[zone + 1]):
            other = gates.near[place]
            is_beyond = tree.zone_high[other, 0] <= left or tree.zone_low[other, 1] >= right
            is_met = tree.zone_low[other, 0] <= x and tree.zone_high[other, 1] >= x
            if is_beyond or not is_met or not step_inwards(tree, other, low, high, point):
                continue
            if find_zone(tree, point) == zone:
                send_one(counts, distance, event, zone, other)
                cut[other, 0] = left
                cut[other, 1] = right
                counts.stack[n_stack] = other
                n_stack += 1


class MinimumUpdates(NamedTuple):
    """Messages that change the minima of gateways, with their receivers."""

    #: int32 (messages,): position of the event, ascending
    event: Ints
    #: int64 (messages,): where its receivers end in `receiver`
    end: Longs
    #: int32: slots of subscriptions
    receiver: Ints
    #: float64 (messages,): the row that is their new minimum; NaN if they have none
    x: Floats
    y: Floats


@kernel
def spread_all_cut_off(
    tree: ZoneTree,
    gates: GatewayState,
    events: tuple[Floats, Floats, Bools],
    updates: MinimumUpdates,
    distance: Ints,
    counts: TrafficCounts,
    cut: Floats,
) -> None:
    """CN+ for each event, given as x, y and whether y decreased; then apply its updates to the gateways."""
    x, y, is_lowered = events
    message = 0
    begin = 0
    for event in range(len(x)):
        if is_lowered[event]:
            spread_cut_off(tree, gates, x[event], y[event], distance, event, counts, cut)
            counts.sent[:] = 0
        while message < len(updates.event) and updates.event[message] == event:
            for place in range(begin, updates.end[message]):
                slot = updates.receiver[place]
                gates.least_x[slot] = updates.x[message]
                gates.least_y[slot] = updates.y[message]
            begin = updates.end[message]
            message += 1
