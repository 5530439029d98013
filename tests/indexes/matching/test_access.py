"""The access index against the oracle, and against the scan on larger workloads."""

from __future__ import annotations

from itertools import chain, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import INTERPRETED, examples
from tests.indexes.matching.test_scan import (
    NAN,
    OPERANDS,
    MatchMachine,
    column_of,
    id_order,
    matches,
    slots_of,
)
from tests.oracles.matching import Matching, Predicate
from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.strings import StringInterner
from tocsin.engine.conversion.events import events_from_rows
from tocsin.indexes.matching import (
    AccessIndex,
    Conjunctions,
    Events,
    IdOrder,
    MatchScan,
    PredicateColumns,
    report_kernels,
)
from tocsin.indexes.matching.access import (
    bounds,
    build_kernels,
    layout_kernels,
    order_kernels,
    search_kernels,
    visit_kernels,
)
from tocsin.indexes.matching.access import index as access
from tocsin.indexes.matching.access.segments import BlockSegment
from tocsin.papers.be_star_tree.workload import (
    Knobs,
    boxes,
    numeric_conjunctions,
    numeric_events,
    planted,
    points,
)

OPERATORS = ("<", "<=", "=", "<>", ">=", ">", "BETWEEN", "IN", "NOT IN")
COUNT = 600 if INTERPRETED else 50_000


class AccessMachine(MatchMachine):
    """As the scan's, with a tail of two, so that nearly everything is in segments."""

    def make(self) -> AccessIndex:
        return AccessIndex(capacity=2, tail=2, score_rule=self.score)


AccessMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=15)
TestAccess = AccessMachine.TestCase


def names_of(count: int) -> IdOrder:
    """Ids that do not follow the slots."""
    names = StringInterner()
    owner, _ = names.add(pa.array([f"id{7 * slot % count}" for slot in range(count)]))
    return IdOrder(names.columns.heap, names.columns.starts, names.columns.lengths, owner.astype(np.int32))


def same(left: ChangeSet, right: ChangeSet) -> bool:
    """To the bit."""
    pairs: list[tuple[np.ndarray, np.ndarray]] = list(zip(left, right, strict=True))
    return all(one.tobytes() == other.tobytes() for one, other in pairs)


def both(given: Conjunctions, count: int) -> tuple[AccessIndex, MatchScan]:
    slots = np.arange(count, dtype=np.int32)
    index, scan = AccessIndex(capacity=2), MatchScan(capacity=2)
    index.register(slots, given)
    scan.register(slots, given)
    return index, scan


def weighted(events: Events, weights: np.ndarray) -> Events:
    return events._replace(weight=weights)


