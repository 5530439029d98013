"""Layouts: dtype and shape said once; empty, grow and check follow."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tocsin.arrays.layout import Column, Size, check_layout, empty, grow, restored, saved, sizes_of
from tocsin.arrays.types import Floats, Ints, Longs

PAIR = np.dtype([("low", np.int32), ("high", np.float64)])


class Members(NamedTuple):
    bound: Annotated[Floats, Column("sides", "places", fill=np.inf)]
    slot: Annotated[Ints, Column("places", fill=-1)]
    start: Annotated[Longs, Column(Size("groups", times=4, plus=1))]
    pair: Annotated[NDArray[np.void], Column("groups", dtype=PAIR)]
    state: Annotated[Longs, Column(3)]


class Teams(NamedTuple):
    home: Members
    away: Members
    score: Annotated[Longs, Column("groups")]


def members(sides: int = 2, places: int = 3, groups: int = 1) -> Members:
    return empty(Members, sides=sides, places=places, groups=groups)


def test_columns_are_made_as_declared() -> None:
    made = members()
    assert [array.shape for array in made] == [(2, 3), (3,), (5,), (1,), (3,)]
    assert [array.dtype for array in made] == [np.float64, np.int32, np.int64, PAIR, np.int64]
    assert np.isinf(made.bound).all()
    assert made.slot.tolist() == [-1, -1, -1]
    assert sizes_of(made) == {"sides": 2, "places": 3, "groups": 1}
    check_layout(made)


@given(st.integers(1, 5), st.integers(0, 9), st.integers(0, 9), st.integers(0, 40), st.integers(0, 40))
def test_growing_keeps_what_is_there(sides: int, places: int, groups: int, more: int, others: int) -> None:
    small = members(sides, places, groups)
    for array in small[:3]:
        array[...] = np.arange(array.size).reshape(array.shape)
    large = grow(small, places=more, groups=others)
    check_layout(large)
    sizes = sizes_of(large)
    assert sizes["places"] == (places if more <= places else max(more, 2 * places))
    assert sizes["groups"] == (groups if others <= groups else max(others, 2 * groups))
    assert np.array_equal(large.bound[:, :places], small.bound)
    assert np.isinf(large.bound[:, places:]).all()
    assert large.slot.tolist() == small.slot.tolist() + [-1] * (sizes["places"] - places)
    assert large.start[: 4 * groups + 1].tolist() == small.start.tolist()
    assert not large.start[4 * groups + 1 :].any()
    assert large.state is small.state


def test_what_is_large_enough_stays_itself() -> None:
    small = members()
    assert grow(small, places=3) is small
    assert grow(small, groups=2).bound is small.bound


def test_what_is_saved_can_be_restored() -> None:
    made = members(places=5)
    made.slot[:] = np.arange(5)
    arrays = saved(made, places=2)
    assert list(arrays) == list(Members._fields)
    assert arrays["bound"].shape == (2, 2)
    assert arrays["start"].shape == (5,)
    assert not any(np.shares_memory(arrays[name], getattr(made, name)) for name in arrays)
    # Written by another version: of another dtype and order, among others.
    given = {**arrays, "slot": arrays["slot"].astype(np.int64), "bound": np.asfortranarray(arrays["bound"])}
    again = restored(Members, {**given, "other": np.zeros(3)})
    check_layout(again)
    assert sizes_of(again) == {"sides": 2, "places": 2, "groups": 1}
    assert again.slot.tolist() == [0, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"bound": np.zeros((2, 3), np.float32)},
        {"slot": np.zeros(4, np.int32)},
        {"bound": np.zeros((3, 2)).T},
        {"state": np.zeros(2, np.int64)},
    ],
)
def test_what_is_not_as_declared_is_found(wrong: dict[str, np.ndarray]) -> None:
    with pytest.raises(AssertionError, match="Members"):
        check_layout(members()._replace(**wrong))


def test_a_layout_may_have_layouts() -> None:
    teams = empty(Teams, sides=2, places=3, groups=1)
    check_layout(teams)
    assert teams.home.slot is not teams.away.slot
    teams.away.slot[:] = 7
    larger = grow(teams, places=4)
    check_layout(larger)
    assert sizes_of(larger) == {"sides": 2, "places": 6, "groups": 1}
    assert larger.away.slot.tolist() == [7, 7, 7, -1, -1, -1]
    assert larger.score is teams.score
    with pytest.raises(AssertionError, match=r"Members\.bound|Members\.slot"):
        check_layout(teams._replace(home=members(places=4)))
