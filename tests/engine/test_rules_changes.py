"""One small example for each row of the table of changes, and for each sentence below it."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import tocsin

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def engine() -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_table(
        "stocks",
        key="symbol",
        columns={"symbol": "string", "risk": "double", "per": "double", "size": "bigint"},
    )
    engine.create_table("owners", key="owner", columns={"owner": "bigint", "symbol": "string"})
    engine.create_stream("trades", columns={"price": "double", "shares": "bigint"})
    engine.create_stream("tickets", key="code", columns={"code": "string", "price": "double"})
    engine.create_stream("flows", columns={"bytes": "double", "at": "timestamp"}, window="2 rows")
    engine.create_stream("visitors")
    return engine


def told(changes: pa.Table) -> list[tuple[Any, ...]]:
    """Changes as (seq, op, key, score, rank)."""
    return [tuple(line.values())[1:] for line in changes.to_pylist()]


def stock(symbol: str, risk: float, per: float | None, **more: Any) -> dict[str, Any]:
    return {"symbol": symbol, "risk": risk, "per": per, **more}


TOP2 = "SELECT symbol FROM stocks WHERE risk BETWEEN 0 AND 50 ORDER BY per LIMIT 2"


def test_one_schema_for_every_engine(engine: tocsin.Engine) -> None:
    expected = [
        ("subscription", pa.string()),
        ("seq", pa.int64()),
        ("op", pa.string()),
        ("key", pa.string()),
        ("score", pa.float64()),
        ("rank", pa.int32()),
    ]
    engine.subscribe(TOP2)
    engine.subscribe("SELECT * FROM visitors")
    for changes in (
        engine.publish("stocks", [stock("A", 1, 1)]),
        engine.publish("stocks", []),
        engine.publish("visitors", [{"age": 1}]),
        engine.publish("trades", [{"price": 1.0}]),
        engine.delete("stocks", ["A"]),
    ):
        assert [(field.name, field.type) for field in changes.schema] == expected


# The ops


def test_top_k_enters_leaves_and_updates_with_score_and_rank(engine: tocsin.Engine) -> None:
    engine.subscribe(TOP2)
    assert told(engine.publish("stocks", [stock("A", 1, 5), stock("B", 1, 7)])) == [
        (1, "enter", "A", 5.0, 1),
        (1, "enter", "B", 7.0, 2),
    ]
    assert told(engine.publish("stocks", [stock("C", 1, 6)])) == [
        (2, "leave", "B", None, None),
        (2, "enter", "C", 6.0, 2),
    ]
    assert told(engine.publish("stocks", [stock("A", 1, 6.5)])) == [(3, "update", "A", 6.5, 2)]


def test_score_threshold_changes_have_a_score_and_no_rank(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT bytes FROM flows WHERE 2 * bytes > 5")
    assert told(engine.publish("flows", [{"bytes": 3.0}])) == [(0, "enter", "0", 6.0, None)]
    assert told(engine.publish("flows", [{"bytes": 1.0}] * 2)) == [(2, "leave", "0", None, None)]


def test_distinct_changes_carry_the_value(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT DISTINCT size FROM stocks WHERE risk < 9")
    rows = [stock("A", 1, 1, size=4), stock("B", 1, 1, size=4)]
    assert told(engine.publish("stocks", rows)) == [(1, "enter", "4", 4.0, None)]
    assert engine.delete("stocks", ["A"]).num_rows == 0
    assert told(engine.delete("stocks", ["B"])) == [(3, "leave", "4", None, None)]


def test_distinct_text_has_no_score(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT DISTINCT symbol FROM stocks WHERE risk < 9")
    assert told(engine.publish("stocks", [stock("A", 1, 1)])) == [(0, "enter", "A", None, None)]


def test_a_joins_key_is_the_json_array_of_both_keys_and_its_score_is_null(engine: tocsin.Engine) -> None:
    engine.subscribe(
        "SELECT stocks.per, owners.owner FROM stocks JOIN owners ON stocks.symbol = owners.symbol"
    )
    engine.publish("stocks", [stock('A"', 1, 1)])
    changes = told(engine.publish("owners", [{"owner": 7, "symbol": "B"}, {"owner": 8, "symbol": 'A"'}]))
    assert [(seq, op, json.loads(key), score, rank) for seq, op, key, score, rank in changes] == [
        (1, "enter", ['A"', "8"], None, None)
    ]
    (left,) = told(engine.delete("stocks", ['A"']))
    assert (left[0], left[1], json.loads(left[2])) == (1, "leave", ['A"', "8"])


def test_value_names_the_row_where_one_row_is_the_answer(engine: tocsin.Engine) -> None:
    for function in ("MIN(per)", "SUM(per)", "COUNT(*)"):
        engine.subscribe(f"SELECT {function} FROM stocks WHERE risk < 9", id=function)
    changes = engine.publish("stocks", [stock("A", 1, 5), stock("B", 1, 7)]).to_pylist()
    by_id = {change["subscription"]: (change["op"], change["key"], change["score"]) for change in changes}
    assert by_id == {
        "MIN(per)": ("value", "A", 5.0),
        "SUM(per)": ("value", None, 12.0),
        "COUNT(*)": ("value", None, 2.0),
    }


def test_value_is_told_when_another_row_takes_over_with_the_same_value(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT MIN(per) FROM stocks WHERE risk < 9")
    engine.publish("stocks", [stock("A", 1, 5), stock("B", 1, 5)])
    assert told(engine.delete("stocks", ["A"])) == [(2, "value", "B", 5.0, None)]


def test_mature_names_the_row_that_crossed_and_the_weight_reached(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT SUM(shares) FROM trades HAVING SUM(shares) >= 10", id="t")
    changes = engine.publish("trades", [{"shares": 6}, {"shares": 7}, {"shares": 8}])
    assert told(changes) == [(1, "mature", "1", 13.0, None)]


def test_a_matured_thresholds_id_is_free_again(engine: tocsin.Engine) -> None:
    sql = "SELECT COUNT(*) FROM trades HAVING COUNT(*) >= 1"
    engine.subscribe(sql, id="t")
    engine.publish("trades", [{"shares": 6}])
    with pytest.raises(tocsin.UnknownSubscription):
        engine.result("t")
    assert engine.subscribe(sql, id="t") == "t"


def test_a_repeating_threshold_matures_again_and_again(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT COUNT(*) AS n FROM trades HAVING COUNT(*) >= 2", id="t", repeat=True)
    changes = engine.publish("trades", [{"shares": 1}] * 5)
    assert told(changes) == [(1, "mature", "1", 2.0, None), (3, "mature", "3", 2.0, None)]
    assert engine.result("t").to_pylist() == [{"n": 1, "missing": 1}]


def test_top_keeps_the_best_of_all_statements_together(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT * FROM visitors WHERE age > 1", id="c")
    engine.subscribe("SELECT age FROM visitors WHERE age > 1", id="b")
    engine.subscribe("SELECT city FROM visitors WHERE age > 1 AND age > 2", id="d")
    engine.subscribe("SELECT city, age FROM visitors", id="a")
    changes = engine.publish("visitors", [{"age": 9}], top=3)
    assert changes.column("subscription").to_pylist() == ["d", "b", "c"]
    assert changes.column("rank").to_pylist() == [1, 2, 3]


def test_match_has_a_rank_only_when_top_is_asked(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT * FROM visitors WHERE age > 1", id="a")
    engine.subscribe("SELECT * FROM visitors WHERE age > 1 AND age > 2", id="b")
    assert sorted(told(engine.publish("visitors", [{"age": 9}]))) == [
        (0, "match", "0", 1.0, None),
        (0, "match", "0", 2.0, None),
    ]
    changes = engine.publish("visitors", [{"age": 9}, {"age": 2}], top=1)
    assert changes.column("subscription").to_pylist() == ["b", "a"]
    assert told(changes) == [(1, "match", "1", 2.0, 1), (2, "match", "2", 1.0, 1)]


# Keys


def test_a_stream_rows_key_is_its_number_over_the_life_of_the_source(engine: tocsin.Engine) -> None:
    engine.publish("trades", [{"price": 1.0}] * 3)
    engine.subscribe("SELECT price FROM trades WHERE price > 0")
    assert told(engine.publish("trades", [{"price": 1.0}])) == [(3, "match", "3", 1.0, None)]


def test_a_stream_rows_key_is_its_number_and_its_name_stands_beside_it(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT price FROM tickets WHERE price > 0")
    engine.subscribe("SELECT SUM(price) FROM tickets HAVING SUM(price) >= 1")
    changes = engine.publish("tickets", [{"code": "x-1", "price": 1.0}], rows=True).to_pylist()
    rows = {change["op"]: (change["key"], change["row"]) for change in changes}
    assert rows == {"match": ("0", '{"price": 1.0, "_name": "x-1"}'), "mature": ("0", '{"_name": "x-1"}')}


def test_a_name_that_comes_again_in_a_window() -> None:
    engine = tocsin.Engine()
    engine.create_stream("w", key="name", columns={"name": "string", "v": "double"}, window="2 rows")
    sid = engine.subscribe("SELECT v FROM w ORDER BY v DESC LIMIT 2")
    changes = engine.publish("w", [{"name": "AA", "v": v} for v in (1.0, 2.0, 3.0)], each=True)
    told_of = [(change["op"], change["key"]) for change in changes.to_pylist()]
    assert told_of == [("enter", "0"), ("enter", "1"), ("leave", "0"), ("enter", "2")]
    assert engine.result(sid).to_pydict() == {"v": [3.0, 2.0], "_name": ["AA", "AA"]}


@pytest.mark.parametrize(
    ("type_name", "value", "key"),
    [
        ("double", 1.0, "1.0"),
        ("double", 1e22, "1e+22"),
        ("double", -0.0, "0.0"),
        ("double", math.inf, "inf"),
        ("bigint", 2**53 + 1, "9007199254740993"),
        ("boolean", True, "True"),
        ("string", "é", "é"),
        ("timestamp", NOON + timedelta(milliseconds=500), "2024-03-01T12:00:00.500000Z"),
        ("timestamp", NOON, "2024-03-01T12:00:00Z"),
    ],
)
def test_text_is_pythons_str(type_name: str, value: Any, key: str) -> None:
    engine = tocsin.Engine()
    engine.create_table("t", key="k", columns={"k": type_name, "x": "double"})
    engine.subscribe("SELECT x FROM t WHERE x > 0")
    assert told(engine.publish("t", [{"k": value, "x": 1.0}])) == [(0, "enter", key, None, None)]


# seq


def test_seq_of_a_net_change_is_the_last_row_of_the_batch(engine: tocsin.Engine) -> None:
    engine.subscribe(TOP2)
    assert told(engine.publish("stocks", [stock("A", 1, 5), stock("B", 99, 1)])) == [
        (1, "enter", "A", 5.0, 1)
    ]


def test_seq_of_each_change_is_the_row_that_caused_it(engine: tocsin.Engine) -> None:
    engine.subscribe(TOP2)
    rows = [stock("A", 1, 5), stock("B", 99, 1), stock("A", 1, 4)]
    assert told(engine.publish("stocks", rows, each=True)) == [
        (0, "enter", "A", 5.0, 1),
        (2, "update", "A", 4.0, 1),
    ]


def test_a_row_that_comes_and_goes_within_a_batch_is_no_net_change(engine: tocsin.Engine) -> None:
    engine.subscribe(TOP2)
    rows = [stock("A", 1, 5, _op="upsert"), {"symbol": "A", "_op": "delete"}]
    assert engine.publish("stocks", rows).num_rows == 0
    assert [change[1] for change in told(engine.publish("stocks", rows, each=True))] == ["enter", "leave"]


# Order and updates


def test_leaves_then_updates_then_enters_each_by_rank(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT symbol FROM stocks WHERE risk < 9 ORDER BY per LIMIT 4")
    engine.publish("stocks", [stock(symbol, 1, per) for symbol, per in zip("ABCD", range(4), strict=True)])
    changes = engine.publish(
        "stocks",
        [
            stock("F", 1, 2.5),
            stock("E", 1, 0.5),
            stock("D", 1, 1.5),
            stock("B", 99, 1),
            stock("A", 99, 0),
            stock("C", 1, 0),
        ],
    )
    assert told(changes) == [
        (9, "leave", "A", None, None),
        (9, "leave", "B", None, None),
        (9, "update", "C", 0.0, 1),
        (9, "update", "D", 1.5, 3),
        (9, "enter", "E", 0.5, 2),
        (9, "enter", "F", 2.5, 4),
    ]


def test_a_row_that_others_pushed_makes_no_change(engine: tocsin.Engine) -> None:
    engine.subscribe(TOP2)
    engine.publish("stocks", [stock("A", 1, 5)])
    assert told(engine.publish("stocks", [stock("B", 1, 4)])) == [(1, "enter", "B", 4.0, 1)]


def test_update_when_another_selected_column_changes(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT symbol, size FROM stocks WHERE risk < 9 ORDER BY per LIMIT 2")
    engine.publish("stocks", [stock("A", 1, 5, size=1)])
    assert engine.publish("stocks", [stock("A", 2, 5, size=1)]).num_rows == 0
    assert told(engine.publish("stocks", [stock("A", 2, 5, size=3)])) == [(2, "update", "A", 5.0, 1)]


def test_update_when_a_key_is_deleted_and_inserted_again_within_the_batch(engine: tocsin.Engine) -> None:
    engine.subscribe(TOP2)
    engine.publish("stocks", [stock("A", 1, 5), stock("B", 1, 5)])
    changes = engine.publish("stocks", [{"symbol": "A", "_op": "delete"}, stock("A", 1, 5, _op="upsert")])
    assert told(changes) == [(3, "update", "A", 5.0, 2)]


def test_values_that_return_within_the_batch_are_no_change(engine: tocsin.Engine) -> None:
    engine.subscribe(TOP2)
    engine.publish("stocks", [stock("A", 1, 5)])
    assert engine.publish("stocks", [stock("A", 1, 9), stock("A", 1, 5)]).num_rows == 0


# The row as JSON


def test_rows_adds_the_select_list_as_json(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT per, symbol, size FROM stocks WHERE risk < 9 ORDER BY per LIMIT 1")
    changes = engine.publish("stocks", [stock("A", 1, 5)], rows=True)
    assert changes.column("row").to_pylist() == ['{"per": 5.0, "symbol": "A", "size": null}']
    changes = engine.publish("stocks", [stock("B", 1, -math.inf, size=2)], rows=True)
    assert changes.column_names[-1] == "row"
    assert changes.column("row").to_pylist() == [None, '{"per": "-Infinity", "symbol": "B", "size": 2}']


def test_rows_shows_nan_as_null_and_times_as_iso_8601(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT at, bytes FROM flows WHERE at > :t", t=NOON)
    changes = engine.publish("flows", [{"bytes": math.nan, "at": NOON + timedelta(hours=1)}], rows=True)
    assert changes.column("row").to_pylist() == ['{"at": "2024-03-01T13:00:00Z", "bytes": null}']


@pytest.mark.parametrize("form", [list, pa.Table.from_pylist, pd.DataFrame], ids=["dicts", "arrow", "pandas"])
def test_rows_of_sparse_events_have_every_item_under_its_name(engine: tocsin.Engine, form: Any) -> None:
    engine.subscribe("SELECT city AS town, shoes FROM visitors WHERE age > 18")
    changes = engine.publish("visitors", form([{"age": 20, "city": "Oslo"}]), rows=True)
    assert changes.column("row").to_pylist() == ['{"town": "Oslo", "shoes": null}']


def test_rows_of_a_star_are_the_event_without_its_weights(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT * FROM visitors WHERE age > 18")
    event = {"age": (10, 20.5), "city": None, "member": True, "_weights": {"age": 2}}
    changes = engine.publish("visitors", [event], rows=True)
    assert changes.column("row").to_pylist() == [
        '{"age": {"low": 10, "high": 20.5}, "city": null, "member": true}'
    ]


def test_decimals_in_sparse_events_are_numbers(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT age FROM visitors WHERE age > 18")
    changes = engine.publish("visitors", [{"age": Decimal("18.5")}], rows=True)
    assert changes.column("row").to_pylist() == ['{"age": 18.5}']


def test_values_have_no_row(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT COUNT(*) FROM stocks WHERE risk < 9")
    assert engine.publish("stocks", [stock("A", 1, 5)], rows=True).column("row").to_pylist() == [None]


def test_each_row_is_shown_as_it_was_at_its_step(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT symbol, per FROM stocks WHERE risk < 9 ORDER BY per LIMIT 1")
    changes = engine.publish("stocks", [stock("A", 1, 5), stock("A", 1, 6)], each=True, rows=True)
    shown = [json.loads(row or "")["per"] for row in changes.column("row").to_pylist()]
    assert shown == [5.0, 6.0]


def test_from_null_to_nan_is_no_change() -> None:
    engine = tocsin.Engine()
    engine.create_table("stocks", key="symbol", columns={"symbol": "string", "risk": "double"})
    engine.subscribe("SELECT symbol, risk FROM stocks", id="all")
    engine.publish("stocks", [{"symbol": "a", "risk": None}])
    assert engine.publish("stocks", [{"symbol": "a", "risk": float("nan")}]).num_rows == 0
    assert engine.publish("stocks", [{"symbol": "a", "risk": 1.0}]).column("op").to_pylist() == ["update"]
    assert engine.publish("stocks", [{"symbol": "a", "risk": float("nan")}]).num_rows == 1