@pytest.mark.parametrize("is_zipf", [False, True])
@pytest.mark.parametrize("cluster_size", [100, 100_000])
def test_planted_workloads_are_matched_as_by_the_scan(is_zipf: bool, cluster_size: int) -> None:
    knobs = Knobs(COUNT, is_zipf=is_zipf, cluster_size=cluster_size, profiles=COUNT // 200)
    workload = planted(knobs)
    index, scan = both(workload.subscriptions, COUNT)
    ids, events = names_of(COUNT), workload.events(20)
    random = np.random.default_rng(1)
    uneven = weighted(events, random.choice([0.0, 0.5, 1.0, 2.0], len(events.weight)))
    negative = weighted(events, random.choice([-1.0, 1.0], len(events.weight)))
    found = index.apply(events, None, ids)
    assert len(found.step) > 0
    for each in (events, uneven, negative):
        for top in (None, 1, 5, 10 * COUNT):
            assert same(index.apply(each, top, ids), scan.apply(each, top, ids))
    half = np.arange(0, COUNT, 2, dtype=np.int32)
    index.terminate(half)
    scan.terminate(half)
    for top in (None, 5):
        assert same(index.apply(events, top, ids), scan.apply(events, top, ids))


@pytest.mark.parametrize("width", [0.02, 0.2])
def test_boxes_are_matched_as_by_the_scan(width: float) -> None:
    index, scan = both(boxes(COUNT, 10, width), COUNT)
    ids, events = names_of(COUNT), points(20, 10)
    spread = events._replace(
        high=events.low + np.random.default_rng(1).choice([0.0, 0.01, 0.5], events.low.shape)
    )
    for each in (events, spread):
        for top in (None, 3):
            assert same(index.apply(each, top, ids), scan.apply(each, top, ids))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_boxes_of_the_same_attributes_lie_in_partitions(dimensions: int) -> None:
    """Long ones and short ones, points, some that nothing satisfies, and two ranges of one attribute."""
    count, random = 4_000 if INTERPRETED else 60_000, np.random.default_rng(dimensions)
    asked = np.tile(np.arange(dimensions + 1) % dimensions, (count, 1))
    # Few different values: bounds are equal everywhere.
    low = random.integers(0, 1_000, asked.shape) / 1_000
    high = low + random.choice([0.0, 0.001, 0.01, 0.1, NAN], asked.shape, p=[0.3, 0.3, 0.2, 0.19, 0.01])
    low[:, -1] = np.where(random.random(count) < 0.9, -np.inf, low[:, -1])
    high[:, -1] = np.where(random.random(count) < 0.9, np.inf, high[:, -1])
    names = [f"a{number}" for number in range(dimensions)]
    index, scan = both(numeric_conjunctions(names, asked, low, high, random.random(asked.shape)), count)
    index.check_invariants()
    segment = index._segments[0]
    assert isinstance(segment, BlockSegment)
    partitions = segment.columns.partitions
    access = np.repeat(np.arange(len(partitions.first) - 1), np.diff(partitions.first))
    assert INTERPRETED or (partitions.key != access).any()

    values = low[:20, :dimensions]
    events = numeric_events(names, np.tile(np.arange(dimensions), (20, 1)), values)
    spread = events._replace(high=events.low + random.choice([0.0, 0.01, 0.5], events.low.shape))
    # Events without the first attribute.
    lacking = numeric_events(names, np.tile(np.arange(1, dimensions), (20, 1)), values[:, 1:])
    ids = names_of(count)
    assert len(index.apply(events, None, ids).step) > 0
    for gone in (slots_of([]), np.arange(0, count, 3, dtype=np.int32)):
        index.terminate(gone)
        scan.terminate(gone)
        for each, top in product((events, spread, lacking), (None, 3, 100)):
            assert same(index.apply(each, top, ids), scan.apply(each, top, ids))


@pytest.mark.parametrize("kind", OPERANDS)
def test_every_operator_on_every_value(kind: str) -> None:
    index, oracle = AccessIndex(capacity=2, tail=2), Matching()
    values = OPERANDS[kind]
    for operator in OPERATORS:
        width = 2 if operator in ("BETWEEN", "IN", "NOT IN") else 1
        rows = list(product(values, repeat=width))
        slots = [len(oracle.by_slot) + number for number in range(len(rows))]
        operands = tuple(column_of(list(column)) for column in zip(*rows, strict=True))
        index.register(slots_of(slots), [PredicateColumns("a", operator, operands, np.ones(len(rows)))])
        for slot, row in zip(slots, rows, strict=True):
            oracle.register(slot, str(slot), [("a", operator, row, 1.0)])
    seen = [*chain(*OPERANDS.values()), *product(OPERANDS["numbers"], repeat=2), None, NAN, (NAN, 1.0)]
    events = [{"a": value} for value in seen]
    ids = id_order({slot: str(slot) for slot in oracle.by_slot})
    assert matches(index.apply(events_from_rows(events), None, ids)) == oracle.apply(events, None)
    index.check_invariants()


@given(data=st.data())
@settings(max_examples=examples(30))
def test_many_alike_share_columns_and_filters(data: st.DataObject) -> None:
    """Blocks with columns, with rare keys and with keys asked for twice."""
    count = data.draw(st.integers(20, 60))
    draw = np.random.default_rng(data.draw(st.integers(0, 1000)))
    index, oracle = AccessIndex(capacity=2, tail=2), Matching()
    predicates: list[list[Predicate]] = []
    for slot in range(count):
        width = int(draw.integers(0, 4))
        mine: list[Predicate] = []
        for _ in range(width):
            low, high = np.sort(draw.integers(0, 12, 2)).astype(float).tolist()
            name = str(draw.choice(["a", "b", "c", f"rare{slot % 7}"]))
            mine.append((name, "BETWEEN", (low, high), float(draw.choice([0.5, 1.0, -1.0]))))
        predicates.append(mine)
    for width in range(4):
        slots = [slot for slot in range(count) if len(predicates[slot]) == width]
        for slot in slots:
            columns = [
                PredicateColumns(name, operator, tuple(np.array([end]) for end in ends), np.array([weight]))
                for name, operator, ends, weight in predicates[slot]
            ]
            index.register(slots_of([slot]), columns)
            oracle.register(slot, f"n{count - slot}", predicates[slot])
    index.check_invariants()
    events: list[dict[str, Any]] = []
    for _ in range(12):
        chosen = draw.permutation(["a", "b", "c", *(f"rare{number}" for number in range(7))])[:5]
        event: dict[str, Any] = {
            str(name): float(draw.integers(0, 13)) - 0.5 * float(draw.integers(0, 2)) for name in chosen
        }
        if draw.random() < 0.4:
            event["a"] = tuple(np.sort(draw.integers(0, 13, 2)).astype(float).tolist())
        if draw.random() < 0.4:
            event["_weights"] = {"a": float(draw.choice([0.0, 3.0, -2.0])), "b": 0.25}
        events.append(event)
    ids = id_order({slot: name for slot, (name, _) in oracle.by_slot.items()})
    for top in (None, 1, 4, 1000):
        assert matches(index.apply(events_from_rows(events), top, ids)) == oracle.apply(events, top)


def test_two_thousand_dimensions() -> None:
    count = 300 if INTERPRETED else 20_000
    knobs = Knobs(count, dimensions=2000, profiles=50, match_probability=0.005)
    workload = planted(knobs)
    index, scan = both(workload.subscriptions, count)
    ids, events = names_of(count), workload.events(10)
    for top in (None, 3):
        assert same(index.apply(events, top, ids), scan.apply(events, top, ids))


def test_conjunctions_come_and_go_a_few_at_a_time() -> None:
    count = 200 if INTERPRETED else 3000
    workload = planted(Knobs(count, dimensions=30, profiles=5, match_probability=0.05))
    index, scan = AccessIndex(capacity=2, tail=50), MatchScan(capacity=2)
    ids, events = names_of(count), workload.events(5)
    random = np.random.default_rng(3)
    there = np.zeros(count, np.bool_)
    for turn in range(20):
        fresh = np.flatnonzero(~there & (random.random(count) < 0.2)).astype(np.int32)
        gone = np.flatnonzero(there & (random.random(count) < 0.1 + 0.5 * (turn % 5 == 4))).astype(np.int32)
        for each in (index, scan):
            each.terminate(gone)
            each.register(fresh, workload.subscriptions.take(fresh))
        there[gone], there[fresh] = False, True
        assert len(index) == there.sum()
        for top in (None, 2):
            assert same(index.apply(events, top, ids), scan.apply(events, top, ids))
    assert len(index._segments) < 12
    for name, array in scan.arrays().items():
        assert array.tobytes() == index.arrays()[name].tobytes(), name


def test_more_bounds_than_codes_make_more_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_PREDICATES", 40)
    index, scan = both(boxes(400, 10, 0.3).take(np.arange(400)), 400)
    small = AccessIndex(capacity=2, tail=2)
    small.register(np.arange(400, dtype=np.int32), boxes(400, 10, 0.3))
    assert len(small._segments) > 1
    ids, events = names_of(400), points(10, 10)
    for top in (None, 2):
        assert same(small.apply(events, top, ids), scan.apply(events, top, ids))
    small.check_invariants()
    assert len(index) == len(small) == 400


def test_few_heaps_and_few_visits_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "HEAP_PLACES", 8)
    monkeypatch.setattr(access, "VISITS", 1)
    index, scan = both(boxes(400, 4, 0.5, ranges=2), 400)
    index = AccessIndex(capacity=2, tail=2)
    index.register(np.arange(400, dtype=np.int32), boxes(400, 4, 0.5, ranges=2))
    ids, events = names_of(400), points(11, 4)
    for top in (None, 1, 3, 400):
        assert same(index.apply(events, top, ids), scan.apply(events, top, ids))


