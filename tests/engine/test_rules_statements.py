"""One small example for each row of the table of statements, and for each verb."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tocsin


@pytest.fixture
def engine() -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_table(
        "stocks", key="symbol", columns={"symbol": "string", "risk": "double", "per": "double"}
    )
    engine.create_table(
        "owners", key="owner", columns={"owner": "bigint", "symbol": "string", "stake": "double"}
    )
    engine.create_stream("flows", columns={"bytes": "double", "packets": "double"}, window="3 rows")
    engine.create_stream("trades", columns={"price": "double", "shares": "bigint"})
    engine.create_stream("visitors")
    engine.publish(
        "stocks",
        [
            {"symbol": "A", "risk": 10.0, "per": 3.0},
            {"symbol": "B", "risk": 20.0, "per": 1.0},
            {"symbol": "C", "risk": 30.0, "per": 2.0},
            {"symbol": "D", "risk": 40.0, "per": 1.0},
        ],
    )
    engine.publish(
        "owners", [{"owner": 7, "symbol": "C", "stake": 0.5}, {"owner": 8, "symbol": "A", "stake": 0.1}]
    )
    engine.publish("flows", [{"bytes": 1.0, "packets": 5.0}, {"bytes": 4.0, "packets": 1.0}])
    return engine


def answer(engine: tocsin.Engine, sql: str, **params: Any) -> list[tuple[Any, ...]]:
    """The result of a new subscription, as tuples."""
    rows = engine.result(engine.subscribe(sql, **params)).to_pylist()
    return [tuple(row.values()) for row in rows]


def test_range_top_k(engine: tocsin.Engine) -> None:
    sql = "SELECT symbol, per FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT 2"
    assert answer(engine, sql, lo=15, hi=40) == [("B", 1.0), ("D", 1.0)]
    assert answer(engine, sql, lo=25, hi=35) == [("C", 2.0)]
    assert answer(engine, sql.replace("per LIMIT", "per DESC LIMIT"), lo=0, hi=99) == [("A", 3.0), ("C", 2.0)]


def test_range_top_k_in_two_dimensions(engine: tocsin.Engine) -> None:
    sql = "SELECT symbol FROM stocks WHERE risk BETWEEN 10 AND 30 AND per < 3 ORDER BY per DESC LIMIT 5"
    assert answer(engine, sql) == [("C",), ("B",)]


@pytest.mark.parametrize(
    ("function", "value"),
    [("MIN(per)", 1.0), ("MAX(per)", 2.0), ("COUNT(*)", 3), ("SUM(per)", 4.0), ("AVG(per)", 4 / 3)],
)
def test_range_aggregates(engine: tocsin.Engine, function: str, value: float) -> None:
    assert answer(engine, f"SELECT {function} FROM stocks WHERE risk BETWEEN 20 AND 40") == [(value,)]


def test_range_distinct(engine: tocsin.Engine) -> None:
    assert answer(engine, "SELECT DISTINCT per FROM stocks WHERE risk BETWEEN 20 AND 40") == [(1.0,), (2.0,)]


def test_live_rows_of_a_table(engine: tocsin.Engine) -> None:
    assert answer(engine, "SELECT symbol FROM stocks WHERE risk > 20") == [("C",), ("D",)]


def test_live_rows_of_a_window(engine: tocsin.Engine) -> None:
    assert answer(engine, "SELECT packets FROM flows WHERE bytes BETWEEN 1 AND 4") == [(5.0,), (1.0,)]


def test_select_join(engine: tocsin.Engine) -> None:
    sql = (
        "SELECT stocks.symbol, owners.owner FROM stocks JOIN owners ON stocks.symbol = owners.symbol "
        "WHERE stocks.risk BETWEEN 0 AND :hi AND owners.stake >= 0.1"
    )
    assert answer(engine, sql, hi=99) == [("A", 8), ("C", 7)]
    assert answer(engine, sql, hi=20) == [("A", 8)]


def test_expression_top_k_of_a_table(engine: tocsin.Engine) -> None:
    assert answer(engine, "SELECT symbol FROM stocks ORDER BY risk + 20 * per DESC LIMIT 2") == [
        ("A",),
        ("C",),
    ]
    boxed = "SELECT symbol FROM stocks WHERE risk < 40 ORDER BY risk + 20 * per LIMIT 1"
    assert answer(engine, boxed) == [("B",)]


def test_expression_top_k_of_a_window(engine: tocsin.Engine) -> None:
    assert answer(engine, "SELECT bytes FROM flows ORDER BY bytes + packets DESC LIMIT 1") == [(1.0,)]
    assert answer(engine, "SELECT bytes FROM flows WHERE packets < 5 ORDER BY bytes LIMIT 9") == [(4.0,)]


def test_score_threshold_of_a_window(engine: tocsin.Engine) -> None:
    sql = "SELECT bytes FROM flows WHERE 2 * bytes + packets > :t"
    assert answer(engine, sql, t=5) == [(4.0,), (1.0,)]
    assert answer(engine, sql, t=7) == [(4.0,)]


def test_range_threshold(engine: tocsin.Engine) -> None:
    sql = "SELECT SUM(shares) AS total FROM trades WHERE price BETWEEN :lo AND :hi HAVING SUM(shares) >= :tau"
    query = engine.subscribe(sql, lo=10, hi=20, tau=100)
    engine.publish("trades", [{"price": 15.0, "shares": 60}, {"price": 21.0, "shares": 60}])
    assert engine.result(query).to_pylist() == [{"total": 60, "missing": 40}]
    changes = engine.publish("trades", [{"price": 10.0, "shares": 50}])
    assert changes.select(["op", "key", "score"]).to_pylist() == [
        {"op": "mature", "key": "2", "score": 110.0}
    ]


def test_count_threshold(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT COUNT(*) FROM trades WHERE price > 1 HAVING COUNT(*) >= 2")
    rows = [{"price": 2.0}, {"price": 1.0}, {"price": 3.0}]
    assert engine.publish("trades", rows).column("key").to_pylist() == ["2"]


def test_matching_over_sparse_rows(engine: tocsin.Engine) -> None:
    engine.subscribe(
        "SELECT * FROM visitors WHERE WEIGHT(age BETWEEN 20 AND 30, 0.4) AND city IN ('Oslo', 'Rome')"
    )
    events = [{"age": 25, "city": "Oslo"}, {"age": 25}, {"age": 31, "city": "Rome"}]
    assert engine.publish("visitors", events).select(["key", "score"]).to_pylist() == [
        {"key": "0", "score": 1.4}
    ]


def test_matching_over_declared_columns(engine: tocsin.Engine) -> None:
    query = engine.subscribe("SELECT shares FROM trades WHERE price > 10 AND shares <> 5")
    changes = engine.publish(
        "trades", [{"price": 11.0, "shares": 5}, {"price": 11.0, "shares": 6}], rows=True
    )
    assert changes.column("row").to_pylist() == ['{"shares": 6}']
    assert engine.result(query).num_rows == 0


def test_a_threshold_over_a_window_is_refused(engine: tocsin.Engine) -> None:
    with pytest.raises(tocsin.SQLError):
        engine.subscribe("SELECT SUM(bytes) FROM flows HAVING SUM(bytes) >= 5")


# The verbs


def test_subscribe_gives_an_id_of_its_own(engine: tocsin.Engine) -> None:
    sql = "SELECT symbol FROM stocks WHERE risk > 20"
    first, second = engine.subscribe(sql), engine.subscribe(sql)
    assert isinstance(first, str)
    assert first != second
    assert engine.subscribe(sql, id="mine") == "mine"


@pytest.mark.parametrize(
    "params",
    [
        {"id": ["x", "y"], "lo": [0.0, 25.0]},
        pa.table({"id": ["x", "y"], "lo": [0.0, 25.0]}),
        pd.DataFrame({"id": ["x", "y"], "lo": [0.0, 25.0]}),
    ],
    ids=["dict", "arrow", "pandas"],
)
def test_subscribe_many_takes_columns_of_parameters(engine: tocsin.Engine, params: Any) -> None:
    sql = "SELECT symbol FROM stocks WHERE risk BETWEEN :lo AND 99 ORDER BY risk LIMIT 1"
    assert engine.subscribe_many(sql, params) == 2
    assert engine.result("x").to_pylist() == [{"symbol": "A"}]
    assert engine.result("y").to_pylist() == [{"symbol": "C"}]


def test_subscribe_many_of_nothing_is_nothing(engine: tocsin.Engine) -> None:
    sql = "SELECT symbol FROM stocks WHERE risk > :lo"
    assert engine.subscribe_many(sql, {"id": [], "lo": []}) == 0
    assert engine.subscribe_many(sql, pa.table({"lo": pa.array([], pa.float64())})) == 0
    assert len(engine) == 0


@pytest.mark.parametrize("name", ["sql", "self", "name", "rows", "each"])
def test_a_parameter_may_have_any_name(engine: tocsin.Engine, name: str) -> None:
    """All but `id` and `repeat`, which are `subscribe`'s own."""
    params: dict[str, Any] = {name: 30}
    query = engine.subscribe(f"SELECT symbol FROM stocks WHERE risk > :{name}", **params)
    assert engine.result(query).to_pylist() == [{"symbol": "D"}]


