"""SELECT lists: the columns and their output names."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tocsin.language.expressions import Column, Expression, Parameter, bare, leaves
from tocsin.language.parsing.statement import AggregateCall, SelectItem, Star, Statement
from tocsin.language.plans import Selected
from tocsin.language.scopes import Scope
from tocsin.types import ColumnType

_ONE_AGGREGATE = "SELECT takes columns, or one of MIN, MAX, COUNT, SUM, AVG alone."


def selected(scope: Scope, statement: Statement) -> tuple[Selected, ...]:
    """The columns of the list; all declared ones for `*`. Output names are distinct."""
    if isinstance(statement.items[0].value, Star):
        return _all_columns(scope)
    items = [_selected(scope, item) for item in statement.items]
    seen: set[str] = set()
    for item, choice in zip(statement.items, items, strict=True):
        if choice.name in seen:
            hint = "Give one of them another name with AS."
            scope.refuse(item.span, f"two selected columns are called {choice.name!r}", hint)
        seen.add(choice.name)
    return tuple(items)


def _selected(scope: Scope, item: SelectItem) -> Selected:
    if not isinstance(item.value, Column):
        scope.refuse(item.span, "an aggregate stands alone in a SELECT list", _ONE_AGGREGATE)
    resolved = scope.resolve(item.value)
    name = resolved.name if item.alias is None else item.alias.name
    return Selected(resolved.source.name, resolved.name, name)


def _all_columns(scope: Scope) -> tuple[Selected, ...]:
    """Columns that both sides of a join have are prefixed with their source's name."""
    every = [(label, source, name) for label, source in scope.sources for name in source.columns or ()]
    count = Counter(name for _, _, name in every)
    return tuple(
        Selected(source.name, name, name if count[name] == 1 else f"{label}.{name}")
        for label, source, name in every
    )


def single_aggregate(scope: Scope, statement: Statement) -> tuple[SelectItem, AggregateCall]:
    """The one item of a SELECT list that holds an aggregate."""
    if len(statement.items) > 1:
        extra = next((each for each in statement.items if isinstance(each.value, Column)), statement.items[1])
        scope.refuse(extra.span, "an aggregate stands alone in a SELECT list", _ONE_AGGREGATE)
    item = statement.items[0]
    if not isinstance(item.value, AggregateCall):
        scope.refuse(item.span, "HAVING needs the same aggregate in the SELECT list", _ONE_AGGREGATE)
    return item, item.value


class Aggregated(NamedTuple):
    """What an aggregate is over: a column, arithmetic, or neither for COUNT(*)."""

    column: str | None = None
    type: ColumnType | None = None
    expression: Expression | None = None


def aggregated(scope: Scope, call: AggregateCall) -> Aggregated:
    """The argument of an aggregate, checked to suit its function."""
    argument = call.argument
    if argument is None:
        return Aggregated()
    if not isinstance(argument, Column):
        for leaf in leaves(argument):
            if isinstance(leaf, Parameter):
                hint = "Leave it out: a sum of products is the product of the sum."
                scope.refuse(leaf.span, "an aggregate is over columns and numbers, without :parameters", hint)
        expression = scope.plain(argument, f"compute {call.function}")
        return Aggregated(None, ColumnType.parse("double", column=""), expression)
    if call.function == "COUNT":
        resolved = scope.resolve(argument)
        return Aggregated(resolved.name, resolved.type)
    resolved, column = scope.numeric(argument, f"compute {call.function}")
    if (column.is_timestamp or column.is_date) and call.function in ("SUM", "AVG"):
        hint = "MIN, MAX and COUNT work on times."
        scope.refuse(argument.span, f"times have no {call.function}", hint)
    return Aggregated(resolved.name, column)


def aggregate_name(item: SelectItem, call: AggregateCall) -> str:
    """The alias, or the aggregate's own text without qualifiers."""
    if item.alias is not None:
        return item.alias.name
    return f"{call.function}({'*' if call.argument is None else bare(call.argument)})"
