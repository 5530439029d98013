"""Binds parameters to a plan: one array per bound value, one row per subscription."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tocsin.errors import ParameterError
from tocsin.grids import Grid, Side, grid_of, points, range_ends
from tocsin.language.expressions import Expression, Parameter, lift
from tocsin.language.parameter_columns import ParameterColumns
from tocsin.language.plan_keys import box_of, parameters, region_of
from tocsin.language.plans import (
    Bound,
    Dimension,
    Match,
    Operand,
    Plan,
    Predicate,
    Region,
    Rows,
    Threshold,
    TopK,
)
from tocsin.language.threshold_scaling import scale_of

Floats: TypeAlias = NDArray[np.float64]


#: How an operand between two grid points is rounded without changing which values satisfy the operator.
_SIDES: dict[str, Side] = {"<": "up", ">=": "up", "<=": "down", ">": "down"}


class BoundPredicate(NamedTuple):
    """A predicate of many subscriptions; each operand is an array: float64, bool or Arrow string."""

    attribute: str
    operator: str
    operands: tuple[Any, ...]
    weight: Floats


def scale(plan: Threshold) -> int:
    """The factor by which the plan's weights are scaled to integers."""
    return scale_of(plan.type)


def bind(plan: Plan, columns: Mapping[str, Any], count: int) -> dict[str, np.ndarray]:
    """The bound values of `count` subscriptions. Raises `ParameterError`. Cost: linear in `count`.

    Always `lo` and `hi`, float64 (count, dimensions), closed ranges, those of a join's left side first; of a
    text column everything, as `bind_texts` has what it is equal to. And:

    * TopK: `k` int32 (count,), `theta` float64 (count, operands of the lifted score);
    * Rows with a score: `theta`, `score_lo` and `score_hi` float64 (count,);
    * Threshold: `tau` int64 (count,), scaled by `scale(plan)`;
    * with a region: `region` float64 (count, 3), the a, b, c of `DISTANCE(x, z, a, b) <= c` or
      `a*x + b*z <= c`.
    """
    values = ParameterColumns(parameters(plan), columns, count)
    lo, hi = _ranges(values, box_of(plan))
    bound: dict[str, np.ndarray] = {"lo": lo, "hi": hi}
    region = region_of(plan)
    if region is not None:
        bound["region"] = _regions(values, region)
    match plan:
        case TopK():
            bound["k"] = values.counts(plan.limit)
            bound["theta"] = _theta(values, plan.score.expression)
        case Rows() if plan.score is not None:
            bound["theta"] = _theta(values, plan.score.expression)
            bound["score_lo"], bound["score_hi"] = _range(values, plan.lows, plan.highs)
        case Threshold():
            bound["tau"] = values.thresholds(plan.tau, scale(plan), plan.strict)
        case Match():
            raise TypeError("the predicates of a Match are bound by bind_match")
    return bound


def bind_texts(plan: Plan, columns: Mapping[str, Any], count: int) -> list[pa.Array]:
    """What each text column of a plan is equal to, for `count` subscriptions, in the order of `box_of`.

    Null where it would have to equal two texts. Raises `ParameterError`. Cost: linear in `count`.
    """
    equalities = [dimension.lows for dimension in box_of(plan) if dimension.type.is_string]
    if not equalities:
        return []
    values = ParameterColumns(parameters(plan), columns, count)
    return [_common_text([values.texts(bound.operand) for bound in lows]) for lows in equalities]


def _common_text(several: list[pa.Array]) -> pa.Array:
    common = several[0]
    for texts in several[1:]:
        common = pc.if_else(pc.equal(common, texts), common, pa.scalar(None, pa.string()))
    return common


def _ranges(values: ParameterColumns, box: tuple[Dimension, ...]) -> tuple[Floats, Floats]:
    lo, hi = np.empty((values.count, len(box))), np.empty((values.count, len(box)))
    for place, dimension in enumerate(box):
        grid = grid_of(dimension.type.arrow)
        if dimension.type.is_string:
            lo[:, place], hi[:, place] = -np.inf, np.inf
        elif dimension.type.is_boolean:
            truths = [values.truths(bound.operand).astype(np.float64) for bound in dimension.lows]
            lo[:, place], hi[:, place] = np.maximum.reduce(truths), np.minimum.reduce(truths)
        elif grid is None:
            lo[:, place], hi[:, place] = _range(values, dimension.lows, dimension.highs)
        else:
            lo[:, place], hi[:, place] = _grid_range(values, dimension, grid)
    return lo, hi


