"""Bad calls for messages and spaces: a clear error, and an engine that is as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tests.oracles.pair import saved

TOP = "SELECT symbol FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT :k"
ROW = {"symbol": "B", "risk": 2.0, "per": 3.0, "size": 1.0}


@pytest.fixture
def engine() -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_table(
        "stocks",
        key="symbol",
        columns={"symbol": "string", "risk": "double", "per": "double", "size": "double"},
    )
    engine.create_stream("trades", columns={"price": "double"})
    engine.create_stream("flows", columns={"bytes": "double"}, window="9 rows")
    engine.subscribe(TOP, id="top", lo=0, hi=50, k=3)
    engine.create_space(TOP, k=2)
    engine.messages("stocks", [{**ROW, "symbol": "A"}])
    return engine


@pytest.fixture
def refused(engine: tocsin.Engine, tmp_path: Path) -> Callable[..., str]:
    """Make a call that must raise, check that nothing changed, give the error's text back."""

    def check(error: type[tocsin.Error], call: Callable[..., object], *args: Any, **options: Any) -> str:
        before = saved(engine, tmp_path)
        with pytest.raises(error) as raised:
            call(*args, **options)
        assert type(raised.value) is error
        assert saved(engine, tmp_path) == before
        return str(raised.value)

    return check


Refused = Callable[..., str]


@pytest.mark.parametrize("name", ["trades", "flows"])
def test_messages_are_of_tables(engine: tocsin.Engine, refused: Refused, name: str) -> None:
    assert f"{name!r} is a stream" in refused(tocsin.ParameterError, engine.messages, name, [])
    assert f"{name!r} is a stream" in refused(tocsin.ParameterError, engine.snapshot, name, "any")
    assert f"{name!r} is a stream" in refused(tocsin.ParameterError, engine.spaces, name)


def test_unknown_table(engine: tocsin.Engine, refused: Refused) -> None:
    assert "'stocks'" in refused(tocsin.UnknownSource, engine.messages, "stonks", [ROW])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"algorithm": "best"}, "must be 'dense' or 'sparse', got 'best'"),
        ({"algorithm": None}, "got None"),
        ({"epsilon": -0.5}, "from 0 to 1, got -0.5"),
        ({"epsilon": 1.5}, "from 0 to 1"),
        ({"epsilon": math.nan}, "got nan"),
        ({"epsilon": "much"}, "got 'much'"),
        ({"epsilon": True}, "got True"),
        ({"others": "drop"}, "'refuse' or 'ignore'"),
    ],
)
def test_options(engine: tocsin.Engine, refused: Refused, options: dict[str, Any], words: str) -> None:
    assert words in refused(tocsin.ParameterError, engine.messages, "stocks", [ROW], **options)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MIN(per) FROM stocks WHERE risk < 9",
        "SELECT DISTINCT per FROM stocks WHERE risk BETWEEN 1 AND 2",
    ],
)
def test_an_epsilon_goes_with_top_k(engine: tocsin.Engine, refused: Refused, sql: str) -> None:
    engine.subscribe(sql)
    assert "top-k only" in refused(tocsin.ParameterError, engine.messages, "stocks", [ROW], epsilon=0.5)
    assert engine.messages("stocks", [ROW]).num_rows > 0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({**ROW, "colour": "red"}, "colour"),
        ({**ROW, "per": "dear"}, "per"),
        ({**ROW, "symbol": None}, "null"),
        ({**ROW, "_op": "insert"}, "insert"),
    ],
)
def test_bad_rows(engine: tocsin.Engine, refused: Refused, row: dict[str, Any], words: str) -> None:
    assert words in refused(tocsin.RowError, engine.messages, "stocks", [ROW, row])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM stocks WHERE risk < 9",
        "SELECT symbol FROM stocks WHERE risk < 9",
        "SELECT symbol FROM stocks ORDER BY per + risk LIMIT 2",
        "SELECT symbol FROM stocks WHERE risk < 9 AND size < 5 ORDER BY per LIMIT 2",
    ],
)
def test_what_no_message_describes_is_not_lost_silently(
    engine: tocsin.Engine, refused: Refused, sql: str
) -> None:
    sid = engine.subscribe(sql, id="odd")
    assert sql in refused(tocsin.ParameterError, engine.messages, "stocks", [ROW])
    other = tocsin.Engine()
    other.create_table(
        "stocks",
        key="symbol",
        columns={"symbol": "string", "risk": "double", "per": "double", "size": "double"},
    )
    other.subscribe(sql, id="odd")
    other.publish("stocks", [{**ROW, "symbol": "A"}, ROW])
    engine.messages("stocks", [ROW], others="ignore")
    assert engine.result(sid) == other.result("odd"), "it stays exact"


def test_several_ranges_need_a_space(engine: tocsin.Engine) -> None:
    sql = "SELECT symbol FROM stocks WHERE risk < :hi AND size < :most ORDER BY per LIMIT 2"
    engine.subscribe(sql, hi=9, most=5)
    with pytest.raises(tocsin.ParameterError, match="one range"):
        engine.messages("stocks", [ROW])
    space = engine.create_space(sql, most=5)
    assert "size BETWEEN -inf AND 4.99" in space
    messages = engine.messages("stocks", [ROW]).to_pylist()
    assert [message["key"] for message in messages if message["space"] == space] == ["B"]


@pytest.mark.parametrize(
    ("sql", "params", "words"),
    [
        ("SELECT SUM(per) FROM stocks WHERE risk < :hi", {}, "MIN, MAX and DISTINCT"),
        ("SELECT symbol FROM stocks WHERE risk < :hi", {}, "MIN, MAX and DISTINCT"),
        (
            "SELECT symbol FROM stocks WHERE risk < :a AND size < :b ORDER BY per LIMIT 2",
            {},
            "'risk' and 'size'",
        ),
        (TOP, {}, ":k is missing"),
        (TOP, {"k": 0}, ":k"),
        (TOP, {"k": 2, "extra": 1}, ":extra"),
        (TOP, {"k": 2, "lo": 1}, ":lo"),
        ("SELECT bytes FROM flows ORDER BY bytes LIMIT 2", {}, "'flows' is a stream"),
    ],
)
def test_spaces(
    engine: tocsin.Engine, refused: Refused, sql: str, params: dict[str, Any], words: str
) -> None:
    assert words in refused(tocsin.ParameterError, engine.create_space, sql, **params)


def test_a_snapshot_names_a_space(engine: tocsin.Engine, refused: Refused) -> None:
    text = refused(tocsin.ParameterError, engine.snapshot, "stocks", "no such space")
    assert all(repr(each["space"]) in text for each in engine.spaces("stocks"))


def test_a_subscriber_is_told_what_is_wrong() -> None:
    with pytest.raises(tocsin.ParameterError, match="unknown kind"):
        tocsin.Subscriber(0, 1, kind="median")
    with pytest.raises(tocsin.ParameterError, match="same number of dimensions"):
        tocsin.Subscriber([0, 1], 1)
    with pytest.raises(tocsin.ParameterError, match="the largest value is kind='max'"):
        tocsin.Subscriber(0, 1, kind="min", descending=True)
