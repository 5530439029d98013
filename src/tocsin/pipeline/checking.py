"""Rows checked one by one: the good ones typed as their source declares them, the bad ones with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.intake import OP, arrow_schema, cast_column
from tocsin.errors import RowError
from tocsin.indexes.contract import Longs
from tocsin.pipeline.reading import FileRows
from tocsin.types import ColumnType


class Checked(NamedTuple):
    """What came of the rows of one file."""

    #: the good rows: declared columns in order, then `_op` where it was asked for and given
    rows: pa.Table
    #: int64: the place of each good row in the file
    places: Longs
    #: place and reason of each bad row
    bad: dict[int, str]


def check_rows(
    file: FileRows, columns: Mapping[str, ColumnType], required: Mapping[str, str], *, ops: bool = False
) -> Checked:
    """Read every declared column; `required` maps columns that must not be null to what they are for.

    With `ops`, a column `_op` says whether a row is upserted or deleted.
    """
    places = places_of(file)
    wrong: dict[int, str] = {}
    arrays = []
    for name, kind in columns.items():
        if name in file.columns:
            arrays.append(_typed(file.columns[name], kind, name, file.is_text, wrong))
        else:
            arrays.append(pa.nulls(file.n_rows, kind.arrow))
    table = pa.table(arrays, schema=arrow_schema(columns))
    for name, role in required.items():
        missing = pc.is_null(table.column(name), nan_is_null=True).to_numpy()
        for row in np.flatnonzero(missing).tolist():
            wrong.setdefault(row, f"the {role} {name!r} is null")
    if ops and OP in file.columns:
        table = table.append_column(OP, _checked_ops(file.columns[OP], wrong))
    bad = {**file.bad, **{int(places[row]): reason for row, reason in wrong.items()}}
    if not wrong:
        return Checked(table, places, bad)
    good = np.ones(file.n_rows, np.bool_)
    good[list(wrong)] = False
    return Checked(table.filter(pa.array(good)), places[good], bad)


def places_of(file: FileRows) -> Longs:
    """Where in its file each row of the columns stands: the places that bad rows left free."""
    places = np.arange(file.n_rows + len(file.bad), dtype=np.int64)
    return np.delete(places, list(file.bad)) if file.bad else places


def failing(count: int, refuses: Callable[[int, int], bool]) -> list[int]:
    """The places that `refuses(begin, end)` says yes to, by halving. Cost: failures × log of the count."""
    failures: list[int] = []
    ranges = [(0, count)] if count else []
    while ranges:
        begin, end = ranges.pop()
        if not refuses(begin, end):
            continue
        if end - begin == 1:
            failures.append(begin)
        else:
            middle = (begin + end) // 2
            ranges += [(middle, end), (begin, middle)]
    return failures


def _checked_ops(given: pa.Array, wrong: dict[int, str]) -> pa.Array:
    """The column `_op` as text; rows with another value than the two are noted in `wrong`."""
    ops = given if pa.types.is_string(given.type) else given.cast(pa.string())
    unknown = pc.fill_null(pc.invert(pc.is_in(ops, pa.array(["upsert", "delete"]))), False)
    unknown = pc.and_(unknown, ops.is_valid())
    for row in np.flatnonzero(unknown.to_numpy(zero_copy_only=False)).tolist():
        wrong.setdefault(row, f"{OP} is {ops[row].as_py()!r}; it must be 'upsert' or 'delete'")
    return ops


def _typed(array: pa.Array, kind: ColumnType, name: str, is_text: bool, wrong: dict[int, str]) -> pa.Array:
    """The column in its declared type; null where a value does not fit, which is noted in `wrong`."""

    def convert(part: pa.Array) -> pa.Array:
        if is_text and not kind.is_timestamp:
            return pc.utf8_trim_whitespace(part).cast(kind.arrow) if not kind.is_string else part
        return cast_column(part, kind, column=name, source="")

    def refuses(begin: int, end: int) -> bool:
        try:
            convert(array.slice(begin, end - begin))
        except (RowError, pa.ArrowException):
            return True
        return False

    failures = failing(len(array), refuses)
    if failures:
        keep = np.ones(len(array), np.bool_)
        keep[failures] = False
        for row in failures:
            wrong.setdefault(row, f"column {name!r}: {array[row].as_py()!r} is not a {kind.name}")
        array = pc.if_else(pa.array(keep), array, pa.scalar(None, array.type))
    return convert(array)
