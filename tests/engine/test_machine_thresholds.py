"""Thresholds over a stream: bigint, decimal and double weights, counts, once and again and again."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import tocsin
from tests.oracles.conditions import Condition, Operand, Param
from tests.oracles.events import Threshold
from tests.oracles.strategies import PairMachine, bounds, boxes, doubles, effort, sectors, truths
from tests.oracles.values import Row, Scalar

TRADES = {
    "ticket": "string",
    "price": "double",
    "risk": "double",
    "shares": "bigint",
    "fee": "decimal(8,2)",
    "ratio": "double",
    "sector": "string",
    "buy": "boolean",
}

shares = st.sampled_from([None, -2, 0, 1, 1, 2, 3])
fees = st.sampled_from([None, Decimal("-0.50"), Decimal("0.10"), Decimal("0.25"), Decimal("1.05")])
ratios = st.sampled_from([None, float("nan"), -1.0, 0.0, 2.0**-22, 0.1, 0.3, 1.5])

#: what each weight must reach
GOALS: dict[str | None, list[Scalar]] = {
    None: [1, 2, 5],
    "shares": [1, 3, 2.5, 10],
    "fee": [1, Decimal("0.30"), Decimal("1.05"), 2.5],
    "ratio": [1, 0.5, 3],
}


@st.composite
def trades(draw: st.DrawFn) -> Row:
    return {
        "price": draw(doubles),
        "risk": draw(doubles),
        "shares": draw(shares),
        "fee": draw(fees),
        "ratio": draw(ratios),
        "sector": draw(sectors),
        "buy": draw(truths),
    }


@st.composite
def thresholds(draw: st.DrawFn) -> Threshold:
    column = draw(st.sampled_from(list(GOALS)))
    strict = draw(st.booleans())
    goal = draw(st.sampled_from([*GOALS[column], *([0] if strict else [])]))
    tau: Operand = Param("tau", goal) if draw(st.booleans()) else goal
    return Threshold(
        "trades", column, draw(boxes(["price", "risk"], equal=("sector", "buy"))), tau, strict=strict
    )


class Thresholds(PairMachine):
    n_tickets = 0

    @initialize(keyed=st.booleans(), queries=st.lists(thresholds(), min_size=3, max_size=8))
    def declare(self, keyed: bool, queries: list[Threshold]) -> None:
        options = {"key": "ticket"} if keyed else {}
        self.pair.create_stream("trades", columns=TRADES, **options)
        for place, query in enumerate(queries):
            self.pair.subscribe(query, repeat=place % 2 == 0)

    def ticket(self) -> str:
        self.n_tickets += 1
        return f"t{self.n_tickets}"

    @rule(query=thresholds(), repeat=st.booleans())
    def subscribe(self, query: Threshold, repeat: bool) -> None:
        self.pair.subscribe(query, repeat=repeat)

    @rule(ranges=st.lists(st.tuples(bounds, bounds, st.integers(1, 4)), min_size=1, max_size=4))
    def subscribe_many(self, ranges: list[tuple[float, float, int]]) -> None:
        self.pair.subscribe_many(
            [
                Threshold(
                    "trades",
                    "shares",
                    (Condition("price", "BETWEEN", (Param("lo", float(low)), Param("hi", float(high)))),),
                    Param("tau", tau),
                )
                for low, high, tau in ranges
            ]
        )

    @rule(rows=st.lists(trades(), min_size=1, max_size=8), each=st.booleans())
    def publish(self, rows: list[Row], each: bool) -> None:
        self.pair.publish("trades", [{"ticket": self.ticket(), **row} for row in rows], each=each)

    @rule(row=trades(), bad=st.sampled_from([{"prise": 1.0}, {"shares": 0.5}, {"fee": "free"}]))
    def publish_bad(self, row: Row, bad: Row) -> None:
        good = {"ticket": "bad", **row}
        rows = [good, {**good, **bad}]
        self.pair.refuses(tocsin.RowError, lambda engine: engine.publish("trades", rows))


TestThresholds = Thresholds.TestCase
TestThresholds.settings = effort(0.4)
