"""Zones as a tree of cuts: the owner of a point, the zones that intersect a box, and the next zone on a path.

All boxes are closed. A cut at c separates values up to the double before c from those at or above c. The
first half of the dimensions are lower bounds of subscriptions, the second half upper bounds: a message enters
where lower bounds are greatest and upper bounds least, its *inner corner*, and spreads from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Floats, Ints, Longs

#: `node_dim` of a leaf.
LEAF = -1


class ZoneTree(NamedTuple):
    """Cuts by node, the root first; boxes by zone. The boxes partition space."""

    #: int32 (nodes,): the dimension that is cut; LEAF
    node_dim: Ints
    #: float64 (nodes,): the least value of the right side
    node_cut: Floats
    #: int32 (nodes,): the node of the left side; of a leaf, its zone
    node_left: Ints
    #: int32 (nodes,): the node of the right side
    node_right: Ints
    #: float64 (zones, dimensions)
    zone_low: Floats
    #: float64 (zones, dimensions)
    zone_high: Floats


@kernel
def find_zone(tree: ZoneTree, point: Floats) -> int:
    """The zone that owns a point."""
    node = 0
    while tree.node_dim[node] >= 0:
        is_left = point[tree.node_dim[node]] < tree.node_cut[node]
        node = tree.node_left[node] if is_left else tree.node_right[node]
    return int(tree.node_left[node])


@kernel
def find_zones(tree: ZoneTree, points: Floats, out_zone: Ints) -> None:
    """The zone of each point."""
    for row in range(len(points)):
        out_zone[row] = find_zone(tree, points[row])


@kernel
def intersects(tree: ZoneTree, zone: int, low: Floats, high: Floats) -> bool:
    """Whether a zone and a non-empty box have a point in common."""
    for dim in range(len(low)):
        if high[dim] < tree.zone_low[zone, dim] or low[dim] > tree.zone_high[zone, dim]:
            return False
    return True


@kernel
def list_intersecting(tree: ZoneTree, low: Floats, high: Floats, stack: Ints, out_zone: Ints) -> int:
    """Write the zones that intersect a box; returns their number. `stack` has capacity for all nodes."""
    for dim in range(len(low)):
        if not low[dim] <= high[dim]:
            return 0
    n_out = 0
    n_stack = 1
    stack[0] = 0
    while n_stack:
        n_stack -= 1
        node = stack[n_stack]
        dim = tree.node_dim[node]
        if dim < 0:
            out_zone[n_out] = tree.node_left[node]
            n_out += 1
            continue
        if low[dim] < tree.node_cut[node]:
            stack[n_stack] = tree.node_left[node]
            n_stack += 1
        if high[dim] >= tree.node_cut[node]:
            stack[n_stack] = tree.node_right[node]
            n_stack += 1
    return n_out


@kernel
def list_all_intersecting(
    tree: ZoneTree, low: Floats, high: Floats, first: int, stack: Ints, out_zone: Ints, out_end: Longs
) -> int:
    """Write the zones that intersect each box from `first` on; returns the first box that did not fit."""
    n_out = 0 if first == 0 else out_end[first - 1]
    for box in range(first, len(low)):
        if n_out + len(tree.zone_low) > len(out_zone):
            return box
        n_out += list_intersecting(tree, low[box], high[box], stack, out_zone[n_out:])
        out_end[box] = n_out
    return len(low)


@kernel
def step_inwards(tree: ZoneTree, zone: int, low: Floats, high: Floats, out_point: Floats) -> bool:
    """A point of the zone that forwards the message of a box to this one; False if it enters here.

    The point is one step inwards from the inner corner of the zone's part of the box, in the first dimension
    that allows it. The chain of such steps ends at the box's inner corner, so each zone has exactly one
    predecessor.
    """
    half = len(low) // 2
    for dim in range(len(low)):
        if dim < half:
            out_point[dim] = min(high[dim], tree.zone_high[zone, dim])
        else:
            out_point[dim] = max(low[dim], tree.zone_low[zone, dim])
    for dim in range(len(low)):
        if dim < half:
            if out_point[dim] < high[dim]:
                out_point[dim] = np.nextafter(out_point[dim], np.inf)
                return True
        elif out_point[dim] > low[dim]:
            out_point[dim] = np.nextafter(out_point[dim], -np.inf)
            return True
    return False


@kernel
def step_towards(tree: ZoneTree, zone: int, target: Floats, out_point: Floats) -> bool:
    """A point of the next zone on the path from a zone to a point; False if the zone contains the point.

    The point is one step from the zone's point nearest to the target, in the first dimension that differs:
    every step brings one dimension nearer and none further, so the path ends.
    """
    for dim in range(len(target)):
        out_point[dim] = min(max(target[dim], tree.zone_low[zone, dim]), tree.zone_high[zone, dim])
    for dim in range(len(target)):
        if out_point[dim] < target[dim]:
            out_point[dim] = np.nextafter(out_point[dim], np.inf)
            return True
        if out_point[dim] > target[dim]:
            out_point[dim] = np.nextafter(out_point[dim], -np.inf)
            return True
    return False
