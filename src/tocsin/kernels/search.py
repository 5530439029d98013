"""Binary searches in ascending columns, inlined into the kernels that call them."""

from __future__ import annotations

from tocsin.arrays.jit import inlined
from tocsin.arrays.types import Floats, Ints, Longs

#: Stretches up to this long are counted in vector code instead of halved.
COUNTED = 16


@inlined
def lower_bound(value: Floats | Longs, first: int, end: int, x: float) -> int:
    """The first place from `first` on whose value is at least `x`, `end` if there is none. Logarithmic."""
    while first < end:
        middle = (first + end) >> 1
        if value[middle] < x:
            first = middle + 1
        else:
            end = middle
    return first


@inlined
def count_at_most(value: Floats, count: int, x: float) -> int:
    """How many of the first `count` values are not above `x`. Logarithmic."""
    # Branch-free halving, as the half cannot be predicted.
    base = 0
    size = count
    while size > 1:
        half = size >> 1
        base += half if value[base + half - 1] <= x else 0
        size -= half
    if size == 1:
        base += 1 if value[base] <= x else 0
    return base


@inlined
def find_cut(value: Floats, tie: Ints | Floats, first: int, end: int, x: float, x_tie: float) -> int:
    """The last place in [first, end) whose (value, tie) is not above (x, x_tie); `first` if none is.

    Logarithmic.
    """
    left = first + 1
    right = end
    while left < right:
        middle = (left + right) >> 1
        if value[middle] < x or (value[middle] == x and tie[middle] <= x_tie):
            left = middle + 1
        else:
            right = middle
    return left - 1


@inlined
def find_least(value: Floats, first: int, end: int, x: float) -> int:
    """The last place whose value is below `x`: no value of at least `x` comes before it. Logarithmic."""
    # Branch-free halving, as the half cannot be predicted; a short rest is counted.
    base, size = first, end - first
    while size > COUNTED:
        half = size >> 1
        base += half if value[base + half] < x else 0
        size -= half
    part, n_below = value[base + 1 : base + size], 0
    for i in range(len(part)):
        n_below += part[i] < x
    return base + n_below


@inlined
def find_most(value: Floats, first: int, end: int, x: float) -> int:
    """The last place whose value is not above `x`: no value of at most `x` comes after it. Logarithmic."""
    # As above.
    base, size = first, end - first
    while size > COUNTED:
        half = size >> 1
        base += half if value[base + half] <= x else 0
        size -= half
    part, n_below = value[base + 1 : base + size], 0
    for i in range(len(part)):
        n_below += part[i] <= x
    return base + n_below
