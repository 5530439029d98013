"""Orders of whole numbers against NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.kernels.sort import ascending_bits, order_of


@given(st.lists(st.integers(0, 2**40 - 1) | st.integers(0, 3), max_size=60), st.integers(0, 24))
def test_places_come_in_order_and_equals_as_they_came(numbers: list[int], more_bits: int) -> None:
    keys = np.array(numbers, np.uint64)
    expected = np.argsort(keys, kind="stable")
    assert order_of(keys, 40 + more_bits).tolist() == expected.tolist()


@pytest.mark.parametrize("n_bits", [1, 12, 13, 36, 51])
def test_as_many_bits_as_there_are(n_bits: int) -> None:
    keys = np.random.default_rng(n_bits).integers(0, 2**n_bits, 5000).astype(np.uint64)
    assert np.array_equal(order_of(keys, n_bits), np.argsort(keys, kind="stable"))


def test_keys_are_left_as_they_are() -> None:
    keys = np.array([3, 1, 2], np.uint64)
    keys.flags.writeable = False
    assert order_of(keys, 2).tolist() == [1, 2, 0]


def test_singles_keep_their_order_as_whole_numbers() -> None:
    values = np.array([np.inf, 1.5, 0.0, -0.0, -1e-40, -2.0, -np.inf, 1e-40, 3e38], np.float32)
    bits = ascending_bits(values)
    assert np.array_equal(values[np.argsort(bits)], np.sort(values))
