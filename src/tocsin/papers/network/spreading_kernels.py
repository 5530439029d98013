"""Messages through zones, link by link: who hands each on to whom, and what that sums up to by event."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.shared.jit import kernel
from tocsin.network.zones_kernels import Tree, find_zone, list_meeting, step_inwards, step_towards

#: `start` of a message that enters where its inner corner is.
AT_ENTRY = -1


class Spreading(NamedTuple):
    """Messages by event, where each starts, and how far their events look along the diagonal first."""

    #: float64 (messages, dimensions)
    low: Floats
    #: float64 (messages, dimensions)
    high: Floats
    #: int32 (messages,): position of the event, ascending
    event: Ints
    #: int32 (messages,): the zone that sends it; AT_ENTRY
    start: Ints
    #: int32 (events,): places in `diagonal`: of the event's own zone, and the first and last that it asks
    walk_own: Ints
    walk_first: Ints
    walk_last: Ints
    #: int32: zones along the diagonal, in order
    diagonal: Ints
    #: int32 (zones, zones): links between the brokers of two zones
    distance: Ints


class Tally(NamedTuple):
    """Scratch, and sums by event."""

    #: int32 (nodes,)
    stack: Ints
    #: int32 (zones,): zones that a message meets
    found: Ints
    #: int32 (zones,): messages that each broker has sent in this event; all 0 between events
    sent: Ints
    #: int64 (events,): overlay hops
    out_hops: Longs
    #: int64 (events,): links of the graph under these
    out_links: Longs
    #: int64 (events,): messages of the broker that sends the most
    out_stress: Longs


@kernel
def send_one(tally: Tally, distance: Ints, event: int, sender: int, receiver: int) -> None:
    """One message from broker to broker."""
    tally.sent[sender] += 1
    tally.out_hops[event] += 1
    tally.out_links[event] += distance[sender, receiver]
    if tally.sent[sender] > tally.out_stress[event]:
        tally.out_stress[event] = tally.sent[sender]


@kernel
def walk_diagonal(given: Spreading, tally: Tally, event: int) -> None:
    """Ask the zones along the diagonal, outwards on both sides; the last of each side answers at once."""
    own = given.walk_own[event]
    for place in range(own, given.walk_last[event]):
        send_one(tally, given.distance, event, given.diagonal[place], given.diagonal[place + 1])
    for place in range(own, given.walk_first[event], -1):
        send_one(tally, given.distance, event, given.diagonal[place], given.diagonal[place - 1])
    for end in (given.walk_first[event], given.walk_last[event]):
        if end != own:
            send_one(tally, given.distance, event, given.diagonal[end], given.diagonal[own])


@kernel
def spread_messages(tree: Tree, given: Spreading, tally: Tally) -> None:
    """Carry every message to where it enters and on to all zones that it meets."""
    point = np.empty(given.low.shape[1])
    target = np.empty(given.low.shape[1])
    half = given.low.shape[1] // 2
    message = 0
    for event in range(len(given.walk_own)):
        walk_diagonal(given, tally, event)
        while message < len(given.event) and given.event[message] == event:
            low = given.low[message]
            high = given.high[message]
            zone = given.start[message]
            if zone >= 0:
                for dim in range(len(low)):
                    target[dim] = high[dim] if dim < half else low[dim]
                while step_towards(tree, zone, target, point):
                    next_zone = find_zone(tree, point)
                    send_one(tally, given.distance, event, zone, next_zone)
                    zone = next_zone
            n_found = list_meeting(tree, low, high, tally.stack, tally.found)
            for place in range(n_found):
                zone = tally.found[place]
                if step_inwards(tree, zone, low, high, point):
                    send_one(tally, given.distance, event, find_zone(tree, point), zone)
            message += 1
        tally.sent[:] = 0


class Gateways(NamedTuple):
    """What the owners of zones keep of their subscriptions for CN+: which row is each one's minimum."""

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
    #: float64 (subscriptions,): where that row is
    least_x: Floats
    #: int32 (zones + 1,), int32: neighbours of each zone
    near_start: Ints
    near: Ints


@kernel
def spread_cut_off(
    tree: Tree, gates: Gateways, x: float, y: float, distance: Ints, event: int, tally: Tally, cut: Floats
) -> None:
    """CN+: tell of a row at x whose y has come down; subscriptions that it does not affect cut the area.

    A zone hands its own cut-off points on to the zones after it. `cut` has two numbers a zone.
    """
    low = np.array([-np.inf, x])
    high = np.array([x, np.inf])
    point = np.empty(2)
    point[:] = x
    first = find_zone(tree, point)
    cut[first, 0] = -np.inf
    cut[first, 1] = np.inf
    tally.stack[0] = first
    n_stack = 1
    while n_stack:
        n_stack -= 1
        zone = tally.stack[n_stack]
        left = cut[zone, 0]
        right = cut[zone, 1]
        for place in range(gates.zone_start[zone], gates.zone_start[zone + 1]):
            slot = gates.member[place]
            is_inside = left < gates.lo[slot] <= x <= gates.hi[slot] < right
            # One that holds the same y may yet prefer the row that is told, as the older one.
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
                send_one(tally, distance, event, zone, other)
                cut[other, 0] = left
                cut[other, 1] = right
                tally.stack[n_stack] = other
                n_stack += 1


class Updates(NamedTuple):
    """Messages that change what gateways keep, with their receivers."""

    #: int32 (messages,): position of the event, ascending
    event: Ints
    #: int64 (messages,): where its receivers end in `receiver`
    end: Longs
    #: int32: slots of subscriptions
    receiver: Ints
    #: float64 (messages,): the row that is their minimum now; NaN if they have none
    x: Floats
    y: Floats


@kernel
def spread_all_cut_off(
    tree: Tree,
    gates: Gateways,
    events: tuple[Floats, Floats, Bools],
    updates: Updates,
    distance: Ints,
    tally: Tally,
    cut: Floats,
) -> None:
    """CN+ for each event, given as x, y and whether it is told; then what it changes is kept."""
    x, y, is_told = events
    message = 0
    begin = 0
    for event in range(len(x)):
        if is_told[event]:
            spread_cut_off(tree, gates, x[event], y[event], distance, event, tally, cut)
            tally.sent[:] = 0
        while message < len(updates.event) and updates.event[message] == event:
            for place in range(begin, updates.end[message]):
                slot = updates.receiver[place]
                gates.least_x[slot] = updates.x[message]
                gates.least_y[slot] = updates.y[message]
            begin = updates.end[message]
            message += 1
