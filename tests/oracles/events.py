"""Queries over streams without a window: each event is evaluated once, alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tests.oracles.conditions import (
    Condition,
    Operand,
    comparison,
    literal,
    params_of,
    satisfies,
    value_of,
)
from tests.oracles.queries import box_params, inside, where
from tests.oracles.values import Row, Scalar, number, scale_of


def unit_of(type_name: str) -> Fraction:
    """The weight that scales to the integer 1."""
    if type_name in ("double", "float"):
        return Fraction(1, 2**20)
    if type_name.startswith("decimal"):
        return Fraction(1, 10 ** scale_of(type_name))
    return Fraction(1)


@dataclass(frozen=True)
class Threshold:
    """`SELECT SUM(w) AS name FROM s [WHERE box] HAVING SUM(w) >= tau`; COUNT(*) has no column."""

    source: str
    column: str | None
    box: tuple[Condition, ...]
    tau: Operand
    name: str = "weight"
    #: whether tau must be exceeded
    strict: bool = False

    def sql(self) -> str:
        call = f"SUM({self.column})" if self.column else "COUNT(*)"
        conditions = where([condition.sql() for condition in self.box])
        having = f" HAVING {call} {'>' if self.strict else '>='} {literal(self.tau)}"
        return f"SELECT {call} AS {self.name} FROM {self.source}{conditions}{having}"

    def params(self) -> dict[str, Scalar]:
        return box_params(self.box) | params_of([self.tau])

    def goal(self, columns: Mapping[str, str]) -> Fraction:
        """What must be reached: tau, rounded up to a multiple of the weights' unit, or the next one."""
        tau = number(value_of(self.tau))
        assert tau is not None
        unit = unit_of("bigint" if self.column is None else columns[self.column])
        units = Fraction(tau) / unit
        return (math.floor(units) + 1 if self.strict else math.ceil(units)) * unit

    def weight(self, row: Row) -> Fraction:
        """What the row adds: nothing outside the box, for NULL, and for a weight that is not positive."""
        if not inside(self.box, row):
            return Fraction(0)
        if self.column is None:
            return Fraction(1)
        value = number(row.get(self.column))
        if value is None or value <= 0:
            return Fraction(0)
        exact = Fraction(value)
        return Fraction(round(exact * 2**20), 2**20) if isinstance(value, float) else exact


@dataclass(frozen=True)
class Predicate:
    """One predicate of a boolean expression; no weight is a weight of 1."""

    attribute: str
    operator: str
    operands: tuple[Operand, ...]
    weight: Operand | None = None

    def sql(self) -> str:
        plain = comparison(self.attribute, self.operator, self.operands)
        return plain if self.weight is None else f"WEIGHT({plain}, {literal(self.weight)})"


@dataclass(frozen=True)
class Match:
    """`SELECT … FROM s [WHERE p1 AND p2 …]` over a stream without a window."""

    source: str
    select: tuple[str, ...]
    predicates: tuple[Predicate, ...]

    def sql(self) -> str:
        conditions = where([predicate.sql() for predicate in self.predicates])
        return f"SELECT {', '.join(self.select)} FROM {self.source}{conditions}"

    def params(self) -> dict[str, Scalar]:
        operands = [each for predicate in self.predicates for each in predicate.operands]
        weights = [predicate.weight for predicate in self.predicates if predicate.weight is not None]
        return params_of([*operands, *weights])

    def score(self, event: Row, weights: Mapping[str, float]) -> float | None:
        """The match's score, or None where a predicate fails."""
        total = 0.0
        for predicate in self.predicates:
            operands = [value_of(each) for each in predicate.operands]
            if not satisfies(event.get(predicate.attribute), predicate.operator, operands):
                return None
            weight = 1.0 if predicate.weight is None else number(value_of(predicate.weight))
            assert weight is not None
            total += float(weight) * weights.get(predicate.attribute, 1.0)
        return total + 0.0
