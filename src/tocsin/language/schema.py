"""The schema of a table or a stream, as statements are resolved against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tocsin.types import ColumnType


@dataclass(frozen=True)
class SourceSchema:
    """A declared source. `columns` is None for a sparse stream, whose rows hold any attribute."""

    name: str
    kind: Literal["table", "stream"]
    columns: Mapping[str, ColumnType] | None
    key: str | None
    windowed: bool

    @property
    def is_table(self) -> bool:
        return self.kind == "table"

    @property
    def holds_rows(self) -> bool:
        """Whether rows are retained: in a table, or in a window."""
        return self.is_table or self.windowed

    def describe(self) -> str:
        """Such as `'trades' is a stream without a window`, for error messages."""
        if self.is_table:
            return f"{self.name!r} is a table"
        return f"{self.name!r} is a stream with{'' if self.windowed else 'out'} a window"


Catalog: TypeAlias = Mapping[str, SourceSchema]
