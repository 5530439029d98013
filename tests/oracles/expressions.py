"""The value of a score expression for one row, node by node."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.language import Binary, Call, Column, Constant, Expression, Negate, Parameter, Theta
from tocsin.language.expressions import apply_binary, apply_function


def evaluate(expression: Expression, columns: Mapping[str, float], parameters: Mapping[str, float]) -> float:
    """The value for one row, in IEEE doubles: never raises; NaN where undefined."""

    def value(node: Expression) -> float:
        match node:
            case Column(name):
                return float(columns[name])
            case Constant(number):
                return float(number)
            case Parameter(name):
                return float(parameters[name])
            case Theta(index):
                return float(parameters[str(index)])
            case Negate(operand):
                return -value(operand)
            case Binary(operator, left, right):
                return apply_binary(operator, value(left), value(right))
            case Call(function, arguments):
                return apply_function(function, *map(value, arguments))

    return value(expression)
