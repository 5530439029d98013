"""Sends one message to listed subscriptions through a hierarchy of brokers."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Ints, Longs

#: Maximum members of a group that one member forwards a message to.
MAX_CHILDREN = 2


class Hierarchy(NamedTuple):
    """A tree of brokers with the server at its root. A broker and its children form a group."""

    #: int32 (brokers,): -1 of the root
    parent: Ints
    #: int32 (brokers + 1,), int32: children
    child_start: Ints
    child: Ints
    #: int32 (brokers,): brokers, each after its children
    upwards: Ints
    #: int32 (brokers, brokers)
    distance: Ints


class MulticastSums(NamedTuple):
    """Scratch arrays, and sums by event."""

    #: int64 (brokers,): receivers at a broker and below it; all 0 between messages
    below: Longs
    #: int32 (fan-out + 1,): a group's members, the place of each one's sender, and how many it sends to
    member: Ints
    sender_place: Ints
    n_children: Ints
    #: int64 (fan-out + 1,): subscriptions listed in the message to a member
    load: Longs
    #: int32 (brokers,): messages sent in this event
    sent: Ints
    out_hops: Longs
    out_links: Longs
    #: int64 (events,): listed subscriptions, summed over hops, and over links
    out_listed: Longs
    out_listed_links: Longs
    out_stress: Longs


@kernel
def join_group(tree: Hierarchy, sums: MulticastSums, n_members: int) -> None:
    """Build a tree over a group: the member nearest to the tree joins next. Sorts members by joining.

    Member 0 is the parent broker. No member forwards to more than MAX_CHILDREN.
    """
    sums.n_children[:n_members] = 0
    for n_joined in range(1, n_members):
        best = -1
        best_sender = -1
        for outside in range(n_joined, n_members):
            for inside in range(n_joined):
                if sums.n_children[inside] >= MAX_CHILDREN:
                    continue
                hops = tree.distance[sums.member[inside], sums.member[outside]]
                if best < 0 or hops < tree.distance[sums.member[best_sender], sums.member[best]]:
                    best = outside
                    best_sender = inside
        sums.member[n_joined], sums.member[best] = sums.member[best], sums.member[n_joined]
        sums.sender_place[n_joined] = best_sender
        sums.n_children[best_sender] += 1


@kernel
def send_group(tree: Hierarchy, sums: MulticastSums, broker: int, event: int) -> None:
    """Send from a broker to those of its children that have receivers."""
    sums.member[0] = broker
    n_members = 1
    for place in range(tree.child_start[broker], tree.child_start[broker + 1]):
        if sums.below[tree.child[place]]:
            sums.member[n_members] = tree.child[place]
            n_members += 1
    join_group(tree, sums, n_members)
    for place in range(n_members):
        sums.load[place] = sums.below[sums.member[place]]
    for place in range(n_members - 1, 0, -1):
        sender_place = sums.sender_place[place]
        if sender_place:
            sums.load[sender_place] += sums.load[place]
        sender = sums.member[sender_place]
        links = tree.distance[sender, sums.member[place]]
        sums.out_hops[event] += 1
        sums.out_links[event] += links
        sums.out_listed[event] += sums.load[place]
        sums.out_listed_links[event] += sums.load[place] * links
        sums.sent[sender] += 1
        sums.out_stress[event] = max(sums.out_stress[event], sums.sent[sender])


@kernel
def send_multicasts(
    tree: Hierarchy, broker: Ints, message_end: Longs, message_event: Ints, sums: MulticastSums
) -> None:
    """Send each message to the brokers of its receivers, one entry per receiver, up to `message_end`."""
    begin = 0
    last_event = -1
    for message in range(len(message_end)):
        event = message_event[message]
        if event != last_event:
            sums.sent[:] = 0
            last_event = event
        for place in range(begin, message_end[message]):
            sums.below[broker[place]] += 1
        if message_end[message] > begin:
            for place in range(len(tree.upwards)):
                one = tree.upwards[place]
                if sums.below[one] and tree.parent[one] >= 0:
                    sums.below[tree.parent[one]] += sums.below[one]
            for place in range(len(tree.upwards)):
                one = tree.upwards[place]
                if sums.below[one] and tree.child_start[one] < tree.child_start[one + 1]:
                    send_group(tree, sums, one, event)
            sums.below[:] = 0
        begin = message_end[message]
