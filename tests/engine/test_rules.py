"""One small example for each rule that makes answers unique, values written out."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tocsin
from tests.oracles.pair import saved

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
TOP3 = "SELECT symbol, per FROM stocks WHERE risk BETWEEN 20 AND 60 ORDER BY per LIMIT 3"


@pytest.fixture
def engine() -> tocsin.Engine:
    """A table `stocks`, a stream `trades`, a sparse stream `visitors`."""
    engine = tocsin.Engine()
    engine.create_table(
        "stocks", key="symbol", columns={"symbol": "string", "risk": "double", "per": "double"}
    )
    engine.create_stream(
        "trades",
        columns={"price": "double", "shares": "bigint", "fee": "decimal(10,2)", "ratio": "double"},
    )
    engine.create_stream("visitors")
    return engine


def told(changes: pa.Table) -> list[tuple[Any, ...]]:
    """Changes as (op, key, score, rank)."""
    return [(line["op"], line["key"], line["score"], line["rank"]) for line in changes.to_pylist()]


def stock(symbol: str, risk: float | None, per: float | None, **more: Any) -> dict[str, Any]:
    return {"symbol": symbol, "risk": risk, "per": per, **more}


def windowed(**options: Any) -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_stream("flows", columns={"bytes": "double", "at": "timestamp"}, **options)
    return engine


def flow(size: float | None, seconds: float = 0) -> dict[str, Any]:
    return {"bytes": size, "at": NOON + timedelta(seconds=seconds)}


def values(table: pa.Table, column: str = "bytes") -> list[Any]:
    found: list[Any] = table.column(column).to_pylist()
    return found


# Ties


def test_ties_in_a_table_go_to_the_key_inserted_earlier(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock("B", 30, 5), stock("A", 30, 5), stock("C", 30, 4)])
    query = engine.subscribe(TOP3)
    assert values(engine.result(query), "symbol") == ["C", "B", "A"]


def test_an_upsert_keeps_the_place_of_the_first_insertion(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock("B", 30, 9), stock("A", 30, 5)])
    query = engine.subscribe(TOP3)
    engine.publish("stocks", [stock("B", 30, 5)])
    assert values(engine.result(query), "symbol") == ["B", "A"]


def test_a_key_deleted_and_inserted_again_is_the_younger(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock("B", 30, 5), stock("A", 30, 5)])
    query = engine.subscribe(TOP3)
    engine.delete("stocks", ["B"])
    engine.publish("stocks", [stock("B", 30, 5)])
    assert values(engine.result(query), "symbol") == ["A", "B"]


def test_ties_in_an_expression_over_a_table_go_to_the_key_inserted_earlier(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock("B", 1, 3), stock("A", 2, 2)])
    query = engine.subscribe("SELECT symbol FROM stocks ORDER BY risk + per DESC LIMIT 1")
    assert values(engine.result(query), "symbol") == ["B"]


def test_min_and_max_name_the_key_inserted_earlier_and_a_new_tie_is_no_change(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock("B", 30, 5)])
    engine.subscribe("SELECT MIN(per) FROM stocks WHERE risk BETWEEN 0 AND 99", id="low")
    engine.subscribe("SELECT MAX(per) FROM stocks WHERE risk BETWEEN 0 AND 99", id="high")
    assert engine.publish("stocks", [stock("A", 30, 5)]).num_rows == 0
    changes = engine.delete("stocks", ["B"])
    assert told(changes) == [("value", "A", 5.0, None), ("value", "A", 5.0, None)]


def test_ties_in_a_window_go_to_the_newer_row() -> None:
    engine = windowed(window="10 rows")
    engine.publish("flows", [flow(5, 1), flow(5, 2), flow(9, 3)])
    query = engine.subscribe("SELECT at FROM flows ORDER BY bytes LIMIT 2")
    assert values(engine.result(query), "at") == [NOON + timedelta(seconds=2), NOON + timedelta(seconds=1)]


def test_ties_in_a_match_go_to_the_smaller_id(engine: tocsin.Engine) -> None:
    for id in ("9", "10", "b", "a"):
        engine.subscribe("SELECT * FROM visitors WHERE age > 18", id=id)
    changes = engine.publish("visitors", [{"age": 20}], top=3)
    assert changes.column("subscription").to_pylist() == ["10", "9", "a"]
    assert changes.column("rank").to_pylist() == [1, 2, 3]


# NULL, NaN, infinities, nothing


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_null_and_nan_satisfy_no_condition(engine: tocsin.Engine, nothing: float | None) -> None:
    query = engine.subscribe("SELECT symbol FROM stocks WHERE risk <= :hi", hi=math.inf)
    assert engine.publish("stocks", [stock("A", nothing, 1)]).num_rows == 0
    assert engine.result(query).num_rows == 0


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_null_and_nan_are_never_ranked_summed_or_distinct(
    engine: tocsin.Engine, nothing: float | None
) -> None:
    engine.publish("stocks", [stock("A", 30, nothing), stock("B", 30, 2)])
    ranked = engine.subscribe(TOP3)
    total = engine.subscribe("SELECT SUM(per) AS total FROM stocks WHERE risk = 30")
    mean = engine.subscribe("SELECT AVG(per) AS mean FROM stocks WHERE risk = 30")
    distinct = engine.subscribe("SELECT DISTINCT per FROM stocks WHERE risk = 30")
    assert values(engine.result(ranked), "symbol") == ["B"]
    assert values(engine.result(total), "total") == [2.0]
    assert values(engine.result(mean), "mean") == [2.0]
    assert values(engine.result(distinct), "per") == [2.0]


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_count_star_counts_rows_whose_other_columns_are_null(
    engine: tocsin.Engine, nothing: float | None
) -> None:
    engine.publish("stocks", [stock("A", 30, nothing), stock("B", nothing, 2)])
    count = engine.subscribe("SELECT COUNT(*) AS n FROM stocks WHERE risk = 30")
    assert values(engine.result(count), "n") == [1]


def test_null_satisfies_not_even_unequal(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT * FROM visitors WHERE age <> 18")
    assert engine.publish("visitors", [{"age": None}, {"age": math.nan}, {}]).num_rows == 0


def test_a_score_that_is_nan_is_not_ranked(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock("A", math.inf, math.inf), stock("B", 1, 1)])
    query = engine.subscribe("SELECT symbol FROM stocks ORDER BY risk - per LIMIT 5")
    assert values(engine.result(query), "symbol") == ["B"]


def test_infinities_are_ordinary_values(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock("A", 30, math.inf), stock("B", 30, -math.inf), stock("C", 30, 0)])
    query = engine.subscribe(TOP3)
    total = engine.subscribe("SELECT MAX(per) AS high FROM stocks WHERE per BETWEEN 0 AND :hi", hi=math.inf)
    distinct = engine.subscribe("SELECT DISTINCT per FROM stocks WHERE risk = 30")
    assert values(engine.result(query), "symbol") == ["B", "C", "A"]
    assert values(engine.result(total), "high") == [math.inf]
    assert values(engine.result(distinct), "per") == [-math.inf, 0.0, math.inf]


def test_of_nothing_count_is_zero_and_the_others_are_null(engine: tocsin.Engine) -> None:
    functions = ("MIN(per)", "MAX(per)", "COUNT(*)", "SUM(per)", "AVG(per)")
    for position, function in enumerate(functions):
        engine.subscribe(f"SELECT {function} AS a FROM stocks WHERE risk < 10", id=str(position))
    answers = [values(engine.result(str(position)), "a")[0] for position in range(len(functions))]
    assert answers == [None, None, 0, None, None]
    engine.publish("stocks", [stock("A", 1, 7)])
    changes = engine.delete("stocks", ["A"]).sort_by("subscription")
    assert changes.column("score").to_pylist() == [None, None, 0.0, None, None]
    assert changes.column("key").to_pylist() == [None] * 5


def test_sum_and_avg_never_drift(engine: tocsin.Engine) -> None:
    total = engine.subscribe("SELECT SUM(per) AS total FROM stocks WHERE risk = 1")
    mean = engine.subscribe("SELECT AVG(per) AS mean FROM stocks WHERE risk = 1")
    engine.publish("stocks", [stock("A", 1, 0.1), stock("B", 1, 1e16), stock("C", 1, 0.2)])
    engine.publish("stocks", [stock("D", 1, math.inf), stock("E", 1, -math.inf)])
    assert values(engine.result(total), "total") == [None]
    engine.delete("stocks", ["B", "D", "E"])
    assert values(engine.result(total), "total") == [math.fsum([0.1, 0.2])]
    assert values(engine.result(mean), "mean") == [math.fsum([0.1, 0.2]) / 2]


def test_minus_zero_is_zero(engine: tocsin.Engine) -> None:
    query = engine.subscribe("SELECT DISTINCT per FROM stocks WHERE risk = 0")
    changes = engine.publish("stocks", [stock("A", -0.0, -0.0)])
    assert told(changes) == [("enter", "0.0", 0.0, None)]
    assert math.copysign(1, changes.column("score")[0].as_py()) == 1
    assert engine.publish("stocks", [stock("B", 0.0, 0.0)]).num_rows == 0
    assert engine.result(query).num_rows == 1


# Equal coordinates, open bounds


def test_equal_coordinates_are_normal(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock(symbol, 30, 5) for symbol in "DACB"])
    query = engine.subscribe(TOP3)
    assert values(engine.result(query), "symbol") == ["D", "A", "C"]


def test_an_open_bound_is_the_closed_bound_at_the_next_double(engine: tocsin.Engine) -> None:
    above, below = math.nextafter(5, 6), math.nextafter(5, 4)
    engine.publish("stocks", [stock("A", below, 1), stock("B", 5, 2), stock("C", above, 3)])
    over = engine.subscribe("SELECT symbol FROM stocks WHERE risk > 5")
    under = engine.subscribe("SELECT symbol FROM stocks WHERE risk < 5")
    closed = engine.subscribe("SELECT symbol FROM stocks WHERE risk >= 5 AND risk <= :hi", hi=above)
    assert values(engine.result(over), "symbol") == ["C"]
    assert values(engine.result(under), "symbol") == ["A"]
    assert values(engine.result(closed), "symbol") == ["B", "C"]


def test_beyond_an_infinity_there_is_nothing(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock("A", math.inf, 1), stock("B", -math.inf, 1), stock("C", 0, 1)])
    over = engine.subscribe("SELECT symbol FROM stocks WHERE risk > :x", x=math.inf)
    under = engine.subscribe("SELECT symbol FROM stocks WHERE risk < :x", x=-math.inf)
    finite = engine.subscribe(
        "SELECT symbol FROM stocks WHERE risk > :low AND risk < :high", low=-math.inf, high=math.inf
    )
    assert engine.result(over).num_rows == engine.result(under).num_rows == 0
    assert values(engine.result(finite), "symbol") == ["C"]


# Registration


def test_a_query_over_a_table_answers_from_what_is_there(engine: tocsin.Engine) -> None:
    engine.publish("stocks", [stock("A", 30, 5)])
    query = engine.subscribe(TOP3)
    assert engine.result(query).to_pylist() == [{"symbol": "A", "per": 5.0}]


def test_a_query_over_a_window_answers_from_what_is_there() -> None:
    engine = windowed(window="2 rows")
    engine.publish("flows", [flow(1), flow(2), flow(3)])
    query = engine.subscribe("SELECT bytes FROM flows WHERE bytes > 0")
    assert values(engine.result(query)) == [2.0, 3.0]


def test_a_threshold_counts_from_its_registration_on(engine: tocsin.Engine) -> None:
    engine.publish("trades", [{"price": 1.0, "shares": 50}])
    engine.subscribe("SELECT SUM(shares) FROM trades HAVING SUM(shares) >= 60", id="t")
    assert engine.publish("trades", [{"price": 1.0, "shares": 50}]).num_rows == 0
    assert told(engine.publish("trades", [{"price": 1.0, "shares": 10}])) == [("mature", "2", 60.0, None)]


# Weights of thresholds


def test_bigint_weights_are_exact(engine: tocsin.Engine) -> None:
    big = 2**60
    engine.subscribe("SELECT SUM(shares) FROM trades HAVING SUM(shares) >= :tau", id="t", tau=big + 1)
    assert engine.publish("trades", [{"price": 1.0, "shares": big}]).num_rows == 0
    assert engine.publish("trades", [{"price": 1.0, "shares": 1}]).num_rows == 1


def test_decimal_weights_are_exact(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT SUM(fee) FROM trades HAVING SUM(fee) >= 0.30", id="t")
    fees = [{"price": 1.0, "fee": Decimal("0.10")}] * 3
    assert told(engine.publish("trades", fees)) == [("mature", "2", 0.3, None)]


def test_double_weights_are_rounded_to_a_multiple_of_two_to_the_minus_20(engine: tocsin.Engine) -> None:
    unit = 2.0**-20
    query = engine.subscribe("SELECT SUM(ratio) AS total FROM trades HAVING SUM(ratio) >= 1")
    engine.publish("trades", [{"ratio": 0.3 * unit}, {"ratio": 0.7 * unit}, {"ratio": 2.2 * unit}])
    assert values(engine.result(query), "total") == [3 * unit]


def test_a_weight_beyond_64_bits_is_an_error(engine: tocsin.Engine, tmp_path: Path) -> None:
    engine.subscribe("SELECT SUM(ratio) FROM trades HAVING SUM(ratio) >= 10")
    before = saved(engine, tmp_path)
    for weight in (2.0**43, math.inf):
        with pytest.raises(tocsin.WeightOverflow):
            engine.publish("trades", [{"ratio": 1.0}, {"ratio": weight}])
    assert saved(engine, tmp_path) == before


@pytest.mark.parametrize("weight", [None, 0, -5])
def test_a_null_or_non_positive_weight_adds_nothing_and_is_counted(
    engine: tocsin.Engine, weight: int | None
) -> None:
    query = engine.subscribe("SELECT SUM(shares) AS total FROM trades HAVING SUM(shares) >= 10")
    engine.publish("trades", [{"shares": 4}, {"shares": weight}])
    assert engine.result(query).to_pylist() == [{"total": 4, "missing": 6}]
    assert engine.counts("trades") == {"rows": 2, "late": 0, "weightless": 1}


def test_a_weight_that_adds_nothing_adds_nothing_to_that_threshold_alone(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT COUNT(*) FROM trades HAVING COUNT(*) >= 1", id="count")
    engine.subscribe("SELECT SUM(shares) FROM trades HAVING SUM(shares) >= 1", id="sum")
    changes = engine.publish("trades", [{"shares": None}])
    assert changes.column("subscription").to_pylist() == ["count"]


# Matching


def test_a_match_scores_weight_times_the_events_weight(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT * FROM visitors WHERE WEIGHT(age > 18, 0.5) AND city = 'Oslo'")
    event = {"age": 20, "city": "Oslo"}
    assert told(engine.publish("visitors", [event])) == [("match", "0", 1.5, None)]
    changes = engine.publish("visitors", [{**event, "_weights": {"age": 4, "shoes": 9}}])
    assert told(changes) == [("match", "1", 3.0, None)]


def test_each_predicate_is_tested_alone(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT * FROM visitors WHERE age < 2 AND age > 8")
    assert told(engine.publish("visitors", [{"age": (1, 9)}])) == [("match", "0", 2.0, None)]
    assert engine.publish("visitors", [{"age": 5}]).num_rows == 0


@pytest.mark.parametrize(
    ("predicate", "inside", "outside"),
    [
        ("age > 5", (1, 6), (1, 5)),
        ("age >= 5", (1, 5), (1, 4)),
        ("age < 5", (4, 9), (5, 9)),
        ("age <= 5", (5, 9), (6, 9)),
        ("age = 5", (4, 6), (6, 9)),
        ("age <> 5", (5, 6), (5, 5)),
        ("age BETWEEN 4 AND 5", (5, 9), (6, 9)),
        ("age IN (1, 5)", (4, 6), (2, 4)),
        ("age NOT IN (5, 6)", (5, 6), (6, 6)),
    ],
)
def test_a_range_satisfies_a_predicate_if_some_number_in_it_does(
    engine: tocsin.Engine, predicate: str, inside: tuple[int, int], outside: tuple[int, int]
) -> None:
    engine.subscribe(f"SELECT * FROM visitors WHERE {predicate}")
    changes = engine.publish("visitors", [{"age": inside}, {"age": outside}])
    assert changes.column("key").to_pylist() == ["0"]


@pytest.mark.parametrize("predicate", ["age > 5", "age <> 5", "age NOT IN (5)", "age < 99"])
@pytest.mark.parametrize("value", ["Oslo", True, None])
def test_another_type_satisfies_nothing(engine: tocsin.Engine, predicate: str, value: object) -> None:
    engine.subscribe(f"SELECT * FROM visitors WHERE {predicate}")
    assert engine.publish("visitors", [{"age": value}, {"town": 7}]).num_rows == 0


def test_a_number_satisfies_no_text_predicate(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT * FROM visitors WHERE city <> 'Oslo'")
    assert engine.publish("visitors", [{"city": 5}, {"city": (1, 2)}, {"city": "Oslo"}]).num_rows == 0
    assert engine.publish("visitors", [{"city": "Rome"}]).num_rows == 1


def test_an_event_may_hold_integers_where_the_statement_has_decimals(engine: tocsin.Engine) -> None:
    engine.subscribe("SELECT * FROM visitors WHERE age = 5.0")
    assert engine.publish("visitors", [{"age": 5}, {"age": 5.0}]).num_rows == 2


# Windows and time


def test_a_window_of_n_rows_holds_the_last_n() -> None:
    engine = windowed(window="2 rows")
    engine.subscribe("SELECT bytes FROM flows WHERE bytes >= 0")
    changes = engine.publish("flows", [flow(1), flow(2)])
    assert told(changes) == [("enter", "0", None, None), ("enter", "1", None, None)]
    assert told(engine.publish("flows", [flow(3)])) == [
        ("leave", "0", None, None),
        ("enter", "2", None, None),
    ]


def test_a_row_out_of_every_box_still_takes_its_place_in_the_window() -> None:
    engine = windowed(window="1 row")
    query = engine.subscribe("SELECT bytes FROM flows WHERE bytes >= 0")
    engine.publish("flows", [flow(1), flow(None)])
    assert engine.result(query).num_rows == 0


def test_a_timed_window_holds_the_rows_later_than_the_newest_minus_its_length() -> None:
    engine = windowed(window="10 seconds", time="at")
    query = engine.subscribe("SELECT bytes FROM flows WHERE bytes >= 0")
    engine.publish("flows", [flow(1, 0), flow(2, 0.000001), flow(3, 10)])
    assert values(engine.result(query)) == [2.0, 3.0]


def test_times_are_utc_microseconds() -> None:
    engine = windowed(window="1 hour", time="at")
    query = engine.subscribe("SELECT at FROM flows WHERE at > :t", t=NOON)
    oslo = "2024-03-01T13:00:00.000001+01:00"
    engine.publish("flows", [{"bytes": 1.0, "at": "2024-03-01T12:00:00Z"}, {"bytes": 2.0, "at": oslo}])
    assert values(engine.result(query), "at") == [NOON + timedelta(microseconds=1)]


def test_a_late_row_is_dropped_reported_and_keeps_its_number(caplog: pytest.LogCaptureFixture) -> None:
    engine = windowed(window="10 seconds", time="at")
    engine.subscribe("SELECT bytes FROM flows WHERE bytes >= 0")
    engine.publish("flows", [flow(1, 5)])
    with caplog.at_level(logging.WARNING, logger="tocsin"):
        changes = engine.publish("flows", [flow(2, 4), flow(3, 5)])
    assert told(changes) == [("enter", "2", None, None)]
    assert "late" in caplog.text
    assert engine.counts("flows") == {"rows": 3, "late": 1, "weightless": 0}


def test_a_row_as_old_as_the_newest_is_not_late() -> None:
    engine = windowed(window="10 seconds", time="at")
    query = engine.subscribe("SELECT bytes FROM flows WHERE bytes >= 0")
    engine.publish("flows", [flow(1, 5), flow(2, 5)])
    assert values(engine.result(query)) == [1.0, 2.0]


def test_a_delay_holds_rows_back_and_applies_them_in_time_order() -> None:
    engine = windowed(window="1 minute", time="at", delay="10 seconds")
    query = engine.subscribe("SELECT bytes FROM flows WHERE bytes >= 0")
    assert engine.publish("flows", [flow(2, 2), flow(1, 1), flow(0, 0)]).num_rows == 0
    changes = engine.publish("flows", [flow(12, 12)], each=True)
    assert changes.column("key").to_pylist() == ["2", "1", "0"]
    assert changes.column("seq").to_pylist() == [2, 1, 0]
    assert values(engine.result(query)) == [0.0, 1.0, 2.0]


def test_advance_expires_without_rows() -> None:
    engine = windowed(window="10 seconds", time="at")
    engine.subscribe("SELECT bytes FROM flows WHERE bytes >= 0")
    engine.publish("flows", [flow(1, 0), flow(2, 5)])
    changes = engine.advance("flows", NOON + timedelta(seconds=10))
    assert told(changes) == [("leave", "0", None, None)]
    assert changes.column("seq").to_pylist() == [1]


def test_advance_releases_what_a_delay_held_back() -> None:
    engine = windowed(window="1 minute", time="at", delay="10 seconds")
    engine.subscribe("SELECT bytes FROM flows WHERE bytes >= 0")
    engine.publish("flows", [flow(1, 0)])
    assert engine.advance("flows", NOON + timedelta(seconds=9)).num_rows == 0
    assert told(engine.advance("flows", NOON + timedelta(seconds=10))) == [("enter", "0", None, None)]


# Bad batches


@pytest.mark.parametrize(
    "bad",
    [{"symbol": "A", "rsk": 1.0}, {"symbol": "A", "per": "cheap"}, {"symbol": None, "per": 1.0}],
    ids=["unknown column", "wrong type", "null key"],
)
def test_a_bad_batch_raises_and_changes_nothing(
    engine: tocsin.Engine, bad: dict[str, Any], tmp_path: Path
) -> None:
    query = engine.subscribe(TOP3)
    engine.publish("stocks", [stock("A", 30, 5)])
    before = saved(engine, tmp_path)
    with pytest.raises(tocsin.RowError):
        engine.publish("stocks", [stock("B", 30, 1), bad])
    assert saved(engine, tmp_path) == before
    assert values(engine.result(query), "symbol") == ["A"]


def test_a_row_is_valid_by_its_sources_declaration_alone(engine: tocsin.Engine) -> None:
    """No subscription reads `fee`; the row is refused all the same."""
    with pytest.raises(tocsin.RowError):
        engine.publish("trades", [{"price": 1.0, "fee": "free"}])


def test_deleting_an_unknown_key_does_nothing(engine: tocsin.Engine) -> None:
    engine.subscribe(TOP3)
    assert engine.delete("stocks", ["nobody"]).num_rows == 0
    assert engine.publish("stocks", [{"symbol": "nobody", "_op": "delete"}]).num_rows == 0


@pytest.mark.parametrize(
    "numbered",
    [
        lambda engine: engine.delete("stocks", ["nobody", "no one"]),
        lambda engine: engine.publish("stocks", [{"symbol": "x", "_op": "delete"}] * 2),
        lambda engine: engine.publish("stocks", [stock("x", None, None)] * 2),
    ],
    ids=["delete", "_op", "upsert"],
)
def test_every_accepted_row_takes_a_number(
    engine: tocsin.Engine, numbered: Callable[[tocsin.Engine], object]
) -> None:
    engine.subscribe(TOP3)
    numbered(engine)
    changes = engine.publish("stocks", [stock("A", 30, 5)])
    assert changes.column("seq").to_pylist() == [2]