def _grid_range(values: ParameterColumns, dimension: Dimension, grid: Grid) -> tuple[Floats, Floats]:
    """As `_range`, in grid coordinates of the column."""
    lo, hi = np.full(values.count, -np.inf), np.full(values.count, np.inf)
    for bound in dimension.lows:
        floors = values.floors(bound.operand, dimension.type, grid)
        lo = np.maximum(lo, range_ends(grid, floors, low=True, strict=bound.strict))
    for bound in dimension.highs:
        floors = values.floors(bound.operand, dimension.type, grid)
        hi = np.minimum(hi, range_ends(grid, floors, low=False, strict=bound.strict))
    return lo + 0.0, hi + 0.0


def _range(
    values: ParameterColumns, lows: tuple[Bound, ...], highs: tuple[Bound, ...]
) -> tuple[Floats, Floats]:
    """The closed range from the largest low to the smallest high. `x > 5` is `x >=` the next double."""
    lo, hi = np.full(values.count, -np.inf), np.full(values.count, np.inf)
    impossible = np.zeros(values.count, np.bool_)
    with np.errstate(all="ignore"):
        for bound in lows:
            edge = values.numbers(bound.operand)
            if bound.strict:
                # No double comes after infinity.
                impossible |= edge == np.inf
                edge = np.nextafter(edge, np.inf)
            lo = np.maximum(lo, edge)
        for bound in highs:
            edge = values.numbers(bound.operand)
            if bound.strict:
                impossible |= edge == -np.inf
                edge = np.nextafter(edge, -np.inf)
            hi = np.minimum(hi, edge)
    lo[impossible], hi[impossible] = np.inf, -np.inf
    # The double after the smallest negative one is -0.0.
    return lo + 0.0, hi + 0.0


def _regions(values: ParameterColumns, region: Region) -> Floats:
    """`>=` is `<=` with all signs flipped, which rounding preserves; `< c` is `<=` the double before c."""
    flip = -1.0 if region.is_low else 1.0
    numbers = np.empty((values.count, 3))
    for place, (operand, sign) in enumerate(zip(region.operands, region.signs, strict=True)):
        numbers[:, place] = values.numbers(operand) * (flip * sign)
    edge = values.numbers(region.bound.operand) * flip
    impossible = np.zeros(values.count, np.bool_)
    if region.bound.strict:
        impossible = edge == -np.inf
        with np.errstate(all="ignore"):
            edge = np.nextafter(edge, -np.inf)
    numbers[:, 2] = edge
    numbers[impossible] = 0.0, 0.0, -1.0
    return numbers + 0.0


def _theta(values: ParameterColumns, expression: Expression) -> Floats:
    _, operands = lift(expression)
    theta = np.empty((values.count, len(operands)))
    for place, operand in enumerate(operands):
        theta[:, place] = values.numbers(operand, finite="a number in a score")
    return theta


def bind_literals(predicate: Predicate) -> tuple[Any, ...]:
    """The operands of a predicate without parameters: texts, booleans, or numbers in coordinates."""
    bound = _predicate(ParameterColumns((), {}, 1), predicate).operands
    return tuple(
        operand[0].as_py() if isinstance(operand, pa.Array) else operand[0].item() for operand in bound
    )


def bind_match(plan: Match, columns: Mapping[str, Any], count: int) -> tuple[BoundPredicate, ...]:
    """The predicates of `count` subscriptions. Raises `ParameterError`. Cost: linear in `count`."""
    values = ParameterColumns(parameters(plan), columns, count)
    return tuple(_predicate(values, predicate) for predicate in plan.predicates)


def _predicate(values: ParameterColumns, predicate: Predicate) -> BoundPredicate:
    operands = tuple(
        _operand(values, predicate, operand, place) for place, operand in enumerate(predicate.operands)
    )
    if predicate.operator == "BETWEEN" and predicate.type is None:
        kinds = {values.type_of(operand) for operand in predicate.operands}
        if len(kinds) > 1:
            types = " and ".join(sorted(kinds))
            raise ParameterError(
                f"the ends of the range of {predicate.attribute!r} are of two types: {types}"
            )
    weight = values.numbers(predicate.weight, finite="a weight")
    return BoundPredicate(predicate.attribute, predicate.operator, operands, weight)


def _operand(values: ParameterColumns, predicate: Predicate, operand: Operand, place: int) -> Any:
    column = predicate.type
    kind = values.type_of(operand) if column is None else column.name
    if kind == "string":
        return values.texts(operand)
    if kind == "boolean":
        if predicate.operator not in ("=", "<>") and isinstance(operand, Parameter):
            problem = f"is boolean, and booleans are compared with = and <> only, not {predicate.operator}"
            raise ParameterError(f"parameter :{operand.name} {problem}")
        return values.truths(operand)
    if column is None:
        return values.attributes(operand)
    grid = grid_of(column.arrow)
    if grid is None:
        return values.numbers(operand)
    side: Side = _SIDES.get(predicate.operator, "at")
    if predicate.operator == "BETWEEN":
        side = "down" if place else "up"
    return points(grid, values.floors(operand, column, grid), side)
