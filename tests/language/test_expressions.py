"""The value of expressions, and their shape."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from tests.language.strategies import scores
from tests.oracles.expressions import evaluate
from tocsin.language import (
    Binary,
    Call,
    Column,
    Constant,
    Expression,
    Negate,
    Parameter,
    Theta,
    lift,
)

X = Column("x")


def of(expression: Expression, x: float) -> float:
    return evaluate(expression, {"x": x}, {"p": 2.0})


@pytest.mark.parametrize(
    ("expression", "x", "value"),
    [
        (Binary("/", Constant(1), X), 0.0, math.nan),
        (Binary("/", Constant(1), X), -0.0, math.nan),
        (Binary("/", Constant(-1), X), math.inf, 0.0),
        (Binary("/", X, X), 0.0, math.nan),
        (Call("SQRT", (X,)), -1.0, math.nan),
        (Call("LN", (X,)), 0.0, -math.inf),
        (Call("LN", (X,)), -1.0, math.nan),
        (Call("EXP", (X,)), 1e4, math.inf),
        (Call("POWER", (X, Constant(3))), -1e200, -math.inf),
        (Call("POWER", (X, Constant(-1))), 0.0, math.nan),
        (Call("POWER", (X, Constant(0.5))), -1.0, math.nan),
        (Call("ABS", (Negate(X),)), 3.0, 3.0),
        (Binary("-", Parameter("p"), X), math.inf, -math.inf),
        (Binary("-", X, X), math.inf, math.nan),
        (Binary("*", X, Constant(10**400 // 10**399)), 2, 20.0),
    ],
)
def test_evaluate_is_ieee_but_for_zero_divisors(expression: Expression, x: float, value: float) -> None:
    found = of(expression, x)
    assert found == value or (math.isnan(found) and math.isnan(value))


def test_lift_takes_numbers_and_parameters_out() -> None:
    score = Binary("+", Binary("*", Constant(2), X), Negate(Call("POWER", (Parameter("p"), Constant(2)))))
    lifted, operands = lift(score)
    assert operands == (2, Parameter("p"))
    assert lifted == Binary("+", Binary("*", Theta(0), X), Negate(Call("POWER", (Theta(1), Constant(2.0)))))


@given(scores)
def test_lifting_keeps_the_value(score: Expression) -> None:
    row = dict.fromkeys(("x", "y", "price", "at", "my col", 'a"b', "größe"), 1.5)
    values = {"a": -2.0, "b": 0.5, "lo": 3.0, "k": 1.0}
    lifted, operands = lift(score)
    theta = {
        str(place): values[operand.name] if isinstance(operand, Parameter) else float(operand)
        for place, operand in enumerate(operands)
    }
    before, after = evaluate(score, row, values), evaluate(lifted, row, theta)
    assert before == after or (math.isnan(before) and math.isnan(after))
