"""Single ranges, in lists by interval, against the oracle and the scan."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import INTERPRETED, examples
from tests.indexes.matching.test_access import names_of, same
from tests.indexes.matching.test_scan import MatchMachine, id_order, matches, slots_of
from tests.oracles.matching import Matching
from tocsin.arrays.types import Floats
from tocsin.engine.conversion.events import events_from_rows
from tocsin.indexes.matching import AccessIndex, Conjunctions, Events, MatchScan, PredicateColumns
from tocsin.indexes.matching.access import segments, single_range_kernels
from tocsin.indexes.matching.access.single_ranges import SingleRangeSegment
from tocsin.papers.be_star_tree.workload import boxes, numeric_conjunctions, points

COUNT = 600 if INTERPRETED else 30_000
INF = float("inf")
#: Few values, so that ranges begin and end at the same ones; and those at the ends of all.
VALUES = st.sampled_from([-INF, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, sys.float_info.max, INF])


class SingleRangeMachine(MatchMachine):
    """As the scan's, with a tail of two, and single ranges in segments of their own from the first on."""

    def make(self) -> AccessIndex:
        return AccessIndex(capacity=2, tail=2, score_rule=self.score, min_single=1)


SingleRangeMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=15)
TestSingleRanges = SingleRangeMachine.TestCase


class SingleRangeProductMachine(SingleRangeMachine):
    score = "product"


SingleRangeProductMachine.TestCase.settings = settings(max_examples=examples(10), stateful_step_count=15)
TestSingleRangeProduct = SingleRangeProductMachine.TestCase


def only_segment(index: AccessIndex) -> SingleRangeSegment:
    (segment,) = index._segments
    assert isinstance(segment, SingleRangeSegment)
    return segment


