"""Declarations of tables and streams, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tocsin.engine.conversion.durations import delay_length, window_size
from tocsin.engine.conversion.intake import NAME, OP, WEIGHTS
from tocsin.engine.conversion.text import is_text
from tocsin.engine.groups import Source
from tocsin.engine.sources.streams import Stream
from tocsin.engine.sources.tables import Table
from tocsin.engine.sources.windows import Window
from tocsin.errors import DeclarationError
from tocsin.indexes.matching import SCORES
from tocsin.language import SourceSchema
from tocsin.types import ColumnType

_RESERVED = (OP, WEIGHTS, NAME)


@dataclass(frozen=True)
class Declaration:
    """A source as declared; `build` makes it."""

    kind: str
    name: str
    columns: dict[str, str] | None
    key: str | None = None
    window: str | None = None
    time: str | None = None
    delay: str | None = None
    #: how the weights of predicates combine to a match's score; None is a sum
    score: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For the file that `save` writes."""
        return asdict(self)

    def build(self) -> Source:
        """An empty source. Raises DeclarationError."""
        if not is_text(self.name) or not self.name:
            raise DeclarationError(f"the name of a {self.kind} must be a non-empty text, got {self.name!r}")
        types = self._types()
        if self.key is not None and not isinstance(self.key, str):
            raise DeclarationError(
                f"{self.kind} {self.name!r}: key= must be the name of one column, got {self.key!r}"
            )
        if self.time is not None and not isinstance(self.time, str):
            raise DeclarationError(
                f"{self.kind} {self.name!r}: time= must be a column's name, got {self.time!r}"
            )
        if self.score is not None and (self.kind == "table" or self.window is not None):
            raise DeclarationError(f"{self.kind} {self.name!r}: score= requires a stream without a window")
        if self.key is not None and types is not None and self.key not in types:
            raise DeclarationError(
                f"{self.kind} {self.name!r}: the key {self.key!r} is not among its columns"
            )
        if self.kind == "table":
            if types is None or self.key is None:
                raise DeclarationError(f"table {self.name!r} needs columns and a key")
            return Table(SourceSchema(self.name, "table", types, self.key, windowed=False))
        if self.window is None:
            if self.time is not None or self.delay is not None:
                raise DeclarationError(f"stream {self.name!r}: time and delay require a window")
            return Stream(SourceSchema(self.name, "stream", types, self.key, windowed=False), self._score())
        return self._window(types)

    def _score(self) -> str:
        if self.score is None:
            return "sum"
        if not isinstance(self.score, str) or self.score not in SCORES:
            raise DeclarationError(
                f"stream {self.name!r}: score= must be one of {', '.join(SCORES)}, got {self.score!r}"
            )
        return self.score

    def _window(self, types: dict[str, ColumnType] | None) -> Window:
        assert self.window is not None
        if types is None:
            raise DeclarationError(f"stream {self.name!r}: a window needs declared columns")
        unit, size = window_size(self.window, source=self.name)
        if unit == "time" and self.time is None:
            raise DeclarationError(
                f"stream {self.name!r}: a window of {self.window} needs time=, the column that orders it"
            )
        if unit == "rows" and (self.time is not None or self.delay is not None):
            raise DeclarationError(
                f"stream {self.name!r}: time and delay require a window of time, not of rows"
            )
        if self.time is not None and (self.time not in types or not types[self.time].is_timestamp):
            raise DeclarationError(
                f"stream {self.name!r}: time= must name a timestamp column, got {self.time!r}"
            )
        return Window(
            SourceSchema(self.name, "stream", types, self.key, windowed=True),
            rows=size if unit == "rows" else None,
            length=0 if unit == "rows" else size,
            time=self.time,
            delay=0 if self.delay is None else delay_length(self.delay, source=self.name),
        )

    def _types(self) -> dict[str, ColumnType] | None:
        if self.columns is None:
            return None
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise DeclarationError(
                f"{self.kind} {self.name!r}: columns= must be a dict of name to type, got {self.columns!r}"
            )
        types = {}
        for name, text in self.columns.items():
            if not is_text(name) or not name:
                raise DeclarationError(f"{self.kind} {self.name!r}: {name!r} is not a column name")
            if name in _RESERVED:
                raise DeclarationError(f"{self.kind} {self.name!r}: the column name {name!r} is reserved")
            if not isinstance(text, str):
                raise DeclarationError(
                    f"{self.kind} {self.name!r}: the type of {name!r} is a name such as 'double'"
                )
            types[name] = ColumnType.parse(text, column=name)
        return types
