"""Thresholds switch to the deferred index when a batch makes it worthwhile, and continue their counts."""

from __future__ import annotations

import numpy as np

from tests.planning.indexes import thresholds
from tocsin.arrays.changes import ChangeSet
from tocsin.indexes.thresholds import ThresholdScan
from tocsin.planning.adaptive import SwitchPoint
from tocsin.planning.rules import DEFERRED

COUNT = DEFERRED.pairs_from + 10
SWITCH = SwitchPoint(10 * COUNT, min_pairs=10 * COUNT, pairs_from=DEFERRED.pairs_from)


def subscriptions(count: int) -> dict[str, np.ndarray]:
    """Ranges that begin anywhere and need the more the later they come; every second one starts anew."""
    low = (np.arange(count) % 20).astype(np.float64)[:, None]
    tau = 20 + np.arange(count, dtype=np.int64) // 4
    return {"lo": low, "hi": low + 5, "tau": tau, "repeat": np.arange(count) % 2 == 0}


def told(changes: ChangeSet) -> list[tuple[object, ...]]:
    return list(
        zip(changes.step.tolist(), changes.subscription.tolist(), changes.score.tolist(), strict=True)
    )


def test_a_large_batch_takes_the_deferred_index_and_changes_nothing_else() -> None:
    random = np.random.default_rng(1)
    slots = np.arange(COUNT, dtype=np.int32)
    adaptive, scan = thresholds(1, 1, switch=SWITCH), ThresholdScan(1, 1)
    for index in (adaptive, scan):
        index.register(slots, subscriptions(COUNT))
    for size, is_deferred in ((1, False), (9, False), (10, True), (1, True), (40, True)):
        values, weights = random.integers(0, 26, (size, 1)).astype(float), random.integers(1, 9, size)
        assert told(adaptive.apply(values, weights)) == told(scan.apply(values, weights))
        assert adaptive.explain().startswith("deferred:" if is_deferred else "scan:")
        adaptive.check_invariants()
    assert f"{10 * COUNT:,} pairs" in adaptive.explain()
    known = adaptive.arrays()
    again = thresholds(1, 1, switch=SWITCH)
    again.restore(known)
    assert "pairs" not in again.explain()
    for one, other in zip(again.progress(slots), adaptive.progress(slots), strict=True):
        np.testing.assert_array_equal(one, other)


def test_few_subscriptions_stay_with_the_scan() -> None:
    index = thresholds(1, 1, switch=DEFERRED._replace(min_pairs=1))
    index.register(np.arange(3, dtype=np.int32), subscriptions(3))
    index.apply(np.zeros((50, 1)), np.ones(50, np.int64))
    assert index.explain().startswith("scan:")
