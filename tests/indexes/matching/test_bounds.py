"""Where a value lies among the bounds of its key: as a search of each key alone says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.arrays.intrinsics import LANES
from tocsin.arrays.jit import kernel
from tocsin.indexes.matching.access.bound_kernels import PredicateBounds, count_at_most, count_below, is_bound
from tocsin.indexes.matching.access.bounds import spaced_bounds

numbers = st.integers(-40, 40).map(float) | st.sampled_from([-np.inf, np.inf, 0.5])


@kernel
def place_value(bounds: PredicateBounds, key: int, value: float) -> tuple[np.int64, np.int64, bool]:
    """What kernels ask for."""
    below = count_below(bounds, key, value)
    return below, count_at_most(bounds, key, value), is_bound(bounds, key, below, value)


def check_places(keys: list[list[float]], asked: list[float]) -> None:
    """Every value among the bounds of every key."""
    counts = np.array([len(one) for one in keys], np.int64)
    bounds = spaced_bounds(np.array([value for one in keys for value in one]), counts)
    for key, held in enumerate(keys):
        for value in asked:
            # Not compiled, counting bits would warn.
            with np.errstate(over="ignore"):
                below, at_most, is_there = place_value(bounds, key, value)
            assert below == np.searchsorted(held, value)
            assert at_most == np.searchsorted(held, value, side="right")
            assert is_there == (value in held)


@given(keys=st.lists(st.sets(numbers).map(sorted), min_size=1, max_size=4), asked=st.lists(numbers))
def test_places_among_few_bounds(keys: list[list[float]], asked: list[float]) -> None:
    check_places(keys, asked)


@pytest.mark.parametrize("count", [LANES - 1, LANES, LANES + 1, LANES**2, LANES**2 + 1, 37 * LANES**2])
def test_places_among_many_bounds(count: int) -> None:
    held = np.arange(0.0, 2.0 * count, 2.0).tolist()
    around = np.unique(np.clip([0, 1, LANES - 1, LANES, count // 2, count - LANES, count - 1], 0, count - 1))
    asked = [2.0 * place + step for place in around.tolist() for step in (-1.0, 0.0, 1.0)]
    check_places([held, [0.0], [], held], [-np.inf, *asked, np.inf])


def test_nan_is_below_nothing() -> None:
    bounds = spaced_bounds(np.array([1.0, 2.0]), np.array([2], np.int64))
    below, at_most, is_there = place_value(bounds, 0, np.nan)
    assert below == at_most == 0
    assert not is_there
