"""Space keys: statements without the range that each subscriber adds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.engine.conversion.exactness import Limits, double_limits
from tocsin.errors import ParameterError
from tocsin.grids import grid_of
from tocsin.language import Aggregate, Column, Dimension, Distinct, Parameter, Plan, TopK, bind
from tocsin.language.plan_keys import box_of, region_of

#: A condition shared by all subscribers: column, closed bounds.
FixedRange = tuple[str, float, float]


@dataclass(frozen=True)
class SpaceKey:
    """A space: the subscriptions to a table that differ at most in one range and in what they select.

    `str` is its name.
    """

    source: str
    #: top-k, min, max or distinct
    kind: str
    #: the column of the range; None without a range
    column: str | None
    #: the column that is ranked, or whose values are reported
    order: str
    descending: bool = False
    #: most rows of an answer; 1 except for top-k
    k: int = 1
    constants: tuple[FixedRange, ...] = ()

    def __str__(self) -> str:
        ranges = [] if self.column is None else [f"{_name(self.column)} BETWEEN ? AND ?"]
        ranges += [f"{_name(column)} BETWEEN {low!r} AND {high!r}" for column, low, high in self.constants]
        source = f"FROM {_name(self.source)}"
        source += f" WHERE {' AND '.join(ranges)}" if ranges else ""
        if self.kind != "top-k":
            function = f"{self.kind.upper()}({_name(self.order)})"
            return f"{function} {source}"
        direction = " DESC" if self.descending else ""
        return f"{source} ORDER BY {_name(self.order)}{direction} LIMIT {self.k}"

    def describe(self) -> dict[str, Any]:
        """The arguments of a `Subscriber`, apart from its own range."""
        return {"space": str(self), "kind": self.kind, "k": self.k, "descending": self.descending}

    def limits(self, schema: pa.Schema) -> Limits:
        """The limits within which messages, which carry doubles, are exact."""
        columns = [name for name, _, _ in self.constants] + ([self.column] if self.column else [])
        return double_limits(schema, columns if self.kind == "distinct" else [*columns, self.order])

    def as_dict(self) -> dict[str, Any]:
        """For the file that `save` writes: bounds as text, because JSON has no infinities."""
        return asdict(self) | {"constants": [[name, repr(lo), repr(hi)] for name, lo, hi in self.constants]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> SpaceKey:
        """The inverse of `as_dict`."""
        constants = tuple((name, float(low), float(high)) for name, low, high in given["constants"])
        return cls(**{**given, "constants": constants})


def described_ranking(plan: Plan) -> tuple[str, str, bool] | None:
    """The kind, the column and the direction of a plan that messages can describe, else None."""
    if region_of(plan) is not None or not all(dimension.is_plain for dimension in box_of(plan)):
        return None
    match plan:
        case TopK() if isinstance(plan.score.expression, Column):
            return "top-k", plan.score.columns[0], plan.descending
        case Aggregate() if plan.function in ("min", "max") and plan.column is not None:
            return plan.function, plan.column, False
        case Distinct():
            return "distinct", plan.selected.column, False
        case _:
            return None


def space_key_of(plan: Plan, given: Mapping[str, pa.Array]) -> SpaceKey:
    """The space of a statement; `given` holds one value for each parameter shared by all subscribers.

    Subscribers differ in the range with another parameter. The only range of a statement is always that
    range, even if its bounds are numbers. Raises ParameterError.
    """
    ranked = described_ranking(plan)
    if ranked is None or not isinstance(plan, TopK | Aggregate | Distinct):
        raise ParameterError(
            "messages describe ORDER BY a column LIMIT k, MIN, MAX and DISTINCT over ranges of a table, "
            "and no other statement"
        )
    free = [dimension for dimension in plan.box if _is_free(dimension, given)]
    if len(plan.box) == 1:
        free = list(plan.box)
    if len(free) > 1:
        names = " and ".join(repr(dimension.column) for dimension in free)
        raise ParameterError(
            f"messages describe subscriptions that differ in one range; these differ in {names}: "
            "give the parameters of all but one"
        )
    fixed = tuple(dimension for dimension in plan.box if dimension not in free)
    bound = bind(replace(plan, box=fixed), given, 1)
    kind, order, descending = ranked
    constants = [
        (
            dimension.column,
            *message_bounds(dimension, np.array([bound["lo"][0, place], bound["hi"][0, place]])).tolist(),
        )
        for place, dimension in enumerate(fixed)
    ]
    return SpaceKey(
        plan.source,
        kind,
        free[0].column if free else None,
        order,
        descending,
        int(bound["k"][0]) if kind == "top-k" else 1,
        tuple(sorted(constants)),
    )


def message_bounds(dimension: Dimension, bounds: Floats) -> Floats:
    """Bounds of a range as doubles, as in messages."""
    grid = grid_of(dimension.type.arrow)
    return bounds if grid is None else grid.doubles(bounds)


def assign_spaces(keys: list[SpaceKey], columns: list[str], lo: Floats, hi: Floats, k: Ints) -> Longs:
    """The index in `keys` of each subscription's space, -1 for none; its ranges are `lo`, `hi` by column.

    The k and constants of the space must be the subscription's, and the remaining column that of the space.
    Cost: keys × subscriptions.
    """
    space_of = np.full(len(k), -1, np.int64)
    for number, key in enumerate(keys):
        fixed = {name: (low, high) for name, low, high in key.constants}
        named = [*fixed] if key.column is None else [*fixed, key.column]
        if sorted(named) != sorted(columns):
            continue
        belongs = (space_of < 0) & (k == key.k)
        for place, name in enumerate(columns):
            if name in fixed:
                belongs &= (lo[place] == fixed[name][0]) & (hi[place] == fixed[name][1])
        space_of[belongs] = number
    return space_of


def _is_free(dimension: Dimension, given: Mapping[str, pa.Array]) -> bool:
    operands = [bound.operand for bound in dimension.lows + dimension.highs]
    return any(isinstance(operand, Parameter) and operand.name not in given for operand in operands)


def _name(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
