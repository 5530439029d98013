"""Bad input: each kind gets its own clear error, and what `save` writes is the same before and after."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tocsin
from tests.oracles.pair import saved

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
TEMPLATE = "SELECT symbol FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT :k"


@pytest.fixture
def engine() -> tocsin.Engine:
    """One of everything, with rows and subscriptions, so that there is a state to spoil."""
    engine = tocsin.Engine()
    engine.create_table(
        "stocks",
        key="symbol",
        columns={"symbol": "string", "risk": "double", "per": "double", "size": "bigint"},
    )
    engine.create_stream(
        "trades", columns={"price": "double", "shares": "bigint", "fee": "decimal(6,2)", "at": "timestamp"}
    )
    engine.create_stream("tickets", key="code", columns={"code": "string", "price": "double"})
    engine.create_stream(
        "flows", columns={"bytes": "double", "at": "timestamp"}, window="1 minute", time="at"
    )
    engine.create_stream("visitors")
    engine.subscribe(TEMPLATE, id="top", lo=0, hi=50, k=3)
    engine.subscribe("SELECT DISTINCT per FROM stocks WHERE risk < 9", id="distinct")
    engine.subscribe("SELECT SUM(shares) FROM trades HAVING SUM(shares) >= 100", id="sum")
    engine.subscribe("SELECT bytes FROM flows ORDER BY bytes DESC LIMIT 2", id="largest")
    engine.subscribe("SELECT * FROM visitors WHERE age > 18", id="adults")
    engine.publish("stocks", [{"symbol": "A", "risk": 1.0, "per": 2.0, "size": 1}])
    engine.publish("trades", [{"price": 1.0, "shares": 10}])
    engine.publish("flows", [{"bytes": 1.0, "at": NOON}])
    return engine


@pytest.fixture
def refused(engine: tocsin.Engine, tmp_path: Path) -> Callable[..., tocsin.Error]:
    """Make a call that must raise, check that nothing changed, give the error back."""

    def check(
        error: type[tocsin.Error], call: Callable[..., object], *args: Any, **options: Any
    ) -> tocsin.Error:
        before = saved(engine, tmp_path)
        with pytest.raises(error) as raised:
            call(*args, **options)
        assert type(raised.value) is error
        assert saved(engine, tmp_path) == before
        return raised.value

    return check


Refused = Callable[..., tocsin.Error]

# Rows


@pytest.mark.parametrize("verb", ["publish", "delete", "advance"])
def test_unknown_source(engine: tocsin.Engine, refused: Refused, verb: str) -> None:
    error = refused(tocsin.UnknownSource, getattr(engine, verb), "stonks", [])
    assert "'stonks'" in str(error)
    assert "'stocks'" in str(error), "the nearest name is suggested"


@pytest.mark.parametrize(
    ("source", "row", "words"),
    [
        ("stocks", {"symbol": "B", "rsk": 1.0}, ["'stocks'", "'rsk'", "'risk'"]),
        ("trades", {"colour": "red"}, ["'trades'", "'colour'", "price"]),
        ("flows", {"at": NOON, "bites": 1.0}, ["'flows'", "'bites'", "'bytes'"]),
    ],
)
def test_unknown_column(
    engine: tocsin.Engine, refused: Refused, source: str, row: dict[str, Any], words: list[str]
) -> None:
    error = refused(tocsin.RowError, engine.publish, source, [row])
    assert all(word in str(error) for word in words)


@pytest.mark.parametrize(
    ("source", "row", "words"),
    [
        ("stocks", {"symbol": "B", "risk": "high"}, ["'risk'", "row 1", "'high'", "double"]),
        ("stocks", {"symbol": 7, "risk": 1.0}, ["'symbol'"]),
        ("stocks", {"symbol": "B", "risk": True}, ["'risk'"]),
        ("stocks", {"symbol": "B", "size": 1.5}, ["'size'", "row 1", "1.5", "bigint"]),
        ("stocks", {"symbol": "B", "size": 2**63}, ["'size'", "row 1", "does not fit 64 bits"]),
        ("trades", {"fee": "free"}, ["'fee'", "'free'", "decimal(6,2)"]),
        ("trades", {"fee": 123456.0}, ["'fee'"]),
        ("trades", {"at": "yesterday"}, ["'at'", "'yesterday'", "timestamp"]),
        ("flows", {"at": NOON, "bytes": [1.0]}, ["'bytes'"]),
    ],
)
def test_wrong_type(
    engine: tocsin.Engine, refused: Refused, source: str, row: dict[str, Any], words: list[str]
) -> None:
    good: dict[str, dict[str, Any]] = {"stocks": {"symbol": "A"}, "trades": {}, "flows": {"at": NOON}}
    error = refused(tocsin.RowError, engine.publish, source, [good[source], row])
    assert repr(source) in str(error)
    assert all(word in str(error) for word in words)


@pytest.mark.parametrize(
    ("source", "rows", "word"),
    [
        ("stocks", [{"symbol": "B"}, {"symbol": None}], "'symbol'"),
        ("stocks", [{"symbol": "B"}, {"risk": 1.0}], "'symbol'"),
        ("stocks", [{"symbol": None, "_op": "delete"}], "'symbol'"),
        ("tickets", [{"code": "x"}, {"price": 1.0}], "'code'"),
    ],
)
def test_null_key(
    engine: tocsin.Engine, refused: Refused, source: str, rows: list[dict[str, Any]], word: str
) -> None:
    error = refused(tocsin.RowError, engine.publish, source, rows)
    assert word in str(error)
    assert "null" in str(error)


def test_null_key_in_delete(engine: tocsin.Engine, refused: Refused) -> None:
    assert "null" in str(refused(tocsin.RowError, engine.delete, "stocks", ["A", None]))


def test_wrong_type_in_delete(engine: tocsin.Engine, refused: Refused) -> None:
    assert "'symbol'" in str(refused(tocsin.RowError, engine.delete, "stocks", [7]))


@pytest.mark.parametrize("keys", [7, None, "AB"])
def test_keys_that_are_no_keys(engine: tocsin.Engine, refused: Refused, keys: object) -> None:
    """A bare text too: else its letters would be deleted."""
    assert f"got {keys!r}" in str(refused(tocsin.RowError, engine.delete, "stocks", keys))


def test_null_time(engine: tocsin.Engine, refused: Refused) -> None:
    rows = [{"bytes": 1.0, "at": NOON}, {"bytes": 2.0}]
    assert "'at'" in str(refused(tocsin.RowError, engine.publish, "flows", rows))


@pytest.mark.parametrize("op", ["drop", "DELETE", ""])
def test_unknown_op(engine: tocsin.Engine, refused: Refused, op: str) -> None:
    rows = [{"symbol": "B", "_op": "upsert"}, {"symbol": "A", "_op": op}]
    error = refused(tocsin.RowError, engine.publish, "stocks", rows)
    assert "'upsert'" in str(error)
    assert "'delete'" in str(error)


def test_op_on_a_stream(engine: tocsin.Engine, refused: Refused) -> None:
    assert "_op" in str(refused(tocsin.RowError, engine.publish, "trades", [{"price": 1.0, "_op": "delete"}]))


def test_delete_from_a_stream(engine: tocsin.Engine, refused: Refused) -> None:
    assert "'trades'" in str(refused(tocsin.RowError, engine.delete, "trades", ["0"]))


@pytest.mark.parametrize("source", ["stocks", "trades"])
def test_advance_of_what_has_no_time(engine: tocsin.Engine, refused: Refused, source: str) -> None:
    assert f"'{source}' has no window of time" in str(refused(tocsin.RowError, engine.advance, source, NOON))


@pytest.mark.parametrize("time", ["tomorrow", None, True])
def test_advance_to_what_is_no_time(engine: tocsin.Engine, refused: Refused, time: object) -> None:
    assert f"{time!r} is not a time" in str(refused(tocsin.RowError, engine.advance, "flows", time))


@pytest.mark.parametrize("source", ["stocks", "visitors"])
@pytest.mark.parametrize("rows", [7, "rows", ["rows"], [("symbol", "A")], None])
def test_rows_that_are_no_rows(engine: tocsin.Engine, refused: Refused, source: str, rows: object) -> None:
    error = refused(tocsin.RowError, engine.publish, source, rows)
    wrong = rows[0] if isinstance(rows, list) else rows
    assert str(error).endswith(f"got {type(wrong).__name__}")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"age": {"low": 1}}, "'age': dict is not a number"),
        ({"age": (1, 2, 3)}, "'age': a range must be (low, high), got (1, 2, 3)"),
        ({"age": ("a", "b")}, "'age': str is not a number"),
        ({"age": object()}, "'age': object is not a number"),
        ({7: 1}, "an attribute name must be a string, got 7"),
        ({"age": 1, "_weights": 5}, "_weights must be a dict"),
        ({"age": 1, "_weights": {"age": "much"}}, "'age': str is not a number"),
        ({"age": 1, "_weights": {"age": math.nan}}, "'age': a weight must be a finite number, got nan"),
    ],
)
def test_sparse_rows_that_cannot_be_read(
    engine: tocsin.Engine, refused: Refused, row: dict[Any, Any], words: str
) -> None:
    error = refused(tocsin.RowError, engine.publish, "visitors", [{"age": 20}, row])
    assert str(error).startswith("row 1")
    assert words in str(error)


@pytest.mark.parametrize("top", [0, -1, 1.5, "five", True])
def test_top_that_is_no_number_of_matches(engine: tocsin.Engine, refused: Refused, top: object) -> None:
    assert "top" in str(refused(tocsin.ParameterError, engine.publish, "visitors", [{"age": 20}], top=top))


def test_top_on_a_table(engine: tocsin.Engine, refused: Refused) -> None:
    error = refused(tocsin.ParameterError, engine.publish, "stocks", [{"symbol": "B"}], top=5)
    assert "'stocks' is a table" in str(error)


def test_a_weight_that_does_not_fit(tmp_path: Path) -> None:
    engine = tocsin.Engine()
    engine.create_stream("s", columns={"w": "double"})
    engine.subscribe("SELECT SUM(w) FROM s HAVING SUM(w) >= 5")
    before = saved(engine, tmp_path)
    with pytest.raises(tocsin.WeightOverflow, match="'w'"):
        engine.publish("s", [{"w": 1.0}, {"w": 1e300}])
    assert saved(engine, tmp_path) == before


# Statements


@pytest.mark.parametrize(
    ("sql", "text", "word"),
    [
        ("SELECT symbol FROM stonks WHERE risk < 9", "stonks", "stocks"),
        ("SELECT symbl FROM stocks WHERE risk < 9", "symbl", "symbol"),
        ("SELECT symbol FROM stocks\nWHERE rsk < 9", "rsk", "risk"),
        ("SELECT symbol FROM stocks WHERE risk < 9 ORDER BY perr LIMIT 2", "perr", "per"),
        ("SELECT SUM(share) FROM trades HAVING SUM(share) >= 1", "share", "shares"),
    ],
    ids=["table", "select", "where", "order", "sum"],
)
def test_unknown_names_in_a_statement(
    engine: tocsin.Engine, refused: Refused, sql: str, text: str, word: str
) -> None:
    error = refused(tocsin.SQLError, engine.subscribe, sql)
    assert isinstance(error, tocsin.SQLError)
    assert error.text == text
    assert (error.line, error.column) == (1 + sql[: sql.index(text)].count("\n"), _column(sql, text))
    assert word in str(error), "the nearest name is suggested"
    assert "^" * len(text) in str(error)


def _column(sql: str, text: str) -> int:
    start = sql.index(text)
    return start - sql.rfind("\n", 0, start)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "   ",
        "SELEC symbol FROM stocks",
        "SELECT FROM stocks",
        "SELECT symbol FROM",
        "SELECT symbol FROM stocks WHERE risk BETWEEN 1",
        "SELECT symbol FROM stocks WHERE risk < 'a",
        "SELECT symbol FROM stocks; SELECT per FROM stocks",
        "SELECT symbol FROM stocks WHERE (risk < 1",
    ],
)
def test_unparsable_sql(engine: tocsin.Engine, refused: Refused, sql: str) -> None:
    error = refused(tocsin.SQLError, engine.subscribe, sql)
    assert isinstance(error, tocsin.SQLError)
    assert "line" in str(error)
    assert "column" in str(error)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM stocks",
        "SELECT symbol FROM stocks WHERE risk < :r OR per < 1",
        "SELECT symbol FROM stocks WHERE NOT risk < :r",
        "SELECT symbol FROM stocks WHERE symbol > :s",
        "SELECT symbol FROM stocks WHERE risk <> :r",
        "SELECT symbol FROM stocks WHERE risk IN (1, :r)",
        "SELECT symbol FROM stocks WHERE WEIGHT(risk < 1, 0.5)",
        "SELECT symbol FROM stocks WHERE risk < 1 ORDER BY per",
        "SELECT symbol FROM stocks WHERE risk < 1 LIMIT 3",
        "SELECT symbol FROM stocks ORDER BY symbol LIMIT 3",
        "SELECT symbol FROM stocks ORDER BY per, risk LIMIT 3",
        "SELECT symbol FROM stocks ORDER BY risk * per LIMIT 3",
        "SELECT symbol FROM stocks ORDER BY ABS(risk) LIMIT 3",
        "SELECT symbol FROM stocks WHERE symbol < per",
        "SELECT symbol, COUNT(*) FROM stocks GROUP BY symbol",
        "SELECT MIN(per), MAX(per) FROM stocks WHERE risk < 1",
        "SELECT MIN(symbol) FROM stocks WHERE risk < 1",
        "SELECT DISTINCT per, risk FROM stocks WHERE risk < 1",
        "SELECT SUM(per) FROM stocks HAVING SUM(per) >= 5",
        "SELECT SUM(bytes) FROM flows HAVING SUM(bytes) >= 5",
        "SELECT MIN(bytes) FROM flows WHERE bytes < 5",
        "SELECT DISTINCT bytes FROM flows WHERE bytes < 5",
        "SELECT SUM(shares) FROM trades WHERE price < 5",
        "SELECT SUM(shares) FROM trades HAVING SUM(shares) < 5",
        "SELECT SUM(shares) FROM trades HAVING SUM(fee) >= 5",
        "SELECT SUM(shares) FROM trades WHERE shares <> :n HAVING SUM(shares) >= 5",
        "SELECT SUM(age) FROM visitors HAVING SUM(age) >= 5",
        "SELECT price FROM trades ORDER BY price LIMIT 5",
        "SELECT symbol FROM stocks LEFT JOIN trades ON stocks.per = trades.price",
        "SELECT stocks.per FROM stocks JOIN trades ON stocks.per = trades.price",
        "SELECT symbol FROM (SELECT symbol FROM stocks) WHERE risk < 1",
    ],
)
def test_unsupported_shapes(engine: tocsin.Engine, refused: Refused, sql: str) -> None:
    error = refused(tocsin.SQLError, engine.subscribe, sql)
    assert isinstance(error, tocsin.SQLError)
    assert error.text, "the offending piece is named"
    assert error.hint, "and it says what would be accepted"


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT symbol FROM stocks WHERE risk < 'high'", "'high'"),
        ("SELECT symbol FROM stocks WHERE risk < TRUE", "TRUE"),
        ("SELECT price FROM trades WHERE price = 'high'", "'high'"),
        ("SELECT SUM(shares) FROM trades HAVING SUM(shares) >= 'many'", "'many'"),
    ],
)
def test_a_literal_of_the_wrong_type(engine: tocsin.Engine, refused: Refused, sql: str, text: str) -> None:
    error = refused(tocsin.SQLError, engine.subscribe, sql)
    assert isinstance(error, tocsin.SQLError)
    assert error.text == text


@pytest.mark.parametrize("k", ["0", "-1", "1.5", "'three'"])
def test_a_limit_that_is_no_number_of_rows(engine: tocsin.Engine, refused: Refused, k: str) -> None:
    error = refused(tocsin.SQLError, engine.subscribe, f"SELECT symbol FROM stocks ORDER BY per LIMIT {k}")
    assert isinstance(error, tocsin.SQLError)
    assert error.text == k


# Parameters


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"lo": 1, "k": 1}, "hi"),
        ({"lo": 1, "hi": 2}, "k"),
        ({"lo": 1, "hi": 2, "k": 1, "mid": 3}, "mid"),
        ({"lo": 1, "hi": "high", "k": 1}, "hi"),
        ({"lo": 1, "hi": True, "k": 1}, "hi"),
        ({"lo": [1, 2], "hi": 2, "k": 1}, "lo"),
        ({"lo": math.nan, "hi": 2, "k": 1}, "lo"),
        ({"lo": None, "hi": 2, "k": 1}, "lo"),
        ({"lo": 1, "hi": 2, "k": 0}, "k"),
        ({"lo": 1, "hi": 2, "k": -1}, "k"),
        ({"lo": 1, "hi": 2, "k": 1.5}, "k"),
        ({"lo": 1, "hi": 2, "k": math.inf}, "k"),
    ],
    ids=[
        "missing",
        "missing k",
        "extra",
        "text",
        "boolean",
        "list",
        "NaN",
        "null",
        "k = 0",
        "k < 0",
        "k not whole",
        "k infinite",
    ],
)
def test_bad_parameters(engine: tocsin.Engine, refused: Refused, params: dict[str, Any], word: str) -> None:
    error = refused(tocsin.ParameterError, engine.subscribe, TEMPLATE, **params)
    assert word in str(error)
    columns = {"id": ["x", "y"]} | {name: [params.get(name, value)] * 2 for name, value in params.items()}
    refused(tocsin.ParameterError, engine.subscribe_many, TEMPLATE, columns)


def test_one_bad_parameter_among_good_ones(engine: tocsin.Engine, refused: Refused) -> None:
    columns: dict[str, list[Any]] = {"lo": [1.0, 2.0, math.nan], "hi": [3.0, 4.0, 5.0], "k": [1, 1, 1]}
    error = refused(tocsin.ParameterError, engine.subscribe_many, TEMPLATE, pa.table(columns))
    assert "lo" in str(error)
    assert "2" in str(error), "the row is named"


def test_parameter_columns_of_different_lengths(engine: tocsin.Engine, refused: Refused) -> None:
    columns = {"lo": [1.0, 2.0], "hi": [3.0], "k": [1]}
    error = refused(tocsin.ParameterError, engine.subscribe_many, TEMPLATE, columns)
    assert "different lengths" in str(error)


@pytest.mark.parametrize("tau", [math.nan, None, "many", math.inf, 0, -1, 1e300, 2**63])
def test_a_threshold_that_cannot_be_reached(engine: tocsin.Engine, refused: Refused, tau: object) -> None:
    sql = "SELECT SUM(shares) FROM trades HAVING SUM(shares) >= :tau"
    assert "tau" in str(refused(tocsin.ParameterError, engine.subscribe, sql, tau=tau))


def test_a_text_parameter_where_a_number_is_wanted(engine: tocsin.Engine, refused: Refused) -> None:
    sql = "SELECT price FROM trades WHERE price > :p"
    assert ":p must be a number, got string" in str(
        refused(tocsin.ParameterError, engine.subscribe, sql, p="high")
    )


def test_repeat_without_a_threshold(engine: tocsin.Engine, refused: Refused) -> None:
    sql = "SELECT symbol FROM stocks WHERE risk < 9"
    assert "repeat" in str(refused(tocsin.ParameterError, engine.subscribe, sql, repeat=True))


def test_an_empty_range_is_legal_and_answers_empty(engine: tocsin.Engine) -> None:
    engine.subscribe(TEMPLATE, id="none", lo=9, hi=1, k=3)
    engine.subscribe("SELECT COUNT(*) AS n FROM stocks WHERE risk BETWEEN 9 AND 1", id="count")
    engine.subscribe("SELECT bytes FROM flows WHERE bytes > 9 AND bytes < 1", id="window")
    engine.subscribe(
        "SELECT SUM(shares) FROM trades WHERE price > 9 AND price < 1 HAVING SUM(shares) >= 1", id="t"
    )
    engine.subscribe("SELECT * FROM visitors WHERE age BETWEEN 9 AND 1", id="match")
    told = [
        engine.publish("stocks", [{"symbol": "B", "risk": 5.0, "per": 1.0}]),
        engine.publish("flows", [{"bytes": 5.0, "at": NOON}]),
        engine.publish("trades", [{"price": 5.0, "shares": 5}]),
        engine.publish("visitors", [{"age": 5}, {"age": (1, 9)}]),
    ]
    ids = {id for changes in told for id in changes.column("subscription").to_pylist()}
    assert ids.isdisjoint({"none", "count", "window", "t", "match"})
    assert engine.result("none").num_rows == engine.result("window").num_rows == 0
    assert engine.result("count").to_pylist() == [{"n": 0}]


# Ids


def test_duplicate_id(engine: tocsin.Engine, refused: Refused) -> None:
    sql = "SELECT symbol FROM stocks WHERE risk < 77"
    assert "'top'" in str(refused(tocsin.DuplicateSubscription, engine.subscribe, sql, id="top"))


@pytest.mark.parametrize("ids", [["x", "top"], ["x", "x"]], ids=["with one that is there", "with each other"])
def test_duplicate_ids_among_many(engine: tocsin.Engine, refused: Refused, ids: list[str]) -> None:
    columns = {"id": ids, "lo": [1.0, 2.0], "hi": [3.0, 4.0], "k": [1, 1]}
    error = refused(tocsin.DuplicateSubscription, engine.subscribe_many, TEMPLATE, columns)
    assert repr(ids[1]) in str(error)


@pytest.mark.parametrize("id", [7, b"x"])
def test_an_id_that_is_no_text(engine: tocsin.Engine, refused: Refused, id: object) -> None:
    error = refused(tocsin.ParameterError, engine.subscribe, TEMPLATE, id=id, lo=1, hi=2, k=1)
    assert str(error) == f"id must be text, got {id!r}"


@pytest.mark.parametrize("verb", ["result", "explain", "unsubscribe"])
@pytest.mark.parametrize("id", ["nobody", "", 7])
def test_unknown_subscription(engine: tocsin.Engine, refused: Refused, verb: str, id: object) -> None:
    assert repr(id) in str(refused(tocsin.UnknownSubscription, getattr(engine, verb), id))


@pytest.mark.parametrize("verb", ["result", "explain", "unsubscribe"])
def test_many_ids_where_one_is_asked_for(engine: tocsin.Engine, refused: Refused, verb: str) -> None:
    error = str(refused(tocsin.UnknownSubscription, getattr(engine, verb), ["top"] * 1000))
    assert "a single text" in error
    assert len(error) < 120


# Declarations


def test_duplicate_source(engine: tocsin.Engine, refused: Refused) -> None:
    columns = {"x": "double"}
    error = refused(tocsin.DuplicateSource, engine.create_table, "trades", key="x", columns=columns)
    assert "'trades'" in str(error)
    refused(tocsin.DuplicateSource, engine.create_stream, "stocks", columns=columns)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"columns": {"x": "doble"}}, "doble"),
        ({"columns": {"x": "decimal(50,2)"}}, "decimal(50,2)"),
        ({"columns": {}}, "columns"),
        ({"columns": {"_op": "string"}}, "_op"),
        ({"columns": {"x": "double"}, "key": "y"}, "y"),
        ({"columns": {"x": "double"}, "window": "many rows"}, "many rows"),
        ({"columns": {"x": "double"}, "window": "0 rows"}, "0 rows"),
        ({"columns": {"x": "double"}, "window": "5 moons"}, "5 moons"),
        ({"columns": {"x": "double"}, "window": "5 minutes"}, "time"),
        ({"columns": {"x": "double"}, "window": "5 minutes", "time": "x"}, "timestamp"),
        ({"columns": {"x": "double"}, "window": "5 minutes", "time": "y"}, "y"),
        ({"columns": {"t": "timestamp"}, "window": "5 minutes", "time": "t", "delay": "soon"}, "soon"),
        ({"columns": {"t": "timestamp"}, "delay": "1 second"}, "delay"),
        ({"window": "5 rows"}, "columns"),
    ],
)
def test_bad_stream_declarations(
    engine: tocsin.Engine, refused: Refused, options: dict[str, Any], word: str
) -> None:
    assert word in str(refused(tocsin.DeclarationError, engine.create_stream, "new", **options))


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_source_needs_a_name(engine: tocsin.Engine, refused: Refused, name: object) -> None:
    error = refused(tocsin.DeclarationError, engine.create_stream, name, columns={"x": "double"})
    assert f"must be a non-empty text, got {name!r}" in str(error)


def test_bad_table_declarations(engine: tocsin.Engine, refused: Refused) -> None:
    error = refused(tocsin.DeclarationError, engine.create_table, "new", key="y", columns={"x": "double"})
    assert "'y'" in str(error)


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_very_long_number_is_shown_short(digits: int) -> None:
    engine = tocsin.Engine()
    engine.create_stream("ev")
    engine.create_table("t", key="k", columns={"k": "string", "x": "double", "n": "bigint"})
    huge = 10**digits
    attempts: list[Callable[[], object]] = [
        lambda: engine.publish("ev", [{"a": huge}]),
        lambda: engine.publish("ev", {"a": [huge]}),
        lambda: engine.publish("ev", [{"a": (1, 2, huge)}]),
        lambda: engine.publish("ev", [{"a": 1, "_weights": {"a": huge}}]),
        lambda: engine.publish("t", [{"k": "a", "x": huge}]),
        lambda: engine.publish("t", [{"k": "a", "n": huge}]),
        lambda: engine.subscribe("SELECT k FROM t WHERE x > :n", n=huge),
        lambda: engine.subscribe_many("SELECT k FROM t WHERE x > :n", {"n": [huge]}),
    ]
    for attempt in attempts:
        with pytest.raises(tocsin.Error) as refused:
            attempt()
        assert len(str(refused.value)) < 300


@pytest.mark.parametrize("kind", ["int", "bigint"])
def test_a_decimal_of_a_short_text_is_not_expanded(kind: str) -> None:
    # In full it has more digits than fit memory.
    huge = Decimal("-1E+999999999")
    engine = tocsin.Engine()
    engine.create_table("t", key="k", columns={"k": "string", "n": kind})
    for rows in ([{"k": "a", "n": huge}], {"k": ["a"], "n": [huge]}):
        with pytest.raises(tocsin.RowError, match=r"row 0: .* does not fit"):
            engine.publish("t", rows)
    engine.publish("t", [{"k": "a", "n": Decimal("0E+999999999")}])
