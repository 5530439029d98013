"""Name resolution: the source and the column that each name in a statement means."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from tocsin.errors import SQLError
from tocsin.language.did_you_mean import did_you_mean
from tocsin.language.expressions import Binary, Call, Column, Expression, Negate
from tocsin.language.parsing.statement import SourceReference, Statement
from tocsin.language.schema import Catalog, SourceSchema
from tocsin.language.spans import Span
from tocsin.types import ColumnType


class ResolvedColumn(NamedTuple):
    """A column of a source. `type` is None where the source is sparse."""

    source: SourceSchema
    name: str
    type: ColumnType | None

    @property
    def kind(self) -> str:
        """What it can be compared with: `string`, `boolean`, `timestamp`, `date` or `number`."""
        name = "number" if self.type is None else self.type.name
        return name if name in ("string", "boolean", "timestamp", "date") else "number"


class Scope:
    """The sources of one statement, by the names that qualify columns."""

    def __init__(self, statement: Statement, catalog: Catalog) -> None:
        self.sql = statement.sql
        written = [statement.source] + ([statement.join.source] if statement.join else [])
        self.sources = tuple((source.label, self._source(source, catalog)) for source in written)
        if len(written) == 2 and written[0].label == written[1].label:
            hint = "Give one of them another name with AS."
            self.refuse(written[1].span, f"two sources are called {written[1].label!r}", hint)

    @property
    def source(self) -> SourceSchema:
        """The first source; the only one unless this is a join."""
        return self.sources[0][1]

    def refuse(self, span: Span, message: str, hint: str = "") -> NoReturn:
        """Raise the error that underlines `span`."""
        raise SQLError(message, sql=self.sql, start=span.start, end=span.end, hint=hint)

    def _source(self, source: SourceReference, catalog: Catalog) -> SourceSchema:
        name = source.name.name
        if name not in catalog:
            hint = did_you_mean(name, catalog, "tables and streams")
            self.refuse(source.name.span, f"there is no table or stream {name!r}", hint)
        return catalog[name]

    def resolve(self, column: Column) -> ResolvedColumn:
        """The one column that a name means. Raises SQLError if it is unknown or ambiguous."""
        candidates = self._qualified(column)
        matching = [each for each in candidates if each.columns is None or column.name in each.columns]
        if len(matching) > 1:
            labels = " or ".join(str(Column(column.name, label)) for label, _ in self.sources)
            self.refuse(column.span, f"{column.name!r} is a column of both tables", f"Write {labels}.")
        if not matching:
            names = [name for each in candidates for name in each.columns or ()]
            where = " or ".join(repr(each.name) for each in candidates)
            hint = did_you_mean(column.name, names, "columns")
            self.refuse(column.span, f"{where} has no column {column.name!r}", hint)
        columns = matching[0].columns
        return ResolvedColumn(matching[0], column.name, None if columns is None else columns[column.name])

    def _qualified(self, column: Column) -> list[SourceSchema]:
        if column.source is None:
            return [source for _, source in self.sources]
        for label, source in self.sources:
            if label == column.source:
                return [source]
        hint = did_you_mean(column.source, [label for label, _ in self.sources], "names here")
        self.refuse(column.span, f"{column.source!r} is not a source of this statement", hint)

    def compared(self, column: Column, use: str) -> tuple[ResolvedColumn, ColumnType]:
        """A column with a declared type."""
        resolved = self.resolve(column)
        if resolved.type is None:
            message = f"{resolved.source.name!r} declares no columns, so that there is nothing to {use}"
            self.refuse(column.span, message, "Declare the stream with columns.")
        return resolved, resolved.type

    def numeric(self, column: Column, use: str) -> tuple[ResolvedColumn, ColumnType]:
        """A column that can be compared and computed with: a number or a time."""
        resolved, kind = self.compared(column, use)
        if not kind.is_numeric:
            hint = "Here columns must be numbers or timestamps."
            self.refuse(column.span, f"{column.name!r} is a {kind.name}, and cannot be used to {use}", hint)
        return resolved, kind

    def plain(self, expression: Expression, use: str) -> Expression:
        """`expression` with its columns checked to be numeric, and without their qualifiers."""
        match expression:
            case Column():
                resolved, _ = self.numeric(expression, use)
                return Column(resolved.name, span=expression.span)
            case Negate(operand, span):
                return Negate(self.plain(operand, use), span)
            case Binary(operator, left, right, span):
                return Binary(operator, self.plain(left, use), self.plain(right, use), span)
            case Call(function, arguments, span):
                return Call(function, tuple(self.plain(argument, use) for argument in arguments), span)
            case _:
                return expression
