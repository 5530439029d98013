"""Images of few rows are those of many: both ways of making them give the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin.indexes.contract import ABSENT, RowDelta
from tocsin.indexes.ranges.steps import images as images_module
from tocsin.indexes.ranges.steps.images import build_images
from tocsin.indexes.ranges.steps.images_kernels import place_images

VALUES = st.sampled_from([np.nan, -np.inf, 0.0, 1.0, 2.0])


@st.composite
def deltas(draw: st.DrawFn) -> RowDelta:
    """A few entries in a few steps, some steps without any; rows are new, gone, changed or as they were."""
    steps = draw(st.integers(1, 3))
    step = np.sort(draw(st.lists(st.integers(0, steps - 1), max_size=6)))
    count = len(step)
    columns = st.lists(st.tuples(VALUES, VALUES), min_size=count, max_size=count)
    before = np.array(draw(columns), float).reshape(count, 2)
    stays = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    after = np.where(stays[:, None], before, np.array(draw(columns), float).reshape(count, 2))
    kinds = draw(st.lists(st.sampled_from(["new", "gone", "same", "again"]), min_size=count, max_size=count))
    born = np.array(draw(st.permutations(range(10, 10 + count))), np.int64)
    is_new, is_gone = (np.array([kind == name for kind in kinds], bool) for name in ("new", "gone"))
    later = born + 100 * np.array([kind == "again" for kind in kinds], np.int64)
    return RowDelta(
        seq=np.arange(steps, dtype=np.int64),
        step=step.astype(np.int32),
        row=np.array(draw(st.permutations(range(count))), np.int32),
        born_before=np.where(is_new, ABSENT, born),
        born_after=np.where(is_gone, ABSENT, later),
        before=before,
        after=after,
        touched=np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool),
    )


@given(delta=deltas(), key=st.integers(0, 1))
def test_few_rows_give_the_images_that_numpy_gives(delta: RowDelta, key: int) -> None:
    few = build_images(delta, delta.before, delta.after, required=2, key=key)
    known = images_module.SMALL_BATCH_ROWS
    try:
        images_module.SMALL_BATCH_ROWS = -1
        many = build_images(delta, delta.before, delta.after, required=2, key=key)
    finally:
        images_module.SMALL_BATCH_ROWS = known
    for name, one, other in zip(few._fields, few, many, strict=True):
        assert one.dtype == other.dtype, name
        assert one.flags.c_contiguous, name
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_the_kernel_has_one_signature() -> None:
    assert len(getattr(place_images, "signatures", [None])) <= 1
