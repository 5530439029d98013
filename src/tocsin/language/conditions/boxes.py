"""WHERE as a box: ranges of numeric columns, with literals converted to the column types."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, DecimalException

from tocsin.decimals import printed
from tocsin.language.expressions import Constant, Parameter
from tocsin.language.intervals import Interval
from tocsin.language.parsing.statement import (
    BooleanLiteral,
    Condition,
    StringLiteral,
    TimestampLiteral,
    Value,
)
from tocsin.language.plans import Bound, Dimension, Operand
from tocsin.language.scopes import Scope
from tocsin.language.spans import Span
from tocsin.ordinals import EXACT
from tocsin.times import days, microseconds
from tocsin.types import ColumnType

MATCHING_ONLY = "works only in matching: SELECT columns over a stream without a window"

#: Operator to: whether it bounds below, whether it bounds above, whether strictly.
_SIDES = {
    ">": (True, False, True),
    ">=": (True, False, False),
    "=": (True, True, False),
    "<=": (False, True, False),
    "<": (False, True, True),
}


def typed_operand(scope: Scope, value: Value, column: ColumnType | None, name: str) -> Operand:
    """A literal as a value of its column's type; a parameter unchanged.

    `column` is None for attributes of a sparse stream, which any literal fits.
    """
    if isinstance(value, Parameter):
        return value
    kind = "any" if column is None else column.name
    kind = kind if kind in ("any", "string", "boolean", "timestamp", "date") else "number"
    match value, kind:
        case Constant(number), "any" | "number" | "timestamp" | "date":
            # A double is taken as is; attributes of sparse rows are doubles.
            is_double = abs(number) < EXACT if column is None else column.name in ("double", "float")
            return number if is_double else exact_literal(scope, value)
        case StringLiteral(text), "any" | "string":
            return text
        case BooleanLiteral(truth), "any" | "boolean":
            return truth
        case (StringLiteral(text) | TimestampLiteral(text), "timestamp") | (TimestampLiteral(text), "any"):
            return _time(scope, text, value.span)
        case (StringLiteral(text) | TimestampLiteral(text), "date"):
            return _date(scope, text, value.span)
    expected = {
        "string": "a string",
        "boolean": "TRUE or FALSE",
        "timestamp": "a time",
        "date": "a date",
    }.get(kind, "a number")
    hint = f"Compare it with {expected}, or with a :parameter."
    scope.refuse(value.span, f"{name} is a {kind}, and cannot be compared with this", hint)


def _time(scope: Scope, text: str, span: Span) -> int:
    try:
        return microseconds(text)
    except (ValueError, OverflowError):
        hint = (
            "Times are written '2013-10-08T18:11:46Z', optionally with fractions of a second or another zone."
        )
        scope.refuse(span, "this is not a time", hint)


def _date(scope: Scope, text: str, span: Span) -> int:
    try:
        return days(text)
    except ValueError:
        scope.refuse(span, "this is not a date", "Dates are written '2013-10-08'.")


def exact_literal(scope: Scope, value: Constant) -> int | float:
    """A literal as the number written; refused unless it is an integer or what a double prints as."""
    number = value.value
    if isinstance(number, int):
        return number
    try:
        written = abs(Decimal(scope.sql[value.span.start : value.span.end].replace(" ", "")))
    except DecimalException:
        return number
    if EXACT <= written < 2**64 and written == int(written):
        return int(written) if number > 0 else -int(written)
    if written != abs(printed(number)):
        hint = "Pass it as a :parameter of type Decimal, which holds all digits."
        scope.refuse(value.span, "a number in a statement has no more than about 15 digits", hint)
    return number


def condition_bounds(
    scope: Scope, condition: Condition, column: ColumnType
) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
    """The low and the high bounds of one condition."""
    subject, operator = condition.subject, condition.operator
    if condition.weight is not None:
        scope.refuse(condition.span, f"WEIGHT {MATCHING_ONLY}", "Leave WEIGHT out.")
    if operator != "BETWEEN" and operator not in _SIDES:
        scope.refuse(condition.span, f"{operator} {MATCHING_ONLY}", "Use BETWEEN, <, <=, =, >= or >.")
    operands = [typed_operand(scope, value, column, str(subject)) for value in condition.operands]
    if operator == "BETWEEN":
        return (Bound(operands[0], False),), (Bound(operands[1], False),)
    below, above, strict = _SIDES[operator]
    bound = (Bound(operands[0], strict),)
    return bound if below else (), bound if above else ()


def known_ranges(box: Iterable[Dimension]) -> dict[str, Interval]:
    """The ranges of columns known from the numbers in a box; parameters are not bound yet."""
    return {dimension.column: _known_range(dimension) for dimension in box}


def _known_range(dimension: Dimension) -> Interval:
    low, high = -math.inf, math.inf
    for bound in dimension.lows:
        if isinstance(bound.operand, int | float):
            value = float(bound.operand)
            low = max(low, math.nextafter(value, math.inf) if bound.strict else value)
    for bound in dimension.highs:
        if isinstance(bound.operand, int | float):
            value = float(bound.operand)
            high = min(high, math.nextafter(value, -math.inf) if bound.strict else value)
    return Interval(low, high)
