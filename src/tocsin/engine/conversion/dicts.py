"""Fast path for rows given as dicts of exactly the declared types: read by Arrow in one piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.conversion.casting import refuse_years, without_nan
from tocsin.engine.conversion.values import ConversionError
from tocsin.types import ColumnType

#: What Arrow reads as the declared type just as a cast would: it accepts more, such as booleans for numbers.
_TAKEN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "int": (int,),
    "bigint": (int,),
    "float": (float, int),
    "double": (float, int),
    "decimal": (Decimal,),
    "timestamp": (datetime,),
    "date": (date,),
}


class _Layout(NamedTuple):
    row: pa.StructType
    #: what a value may be, by column
    taken: Mapping[str, frozenset[type]]


def table_of_dicts(rows: Sequence[Any], columns: Mapping[str, ColumnType]) -> pa.Table | None:
    """The rows as a table of `columns`; None if they must be read column by column."""
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
        for name, kind in columns.items():
            if kind.is_timestamp:
                refuse_years(structs.field(name))
    except (pa.ArrowException, ConversionError, OverflowError, UnicodeError):
        return None
    table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])
    for place, kind in enumerate(table.schema.types):
        if pa.types.is_floating(kind):
            column = table.column(place).chunk(0)
            if pa.types.is_float32(kind) and pc.any(pc.is_inf(column)).as_py():
                # Perhaps of a finite double that is too large.
                return None
            table = table.set_column(place, table.schema.field(place), without_nan(column))
    return table


@cache
def _layout(fields: tuple[tuple[str, str], ...]) -> _Layout:
    kinds = {name: ColumnType.parse(kind, column=name) for name, kind in fields}
    return _Layout(
        pa.struct([(name, kind.arrow) for name, kind in kinds.items()]),
        {
            name: frozenset((*_TAKEN.get(kind.name.partition("(")[0], ()), type(None)))
            for name, kind in kinds.items()
        },
    )
