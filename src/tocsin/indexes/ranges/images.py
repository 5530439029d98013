"""From a delta to images: the rows before and after each step, sorted for the kernels."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ABSENT, Bools, Floats, Longs, RowDelta
from tocsin.indexes.ranges.images_kernels import place_images
from tocsin.indexes.ranges.step_kernels import Images
from tocsin.indexes.shared.direct import compiled
from tocsin.indexes.shared.scans import writable

#: Up to so many rows are sorted one by one.
FEW = 32


def widened(columns: Floats, dimensions: int) -> Floats:
    """The columns with -0.0 as 0.0. Without a dimension, a column of zeros comes first to be one."""
    if dimensions:
        return columns + 0.0
    wider = np.zeros((len(columns), columns.shape[1] + 1))
    wider[:, 1:] += columns
    return wider


def build_images(delta: RowDelta, before: Floats, after: Floats, *, required: int, key: int) -> Images:
    """The images of a delta whose values are `before` and `after`.

    A row is an image only if its first `required` columns hold no NaN, and if the step says anything
    about it at all. Old and new images of a step are each sorted by column `key`, then by born.
    Cost: n log n, all in NumPy but for few rows.
    """
    if len(delta.row) <= FEW:
        return _few_images(delta, before, after, required, key)
    is_news = (before != after).any(axis=1) | (delta.born_before != delta.born_after) | delta.touched
    old = np.flatnonzero(is_news & _is_rankable(before, delta.born_before, required))
    new = np.flatnonzero(is_news & _is_rankable(after, delta.born_after, required))
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
    return Images(
        start=start.astype(np.int64),
        middle=(start[:-1] + n_old).astype(np.int64),
        value=np.ascontiguousarray(value),
        born=born,
        row=delta.row[entry].astype(np.int64),
        touched=delta.touched[entry],
        twin=place[1 - is_new, entry],
        first=value[by_first, 0],
        by_first=by_first,
        bucket=np.zeros(len(entry), np.int64),
    )


def largest_step(images: Images) -> int:
    """How many images a step has, at most."""
    return len(images.row) if len(images.middle) == 1 else int(np.diff(images.start).max(initial=0))


def _few_images(delta: RowDelta, before: Floats, after: Floats, required: int, key: int) -> Images:
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
    room, width, steps = 2 * len(delta.row), delta.before.shape[1], len(delta.seq)
    images = Images(
        start=np.empty(steps + 1, np.int64),
        middle=np.empty(steps, np.int64),
        value=np.empty((room, width)),
        born=np.empty(room, np.int64),
        row=np.empty(room, np.int64),
        touched=np.empty(room, np.bool_),
        twin=np.empty(room, np.int64),
        first=np.empty(room),
        by_first=np.empty(room, np.int64),
        bucket=np.empty(room, np.int64),
    )
    count = compiled(place_images)(delta, required, key, np.empty(room, np.int64), images)
    if count == room:
        return images
    return Images._make((images.start, images.middle, *(column[:count] for column in images[2:])))


def _is_rankable(columns: Floats, born: Longs, required: int) -> Bools:
    rankable: Bools = (born != ABSENT) & ~np.isnan(columns[:, :required]).any(axis=1)
    return rankable
