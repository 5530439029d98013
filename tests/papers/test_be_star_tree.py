"""BE*-Tree and BE-Tree against the oracle after each step, and against the scan on larger workloads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import settings

from tests.conftest import INTERPRETED, examples
from tests.indexes.matching.test_access import OPERATORS, names_of, same, weighted
from tests.indexes.matching.test_scan import (
    NAN,
    OPERANDS,
    MatchMachine,
    column_of,
    id_order,
    matches,
    slots_of,
)
from tests.oracles.matching import Matching
from tocsin.engine.conversion.events import events_from_rows
from tocsin.indexes.matching import MatchScan, PredicateColumns
from tocsin.indexes.matching.access import bounds
from tocsin.indexes.matching.access.layout_kernels import GUARDS, KEY_BITS
from tocsin.indexes.matching.layout import PREDICATE, SLOT, SUM
from tocsin.papers.be_star_tree import BEStarTree, BETree, CountingIndex, KIndex, TreeOptions
from tocsin.papers.be_star_tree.betree_code_kernels import Codes, pack_expressions
from tocsin.papers.be_star_tree.betree_layout_kernels import N_NODES
from tocsin.papers.be_star_tree.workload import Knobs, boxes, planted, points

COUNT = 600 if INTERPRETED else 50_000
MAKERS: dict[str, Callable[[], BEStarTree]] = {
    "rare": lambda: BEStarTree(capacity=2),
    "popular": lambda: BEStarTree(2, options=TreeOptions(leaf=5, first="popular", is_capped=False)),
    "approximate": lambda: BEStarTree(2, options=TreeOptions(leaf=8, split="approximate")),
    "rigid": lambda: BETree(capacity=2),
}


class StarMachine(MatchMachine):
    """Leaves of one, so that nearly everything is split, and one by one."""

    def make(self) -> BEStarTree:
        return BEStarTree(2, options=TreeOptions(leaf=1, first="popular", beta=2), is_batch=False)


class BatchMachine(MatchMachine):
    """Built at once where many come, the other way to split and the other order."""

    def make(self) -> BEStarTree:
        return BEStarTree(2, options=TreeOptions(leaf=2, split="approximate"))


class CountingMachine(MatchMachine):
    """Posting lists, counted."""

    def make(self) -> CountingIndex:
        return CountingIndex(capacity=2)


class JoiningMachine(MatchMachine):
    """Posting lists, joined."""

    def make(self) -> CountingIndex:
        return KIndex(capacity=2)


class RigidMachine(MatchMachine):
    """The ancestor."""

    def make(self) -> BEStarTree:
        return BETree(2, options=TreeOptions(leaf=1), is_batch=False)


for machine in (StarMachine, BatchMachine, RigidMachine, CountingMachine, JoiningMachine):
    machine.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=15)
TestStar = StarMachine.TestCase
TestBatch = BatchMachine.TestCase
TestRigid = RigidMachine.TestCase
TestCounting = CountingMachine.TestCase
TestJoining = JoiningMachine.TestCase


@pytest.mark.parametrize("maker", [CountingIndex, KIndex])
def test_posting_lists_match_as_the_scan(maker: type[CountingIndex]) -> None:
    count = COUNT // 5
    workload = planted(Knobs(count, profiles=max(count // 200, 3)))
    slots, index, scan = np.arange(count, dtype=np.int32), maker(), MatchScan()
    for each in (index, scan):
        each.register(slots, workload.subscriptions)
    ids, events = names_of(count), workload.events(10)
    spread = events._replace(
        high=events.high + np.random.default_rng(1).choice([0.0, 9.0], events.high.shape)
    )
    for given in (events, spread):
        for top in (None, 1, 5):
            assert same(index.apply(given, top, ids), scan.apply(given, top, ids))


@pytest.mark.parametrize("kind", OPERANDS)
@pytest.mark.parametrize("maker", MAKERS)
def test_every_operator_on_every_value(kind: str, maker: str) -> None:
    index, oracle = MAKERS[maker](), Matching()
    for operator in OPERATORS:
        width = 2 if operator in ("BETWEEN", "IN", "NOT IN") else 1
        rows = list(product(OPERANDS[kind], repeat=width))
        slots = [len(oracle.by_slot) + number for number in range(len(rows))]
        operands = tuple(column_of(list(column)) for column in zip(*rows, strict=True))
        index.register(slots_of(slots), [PredicateColumns("a", operator, operands, np.ones(len(rows)))])
        for slot, row in zip(slots, rows, strict=True):
            oracle.register(slot, str(slot), [("a", operator, row, 1.0)])
    index.check_invariants()
    seen = [*chain(*OPERANDS.values()), *product(OPERANDS["numbers"], repeat=2), None, NAN, (NAN, 1.0)]
    events = [{"a": value} for value in seen]
    ids = id_order({slot: str(slot) for slot in oracle.by_slot})
    assert matches(index.apply(events_from_rows(events), None, ids)) == oracle.apply(events, None)


@pytest.mark.parametrize("is_zipf", [False, True])
@pytest.mark.parametrize("maker", MAKERS)
def test_planted_workloads_are_matched_as_by_the_scan(is_zipf: bool, maker: str) -> None:
    workload = planted(Knobs(COUNT, is_zipf=is_zipf, profiles=COUNT // 200))
    slots, index, scan = np.arange(COUNT, dtype=np.int32), MAKERS[maker](), MatchScan(capacity=2)
    index.register(slots, workload.subscriptions)
    scan.register(slots, workload.subscriptions)
    ids, events = names_of(COUNT), workload.events(10)
    random = np.random.default_rng(1)
    uneven = weighted(events, random.choice([0.0, 0.5, 1.0, 2.0], len(events.weight)))
    negative = weighted(events, random.choice([-1.0, 1.0], len(events.weight)))
    for each in (events, uneven, negative):
        for top in (None, 1, 5, 10 * COUNT):
            assert same(index.apply(each, top, ids), scan.apply(each, top, ids))
    for one in (index, scan):
        one.terminate(slots[::2])
    for top in (None, 5):
        assert same(index.apply(events, top, ids), scan.apply(events, top, ids))


@pytest.mark.parametrize("maker", MAKERS)
def test_conjunctions_come_and_go_a_few_at_a_time(maker: str) -> None:
    count = 150 if INTERPRETED else 1500
    workload = planted(Knobs(count, dimensions=30, profiles=5, match_probability=0.05))
    index, scan = MAKERS[maker](), MatchScan(capacity=2)
    ids, events = names_of(count), workload.events(5)
    random = np.random.default_rng(3)
    there = np.zeros(count, np.bool_)
    for turn in range(12):
        fresh = np.flatnonzero(~there & (random.random(count) < 0.2)).astype(np.int32)
        gone = np.flatnonzero(there & (random.random(count) < 0.1 + 0.7 * (turn % 5 == 4))).astype(np.int32)
        for each in (index, scan):
            each.terminate(gone)
            each.register(fresh, workload.subscriptions.take(fresh))
        there[gone], there[fresh] = False, True
        assert len(index) == there.sum()
        for top in (None, 2):
            assert same(index.apply(events, top, ids), scan.apply(events, top, ids))
        index.check_invariants()
    assert index.recycle(np.inf) > 0
    index.check_invariants()
    assert same(index.apply(events, None, ids), scan.apply(events, None, ids))
    index.terminate(np.flatnonzero(there).astype(np.int32))
    index.check_invariants()
    assert len(index) == 0


@pytest.mark.parametrize("maker", MAKERS)
def test_ranges_in_events(maker: str) -> None:
    count = COUNT // 10
    index, scan = MAKERS[maker](), MatchScan(capacity=2)
    slots = np.arange(count, dtype=np.int32)
    for each in (index, scan):
        each.register(slots, boxes(count, 10, 0.1))
    ids, events = names_of(count), points(10, 10)
    random = np.random.default_rng(1)
    events = events._replace(high=events.low + random.choice([0.0, 0.01, 0.5], events.low.shape))
    for top in (None, 3):
        assert same(index.apply(events, top, ids), scan.apply(events, top, ids))


def test_two_thousand_dimensions() -> None:
    count = 300 if INTERPRETED else 20_000
    workload = planted(Knobs(count, dimensions=2000, profiles=50, match_probability=0.005))
    slots, index, scan = np.arange(count, dtype=np.int32), BEStarTree(capacity=2), MatchScan(capacity=2)
    index.register(slots, workload.subscriptions)
    scan.register(slots, workload.subscriptions)
    ids, events = names_of(count), workload.events(10)
    for top in (None, 3):
        assert same(index.apply(events, top, ids), scan.apply(events, top, ids))


def ranges_of(lows: list[float], highs: list[float]) -> list[PredicateColumns]:
    return [PredicateColumns("a", "BETWEEN", (np.array(lows), np.array(highs)), np.ones(len(lows)))]


def test_a_far_away_range_gets_a_bucket_above() -> None:
    """Bottom-up expansion: the directory grows upwards, and what is below keeps its bounds."""
    index = BEStarTree(2, options=TreeOptions(leaf=2), is_batch=False)
    lows = [float(number) for number in range(12)]
    index.register(np.arange(12, dtype=np.int32), ranges_of(lows, lows))
    before = int(index._tree.partitions["top"][0])
    index.register(slots_of([12]), ranges_of([1000.0], [2000.0]))
    tree = index._tree
    top = int(tree.partitions["top"][0])
    assert tree.nodes["left"][top] == before
    assert tree.nodes["high"][before] == 11.0
    assert tree.nodes["high"][top] == 2000.0
    index.check_invariants()
    index.terminate(slots_of([12]))
    assert index._tree.nodes["high"][int(index._tree.partitions["top"][0])] == 11.0
    index.check_invariants()


def test_clusters_are_split_at_the_gap() -> None:
    index = BEStarTree(2, options=TreeOptions(leaf=5))
    lows = [0.0, 1.0, 2.0, 3.0, 100.0, 101.0, 102.0, 103.0]
    index.register(np.arange(8, dtype=np.int32), ranges_of(lows, [low + 0.5 for low in lows]))
    tree = index._tree
    top = int(tree.partitions["top"][0])
    left, right = int(tree.nodes["left"][top]), int(tree.nodes["right"][top])
    assert (tree.nodes["high"][left], tree.nodes["low"][right]) == (3.5, 100.0)
    assert tree.nodes["count"][top] == 0


def test_what_comes_after_the_bounds_were_collected_is_not_exact() -> None:
    index, scan = BEStarTree(2, options=TreeOptions(leaf=2)), MatchScan(capacity=2)
    known, new = ranges_of([0.0, 2.0, 4.0], [2.0, 4.0, 6.0]), ranges_of([1.0, 2.0], [2.0, 9.0])
    events = events_from_rows([{"a": half / 2} for half in range(-1, 20)])
    for slots, ranges in (([0, 1, 2], known), ([3, 4], new)):
        for each in (index, scan):
            each.register(slots_of(slots), ranges)
        assert same(index.apply(events, None, names_of(5)), scan.apply(events, None, names_of(5)))
        index.check_invariants()
    assert index._tree.is_exact[:5].tolist() == [1, 1, 1, 0, 0]


def test_more_bounds_than_codes_leave_nothing_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_PREDICATES", 40)
    count, index, scan = 300, BEStarTree(capacity=2), MatchScan(capacity=2)
    for each in (index, scan):
        each.register(np.arange(count, dtype=np.int32), boxes(count, 4, 0.3))
    ids, events = names_of(count), points(10, 4)
    for top in (None, 2):
        assert same(index.apply(events, top, ids), scan.apply(events, top, ids))
    index.check_invariants()
    assert not index._tree.is_exact.any()


def test_keys_beyond_codes_are_met_by_every_event() -> None:
    predicates, slots = np.zeros(1, PREDICATE), np.zeros(1, SLOT)
    predicates["key"], predicates["test"], slots["count"] = 1 << KEY_BITS, -1, 1
    codes = Codes(bounds.spaced_bounds(np.zeros(0), np.zeros(1, np.int64)), np.zeros(1, np.int64))
    score, is_exact = np.zeros(1), np.ones(1, np.int8)
    pack_expressions(predicates, slots, slots_of([0]), np.int64(SUM), codes, score, is_exact)
    assert codes.packed[0] == GUARDS
    assert is_exact[0] == 0


def test_losses_lower_the_rank() -> None:
    index = BEStarTree(2, options=TreeOptions(leaf=2))
    workload = planted(Knobs(300, dimensions=20, profiles=5, match_probability=0.05))
    index.register(np.arange(300, dtype=np.int32), workload.subscriptions)
    before = index._tree.partitions["rank"].sum()
    index.apply(workload.events(100), None, names_of(300))
    assert index._tree.partitions["lost"].sum() > 0
    one = slots_of([0])
    index.terminate(one)
    index.register(one, workload.subscriptions.take(one))
    assert index._tree.partitions["rank"].sum() < before
    assert index._tree.state[N_NODES] > 1
