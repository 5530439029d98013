"""WHERE as a region: disks and half-planes over two columns of a table."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from tocsin.language.conditions.boxes import condition_bounds
from tocsin.language.expressions import Binary, Column, Constant, Expression, Negate, Parameter, columns_of
from tocsin.language.parsing.statement import Condition, Distance
from tocsin.language.plans import Bound, Operand, Region
from tocsin.language.scopes import ResolvedColumn, Scope
from tocsin.types import ColumnType

REGIONS = (
    "Besides ranges of columns, WHERE takes one disk, DISTANCE(x, z, :a, :b) <= :r, "
    "or one half-plane, :a * x + :b * z <= :c."
)

#: The bound of a region is a number, whatever its columns are.
_NUMBER = ColumnType.parse("double", column="")


class LinearTerm(NamedTuple):
    """`sign * factor * column`."""

    sign: int
    factor: Operand
    column: Column


def read_region(scope: Scope, conditions: tuple[Condition, ...]) -> Region | None:
    """The region that the conditions other than column ranges define; None if there are none."""
    if not conditions:
        return None
    if len(conditions) > 1:
        scope.refuse(conditions[1].span, "this is a second disk or half-plane", REGIONS)
    condition = conditions[0]
    lows, highs = condition_bounds(scope, condition, _NUMBER)
    if isinstance(condition.subject, Distance):
        return _disk(scope, condition, condition.subject, lows, highs)
    return _half_plane(scope, condition, condition.subject, lows, highs)


def is_region(condition: Condition) -> bool:
    """Whether a condition has the form of a disk or a half-plane."""
    if isinstance(condition.subject, Distance):
        return True
    subject = condition.subject
    return (
        isinstance(subject, Binary)
        and subject.operator in ("+", "-")
        and condition.operator in ("<", "<=", ">=", ">")
        and _is_term(subject.left)
        and _is_term(subject.right)
        and len(columns_of(subject)) == 2
    )


def _is_term(expression: Expression) -> bool:
    """Whether an expression is a column, perhaps times a number or parameter."""
    _, term = _unsigned(expression)
    if isinstance(term, Binary) and term.operator == "*":
        sides = [_unsigned(term.left)[1], _unsigned(term.right)[1]]
        return sorted(isinstance(side, Column) for side in sides) == [False, True] and any(
            isinstance(side, Constant | Parameter) for side in sides
        )
    return isinstance(term, Column)


def _disk(
    scope: Scope,
    condition: Condition,
    distance: Distance,
    lows: tuple[Bound, ...],
    highs: tuple[Bound, ...],
) -> Region:
    if lows:
        hint = f"Write {distance} <= {condition.operands[-1]}, or <."
        scope.refuse(condition.span, "a disk must bound DISTANCE from above only", hint)
    a, b = (_operand(value) for value in distance.center)
    columns = _columns(scope, *distance.columns)
    return Region("disk", scope.source.name, columns, (a, b), (1, 1), highs[0], False)


def _half_plane(
    scope: Scope,
    condition: Condition,
    expression: Expression,
    lows: tuple[Bound, ...],
    highs: tuple[Bound, ...],
) -> Region:
    if not isinstance(expression, Binary) or expression.operator not in ("+", "-"):
        _refuse_term(scope, expression)
    if lows and highs:
        scope.refuse(
            condition.span,
            "a half-plane must have one bound, got two",
            f"Write {expression} <= or >= a number.",
        )
    first, second = _term(scope, expression.left), _term(scope, expression.right)
    right_sign = 1 if expression.operator == "+" else -1
    columns = _columns(scope, first.column, second.column)
    factors, signs = (first.factor, second.factor), (first.sign, right_sign * second.sign)
    return Region(
        "half-plane", scope.source.name, columns, factors, signs, (lows + highs)[0], is_low=bool(lows)
    )


def _term(scope: Scope, expression: Expression) -> LinearTerm:
    """`x`, `2 * x` or `x * :a`, with minus signs anywhere."""
    sign, term = _unsigned(expression)
    if isinstance(term, Column):
        return LinearTerm(sign, 1.0, term)
    if isinstance(term, Binary) and term.operator == "*":
        (left_sign, left), (right_sign, right) = _unsigned(term.left), _unsigned(term.right)
        for factor, column in ((left, right), (right, left)):
            if isinstance(factor, Constant | Parameter) and isinstance(column, Column):
                return LinearTerm(sign * left_sign * right_sign, _operand(factor), column)
    _refuse_term(scope, expression)


def _unsigned(expression: Expression) -> tuple[int, Expression]:
    sign = 1
    while isinstance(expression, Negate):
        sign, expression = -sign, expression.operand
    return sign, expression


def _refuse_term(scope: Scope, expression: Expression) -> NoReturn:
    scope.refuse(expression.span, "this is neither a disk nor a half-plane", REGIONS)


def _operand(value: Constant | Parameter) -> Operand:
    return value if isinstance(value, Parameter) else value.value


def _columns(scope: Scope, x: Column, z: Column) -> tuple[str, str]:
    first, second = (_number_column(scope, column) for column in (x, z))
    if first.name == second.name:
        scope.refuse(z.span, "a disk or a half-plane is over two different columns", REGIONS)
    return first.name, second.name


def _number_column(scope: Scope, column: Column) -> ResolvedColumn:
    resolved, kind = scope.numeric(column, "bound a region")
    if kind.is_timestamp or kind.is_date:
        hint = "Disks and half-planes are over numbers. Times are bounded by ranges."
        scope.refuse(
            column.span, f"{column.name!r} is a {kind.name}, and cannot be used to bound a region", hint
        )
    return resolved
