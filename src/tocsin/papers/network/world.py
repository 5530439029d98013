"""The common ground of all approaches: brokers in a graph, zones, and the subscriptions at their gateways."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tocsin.arrays.types import Floats, Ints
from tocsin.indexes.ranges.structures.points import Points
from tocsin.network.areas import points_of
from tocsin.network.zones import Zones
from tocsin.papers.network.multicast import build_hierarchy
from tocsin.papers.network.multicast_kernels import Hierarchy

#: Subscriptions sampled for cutting zones; more barely change the cuts.
DRAWN = 200_000


class World:
    """Subscriptions `[lo, hi]` and the brokers that own their zones; zone z is owned by broker z.

    `distance` has the number of links between each two brokers. The server is the broker of the zone at the
    center of subscription space.
    """

    def __init__(self, distance: Ints, lo: Floats, hi: Floats, center: float, *, seed: int = 0) -> None:
        points = points_of(lo, hi)
        self.lo, self.hi = np.ascontiguousarray(points[:, 0]), np.ascontiguousarray(points[:, 1])
        drawn = np.random.default_rng(seed).permutation(len(points))[:DRAWN]
        self.zones = Zones.build(points[drawn], len(distance))
        #: int32 (subscriptions,): the zone, and so the gateway, of each
        self.zone = self.zones.find(points)
        self.server = int(self.zones.find(np.full((1, 2), center))[0])
        count = len(self.zones)
        self.distance = np.ascontiguousarray(distance[:count, :count])
        self._seed = seed

    @cached_property
    def points(self) -> Points:
        """The subscriptions, indexed for queries by rectangle."""
        made = Points()
        made.insert(np.arange(len(self.lo), dtype=np.int32), self.lo, self.hi)
        return made

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The brokers as a hierarchy for S-MN."""
        return build_hierarchy(self.distance, self.server, self._seed)

    @cached_property
    def diagonal(self) -> Ints:
        """int32: the zones that contain ranges of length 0, from left to right."""
        return self._diagonal[1]

    def diagonal_place(self, x: Floats) -> Ints:
        """Positions in `diagonal` of the zones that own (x, x). Cost: a search each."""
        return (np.searchsorted(self._diagonal[0], x, side="right") - 1).astype(np.int32)

    @cached_property
    def _diagonal(self) -> tuple[Floats, Ints]:
        low, high = self.zones.tree.zone_low.max(axis=1), self.zones.tree.zone_high.min(axis=1)
        zones = np.flatnonzero(low <= high)
        zones = zones[np.argsort(low[zones])]
        return low[zones], zones.astype(np.int32)
