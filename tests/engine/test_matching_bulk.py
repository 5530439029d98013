"""Bulk forms of sparse events and of subscriptions, why a subscription matches, and which index keeps it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocsin
from tests.conftest import INTERPRETED
from tocsin.planning.rules import ACCESS

MANY = ACCESS.min_subscriptions

NUMBERS = st.sampled_from([0.0, 1.0, 2.0, 3.0, float("inf")])
TEXTS = st.sampled_from(["Oslo", "Rome", "Romeo"])
ATTRIBUTES = st.sampled_from(["a", "b", "c"])


def engine_with(*statements: str) -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_stream("visitors")
    for number, sql in enumerate(statements):
        engine.subscribe(sql, id=f"s{number}")
    return engine


STATEMENTS = (
    "SELECT * FROM visitors WHERE a BETWEEN 1 AND 2",
    "SELECT a FROM visitors WHERE WEIGHT(b >= 1, 0.5) AND WEIGHT(city <> 'Rome', 0.25)",
    "SELECT * FROM visitors WHERE city = 'Rome' AND member = TRUE",
    "SELECT * FROM visitors",
)


def typed_map(rows: list[dict[str, Any]], value: pa.DataType, kind: type) -> pa.Array:
    maps = [[(name, item) for name, item in row.items() if type(item) is kind] for row in rows]
    return pa.array(maps, pa.map_(pa.string(), value))


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "a": NUMBERS,
                "b": st.one_of(NUMBERS, st.sampled_from([(0.0, 1.0), (1.5, 3.0), (2.0, 1.0)])),
                "city": TEXTS,
                "member": st.booleans(),
            },
        ),
        max_size=5,
    ),
    weights=st.lists(st.dictionaries(ATTRIBUTES, st.sampled_from([0.5, 2.0])), min_size=5, max_size=5),
    cut=st.integers(0, 2),
    top=st.sampled_from([None, 2]),
)
@settings(max_examples=40)
def test_maps_are_read_as_dicts(
    rows: list[dict[str, Any]], weights: list[dict[str, float]], cut: int, top: int | None
) -> None:
    dicts = [{**row, "_weights": given} for row, given in zip(rows, weights, strict=False)]
    table = pa.table(
        {
            "numbers": typed_map(rows, pa.float64(), float),
            "texts": typed_map(rows, pa.string(), str),
            "flags": typed_map(rows, pa.bool_(), bool),
            "ranges": typed_map(rows, pa.list_(pa.float64(), 2), tuple),
            "_weights": pa.array(
                [list(given.items()) for given in weights[: len(rows)]], pa.map_(pa.string(), pa.float64())
            ),
        }
    )
    by_dict, by_map = engine_with(*STATEMENTS), engine_with(*STATEMENTS)
    expected = by_dict.publish("visitors", dicts[cut:], top=top, rows=True)
    found = by_map.publish("visitors", table.slice(cut), top=top, rows=True)
    columns = [name for name in expected.column_names if name != "row"]
    assert found.select(columns) == expected.select(columns)
    # A map has no order among other columns: JSON is compared as such.
    assert [json.loads(row) for row in found["row"].to_pylist()] == [
        json.loads(row) for row in expected["row"].to_pylist()
    ]


def test_maps_that_cannot_be_read_are_refused() -> None:
    engine = engine_with(*STATEMENTS)
    twice = pa.array([[("a", 1.0)], [("a", 1.0), ("a", 2.0)]], pa.map_(pa.string(), pa.float64()))
    with pytest.raises(tocsin.RowError, match="row 1: the attribute 'a' comes twice"):
        engine.publish("visitors", pa.table({"m": twice}))
    numbered = pa.array([[(1, 1.0)]], pa.map_(pa.int64(), pa.float64()))
    with pytest.raises(tocsin.RowError, match="the keys of a map must be strings"):
        engine.publish("visitors", pa.table({"m": numbered}))
    infinite = pa.array([[("a", float("inf"))]], pa.map_(pa.string(), pa.float64()))
    with pytest.raises(tocsin.RowError, match="row 0, attribute 'a': a weight must be a finite number"):
        engine.publish("visitors", pa.table({"a": [1.0], "_weights": infinite}))
    assert engine.counts("visitors")["rows"] == 0


PREDICATES = pa.table(
    {
        "id": ["x", "x", "y", "y", "y", "z"],
        "attribute": ["a", "city", "a", "b", "member", "city"],
        "operator": ["BETWEEN", "IN", ">", "NOT IN", "=", "BETWEEN"],
        "value": [1.0, None, 0.0, None, None, None],
        "high": [2.0, None, None, None, None, None],
        "text": [None, None, None, None, None, "Oslo"],
        "text_high": [None, None, None, None, None, "Rome"],
        "flag": [None, None, None, None, True, None],
        "values": [None, None, None, [1.0, 2.0], None, None],
        "texts": [None, ["Rome", "Oslo"], None, None, None, None],
        "weight": [0.5, 0.25, None, None, 2.0, None],
    }
)
SAME = {
    "x": "SELECT * FROM visitors "
    "WHERE WEIGHT(a BETWEEN 1 AND 2, 0.5) AND WEIGHT(city IN ('Rome', 'Oslo'), 0.25)",
    "y": "SELECT * FROM visitors WHERE a > 0 AND b NOT IN (1, 2) AND WEIGHT(member = TRUE, 2)",
    "z": "SELECT * FROM visitors WHERE city BETWEEN 'Oslo' AND 'Rome'",
}
VISITORS = [
    {"a": 1.0, "city": "Rome"},
    {"a": 1.5, "b": 3.0, "member": True},
    {"a": 3.0, "b": 2.0, "member": True, "city": "Paris"},
    {"city": "Romeo", "a": (0.0, 5.0), "b": (1.0, 1.5), "member": True},
]


def test_predicates_in_rows_are_subscriptions(tmp_path: Path) -> None:
    bulk, single = engine_with(), engine_with()
    assert bulk.subscribe_predicates("visitors", PREDICATES) == 3
    for sid, sql in SAME.items():
        single.subscribe(sql, id=sid)
    for top in (None, 1):
        assert bulk.publish("visitors", VISITORS, top=top) == single.publish("visitors", VISITORS, top=top)
    bulk.save(tmp_path / "engine")
    again = tocsin.Engine.load(tmp_path / "engine")
    assert again.publish("visitors", VISITORS) == single.publish("visitors", VISITORS)
    again.unsubscribe("x")
    assert again.subscribe_predicates("visitors", PREDICATES.slice(0, 2)) == 1
    assert again.publish("visitors", VISITORS) == single.publish("visitors", VISITORS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operator": ["LIKE"]}, "row 0: 'LIKE' is no operator"),
        ({"value": [None]}, "row 0: a predicate has an operand in one of"),
        ({"text": ["x"]}, "row 0: a predicate has an operand in one of"),
        ({"operator": ["BETWEEN"]}, "row 0: BETWEEN needs high"),
        ({"weight": [float("nan")]}, "row 0: a weight must be a finite number"),
        ({"value": [float("nan")]}, "value is NaN"),
        ({"attribute": [None]}, "row 0: attribute is null"),
        ({"colour": [1]}, "no column 'colour'"),
        ({"value": pa.array([None], pa.float64()), "values": [[1.0]]}, "= takes one value, not a list"),
    ],
)
def test_predicates_that_make_no_sense_are_refused(change: dict[str, Any], message: str) -> None:
    engine = engine_with()
    table: dict[str, Any] = {"id": ["x"], "attribute": ["a"], "operator": ["="], "value": [1.0], **change}
    with pytest.raises(tocsin.ParameterError, match=message):
        engine.subscribe_predicates("visitors", table)
    assert len(engine) == 0


def test_rows_of_an_id_follow_each_other_and_ids_are_new() -> None:
    engine = engine_with("SELECT * FROM visitors")
    table = {"id": ["x", "y", "x"], "attribute": ["a"] * 3, "operator": ["="] * 3, "value": [1.0] * 3}
    with pytest.raises(tocsin.ParameterError, match="follow each other"):
        engine.subscribe_predicates("visitors", table)
    with pytest.raises(tocsin.Error, match="s0"):
        engine.subscribe_predicates("visitors", {**table, "id": ["x", "x", "s0"]})
    assert len(engine) == 1


def test_explain_says_why_an_event_matches() -> None:
    engine = engine_with(*STATEMENTS)
    said = engine.explain("s1", {"b": (0, 4), "city": "Oslo", "_weights": {"b": 2.0}})
    assert "match, score 1.25" in said
    assert "1: b at least 1.0: holds, the event has from 0.0 to 4.0; weight 0.5 × 2.0 of the event" in said
    assert "2: city none of ['Rome']: holds, the event has 'Oslo'; weight 0.25" in said
    said = engine.explain("s2", {"city": "Romeo"})
    assert "no match, 0 of 2 predicates hold" in said
    assert "city one of ['Rome']: fails, the event has 'Romeo'" in said
    assert "member = True: fails, the event has none" in said
    assert "member = True: holds, the event has True" in engine.explain("s2", {"member": True})
    assert engine.counts("visitors")["rows"] == 0
    engine.create_stream("trades", columns={"price": "double", "shares": "bigint"})
    engine.subscribe("SELECT price FROM trades WHERE price > 5", id="typed")
    assert "match, score 1.0" in engine.explain("typed", {"price": 6.0})
    engine.subscribe("SELECT SUM(shares) FROM trades HAVING SUM(shares) >= 5", id="sum")
    with pytest.raises(tocsin.ParameterError, match="an event requires a match"):
        engine.explain("sum", {"price": 6.0})
    with pytest.raises(tocsin.RowError):
        engine.explain("typed", {"colour": 6.0})


def test_a_growing_stream_changes_its_index(tmp_path: Path) -> None:
    count = MANY // 10 if INTERPRETED else 3 * MANY
    engine = tocsin.Engine()
    engine.create_stream("visitors")
    sql = "SELECT * FROM visitors WHERE age BETWEEN :lo AND :hi AND WEIGHT(city = :city, :w)"
    number = np.arange(count)
    low, city, weight = number % 90, np.array([f"city number {each % 7}" for each in number]), number % 5 / 4
    params = pa.table(
        {"id": [f"q{each}" for each in number], "lo": low, "hi": low + 10, "city": city, "w": weight}
    )
    engine.subscribe_many(sql, params.slice(0, 100))
    assert "index: scan:" in engine.explain("q0")
    engine.subscribe_many(sql, params.slice(100))
    assert ("index: access-predicates:" in engine.explain("q0")) == (count >= MANY)
    assert f"{MANY:,}" in engine.explain("q0")
    visitors = [{"age": 20 * each, "city": f"city number {each % 7}"} for each in range(6)]
    for _ in range(2):
        told = engine.publish("visitors", visitors)
        for each, visitor in enumerate(visitors):
            is_match = (low <= 20 * each) & (20 * each <= low + 10) & (city == visitor["city"])
            mine = told.filter(pa.array(told["key"].to_numpy() == str(int(told["seq"][0].as_py()) + each)))
            expected = {f"q{one}": 1 + weight[one] for one in np.flatnonzero(is_match)}
            assert (
                dict(zip(mine["subscription"].to_pylist(), mine["score"].to_pylist(), strict=True))
                == expected
            )
        engine.save(tmp_path / "engine")
        engine = tocsin.Engine.load(tmp_path / "engine")
    assert "up to" in engine.explain(f"q{count - 1}")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("a = 5", "a = 5.0"),
        ("a BETWEEN 1 AND 2", "a from 1.0 to 2.0"),
        ("a <= 3", "a at most 3.0"),
        ("member = FALSE", "member = False"),
        ("a <> 4", "a none of [4.0]"),
    ],
)
def test_explain_names_a_predicate_as_one_would_say_it(condition: str, words: str) -> None:
    engine = engine_with(f"SELECT * FROM visitors WHERE {condition}")
    assert f"1: {words}: fails" in engine.explain("s0", {})
