"""Conditions beyond comparing a subject with values: AND, OR, NOT, IS NULL, LIKE, column with column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tocsin.language.expressions import Column, Expression
from tocsin.language.parsing.statement import Condition, StringLiteral
from tocsin.language.spans import NOWHERE, Span


@dataclass(frozen=True)
class And:
    """All parts hold."""

    parts: tuple[Filter, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return " AND ".join(f"({part})" if isinstance(part, And) else str(part) for part in self.parts)


@dataclass(frozen=True)
class Or:
    """A part holds."""

    parts: tuple[Filter, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"({' OR '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Not:
    """The part does not hold; NULL where that is NULL."""

    part: Filter
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        if isinstance(self.part, IsNull):
            return f"{self.part.subject} IS NOT NULL"
        return f"NOT ({self.part})"


@dataclass(frozen=True)
class IsNull:
    """`subject IS NULL`; NaN is NULL."""

    subject: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.subject} IS NULL"


@dataclass(frozen=True)
class IsTruth:
    """`subject IS TRUE` or `IS FALSE`, which are never NULL."""

    subject: Column
    value: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.subject} IS {'TRUE' if self.value else 'FALSE'}"


@dataclass(frozen=True)
class Identical:
    """`left IS NOT DISTINCT FROM right`, of which `equality` is `left = right`."""

    equality: Condition | Comparison
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        equal = self.equality
        if isinstance(equal, Comparison):
            return f"{equal.left} IS NOT DISTINCT FROM {equal.right}"
        return f"{equal.subject} IS NOT DISTINCT FROM {equal.operands[0]}"


@dataclass(frozen=True)
class Like:
    """`subject LIKE 'pattern' [ESCAPE 'e']`, or ILIKE. There is no escape unless it is named."""

    subject: Expression
    pattern: str
    escape: str | None
    ignores_case: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        operator = "ILIKE" if self.ignores_case else "LIKE"
        escape = "" if self.escape is None else f" ESCAPE {StringLiteral(self.escape)}"
        return f"{self.subject} {operator} {StringLiteral(self.pattern)}{escape}"


@dataclass(frozen=True)
class Comparison:
    """`left operator right`, with columns on both sides."""

    left: Expression
    operator: str
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


Filter: TypeAlias = And | Or | Not | IsNull | IsTruth | Identical | Like | Comparison | Condition
