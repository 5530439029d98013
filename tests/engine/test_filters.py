"""Conditions of any form, in every form of statement, beside DuckDB, which is given NULL for NaN."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tests.oracles.strategies import effort
from tocsin.language import parse
from tocsin.types import ColumnType

COLUMNS = {
    "id": "string",
    "x": "double",
    "y": "float",
    "n": "bigint",
    "m": "int",
    "d": "decimal(12,2)",
    "e": "decimal(20,4)",
    "s": "string",
    "t": "string",
    "b": "boolean",
    "moment": "timestamp",
    "day": "date",
}
BIG = 2**53
doubles = [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 1e300]
wholes = [-1, 0, 1, 2, 3]
cents = [Decimal("-0.50"), Decimal("0.00"), Decimal("1.00"), Decimal("1.05"), Decimal(3)]
texts = ["", "a", "A", "ab", "aB%", "a_b", "b\nc", "é", "it's", "z"]
times = ["2024-01-01 00:00:00", "2024-01-01 12:00:00.000001", "2024-03-01 00:00:00"]
days = ["2024-01-01", "2024-03-01"]


def cells(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from([*values, *values, None])


rows = st.fixed_dictionaries(
    {
        "x": cells([*doubles, math.inf, -math.inf, math.nan]),
        "y": cells([-1.0, 0.0, 0.5, 2.0, math.nan]),
        "n": cells([*wholes, BIG, BIG + 1, -BIG - 1]),
        "m": cells(wholes),
        "d": cells(cents),
        "e": cells([*cents, Decimal("1.0001")]),
        "s": cells(texts),
        "t": cells(texts),
        "b": cells([True, False]),
        "moment": cells([datetime.fromisoformat(f"{time}+00:00") for time in times]),
        "day": cells(list(map(date.fromisoformat, days))),
    }
)
batches = st.lists(
    st.lists(st.tuples(st.sampled_from("pqrstuvw"), rows), min_size=1, max_size=5), min_size=1, max_size=3
)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


LITERALS = {
    "x": list(map(str, doubles[:-1])),
    "y": ["0.0", "0.5", "-1"],
    "n": [*map(str, wholes), str(BIG), str(BIG + 1)],
    "m": list(map(str, wholes)),
    "d": ["-0.5", "0", "1.05", "1"],
    "e": ["1.0001", "3", "1.05"],
    "s": list(map(quoted, texts)),
    "t": list(map(quoted, texts)),
    "moment": [f"TIMESTAMP '{time}'" for time in times],
    "day": list(map(quoted, days)),
}
PAIRS = [("x", "y"), ("n", "m"), ("d", "e"), ("s", "t"), ("m", "x"), ("n", "x"), ("d", "x"), ("e", "n")]
#: within the range where doubles are exact
ARITHMETIC = ["x + m", "2 * m - y", "ABS(x - y)", "m * y", "-(m)", "x - 1"]
PATTERNS = ["a%", "%b", "%b%", "a_b", "_", "%", "", "a!_b", "A%", "%\n%"]
COMPARISONS = ["<", "<=", "=", "<>", ">=", ">"]


@st.composite
def atoms(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["value", "value", "between", "in", "null", "like", "pair", "sum", "truth"]))
    column = draw(st.sampled_from(list(LITERALS)))
    literal = st.sampled_from(LITERALS[column])
    negated = draw(st.sampled_from(["", "", "NOT "]))
    operator = draw(st.sampled_from(COMPARISONS))
    if kind == "value":
        return f"{column} {operator} {draw(literal)}"
    if kind == "between" and column not in ("s", "t"):
        return f"{column} {negated}BETWEEN {draw(literal)} AND {draw(literal)}"
    if kind in ("in", "between"):
        return f"{column} {negated}IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=3)))})"
    if kind == "null":
        return f"{draw(st.sampled_from(list(COLUMNS)))} IS {negated}NULL"
    if kind == "like":
        like = draw(st.sampled_from(["LIKE", "ILIKE"]))
        escape = " ESCAPE '!'" if draw(st.booleans()) else ""
        pattern = draw(
            st.sampled_from(PATTERNS if escape else [each for each in PATTERNS if "!" not in each])
        )
        return f"{draw(st.sampled_from('st'))} {negated}{like} {quoted(pattern)}{escape}"
    if kind == "pair":
        left, right = draw(st.sampled_from(PAIRS))
        operator = draw(st.sampled_from([*COMPARISONS, "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]))
        return f"{left} {operator} {right}"
    if kind == "sum":
        return f"{draw(st.sampled_from(ARITHMETIC))} {operator} {draw(st.sampled_from(['0', '1', '2.5']))}"
    return draw(st.sampled_from(["b", "NOT b", "b = TRUE", "b <> TRUE", "b IS TRUE", "b IS NOT FALSE"]))


conditions = st.recursive(
    atoms(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda p: f"({p[0]}) {p[1]} ({p[2]})"),
        inner.map(lambda part: f"NOT ({part})"),
    ),
    max_leaves=6,
)


SCHEMA = pa.schema(
    [
        (name, pa.timestamp("us") if kind == "timestamp" else ColumnType.parse(kind, column=name).arrow)
        for name, kind in COLUMNS.items()
    ]
)


@given(condition=conditions)
def test_what_is_printed_is_read_as_the_same(condition: str) -> None:
    statement = parse(f"SELECT id FROM t WHERE {condition}")
    assert parse(str(statement)) == statement


class Mirror:
    """The rows of the table, for DuckDB."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.connection = duckdb.connect()

    def publish(self, batch: list[dict[str, Any]]) -> None:
        self.rows |= {row["id"]: row for row in batch}
        cells = [
            {name: None if value != value else value for name, value in row.items()}
            for row in self.rows.values()
        ]
        self.connection.register("t", pa.Table.from_pylist(cells, SCHEMA))

    def where(self, condition: str) -> list[dict[str, Any]]:
        """The rows that satisfy a condition."""
        found = self.connection.execute(f"SELECT id FROM t WHERE {condition}").fetchall()
        return [self.rows[key] for (key,) in found]


