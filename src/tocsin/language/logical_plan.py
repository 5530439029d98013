"""From a statement to its logical plan: its clauses and the kind of its source decide which kind."""

from __future__ import annotations

from tocsin.language.conditions.boxes import exact_literal
from tocsin.language.conditions.predicates import TRUTH, computed_predicate, predicate
from tocsin.language.conditions.regions import is_region, read_region
from tocsin.language.conditions.row_filters import row_filter, unqualified
from tocsin.language.conditions.where import (
    computed_ranges,
    filtered,
    first_score,
    has_parameters,
    split_where,
)
from tocsin.language.expressions import Column, Constant, Parameter
from tocsin.language.parsing.filters import Filter
from tocsin.language.parsing.statement import AggregateCall, Condition, JoinClause, OrderBy, Statement, Value
from tocsin.language.parsing.syntax import too_deep
from tocsin.language.plans import (
    LARGEST_LIMIT,
    Aggregate,
    Dimension,
    Distinct,
    Join,
    Match,
    Operand,
    Plan,
    Predicate,
    Region,
    Rows,
    Threshold,
    TopK,
)
from tocsin.language.schema import Catalog
from tocsin.language.scopes import Scope
from tocsin.language.scores import score_of, scored_range
from tocsin.language.selections import aggregate_name, aggregated, selected, single_aggregate
from tocsin.language.threshold_scaling import DOUBLE_SCALE, scale_of, scaled_literal

_THRESHOLD = (
    "A threshold is SELECT SUM(w) FROM s [WHERE …] HAVING SUM(w) >= tau, or >, or COUNT(*), "
    "over a stream without a window."
)
_JOIN = "A join is SELECT … FROM r JOIN s ON r.a = s.a [WHERE ranges], of two tables."


def plan(statement: Statement, catalog: Catalog) -> Plan:
    """The logical plan of `statement`, resolved against the sources of `catalog`. Raises `SQLError`."""
    try:
        return _plan(Scope(statement, catalog), statement)
    except RecursionError:
        raise too_deep(statement.sql) from None


def _plan(scope: Scope, statement: Statement) -> Plan:
    if statement.join is not None:
        return _join(scope, statement, statement.join)
    if statement.having is not None:
        return _threshold(scope, statement)
    if any(isinstance(item.value, AggregateCall) for item in statement.items):
        return _aggregate(scope, statement)
    if statement.distinct:
        return _distinct(scope, statement)
    if statement.order is not None or statement.limit is not None:
        return _top_k(scope, statement)
    return _rows(scope, statement) if scope.source.holds_rows else _match(scope, statement)


def _top_k(scope: Scope, statement: Statement) -> TopK:
    order, limit = statement.order, statement.limit
    if order is None or limit is None:
        present = order or limit
        missing = "LIMIT needs an ORDER BY" if order is None else "ORDER BY needs a LIMIT"
        hint = "Write ORDER BY … LIMIT k for the first k rows, or leave both out."
        scope.refuse(present.span if present else statement.source.span, missing, hint)
    if not scope.source.holds_rows:
        hint = "Declare the stream with a window, such as window='1000 rows', or rank rows of a table."
        scope.refuse(order.span, f"{scope.source.describe()}, so that there are no rows to rank", hint)
    box, region = _box_and_region(scope, statement)
    score = score_of(scope, order.expression, box, "order rows")
    if region is not None and not isinstance(score.expression, Column):
        hint = "With a disk or a half-plane in WHERE, order by a column."
        scope.refuse(order.span, "an expression cannot be combined with a disk or a half-plane", hint)
    choice = selected(scope, statement)
    return TopK(scope.source.name, choice, box, score, order.descending, _limit(scope, limit), region)


def _limit(scope: Scope, limit: Value) -> Operand:
    if isinstance(limit, Parameter):
        return limit
    if isinstance(limit, Constant) and isinstance(limit.value, int) and 1 <= limit.value <= LARGEST_LIMIT:
        return limit.value
    hint = f"LIMIT takes a whole number from 1 to {LARGEST_LIMIT}, or a :parameter."
    scope.refuse(limit.span, f"LIMIT {limit} is not a number of rows", hint)


