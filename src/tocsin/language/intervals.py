"""Interval arithmetic: the range of an expression, given ranges of its columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from tocsin.language.expressions import (
    Binary,
    Call,
    Column,
    Constant,
    Expression,
    Negate,
    apply_function,
)


class Interval(NamedTuple):
    """All doubles from `low` to `high`, both included."""

    low: float
    high: float


EVERYTHING = Interval(-math.inf, math.inf)


def interval(expression: Expression, box: Mapping[str, Interval]) -> Interval:
    """An interval that holds every value of `expression`, NaN aside, for columns inside `box`."""
    match expression:
        case Column(name):
            return box.get(name, EVERYTHING)
        case Constant(value):
            return Interval(float(value), float(value))
        case Negate(operand):
            low, high = interval(operand, box)
            return Interval(-high, -low)
        case Binary(operator, left, right):
            return _binary(operator, interval(left, box), interval(right, box))
        case Call(function, arguments):
            exponent = arguments[1] if len(arguments) > 1 else None
            power = float(exponent.value) if isinstance(exponent, Constant) else 1.0
            return _call(function, interval(arguments[0], box), power)
        case _:
            return EVERYTHING


def _binary(operator: str, left: Interval, right: Interval) -> Interval:
    if operator == "-":
        operator, right = "+", Interval(-right.high, -right.low)
    if operator == "/":
        if right.low <= 0.0 <= right.high:
            return EVERYTHING
        operator, right = "*", Interval(1.0 / right.high, 1.0 / right.low)
    if operator == "+":
        return _hull([left.low + right.low, left.high + right.high])
    return _hull([_times(a, b) for a in left for b in right])


def _times(left: float, right: float) -> float:
    """Zero times infinity is 0: here infinity stands for a missing bound."""
    return 0.0 if left == 0.0 or right == 0.0 else left * right


def _hull(ends: list[float]) -> Interval:
    return EVERYTHING if any(map(math.isnan, ends)) else Interval(min(ends), max(ends))


def _call(function: str, inside: Interval, power: float) -> Interval:
    low, high = inside
    if function == "EXP":
        return Interval(apply_function(function, low), apply_function(function, high))
    if function in ("SQRT", "LN"):
        return Interval(apply_function(function, max(low, 0.0)), apply_function(function, max(high, 0.0)))
    even = power % 2.0 == 0.0
    if function == "ABS" or (even and power > 0.0):
        low, high = max(low, -high, 0.0), max(high, -low)
    if function == "ABS":
        return Interval(low, high)
    if not power.is_integer():
        # NaN below zero, except at minus infinity, where IEEE gives infinity or zero.
        low, high = max(low, 0.0), max(high, 0.0) if low > -math.inf else math.inf
    if power < 0.0 and low <= 0.0 <= high:
        return EVERYTHING if not even else Interval(0.0, math.inf)
    return _hull([apply_function("POWER", low, power), apply_function("POWER", high, power)])
