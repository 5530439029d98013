"""Monotonicity analysis: whether a score rises or falls with each of its columns.

The partial derivative is built symbolically, and then its sign is derived: a factor without columns has one
sign per subscription; a factor with columns needs numeric bounds from the statement's own WHERE; the terms of
a sum must agree. Only signs count, so that positive factors common to all rows are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tocsin.language.expressions import (
    Binary,
    Call,
    Column,
    Constant,
    Expression,
    Negate,
    Parameter,
    Theta,
    children,
    columns_of,
)
from tocsin.language.intervals import Interval, interval

_ZERO = Constant(0)
_ONE = Constant(1)


class NotMonotoneError(Exception):
    """Why a score is not monotone, and what would make it so."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class _UnknownSignError(Exception):
    """The sign of `blame` is not the same everywhere."""

    def __init__(self, blame: Expression) -> None:
        super().__init__(str(blame))
        self.blame = blame


@dataclass(frozen=True)
class _Sign:
    """`known` times the signs of `factors`, which have no columns; `strict` if never zero.

    A factor that occurs twice is a square and cancels.
    """

    known: int
    strict: bool
    factors: frozenset[Expression] = frozenset()

    def times(self, other: _Sign) -> _Sign:
        known = self.known * other.known
        return _Sign(known, self.strict and other.strict, self.factors ^ other.factors)

    def negated(self) -> _Sign:
        return _Sign(-self.known, self.strict, self.factors)

    def direction(self) -> int | Expression:
        if not self.factors:
            return self.known or 1
        first, *others = sorted(self.factors, key=str)
        product: Expression = first
        for factor in others:
            product = Binary("*", product, factor)
        return product if self.known > 0 else Negate(product)


def directions(expression: Expression, box: Mapping[str, Interval]) -> tuple[int | Expression, ...]:
    """For each column of the score: +1, -1, or an expression over parameters whose sign is the direction.

    `box` holds the known ranges of columns. Raises `NotMonotoneError`.
    """
    columns = columns_of(expression)
    for column in columns:
        _check_breaks(expression, column, box)
    return tuple(_direction(expression, column, box) for column in columns)


def _direction(expression: Expression, column: str, box: Mapping[str, Interval]) -> int | Expression:
    try:
        sign = _sign(_slope(expression, column), box)
    except _UnknownSignError as unknown:
        blame = unknown.blame
        raise NotMonotoneError(
            f"this is not monotone in {Column(column)}: its direction depends on the sign of {blame}",
            _advice(blame, ">= 0", "<= 0"),
        ) from None
    return 1 if sign.known == 0 else sign.direction()


def _check_breaks(expression: Expression, column: str, box: Mapping[str, Interval]) -> None:
    """Refuse discontinuities: monotone on both sides does not mean monotone across."""
    match expression:
        case Binary("/", _, divisor):
            _check_divisor(divisor, column, box)
        case Call("POWER", (base, Constant(exponent))) if column in columns_of(base):
            if not float(exponent).is_integer():
                # In IEEE, NaN for negative numbers, but not for minus infinity.
                if interval(base, box).low == -math.inf:
                    message = f"this is not monotone in {Column(column)}: {base} may be minus infinity"
                    raise NotMonotoneError(message, _advice(base, ">= 0", ""))
            elif exponent < 0:
                _check_divisor(base, column, box)
    for child in children(expression):
        _check_breaks(child, column, box)


def _check_divisor(divisor: Expression, column: str, box: Mapping[str, Interval]) -> None:
    if column not in columns_of(divisor):
        return
    sign = _sign_or_none(divisor, box)
    if not isinstance(sign, _Sign) or not sign.strict:
        message = f"this is not monotone in {Column(column)}: it divides by {divisor}, which may be zero"
        raise NotMonotoneError(message, _advice(divisor, "> 0", "< 0"))


def _advice(blame: Expression, positive: str, negative: str) -> str:
    if isinstance(blame, Column):
        other = f" or {blame} {negative}," if negative else ""
        return f"Add {blame} {positive},{other} or a tighter bound in numbers, to WHERE."
    names = " and ".join(str(Column(name)) for name in columns_of(blame))
    return f"Bound {names} in WHERE, in numbers, so that {blame} has one sign."


