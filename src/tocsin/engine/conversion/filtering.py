"""Evaluates row filters and arithmetic over columns, in SQL's three-valued logic. NaN is NULL."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.types import Bools, Floats
from tocsin.engine.conversion.floats import coordinates_of, floats_of
from tocsin.language import (
    AllOf,
    AnyOf,
    Binary,
    Call,
    Column,
    Compared,
    Constant,
    Dimension,
    Expression,
    Missing,
    Negate,
    Negated,
    Pattern,
    Predicate,
    RowFilter,
    bind_literals,
)
from tocsin.ordinals import EXACT

#: Columns by name.
Columns = Callable[[str], "pa.Array[Any]"]


class Truth(NamedTuple):
    """Where a condition is true and where it is false; elsewhere it is NULL."""

    true: Bools
    false: Bools


def ranged_values(dimension: Dimension, columns: Columns, present: Bools) -> Floats:
    """What a computed or filtered dimension bounds; NaN where it is NULL, filtered out or not `present`.

    Of a column that is only filtered, 0.0 stands for its value.
    """
    expression = Constant(0) if dimension.expression is None else dimension.expression
    values = numbers_of_expression(expression, columns, len(present))
    is_inside = present
    if dimension.filter is not None:
        is_inside = present & truth_of(dimension.filter, columns, len(present)).true
    return np.where(is_inside, values, np.nan)


def truth_of(test: RowFilter, columns: Columns, count: int) -> Truth:
    """Evaluate a filter for `count` rows. Cost: linear."""
    match test:
        case AllOf(parts):
            return reduce(_both, (truth_of(part, columns, count) for part in parts))
        case AnyOf(parts):
            return reduce(_either, (truth_of(part, columns, count) for part in parts))
        case Negated(part):
            true, false = truth_of(part, columns, count)
            return Truth(false, true)
        case Missing(expression):
            missing = _is_missing(expression, columns, count)
            return Truth(missing, ~missing)
        case Pattern(column, regular, lower):
            texts = columns(column)
            return _arrow_truth(pc.match_substring_regex(pc.utf8_lower(texts) if lower else texts, regular))
        case Compared(left, operator, right):
            return _compared(left, operator, right, columns, count)
        case Predicate():
            return _predicate(test, columns(test.attribute))


def numbers_of_expression(expression: Expression, columns: Columns, count: int) -> Floats:
    """Arithmetic in doubles; NaN where undefined or NULL. Cost: linear."""
    with np.errstate(all="ignore"):
        return _numbers(expression, columns, count) + 0.0


def _numbers(expression: Expression, columns: Columns, count: int) -> Floats:
    match expression:
        case Column(name):
            return floats_of(columns(name))
        case Constant(value):
            return np.full(count, float(value))
        case Negate(operand):
            return -_numbers(operand, columns, count)
        case Binary(operator, left, right):
            return _binary(operator, _numbers(left, columns, count), _numbers(right, columns, count))
        case Call(function, arguments):
            exponent = arguments[1] if len(arguments) > 1 else None
            power = float(exponent.value) if isinstance(exponent, Constant) else 1.0
            return _call(function, _numbers(arguments[0], columns, count), power)
        case _:
            raise TypeError(f"{expression} has no value for a row")


def _binary(operator: str, left: Floats, right: Floats) -> Floats:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return np.where(right != 0.0, left / right, np.nan)


def _call(function: str, argument: Floats, exponent: float) -> Floats:
    if function == "ABS":
        return np.abs(argument)
    if function == "SQRT":
        return np.where(argument >= 0.0, np.sqrt(argument), np.nan)
    if function == "LN":
        return np.log(argument)
    if function == "EXP":
        return np.exp(argument)
    if exponent < 0.0:
        argument = np.where(argument == 0.0, np.nan, argument)
    powers: Floats = np.power(argument, exponent)
    return np.where(np.isnan(argument), np.nan, powers)


def _is_missing(expression: Expression, columns: Columns, count: int) -> Bools:
    if isinstance(expression, Column):
        return _bools(pc.is_null(columns(expression.name), nan_is_null=True))
    return np.isnan(numbers_of_expression(expression, columns, count))


def _both(left: Truth, right: Truth) -> Truth:
    return Truth(left.true & right.true, left.false | right.false)


def _either(left: Truth, right: Truth) -> Truth:
    return Truth(left.true | right.true, left.false & right.false)


def _bools(column: pa.Array) -> Bools:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def _arrow_truth(column: pa.Array) -> Truth:
    return Truth(_bools(pc.fill_null(column, False)), _bools(pc.invert(pc.fill_null(column, True))))


def _predicate(test: Predicate, column: pa.Array) -> Truth:
    """A column compared with literals."""
    operands = _literals(test)
    if test.type is not None and test.type.is_numeric:
        return _number_predicate(test.operator, coordinates_of(column), operands)
    if test.operator in ("IN", "NOT IN"):
        found = pc.is_in(column, value_set=pa.array(operands, column.type))
        is_null = _bools(pc.is_null(column))
        inside = _bools(found) & ~is_null
        truth = Truth(inside, ~inside & ~is_null)
        return truth if test.operator == "IN" else Truth(truth.false, truth.true)
    if test.operator == "BETWEEN":
        low, high = (pa.scalar(operand, column.type) for operand in operands)
        return _both(_arrow_truth(pc.greater_equal(column, low)), _arrow_truth(pc.less_equal(column, high)))
    return _arrow_truth(_ARROW[test.operator](column, pa.scalar(operands[0], column.type)))


def _number_predicate(operator: str, values: Floats, operands: tuple[Any, ...]) -> Truth:
    """As indexes compare: values and operands are coordinates."""
    if operator in ("IN", "NOT IN"):
        true = np.isin(values, operands)
    elif operator == "BETWEEN":
        true = (values >= operands[0]) & (values <= operands[1])
    else:
        true = _NUMPY[operator](values, operands[0])
    is_known = ~np.isnan(values)
    true = (~true if operator == "NOT IN" else true) & is_known
    return Truth(true, ~true & is_known)


def _compared(left: Expression, operator: str, right: Expression, columns: Columns, count: int) -> Truth:
    if isinstance(left, Column) and isinstance(right, Column):
        first, second = columns(left.name), columns(right.name)
        if first.type == second.type and not pa.types.is_floating(first.type):
            return _arrow_truth(_ARROW[operator](first, second))
        if not pa.types.is_timestamp(first.type) and not pa.types.is_date(first.type):
            return _signs_truth(operator, _signs(first, second))
    values = numbers_of_expression(left, columns, count)
    others = numbers_of_expression(right, columns, count)
    is_known = ~(np.isnan(values) | np.isnan(others))
    true = _NUMPY[operator](values, others) & is_known
    return Truth(true, ~true & is_known)


def _signs(left: pa.Array, right: pa.Array) -> Floats:
    """-1, 0 or 1 as numbers are less, equal or greater, exactly; NaN where one is NULL.

    Rounding to doubles preserves order, so that only numbers that round to the same are looked at again.
    """
    values, others = floats_of(left), floats_of(right)
    with np.errstate(invalid="ignore"):
        signs = np.sign(np.where(values == others, 0.0, values - others))
    is_rounded = [
        np.isfinite(values) & ((np.abs(values) >= EXACT) | pa.types.is_decimal(column.type))
        for column in (left, right)
    ]
    for row in np.flatnonzero((values == others) & (is_rounded[0] | is_rounded[1])).tolist():
        first, second = Fraction(left[row].as_py()), Fraction(right[row].as_py())
        signs[row] = (first > second) - (first < second)
    return signs


def _signs_truth(operator: str, signs: Floats) -> Truth:
    is_known = ~np.isnan(signs)
    true = _NUMPY[operator](signs, 0.0) & is_known
    return Truth(true, ~true & is_known)


@lru_cache(maxsize=4096)
def _literals(test: Predicate) -> tuple[Any, ...]:
    return bind_literals(test)


_ARROW: dict[str, Any] = {
    "<": pc.less,
    "<=": pc.less_equal,
    "=": pc.equal,
    "<>": pc.not_equal,
    ">=": pc.greater_equal,
    ">": pc.greater,
}
_NUMPY: dict[str, Any] = {
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
    "<>": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
}
