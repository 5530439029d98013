"""Kernels of regions: disks and half-planes over two columns, each given by three numbers.

A disk is `sqrt((x - a)² + (z - b)²) <= c`, a half-plane `a x + b z <= c`, in doubles and in this order: a row
is in a region if this arithmetic says so, here and nowhere else. What has no value, such as infinity minus
infinity, is in no region.

As the paper maps it, a region is a point (a, b, c), and those that hold a row are a region of such points. A
tree over them asks about intervals. Every operation above rounds a larger result to no smaller a double, so
that the ends of the intervals, put through the same operations, bound all values in between: nothing is lost
to rounding, and no slack is needed.

This is a leaf file.
"""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Bools, Floats
from tocsin.indexes.shared.jit import lean_kernel

#: Kinds of regions.
NO_REGION = 0
DISK = 1
HALF_PLANE = 2
KINDS = {None: NO_REGION, "disk": DISK, "half-plane": HALF_PLANE}

#: Where boxes have a region, its a, b, c are bounds of three dimensions, lower and upper alike, after the
#: first dimension. Of a row these are x, z, and nothing.
REGION_ROWS = 3

#: How all rows stand to a box, or one row to all boxes, or all to all.
APART = 0
CUT = 1
WITHIN = 2


@lean_kernel
def is_in_region(region: int, a: float, b: float, c: float, x: float, z: float) -> bool:
    """Whether the region holds the point (x, z)."""
    if region == DISK:
        across = x - a
        along = z - b
        return bool(np.sqrt(across * across + along * along) <= c)
    return bool(a * x + b * z <= c)


@lean_kernel
def mark_regions(region: int, a: Floats, b: Floats, c: Floats, x: float, z: float, inside: Bools) -> None:
    """Clear `inside` where the region does not hold the point: `is_in_region` as vector code."""
    if region == DISK:
        for i in range(len(inside)):
            across = x - a[i]
            along = z - b[i]
            inside[i] = inside[i] & (np.sqrt(across * across + along * along) <= c[i])
    else:
        for i in range(len(inside)):
            inside[i] = inside[i] & (a[i] * x + b[i] * z <= c[i])


@lean_kernel
def compare_region(
    region: int,
    a_least: float,
    a_most: float,
    b_least: float,
    b_most: float,
    c_least: float,
    c_most: float,
    x_least: float,
    x_most: float,
    z_least: float,
    z_most: float,
) -> int:
    """How the points of a rectangle stand to the regions of a box of (a, b, c): APART, CUT or WITHIN."""
    size = abs(a_least) + abs(a_most) + abs(b_least) + abs(b_most) + abs(c_least) + abs(c_most)
    size += abs(x_least) + abs(x_most) + abs(z_least) + abs(z_most)
    if not size < np.inf:
        # With infinities not every value is between those of the ends: some are none at all.
        return CUT
    if region == DISK:
        across = max(x_least - a_most, a_least - x_most, 0.0)
        along = max(z_least - b_most, b_least - z_most, 0.0)
        least = np.sqrt(across * across + along * along)
        across = max(x_most - a_least, a_most - x_least)
        along = max(z_most - b_least, b_most - z_least)
        most = np.sqrt(across * across + along * along)
    else:
        one = a_least * x_least
        two = a_least * x_most
        three = a_most * x_least
        four = a_most * x_most
        least = min(one, two, three, four)
        most = max(one, two, three, four)
        one = b_least * z_least
        two = b_least * z_most
        three = b_most * z_least
        four = b_most * z_most
        least += min(one, two, three, four)
        most += max(one, two, three, four)
    if least > c_most:
        return APART
    return WITHIN if most <= c_least else CUT
