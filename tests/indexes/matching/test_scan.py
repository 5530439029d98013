"""The match scan against its oracle."""

from __future__ import annotations

from itertools import chain, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.conftest import examples
from tests.oracles.matching import Match, Matching, Predicate
from tocsin.arrays.changes import MATCH, ChangeSet
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.types import Ints
from tocsin.engine.conversion.events import events_from_rows
from tocsin.indexes.matching import AccessIndex, IdOrder, MatchScan, PredicateColumns
from tocsin.indexes.matching.scan import scan_kernels
from tocsin.indexes.matching.scan.index import TILE
from tocsin.papers.be_star_tree import BEStarTree, CountingIndex

INFINITY = float("inf")
NAN = float("nan")
SLOTS = st.integers(0, 6)
ATTRIBUTES = st.sampled_from(["a", "b", "é"])
NUMBERS = st.sampled_from([-INFINITY, -1.0, -0.0, 0.0, 1.0, 2.0, INFINITY])
# Some share their first six bytes, where the filter on text must leave the decision to the bytes.
TEXTS = st.sampled_from(["", "\0", "a", "b", "ab", "abcdef", "abcdefg", "abcdefh", "é"])
KINDS = st.sampled_from([NUMBERS, TEXTS, st.booleans()])
WEIGHTS = st.sampled_from([-1.0, 0.0, 0.1, 0.2, 0.3, 1.0, 1.0])
OPERATORS = st.sampled_from(["<", "<=", "=", "<>", ">=", ">", "BETWEEN", "IN", "NOT IN"])
VALUES = st.one_of(
    NUMBERS, NUMBERS, TEXTS, st.booleans(), st.tuples(NUMBERS, NUMBERS), st.sampled_from([None, NAN])
)
EVENTS = st.lists(
    st.dictionaries(ATTRIBUTES, VALUES).flatmap(
        lambda event: st.one_of(
            st.just(event),
            st.dictionaries(ATTRIBUTES, WEIGHTS).map(lambda weights: {**event, "_weights": weights}),
        )
    ),
    max_size=5,
)


def slots_of(slots: list[int]) -> Ints:
    return np.array(slots, np.int32)


def matches(changes: ChangeSet) -> list[Match]:
    assert (changes.op == MATCH).all()
    assert (changes.other == -1).all()
    assert changes.row.tolist() == changes.step.tolist()
    columns = (changes.step, changes.subscription, changes.score, changes.rank)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def column_of(operands: list[Any]) -> Any:
    return pa.array(operands) if isinstance(operands[0], str) else np.array(operands)


def id_order(names: dict[int, str]) -> IdOrder:
    """As the engine keeps it: names in a set of their own, and which slot has which."""
    kept = StringInterner(capacity=2)
    owner = np.full(max(names, default=-1) + 1, -1, np.int32)
    for slot, name in sorted(names.items(), reverse=True):
        owner[slot] = kept.add([name])[0][0]
    return IdOrder(kept.columns.heap, kept.columns.starts, kept.columns.lengths, owner)


class MatchMachine(RuleBasedStateMachine):
    """Register, terminate and match in any order."""

    score = "sum"

    def make(self) -> MatchScan | AccessIndex | BEStarTree | CountingIndex:
        return MatchScan(capacity=2, score_rule=self.score)

    def __init__(self) -> None:
        super().__init__()
        self.index = self.make()
        self.oracle = Matching(self.score)
        self.n_named = 0

    @rule(data=st.data(), slots=st.sets(SLOTS, max_size=3))
    def register(self, data: st.DataObject, slots: set[int]) -> None:
        fresh = sorted(slots - self.oracle.by_slot.keys(), reverse=True)
        predicates: list[list[Predicate]] = [[] for _ in fresh]
        columns = []
        for _ in range(data.draw(st.integers(0, 3)) if fresh else 0):
            attribute, operator, kind = data.draw(ATTRIBUTES), data.draw(OPERATORS), data.draw(KINDS)
            width = {"BETWEEN": 2, "IN": data.draw(st.integers(1, 3)), "NOT IN": 2}.get(operator, 1)
            rows = [tuple(data.draw(kind) for _ in range(width)) for _ in fresh]
            weights = [data.draw(WEIGHTS) for _ in fresh]
            operands = tuple(column_of(list(column)) for column in zip(*rows, strict=True))
            columns.append(PredicateColumns(attribute, operator, operands, np.array(weights)))
            for kept, row, weight in zip(predicates, rows, weights, strict=True):
                kept.append((attribute, operator, row, weight))
        self.index.register(slots_of(fresh), columns)
        for slot, kept in zip(fresh, predicates, strict=True):
            # Ids that do not follow the order of slots, one a prefix of another.
            self.n_named += 1
            self.oracle.register(slot, "x" * (self.n_named % 3) + str(99 - self.n_named), kept)

    @rule(slots=st.sets(SLOTS))
    def terminate(self, slots: set[int]) -> None:
        gone = sorted(slots & self.oracle.by_slot.keys())
        for slot in gone:
            self.oracle.terminate(slot)
        self.index.terminate(slots_of(gone))

    @rule(events=EVENTS, top=st.sampled_from([None, 1, 2, 100]), one_by_one=st.booleans())
    def match(self, events: list[dict[str, Any]], top: int | None, one_by_one: bool) -> None:
        ids = id_order({slot: name for slot, (name, _) in self.oracle.by_slot.items()})
        if one_by_one:
            found = [
                (position, slot, score, rank)
                for position, event in enumerate(events)
                for _, slot, score, rank in matches(self.index.apply(events_from_rows([event]), top, ids))
            ]
        else:
            found = matches(self.index.apply(events_from_rows(events), top, ids))
        assert found == self.oracle.apply(events, top)

    @rule()
    def save_and_restore(self) -> None:
        before = self.index.arrays()
        self.index = self.make()
        self.index.restore(before)
        after = self.index.arrays()
        assert before.keys() == after.keys()
        for name in before:
            equal_nan = before[name].dtype == np.float64
            assert np.array_equal(before[name], after[name], equal_nan=equal_nan)

    @invariant()
    def agrees(self) -> None:
        self.index.check_invariants()
        assert not self.index.result(slots_of(list(self.oracle.by_slot)))
        assert f"{len(self.oracle.by_slot)} conjunctions" in self.index.explain()


MatchMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=15)
TestMatching = MatchMachine.TestCase


OPERANDS: dict[str, list[Any]] = {
    # Some are the same in single precision, or beyond it, where the bounds themselves must decide.
    "numbers": [-INFINITY, -1e300, -0.0, 0.0, 5e-324, 1.0, 1.0000000000000002, 1e300, INFINITY],
    "texts": ["", "\0", "a", "ab", "abcdef", "abcdef\0", "abcdefg", "abcdefh", "é"],
    "booleans": [False, True],
}


@pytest.mark.parametrize("kind", OPERANDS)
def test_every_operator_on_every_value(kind: str) -> None:
    index, oracle = MatchScan(capacity=2), Matching()
    for operator in ("<", "<=", "=", "<>", ">=", ">", "BETWEEN", "IN", "NOT IN"):
        width = 2 if operator in ("BETWEEN", "IN", "NOT IN") else 1
        rows = list(product(OPERANDS[kind], repeat=width))
        slots = [len(oracle.by_slot) + number for number in range(len(rows))]
        operands = tuple(column_of(list(column)) for column in zip(*rows, strict=True))
        index.register(slots_of(slots), [PredicateColumns("a", operator, operands, np.ones(len(rows)))])
        for slot, row in zip(slots, rows, strict=True):
            oracle.register(slot, str(slot), [("a", operator, row, 1.0)])
    values = [*chain(*OPERANDS.values()), *product(OPERANDS["numbers"], repeat=2), None, NAN, (NAN, 1.0)]
    events = [{"a": value} for value in values]
    ids = id_order({slot: str(slot) for slot in oracle.by_slot})
    assert matches(index.apply(events_from_rows(events), None, ids)) == oracle.apply(events, None)


@pytest.mark.parametrize("top", [None, 3])
def test_more_than_a_block_and_a_tile(top: int | None) -> None:
    count = scan_kernels.BLOCK + 5
    index, oracle = MatchScan(capacity=2), Matching()
    number, text = np.arange(count) % 700, [f"abcdef{slot % 3}" for slot in range(count)]
    columns = [
        PredicateColumns("n", "=", (number.astype(np.float64),), np.ones(count)),
        PredicateColumns("t", "<>", (pa.array(text),), np.arange(count) % 2 / 2),
    ]
    index.register(np.arange(count, dtype=np.int32), columns)
    for slot in range(count):
        numbered: Predicate = ("n", "=", (float(number[slot]),), 1.0)
        oracle.register(slot, str(slot), [numbered, ("t", "<>", (text[slot],), slot % 2 / 2)])
    # Odd slots begin with another attribute, so that blocks are mixed, too.
    odd = list(range(1, count, 50))
    index.terminate(slots_of(odd))
    index.register(
        slots_of(odd), [PredicateColumns("t", "=", (pa.array(["abcdef1"] * len(odd)),), np.ones(len(odd)))]
    )
    for slot in odd:
        oracle.register(slot, str(slot), [("t", "=", ("abcdef1",), 1.0)])
    events = [{"n": float(event), "t": f"abcdef{event % 2}"} for event in range(TILE + 5)]
    ids = id_order({slot: name for slot, (name, _) in oracle.by_slot.items()})
    assert matches(index.apply(events_from_rows(events), top, ids)) == oracle.apply(events, top)
    index.check_invariants()


def test_what_is_terminated_is_swept() -> None:
    index = MatchScan(capacity=2)
    for turn in range(30):
        texts = pa.array([f"a long text of turn {turn} and slot {slot}" for slot in range(20)])
        index.register(
            np.arange(20, dtype=np.int32), [PredicateColumns(f"a{turn}", "=", (texts,), np.ones(20))]
        )
        index.terminate(np.arange(20, dtype=np.int32))
        index.check_invariants()
    assert sum(array.nbytes for array in index._store.columns) < 20_000
    assert len(index._store.attributes) < 10


def test_each_kernel_has_one_signature() -> None:
    for kernel in vars(scan_kernels).values():
        assert len(getattr(kernel, "signatures", [])) <= 1, kernel
