"""Rows checked one by one: the good ones typed as their source declares them, the bad ones with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.intake import cast_column
from tocsin.errors import RowError
from tocsin.indexes.contract import Bools, Longs
from tocsin.types import ColumnType

REJECTS = pa.schema(
    [
        ("source", pa.string()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
    ]
)


class Checked(NamedTuple):
    """What came of a batch of rows."""

    #: the good rows, with their declared columns, in order
    rows: pa.Table
    #: int64: the place of each good row among all
    places: Longs
    #: place and reason of each bad row
    bad: dict[int, str]


def check_rows(
    given: Mapping[str, pa.Array], count: int, columns: Mapping[str, ColumnType], required: Mapping[str, str]
) -> Checked:
    """Cast each declared column; `required` maps columns that must not be null to what they are for."""
    bad: dict[int, str] = {}
    arrays = []
    for name, kind in columns.items():
        if name not in given:
            arrays.append(pa.nulls(count, kind.arrow))
            continue
        arrays.append(_cast_or_null(given[name], kind, name, bad))
    table = pa.table(arrays, schema=pa.schema([(name, kind.arrow) for name, kind in columns.items()]))
    for name, role in required.items():
        missing = pc.is_null(table.column(name), nan_is_null=True).to_numpy()
        for place in np.flatnonzero(missing).tolist():
            bad.setdefault(place, f"the {role} {name!r} is null")
    good = np.ones(count, np.bool_)
    good[list(bad)] = False
    places = np.flatnonzero(good)
    return Checked(table if not bad else table.take(pa.array(places)), places, bad)


def _cast_or_null(array: pa.Array, kind: ColumnType, name: str, bad: dict[int, str]) -> pa.Array:
    """The column cast; null where a value does not fit, which is noted in `bad`."""

    def cast(part: pa.Array) -> pa.Array:
        return cast_column(part, kind, column=name, source="")

    failures = failing(array, cast)
    if not failures:
        return cast(array)
    for place in failures:
        bad.setdefault(place, f"column {name!r}: {array[place].as_py()!r} is not a {kind.name}")
    keep: Bools = np.ones(len(array), np.bool_)
    keep[failures] = False
    return cast(pc.if_else(pa.array(keep), array, pa.scalar(None, array.type)))


def failing(array: pa.Array, convert: Callable[[pa.Array], object]) -> list[int]:
    """Places of the values that `convert` refuses, by halving. Cost: failures × log of the length."""
    failures: list[int] = []
    ranges = [(0, len(array))]
    while ranges:
        begin, end = ranges.pop()
        if begin == end:
            continue
        try:
            convert(array.slice(begin, end - begin))
        except RowError:
            if end - begin == 1:
                failures.append(begin)
            else:
                middle = (begin + end) // 2
                ranges += [(middle, end), (begin, middle)]
    return failures