def _box(scope: Scope, statement: Statement) -> tuple[Dimension, ...]:
    """WHERE as ranges."""
    where = split_where(scope, statement.where)
    return filtered(scope, (*where.box, *computed_ranges(scope, where.arithmetic)), where.filters)


def _box_and_region(scope: Scope, statement: Statement) -> tuple[tuple[Dimension, ...], Region | None]:
    """WHERE as ranges and, over a table, at most one disk or half-plane."""
    if not scope.source.is_table:
        return _box(scope, statement), None
    where = split_where(scope, statement.where)
    regions = [condition for condition in where.arithmetic if is_region(condition)]
    needed = [condition for condition in regions if has_parameters(condition)]
    is_by_column = statement.order is None or isinstance(statement.order.expression, Column)
    if not needed and is_by_column:
        needed = regions[:1]
    others = tuple(condition for condition in where.arithmetic if condition not in needed)
    region = read_region(scope, tuple(needed))
    return filtered(scope, (*where.box, *computed_ranges(scope, others)), where.filters), region


def _rows(scope: Scope, statement: Statement) -> Rows:
    """The first arithmetic is a score if it is monotone or has parameters."""
    where = split_where(scope, statement.where)
    scored, others = first_score(scope, where)
    box = filtered(scope, (*where.box, *computed_ranges(scope, others)), where.filters)
    return Rows(scope.source.name, selected(scope, statement), box, *scored_range(scope, scored, where.box))


def _match(scope: Scope, statement: Statement) -> Match:
    predicates = tuple(_predicate(scope, condition) for condition in statement.where)
    return Match(scope.source.name, selected(scope, statement), predicates)


def _predicate(scope: Scope, condition: Filter) -> Predicate:
    """One condition of a match: on an attribute, or on what is computed from columns."""
    if isinstance(condition, Condition) and (
        isinstance(condition.subject, Column) or has_parameters(condition)
    ):
        return predicate(scope, condition)
    if scope.source.columns is None:
        hint = "Over sparse rows, conditions on one attribute each are joined by AND. Declare the columns."
        scope.refuse(condition.span, f"{scope.source.name!r} declares no columns for this condition", hint)
    if isinstance(condition, Condition):
        return computed_predicate(scope, condition)
    return Predicate(str(unqualified(condition)), TRUTH, "=", (True,), 1.0, row_filter(scope, condition))


def _aggregate(scope: Scope, statement: Statement) -> Aggregate:
    item, call = single_aggregate(scope, statement)
    _refuse_order(scope, statement, "an aggregate")
    if statement.distinct:
        scope.refuse(item.span, "DISTINCT of an aggregate is not supported", "Leave DISTINCT out.")
    if not scope.source.is_table:
        scope.refuse(
            item.span, f"{scope.source.describe()}, and aggregates are maintained over tables", _THRESHOLD
        )
    over, name = aggregated(scope, call), aggregate_name(item, call)
    return Aggregate(
        scope.source.name,
        call.function.lower(),
        over.column,
        name,
        *_box_and_region(scope, statement),
        over.expression,
    )


def _distinct(scope: Scope, statement: Statement) -> Distinct:
    _refuse_order(scope, statement, "SELECT DISTINCT")
    choice = selected(scope, statement)
    if len(choice) != 1 or not isinstance(statement.items[0].value, Column):
        hint = "Write SELECT DISTINCT y FROM t, with one column."
        scope.refuse(statement.items[-1].span, "DISTINCT takes one column", hint)
    if not scope.source.is_table:
        message = f"{scope.source.describe()}, and DISTINCT is maintained over tables"
        scope.refuse(statement.source.span, message, "Leave DISTINCT out, or declare a table.")
    return Distinct(scope.source.name, choice[0], *_box_and_region(scope, statement))


def _refuse_order(scope: Scope, statement: Statement, what: str) -> None:
    for clause in (statement.order, statement.limit):
        if clause is not None:
            name = "ORDER BY" if isinstance(clause, OrderBy) else "LIMIT"
            hint = "ORDER BY … LIMIT k applies to SELECT columns."
            scope.refuse(clause.span, f"{name} cannot be combined with {what}", hint)