def _slope(expression: Expression, column: str) -> Expression:
    """The derivative, up to positive factors of whole terms, which may hold columns."""
    match expression:
        case Column(name):
            return _ONE if name == column else _ZERO
        case Negate(operand):
            return _negated(_slope(operand, column))
        case Binary("+", left, right):
            return _sum(_slope(left, column), _slope(right, column))
        case Binary("-", left, right):
            return _sum(_slope(left, column), _negated(_slope(right, column)))
        case Binary("*", left, right):
            return _sum(_product(_slope(left, column), right), _product(left, _slope(right, column)))
        case Binary("/", left, right):
            first = _quotient(_slope(left, column), right)
            second = _quotient(_product(left, _slope(right, column)), Binary("*", right, right))
            return _sum(first, _negated(second))
        case Call("POWER", (base, Constant(exponent))):
            below = Call("POWER", (base, Constant(exponent - 1)))
            return _product(
                _product(Constant(exponent), _slope(base, column)), below if exponent != 1 else _ONE
            )
        case Call("SQRT", (inner,)):
            return _quotient(_slope(inner, column), expression)
        case Call("EXP", (inner,)):
            return _product(_slope(inner, column), expression)
        case Call("LN", (inner,)):
            # LN has a value only where its argument is positive.
            return _quotient(_slope(inner, column), Call("ABS", (inner,)))
        case Call("ABS", (inner,)):
            return _product(_slope(inner, column), inner)
        case _:
            return _ZERO


def _negated(expression: Expression) -> Expression:
    match expression:
        case Constant(value):
            return Constant(-value)
        case Negate(operand):
            return operand
        case _:
            return Negate(expression)


def _sum(left: Expression, right: Expression) -> Expression:
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(left.value + right.value)
    if left == _ZERO:
        return right
    if isinstance(right, Negate):
        return Binary("-", left, right.operand)
    return left if right == _ZERO else Binary("+", left, right)


def _product(left: Expression, right: Expression) -> Expression:
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(left.value * right.value)
    if _ZERO in (left, right):
        return _ZERO
    if left == _ONE:
        return right
    return left if right == _ONE else Binary("*", left, right)


def _quotient(left: Expression, right: Expression) -> Expression:
    if left == _ZERO or right == _ONE:
        return left
    return Binary("/", left, right)


def _sign(expression: Expression, box: Mapping[str, Interval]) -> _Sign:
    match expression:
        case Constant(value):
            return _Sign((value > 0) - (value < 0), value != 0)
        case Parameter() | Theta():
            return _Sign(1, True, frozenset([expression]))
        case Column():
            return _ranged(expression, box)
        case Negate(operand):
            return _sign(operand, box).negated()
        case Binary("*", left, right):
            return _sign(left, box).times(_sign(right, box))
        case Binary("/", left, right):
            # Undefined where the divisor is zero, and so is the slope.
            return _sign(left, box).times(_sign(right, box))
        case Binary("-", left, right):
            return _sum_sign(expression, _sign_or_none(left, box), _negated(right), box)
        case Binary(_, left, right):
            return _sum_sign(expression, _sign_or_none(left, box), right, box)
        case Call(function, arguments):
            return _call_sign(expression, function, arguments, box)


def _sign_or_none(expression: Expression, box: Mapping[str, Interval]) -> _Sign | _UnknownSignError:
    try:
        return _sign(expression, box)
    except _UnknownSignError as unknown:
        return unknown


def _sum_sign(
    whole: Expression, left: _Sign | _UnknownSignError, right: Expression, box: Mapping[str, Interval]
) -> _Sign:
    other = _sign_or_none(right, box)
    if isinstance(left, _Sign) and isinstance(other, _Sign):
        if left.known == 0:
            return other
        if other.known == 0 or (left.known == other.known and left.factors == other.factors):
            return _Sign(left.known, left.strict or other.strict, left.factors)
    if not columns_of(whole):
        return _Sign(1, True, frozenset([whole]))
    try:
        return _ranged(whole, box)
    except _UnknownSignError as unknown:
        if isinstance(left, _UnknownSignError) and isinstance(other, _UnknownSignError):
            # If both fail for the same expression, naming it gives the better hint.
            unknown.blame = left.blame if left.blame == other.blame else whole
        raise


def _call_sign(
    call: Call, function: str, arguments: tuple[Expression, ...], box: Mapping[str, Interval]
) -> _Sign:
    inner = arguments[0]
    if function == "EXP":
        return _Sign(1, True)
    if function in ("SQRT", "ABS"):
        known = _sign_or_none(inner, box)
        return _Sign(1, isinstance(known, _Sign) and known.strict)
    if function == "POWER":
        exponent = arguments[1].value if isinstance(arguments[1], Constant) else 0.5
        if exponent % 2 == 1:
            return _sign(inner, box)
        known = _sign_or_none(inner, box)
        return _Sign(1, isinstance(known, _Sign) and known.strict)
    if not columns_of(call):
        return _Sign(1, True, frozenset([call]))
    return _ranged(call, box)


def _ranged(expression: Expression, box: Mapping[str, Interval]) -> _Sign:
    low, high = interval(expression, box)
    if low >= 0:
        return _Sign(1, low > 0)
    if high <= 0:
        return _Sign(-1, high < 0)
    raise _UnknownSignError(expression)