@pytest.mark.parametrize("form", [pa.Table.from_pylist, pd.DataFrame, list], ids=["arrow", "pandas", "dicts"])
def test_publish_takes_rows_in_three_forms(engine: tocsin.Engine, form: Any) -> None:
    engine.subscribe("SELECT symbol FROM stocks WHERE risk > 50", id="q")
    changes = engine.publish("stocks", form([{"symbol": "E", "risk": 60.0, "per": 1.0}]))
    assert changes.to_pylist() == [
        {"subscription": "q", "seq": 4, "op": "enter", "key": "E", "score": None, "rank": None}
    ]


def test_an_upsert_replaces_the_row(engine: tocsin.Engine) -> None:
    query = engine.subscribe("SELECT symbol, risk, per FROM stocks WHERE risk > 50")
    engine.publish("stocks", [{"symbol": "A", "risk": 60.0}])
    assert engine.result(query).to_pylist() == [{"symbol": "A", "risk": 60.0, "per": None}]


def test_op_mixes_upserts_and_deletes(engine: tocsin.Engine) -> None:
    query = engine.subscribe("SELECT symbol FROM stocks WHERE risk > 0")
    engine.publish(
        "stocks",
        [
            {"symbol": "A", "_op": "delete"},
            {"symbol": "E", "risk": 1.0, "_op": "upsert"},
            {"symbol": "B", "_op": "delete"},
            {"symbol": "B", "risk": 2.0, "_op": "upsert"},
        ],
    )
    assert engine.result(query).column("symbol").to_pylist() == ["C", "D", "E", "B"]