def number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


@effort(1.5)
@given(batches=batches, condition=conditions, each=st.booleans(), late=st.booleans())
def test_duckdb_agrees_over_tables(
    batches: list[list[tuple[str, dict[str, Any]]]],
    condition: str,
    each: bool,
    late: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("filters") / "saved"
    engine, mirror = tocsin.Engine(), Mirror()
    engine.create_table("t", key="id", columns=COLUMNS)
    if late:
        publish(engine, mirror, batches[0], each)
    for name, sql in {
        "live": f"SELECT id FROM t WHERE {condition}",
        "count": f"SELECT COUNT(*) FROM t WHERE {condition}",
        "lowest": f"SELECT MIN(m) FROM t WHERE ({condition}) AND m >= 0",
        "sum": f"SELECT SUM(m) FROM t WHERE ({condition})",
        "computed": f"SELECT SUM(2 * m - y) FROM t WHERE {condition}",
        "known": f"SELECT COUNT(m + y) FROM t WHERE {condition}",
        "nearest": f"SELECT MIN(ABS(m - 1)) AS near FROM t WHERE {condition}",
        "top": f"SELECT id FROM t WHERE {condition} ORDER BY m LIMIT 3",
        "scored": f"SELECT id FROM t WHERE ({condition}) AND m < 9 ORDER BY m + y DESC LIMIT 2",
        "distinct": f"SELECT DISTINCT s FROM t WHERE {condition}",
    }.items():
        engine.subscribe(sql, id=name)
    live = {row["id"] for row in engine.result("live").to_pylist()}
    for number_of_batch, batch in enumerate(batches[late:]):
        changes = publish(engine, mirror, batch, each)
        for change in changes.to_pylist():
            if change["subscription"] == "live" and change["op"] == "leave":
                live.remove(change["key"])
            elif change["subscription"] == "live" and change["op"] == "enter":
                assert change["key"] not in live
                live.add(change["key"])
        found = mirror.where(condition)
        assert live == {row["id"] for row in found}
        assert live == {row["id"] for row in engine.result("live").to_pylist()}
        assert engine.result("count").column(0).to_pylist() == [len(found)]
        measured = sorted(row["m"] for row in found if row["m"] is not None)
        lowest = min((m for m in measured if m >= 0), default=None)
        assert engine.result("lowest").column(0).to_pylist() == [lowest]
        assert engine.result("sum").column(0).to_pylist() == [sum(measured) if measured else None]
        both = [(row["m"], row["y"]) for row in found if None not in (row["m"], number(row["y"]))]
        assert engine.result("known").column(0).to_pylist() == [len(both)]
        total = math.fsum(2 * m - y for m, y in both) if both else None
        assert engine.result("computed").column(0).to_pylist() == [total]
        near = [min((abs(m - 1) for m in measured), default=None)]
        assert engine.result("nearest").column("near").to_pylist() == near
        top = [mirror.rows[row["id"]]["m"] for row in engine.result("top").to_pylist()]
        assert top == measured[:3]
        scores = [row["m"] + row["y"] for row in found if None not in (row["m"], number(row["y"]))]
        best = [mirror.rows[row["id"]] for row in engine.result("scored").to_pylist()]
        assert [row["m"] + row["y"] for row in best] == sorted(scores, reverse=True)[:2]
        distinct = set(engine.result("distinct").column(0).to_pylist())
        assert distinct == {row["s"] for row in found} - {None}
        if number_of_batch == 0:
            engine.save(path)
            engine = tocsin.Engine.load(path)


def publish(
    engine: tocsin.Engine, mirror: Mirror, batch: list[tuple[str, dict[str, Any]]], each: bool
) -> pa.Table:
    published = [{"id": key, **row} for key, row in batch]
    mirror.publish(published)
    return engine.publish("t", published, each=each)


@effort(1.0)
@given(batch=st.lists(rows, min_size=1, max_size=12), condition=conditions, size=st.integers(1, 5))
def test_duckdb_agrees_over_streams(
    batch: list[dict[str, Any]], condition: str, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("filters") / "saved"
    engine, mirror = tocsin.Engine(), Mirror()
    rows = [{"id": str(place), **row} for place, row in enumerate(batch)]
    mirror.publish(rows)
    engine.create_stream("t", columns=COLUMNS)
    engine.create_stream("w", columns=COLUMNS, window="4 rows")
    engine.subscribe(
        f"SELECT COUNT(*) FROM t WHERE {condition} HAVING COUNT(*) >= 1", id="threshold", repeat=True
    )
    engine.subscribe(f"SELECT id FROM t WHERE {condition}", id="match")
    engine.subscribe(f"SELECT id FROM w WHERE {condition}", id="live")
    reported: dict[str, set[str]] = {"threshold": set(), "match": set()}
    for start in range(0, len(rows), size):
        for change in engine.publish("t", rows[start : start + size]).to_pylist():
            reported[change["subscription"]].add(change["key"])
        engine.publish("w", rows[start : start + size])
        engine.save(path)
        engine = tocsin.Engine.load(path)
    found = {row["id"] for row in mirror.where(condition)}
    assert reported == {"threshold": found, "match": found}
    recent = {row["id"] for row in rows[-4:]}
    assert {row["id"] for row in engine.result("live").to_pylist()} == found & recent


def test_joins_filter_each_side() -> None:
    engine = tocsin.Engine()
    engine.create_table("a", key="id", columns={"id": "string", "x": "double", "s": "string"})
    engine.create_table("b", key="id", columns={"id": "string", "y": "double", "s": "string"})
    join = "SELECT a.id, b.id AS other FROM a JOIN b ON a.s = b.s"
    engine.subscribe(f"{join} WHERE (a.x < 1 OR a.x > 5) AND b.y IS NOT NULL AND b.y * 2 <= 4", id="pairs")
    engine.publish("a", [{"id": str(x), "x": x, "s": "k"} for x in (0, 3, 9)])
    engine.publish("b", [{"id": "p", "y": 2, "s": "k"}, {"id": "q", "s": "k"}, {"id": "r", "y": 3, "s": "k"}])
    assert [tuple(row.values()) for row in engine.result("pairs").to_pylist()] == [("0", "p"), ("9", "p")]
    with pytest.raises(tocsin.SQLError, match="on both tables"):
        engine.subscribe(f"{join} WHERE a.x > b.y")


def test_numbers_of_two_types_compare_exactly() -> None:
    engine = tocsin.Engine()
    columns = {"id": "int", "n": "bigint", "x": "double", "d": "decimal(38,4)"}
    engine.create_table("t", key="id", columns=columns)
    engine.subscribe("SELECT id FROM t WHERE n > x", id="above")
    engine.subscribe("SELECT id FROM t WHERE d = n", id="equal")
    engine.subscribe("SELECT id FROM t WHERE d <> x", id="different")
    engine.publish(
        "t",
        [
            {"id": 1, "n": BIG + 1, "x": float(BIG), "d": Decimal(BIG + 1)},
            {"id": 2, "n": BIG, "x": float(BIG), "d": Decimal(BIG) + Decimal("0.0001")},
            {"id": 3, "n": 0, "x": 0.1, "d": Decimal("0.1")},
        ],
    )
    answers = {name: engine.result(name).column(0).to_pylist() for name in ("above", "equal", "different")}
    # 0.1 is no double.
    assert answers == {"above": [1], "equal": [1], "different": [1, 2, 3]}


def test_a_row_beyond_what_a_filter_compares_exactly_is_refused() -> None:
    engine = tocsin.Engine()
    engine.create_table("t", key="id", columns={"id": "int", "d": "decimal(38,0)"})
    engine.subscribe("SELECT id FROM t WHERE d = 1 OR id = 2")
    with pytest.raises(tocsin.RowError, match="too large"):
        engine.publish("t", [{"id": 1, "d": Decimal(10**37)}])


def test_explain_shows_what_is_filtered_and_computed(tmp_path: Path) -> None:
    engine = tocsin.Engine()
    engine.create_stream("t", columns={"s": "string", "x": "double", "n": "bigint"})
    sid = engine.subscribe(
        "SELECT COUNT(*) FROM t WHERE x * n > :v AND s = 'a' AND (s LIKE 'A!%%' ESCAPE '!' OR n IS NULL) "
        "HAVING COUNT(*) >= 3",
        v=5,
    )
    explained = engine.explain(sid).splitlines()
    assert "ranges: s, x * n" in explained
    assert r"filter: (s ~ '(?s)\AA%.*\z' OR n IS NULL)" in explained


def test_what_a_match_computes_is_computed_again_after_loading(tmp_path: Path) -> None:
    engine = tocsin.Engine()
    engine.create_stream('odd "name"', columns={"s": "string", "x": "double", "a b": "bigint"})
    engine.subscribe(
        'SELECT s FROM "odd ""name""" AS o '
        "WHERE WEIGHT(o.x * o.\"a b\" > :v, 3) AND (o.s LIKE 'A%' OR o.x IS NULL)",
        id="scored",
        v=5,
    )
    rows = [{"s": "AA", "x": 9, "a b": 1}, {"s": "B", "x": 9, "a b": 1}, {"s": "A", "x": 1, "a b": 1}]
    for _ in range(2):
        changes = engine.publish('odd "name"', rows).select(["subscription", "score"]).to_pylist()
        assert changes == [{"subscription": "scored", "score": 4.0}]
        engine.save(tmp_path / "saved")
        engine = tocsin.Engine.load(tmp_path / "saved")
    assert "the event has 9.0; weight 3.0" in engine.explain("scored", rows[0])


def test_sums_of_arithmetic_mature() -> None:
    engine = tocsin.Engine()
    engine.create_stream("trades", columns={"symbol": "string", "price": "double", "shares": "bigint"})
    sql = "SELECT SUM(price * shares) FROM trades WHERE symbol = :s HAVING SUM(price * shares) >= :tau"
    engine.subscribe_many(sql, {"id": ["a", "b"], "s": ["IBM", "KO"], "tau": [1000, 1000.5]})
    rows = [{"symbol": s, "price": 10, "shares": n} for s, n in (("IBM", 60), ("KO", 100), ("IBM", 40))]
    changes = engine.publish("trades", [*rows, {"symbol": "KO", "price": None, "shares": 9}])
    assert changes.select(["subscription", "seq", "score"]).to_pylist() == [
        {"subscription": "a", "seq": 2, "score": 1000.0}
    ]
    assert engine.result("b").to_pylist() == [{"SUM(price * shares)": 1000.0, "missing": 0.5}]
    with pytest.raises(tocsin.SQLError, match="must name the same aggregate"):
        engine.subscribe("SELECT SUM(price * shares) FROM trades HAVING SUM(shares * price) >= 5")


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("b IS TRUE", [0]),
        ("b IS NOT FALSE", [0, 2]),
        ("s IS NOT DISTINCT FROM '日本'", [0]),
        ('"select" * 2 > 5', [0]),
        ('"from" IS NULL OR "select" > 9', [2]),
        ("NOT " * 48 + '"select" > 1', [0]),
        ("- " * 60 + '"select" > 1', [0]),
    ],
)
def test_a_match_means_the_same_after_loading(condition: str, matches: list[int], tmp_path: Path) -> None:
    engine = tocsin.Engine()
    engine.create_stream("t", columns={"b": "boolean", "s": "string", "select": "double", "from": "int"})
    engine.subscribe(f"SELECT s FROM t WHERE {condition}", id="m")
    rows = [{"b": True, "s": "日本", "select": 3, "from": 1}, {"b": False, "select": 1, "from": 1}, {}]
    for turn in range(2):
        changes = engine.publish("t", rows)
        assert changes.column("key").to_pylist() == [str(3 * turn + row) for row in matches]
        assert set(changes.column("score").to_pylist()) == {1.0}
        engine.save(tmp_path / "saved")
        engine = tocsin.Engine.load(tmp_path / "saved")