def test_events_one_by_one_and_in_strides() -> None:
    """A few events at a time are matched where the last few were, and need not lie side by side."""
    count = 300 if INTERPRETED else 20_000
    workload = planted(Knobs(count, dimensions=30, profiles=5, match_probability=0.05))
    index = AccessIndex(capacity=2, tail=50)
    scan = MatchScan(capacity=2)
    for slots in np.split(np.arange(count, dtype=np.int32), [count - 30]):
        index.register(slots, workload.subscriptions.take(slots))
        scan.register(slots, workload.subscriptions.take(slots))
    ids, events = names_of(count), workload.events(12)
    for size in (1, 3, 1, 12, 2):
        for begin in range(0, 12, size):
            some = cut(events, begin, begin + size)
            wide = some._replace(low=np.repeat(some.low, 2)[::2], attribute=np.repeat(some.attribute, 3)[::3])
            for top in (None, 1, 40):
                expected = scan.apply(some, top, ids)
                assert same(index.apply(some, top, ids), expected)
                assert same(index.apply(wide, top, ids), expected)


def cut(events: Events, begin: int, end: int) -> Events:
    """The events from `begin` to `end`."""
    entries = slice(*events.offsets[[begin, min(end, events.n_events)]])
    columns = {
        name: getattr(events, name)[entries]
        for name in ("attribute", "kind", "low", "high", "text_start", "text_length", "weight")
    }
    return events._replace(offsets=events.offsets[begin : end + 1] - events.offsets[begin], **columns)


