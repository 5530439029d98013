"""Masks of sixty-four comparisons, compiled and not, against one comparison after the other."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.arrays.intrinsics import BITS, first_bit, mask_reaching
from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Floats, Longs


@kernel
def walk(score: Floats, sign: float, floor: Floats, out_bit: Longs) -> int:
    """The bits of the mask, in order; how many."""
    n = 0
    mask = mask_reaching(score, sign, floor)
    while mask != 0:
        out_bit[n] = first_bit(mask)
        mask &= mask - 1
        n += 1
    return n


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_bits_are_where_scores_reach_floors(sign: float) -> None:
    random = np.random.default_rng(6)
    odd = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf])
    found = np.empty(BITS, np.int64)
    for _ in range(50):
        score, floor = random.choice(odd, BITS), random.choice(odd, BITS)
        n = walk(score, sign, floor, found)
        assert np.array_equal(found[:n], np.flatnonzero(sign * score >= floor))


@pytest.mark.parametrize("chosen", [[], [0], [BITS - 1], [31, 32], list(range(BITS))])
def test_no_bit_is_lost_at_the_ends(chosen: list[int]) -> None:
    score, floor, found = np.zeros(BITS), np.ones(BITS), np.empty(BITS, np.int64)
    score[chosen] = 1.0
    assert found[: walk(score, 1.0, floor, found)].tolist() == chosen
