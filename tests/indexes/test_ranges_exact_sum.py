"""Exact sums against fractions and math.fsum."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.oracles.ranges import exact_sum, is_same
from tocsin.indexes.contract import Longs
from tocsin.indexes.shared import exact_sum_kernels as kernels

TINY = 5e-324
HUGE = sys.float_info.max
HALF_ULP = 2.0**-53

numbers = st.one_of(
    st.floats(allow_nan=False),
    st.floats(-10, 10),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, HALF_ULP, -HALF_ULP, TINY, -TINY, HUGE, -HUGE, 2.0**-1022]),
    st.builds(math.ldexp, st.sampled_from([1.0, -1.0, 1.5]), st.integers(-1074, 1023)),
)


def new_total() -> Longs:
    return np.zeros(kernels.SUM_SIZE, np.int64)


def total_of(values: list[float]) -> Longs:
    total = new_total()
    for value in values:
        kernels.add_value(total, value, 1)
    return total


@given(st.lists(numbers, max_size=12))
@example([1.0, HALF_ULP])
@example([1.0, HALF_ULP, TINY])
@example([1.0 + 2 * HALF_ULP, HALF_ULP])
@example([-1.0, HALF_ULP / 2])
@example([HUGE, HUGE, -HUGE])
@example([HUGE, 2.0**969])
@example([HUGE, 2.0**970])
@example([HUGE, 2.0**970, -TINY])
@example([-HUGE, -HUGE])
@example([2.0**-1022, -TINY])
@example([math.inf, -math.inf])
@example([math.inf, 1.0])
@example([1e308, 1.0, -1e308, 1e-300, -1.0])
def test_rounds_as_a_fraction_does(values: list[float]) -> None:
    assert is_same(kernels.round_total(total_of(values)), exact_sum(values))


@given(st.lists(st.floats(-1e300, 1e300), max_size=30))
def test_agrees_with_fsum(values: list[float]) -> None:
    assert kernels.round_total(total_of(values)) == math.fsum(values)


@given(st.lists(numbers, max_size=8), st.lists(numbers, max_size=8))
def test_a_value_taken_out_leaves_no_trace(stay: list[float], go: list[float]) -> None:
    total = total_of(go + stay)
    kernels.round_total(total)
    for value in reversed(go):
        kernels.add_value(total, value, -1)
    assert is_same(kernels.round_total(total), exact_sum(stay))
    for value in stay:
        kernels.add_value(total, value, -1)
    assert kernels.is_zero_total(total)


@given(st.lists(numbers, max_size=8), st.lists(numbers, max_size=8))
def test_totals_add_up(some: list[float], others: list[float]) -> None:
    total = total_of(some)
    kernels.add_total(total, total_of(others), 1)
    assert is_same(kernels.round_total(total), exact_sum(some + others))
    kernels.add_total(total, total_of(some), -1)
    assert is_same(kernels.round_total(total), exact_sum(others))


@given(st.lists(numbers, max_size=8))
def test_rounding_and_carrying_keep_the_sum(values: list[float]) -> None:
    total = total_of(values)
    first = kernels.round_total(total)
    kernels.carry_limbs(total)
    assert is_same(kernels.round_total(total), first)
    assert kernels.is_zero_total(total) == (first == 0.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_carries_before_a_limb_overflows(sign: int) -> None:
    """A total on the brink of its pending values: the next one makes it carry, and nothing is lost."""
    total = new_total()
    kernels.add_value(total, 1.0, sign)
    total[: kernels.LIMBS] *= kernels.MOST_PENDING - 1
    total[kernels.PENDING] = kernels.MOST_PENDING - 1
    kernels.add_value(total, 1.0, sign)
    assert total[kernels.PENDING] == 1
    assert kernels.round_total(total) == sign * float(kernels.MOST_PENDING)


def test_clear() -> None:
    total = total_of([1.0, math.inf])
    kernels.clear_total(total)
    assert kernels.is_zero_total(total)
    assert kernels.round_total(total) == 0.0