def _threshold(scope: Scope, statement: Statement) -> Threshold:
    having = statement.having
    assert having is not None
    item, call = single_aggregate(scope, statement)
    _refuse_order(scope, statement, "HAVING")
    source = scope.source
    if source.holds_rows:
        hint = "Thresholds count from their registration on, over a stream without a window."
        scope.refuse(having.span, f"{source.describe()}, and HAVING needs a stream without a window", hint)
    if source.columns is None:
        message = f"{source.name!r} declares no columns, and a threshold needs them"
        scope.refuse(statement.source.span, message, "Declare the stream with columns.")
    if call.function not in ("SUM", "COUNT") or (call.function == "COUNT" and call.argument is not None):
        scope.refuse(call.span, f"a threshold on {call} is not supported", _THRESHOLD)
    over, required = aggregated(scope, call), having.call
    if required.function != call.function or aggregated(scope, required) != over:
        hint = f"Write HAVING {call} {having.operator} {having.operand}."
        scope.refuse(required.span, "HAVING and the SELECT list must name the same aggregate", hint)
    if having.operator not in (">=", ">"):
        scope.refuse(having.span, f"HAVING … {having.operator} is not supported", _THRESHOLD)
    strict = having.operator == ">"
    tau = _tau(scope, having.operand, scale_of(over.type), strict)
    name, box = aggregate_name(item, call), _box(scope, statement)
    return Threshold(source.name, over.column, over.type, name, box, tau, over.expression, strict)


def _tau(scope: Scope, tau: Value, scale: int, strict: bool) -> Parameter | float | int:
    if isinstance(tau, Parameter):
        return tau
    if not isinstance(tau, Constant):
        scope.refuse(tau.span, "a threshold is a number", "Write a number, or a :parameter.")
    if tau.value < 0 or (tau.value == 0 and not strict):
        least = "not be negative" if strict else "be positive"
        scope.refuse(tau.span, f"a threshold must {least}", "A sum starts at zero.")
    if scaled_literal(tau.value, scale, strict) is None:
        hint = f"Sums of this column are 64-bit integers, in units of 1/{scale}."
        scope.refuse(tau.span, "this threshold is out of reach", hint)
    return tau.value if scale == DOUBLE_SCALE else exact_literal(scope, tau)


def _join(scope: Scope, statement: Statement, join: JoinClause) -> Join:
    for source, (_, schema) in zip((statement.source, join.source), scope.sources, strict=True):
        if not schema.is_table:
            scope.refuse(source.span, f"{schema.describe()}, and joins are maintained over tables", _JOIN)
    left, right = (schema.name for _, schema in scope.sources)
    if left == right:
        scope.refuse(join.source.span, "a table cannot be joined with itself", _JOIN)
    if statement.having is not None:
        scope.refuse(statement.having.span, "HAVING cannot be combined with a join", _JOIN)
    for item in statement.items:
        if isinstance(item.value, AggregateCall):
            scope.refuse(item.span, "aggregates of a join are not supported", _JOIN)
    if statement.distinct:
        scope.refuse(statement.items[0].span, "DISTINCT cannot be combined with a join", _JOIN)
    _refuse_order(scope, statement, "a join")
    left_on, right_on = _join_columns(scope, join)
    box = _box(scope, statement)
    return Join(
        left,
        right,
        left_on,
        right_on,
        selected(scope, statement),
        tuple(dimension for dimension in box if dimension.source == left),
        tuple(dimension for dimension in box if dimension.source == right),
    )


def _join_columns(scope: Scope, join: JoinClause) -> tuple[str, str]:
    sides = [scope.resolve(join.left), scope.resolve(join.right)]
    if sides[0].source.name == sides[1].source.name:
        scope.refuse(join.right.span, f"both columns are of {sides[0].source.name!r}", _JOIN)
    kinds = [side.kind for side in sides]
    if "boolean" in kinds:
        place = (join.left, join.right)[kinds.index("boolean")]
        scope.refuse(place.span, "booleans cannot be joined on", "Join on numbers, strings or timestamps.")
    if kinds[0] != kinds[1]:
        message = f"{join.left} is a {kinds[0]}, and {join.right} is a {kinds[1]}"
        scope.refuse(join.right.span, message, "Join on two numbers, two strings or two timestamps.")
    if sides[0].source.name != scope.source.name:
        sides.reverse()
    return sides[0].name, sides[1].name
