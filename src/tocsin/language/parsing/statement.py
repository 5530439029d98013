"""A parsed statement: the syntax tree, each node with its span in the text.

`str` prints a statement in canonical form: upper-case keywords, single spaces, the column on the
left of its comparison. Parsing what was printed gives an equal statement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tocsin.language.expressions import Column, Constant, Expression, Parameter, quoted
from tocsin.language.spans import NOWHERE, Span

if TYPE_CHECKING:
    from tocsin.language.parsing.filters import Filter


@dataclass(frozen=True)
class StringLiteral:
    """A string literal."""

    value: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return "'" + self.value.replace("'", "''") + "'"


@dataclass(frozen=True)
class BooleanLiteral:
    """TRUE or FALSE."""

    value: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return "TRUE" if self.value else "FALSE"


@dataclass(frozen=True)
class TimestampLiteral:
    """`TIMESTAMP '…'`."""

    value: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"TIMESTAMP {StringLiteral(self.value)}"


#: What a column can be compared with.
Value: TypeAlias = Constant | Parameter | StringLiteral | BooleanLiteral | TimestampLiteral


@dataclass(frozen=True)
class Identifier:
    """A name; `text` is how it was written."""

    name: str
    text: str = field(default="", compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text or quoted(self.name)


@dataclass(frozen=True)
class Star:
    """`*`, alone in a SELECT list."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return "*"


@dataclass(frozen=True)
class AggregateCall:
    """MIN, MAX, COUNT, SUM or AVG of a column or of arithmetic; COUNT(*) has no argument."""

    function: str
    argument: Expression | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.argument is None else self.argument})"


@dataclass(frozen=True)
class SelectItem:
    """One item of a SELECT list."""

    value: Column | AggregateCall | Star
    alias: Identifier | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return str(self.value) if self.alias is None else f"{self.value} AS {self.alias}"


@dataclass(frozen=True)
class SourceReference:
    """A table or stream after FROM or JOIN."""

    name: Identifier
    alias: Identifier | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    @property
    def label(self) -> str:
        """The name that qualifies columns."""
        return (self.alias or self.name).name

    def __str__(self) -> str:
        return str(self.name) if self.alias is None else f"{self.name} AS {self.alias}"


@dataclass(frozen=True)
class JoinClause:
    """`JOIN source ON left = right`."""

    source: SourceReference
    left: Column
    right: Column
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"JOIN {self.source} ON {self.left} = {self.right}"


@dataclass(frozen=True)
class Distance:
    """`DISTANCE(x, z, a, b)`: distance of the point of two columns from a point. Only in WHERE."""

    columns: tuple[Column, Column]
    center: tuple[Constant | Parameter, Constant | Parameter]
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"DISTANCE({', '.join(map(str, self.columns + self.center))})"


@dataclass(frozen=True)
class Condition:
    """One condition of a conjunction: `subject operator operands`, perhaps inside `WEIGHT(…, weight)`.

    `operator` is one of `<`, `<=`, `=`, `<>`, `>=`, `>`, `BETWEEN`, `IN`, `NOT IN`.
    """

    subject: Expression | Distance
    operator: str
    operands: tuple[Value, ...]
    weight: Value | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        if self.operator == "BETWEEN":
            text = f"{self.subject} BETWEEN {self.operands[0]} AND {self.operands[1]}"
        elif self.operator in ("IN", "NOT IN"):
            text = f"{self.subject} {self.operator} ({', '.join(map(str, self.operands))})"
        else:
            text = f"{self.subject} {self.operator} {self.operands[0]}"
        return text if self.weight is None else f"WEIGHT({text}, {self.weight})"


@dataclass(frozen=True)
class Having:
    """`HAVING call operator operand`."""

    call: AggregateCall
    operator: str
    operand: Value
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"HAVING {self.call} {self.operator} {self.operand}"


@dataclass(frozen=True)
class OrderBy:
    """`ORDER BY expression [DESC]`."""

    expression: Expression
    descending: bool
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"ORDER BY {self.expression}{' DESC' if self.descending else ''}"


@dataclass(frozen=True)
class Statement:
    """A whole SELECT. `sql` is the text it was read from."""

    items: tuple[SelectItem, ...]
    distinct: bool
    source: SourceReference
    join: JoinClause | None
    where: tuple[Filter, ...]
    having: Having | None
    order: OrderBy | None
    limit: Value | None
    #: the index that a hint names
    index: str | None = None
    sql: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        hint = "" if self.index is None else f" /*+ INDEX('{self.index}') */"
        parts = [f"SELECT{hint}{' DISTINCT' if self.distinct else ''}", ", ".join(map(str, self.items))]
        parts.append(f"FROM {self.source}")
        if self.join is not None:
            parts.append(str(self.join))
        if self.where:
            parts.append("WHERE " + " AND ".join(map(str, self.where)))
        if self.having is not None:
            parts.append(str(self.having))
        if self.order is not None:
            parts.append(str(self.order))
        if self.limit is not None:
            parts.append(f"LIMIT {self.limit}")
        return " ".join(parts)
