"""The key of a plan, which is the plan without its numbers, as text; and the parameters in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tocsin.language.conditions.row_filters import compared_columns
from tocsin.language.expressions import Parameter, leaves, lift
from tocsin.language.plans import (
    Aggregate,
    Bound,
    Dimension,
    Distinct,
    Join,
    Match,
    Plan,
    Region,
    Rows,
    Score,
    Selected,
    Threshold,
    TopK,
)


def parameters(plan: Plan) -> tuple[str, ...]:
    """The distinct names of the plan's parameters, in the order of the statement's text."""
    found = [operand for operand in _operands(plan) if isinstance(operand, Parameter)]
    found.sort(key=lambda parameter: parameter.span.start)
    return tuple(dict.fromkeys(parameter.name for parameter in found))


def box_of(plan: Plan) -> tuple[Dimension, ...]:
    """The plan's ranges; of a join, those of the left side first."""
    match plan:
        case Join():
            return plan.left_box + plan.right_box
        case Match():
            return ()
        case _:
            return plan.box


def compared_columns_of(box: Iterable[Dimension]) -> list[str]:
    """The columns that a box compares with numbers, some maybe several times."""
    names = [dimension.column for dimension in box if dimension.expression is None]
    for dimension in box:
        if dimension.filter is not None:
            names += compared_columns(dimension.filter)
    return names


def region_of(plan: Plan) -> Region | None:
    """The plan's disk or half-plane."""
    return plan.region if isinstance(plan, TopK | Aggregate | Distinct) else None


def _operands(plan: Plan) -> Iterator[object]:
    for dimension in box_of(plan):
        yield from (bound.operand for bound in dimension.lows + dimension.highs)
    region = region_of(plan)
    if region is not None:
        yield from (*region.operands, region.bound.operand)
    match plan:
        case TopK():
            yield from leaves(plan.score.expression)
            yield plan.limit
        case Rows():
            if plan.score is not None:
                yield from leaves(plan.score.expression)
            yield from (bound.operand for bound in plan.lows + plan.highs)
        case Threshold():
            yield plan.tau
        case Match():
            for predicate in plan.predicates:
                yield from predicate.operands
                yield predicate.weight


def plan_key(plan: Plan) -> str:
    """Text that two plans share exactly if they differ only in numbers and parameters.

    Matching maintains all statements over one source together, so that their key is the source alone.
    """
    match plan:
        case TopK():
            order = f"order {_score(plan.score)} {'desc' if plan.descending else 'asc'}"
            where = _box(plan.box), _region(plan.region)
            return _text("topk", plan.source, _select(plan.select), *where, order)
        case Aggregate():
            value = f"{plan.function}({_over(plan)}) as {_name(plan.name)}"
            return _text("aggregate", plan.source, value, _box(plan.box), _region(plan.region))
        case Distinct():
            where = _box(plan.box), _region(plan.region)
            return _text("distinct", plan.source, _select([plan.selected]), *where)
        case Rows():
            scored = f"score {_score(plan.score)} {_sides(plan.lows, plan.highs)}" if plan.score else ""
            return _text("rows", plan.source, _select(plan.select), _box(plan.box), scored)
        case Join():
            on = f"on {_name(plan.left_on)} = {_name(plan.right)}.{_name(plan.right_on)}"
            return _text("join", plan.left, on, _select(plan.select), _box(box_of(plan)))
        case Threshold():
            value = f"{_over(plan)} as {_name(plan.name)}"
            return _text("threshold", plan.source, value, _box(plan.box))
        case Match():
            return _text("match", plan.source)


def _over(plan: Aggregate | Threshold) -> str:
    if plan.expression is not None:
        return repr(plan.expression)
    return "*" if plan.column is None else _name(plan.column)


def _text(kind: str, source: str, *parts: str) -> str:
    return " ".join([kind, _name(source), *filter(None, parts)])


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _select(items: Iterable[Selected]) -> str:
    chosen = [f"{_name(item.source)}.{_name(item.column)} as {_name(item.name)}" for item in items]
    return f"select {', '.join(chosen) or '*'}"


def _box(box: tuple[Dimension, ...]) -> str:
    return f"where {', '.join(map(_range, box))}" if box else ""


def _range(dimension: Dimension) -> str:
    column = _name(dimension.column) if dimension.expression is None else repr(dimension.expression)
    test = "" if dimension.filter is None else f" if {dimension.filter!r}"
    return f"{_name(dimension.source)}.{column} {_sides(dimension.lows, dimension.highs)}{test}"


def _region(region: Region | None) -> str:
    """Without signs and strictness, which binding folds into the numbers."""
    if region is None:
        return ""
    x, z = (f"{_name(region.source)}.{_name(column)}" for column in region.columns)
    return f"{region.kind} {x}, {z}"


def _sides(lows: tuple[Bound, ...], highs: tuple[Bound, ...]) -> str:
    low = [">" if bound.strict else ">=" for bound in lows]
    return " ".join(low + ["<" if bound.strict else "<=" for bound in highs])


def _score(score: Score) -> str:
    lifted, _ = lift(score.expression)
    return str(lifted)