def test_many_matches_come_by_slot() -> None:
    """More than are sorted by insertion, in slots side by side and far apart, from one segment and two."""
    count = 400 if INTERPRETED else 5000
    random = np.random.default_rng(5)
    given = boxes(count, 3, 0.9, ranges=2)
    for slots in (np.arange(count), np.sort(random.choice(40 * count, count, replace=False))):
        index, scan = AccessIndex(capacity=2, tail=20), MatchScan(capacity=2)
        order = random.permutation(count)
        for rows in (order[: count // 8], order[count // 8 :], order[:0]):
            index.register(slots[rows].astype(np.int32), given.take(rows))
            scan.register(slots[rows].astype(np.int32), given.take(rows))
        ids, events = names_of(40 * count), points(4, 3)
        found = index.apply(events, None, ids)
        assert len(found.step) > 4 * 48
        assert same(found, scan.apply(events, None, ids))
    index.check_invariants()


def test_a_tail_on_its_own_comes_by_slot() -> None:
    """Also where slots of the tail were given back, and those who had them have no id any more."""
    index, always = AccessIndex(capacity=2, tail=8), boxes(1, 1, 1.0, ranges=1)
    for slot in (3, 9, 1):
        index.register(slots_of([slot]), always)
    index.terminate(slots_of([9]))
    ids, events = names_of(4), points(2, 1)
    assert index.apply(events, None, ids).subscription.tolist() == [1, 3, 1, 3]
    index.register(slots_of([2]), always)
    assert index.apply(events, None, ids).subscription.tolist() == [1, 2, 3, 1, 2, 3]
    assert sorted(index.apply(events, 9, ids).subscription.tolist()) == [1, 1, 2, 2, 3, 3]


def test_each_kernel_has_one_signature() -> None:
    for module in (
        search_kernels,
        build_kernels,
        visit_kernels,
        layout_kernels,
        order_kernels,
        report_kernels,
    ):
        for kernel in vars(module).values():
            assert len(getattr(kernel, "signatures", [])) <= 1, kernel
