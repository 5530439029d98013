"""From a delta to pre-images and post-images of rows: each step's state before and after, sorted."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.columns import writable
from tocsin.arrays.jit import entry_point
from tocsin.arrays.types import Bools, Floats, Longs
from tocsin.indexes.contract import ABSENT, RowDelta
from tocsin.indexes.ranges.steps.images_kernels import place_images
from tocsin.indexes.ranges.steps.step_kernels import RowImages

#: Up to this many rows, images are built by a kernel, which sorts by insertion.
SMALL_BATCH_ROWS = 32


def padded_columns(columns: Floats, dimensions: int) -> Floats:
    """The columns with 0.0 for -0.0. Without a dimension, a leading column of zeros serves as one."""
    if dimensions:
        return columns + 0.0
    wider = np.zeros((len(columns), columns.shape[1] + 1))
    wider[:, 1:] += columns
    return wider


def build_images(delta: RowDelta, before: Floats, after: Floats, *, required: int, key: int) -> RowImages:
    """The images of a delta whose values are `before` and `after`.

    A row is an image only if its first `required` columns hold no NaN, and if the step changes or touches
    it. Old and new images of a step are each sorted by column `key`, then by born. Cost: n log n, in NumPy
    unless there are few rows.
    """
    if len(delta.row) <= SMALL_BATCH_ROWS:
        return _small_batch_images(delta, before, after, required, key)
    is_reported = (before != after).any(axis=1) | (delta.born_before != delta.born_after) | delta.touched
    old = np.flatnonzero(is_reported & _is_rankable(before, delta.born_before, required))
    new = np.flatnonzero(is_reported & _is_rankable(after, delta.born_after, required))
    entry = np.concatenate((old, new))
    is_new = np.repeat(np.array([0, 1]), (len(old), len(new)))
    born = np.concatenate((delta.born_before[old], delta.born_after[new]))
    value = np.concatenate((before[old], after[new]))

    order = np.lexsort((born, value[:, key], is_new, delta.step[entry]))
    entry, is_new, born, value = entry[order], is_new[order], born[order], value[order]
    step = delta.step[entry]
    start = np.searchsorted(step, np.arange(len(delta.seq) + 1))
    n_old = np.bincount(step[is_new == 0], minlength=len(delta.seq))
    by_first = np.lexsort((value[:, 0], step)).astype(np.int64)

    place = np.full((2, len(delta.row)), -1, np.int64)
    place[is_new, entry] = np.arange(len(entry))
    return RowImages(
        start=start.astype(np.int64),
        middle=(start[:-1] + n_old).astype(np.int64),
        value=np.ascontiguousarray(value),
        born=born,
        row=delta.row[entry].astype(np.int64),
        touched=delta.touched[entry],
        other_image=place[1 - is_new, entry],
        first=value[by_first, 0],
        by_first=by_first,
        bucket=np.zeros(len(entry), np.int64),
    )


def largest_step(images: RowImages) -> int:
    """The largest number of images in a step."""
    return len(images.row) if len(images.middle) == 1 else int(np.diff(images.start).max(initial=0))


def _small_batch_images(delta: RowDelta, before: Floats, after: Floats, required: int, key: int) -> RowImages:
    delta = RowDelta(
        seq=writable(delta.seq, np.int64),
        step=writable(delta.step, np.int32),
        row=writable(delta.row, np.int32),
        born_before=writable(delta.born_before, np.int64),
        born_after=writable(delta.born_after, np.int64),
        before=writable(before, np.float64),
        after=writable(after, np.float64),
        touched=writable(delta.touched, np.bool_),
    )
    capacity, width, steps = 2 * len(delta.row), delta.before.shape[1], len(delta.seq)
    images = RowImages(
        start=np.empty(steps + 1, np.int64),
        middle=np.empty(steps, np.int64),
        value=np.empty((capacity, width)),
        born=np.empty(capacity, np.int64),
        row=np.empty(capacity, np.int64),
        touched=np.empty(capacity, np.bool_),
        other_image=np.empty(capacity, np.int64),
        first=np.empty(capacity),
        by_first=np.empty(capacity, np.int64),
        bucket=np.empty(capacity, np.int64),
    )
    count = entry_point(place_images)(delta, required, key, np.empty(capacity, np.int64), images)
    if count == capacity:
        return images
    return RowImages._make((images.start, images.middle, *(column[:count] for column in images[2:])))


def _is_rankable(columns: Floats, born: Longs, required: int) -> Bools:
    rankable: Bools = (born != ABSENT) & ~np.isnan(columns[:, :required]).any(axis=1)
    return rankable
