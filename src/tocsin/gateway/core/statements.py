"""Confines a tenant's statement to the sources and rows that the tenant may see.

The statement is parsed and resolved as the tenant wrote it, so that an error underlines the tenant's own text
and names no other tenant's source. Then the tenant's row predicate is conjoined to the parsed statement,
never to the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tocsin.engine.sources.catalog import Declaration
from tocsin.errors import DeclarationError, ParameterError, SQLError
from tocsin.gateway.registry import EVERY, Grants
from tocsin.language import (
    Catalog,
    Column,
    Constant,
    Join,
    Match,
    Parameter,
    Plan,
    SourceSchema,
    Statement,
    TopK,
    parameters,
    parse,
    plan,
)
from tocsin.language.parsing.statement import Condition


@dataclass(frozen=True)
class Checked:
    """A statement that the engine can maintain for a tenant."""

    #: as the tenant wrote it
    sql: str
    #: as the engine maintains it
    maintained_sql: str
    #: its plan, without the tenant's predicate
    plan: Plan
    #: whether a condition on the tenant's rows was added
    is_confined: bool
    #: the index that its hint names
    index: str | None = None

    @property
    def kind(self) -> str:
        """The kind of plan in lower case, such as `top-k`."""
        return KINDS[type(self.plan).__name__]

    @property
    def source(self) -> str:
        """The source after FROM."""
        return self.plan.left if isinstance(self.plan, Join) else self.plan.source

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(sorted(parameters(self.plan)))


KINDS = {
    "TopK": "top-k",
    "Aggregate": "aggregate",
    "Distinct": "distinct",
    "Rows": "rows",
    "Join": "join",
    "Threshold": "threshold",
    "Match": "match",
}


def visible(name: str, grants: Grants) -> bool:
    """Whether a tenant may see a source."""
    return name in grants or EVERY in grants


def schema_of(declaration: Declaration) -> SourceSchema:
    """The schema of a declared source. Raises DeclarationError."""
    return declaration.build().schema


def check(sql: str, catalog: Catalog, grants: Grants, scores: Mapping[str, str | None]) -> Checked:
    """Parse a tenant's statement. Raises SQLError with positions in the tenant's text, or ParameterError."""
    visible_sources = {name: schema for name, schema in catalog.items() if visible(name, grants)}
    statement = parse(sql)
    logical = plan(statement, visible_sources)
    confined = statement
    sources = [statement.source, *([statement.join.source] if statement.join else [])]
    for source in sources:
        condition = grants.get(source.name.name, grants.get(EVERY, ""))
        if condition:
            if isinstance(logical, Match) and scores.get(source.name.name) not in (None, "sum"):
                raise ParameterError(
                    f"the scores of {source.name.name!r} cannot be combined with a condition on your rows"
                )
            label = source.label if statement.join else None
            confined = _conjoined(confined, condition, label, is_match=isinstance(logical, Match))
    text = str(confined)
    if confined is not statement:
        try:
            plan(parse(text), visible_sources)
        except SQLError:
            raise ParameterError(
                "this kind of statement cannot be combined with the condition on your rows"
            ) from None
    return Checked(sql, text, logical, confined is not statement, statement.index)


def longest(logical: Plan, params: Mapping[str, Any]) -> float:
    """The largest LIMIT of a plan under its parameters; 0 without one.

    `params` maps each parameter to a value or a column of values. The engine refuses what is not a number.
    """
    if not isinstance(logical, TopK):
        return 0
    if not isinstance(logical.limit, Parameter):
        return logical.limit if isinstance(logical.limit, int) else 0
    limit = params.get(logical.limit.name)
    values = limit.to_pylist() if isinstance(limit, pa.ChunkedArray) else [limit]
    return max((float(each) for each in values if isinstance(each, int | float | Decimal)), default=0)


def sources_of(sql: str) -> list[str]:
    """The tables and streams that a statement reads. Raises SQLError."""
    statement = parse(sql)
    joined = [] if statement.join is None else [statement.join.source]
    return [source.name.name for source in (statement.source, *joined)]


def check_condition(condition: str, schema: SourceSchema | None) -> None:
    """Raise DeclarationError unless a condition on rows can be conjoined to statements over a source.

    Without a schema, because the source is not declared yet, only its syntax is checked.
    """
    try:
        conditions = _conditions(condition)
        if schema is not None:
            name = schema.name.replace('"', '""')
            plan(parse(f'SELECT * FROM "{name}" WHERE {condition}'), {schema.name: schema})
    except SQLError as failure:
        raise DeclarationError(f"the condition {condition!r}: {failure.message}") from None
    for each in conditions:
        if not isinstance(each.subject, Column) or each.subject.source is not None or each.weight is not None:
            raise DeclarationError(f"the condition {condition!r}: compare bare columns with values")
        if any(isinstance(operand, Parameter) for operand in each.operands):
            raise DeclarationError(f"the condition {condition!r} cannot have parameters")


def _conditions(condition: str) -> tuple[Condition, ...]:
    """The terms of a conjunction. Raises SQLError if the text is anything else."""
    sql = f"SELECT * FROM t WHERE {condition}"
    read = parse(sql)
    if read.order is not None or read.limit is not None or read.having is not None:
        raise SQLError("only conditions joined by AND are supported here", sql=sql, start=0, end=len(sql))
    conditions = tuple(each for each in read.where if isinstance(each, Condition))
    if len(conditions) < len(read.where):
        raise SQLError("only comparisons joined by AND are supported here", sql=sql, start=0, end=len(sql))
    return conditions


def _conjoined(statement: Statement, condition: str, label: str | None, *, is_match: bool) -> Statement:
    added = []
    for each in _conditions(condition):
        subject: Any = each.subject
        if label is not None:
            subject = Column(subject.name, label)
        # Conditions of a match carry weights, and the tenant's predicate must not change the score.
        weight = Constant(0) if is_match else None
        added.append(replace(each, subject=subject, weight=weight))
    return replace(statement, where=statement.where + tuple(added))