def test_unsubscribe_ends_a_subscription(engine: tocsin.Engine) -> None:
    query = engine.subscribe("SELECT symbol FROM stocks WHERE risk > 20")
    engine.unsubscribe(query)
    assert engine.delete("stocks", ["C"]).num_rows == 0
    with pytest.raises(tocsin.UnknownSubscription):
        engine.result(query)
    assert engine.subscribe("SELECT symbol FROM stocks WHERE risk > 20", id=query) == query


@pytest.mark.parametrize(
    ("sql", "family"),
    [
        ("SELECT symbol FROM stocks WHERE risk < 9 ORDER BY per LIMIT 1", "ranges"),
        ("SELECT MIN(per) FROM stocks WHERE risk < 9", "ranges"),
        ("SELECT DISTINCT per FROM stocks WHERE risk < 9", "ranges"),
        ("SELECT symbol FROM stocks WHERE risk < 9", "filters"),
        ("SELECT stocks.per FROM stocks JOIN owners ON stocks.symbol = owners.symbol", "ranges"),
        ("SELECT symbol FROM stocks ORDER BY risk + per LIMIT 1", "preferences"),
        ("SELECT bytes FROM flows ORDER BY bytes LIMIT 1", "preferences"),
        ("SELECT bytes FROM flows WHERE bytes < 9", "filters"),
        ("SELECT bytes FROM flows WHERE bytes + packets > 9", "filters"),
        ("SELECT SUM(shares) FROM trades HAVING SUM(shares) >= 9", "thresholds"),
        ("SELECT price FROM trades WHERE price < 9", "matching"),
        ("SELECT * FROM visitors WHERE age < 9", "matching"),
    ],
)
def test_explain_names_the_family(engine: tocsin.Engine, sql: str, family: str) -> None:
    assert f"family: {family}\n" in engine.explain(engine.subscribe(sql))


def test_explain_names_the_parameters(engine: tocsin.Engine) -> None:
    query = engine.subscribe(
        "SELECT symbol FROM stocks WHERE risk BETWEEN :lo AND 77 ORDER BY per LIMIT 1", lo=33
    )
    assert "33" in engine.explain(query)
    assert "77" in engine.explain(query)
