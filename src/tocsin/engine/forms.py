"""What a space of messages is: a statement without the range that each subscriber gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.limits import Limits, as_doubles
from tocsin.errors import ParameterError
from tocsin.grids import grid_of
from tocsin.indexes.contract import Floats, Ints, Longs
from tocsin.language import Aggregate, Column, Dimension, Distinct, Parameter, Plan, TopK, bind
from tocsin.language.shapes import region_of

#: A condition that is the same for all subscribers: column, closed bounds.
Constant = tuple[str, float, float]


@dataclass(frozen=True)
class Form:
    """A space: all subscriptions to a table that differ in one range, or in nothing, and in what they select.

    Its text is its name.
    """

    source: str
    #: top-k, min, max or distinct
    kind: str
    #: the column of the range; None if there is none
    column: str | None
    #: the column that is ranked, or whose values are told
    order: str
    descending: bool = False
    #: how many rows an answer has at most; 1 but for top-k
    k: int = 1
    constants: tuple[Constant, ...] = ()

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
        """What a `Subscriber` has to be told, apart from its own range."""
        return {"space": str(self), "kind": self.kind, "k": self.k, "descending": self.descending}

    def limits(self, schema: pa.Schema) -> Limits:
        """The values that messages, which carry doubles, tell exactly."""
        columns = [name for name, _, _ in self.constants] + ([self.column] if self.column else [])
        return as_doubles(schema, columns if self.kind == "distinct" else [*columns, self.order])

    def as_dict(self) -> dict[str, Any]:
        """For the file that `save` writes: infinite bounds as text, which JSON has no numbers for."""
        return asdict(self) | {"constants": [[name, repr(lo), repr(hi)] for name, lo, hi in self.constants]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Form:
        """The inverse of `as_dict`."""
        constants = tuple((name, float(low), float(high)) for name, low, high in given["constants"])
        return cls(**{**given, "constants": constants})


def ranked_by(plan: Plan) -> tuple[str, str, bool] | None:
    """The kind, the column and the direction of a plan that messages can describe; None for all others."""
    if region_of(plan) is not None:
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


def form_of(plan: Plan, given: Mapping[str, pa.Array]) -> Form:
    """The space of a statement; `given` are parameters that are the same for all subscribers, one value each.

    The range that has another parameter is what subscribers differ in. The only range of a statement always
    is, also if its bounds are numbers. Raises ParameterError.
    """
    ranked = ranked_by(plan)
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
            *as_told(dimension, np.array([bound["lo"][0, place], bound["hi"][0, place]])).tolist(),
        )
        for place, dimension in enumerate(fixed)
    ]
    return Form(
        plan.source,
        kind,
        free[0].column if free else None,
        order,
        descending,
        int(bound["k"][0]) if kind == "top-k" else 1,
        tuple(sorted(constants)),
    )


def as_told(dimension: Dimension, bounds: Floats) -> Floats:
    """Bounds of a range as the doubles that messages carry."""
    grid = grid_of(dimension.type.arrow)
    return bounds if grid is None else grid.doubles(bounds)


def matching(forms: list[Form], columns: list[str], lo: Floats, hi: Floats, k: Ints) -> Longs:
    """Which of `forms` each subscription belongs to, -1 for none; its ranges are `lo`, `hi` by column.

    A form's k and constants must be the subscription's, and the column that is left must be the form's.
    Cost: forms × subscriptions.
    """
    found = np.full(len(k), -1, np.int64)
    for number, form in enumerate(forms):
        fixed = {name: (low, high) for name, low, high in form.constants}
        named = [*fixed] if form.column is None else [*fixed, form.column]
        if sorted(named) != sorted(columns):
            continue
        belongs = (found < 0) & (k == form.k)
        for place, name in enumerate(columns):
            if name in fixed:
                belongs &= (lo[place] == fixed[name][0]) & (hi[place] == fixed[name][1])
        found[belongs] = number
    return found


def _is_free(dimension: Dimension, given: Mapping[str, pa.Array]) -> bool:
    operands = [bound.operand for bound in dimension.lows + dimension.highs]
    return any(isinstance(operand, Parameter) and operand.name not in given for operand in operands)


def _name(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
