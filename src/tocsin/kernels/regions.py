"""Kernels of regions: disks and half-planes over two columns, each given by three numbers.

A disk is `sqrt((x - a)² + (z - b)²) <= c`, a half-plane `a x + b z <= c`, in doubles and in this order: this
arithmetic alone defines whether a row is in a region. NaN, such as infinity minus infinity, is in no region.

As in the paper, a region is a point (a, b, c), and the regions that hold a row are a region of such points.
A tree over them compares intervals. Rounding is monotone in every operation above, so that the same
operations on the ends of the intervals bound all values in between, without slack.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Bools, Floats

#: Kinds of regions.
NO_REGION = 0
DISK = 1
HALF_PLANE = 2
KINDS = {None: NO_REGION, "disk": DISK, "half-plane": HALF_PLANE}

#: Boxes with a region store its a, b, c as bounds of three dimensions, lower and upper alike, after the
#: first dimension. A row stores x, z and nothing there.
REGION_ROWS = 3

#: How all rows relate to a box, one row to all boxes, or all to all.
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
    """Clear `inside` where the region does not hold the point: `is_in_region`, vectorised."""
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
    """How the points of a rectangle relate to the regions of a box of (a, b, c): APART, CUT or WITHIN."""
    size = abs(a_least) + abs(a_most) + abs(b_least) + abs(b_most) + abs(c_least) + abs(c_most)
    size += abs(x_least) + abs(x_most) + abs(z_least) + abs(z_most)
    if not size < np.inf:
        # With infinities not every value lies between those of the ends: some are NaN.
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
