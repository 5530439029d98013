"""Queries over tables and windows as plain data. Each prints its SQL and computes its answer from scratch."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tests.oracles.conditions import (
    Condition,
    Operand,
    Region,
    Score,
    literal,
    params_of,
    satisfies,
    value_of,
)
from tests.oracles.values import Row, Scalar, Value, clean, number, text


@dataclass(frozen=True)
class LiveRow:
    """A row of a table or a window. `born` grows with insertion (tables) or arrival (windows)."""

    identity: Hashable
    key: str
    born: int
    values: Row


@dataclass(frozen=True)
class Entry:
    """One line of an answer. Two entries of one `identity` are the same line before and after."""

    identity: Hashable
    key: str | None
    born: Hashable
    score: float | None
    rank: int | None
    shown: Mapping[str, Value]


class RowSource(Protocol):
    """Where answers come from: live rows in the order of `born`."""

    @property
    def newest_first(self) -> bool: ...

    def live(self) -> list[LiveRow]: ...


class Answering(Protocol):
    """A query over tables or windows: its answer is a function of the live rows."""

    @property
    def sources(self) -> tuple[str, ...]: ...

    def sql(self) -> str: ...

    def params(self) -> dict[str, Scalar]: ...

    def answer(self, sources: Sequence[RowSource]) -> list[Entry]: ...


def where(conditions: Sequence[str]) -> str:
    return " WHERE " + " AND ".join(conditions) if conditions else ""


def box_params(box: Sequence[Condition | Region]) -> dict[str, Scalar]:
    return params_of(operand for condition in box for operand in condition.operands)


def inside(box: Sequence[Condition | Region], row: Row) -> bool:
    return all(condition.holds(row) for condition in box)


def shown(row: Row, select: tuple[str, ...]) -> dict[str, Value]:
    names = (*select, "_name") if "_name" in row else select
    return {column: clean(row.get(column)) for column in names}


@dataclass(frozen=True)
class TopK:
    """`SELECT … [WHERE box] ORDER BY score [DESC] LIMIT k`."""

    source: str
    select: tuple[str, ...]
    box: tuple[Condition | Region, ...]
    score: Score
    descending: bool
    k: Operand

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def sql(self) -> str:
        conditions = where([condition.sql() for condition in self.box])
        order = f" ORDER BY {self.score.sql}{' DESC' if self.descending else ''} LIMIT {literal(self.k)}"
        return f"SELECT {', '.join(self.select)} FROM {self.source}{conditions}{order}"

    def params(self) -> dict[str, Scalar]:
        return box_params(self.box) | params_of(self.score.params) | params_of([self.k])

    def answer(self, sources: Sequence[RowSource]) -> list[Entry]:
        (source,) = sources
        rows = [row for row in source.live() if inside(self.box, row.values)]
        scored = [(score, row) for row in rows if (score := self.score.of(row.values)) is not None]
        # two stable sorts: the second keeps the order of the first among equal scores
        scored.sort(key=lambda pair: pair[1].born, reverse=source.newest_first)
        scored.sort(key=lambda pair: pair[0], reverse=self.descending)
        k = value_of(self.k)
        assert isinstance(k, int)
        return [
            Entry(row.identity, row.key, row.born, score, rank, shown(row.values, self.select))
            for rank, (score, row) in enumerate(scored[:k], start=1)
        ]


@dataclass(frozen=True)
class LiveRows:
    """`SELECT … [WHERE box]` over a table or a windowed stream."""

    source: str
    select: tuple[str, ...]
    box: tuple[Condition, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def sql(self) -> str:
        conditions = where([condition.sql() for condition in self.box])
        return f"SELECT {', '.join(self.select)} FROM {self.source}{conditions}"

    def params(self) -> dict[str, Scalar]:
        return box_params(self.box)

    def answer(self, sources: Sequence[RowSource]) -> list[Entry]:
        (source,) = sources
        return [
            Entry(row.identity, row.key, row.born, None, None, shown(row.values, self.select))
            for row in source.live()
            if inside(self.box, row.values)
        ]


@dataclass(frozen=True)
class ScoreThreshold:
    """`SELECT … WHERE score > t [AND box]` over a windowed stream."""

    source: str
    select: tuple[str, ...]
    box: tuple[Condition, ...]
    score: Score
    operator: str
    bound: Operand

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def sql(self) -> str:
        scored = f"{self.score.sql} {self.operator} {literal(self.bound)}"
        conditions = where([scored, *(condition.sql() for condition in self.box)])
        return f"SELECT {', '.join(self.select)} FROM {self.source}{conditions}"

    def params(self) -> dict[str, Scalar]:
        return box_params(self.box) | params_of(self.score.params) | params_of([self.bound])

    def answer(self, sources: Sequence[RowSource]) -> list[Entry]:
        (source,) = sources
        found: list[Entry] = []
        for row in source.live():
            score = self.score.of(row.values)
            passes = satisfies(score, self.operator, [value_of(self.bound)])
            if passes and inside(self.box, row.values):
                entry = Entry(row.identity, row.key, row.born, score, None, shown(row.values, self.select))
                found.insert(0, entry)
        # newest first so far; a stable sort keeps that among equal scores
        return sorted(found, key=lambda entry: -(entry.score or 0.0))


@dataclass(frozen=True)
class Distinct:
    """`SELECT DISTINCT y FROM t [WHERE box]`."""

    source: str
    column: str
    box: tuple[Condition | Region, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def sql(self) -> str:
        conditions = where([condition.sql() for condition in self.box])
        return f"SELECT DISTINCT {self.column} FROM {self.source}{conditions}"

    def params(self) -> dict[str, Scalar]:
        return box_params(self.box)

    def answer(self, sources: Sequence[RowSource]) -> list[Entry]:
        (source,) = sources
        values = {
            clean(row.values.get(self.column)) for row in source.live() if inside(self.box, row.values)
        } - {None}
        entries = []
        for value in values:
            score = number(value)
            as_score = None if score is None else float(score)
            entries.append(Entry(value, text(value), None, as_score, None, {self.column: value}))
        return sorted(entries, key=lambda entry: (entry.score or 0.0, entry.key))


@dataclass(frozen=True)
class Aggregate:
    """`SELECT MIN(y) AS name FROM t [WHERE box]`; `count` has no column."""

    source: str
    function: str
    column: str | None
    box: tuple[Condition | Region, ...]
    name: str = "answer"

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def sql(self) -> str:
        conditions = where([condition.sql() for condition in self.box])
        call = f"{self.function.upper()}({self.column or '*'})"
        return f"SELECT {call} AS {self.name} FROM {self.source}{conditions}"

    def params(self) -> dict[str, Scalar]:
        return box_params(self.box)

    def answer(self, sources: Sequence[RowSource]) -> list[Entry]:
        """Exactly one entry, named by the function; its key is the row's where one row is the answer."""
        (source,) = sources
        rows = [row for row in source.live() if inside(self.box, row.values)]
        if self.column is None:
            return [self._entry(float(len(rows)), None)]
        pairs = [
            (float(value), row) for row in rows if (value := number(row.values.get(self.column))) is not None
        ]
        if not pairs:
            return [self._entry(None, None)]
        if self.function in ("min", "max"):
            sign = 1 if self.function == "min" else -1
            value, best = min(pairs, key=lambda pair: (sign * pair[0], pair[1].born))
            return [self._entry(value, best.key)]
        total = exact_sum([value for value, _ in pairs])
        if self.function == "avg" and total is not None:
            total /= len(pairs)
        return [self._entry(total, None)]

    def _entry(self, value: float | None, key: str | None) -> Entry:
        return Entry(self.function, key, None, value, None, {self.name: value})


