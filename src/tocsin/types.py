"""Column types: their names, and the Arrow types behind them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from tocsin.errors import DeclarationError

_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)")

_SIMPLE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

#: Aliases.
_ALIASES = {
    "text": "string",
    "varchar": "string",
    "str": "string",
    "bool": "boolean",
    "integer": "int",
    "int32": "int",
    "long": "bigint",
    "int64": "bigint",
    "real": "float",
    "float32": "float",
    "double precision": "double",
    "float64": "double",
    "datetime": "timestamp",
}

ACCEPTED = ", ".join([*_SIMPLE, "decimal(precision, scale)"])


@dataclass(frozen=True)
class ColumnType:
    """One column's type: its name as Spark writes it, and its Arrow type."""

    name: str
    arrow: pa.DataType

    @classmethod
    def parse(cls, text: str, *, column: str) -> ColumnType:
        """Read a type name such as `bigint` or `decimal(12, 2)`."""
        name = text.strip().lower()
        name = _ALIASES.get(name, name)
        if name in _SIMPLE:
            return cls(name, _SIMPLE[name])
        match = _DECIMAL.fullmatch(name)
        if match:
            precision, scale = int(match[1]), int(match[2])
            if 1 <= precision <= 38 and scale <= precision:
                return cls(f"decimal({precision},{scale})", pa.decimal128(precision, scale))
        raise DeclarationError(f"column {column!r}: unknown type {text!r}; accepted are {ACCEPTED}")

    @property
    def is_string(self) -> bool:
        return self.name == "string"

    @property
    def is_boolean(self) -> bool:
        return self.name == "boolean"

    @property
    def is_timestamp(self) -> bool:
        return self.name == "timestamp"

    @property
    def is_date(self) -> bool:
        return self.name == "date"

    @property
    def is_decimal(self) -> bool:
        return self.name.startswith("decimal")

    @property
    def is_integer(self) -> bool:
        return self.name in ("int", "bigint")

    @property
    def is_numeric(self) -> bool:
        """Whether conditions and scores may use the column: numbers, dates as days, times as microseconds."""
        return not (self.is_string or self.is_boolean)
