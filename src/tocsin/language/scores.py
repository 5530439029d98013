"""Scores: monotone expressions to order by and to bound."""

from __future__ import annotations

from tocsin.language.conditions.boxes import condition_bounds, known_ranges
from tocsin.language.expressions import Expression, columns_of
from tocsin.language.monotone import NotMonotoneError, directions
from tocsin.language.parsing.statement import Condition, Distance
from tocsin.language.plans import Bound, Dimension, Score
from tocsin.language.scopes import Scope
from tocsin.types import ColumnType

#: The bound of a score is a number, whatever its columns are.
_NUMBER = ColumnType.parse("double", column="")


def score_of(scope: Scope, expression: Expression, box: tuple[Dimension, ...], use: str) -> Score:
    """The expression as a score over the rows inside `box`. Raises SQLError unless it is monotone there."""
    columns = columns_of(expression)
    if not columns:
        hint = "Order by a column, or by an expression over columns."
        scope.refuse(expression.span, "there is no column in this expression", hint)
    plain = scope.plain(expression, use)
    try:
        follows = directions(plain, known_ranges(box))
    except NotMonotoneError as error:
        scope.refuse(expression.span, error.message, error.hint)
    return Score(plain, columns_of(plain), follows)


def scored_range(
    scope: Scope, conditions: tuple[Condition, ...], box: tuple[Dimension, ...]
) -> tuple[Score | None, tuple[Bound, ...], tuple[Bound, ...]]:
    """The one score that the conditions bound, and its bounds."""
    if not conditions:
        return None, (), ()
    first = _scored(scope, conditions[0])
    score = score_of(scope, first, box, "score rows")
    lows: tuple[Bound, ...] = ()
    highs: tuple[Bound, ...] = ()
    for condition in conditions:
        if scope.plain(_scored(scope, condition), "score rows") != score.expression:
            hint = f"One expression besides bare columns can be bounded; here it is {first}."
            scope.refuse(condition.span, "this is a second scored expression", hint)
        below, above = condition_bounds(scope, condition, _NUMBER)
        lows, highs = lows + below, highs + above
    return score, lows, highs


def _scored(scope: Scope, condition: Condition) -> Expression:
    if isinstance(condition.subject, Distance):
        hint = "DISTANCE applies to ORDER BY a column LIMIT k, MIN to AVG and DISTINCT, over a table."
        scope.refuse(condition.span, "the live rows of a disk are not supported", hint)
    return condition.subject
