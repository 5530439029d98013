"""Rows given as dicts of the very types declared: read in one piece, without a look at each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.types import ColumnType

#: What Arrow reads as the declared type just as a cast would: it takes more, such as booleans for numbers.
_TAKEN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "int": (int,),
    "bigint": (int,),
    "float": (float,),
    "double": (float, int),
    "timestamp": (datetime,),
}


class _Layout(NamedTuple):
    row: pa.StructType
    #: what a value may be, by column
    taken: Mapping[str, frozenset[type]]


def table_of_dicts(rows: Sequence[Any], columns: Mapping[str, ColumnType]) -> pa.Table | None:
    """The rows as a table of `columns`; None if they have to be looked at column by column."""
    layout = _layout(tuple((name, kind.name) for name, kind in columns.items()))
    nothing: frozenset[type] = frozenset()
    for row in rows:
        if type(row) is not dict:
            return None
        for name, value in row.items():
            if type(value) not in layout.taken.get(name, nothing):
                return None
    try:
        structs = pa.array(rows, layout.row)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])


@cache
def _layout(fields: tuple[tuple[str, str], ...]) -> _Layout:
    kinds = {name: ColumnType.parse(kind, column=name) for name, kind in fields}
    return _Layout(
        pa.struct([(name, kind.arrow) for name, kind in kinds.items()]),
        {name: frozenset((*_TAKEN.get(kind.name, ()), type(None))) for name, kind in kinds.items()},
    )