def test_what_is_computed_for_nobody_is_forgotten() -> None:
    engine = tocsin.Engine()
    engine.create_stream("t", columns={"s": "string", "x": "double"})
    engine.subscribe("SELECT s FROM t WHERE x > 1 OR s IS NULL", id="stays")
    for number in range(300):
        engine.unsubscribe(engine.subscribe(f"SELECT s FROM t WHERE x = {number} OR s LIKE '{number}%'"))
    group, _ = engine._subscriptions.locate("stays")
    assert len(group._computed) < 80  # type: ignore[attr-defined]
    assert engine.publish("t", [{"s": None, "x": 0}]).num_rows == 1


@pytest.mark.parametrize("source", ["table", "stream"])
@pytest.mark.parametrize(
    "condition", [f"s LIKE '{'_' * 100_000}'", "s <> '\ud800' OR x > 1", "s = '\ud800'", "s ILIKE '\ud800%'"]
)
def test_a_condition_that_cannot_be_evaluated_is_refused_at_once(condition: str, source: str) -> None:
    engine = tocsin.Engine()
    columns = {"id": "int", "s": "string", "x": "double"}
    if source == "table":
        engine.create_table("t", key="id", columns=columns)
    else:
        engine.create_stream("t", columns=columns)
    engine.publish("t", [{"id": 1, "s": "a"}])
    with pytest.raises(tocsin.SQLError):
        engine.subscribe(f"SELECT id FROM t WHERE {condition}")
    engine.publish("t", [{"id": 2, "s": "b"}])


