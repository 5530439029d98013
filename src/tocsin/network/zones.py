"""The map of a content-addressable network: subscription space cut into zones of similar numbers."""

from __future__ import annotations

import heapq
import json
from typing import Any

import numpy as np

from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.errors import StateError
from tocsin.network.areas import Areas
from tocsin.network.zones_kernels import LEAF, ZoneTree, find_zones, list_all_intersecting

#: Format of a serialised map.
FORMAT = "tocsin zones 1"


class Zones:
    """Boxes that partition subscription space, numbered from 0. A map is immutable.

    `split` returns the next version: a zone that is split keeps its number for the lower part. A space of d
    dimensions has 2 d here; one without a range has none, and one zone.
    """

    def __init__(self, tree: ZoneTree, version: int) -> None:
        self.tree = tree
        self.version = version
        self._stack: Ints = np.empty(len(tree.node_dim), np.int32)

    @classmethod
    def whole(cls, dimensions: int) -> Zones:
        """One zone for all ranges of a space with `dimensions`: version 0."""
        one = np.zeros(1, np.int32)
        box = np.full((1, 2 * dimensions), np.inf)
        return cls(ZoneTree(np.full(1, LEAF, np.int32), np.zeros(1), one, one.copy(), -box, box), 0)

    @classmethod
    def build(cls, points: Floats, count: int) -> Zones:
        """Up to `count` zones with about equally many of the points, which are those of `points_of`."""
        return cls.whole(points.shape[1] // 2).split(points, count)

    def __len__(self) -> int:
        return len(self.tree.zone_low)

    @property
    def dimensions(self) -> int:
        """The dimensions of the ranges; zones have twice as many."""
        return int(self.tree.zone_low.shape[1]) // 2

    def split(self, points: Floats, count: int) -> Zones:
        """The next version: cuts the zone with the most points in two until there are `count` zones.

        Stops earlier when all points of every zone are equal. Cost: points × log of zones.
        """
        growing = _TreeBuilder(self)
        owned = self.find(points)
        order = np.argsort(owned, kind="stable").astype(np.int32)
        ends = np.searchsorted(owned[order], np.arange(len(self) + 1))
        queue = [(-(ends[zone + 1] - ends[zone]), zone, order[ends[zone] : ends[zone + 1]])
                  for zone in range(len(self))]  # fmt: skip
        heapq.heapify(queue)
        while queue and len(growing) < count:
            _, zone, members = heapq.heappop(queue)
            cut = _cut(points, members, growing.next_dim[zone])
            if cut is None:
                continue
            dim, value = cut
            is_left = points[members, dim] < value
            parts = {zone: members[is_left], growing.cut(zone, dim, value): members[~is_left]}
            for part, members_of_part in parts.items():
                heapq.heappush(queue, (-len(members_of_part), part, members_of_part))
        return Zones(growing.tree(), self.version + 1)

    def find(self, points: Floats) -> Ints:
        """The zone of each point. Cost: the depth of the tree each."""
        found = np.empty(len(points), np.int32)
        find_zones(self.tree, np.ascontiguousarray(points), found)
        return found

    def intersecting(self, areas: Areas) -> tuple[Ints, Longs]:
        """The zones that each area intersects, concatenated, and the end of each area's zones.

        Cost: the zones found, and the nodes above them.
        """
        intersected, ends = np.empty(len(self) + len(areas.low), np.int32), np.empty(len(areas.low), np.int64)
        n_done = 0
        while (
            n_done := list_all_intersecting(self.tree, *areas, n_done, self._stack, intersected, ends)
        ) < len(ends):
            intersected = np.concatenate((intersected, np.empty_like(intersected)))
        return intersected[: ends[-1] if len(ends) else 0], ends

    def refines(self, other: Zones) -> bool:
        """Whether each zone lies within one zone of another map. Cost: a search a zone."""
        if self.dimensions != other.dimensions:
            return False
        return np.array_equal(other.find(self.tree.zone_low), other.find(self.tree.zone_high))

    def neighbours(self) -> list[Ints]:
        """For each zone, the zones that share a face with it. Cost: quadratic in the zones."""
        low, high = self.tree.zone_low, self.tree.zone_high
        with np.errstate(over="ignore", under="ignore"):
            after = np.nextafter(high, np.inf)
        lists = []
        for zone in range(len(self)):
            overlaps = (low <= high[zone]) & (high >= low[zone])
            touches = (low == after[zone]) | (after == low[zone])
            is_near = (overlaps | touches).all(axis=1) & ((~overlaps).sum(axis=1) == 1)
            lists.append(np.flatnonzero(is_near).astype(np.int32))
        return lists

    def to_json(self) -> str:
        """Serialise the map. Bounds are written so that they are read back to the bit."""
        nodes = [
            column.tolist() for column in (self.tree.node_dim, self.tree.node_left, self.tree.node_right)
        ]
        return json.dumps(
            {
                "format": FORMAT,
                "version": self.version,
                "dimensions": self.dimensions,
                "nodes": nodes,
                "cuts": [value.hex() for value in self.tree.node_cut.tolist()],
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Zones:
        """Deserialise a map. Raises StateError."""
        try:
            fields: dict[str, Any] = json.loads(text)
            if fields["format"] != FORMAT:
                raise ValueError(fields["format"])
            dims, left, right = (np.array(column, np.int32) for column in fields["nodes"])
            cuts = np.array([float.fromhex(value) for value in fields["cuts"]])
            tree = _with_boxes(dims, cuts, left, right, int(fields["dimensions"]))
            return cls(tree, int(fields["version"]))
        except (KeyError, IndexError, TypeError, ValueError) as failure:
            raise StateError(f"this is not a map of zones: {failure}") from None

    def check_invariants(self) -> None:
        """Assert that boxes follow from cuts, and that leaves are the zones. For tests."""
        tree = self.tree
        leaves = tree.node_left[tree.node_dim == LEAF]
        assert sorted(leaves.tolist()) == list(range(len(self)))
        boxes = _with_boxes(tree.node_dim, tree.node_cut, tree.node_left, tree.node_right, self.dimensions)
        assert np.array_equal(boxes.zone_low, tree.zone_low)
        assert np.array_equal(boxes.zone_high, tree.zone_high)
        assert (tree.zone_low <= tree.zone_high).all()


class _TreeBuilder:
    """A tree under construction: lists, because it grows by one node at a time."""

    def __init__(self, zones: Zones) -> None:
        tree = zones.tree
        self._dimensions = zones.dimensions
        self._dim, self._cut = tree.node_dim.tolist(), tree.node_cut.tolist()
        self._left, self._right = tree.node_left.tolist(), tree.node_right.tolist()
        leaves = sorted((zone, node) for node, zone in enumerate(self._left) if self._dim[node] == LEAF)
        self._node = [node for _, node in leaves]
        #: the dimension in which each zone is cut next; dimensions take turns
        self.next_dim = [0] * len(self._node)

    def __len__(self) -> int:
        return len(self._node)

    def cut(self, zone: int, dim: int, value: float) -> int:
        """Cut a zone in two; returns the number of its upper part."""
        node, new, first = self._node[zone], len(self), len(self._dim)
        self._dim[node], self._cut[node] = dim, value
        self._left[node], self._right[node] = first, first + 1
        for part in (zone, new):
            self._dim.append(LEAF)
            self._cut.append(0.0)
            self._left.append(part)
            self._right.append(0)
        self._node[zone] = first
        self._node.append(first + 1)
        self.next_dim[zone] = dim + 1
        self.next_dim.append(dim + 1)
        return new

    def tree(self) -> ZoneTree:
        ints = (np.array(column, np.int32) for column in (self._dim, self._left, self._right))
        dims, left, right = ints
        return _with_boxes(dims, np.array(self._cut), left, right, self._dimensions)


def _cut(points: Floats, members: Ints, first_dim: int) -> tuple[int, float] | None:
    """The dimension and value of a cut with about half the members on each side; None if all are equal."""
    n_dims = points.shape[1]
    for turn in range(n_dims if len(members) > 1 else 0):
        dim = (first_dim + turn) % n_dims
        values = points[members, dim]
        middle = np.partition(values, len(values) // 2)[len(values) // 2]
        if (values < middle).any():
            return dim, float(middle)
        above = values[values > middle]
        if len(above):
            return dim, float(above.min())
    return None


def _with_boxes(dims: Ints, cuts: Floats, left: Ints, right: Ints, dimensions: int) -> ZoneTree:
    """The tree with the box of each zone."""
    n_zones = int((dims == LEAF).sum())
    low, high = np.empty((n_zones, 2 * dimensions)), np.empty((n_zones, 2 * dimensions))
    everything = np.full(2 * dimensions, np.inf)
    stack = [(0, -everything, everything)]
    while stack:
        node, below, above = stack.pop()
        if dims[node] == LEAF:
            low[left[node]], high[left[node]] = below, above
            continue
        dim, lower, upper = dims[node], above.copy(), below.copy()
        with np.errstate(over="ignore", under="ignore"):
            lower[dim] = np.nextafter(cuts[node], -np.inf)
        upper[dim] = cuts[node]
        stack += [(int(left[node]), below, lower), (int(right[node]), upper, above)]
    return ZoneTree(dims, cuts, left, right, low + 0.0, high + 0.0)
