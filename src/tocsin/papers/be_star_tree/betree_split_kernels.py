"""Kernels that cut a bucket of a BE*-Tree in three: left, overlapping and right.

All take the ranges of its items in the active dimension, and return a side for each.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Floats, Ints
from tocsin.papers.be_star_tree.betree_layout_kernels import length_of

#: Sides. Ranges that span the cut stay in the bucket.
OVERLAP = 0
LEFT = 1
RIGHT = 2


@kernel
def choose_cut(low: Floats, high: Floats, least: Whole) -> tuple[float, float, float]:
    """The best cut after the first few ranges by upper end: overlap, coverage, and the last end on the left.

    Overlap is NaN if no cut leaves `least` ranges on either side. Cost: n log n.
    """
    count = low.shape[0]
    by_high, by_low = np.argsort(high), np.argsort(low)
    # Least lower end of the ranges from here on, by upper end; greatest upper end of those up to here, by
    # lower end.
    rest_low, until_high = np.empty(count + 1), np.empty(count + 1)
    rest_low[count], until_high[0] = np.inf, -np.inf
    for place in range(count):
        until_high[place + 1] = max(until_high[place], high[by_low[place]])
    for place in range(count - 1, -1, -1):
        rest_low[place] = min(rest_low[place + 1], low[by_high[place]])
    total_high, first_low = float(until_high[count]), low[by_low[0]]
    best_overlap, best_coverage, best_cut = np.nan, np.inf, 0.0
    best_skew = count
    n_begun = 0
    for taken in range(1, count):
        cut = high[by_high[taken - 1]]
        if high[by_high[taken]] == cut:
            # Equal ends stay together: the cut is after all of them.
            continue
        while n_begun < count and low[by_low[n_begun]] <= cut:
            n_begun += 1
        n_right = count - n_begun
        if taken < least or n_right < least:
            continue
        overlap, between = 0.0, 0.0
        if taken < n_begun:
            overlap = length_of(float(rest_low[taken]), float(until_high[n_begun]))
            between = min(until_high[n_begun], low[by_low[n_begun]]) - cut
        coverage = length_of(first_low, cut) + between + length_of(low[by_low[n_begun]], total_high)
        skew = abs(taken - n_right)
        if (
            not best_overlap <= overlap
            or (overlap == best_overlap and coverage < best_coverage)
            or (overlap == best_overlap and coverage == best_coverage and skew < best_skew)
        ):
            best_overlap, best_coverage, best_cut, best_skew = overlap, coverage, cut, skew
    return best_overlap, best_coverage, best_cut


@kernel
def split_exhaustively(low: Floats, high: Floats, least: Whole, out_side: Ints) -> bool:
    """The cut with the least overlap, then the least coverage, from either end. False: there is none."""
    overlap, coverage, cut = choose_cut(low, high, least)
    other_overlap, other_coverage, other_cut = choose_cut(-high, -low, least)
    if overlap != overlap and other_overlap != other_overlap:
        return False
    is_mirrored = not overlap <= other_overlap or (overlap == other_overlap and other_coverage < coverage)
    is_mirrored = is_mirrored and other_overlap == other_overlap
    for item in range(low.shape[0]):
        out_side[item] = OVERLAP
        if is_mirrored:
            if low[item] >= -other_cut:
                out_side[item] = RIGHT
            elif high[item] < -other_cut:
                out_side[item] = LEFT
        elif high[item] <= cut:
            out_side[item] = LEFT
        elif low[item] > cut:
            out_side[item] = RIGHT
    return True


@kernel
def split_approximately(low: Floats, high: Floats, least: Whole, out_side: Ints) -> bool:
    """Take ranges alternately from both ends while the sides are disjoint. False: a side has too few."""
    count = low.shape[0]
    by_high, by_low = np.argsort(high), np.argsort(low)
    left_end, right_end, n_left, n_right = -np.inf, np.inf, 0, 0
    out_side[:] = OVERLAP
    for place in range(count):
        item = by_high[place]
        if out_side[item] == OVERLAP and high[item] < right_end:
            out_side[item] = LEFT
            left_end = max(left_end, high[item])
            n_left += 1
        item = by_low[count - 1 - place]
        if out_side[item] == OVERLAP and low[item] > left_end:
            out_side[item] = RIGHT
            right_end = min(right_end, low[item])
            n_right += 1
    return bool(n_left >= least and n_right >= least)


@kernel
def middle_of(low: Floats, high: Floats) -> float:
    """The middle between the finite ends; NaN if these are one or none."""
    least, most = np.inf, -np.inf
    for item in range(low.shape[0]):
        for end in (low[item], high[item]):
            if -np.inf < end < np.inf:
                least, most = min(least, end), max(most, end)
    return least / 2 + most / 2 if least < most else np.nan


@kernel
def split_space(low: Floats, high: Floats, middle: float, out_side: Ints) -> bool:
    """Cut at a point, regardless of the ranges. False: all of them span it."""
    n_moved = 0
    for item in range(low.shape[0]):
        out_side[item] = OVERLAP
        if high[item] < middle:
            out_side[item] = LEFT
            n_moved += 1
        elif low[item] > middle:
            out_side[item] = RIGHT
            n_moved += 1
    return n_moved > 0
