"""DuckDB answers the same statements over the same rows, where it means the same.

It ranks NULL and has another order among ties, so the rows here have no NaN, and of a top-k only the
column that it is ordered by is compared.
"""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests.oracles.conditions import column_score
from tests.oracles.engine import OracleEngine
from tests.oracles.pair import rows_of
from tests.oracles.queries import Aggregate, Distinct, Join, LiveRows, Query, TopK
from tests.oracles.strategies import FINITE, boxes, effort, sectors, truths
from tests.oracles.values import Value

STOCKS = {
    "symbol": "string",
    "risk": "double",
    "per": "double",
    "size": "bigint",
    "sector": "string",
    "listed": "boolean",
}
OWNERS = {"owner": "bigint", "size": "bigint", "stake": "double"}
ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "double": pa.float64(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
}

numbers = st.sampled_from([*FINITE, None])
sizes = st.sampled_from([0, 1, 2, None])
numeric = st.sampled_from(["risk", "per", "size"])
stocks = st.lists(st.tuples(numbers, numbers, sizes, sectors, truths), max_size=8)
owners = st.lists(st.tuples(sizes, numbers), max_size=5)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    box = draw(boxes(["risk", "per", "size"], equal=("sector", "listed")))
    column = draw(numeric)
    kind = draw(st.sampled_from(["top", "aggregate", "distinct", "rows", "join"]))
    if kind == "top":
        k = draw(st.integers(1, 4))
        return TopK("stocks", (column,), box, column_score(column), draw(st.booleans()), k)
    if kind == "aggregate":
        function = draw(st.sampled_from(["min", "max", "count", "sum", "avg"]))
        return Aggregate("stocks", function, None if function == "count" else column, box)
    if kind == "distinct":
        return Distinct("stocks", column, box)
    if kind == "rows":
        return LiveRows("stocks", ("symbol", "risk", "size"), box)
    select = (("stocks", "symbol"), ("owners", "owner"))
    return Join("stocks", "owners", "size", "size", select, box, draw(boxes(["stake"], "r")))


def second_opinion(query: Query, tables: dict[str, pa.Table]) -> list[dict[str, Any]]:
    """DuckDB's answer; NULLs are kept out of what is ranked or distinct, as the rules have it."""
    sql = re.sub(r":(\w+)", r"$\1", query.sql())
    if isinstance(query, TopK | Distinct):
        column = query.column if isinstance(query, Distinct) else query.score.sql
        source = f"(SELECT * FROM stocks WHERE {column} IS NOT NULL) AS stocks"
        sql = sql.replace("FROM stocks", f"FROM {source}")
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.execute(sql, query.params())
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def in_any_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(
        repr({name: float(v) if isinstance(v, int) else v for name, v in row.items()}) for row in rows
    )


@effort(0.6)
@given(query=queries(), stocks=stocks, owners=owners)
def test_duckdb_agrees(
    query: Query,
    stocks: list[tuple[float | None, float | None, int | None, str | None, bool | None]],
    owners: list[tuple[int | None, float | None]],
) -> None:
    shares: list[dict[str, Value]] = [
        {"symbol": f"s{place}", "risk": risk, "per": per, "size": size, "sector": sector, "listed": listed}
        for place, (risk, per, size, sector, listed) in enumerate(stocks)
    ]
    people: list[dict[str, Value]] = [
        {"owner": place, "size": size, "stake": stake} for place, (size, stake) in enumerate(owners)
    ]
    engine, oracle = tocsin.Engine(), OracleEngine()
    tables = {}
    for name, key, columns, rows in (
        ("stocks", "symbol", STOCKS, shares),
        ("owners", "owner", OWNERS, people),
    ):
        engine.create_table(name, key=key, columns=columns)
        oracle.create_table(name, key=key, columns=columns)
        engine.publish(name, rows)
        oracle.publish(name, rows)
        schema = pa.schema({column: ARROW[type_name] for column, type_name in columns.items()})
        tables[name] = pa.Table.from_pylist(rows, schema)
    want = second_opinion(query, tables)
    params: dict[str, Any] = dict(query.params())
    engine.subscribe(query.sql(), id="q", **params)
    oracle.subscribe(query, id="q")
    got = rows_of(engine.result("q"))
    if isinstance(query, TopK):
        assert got == want == oracle.result("q")
    else:
        assert in_any_order(got) == in_any_order(want) == in_any_order(oracle.result("q"))
