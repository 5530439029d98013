"""The grid of a column type's values, and the doubles by which indexes order them.

Integers, dates, times and decimals lie on a grid: a bound between two points is equivalent to the point above
or below. Each point has one double, its *coordinate*, so that indexes compare exactly:

* of integers, dates and times their ordinal: themselves up to 2**53;
* of decimals of up to 15 digits the nearest double;
* of longer decimals the ordinal of their number of units of the last place.

Singles and doubles are their own coordinates, and have no grid.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tocsin import ordinals
from tocsin.decimals import EXACT_DIGITS, EXACT_POWER, EXACT_WHOLE, EXACTLY, printed, unscaled

Floats: TypeAlias = NDArray[np.float64]
Longs: TypeAlias = NDArray[np.int64]

#: To which point a value between two points is rounded.
Side: TypeAlias = Literal["up", "down", "at"]

#: The largest point up to each number, in units, and whether they are equal.
Floors: TypeAlias = tuple[Longs, NDArray[np.bool_]]

_BEYOND = ordinals.LARGEST + 1
#: pyarrow's stubs do not cover these functions.
_types: Any = pa.types


class Grid(NamedTuple):
    """Points are integer multiples of a unit, 10**-scale."""

    scale: int
    #: whether coordinates are ordinals of units
    is_ordinal: bool
    #: a double that is not the coordinate of any point
    never: float

    def coordinates(self, units: Longs) -> Floats:
        """The coordinates of points; infinite beyond the last one. Cost: linear."""
        if self.is_ordinal:
            return ordinals.encode(units)
        return units / float(10**self.scale)

    def doubles(self, coordinates: Floats) -> Floats:
        """The doubles nearest to points; NaN and infinities stay. Cost: linear."""
        if not self.is_ordinal:
            return coordinates
        if self.scale == 0:
            return ordinals.doubles(coordinates)
        values: Floats = coordinates / float(10 ** min(self.scale, EXACT_POWER))
        is_hard = (np.abs(coordinates) > EXACT_WHOLE) | (self.scale > EXACT_POWER)
        is_hard &= np.isfinite(coordinates)
        units = ordinals.decode(coordinates[is_hard]).tolist()
        values[is_hard] = [float(Decimal(unit).scaleb(-self.scale, EXACTLY)) for unit in units]
        return values

    def point(self, coordinate: float) -> float | int | Decimal:
        """The value at a coordinate, exactly; itself if it is no point."""
        if not self.is_ordinal or not math.isfinite(coordinate):
            return coordinate
        unit = int(ordinals.decode(np.array([coordinate]))[0])
        return Decimal(unit).scaleb(-self.scale, EXACTLY) if self.scale else unit

    def floor(self, values: pa.Array) -> Floors:
        """The largest point up to each number, in units, and whether they are equal.

        Numbers beyond all coordinates map to the unit after the last. Cost: linear.
        """
        kind = values.type
        if _types.is_uint64(kind):
            values = values.cast(pa.decimal128(20, 0))
            kind = values.type
        if _types.is_integer(kind):
            return self._of_integers(values.cast(pa.int64()).to_numpy(zero_copy_only=False))
        if _types.is_floating(kind):
            return self._of_doubles(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
        return self._of_decimals(values)

    def _of_integers(self, values: Longs) -> Floors:
        most = _BEYOND // 10**self.scale
        is_near = (values <= most) & (values >= -most)
        units = np.where(is_near, values, 0) * np.int64(10 ** min(self.scale, 18))
        return np.where(is_near, units, np.where(values < 0, -_BEYOND, _BEYOND)), np.ones(
            len(values), np.bool_
        )

    def _of_doubles(self, values: Floats) -> Floors:
        """A number with a fraction stands for the decimal it prints as."""
        with np.errstate(all="ignore"):
            if self.scale == 0:
                down = np.floor(np.clip(values, -float(_BEYOND), float(_BEYOND)))
                return np.clip(down.astype(np.int64), -_BEYOND, _BEYOND), down == values
            power = float(10 ** min(self.scale, EXACT_POWER))
            units = np.rint(values * power)
            is_plain = (np.abs(units) < EXACT_WHOLE) & (units / power == values) & (self.scale <= EXACT_POWER)
        floors: Longs = np.where(is_plain, units, 0).astype(np.int64)
        is_exact = is_plain.copy()
        for place in np.flatnonzero(~is_plain).tolist():
            floors[place], is_exact[place] = self.floor_one(float(values[place]))
        return floors, is_exact

    def _of_decimals(self, values: pa.Array) -> Floors:
        units, fits, _ = unscaled(values)
        finer = self.scale - values.type.scale
        is_plain = fits & (0 <= finer <= 18)
        most = _BEYOND // 10 ** max(finer, 0)
        is_plain &= (units <= most) & (units >= -most)
        floors: Longs = np.where(is_plain, units, 0) * np.int64(10 ** min(max(finer, 0), 18))
        is_exact = is_plain.copy()
        hard = np.flatnonzero(~is_plain)
        for place, value in zip(hard.tolist(), values.take(pa.array(hard)).to_pylist(), strict=True):
            floors[place], is_exact[place] = self.floor_one(value)
        return floors, is_exact

    def floor_one(self, value: float | Decimal) -> tuple[int, bool]:
        """As `floor`, of one number."""
        if isinstance(value, float):
            if math.isinf(value):
                return (_BEYOND if value > 0 else -_BEYOND), False
            value = printed(value)
        units = Decimal(value).scaleb(self.scale, EXACTLY)
        down = units.to_integral_value(ROUND_FLOOR, EXACTLY)
        return max(-_BEYOND, min(_BEYOND, int(down))), down == units


def grid_of(kind: Any) -> Grid | None:
    """The grid of a column of an Arrow type; None if it has none."""
    if _types.is_decimal(kind):
        if kind.precision <= EXACT_DIGITS:
            return Grid(kind.scale, False, float(10 ** (kind.precision - kind.scale)))
        return Grid(kind.scale, True, 0.5)
    has_grid = _types.is_integer(kind) or _types.is_timestamp(kind) or _types.is_date(kind)
    return Grid(0, True, 0.5) if has_grid else None


def range_ends(grid: Grid, floors: Floors, *, low: bool, strict: bool) -> Floats:
    """Coordinates of the first (`low`) or last points that satisfy `>=` or `<=`, or if `strict` `>` or `<`.

    Infinite if none or all do. Cost: linear.
    """
    units, is_exact = floors
    if low:
        units = units + (np.ones(len(units), np.int64) if strict else (~is_exact).astype(np.int64))
    elif strict:
        units = units - is_exact
    if not grid.is_ordinal:
        is_far = (units >= _BEYOND) | (units <= -_BEYOND)
        return np.where(is_far, np.copysign(np.inf, units), grid.coordinates(units))
    return grid.coordinates(units)


def points(grid: Grid, floors: Floors, side: Side) -> Floats:
    """Coordinates of the points next to each number; with `at`, `never` unless it is a point.

    Cost: linear.
    """
    units, is_exact = floors
    if side == "at":
        return np.where(is_exact, grid.coordinates(units), grid.never)
    return grid.coordinates(units + ~is_exact if side == "up" else units)
