"""Conditions as row filters: columns resolved, operands of their types, no parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.language.conditions.predicates import predicate
from tocsin.language.expressions import Column, Constant, Expression, Parameter, bare, leaves
from tocsin.language.parsing.filters import (
    And,
    Comparison,
    Filter,
    Identical,
    IsNull,
    IsTruth,
    Like,
    Not,
    Or,
)
from tocsin.language.parsing.statement import BooleanLiteral, Condition, Distance
from tocsin.language.plans import (
    AllOf,
    AnyOf,
    Compared,
    Missing,
    Negated,
    Pattern,
    Predicate,
    RowFilter,
)
from tocsin.language.scopes import Scope

_USE = "filter rows"


def row_filter(scope: Scope, condition: Filter) -> RowFilter:
    """A condition as a test of rows. Raises SQLError."""
    parameter = next(_parameters(condition), None)
    if parameter is not None:
        hint = "Parameters bound a column, or arithmetic over columns, in a condition of its own."
        scope.refuse(parameter.span, "a :parameter is not supported in this condition", hint)
    return _lowered(scope, condition)


def unqualified(condition: Filter) -> Filter:
    """The condition with columns named without their source, as in a statement over it alone."""
    match condition:
        case And(parts) | Or(parts):
            return replace(condition, parts=tuple(map(unqualified, parts)))
        case Not(part):
            return replace(condition, part=unqualified(part))
        case Comparison():
            return replace(condition, left=bare(condition.left), right=bare(condition.right))
        case IsNull() | Like():
            return replace(condition, subject=bare(condition.subject))
        case IsTruth():
            return replace(condition, subject=Column(condition.subject.name))
        case Identical():
            equality = unqualified(condition.equality)
            assert isinstance(equality, Condition | Comparison)
            return replace(condition, equality=equality)
        case Condition():
            if isinstance(condition.subject, Distance):
                return condition
            return replace(condition, subject=bare(condition.subject))


def sources_of(scope: Scope, condition: Filter) -> set[str]:
    """The names of the sources whose columns a condition reads."""
    return {scope.resolve(column).source.name for column in _columns(condition)}


def compared_columns(test: RowFilter) -> Iterator[str]:
    """The columns that a filter compares with numbers."""
    match test:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from compared_columns(part)
        case Negated(part):
            yield from compared_columns(part)
        case Predicate():
            if test.type is not None and test.type.is_numeric:
                yield test.attribute
        case _:
            return


def _lowered(scope: Scope, condition: Filter) -> RowFilter:
    match condition:
        case And(parts):
            return AllOf(tuple(_lowered(scope, part) for part in parts))
        case Or(parts):
            return AnyOf(tuple(_lowered(scope, part) for part in parts))
        case Not(part):
            return Negated(_lowered(scope, part))
        case IsNull(subject):
            return Missing(_plain(scope, subject))
        case IsTruth(subject, value):
            equality = Condition(subject, "=", (BooleanLiteral(value, condition.span),), span=condition.span)
            return AllOf((Negated(Missing(_plain(scope, subject))), _lowered(scope, equality)))
        case Identical():
            return _identical(scope, condition)
        case Like():
            return _pattern(scope, condition)
        case Comparison():
            return _comparison(scope, condition)
        case Condition(weight=None, subject=Column()):
            return predicate(scope, condition)
        case Condition(weight=None):
            return _arithmetic(scope, condition)
        case Condition():
            hint = "Leave WEIGHT out, or match events of a stream without a window."
            scope.refuse(condition.span, "WEIGHT is not supported in this condition", hint)


def _identical(scope: Scope, condition: Identical) -> RowFilter:
    """Equal, or both NULL."""
    equality = condition.equality
    if isinstance(equality, Comparison):
        nulls = tuple(Missing(_plain(scope, side)) for side in (equality.left, equality.right))
    elif isinstance(equality.subject, Distance):
        return _lowered(scope, equality)
    else:
        nulls = (Missing(_plain(scope, equality.subject)),)
    present = AllOf((*map(Negated, nulls), _lowered(scope, equality)))
    return AnyOf((present, AllOf(nulls))) if len(nulls) == 2 else present


def _plain(scope: Scope, expression: Expression) -> Expression:
    """An expression without qualifiers; a column alone may be of any type."""
    if isinstance(expression, Column):
        resolved, _ = scope.compared(expression, _USE)
        return Column(resolved.name)
    return scope.plain(expression, _USE)


def _pattern(scope: Scope, like: Like) -> Pattern:
    if not isinstance(like.subject, Column):
        scope.refuse(like.subject.span, "LIKE is for columns of text", "Write name LIKE 'A%'.")
    resolved, kind = scope.compared(like.subject, _USE)
    if not kind.is_string:
        message = f"{like.subject} is a {kind.name}, and LIKE is for text"
        scope.refuse(like.subject.span, message, "Compare it with <, <=, =, >= or >.")
    return Pattern(resolved.name, _regular_expression(scope, like), like.ignores_case)


def _regular_expression(scope: Scope, like: Like) -> str:
    expression, is_escaped = "", False
    for character in like.pattern:
        if is_escaped or character not in ("%", "_", like.escape):
            literal = pc.utf8_lower(character).as_py() if like.ignores_case else character
            expression, is_escaped = expression + re.escape(literal), False
        elif character == like.escape:
            is_escaped = True
        else:
            expression += ".*" if character == "%" else "."
    if is_escaped:
        scope.refuse(like.span, "this pattern ends with its escape", "An escape precedes %, _ or itself.")
    expression = rf"(?s)\A{expression}\z"
    try:
        pc.match_substring_regex(pa.array([""]), expression)
    except pa.ArrowInvalid:
        scope.refuse(
            like.span, "this pattern is too long", "Patterns of a thousand characters are supported."
        )
    return expression


def _comparison(scope: Scope, condition: Comparison) -> Compared:
    left, operator, right = condition.left, condition.operator, condition.right
    if not (isinstance(left, Column) and isinstance(right, Column)):
        return Compared(scope.plain(left, _USE), operator, scope.plain(right, _USE))
    sides = [scope.compared(column, _USE)[0] for column in (left, right)]
    kinds = [side.kind for side in sides]
    if kinds[0] != kinds[1]:
        message = f"{left} is a {kinds[0]}, and {right} is a {kinds[1]}"
        scope.refuse(condition.span, message, "Compare two numbers, two texts or two times.")
    if kinds[0] == "boolean" and operator not in ("=", "<>"):
        scope.refuse(condition.span, "booleans are compared with = and <>", "Write = or <>.")
    return Compared(Column(sides[0].name), operator, Column(sides[1].name))


def _arithmetic(scope: Scope, condition: Condition) -> RowFilter:
    """Arithmetic compared with numbers."""
    if isinstance(condition.subject, Distance):
        hint = "A disk stands in a condition of its own, joined by AND."
        scope.refuse(condition.span, "DISTANCE is not supported in this condition", hint)
    subject = scope.plain(condition.subject, _USE)
    operands = []
    for value in condition.operands:
        if not isinstance(value, Constant):
            scope.refuse(value.span, "arithmetic is compared with numbers", "Write a number.")
        operands.append(value)
    if condition.operator == "BETWEEN":
        low, high = operands
        return AllOf((Compared(subject, ">=", low), Compared(subject, "<=", high)))
    if condition.operator in ("IN", "NOT IN"):
        equal = AnyOf(tuple(Compared(subject, "=", value) for value in operands))
        return equal if condition.operator == "IN" else Negated(equal)
    return Compared(subject, condition.operator, operands[0])


def _columns(condition: Filter) -> Iterator[Column]:
    for expression in _expressions(condition):
        yield from (leaf for leaf in leaves(expression) if isinstance(leaf, Column))


def _parameters(condition: Filter) -> Iterator[Parameter]:
    for expression in _expressions(condition):
        yield from (leaf for leaf in leaves(expression) if isinstance(leaf, Parameter))


def _expressions(condition: Filter) -> Iterator[Expression]:
    """The expressions in a condition, operands too."""
    match condition:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _expressions(part)
        case Not(part):
            yield from _expressions(part)
        case IsNull() | IsTruth() | Like():
            yield condition.subject
        case Identical():
            yield from _expressions(condition.equality)
        case Comparison():
            yield from (condition.left, condition.right)
        case Condition():
            if isinstance(condition.subject, Distance):
                yield from (*condition.subject.columns, *condition.subject.center)
            else:
                yield condition.subject
            for value in (*condition.operands, condition.weight):
                if isinstance(value, Constant | Parameter):
                    yield value
