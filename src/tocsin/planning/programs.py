"""Compiles a plan's score to the program that indexes run."""

from __future__ import annotations

from tocsin.kernels.programs import Program, program
from tocsin.language import Binary, Call, Column, Constant, Expression, Negate, Score, Theta, lift

_BINARY = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}


def compile_score(score: Score) -> Program:
    """The postfix program of a score: columns as in `score.columns`, theta in the order of `lift`."""
    lifted, _ = lift(score.expression)
    return program(_steps(lifted, score.columns))


def _steps(expression: Expression, columns: tuple[str, ...]) -> list[tuple[str, int | float]]:
    match expression:
        case Column(name):
            return [("column", columns.index(name))]
        case Theta(index):
            return [("theta", index)]
        case Constant(value):
            return [("constant", value)]
        case Negate(operand):
            return [*_steps(operand, columns), ("negate", 0)]
        case Binary(operator, left, right):
            return [*_steps(left, columns), *_steps(right, columns), (_BINARY[operator], 0)]
        case Call(function, arguments):
            inner = [step for argument in arguments for step in _steps(argument, columns)]
            return [*inner, (function.lower(), 0)]
        case _:
            raise TypeError(f"{expression} was not lifted")
