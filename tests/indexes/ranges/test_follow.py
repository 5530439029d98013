"""An index that follows a delta without being asked what it changes is the one that tells of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples
from tests.indexes.ranges.test_machines import read_changes, shown
from tests.indexes.ranges.test_tiles import World
from tests.planning.indexes import topk_of_range


@pytest.mark.parametrize("many", [1, 10**6], ids=["tiles", "scan"])
@settings(max_examples=examples(8))
@given(seed=st.integers(0, 99), descending=st.booleans())
def test_following_is_applying(many: int, seed: int, descending: bool) -> None:
    world = World(seed, 30, 40, (1, 3))
    told, untold = (
        topk_of_range(descending=descending, capacity=2, min_subscriptions=many) for _ in range(2)
    )
    for index in (told, untold):
        index.register(world.slots, world.bounds)
    for count, each in ((30, False), (15, True), (10, False), (1, True)):
        delta = world.delta(world.some(count), each=each)
        # A column that is NULL now, as it may be at any time.
        delta.after[0, 1] = np.nan
        world.y[delta.row[0]] = np.nan
        told.apply(delta)
        untold.follow(delta)
        untold.check_invariants()
    assert shown(read_changes(told.result(world.slots))) == shown(read_changes(untold.result(world.slots)))
    assert told.arrays().keys() == untold.arrays().keys()
    for name, array in told.arrays().items():
        np.testing.assert_array_equal(array, untold.arrays()[name])
