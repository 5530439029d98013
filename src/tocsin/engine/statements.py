"""From statements to plans and the names of their indexes, over the declared sources; caches both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tocsin.engine.groups import Source
from tocsin.errors import ParameterError
from tocsin.language import Catalog, Plan, parse, plan, plan_key
from tocsin.planning import choice_of

#: Plans cached by an engine.
CACHED_PLANS = 4096


class PlannedStatement(NamedTuple):
    """A statement's plan, and what decides which index maintains it."""

    plan: Plan
    #: statements of the same key share an index
    key: str
    #: the name of that index, None if the planner chooses
    index_name: str | None


class StatementPlanner:
    """Plans the statements of an engine. `indexes` names indexes by kind of question."""

    def __init__(self, sources: Mapping[str, Source], indexes: Mapping[str, str]) -> None:
        self._sources = sources
        self._indexes = indexes
        self._plans: dict[str, PlannedStatement] = {}

    def plan(self, sql: str) -> PlannedStatement:
        """The plan of a statement. Raises SQLError. Cost: a lookup if it is cached."""
        if not isinstance(sql, str):
            raise ParameterError(f"a statement must be text, got {type(sql).__name__}")
        if sql not in self._plans:
            statement = parse(sql)
            catalog = {name: source.schema for name, source in self._sources.items()}
            logical = plan(statement, catalog)
            if len(self._plans) >= CACHED_PLANS:
                self._plans.clear()
            self._plans[sql] = self._planned(logical, catalog, statement.index)
        return self._plans[sql]

    def clear(self) -> None:
        """Drop the cached plans: a new source may change what names mean."""
        self._plans.clear()

    def _planned(self, made: Plan, catalog: Catalog, hint: str | None) -> PlannedStatement:
        """A plan with the index that its hint or the engine names; that of a hint is not shared."""
        _, name = choice_of(made, catalog, hint, self._indexes)
        return PlannedStatement(
            made, plan_key(made) if hint is None else f"{plan_key(made)} index {hint}", name
        )
