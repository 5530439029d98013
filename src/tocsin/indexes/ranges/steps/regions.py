"""The layout of bounds and row columns: ranges, and perhaps a disk or a half-plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tocsin.arrays.types import Floats
from tocsin.indexes.ranges.steps.images import padded_columns
from tocsin.indexes.ranges.steps.step_kernels import RangeBoxes
from tocsin.kernels.regions import DISK, KINDS, REGION_ROWS

#: Rounding and underflow enlarge a disk by at most this fraction of its radius, plus this much.
_SLACK = 2.0**-40
_SMALLEST = 1e-150


class Layout(NamedTuple):
    """The dimensions of an index: the ranges of a statement, and the region in it if there is one.

    Kernels have at least one dimension. With a region the dimensions are: the first range, the region's
    three, the other ranges. Where there is no range, the first dimension bounds the x of a disk, or nothing.
    """

    dimensions: int
    region: int

    @classmethod
    def of(cls, dimensions: int, region: str | None) -> Layout:
        """The layout of `dimensions` ranges and a `disk`, a `half-plane` or none."""
        return cls(dimensions, KINDS[region])

    @property
    def width(self) -> int:
        """Dimensions that kernels see."""
        return max(1, self.dimensions) + (REGION_ROWS if self.region else 0)

    @property
    def given(self) -> int:
        """Dimensions, from the first on, whose bounds a subscription gives."""
        return self.width if self.region else self.dimensions

    def columns(self, columns: Floats) -> Floats:
        """A delta's columns in kernel layout: ranges, then x and z of a region, then the rest.

        A copy, without -0.0.
        """
        ranges = self.dimensions
        if not self.region:
            return padded_columns(columns, ranges)
        rest = columns[:, ranges + 2 :]
        seen = np.zeros((len(columns), self.width + rest.shape[1]))
        if ranges or self.region == DISK:
            seen[:, 0] = columns[:, 0]
        seen[:, 1:3] = columns[:, ranges : ranges + 2]
        seen[:, 1 + REGION_ROWS : self.width] = columns[:, 1:ranges]
        seen[:, self.width :] = rest
        seen += 0.0
        return seen

    def given_columns(self, seen: Floats) -> Floats:
        """The inverse of `columns`, except for -0.0. A copy."""
        ranges = self.dimensions
        if not self.region:
            return seen[:, 0 if ranges else 1 :].copy()
        first = seen[:, : min(ranges, 1)]
        others = seen[:, 1 + REGION_ROWS : self.width]
        return np.concatenate((first, others, seen[:, 1:3], seen[:, self.width :]), axis=1)

    def bounds(self, values: Mapping[str, np.ndarray]) -> tuple[Floats, Floats]:
        """The boxes of subscriptions, lower and upper bounds (n, dimensions), from their bound values."""
        lo, hi = values["lo"], values["hi"]
        if not self.region:
            return lo, hi
        region = values["region"]
        count = len(region)
        first = (lo[:, :1], hi[:, :1]) if self.dimensions else self._around(region)
        return (
            np.concatenate((first[0], region, lo[:, 1:]), axis=1).reshape(count, self.width),
            np.concatenate((first[1], region, hi[:, 1:]), axis=1).reshape(count, self.width),
        )

    def parameters(self, boxes: RangeBoxes, slot: int) -> dict[str, object]:
        """What a subscription was registered with, by name."""
        plain = [place for place in range(self.given) if not (self.region and 1 <= place <= REGION_ROWS)]
        shown: dict[str, object] = {}
        if self.dimensions:
            shown = {"lo": boxes.lo[plain, slot].tolist(), "hi": boxes.hi[plain, slot].tolist()}
        if self.region:
            a, b, c = boxes.lo[1 : 1 + REGION_ROWS, slot].tolist()
            is_disk = self.region == DISK
            shown |= {"center": [a, b], "radius": c} if is_disk else {"a": a, "b": b, "c": c}
        return shown

    def __str__(self) -> str:
        text = f"{self.dimensions} dimensions"
        if self.region:
            text += " and a disk" if self.region == DISK else " and a half-plane"
        return text

    def _around(self, region: Floats) -> tuple[Floats, Floats]:
        """A range of x that no point inside is outside of."""
        lo, hi = np.full((len(region), 1), -np.inf), np.full((len(region), 1), np.inf)
        if self.region == DISK:
            is_finite = np.isfinite(region).all(axis=1)
            a, radius = region[is_finite, 0], region[is_finite, 2]
            with np.errstate(all="ignore"):
                reach = radius + radius * _SLACK + _SMALLEST
                lo[is_finite, 0] = np.nextafter(a - reach, -np.inf)
                hi[is_finite, 0] = np.nextafter(a + reach, np.inf)
        return lo + 0.0, hi + 0.0
