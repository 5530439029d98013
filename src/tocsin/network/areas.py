"""Messages as closed boxes of subscription space: lower ends of ranges first, then upper ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Floats
from tocsin.indexes.ranges.messages.messages import Messages


class Areas(NamedTuple):
    """One box per message; a subscription `[l, r]` in d dimensions is the point (l1 … ld, r1 … rd)."""

    #: float64 (messages, 2 d)
    low: Floats
    #: float64 (messages, 2 d)
    high: Floats

    @property
    def inner(self) -> Floats:
        """float64 (messages, 2 d): the inner corner of each box: greatest lower ends, least upper ends."""
        half = self.low.shape[1] // 2
        return np.ascontiguousarray(np.hstack((self.high[:, :half], self.low[:, half:])))


def areas_of(messages: Messages) -> Areas:
    """The boxes of messages over one dimension. Cost: linear."""
    return _areas(*(column[:, None] for column in messages[:4]))


def areas_of_table(table: pa.Table, dimensions: int) -> Areas:
    """The boxes of messages as `engine.messages` returns them. Cost: linear."""
    names = ("inner_lo", "inner_hi", "outer_lo", "outer_hi")
    return _areas(*(bounds_of(table.column(name), dimensions) for name in names))


def bounds_of(column: pa.ChunkedArray, dimensions: int) -> Floats:
    """Lists with one bound per dimension as an array; NaN for null bounds and throughout null lists."""
    if not dimensions:
        return np.empty((len(column), 0))
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = np.array(lists.flatten().to_numpy(zero_copy_only=False), np.float64).reshape(-1, dimensions)
    if not lists.null_count:
        return values
    bounds = np.full((len(lists), dimensions), np.nan)
    bounds[lists.is_valid().to_numpy(zero_copy_only=False)] = values
    return bounds


def points_of(lo: Floats, hi: Floats) -> Floats:
    """Subscriptions as points; bounds are (subscriptions,) or (subscriptions, dimensions). Cost: linear."""
    return np.ascontiguousarray(np.hstack((bounds_by_row(lo), bounds_by_row(hi))) + 0.0)


def bounds_by_row(bounds: Floats) -> Floats:
    """Bounds as (subscriptions, dimensions)."""
    given = np.asarray(bounds, np.float64)
    return given[:, None] if given.ndim == 1 else given


def _areas(inner_lo: Floats, inner_hi: Floats, outer_lo: Floats, outer_hi: Floats) -> Areas:
    # The double after the largest one is infinity, and the one after 0 is subnormal.
    with np.errstate(over="ignore", under="ignore"):
        low = np.where(np.isnan(outer_lo), -np.inf, np.nextafter(outer_lo, np.inf))
        high = np.where(np.isnan(outer_hi), np.inf, np.nextafter(outer_hi, -np.inf))
    # Nothing lies beyond an infinity: NaN is in no box.
    low[outer_lo == np.inf] = np.nan
    high[outer_hi == -np.inf] = np.nan
    return Areas(
        np.ascontiguousarray(np.hstack((low, inner_hi)) + 0.0),
        np.ascontiguousarray(np.hstack((inner_lo, high)) + 0.0),
    )
