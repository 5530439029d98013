"""Parameters to arrays: exact edges, every Arrow type, and errors that name the culprit."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language.catalog import plan_of
from tocsin.errors import ParameterError
from tocsin.language import Match, Threshold, bind, bind_match, scale

INF = math.inf
EDGES = [-INF, -1.7976931348623157e308, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.7976931348623157e308, INF]
TIME = 1381255906000000


def bound(sql: str, **columns: Any) -> dict[str, Any]:
    arrays = {
        name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()
    }
    return bind(plan_of(sql), arrays, max(map(len, arrays.values()), default=1))


def fails(sql: str, **columns: Any) -> str:
    with pytest.raises(ParameterError) as caught:
        bound(sql, **columns)
    return str(caught.value)


def satisfied(x: float, operator: str, edge: float) -> bool:
    return {"<": x < edge, "<=": x <= edge, "=": x == edge, ">=": x >= edge, ">": x > edge}[operator]


@given(st.lists(st.tuples(st.sampled_from(["<", "<=", "=", ">=", ">"]), st.sampled_from(EDGES)), max_size=3))
def test_a_bound_range_holds_what_the_conditions_say(conditions: list[tuple[str, float]]) -> None:
    where = " AND ".join(f"risk {operator} :p{i}" for i, (operator, _) in enumerate(conditions))
    sql = f"SELECT symbol FROM stocks {'WHERE ' + where if where else ''}"
    arrays = bound(sql, **{f"p{i}": [edge] for i, (_, edge) in enumerate(conditions)})
    assert arrays["lo"].shape == (1, 1 if conditions else 0)
    for x in EDGES if conditions else []:
        expected = all(satisfied(x, operator, edge) for operator, edge in conditions)
        assert (arrays["lo"][0, 0] <= x <= arrays["hi"][0, 0]) == expected
    for edge in [*arrays["lo"].flat, *arrays["hi"].flat]:
        assert str(edge) != "-0.0"


@given(
    operator=st.sampled_from(["<", "<=", ">=", ">"]),
    minus=st.booleans(),
    numbers=st.tuples(*(st.sampled_from([*EDGES, 0.1, 3.0]) for _ in range(5))),
)
def test_a_bound_half_plane_holds_what_the_condition_says(
    operator: str, minus: bool, numbers: tuple[float, ...]
) -> None:
    a, b, c, x, z = numbers
    sql = f"SELECT MIN(per) FROM stocks WHERE :a * risk {'-' if minus else '+'} per * :b {operator} :c"
    (region,) = bound(sql, a=[a], b=[b], c=[c])["region"].tolist()
    expected = satisfied(a * x - z * b if minus else a * x + z * b, operator, c)
    assert (region[0] * x + region[1] * z <= region[2]) == expected
    assert "-0.0" not in map(str, region)


def test_a_bound_disk() -> None:
    sql = "SELECT COUNT(*) FROM stocks WHERE DISTANCE(risk, per, :a, -2) {} :r"
    given_numbers = {"a": [1.0, -0.0], "r": [0.5, -INF]}
    assert bound(sql.format("<="), **given_numbers)["region"].tolist() == [
        [1.0, -2.0, 0.5],
        [0.0, -2.0, -INF],
    ]
    below = math.nextafter(0.5, 0.0)
    assert bound(sql.format("<"), **given_numbers)["region"].tolist() == [
        [1.0, -2.0, below],
        [0.0, 0.0, -1.0],
    ]
    assert "parameter :r is NaN" in fails(sql.format("<"), a=[1.0], r=[math.nan])


def test_strict_bounds_at_infinity_stay_empty() -> None:
    arrays = bound("SELECT symbol FROM stocks WHERE risk > :a AND per < :b", a=[INF], b=[-INF])
    assert arrays["lo"].tolist() == [[INF, INF]]
    assert arrays["hi"].tolist() == [[-INF, -INF]]


def test_dimensions_stand_in_order_and_are_contiguous() -> None:
    join = "SELECT owner FROM stocks AS s JOIN owners AS o ON s.symbol = o.symbol"
    arrays = bound(f"{join} WHERE o.shares > :n AND s.risk < 3 AND o.risk = 1", n=[5, 6])
    # Shares are whole: more than 5 is at least 6.
    assert arrays["lo"].tolist() == [[-INF, 6, 1], [-INF, 7, 1]]
    assert arrays["lo"].flags.c_contiguous
    assert arrays["hi"].flags.c_contiguous
    assert arrays["lo"].dtype == arrays["hi"].dtype == np.float64


def test_top_k_and_scored_rows() -> None:
    arrays = bound("SELECT symbol FROM stocks ORDER BY :a * per - 2 * risk LIMIT :k", a=[1, -3], k=[5.0, 6.0])
    assert arrays["theta"].tolist() == [[1, 2], [-3, 2]]
    assert arrays["k"].tolist() == [5, 6]
    assert arrays["k"].dtype == np.int32
    arrays = bound("SELECT symbol FROM stocks WHERE :a * per > :t AND :a * per <= 9", a=[1], t=[5])
    assert arrays["theta"].tolist() == [[1]]
    assert arrays["score_lo"].tolist() == [math.nextafter(5, 6)]
    assert arrays["score_hi"].tolist() == [9]


def test_without_parameters_values_are_broadcast() -> None:
    arrays = bind(plan_of("SELECT symbol FROM stocks WHERE risk < -0.0 ORDER BY per LIMIT 3"), {}, 2)
    assert arrays["k"].tolist() == [3, 3]
    assert arrays["hi"].tolist() == [[-5e-324]] * 2
    assert arrays["theta"].shape == (2, 0)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3], pa.int8()),
        pa.array([3], pa.uint64()),
        pa.array([3], pa.float32()),
        pa.array([Decimal("3.00")]),
        pa.array([3]).dictionary_encode(),
    ],
    ids=str,
)
def test_numbers_of_any_arrow_type(values: Any) -> None:
    assert bound("SELECT symbol FROM stocks WHERE risk >= :a", a=values)["lo"].tolist() == [[3]]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([TIME]),
        pa.array([TIME // 10**6], pa.timestamp("s")),
        pa.array([TIME * 1000], pa.timestamp("ns", tz="Europe/Paris")),
        pa.array(["2013-10-08T18:11:46Z"]),
        pa.array(["2013-10-08 18:11:46"], pa.large_string()),
        pa.array(["2013-10-08T20:11:46+02:00"]).dictionary_encode(),
        pa.array(["20131008T181146"]),
    ],
    ids=str,
)
def test_times_of_any_kind(values: Any) -> None:
    assert bound("SELECT symbol FROM stocks WHERE at >= :a", a=values)["lo"].tolist() == [[TIME]]


def test_dates_and_mixed_notations() -> None:
    sql = "SELECT symbol FROM stocks WHERE at >= :a"
    assert bound(sql, a=["1970-01-02", "1970-01-01T00:00:01Z"])["lo"].tolist() == [[86400e6], [1e6]]
    assert bound(sql, a=pa.array([1], pa.date32()))["lo"].tolist() == [[86400e6]]


THRESHOLD = "SELECT SUM({0}) FROM trades HAVING SUM({0}) >= :tau"


def test_scales() -> None:
    for column, expected in (("shares", 1), ("fee", 100), ("price", 2**20)):
        made = plan_of(THRESHOLD.format(column))
        assert isinstance(made, Threshold)
        assert scale(made) == expected


@pytest.mark.parametrize(
    ("column", "tau", "scaled"),
    [
        ("shares", [3, 2**62], [3, 2**62]),
        ("shares", [2.5, 3.0], [3, 3]),
        ("fee", [0.1, 0.29, 1.005, 1e9], [10, 29, 101, 10**11]),
        ("fee", [Decimal("0.10"), Decimal("1.001")], [10, 101]),
        ("fee", [7, 90071992547409931], [700, 9007199254740993100]),
        ("price", [0.5, 1e-9], [2**19, 1]),
        ("price", [Decimal("0.1")], [104858]),
        ("shares", pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
    ],
)
def test_taus(column: str, tau: Any, scaled: list[int]) -> None:
    arrays = bound(THRESHOLD.format(column), tau=tau)
    assert arrays["tau"].dtype == np.int64
    assert arrays["tau"].tolist() == scaled


@given(st.decimals("0.001", 10**6, places=3), st.sampled_from(["shares", "fee", "price"]))
def test_a_scaled_tau_is_the_least_that_reaches_it(tau: Decimal, column: str) -> None:
    made = plan_of(THRESHOLD.format(column))
    assert isinstance(made, Threshold)
    reached = int(bind(made, {"tau": pa.array([tau])}, 1)["tau"][0])
    assert Fraction(reached, scale(made)) >= Fraction(tau) > Fraction(reached - 1, scale(made))


def test_matching_binds_each_operand_as_its_type() -> None:
    made = plan_of(
        "SELECT price FROM trades WHERE venue IN (:v, 'x') AND open = :o "
        "AND at < '1970-01-02' AND WEIGHT(price > 5, :w)"
    )
    assert isinstance(made, Match)
    columns = {
        "v": pa.array(["a", "b"]).dictionary_encode(),
        "o": pa.array([True, False]),
        "w": pa.array([2, 3]),
    }
    venue, is_open, at, price = bind_match(made, columns, 2)
    assert [operand.to_pylist() for operand in venue.operands] == [["a", "b"], ["x", "x"]]
    assert venue.operands[0].type == venue.operands[1].type == pa.string()
    assert is_open.operands[0].dtype == np.bool_
    assert at.operands[0].tolist() == [86400e6] * 2
    assert price.weight.tolist() == [2, 3]
    assert at.weight.tolist() == [1, 1]


def test_on_a_sparse_stream_a_parameters_own_type_decides() -> None:
    made = plan_of("SELECT * FROM visitors WHERE x = :p AND y NOT IN (:q, 5)")
    assert isinstance(made, Match)
    x, y = bind_match(made, {"p": pa.array(["a"]), "q": pa.array([1], pa.timestamp("s"))}, 1)
    assert x.operands[0].to_pylist() == ["a"]
    assert [operand.tolist() for operand in y.operands] == [[1e6], [5.0]]
    x, y = bind_match(made, {"p": pa.array([True]), "q": pa.array(["b"])}, 1)
    assert x.operands[0].tolist() == [True]
    assert y.operands[0].to_pylist() == ["b"]


RANGE = "SELECT symbol FROM stocks WHERE risk BETWEEN :low AND :high"
TOP = "SELECT symbol FROM stocks ORDER BY :a * per LIMIT :k"


@pytest.mark.parametrize(
    ("sql", "columns", "message"),
    [
        (RANGE, {"low": [1]}, "parameter :high is missing. Nothing was given for it."),
        (RANGE, {"low": [1], "hihg": [2]}, "parameter :high is missing. Did you mean 'hihg'?"),
        (RANGE, {"low": [1], "high": [2], "hi": [3]}, "there is no parameter :hi. Did you mean 'high'?"),
        ("SELECT * FROM stocks", {"x": [1]}, "there is no parameter :x. The statement has no parameters."),
        (RANGE, {"low": [1, None], "high": [2, 2]}, "parameter :low in row 1 is null"),
        (RANGE, {"low": [None], "high": [2]}, "parameter :low is null"),
        (RANGE, {"low": [1.0, math.nan], "high": [2, 2]}, "parameter :low in row 1 is NaN"),
        (RANGE, {"low": ["a"], "high": [2]}, "parameter :low must be a number, got string"),
        (RANGE, {"low": [True], "high": [2]}, "parameter :low must be a number, got bool"),
        (RANGE, {"low": [1], "high": [2, 3]}, "parameter :low has 1 values for 2 subscriptions"),
        (
            TOP,
            {"a": [1.0, INF], "k": [1, 1]},
            "parameter :a in row 1 is infinite, which a number in a score cannot be",
        ),
        (
            TOP,
            {"a": [1, 1], "k": [1, 0]},
            "parameter :k in row 1 must be a whole number from 1 to 2147483647, got 0",
        ),
        (
            TOP,
            {"a": [1], "k": [2.5]},
            "parameter :k must be a whole number from 1 to 2147483647, got 2.5",
        ),
        (
            TOP,
            {"a": [1], "k": [2**31]},
            "parameter :k must be a whole number from 1 to 2147483647, got 2147483648",
        ),
        (
            THRESHOLD.format("fee"),
            {"tau": [1, -3]},
            "parameter :tau in row 1 is -3: a threshold must be positive",
        ),
        (THRESHOLD.format("fee"), {"tau": [math.nan]}, "parameter :tau is NaN"),
        (THRESHOLD.format("fee"), {"tau": [INF]}, "parameter :tau is infinite, which a threshold cannot be"),
        (
            THRESHOLD.format("fee"),
            {"tau": [1e17]},
            "parameter :tau is 1e+17: a threshold is out of reach of 64-bit sums in units of 1/100",
        ),
        (
            "SELECT symbol FROM stocks WHERE at > :t",
            {"t": ["2020-01-01", "soon"]},
            "parameter :t in row 1 must be a time, got 'soon'",
        ),
    ],
)
def test_errors_name_the_parameter_and_the_row(sql: str, columns: dict[str, Any], message: str) -> None:
    assert fails(sql, **columns) == message


@pytest.mark.parametrize(
    ("where", "values", "message"),
    [
        ("venue = :p", [5], "parameter :p must be a string, got int64"),
        ("open = :p", ["a"], "parameter :p must be a boolean, got string"),
        ("WEIGHT(price > 1, :p)", [INF], "parameter :p is infinite, which a weight cannot be"),
        ("price > :p", [math.nan], "parameter :p is NaN"),
    ],
)
def test_errors_of_matching(where: str, values: list[Any], message: str) -> None:
    made = plan_of(f"SELECT price FROM trades WHERE {where}")
    assert isinstance(made, Match)
    with pytest.raises(ParameterError) as caught:
        bind_match(made, {"p": pa.array(values)}, 1)
    assert str(caught.value) == message


def test_errors_of_sparse_matching() -> None:
    made = plan_of("SELECT * FROM visitors WHERE x > :p AND y BETWEEN :p AND 5")
    assert isinstance(made, Match)
    with pytest.raises(ParameterError, match=":p is boolean, and booleans are compared with = and <> only"):
        bind_match(made, {"p": pa.array([True])}, 1)
    with pytest.raises(
        ParameterError, match="the ends of the range of 'y' are of two types: number and string"
    ):
        bind_match(made, {"p": pa.array(["a"])}, 1)
    with pytest.raises(TypeError):
        bind(made, {"p": pa.array([1])}, 1)


def test_inputs_are_left_as_they_are_and_outputs_are_writable() -> None:
    values = np.array([-0.0, 1.0])
    arrays = bound("SELECT symbol FROM stocks WHERE risk >= :a", a=pa.array(values))
    arrays["lo"][:] = 9
    assert math.copysign(1, values[0]) < 0
