"""Endpoint trees: the known traps, the logarithmic method, and the paper's scenarios against the scan."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from benchmarks.threshold_parts.playing import Make, Player
from benchmarks.threshold_parts.workloads import Workload, fixed_load, static, stochastic, uniform

from tests.conftest import INTERPRETED
from tests.indexes.thresholds.machine import Make as MakeWithCapacity
from tests.indexes.thresholds.machine import columns_of, slots_of
from tests.indexes.thresholds.test_scan import INDEXES
from tocsin.arrays.types import Floats
from tocsin.indexes.thresholds import ThresholdScan
from tocsin.papers.thresholding.logarithmic_method import QueryBoxes
from tocsin.papers.thresholding.nested_trees import build_nested_trees, canonical_nodes
from tocsin.papers.thresholding.tracking import EndpointTree, EndpointTrees
from tocsin.papers.thresholding.tracking_kernels import LEFT, SLACK

Scenario = Callable[[int, int, int, int], Workload]
SIZE = 40 if INTERPRETED else 200


def points(*values: float) -> Floats:
    return np.array(values).reshape(-1, 1)


def ones(count: int) -> np.ndarray:
    return np.ones(count, np.int64)


def test_growth_since_the_round_began_is_what_counts() -> None:
    # The nodes of the second query have counted before it came; a round that took their totals for its
    # own growth would end too early.
    index = EndpointTrees(1, 1, 2)
    index.register(slots_of(0), columns_of([([(0.0, 9.0)], 10**6, False)], 1))
    index.apply(points(*[4.0] * 500), ones(500))
    index.register(slots_of(1), columns_of([([(0.0, 9.0)], 1000, False)], 1))
    assert not index.apply(points(*[4.0] * 999), ones(999))
    assert index.apply(points(4.0, 4.0), ones(2)).step.tolist() == [0]
    assert index.progress(slots_of(0))[0].tolist() == [1501]


@pytest.mark.parametrize("weights", [[10**9], [10**6 - 1, 1], [999_990, 1, 1, 50], [1, 999_000, 998, 1]])
def test_one_row_may_cross_many_slacks_and_rounds(weights: list[int]) -> None:
    index = EndpointTrees(1, 1, 2)
    rows = [([(float(low), 9.0)], 10**6, False) for low in range(9)]
    index.register(np.arange(9, dtype=np.int32), columns_of(rows, 1))
    changes = index.apply(points(*[9.0] * len(weights)), np.array(weights))
    total = np.cumsum(weights)
    crossing = int(np.argmax(total >= 10**6))
    assert changes.step.tolist() == [crossing] * 9
    assert changes.score.tolist() == [float(total[crossing])] * 9


def test_slack_is_half_of_the_missing_weight_shared_out() -> None:
    boxes = QueryBoxes(
        points(0.0, 1.0), points(7.0, 4.0), np.array([1000, 7]), np.array([0, 2]), np.zeros(2, np.bool_)
    )
    tree = EndpointTree(boxes)
    entries = np.diff(tree._columns.query_begin).tolist()
    assert tree._columns.query_round.tolist() == [[1000 // (2 * entries[0]), entries[0]], [1, 5]]
    assert (SLACK, LEFT) == (0, 1)


def test_canonical_nodes_cut_each_box_without_overlap() -> None:
    random = np.random.default_rng(3)
    ends = np.sort(random.integers(0, 40, (50, 2)), axis=1).astype(np.float64)
    pairs = build_nested_trees(points(*ends[:, 0]), points(*ends[:, 1]))
    size = len(pairs.nested.bound)
    begin, node = canonical_nodes(pairs.nested.tree_begin, pairs.pair_tree, pairs.pair_first, pairs.pair_last)
    for box, (low, high) in enumerate(ends):
        covered = []
        for top in node[begin[box] : begin[box + 1]].tolist():
            row = [top]
            while row[0] < size:
                row = [child for parent in row for child in (2 * parent, 2 * parent + 1)]
            covered += [leaf - size for leaf in row]
        expected = [leaf for leaf, start in enumerate(pairs.nested.bound) if low <= start <= high]
        assert sorted(covered) == expected


def test_trees_double_in_size_and_shrink_when_half_is_gone() -> None:
    index = EndpointTrees(1, 1, 2)
    for slot in range(13):
        index.register(slots_of(slot), columns_of([([(0.0, float(slot))], 100, False)], 1))
        index.check_invariants()
    assert sum(index._n_living) == 13
    assert len(index._n_living) <= 5
    largest = max(index._slots, key=len)
    index.terminate(largest[: len(largest) // 2 + 1])
    index.check_invariants()
    assert sum(map(len, index._slots)) == sum(index._n_living) == 13 - len(largest) // 2 - 1
    assert "endpoint trees over" in index.explain()
    assert index.parameters(12)["hi"] == [12.0]


SCENARIOS: dict[str, Scenario] = {
    "static": static,
    "uniform": uniform,
    "stochastic": stochastic,
    "fixed-load": fixed_load,
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
@pytest.mark.parametrize("dimensions", [1, 2])
def test_scenarios_of_the_paper(scenario: Scenario, dimensions: int) -> None:
    workload = scenario(SIZE, 100 * SIZE, dimensions, 20)
    expected = Player(ThresholdScan, workload, 20).play().matured()
    assert expected
    for make in INDEXES.values():
        assert Player(made(make), workload, 20).play().matured() == expected
    for batch in (1, 7):
        assert Player(EndpointTrees, workload, batch).play().matured() == expected


def made(make: MakeWithCapacity) -> Make:
    """With a small initial capacity, so that everything has to grow."""
    return lambda dimensions, scale: make(dimensions, scale, 2)