@given(data=st.data())
@settings(max_examples=examples(60))
def test_ranges_with_common_ends(data: st.DataObject) -> None:
    ends = data.draw(st.lists(st.tuples(VALUES, VALUES), min_size=3, max_size=80))
    weights = data.draw(
        st.lists(st.sampled_from([-1.0, -0.0, 0.5, 1.0]), min_size=len(ends), max_size=len(ends))
    )
    index, oracle = AccessIndex(capacity=2, tail=2, min_single=1), Matching()
    low, high = (np.array(column) for column in zip(*ends, strict=True))
    columns = [PredicateColumns("a", "BETWEEN", (low, high), np.array(weights))]
    index.register(np.arange(len(ends), dtype=np.int32), columns)
    for slot, (pair, weight) in enumerate(zip(ends, weights, strict=True)):
        oracle.register(slot, str(slot), [("a", "BETWEEN", pair, weight)])
    gone = data.draw(st.sets(st.integers(0, len(ends) - 1), max_size=len(ends) // 2 - 1))
    index.terminate(slots_of(sorted(gone)))
    for slot in gone:
        oracle.terminate(slot)
    index.check_invariants()
    only_segment(index)
    events: list[dict[str, Any]] = [
        {"a": value} for value in data.draw(st.lists(VALUES | st.tuples(VALUES, VALUES), max_size=12))
    ]
    for event, weight in zip(events, data.draw(st.lists(st.sampled_from([-2.0, 0.0, 3.0]))), strict=False):
        event["_weights"] = {"a": weight}
    ids = id_order({slot: name for slot, (name, _) in oracle.by_slot.items()})
    for top in (None, 1, 4, 1000):
        assert matches(index.apply(events_from_rows(events), top, ids)) == oracle.apply(events, top)


def ranges_of(low: Floats, high: Floats, weight: Floats) -> Conjunctions:
    attribute = np.zeros((len(low), 1), np.int64)
    return numeric_conjunctions(["a0"], attribute, low[:, None], high[:, None], weight[:, None])


@pytest.mark.parametrize("width", [0.0, 10 / COUNT, 0.5])
def test_many_ranges_are_matched_as_by_the_scan(width: float) -> None:
    random = np.random.default_rng(1)
    low = np.round(random.random(COUNT), 3)
    # Some as wide as all values; and weights that come in another order than slots.
    high = np.where(random.random(COUNT) < 0.01, 1.0, low + width * random.random(COUNT))
    given = ranges_of(low, high, random.choice([0.25, 0.5, 1.0], COUNT))
    index, scan = AccessIndex(capacity=2, tail=20, min_single=1), MatchScan(capacity=2)
    slots = random.permutation(COUNT).astype(np.int32)
    index.register(slots, given)
    scan.register(slots, given)
    segment = only_segment(index)
    # Linear in all, whatever ranges there are.
    assert len(segment.columns.listed) <= 6 * COUNT
    ids, events = names_of(COUNT), points(20, 1)
    events = events._replace(low=np.round(events.low, 3), high=np.round(events.low, 3))
    spread = events._replace(high=events.low + random.choice([0.0, 0.002, 0.4], 20))
    weighted = events._replace(weight=random.choice([-1.0, 0.0, 2.0], 20))
    for turn in range(2):
        for each in (events, spread, weighted):
            for top in (None, 1, 3, COUNT):
                assert same(index.apply(each, top, ids), scan.apply(each, top, ids))
        gone = slots[turn::3]
        index.terminate(gone)
        scan.terminate(gone)
        assert only_segment(index).n_alive == len(index)
    for name, array in scan.arrays().items():
        assert array.tobytes() == index.arrays()[name].tobytes(), name


def test_single_ranges_beside_others() -> None:
    """Of several attributes, registered alternately: every event reports all matches, by slot."""
    count = COUNT // 6
    index, scan = AccessIndex(capacity=2, tail=20, min_single=1), MatchScan(capacity=2)
    ids, events = names_of(6 * count), points(20, 4)
    random = np.random.default_rng(2)
    slots = random.permutation(6 * count).astype(np.int32)
    for turn, ranges in enumerate((1, 2, 1, 3, 1, 1)):
        some = slots[turn * count : (turn + 1) * count]
        for each in (index, scan):
            each.register(some, boxes(count, 4, 0.1, seed=turn, ranges=ranges))
        for top in (None, 2):
            assert same(index.apply(events, top, ids), scan.apply(events, top, ids))
        assert [segment.n_records for segment in index._segments] == sorted(
            (segment.n_records for segment in index._segments), reverse=True
        )
    assert {type(segment) for segment in index._segments} == {segments.BlockSegment, SingleRangeSegment}
    if INTERPRETED:
        index.check_invariants()


def test_few_single_ranges_stay_with_others() -> None:
    index = AccessIndex(capacity=2, tail=2, min_single=50)
    index.register(np.arange(49, dtype=np.int32), boxes(49, 1, 0.1, ranges=1))
    assert isinstance(index._segments[0], segments.BlockSegment)
    index.register(np.arange(49, 90, dtype=np.int32), boxes(41, 1, 0.1, ranges=1))
    assert only_segment(index).n_records == 90


def test_a_value_between_many_ranges_reads_a_short_list() -> None:
    """However many hold the values on both sides of it."""
    low = np.repeat([5.0, 6.0, 7.0], 100)
    index = AccessIndex(capacity=2, tail=2, min_single=1)
    index.register(np.arange(300, dtype=np.int32), ranges_of(low, low, np.ones(300)))
    columns = only_segment(index).columns
    lengths = np.diff(columns.starts)
    for value in (4.0, 5.5, 6.5, 7.5):
        interval = np.searchsorted(columns.begin[:-1], value, side="right") - 1
        assert lengths[interval] <= single_range_kernels.SHORT_LIST
    index.check_invariants()


def test_each_kernel_has_one_signature() -> None:
    for kernel in vars(single_range_kernels).values():
        assert len(getattr(kernel, "signatures", [])) <= 1, kernel


def test_events_without_the_attribute_or_of_another_kind() -> None:
    index = AccessIndex(capacity=2, tail=2, min_single=1)
    index.register(np.arange(30, dtype=np.int32), boxes(30, 1, 1.0, ranges=1))
    only_segment(index)
    events: Events = events_from_rows(
        [{}, {"b": 1.0}, {"a0": "x"}, {"a0": True}, {"a0": (1.0, 0.0)}, {"a0": 0.5}]
    )
    assert index.apply(events, None, names_of(30)).step.tolist() == [5] * 30
