"""Logical plans: statements with their columns resolved.

A plan still holds its literals and `:name` parameters. `plan_key` is the plan without them: statements of one
key share an index, so that ten thousand statements that differ only in their numbers cost one index, as does
a template with ten thousand parameter rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tocsin.language.expressions import Expression, Parameter
from tocsin.types import ColumnType

#: A value in a statement: a literal or a parameter. Times are UTC microseconds, as int.
Operand: TypeAlias = Parameter | float | int | str | bool

#: The largest k of a top-k.
LARGEST_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Bound:
    """One side of a range; `strict` for `<` and `>`."""

    operand: Operand
    strict: bool


@dataclass(frozen=True)
class Predicate:
    """One condition of a boolean expression.

    `operator` is one of `<`, `<=`, `=`, `<>`, `>=`, `>`, `BETWEEN` (two operands), `IN`, `NOT IN`
    (one or more).
    """

    attribute: str
    #: None where the stream is sparse: a literal's own type decides
    type: ColumnType | None
    operator: str
    operands: tuple[Operand, ...]
    weight: Operand
    #: what the attribute is, if it is computed from columns: arithmetic, or a filter that holds or does not
    computed: Expression | RowFilter | None = None

    def __str__(self) -> str:
        shown = [str(each) if isinstance(each, Parameter) else repr(each) for each in self.operands]
        if self.operator == "BETWEEN":
            return f"{self.attribute} BETWEEN {' AND '.join(shown)}"
        values = f"({', '.join(shown)})" if self.operator in ("IN", "NOT IN") else shown[0]
        return f"{self.attribute} {self.operator} {values}"


@dataclass(frozen=True)
class AllOf:
    """Every part holds for the row."""

    parts: tuple[RowFilter, ...]

    def __str__(self) -> str:
        return f"({' AND '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class AnyOf:
    """Some part holds for the row."""

    parts: tuple[RowFilter, ...]

    def __str__(self) -> str:
        return f"({' OR '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Negated:
    """The part does not hold for the row."""

    part: RowFilter

    def __str__(self) -> str:
        return f"NOT {self.part}"


@dataclass(frozen=True)
class Missing:
    """An expression is NULL."""

    expression: Expression

    def __str__(self) -> str:
        return f"{self.expression} IS NULL"


@dataclass(frozen=True)
class Pattern:
    """A text column matches a regular expression as a whole; with `lower`, in lower case."""

    column: str
    expression: str
    lower: bool

    def __str__(self) -> str:
        return f"{f'LOWER({self.column})' if self.lower else self.column} ~ '{self.expression}'"


@dataclass(frozen=True)
class Compared:
    """`left operator right`: two columns, compared exactly, or arithmetic, in doubles."""

    left: Expression
    operator: str
    right: Expression

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


#: A condition without parameters, so that all subscriptions to a template share its outcome.
RowFilter: TypeAlias = "AllOf | AnyOf | Negated | Missing | Pattern | Compared | Predicate"


@dataclass(frozen=True)
class Dimension:
    """All the range conditions on one column: the range is from the largest low to the smallest high.

    Of a text or boolean column there are equalities only, each a low and a high.
    """

    source: str
    #: of arithmetic, its text
    column: str
    type: ColumnType
    lows: tuple[Bound, ...]
    highs: tuple[Bound, ...]
    #: what is computed from columns and bounded; None for the column itself
    expression: Expression | None = None
    #: rows that fail it are outside, whatever their value
    filter: RowFilter | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it bounds a number of a row as stored."""
        return self.type.is_numeric and self.expression is None and self.filter is None


@dataclass(frozen=True)
class Region:
    """A disk, `DISTANCE(x, z, a, b) <= c`, or a half-plane, `a*x + b*z <= c`, over two columns of a table."""

    #: `disk` or `half-plane`
    kind: str
    source: str
    columns: tuple[str, str]
    #: a and b, and their signs, +1 or -1
    operands: tuple[Operand, Operand]
    signs: tuple[int, int]
    #: c; a lower bound of `a*x + b*z` if `is_low`, else an upper bound
    bound: Bound
    is_low: bool


@dataclass(frozen=True)
class Selected:
    """One item of a SELECT list: a column of a source and its output name."""

    source: str
    column: str
    name: str


@dataclass(frozen=True)
class Score:
    """A monotone expression. `directions` says how it depends on each of `columns`.

    A direction is +1 (increasing), -1 (decreasing), or an expression over parameters alone whose
    sign is the direction.
    """

    expression: Expression
    #: the distinct columns of the expression, in order of first appearance
    columns: tuple[str, ...]
    directions: tuple[int | Expression, ...]


@dataclass(frozen=True)
class TopK:
    """`SELECT … [WHERE box] ORDER BY score [DESC] LIMIT k` over a table or a windowed stream.

    With a region the source is a table, and the score a column.
    """

    source: str
    select: tuple[Selected, ...]
    box: tuple[Dimension, ...]
    score: Score
    descending: bool
    limit: Operand
    region: Region | None = None


@dataclass(frozen=True)
class Aggregate:
    """`SELECT MIN(y) FROM t [WHERE box]`; `function` is min, max, count, sum or avg.

    COUNT(*) has no column; arithmetic has an expression instead.
    """

    source: str
    function: str
    column: str | None
    name: str
    box: tuple[Dimension, ...]
    region: Region | None = None
    expression: Expression | None = None


@dataclass(frozen=True)
class Distinct:
    """`SELECT DISTINCT y FROM t [WHERE box]`."""

    source: str
    selected: Selected
    box: tuple[Dimension, ...]
    region: Region | None = None


@dataclass(frozen=True)
class Rows:
    """`SELECT … [WHERE box] [AND expression > t]` over a table or a windowed stream: the live rows."""

    source: str
    select: tuple[Selected, ...]
    box: tuple[Dimension, ...]
    #: the scored condition, if there is one, and its bounds
    score: Score | None
    lows: tuple[Bound, ...]
    highs: tuple[Bound, ...]


@dataclass(frozen=True)
class Join:
    """`SELECT … FROM r JOIN s ON r.a = s.a [WHERE box over both]`."""

    left: str
    right: str
    left_on: str
    right_on: str
    select: tuple[Selected, ...]
    left_box: tuple[Dimension, ...]
    right_box: tuple[Dimension, ...]


@dataclass(frozen=True)
class Threshold:
    """`SELECT SUM(w) FROM s [WHERE box] HAVING SUM(w) >= tau`; COUNT(*) has no column."""

    source: str
    column: str | None
    type: ColumnType | None
    name: str
    box: tuple[Dimension, ...]
    tau: Parameter | float | int
    #: what is summed, if it is arithmetic
    expression: Expression | None = None
    #: whether the sum must exceed tau, not only reach it
    strict: bool = False


@dataclass(frozen=True)
class Match:
    """`SELECT … FROM s [WHERE p1 AND p2 AND …]` over a stream without a window.

    An empty `select` is `*` of a sparse stream.
    """

    source: str
    select: tuple[Selected, ...]
    predicates: tuple[Predicate, ...]


Plan: TypeAlias = TopK | Aggregate | Distinct | Rows | Join | Threshold | Match
