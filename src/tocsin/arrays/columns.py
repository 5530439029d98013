"""Growable columns: arrays that double, the slots that index them, and a queue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.types import Arrays, Floats, Ints


def ensure_capacity(array: np.ndarray, rows: int, fill: float | int | bool = 0) -> np.ndarray:
    """`array` with capacity for at least `rows` rows: itself if large enough, else a copy of twice the size.

    New rows hold `fill`. Cost: amortised constant a row.
    """
    have = array.shape[0]
    if rows <= have:
        return array
    larger = np.empty((max(rows, 2 * have), *array.shape[1:]), array.dtype)
    larger[:have] = array
    larger[have:] = fill
    return larger


def ensure_width(array: np.ndarray, width: int, fill: float | int | bool = 0) -> np.ndarray:
    """`array` (rows, columns) with at least `width` columns: itself, or a copy of twice the width.

    New columns hold `fill`. Cost: amortised constant a column.
    """
    have = array.shape[1]
    if width <= have:
        return array
    larger = np.full((array.shape[0], max(width, 2 * have)), fill, array.dtype)
    larger[:, :have] = array
    return larger


def kernel_ready(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`array` as kernels take it: of `dtype`, contiguous and writable. Copied only if necessary."""
    if array.dtype is dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ["C_CONTIGUOUS", "WRITEABLE"])


def writable(array: np.ndarray, dtype: type[np.generic]) -> np.ndarray:
    """`kernel_ready`, of a type that is not a `dtype` yet."""
    return kernel_ready(array, np.dtype(dtype))


def column_wise(values: np.ndarray) -> Floats:
    """A float64 copy of `values` (n, columns), transposed to (columns, n)."""
    return np.array(np.asarray(values, np.float64).T, order="C", copy=True)


class Slots:
    """Allocates small integers, and reuses released ones, the last released first.

    `top` is one more than the largest slot ever in use; columns indexed by slot need `top` rows.
    """

    def __init__(self) -> None:
        self.top = 0
        self._free: NDArray[np.int32] = np.empty(16, np.int32)
        self._n_free = 0

    def __len__(self) -> int:
        return self.top - self._n_free

    def take(self, count: int) -> Ints:
        """`count` distinct free slots. Cost: linear in `count`."""
        reused = min(count, self._n_free)
        slots = np.empty(count, np.int32)
        slots[:reused] = self._free[self._n_free - reused : self._n_free][::-1]
        slots[reused:] = np.arange(self.top, self.top + count - reused, dtype=np.int32)
        self._n_free -= reused
        self.top += count - reused
        return slots

    def release(self, slots: Ints) -> None:
        """Free distinct slots that are in use. Cost: linear in their number."""
        needed = self._n_free + len(slots)
        self._free = ensure_capacity(self._free, needed)
        self._free[self._n_free : needed] = slots
        self._n_free = needed

    def live(self) -> Ints:
        """The slots in use, ascending. Cost: linear in all slots."""
        is_live = np.ones(self.top, np.bool_)
        is_live[self._free[: self._n_free]] = False
        return np.flatnonzero(is_live).astype(np.int32)

    def arrays(self) -> Arrays:
        return {"top": np.array([self.top]), "free": self._free[: self._n_free].copy()}

    def restore(self, arrays: Arrays) -> None:
        self.top = int(arrays["top"][0])
        self._free = arrays["free"].astype(np.int32)
        self._n_free = len(self._free)


class Queue:
    """A column that grows at its end and shrinks at its front."""

    def __init__(self, dtype: np.dtype) -> None:
        self._column = np.empty(16, dtype)
        self._first = 0
        self._last = 0

    def __len__(self) -> int:
        return self._last - self._first

    @property
    def values(self) -> np.ndarray:
        """The contents, oldest first: a view."""
        return self._column[self._first : self._last]

    def append(self, values: np.ndarray) -> None:
        """Add at the end. Cost: amortised linear in the number added."""
        if self._last + len(values) > len(self._column):
            current = self.values
            self._column = ensure_capacity(current.copy(), 2 * (len(current) + len(values)))
            self._first, self._last = 0, len(current)
        self._column[self._last : self._last + len(values)] = values
        self._last += len(values)

    def drop(self, count: int) -> None:
        """Remove the `count` oldest. Cost: constant."""
        self._first += count
