"""Coordinates compare as the values do, and bounds between two points lose nothing."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin import ordinals
from tocsin.decimals import EXACTLY, doubles_of_decimals, printed
from tocsin.grids import Grid, grid_of, points, range_ends
from tocsin.types import ColumnType

TYPES = (
    "int",
    "bigint",
    "date",
    "timestamp",
    "decimal(12,2)",
    "decimal(15,0)",
    "decimal(18,4)",
    "decimal(38,20)",
)
NEAR = st.integers(-3, 3)
WHOLE = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-20, 20),
    st.builds(lambda base, near: base + near, st.sampled_from([2**53, -(2**53)]), NEAR),
    st.builds(lambda base, near: base + near, st.sampled_from([ordinals.LARGEST, -ordinals.LARGEST]), NEAR),
)


def _grid(name: str) -> tuple[Grid, int]:
    """The grid of a type, and the largest number of units that it has."""
    kind = ColumnType.parse(name, column="")
    grid = grid_of(kind.arrow)
    assert grid is not None
    most = 10**kind.arrow.precision - 1 if kind.is_decimal else 2**31 - 1 if name == "int" else 2**63 - 1
    return grid, min(most, ordinals.LARGEST)


@given(st.lists(WHOLE, min_size=2))
def test_ordinals_keep_order_and_come_back(values: list[int]) -> None:
    kept = np.array(sorted({value for value in values if abs(value) <= ordinals.LARGEST}), np.int64)
    codes = ordinals.encode(kept)
    assert (codes[1:] > codes[:-1]).all()
    assert np.isfinite(codes).all()
    assert ordinals.decode(codes).tolist() == kept.tolist()
    assert [ordinals.encode_one(value) for value in kept.tolist()] == codes.tolist()
    assert ordinals.doubles(codes).tolist() == [float(value) for value in kept.tolist()]
    everything = ordinals.encode(np.array(values, np.int64)).tolist()
    assert everything == [ordinals.encode_one(value) for value in values]


def _exact(value: object) -> Fraction | float:
    if isinstance(value, float):
        return value if np.isinf(value) else Fraction(printed(value))
    assert isinstance(value, int | Decimal)
    return Fraction(value)


@pytest.mark.parametrize("name", TYPES)
@settings(max_examples=100)
@given(units=st.lists(WHOLE, min_size=1, max_size=4), data=st.data())
def test_bounds_between_points(name: str, units: list[int], data: st.DataObject) -> None:
    grid, most = _grid(name)
    units = [max(-most, min(most, unit)) for unit in units]
    exact = [Fraction(unit, 10**grid.scale) for unit in units]
    base = Decimal(data.draw(st.sampled_from(units))).scaleb(-grid.scale, EXACTLY)
    value: object = data.draw(
        st.sampled_from(
            [
                base,
                EXACTLY.add(base, Decimal("1e-30")),
                EXACTLY.subtract(base, Decimal("1e-30")),
                int(base),
                float(base),
                float("inf"),
                float("-inf"),
            ]
        )
    )
    kind = pa.decimal256(76, 30) if isinstance(value, Decimal) else None
    floors = grid.floor(pa.array([value], kind))
    bound, coordinates = _exact(value), grid.coordinates(np.array(units, np.int64))
    for strict in (False, True):
        low, high = (range_ends(grid, floors, low=side, strict=strict)[0] for side in (True, False))
        assert (coordinates >= low).tolist() == [each > bound if strict else each >= bound for each in exact]
        assert (coordinates <= high).tolist() == [each < bound if strict else each <= bound for each in exact]
    up, down, at = (points(grid, floors, side)[0] for side in ("up", "down", "at"))
    assert (coordinates < up).tolist() == [each < bound for each in exact]
    assert (coordinates > down).tolist() == [each > bound for each in exact]
    assert (coordinates == at).tolist() == [each == bound for each in exact]


@given(st.lists(st.integers(-(10**38) + 1, 10**38 - 1)), st.integers(0, 38))
def test_decimals_become_the_nearest_doubles(units: list[int], scale: int) -> None:
    values = [Decimal(unit).scaleb(-scale, EXACTLY) for unit in units]
    for kind in (pa.decimal128(38, scale), pa.decimal256(76, scale)):
        found = doubles_of_decimals(pa.array(values, kind))
        assert found.tolist() == [float(str(value)) for value in values]
