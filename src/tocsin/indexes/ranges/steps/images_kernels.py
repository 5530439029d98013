"""The images of a small batch, as `images.py` builds them, without a dozen NumPy calls for a single row."""

from __future__ import annotations

import math

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.contract import ABSENT, RowDelta
from tocsin.indexes.ranges.steps.step_kernels import RowColumns, RowImages


@kernel
def place_images(delta: RowDelta, required: int, key: int, entry: Longs, out_images: RowImages) -> int:
    """Write the images of a delta, sorted by insertion; returns how many. Cost: quadratic.

    `entry` and the columns of images have capacity for two per row. `entry` is scratch: twice the number of
    the entry that an image belongs to, plus one if it is new.
    """
    images, n = out_images, 0
    for i in range(len(delta.row)):
        if not _is_reported(delta, i):
            continue
        for side in range(2):
            born = delta.born_after[i] if side else delta.born_before[i]
            value = delta.after[i] if side else delta.before[i]
            if born == ABSENT or not _is_whole(value, required):
                continue
            at = n
            while at > 0 and _is_before(delta, i, side, value[key], born, entry[at - 1], images, at - 1, key):
                entry[at] = entry[at - 1]
                images.value[at] = images.value[at - 1]
                images.born[at] = images.born[at - 1]
                at -= 1
            entry[at] = 2 * i + side
            images.value[at] = value
            images.born[at] = born
            n += 1
    _describe(delta, entry, n, images)
    return n


@kernel
def store_images(images: RowImages, rows: RowColumns) -> None:
    """Set the rows to their state after the steps: images come in order of time."""
    for step in range(len(images.middle)):
        for i in range(images.start[step], images.start[step + 1]):
            rows.value[images.row[i]] = images.value[i]
            rows.born[images.row[i]] = images.born[i] if i >= images.middle[step] else ABSENT


@kernel
def _is_reported(delta: RowDelta, i: int) -> bool:
    """Whether the step changes or touches an entry."""
    n_different = 0
    for column in range(delta.before.shape[1]):
        if delta.before[i, column] != delta.after[i, column]:
            n_different += 1
    return bool(delta.touched[i] or delta.born_before[i] != delta.born_after[i] or n_different)


@kernel
def _is_whole(value: Floats, required: int) -> bool:
    n_missing = 0
    for column in range(required):
        if math.isnan(value[column]):
            n_missing += 1
    return n_missing == 0


@kernel
def _is_before(
    delta: RowDelta,
    i: int,
    side: int,
    score: float,
    born: int,
    other: int,
    images: RowImages,
    at: int,
    key: int,
) -> bool:
    """Whether a side of entry i belongs before image `at`, which is of `other`."""
    step, other_step = delta.step[i], delta.step[other // 2]
    if step != other_step:
        return bool(step < other_step)
    if side != other % 2:
        return side < other % 2
    if score != images.value[at, key]:
        return bool(score < images.value[at, key])
    return bool(born < images.born[at])


@kernel
def _describe(delta: RowDelta, entry: Longs, n: int, images: RowImages) -> None:
    """The other columns of `n` images that are in place."""
    at = 0
    for step in range(len(delta.seq)):
        images.start[step] = at
        while at < n and delta.step[entry[at] // 2] == step and entry[at] % 2 == 0:
            at += 1
        images.middle[step] = at
        while at < n and delta.step[entry[at] // 2] == step:
            at += 1
    images.start[len(delta.seq)] = n
    for i in range(n):
        images.row[i] = delta.row[entry[i] // 2]
        images.touched[i] = delta.touched[entry[i] // 2]
        images.bucket[i] = 0
        images.other_image[i] = -1
        for j in range(n):
            if entry[j] // 2 == entry[i] // 2 and j != i:
                images.other_image[i] = j
        at = i
        while (
            at > 0
            and delta.step[entry[images.by_first[at - 1]] // 2] == delta.step[entry[i] // 2]
            and images.first[at - 1] > images.value[i, 0]
        ):
            images.by_first[at] = images.by_first[at - 1]
            images.first[at] = images.first[at - 1]
            at -= 1
        images.by_first[at] = i
        images.first[at] = images.value[i, 0]
