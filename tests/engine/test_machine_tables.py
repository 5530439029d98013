"""Tables: top-k by a column and by an expression, aggregates, DISTINCT, live rows and joins."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

import tocsin
from tests.oracles.conditions import Condition, Param, Score, column_score
from tests.oracles.queries import Aggregate, Distinct, Join, LiveRow, LiveRows, Query, TopK
from tests.oracles.sources import Table
from tests.oracles.strategies import (
    PairMachine,
    bigints,
    bounds,
    boxes,
    doubles,
    effort,
    expressions,
    limits,
    names,
    scores,
    sectors,
    truths,
)
from tests.oracles.values import Row

STOCKS = {
    "symbol": "string",
    "risk": "double",
    "per": "double",
    "size": "bigint",
    "sector": "string",
    "listed": "boolean",
}
HOLDERS = {"holder": "bigint", "stake": "double", "size": "bigint", "sector": "string"}

selects = st.lists(st.sampled_from(list(STOCKS)), min_size=1, max_size=3, unique=True).map(tuple)
numeric = ["risk", "per", "size"]


@st.composite
def stocks(draw: st.DrawFn) -> Row:
    """An upsert, or a delete that names the key alone."""
    symbol = draw(names)
    if draw(st.integers(0, 5)) == 5:
        return {"symbol": symbol, "_op": "delete"}
    return {
        "symbol": symbol,
        "risk": draw(doubles),
        "per": draw(doubles),
        "size": draw(bigints),
        "sector": draw(sectors),
        "listed": draw(truths),
        "_op": "upsert",
    }


@st.composite
def holders(draw: st.DrawFn) -> Row:
    return {
        "holder": draw(st.integers(8, 11)),
        "stake": draw(doubles),
        "size": draw(bigints),
        "sector": draw(sectors),
    }


@st.composite
def queries(draw: st.DrawFn) -> Query:
    kind = draw(st.sampled_from(["top", "top", "expression", "aggregate", "distinct", "rows"]))
    box = draw(boxes(numeric, equal=("sector", "listed")))
    if kind == "top":
        score = column_score(draw(st.sampled_from(numeric)))
        return TopK("stocks", draw(selects), box, score, draw(st.booleans()), draw(limits))
    if kind == "expression":
        score = draw(expressions("risk", "per"))
        return TopK("stocks", draw(selects), box, score, draw(st.booleans()), draw(limits))
    if kind == "aggregate":
        function = draw(st.sampled_from(["min", "max", "count", "sum", "avg"]))
        return Aggregate(
            "stocks", function, None if function == "count" else draw(st.sampled_from(numeric)), box
        )
    if kind == "distinct":
        return Distinct("stocks", draw(st.sampled_from([*numeric, "sector"])), box)
    return LiveRows("stocks", draw(selects), box)


@st.composite
def joins(draw: st.DrawFn) -> Join:
    on = draw(st.sampled_from(["size", "sector"]))
    return Join(
        "stocks",
        "holders",
        on,
        on,
        draw(
            st.sampled_from(
                [
                    (("stocks", "symbol"), ("holders", "holder")),
                    (("stocks", "per"), ("holders", "sector"), ("stocks", "size")),
                ]
            )
        ),
        draw(boxes(["risk", "per"], "l", ("sector", "listed"))),
        draw(boxes(["stake", "size"], "r", ("sector",))),
    )


class Tables(PairMachine):
    @initialize(
        rows=st.lists(stocks(), min_size=3, max_size=8),
        owners=st.lists(holders(), min_size=1, max_size=4),
        queries=st.lists(st.one_of(queries(), queries(), queries(), joins()), min_size=4, max_size=8),
    )
    def declare(self, rows: list[Row], owners: list[Row], queries: list[Query]) -> None:
        """Begin with rows and queries, so that the first steps already have something to change."""
        self.pair.create_table("stocks", key="symbol", columns=STOCKS)
        self.pair.create_table("holders", key="holder", columns=HOLDERS)
        self.pair.publish("stocks", rows)
        self.pair.publish("holders", owners)
        for query in queries:
            self.pair.subscribe(query)

    @rule(query=st.one_of(queries(), joins()))
    def subscribe(self, query: Query) -> None:
        self.pair.subscribe(query)

    @rule(
        ranges=st.lists(st.tuples(bounds, bounds, st.integers(1, 3)), min_size=1, max_size=3),
        score=scores("per", "risk").filter(lambda score: not score.params),
        descending=st.booleans(),
    )
    def subscribe_many(self, ranges: list[tuple[float, float, int]], score: Score, descending: bool) -> None:
        self.pair.subscribe_many(
            [
                TopK(
                    "stocks",
                    ("symbol", "per"),
                    (Condition("risk", "BETWEEN", (Param("lo", float(low)), Param("hi", float(high)))),),
                    score,
                    descending,
                    Param("k", k),
                )
                for low, high, k in ranges
            ]
        )

    @rule(rows=st.lists(stocks(), min_size=1, max_size=6), each=st.booleans())
    def publish(self, rows: list[Row], each: bool) -> None:
        self.pair.publish("stocks", rows, each=each)

    @rule(row=stocks())
    def publish_one(self, row: Row) -> None:
        self.pair.publish("stocks", [row])

    @precondition(lambda self: self.rows())
    @rule(choice=st.integers(0, 100), more=st.lists(stocks(), max_size=2), each=st.booleans())
    def insert_again(self, choice: int, more: list[Row], each: bool) -> None:
        """Delete a row and insert it as it was, in one batch."""
        rows = self.rows()
        row = rows[choice % len(rows)].values
        batch = [{"symbol": row["symbol"], "_op": "delete"}, *more, {**row, "_op": "upsert"}]
        self.pair.publish("stocks", batch, each=each)

    def rows(self) -> list[LiveRow]:
        table = self.pair.oracle.sources["stocks"]
        assert isinstance(table, Table)
        return table.live()

    @rule(rows=st.lists(holders(), max_size=3), each=st.booleans())
    def publish_holders(self, rows: list[Row], each: bool) -> None:
        self.pair.publish("holders", rows, each=each)

    @rule(symbols=st.lists(names, max_size=3), owners=st.lists(st.integers(8, 11), max_size=2))
    def delete(self, symbols: list[str], owners: list[int]) -> None:
        self.pair.delete("stocks", symbols)
        self.pair.delete("holders", owners)

    @rule(
        row=stocks(), bad=st.sampled_from([{"symbol": None}, {"rsk": 1.0}, {"per": "cheap"}, {"_op": "drop"}])
    )
    def publish_bad(self, row: Row, bad: Row) -> None:
        rows = [dict(row), {"symbol": "a", "_op": "upsert", **bad}]
        self.pair.refuses(tocsin.RowError, lambda engine: engine.publish("stocks", rows))


TestTables = Tables.TestCase
TestTables.settings = effort(0.4)
