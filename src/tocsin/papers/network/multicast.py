"""S-MN's network: brokers are embedded in coordinates and clustered recursively into a hierarchy."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.types import Floats, Ints
from tocsin.papers.network.multicast_kernels import Hierarchy, MulticastSums

#: Children of a broker: the paper's c.
FAN_OUT = 10
#: Dimensions of the coordinates.
COORDINATES = 5
#: Rounds of k-means.
ROUNDS = 20


def build_hierarchy(distance: Ints, server: int, seed: int, fan_out: int = FAN_OUT) -> Hierarchy:
    """A tree over all brokers, rooted at the server: k-means clusters, each under its central broker."""
    random = np.random.default_rng(seed)
    places = coordinates(distance)
    parent = np.full(len(distance), -1, np.int32)
    upwards: list[int] = []
    all_brokers = np.arange(len(distance), dtype=np.int32)
    waiting = [(server, all_brokers[all_brokers != server])]
    while waiting:
        head, members = waiting.pop()
        upwards.append(head)
        for cluster in _clusters(places, members, fan_out, random):
            middle = places[cluster].mean(axis=0)
            child = int(cluster[np.argmin(((places[cluster] - middle) ** 2).sum(axis=1))])
            parent[child] = head
            waiting.append((child, cluster[cluster != child]))
    order = np.argsort(parent, kind="stable")
    order = order[parent[order] >= 0]
    start = np.searchsorted(parent[order], np.arange(len(distance) + 1))
    return Hierarchy(
        parent,
        start.astype(np.int32),
        order.astype(np.int32),
        np.array(upwards[::-1], np.int32),
        distance,
    )


def new_multicast_sums(brokers: int, events: int, fan_out: int = FAN_OUT) -> MulticastSums:
    """Scratch arrays, and zeroed sums of `events`."""
    capacity = fan_out + 1
    scratch = [np.empty(capacity, np.int32) for _ in range(3)]
    totals = [np.zeros(events, np.int64) for _ in range(5)]
    below, load, sent = np.zeros(brokers, np.int64), np.empty(capacity, np.int64), np.zeros(brokers, np.int32)
    return MulticastSums(below, scratch[0], scratch[1], scratch[2], load, sent, *totals)


def coordinates(distance: Ints) -> Floats:
    """Points with approximately these distances: classical scaling. Cost: cubic in the brokers."""
    squares = distance.astype(np.float64) ** 2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-0.5 * centred)
    kept = np.argsort(values)[::-1][:COORDINATES]
    # The last digits differ from machine to machine, and with them the clusters of brokers in the middle.
    return np.asarray((vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))).round(6))


def _clusters(places: Floats, members: Ints, count: int, random: np.random.Generator) -> list[Ints]:
    """Members clustered by k-means; each alone if there are no more than `count`."""
    if len(members) <= count:
        return [members[at : at + 1] for at in range(len(members))]
    mine = places[members]
    centres = mine[random.permutation(len(members))[:count]]
    for _ in range(ROUNDS):
        nearest = ((mine[:, None, :] - centres) ** 2).sum(axis=2).argmin(axis=1)
        for number in np.unique(nearest):
            centres[number] = mine[nearest == number].mean(axis=0)
    if (nearest == nearest[0]).all():
        # All at one point: any partition will do.
        nearest = np.arange(len(members)) % count
    return [members[nearest == number] for number in np.unique(nearest)]
