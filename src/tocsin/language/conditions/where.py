"""WHERE, lowered to what indexes understand: ranges of columns and of arithmetic, and row filters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from tocsin.errors import SQLError
from tocsin.language.conditions.boxes import condition_bounds
from tocsin.language.conditions.row_filters import row_filter, sources_of
from tocsin.language.expressions import Column, Constant, Parameter, leaves
from tocsin.language.parsing.filters import Filter
from tocsin.language.parsing.statement import Condition, Distance
from tocsin.language.plans import AllOf, Bound, Dimension
from tocsin.language.scopes import Scope
from tocsin.language.scores import score_of
from tocsin.types import ColumnType

#: Operators of which a condition on a column is a range.
_RANGES = ("BETWEEN", "<", "<=", "=", ">=", ">")

_NUMBER = ColumnType.parse("double", column="")
_BOOLEAN = ColumnType.parse("boolean", column="")


class Where(NamedTuple):
    """The parts of a WHERE."""

    #: a dimension for each column, in order of first appearance
    box: tuple[Dimension, ...]
    #: conditions on arithmetic and distances
    arithmetic: tuple[Condition, ...]
    #: all others
    filters: tuple[Filter, ...]


def split_where(scope: Scope, conditions: Iterable[Filter]) -> Where:
    """The parts of a WHERE. Raises SQLError."""
    box: dict[tuple[str, str], Dimension] = {}
    arithmetic: list[Condition] = []
    filters: list[Filter] = []
    for condition in conditions:
        if not isinstance(condition, Condition) or (
            condition.operator not in _RANGES and condition.weight is None
        ):
            filters.append(condition)
        elif not isinstance(condition.subject, Column):
            arithmetic.append(condition)
        else:
            resolved, column = scope.compared(condition.subject, "bound a range")
            if not column.is_numeric and condition.operator != "=" and condition.weight is None:
                filters.append(condition)
                continue
            lows, highs = condition_bounds(scope, condition, column)
            place = resolved.source.name, resolved.name
            before = box.get(place, Dimension(*place, column, (), ()))
            box[place] = replace(before, lows=before.lows + lows, highs=before.highs + highs)
    return Where(tuple(box.values()), tuple(arithmetic), tuple(filters))


def has_parameters(condition: Condition) -> bool:
    """Whether the subject of a condition has parameters; a distance is taken to."""
    return isinstance(condition.subject, Distance) or any(
        isinstance(leaf, Parameter) for leaf in leaves(condition.subject)
    )


def first_score(scope: Scope, where: Where) -> tuple[tuple[Condition, ...], tuple[Condition, ...]]:
    """The conditions on the first arithmetic, if it can be a score; and those that remain."""
    if not where.arithmetic:
        return (), ()
    subject = where.arithmetic[0].subject
    scored = tuple(condition for condition in where.arithmetic if condition.subject == subject)
    others = tuple(condition for condition in where.arithmetic if condition.subject != subject)
    if not has_parameters(where.arithmetic[0]) and not isinstance(subject, Distance):
        try:
            score_of(scope, subject, where.box, "score rows")
        except SQLError:
            return (), where.arithmetic
    return scored, others


def computed_ranges(scope: Scope, conditions: Iterable[Condition]) -> tuple[Dimension, ...]:
    """Conditions on arithmetic without parameters as ranges of what is computed."""
    box: dict[tuple[str, str], Dimension] = {}
    for condition in conditions:
        if isinstance(condition.subject, Distance):
            hint = "Disks are supported over tables: ORDER BY a column LIMIT k, MIN to AVG, DISTINCT."
            scope.refuse(condition.span, "a disk is not supported here", hint)
        if has_parameters(condition):
            hint = "Write the parameters on the other side: price * shares > :v."
            scope.refuse(condition.subject.span, "here arithmetic in WHERE has no :parameters", hint)
        subject = scope.plain(condition.subject, "bound a range")
        lows, highs = condition_bounds(scope, condition, _NUMBER)
        place = _only_source(scope, condition), str(subject)
        before = box.get(place, Dimension(*place, _NUMBER, (), (), subject))
        box[place] = replace(before, lows=before.lows + lows, highs=before.highs + highs)
    return tuple(box.values())


def filtered(
    scope: Scope, box: tuple[Dimension, ...], conditions: tuple[Filter, ...]
) -> tuple[Dimension, ...]:
    """The box with filters: each source's on one of its dimensions, or on one that holds everything."""
    by_source: dict[str, list[Filter]] = {}
    for condition in conditions:
        by_source.setdefault(_only_source(scope, condition), []).append(condition)
    for source, several in by_source.items():
        tests = tuple(row_filter(scope, condition) for condition in several)
        test = tests[0] if len(tests) == 1 else AllOf(tests)
        places = [place for place, dimension in enumerate(box) if dimension.source == source]
        if places:
            at = places[0]
            box = (*box[:at], replace(box[at], filter=test), *box[at + 1 :])
        else:
            always = (Bound(True, False),)
            box = (*box, Dimension(source, "TRUE", _BOOLEAN, always, always, Constant(1), test))
    return box


def _only_source(scope: Scope, condition: Filter) -> str:
    names = sources_of(scope, condition)
    if len(names) > 1:
        hint = "Of a join, a condition is on the columns of one table."
        scope.refuse(condition.span, "this condition is on both tables", hint)
    return names.pop() if names else scope.source.name
