"""Matching: sparse and declared streams, ranges in events, weights on both sides, the best few."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis import Phase, settings
from hypothesis.stateful import initialize, rule

import tocsin
from tests.oracles.conditions import Operand, Param
from tests.oracles.events import Match, Predicate
from tests.oracles.strategies import FINITE, PairMachine, doubles, effort
from tests.oracles.values import Row, Scalar, Value

ATTRIBUTES = ["age", "city", "visits"]
VISITS = {"age": "double", "city": "string", "visits": "bigint"}

cities = st.sampled_from(["Oslo", "Rome", "it's"])
weights = st.sampled_from([0.25, 0.5, 1, 2])
ranges = st.tuples(st.sampled_from(FINITE), st.sampled_from([0.0, 0.5, 2.0])).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)
#: what predicates compare each attribute with
POOLS: dict[str, st.SearchStrategy[Scalar]] = {
    "age": st.sampled_from(FINITE),
    "visits": st.integers(0, 3),
    "city": cities,
}


@st.composite
def values(draw: st.DrawFn, attribute: str, sparse: bool) -> Value:
    """Mostly of the attribute's own type; in a sparse stream sometimes of another, or a range."""
    kind = draw(st.integers(0, 9)) if sparse else 9
    if kind == 0:
        return draw(st.sampled_from(["Oslo", True, 1, None]))
    if attribute == "city":
        return draw(st.one_of(cities, st.none()))
    if kind <= 3:
        return draw(ranges)
    return draw(st.sampled_from([None, 0, 1, 2, 3])) if attribute == "visits" else draw(doubles)


@st.composite
def visitors(draw: st.DrawFn, sparse: bool) -> Row:
    row: dict[str, Value] = {}
    for attribute in ATTRIBUTES:
        if not sparse or draw(st.integers(0, 4)) > 0:
            row[attribute] = draw(values(attribute, sparse))
    if draw(st.booleans()):
        row["_weights"] = draw(
            st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from([0.0, 0.5, 2.0, -1.0]))
        )
    return row


@st.composite
def predicates(draw: st.DrawFn, position: int) -> Predicate:
    attribute = draw(st.sampled_from(ATTRIBUTES))
    equality = ["=", "<>", "IN", "NOT IN"]
    operator = draw(
        st.sampled_from(equality if attribute == "city" else [*equality, "<", "<=", ">=", ">", "BETWEEN"])
    )
    needed = {"BETWEEN": 2, "IN": 3, "NOT IN": 2}.get(operator, 1)
    drawn = [draw(POOLS[attribute]) for _ in range(needed)]
    operands: list[Operand] = list(drawn)
    if draw(st.booleans()):
        operands = [Param(f"p{position}{place}", value) for place, value in enumerate(drawn)]
    weight = draw(st.one_of(st.none(), weights, weights.map(lambda value: Param(f"w{position}", value))))
    return Predicate(attribute, operator, tuple(operands), weight)


@st.composite
def matches(draw: st.DrawFn) -> Match:
    select = draw(st.sampled_from([("city",), ("city", "visits")]))
    n_predicates = draw(st.integers(0, 3))
    return Match("visitors", select, tuple(draw(predicates(position)) for position in range(n_predicates)))


class Matching(PairMachine):
    sparse = True

    def __init__(self) -> None:
        super().__init__()
        self.pair.create_stream("visitors", columns=None if self.sparse else VISITS)

    @initialize(queries=st.lists(matches(), min_size=4, max_size=10))
    def begin(self, queries: list[Match]) -> None:
        for query in queries:
            self.pair.subscribe(query)

    @rule(query=matches())
    def subscribe(self, query: Match) -> None:
        self.pair.subscribe(query)

    @rule(ages=st.lists(st.tuples(st.sampled_from(FINITE), cities, weights), min_size=1, max_size=4))
    def subscribe_many(self, ages: list[tuple[float, str, float]]) -> None:
        self.pair.subscribe_many(
            [
                Match(
                    "visitors",
                    ("city",),
                    (
                        Predicate("age", ">=", (Param("age", age),)),
                        Predicate("city", "<>", (Param("city", city),), Param("w", float(weight))),
                    ),
                )
                for age, city, weight in ages
            ]
        )

    @rule(data=st.data(), each=st.booleans(), top=st.sampled_from([None, None, 1, 2, 10]))
    def publish(self, data: st.DataObject, each: bool, top: int | None) -> None:
        rows = data.draw(st.lists(visitors(self.sparse), min_size=1, max_size=4))
        self.pair.publish("visitors", rows, each=each, top=top)


class DeclaredMatching(Matching):
    sparse = False

    @rule(bad=st.sampled_from([{"aeg": 1.0}, {"age": "old"}, {"city": 3}]))
    def publish_bad(self, bad: Row) -> None:
        good: Row = {"age": 1.0, "city": "Oslo", "visits": 1}
        rows = [good, {**good, **bad}]
        self.pair.refuses(tocsin.RowError, lambda engine: engine.publish("visitors", rows))


TestMatching = Matching.TestCase
TestMatching.settings = settings(effort(2), phases=[Phase.generate], database=None)
TestDeclaredMatching = DeclaredMatching.TestCase
TestDeclaredMatching.settings = settings(effort(2), phases=[Phase.generate], database=None)