def exact_sum(values: list[float]) -> float | None:
    """The correctly rounded sum; None for NaN, which is what both infinities together make."""
    if {math.inf, -math.inf} <= set(values):
        return None
    return math.fsum(values) + 0.0


@dataclass(frozen=True)
class Join:
    """`SELECT … FROM r JOIN s ON r.a = s.a [WHERE boxes]`; `select` is (source, column) pairs."""

    left: str
    right: str
    left_on: str
    right_on: str
    select: tuple[tuple[str, str], ...]
    left_box: tuple[Condition, ...]
    right_box: tuple[Condition, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.left, self.right)

    def sql(self) -> str:
        items = ", ".join(f"{source}.{column} AS {source}_{column}" for source, column in self.select)
        on = f"{self.left}.{self.left_on} = {self.right}.{self.right_on}"
        conditions = [condition.sql(f"{self.left}.") for condition in self.left_box]
        conditions += [condition.sql(f"{self.right}.") for condition in self.right_box]
        return f"SELECT {items} FROM {self.left} JOIN {self.right} ON {on}{where(conditions)}"

    def params(self) -> dict[str, Scalar]:
        return box_params(self.left_box + self.right_box)

    def answer(self, sources: Sequence[RowSource]) -> list[Entry]:
        lefts = [row for row in sources[0].live() if inside(self.left_box, row.values)]
        rights = [row for row in sources[1].live() if inside(self.right_box, row.values)]
        return [self._entry(left, right) for left in lefts for right in rights if self._meet(left, right)]

    def _meet(self, left: LiveRow, right: LiveRow) -> bool:
        value = clean(left.values.get(self.left_on))
        return value is not None and value == clean(right.values.get(self.right_on))

    def _entry(self, left: LiveRow, right: LiveRow) -> Entry:
        rows = {self.left: left.values, self.right: right.values}
        values = {f"{source}_{column}": clean(rows[source].get(column)) for source, column in self.select}
        identity = (left.identity, right.identity)
        key = json.dumps([left.key, right.key], ensure_ascii=False)
        return Entry(identity, key, (left.born, right.born), None, None, values)


Query: TypeAlias = TopK | LiveRows | ScoreThreshold | Distinct | Aggregate | Join
