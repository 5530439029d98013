"""Conditions, scores and parameters: what they mean, and how they are written in SQL."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from tests.oracles.values import Row, Scalar, Value, clean, number


@dataclass(frozen=True)
class Param:
    """A `:name` and the value that this subscription gives it."""

    name: str
    value: Scalar


Operand: TypeAlias = Param | Scalar


def value_of(operand: Operand) -> Scalar:
    return operand.value if isinstance(operand, Param) else operand


def params_of(operands: Iterable[Operand]) -> dict[str, Scalar]:
    return {operand.name: operand.value for operand in operands if isinstance(operand, Param)}


def literal(operand: Operand) -> str:
    """An operand as SQL."""
    if isinstance(operand, Param):
        return f":{operand.name}"
    if isinstance(operand, bool):
        return "TRUE" if operand else "FALSE"
    if isinstance(operand, str):
        return "'" + operand.replace("'", "''") + "'"
    if isinstance(operand, datetime):
        return f"TIMESTAMP '{operand.isoformat(sep=' ')}'"
    assert math.isfinite(operand), "SQL has no literal for this: use a Param"
    return str(operand)


@dataclass(frozen=True)
class Condition:
    """`column operator operands`; the operators are those of a box and of matching."""

    column: str
    operator: str
    operands: tuple[Operand, ...]

    def sql(self, prefix: str = "") -> str:
        return comparison(prefix + self.column, self.operator, self.operands)

    def holds(self, row: Row) -> bool:
        """Whether the row's value satisfies the condition."""
        return satisfies(row.get(self.column), self.operator, [value_of(each) for each in self.operands])


@dataclass(frozen=True)
class Region:
    """`DISTANCE(x, z, a, b) operator c` or `a * x + b * z operator c`; the operands are a, b, c."""

    is_disk: bool
    columns: tuple[str, str]
    operator: str
    operands: tuple[Operand, Operand, Operand]

    def sql(self) -> str:
        (x, z), (a, b, c) = self.columns, map(literal, self.operands)
        subject = f"DISTANCE({x}, {z}, {a}, {b})" if self.is_disk else f"{a} * {x} + {b} * {z}"
        return f"{subject} {self.operator} {c}"

    def holds(self, row: Row) -> bool:
        """Whether the row's point satisfies the condition, in doubles."""
        values = [number(row.get(column)) for column in self.columns]
        if None in values:
            return False
        x, z = (float(value) for value in values if value is not None)
        a, b, c = (float(value) for each in self.operands if (value := number(value_of(each))) is not None)
        left = math.sqrt((x - a) * (x - a) + (z - b) * (z - b)) if self.is_disk else a * x + b * z
        rights: list[Scalar] = [c]
        return not math.isnan(left) and _test(self.operator, left, rights)


def comparison(name: str, operator: str, operands: tuple[Operand, ...]) -> str:
    if operator == "BETWEEN":
        return f"{name} BETWEEN {literal(operands[0])} AND {literal(operands[1])}"
    if operator in ("IN", "NOT IN"):
        return f"{name} {operator} ({', '.join(literal(each) for each in operands)})"
    return f"{name} {operator} {literal(operands[0])}"


def satisfies(value: Value, operator: str, operands: list[Scalar]) -> bool:
    """One predicate tested alone. NULL, NaN, another type and a missing attribute satisfy none."""
    value = clean(value)
    if isinstance(value, tuple):
        return range_satisfies(value, operator, operands)
    if isinstance(value, str | bool):
        if not all(type(each) is type(value) for each in operands):
            return False
        return _test(operator, value, operands)
    left = number(value)
    rights = [number(each) for each in operands]
    if left is None or None in rights:
        return False
    return _test(operator, left, rights)


def _test(operator: str, left: object, rights: list[Scalar] | list[float | int | Decimal | None]) -> bool:
    if operator == "IN":
        return left in rights
    if operator == "NOT IN":
        return left not in rights
    if operator == "=":
        return left == rights[0]
    if operator == "<>":
        return left != rights[0]
    assert isinstance(left, float | int | Decimal), "only numbers are ordered"
    lows = [each for each in rights if isinstance(each, float | int | Decimal)]
    if operator == "BETWEEN":
        return lows[0] <= left <= lows[1]
    return {
        "<": left < lows[0],
        "<=": left <= lows[0],
        ">=": left >= lows[0],
        ">": left > lows[0],
    }[operator]


def range_satisfies(bounds: tuple[float, float], operator: str, operands: list[Scalar]) -> bool:
    """Whether some number between the bounds, both included, satisfies the predicate."""
    low, high = bounds
    rights = [number(each) for each in operands]
    numbers = [each for each in rights if each is not None]
    if not low <= high or len(numbers) < len(rights):
        return False
    if operator in ("=", "IN"):
        return any(low <= each <= high for each in numbers)
    if operator in ("<>", "NOT IN"):
        return low < high or low not in numbers
    if operator == "BETWEEN":
        return max(low, numbers[0]) <= min(high, numbers[1])
    # the best number for `<` and `<=` is the low end, for `>` and `>=` the high end
    return _test(operator, low if operator in ("<", "<=") else high, rights)


@dataclass(frozen=True)
class Score:
    """An expression: its SQL, what it computes from the columns it reads, and its parameters."""

    sql: str
    columns: tuple[str, ...]
    function: Callable[..., float]
    params: tuple[Param, ...] = field(default=())

    def of(self, row: Row) -> float | None:
        """The score, or None where a column is NULL or the result is NaN."""
        values = [number(row.get(column)) for column in self.columns]
        if None in values:
            return None
        score = float(self.function(*values, *(param.value for param in self.params)))
        return None if math.isnan(score) else score + 0.0


def column_score(column: str) -> Score:
    """The bare column as a score."""
    return Score(column, (column,), lambda value: value)
