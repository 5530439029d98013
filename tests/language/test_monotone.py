"""What the analysis accepts is monotone, as sampling sees it."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.language.catalog import plan_of
from tests.language.strategies import expressions
from tests.oracles.expressions import evaluate
from tocsin.errors import SQLError
from tocsin.language import Column, Constant, Expression, TopK
from tocsin.language.expressions import Binary, Call, Parameter, columns_of
from tocsin.language.intervals import EVERYTHING, Interval, interval
from tocsin.language.monotone import NotMonotoneError, directions

SAMPLES = [-math.inf, -1e3, -3.0, -2.0, -1.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 2.0, 3.0, 1e3, math.inf]
PARAMETERS = [-2.0, 0.0, 0.5]

scores = expressions(
    st.sampled_from(["x", "y"]).map(Column), st.sampled_from([-2, -1, 0, 0.5, 1, 3]).map(Constant), most=6
).filter(lambda node: bool(columns_of(node)))
ranges = st.sampled_from(
    [
        EVERYTHING,
        Interval(0.0, math.inf),
        Interval(5e-324, math.inf),
        Interval(-math.inf, 0.0),
        Interval(-math.inf, -5e-324),
        Interval(1.0, 3.0),
        Interval(-2.0, 1.0),
    ]
)
EVERYWHERE = {"x": EVERYTHING, "y": EVERYTHING}
POSITIVE = {"x": Interval(5e-324, math.inf), "y": EVERYTHING}
boxes = st.fixed_dictionaries({"x": ranges, "y": ranges})


def inside(bounds: Interval) -> list[float]:
    return [value for value in SAMPLES if bounds.low <= value <= bounds.high]


def sign_of(direction: int | Expression, parameters: dict[str, float]) -> float:
    return float(direction) if isinstance(direction, int) else evaluate(direction, {}, parameters)


@settings(max_examples=400)
@given(scores, boxes)
@example(Binary("/", Column("x"), Binary("*", Constant(-2), Constant(0))), EVERYWHERE)
@example(Binary("/", Column("x"), Binary("-", Constant(0), Parameter("a"))), EVERYWHERE)
@example(Call("POWER", (Binary("/", Column("x"), Parameter("a")), Constant(-1))), POSITIVE)
def test_accepted_scores_are_monotone(score: Expression, box: dict[str, Interval]) -> None:
    try:
        follows = directions(score, box)
    except NotMonotoneError:
        assume(False)
    for a, b in product(PARAMETERS, PARAMETERS):
        parameters = {"a": a, "b": b, "lo": a, "k": b}
        for column, direction in zip(columns_of(score), follows, strict=True):
            sign = sign_of(direction, parameters)
            other = "y" if column == "x" else "x"
            for fixed in inside(box[other]):
                line = [evaluate(score, {column: at, other: fixed}, parameters) for at in inside(box[column])]
                check_line([value for value in line if not math.isnan(value)], sign)


def check_line(line: list[float], sign: float) -> None:
    """Monotone up to rounding: terms of opposite sign may cancel to the last digit."""
    for before, after in pairwise(line):
        if before == after:
            continue
        slack = 1e-9 * max(abs(before), abs(after), 1.0)
        if sign >= 0:
            assert after >= before - slack
        if sign <= 0:
            assert after <= before + slack


@settings(max_examples=300)
@given(scores, boxes)
def test_intervals_hold_every_value(score: Expression, box: dict[str, Interval]) -> None:
    low, high = interval(score, box)
    parameters = dict.fromkeys(("a", "b", "lo", "k"), 0.5)
    for x, y in product(inside(box["x"]), inside(box["y"])):
        value = evaluate(score, {"x": x, "y": y}, parameters)
        slack = 1e-9 * abs(value) if math.isfinite(value) else 0.0
        assert math.isnan(value) or low - slack <= value <= high + slack


@pytest.mark.parametrize(
    ("score", "where"),
    [
        (":a * bytes + :b * bytes", ""),
        (":a * bytes * bytes", "bytes >= 0"),
        ("bytes / packets", "packets > 0 AND bytes >= 0"),
        ("5 / packets", "packets < 0"),
        ("bytes - 2 * packets", ""),
        ("SQRT(bytes)", ""),
        ("LN(bytes + 1)", ""),
        ("-(bytes)", ""),
        ("EXP(-bytes) * 2", ""),
        ("ABS(bytes)", "bytes <= -1"),
        ("bytes * packets", "bytes >= 0 AND packets BETWEEN 0 AND 5"),
        ("POWER(bytes, 0.5) + POWER(packets, 3)", "bytes >= -1"),
        ("bytes - bytes + packets", ""),
    ],
)
def test_accepted(score: str, where: str) -> None:
    made = plan_of(f"SELECT host FROM flows {'WHERE ' + where if where else ''} ORDER BY {score} LIMIT 1")
    assert isinstance(made, TopK)


@pytest.mark.parametrize(
    ("score", "where"),
    [
        ("bytes * bytes", ""),
        ("bytes * packets", "bytes >= 0"),
        ("bytes / packets", "packets >= 0 AND bytes >= 0"),
        ("1 / (bytes * bytes)", "bytes >= 0"),
        ("POWER(bytes, -1)", ""),
        ("POWER(bytes, 0.5)", ""),
        ("ABS(bytes)", ""),
        ("ABS(bytes)", "bytes >= :lo"),
        ("bytes - SQRT(bytes)", "bytes >= 0"),
        (":a * bytes * bytes + :b * bytes", "bytes >= 0"),
    ],
)
def test_refused(score: str, where: str) -> None:
    with pytest.raises(SQLError, match="not monotone"):
        plan_of(f"SELECT host FROM flows {'WHERE ' + where if where else ''} ORDER BY {score} LIMIT 1")