def test_an_escape_is_looked_for_as_written() -> None:
    engine = tocsin.Engine()
    engine.create_table("t", key="s", columns={"s": "string"})
    engine.subscribe("SELECT s FROM t WHERE s ILIKE '10X%' ESCAPE 'X'", id="escaped")
    engine.publish("t", [{"s": "10%"}, {"s": "10x"}, {"s": "10X%"}])
    assert engine.result("escaped").column(0).to_pylist() == ["10%"]


@pytest.mark.parametrize("operator", [">=", ">"])
@pytest.mark.parametrize("tau", ["4225887758497226.5", ":t"])
def test_decimals_beyond_doubles_mature_at_the_very_unit(operator: str, tau: str) -> None:
    engine = tocsin.Engine()
    engine.create_stream("t", columns={"w": "decimal(17,1)"})
    params: dict[str, Any] = {"t": 4225887758497226.5} if tau == ":t" else {}
    engine.subscribe(f"SELECT SUM(w) FROM t HAVING SUM(w) {operator} {tau}", id="sum", **params)
    reached = Decimal("4225887758497226.4")
    assert engine.publish("t", [{"w": reached}]).num_rows == 0
    assert engine.publish("t", [{"w": Decimal("0.1")}]).num_rows == (operator == ">=")
    if operator == ">":
        assert engine.publish("t", [{"w": Decimal("0.1")}]).num_rows == 1


def test_the_largest_threshold_that_must_be_exceeded() -> None:
    engine = tocsin.Engine()
    engine.create_stream("t", columns={"w": "bigint"})
    largest = 2**63 - 1
    engine.subscribe(
        "SELECT SUM(w) FROM t HAVING SUM(w) > :t", id="fits", t=Decimal(largest) - Decimal("0.5")
    )
    assert engine.publish("t", [{"w": largest - 1}]).num_rows == 0
    assert engine.publish("t", [{"w": 1}]).num_rows == 1
    for beyond in (largest, Decimal(largest)):
        with pytest.raises(tocsin.ParameterError, match="out of reach"):
            engine.subscribe("SELECT SUM(w) FROM t HAVING SUM(w) > :t", t=beyond)
