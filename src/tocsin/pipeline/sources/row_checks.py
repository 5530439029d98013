"""Checks rows against the source's declaration: valid ones pass, others are rejected with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.types import Bools, Longs
from tocsin.engine.conversion.intake import OP, RawColumn, arrow_schema, cast_or_null
from tocsin.pipeline.sources.file_rows import FileRows
from tocsin.types import ColumnType

#: Sizes of the blocks in which rows are retried if not all of them pass.
BLOCK_SIZES = (4096, 64, 1)

_TEXT = ColumnType.parse("string", column=OP)


class CheckedRows(NamedTuple):
    """The result of checking the rows of one file."""

    #: valid rows: all declared columns, and `_op` if the source has it
    rows: pa.Table
    #: their positions in the file
    places: Longs
    #: position and reason of each bad row
    bad: dict[int, str]
    #: rows that are rejected together, by reason; none of them is in `bad`
    whole: dict[str, Longs]


class _RejectedRows:
    """Rejected rows, each with the first reason found."""

    def __init__(self, file: FileRows) -> None:
        self.is_bad: Bools = np.zeros(file.n_rows, np.bool_)
        self.bad: dict[int, str] = {}
        self.whole: dict[str, Longs] = {}
        self._by_column = file.by_column

    def add_row(self, row: int, reason: str) -> None:
        if not self.is_bad[row]:
            self.is_bad[row] = True
            self.bad[row] = reason

    def add_column(self, reasons: Mapping[int, str], n_values: int, whole: str) -> None:
        """Reject rows for values of a column; without any valid value all are one reject, for `whole`."""
        if not (self._by_column and len(reasons) == n_values > 1):
            for row, reason in reasons.items():
                self.add_row(row, reason)
            return
        rows = np.array([row for row in reasons if not self.is_bad[row]], np.int64)
        if len(rows):
            self.is_bad[rows] = True
            self.whole[whole] = rows


def check_rows(
    file: FileRows, columns: Mapping[str, ColumnType], required: Mapping[str, str], *, ops: bool = False
) -> CheckedRows:
    """Convert every declared column; `required` maps columns that must not be null to their role.

    With `ops`, a column `_op` upserts or deletes a row. Cost: linear, however many rows are bad.
    """
    places = places_of(file)
    rejected = _RejectedRows(file)
    arrays = []
    for name, kind in columns.items():
        if name in file.columns:
            arrays.append(_typed(file.columns[name], kind, name, file.is_text, rejected))
        else:
            arrays.append(pa.nulls(file.n_rows, kind.arrow))
    table = pa.table(arrays, schema=arrow_schema(columns))
    for name, role in required.items():
        missing = np.flatnonzero(pc.is_null(table.column(name), nan_is_null=True).to_numpy())
        reasons = dict.fromkeys(missing.tolist(), f"the {role} {name!r} is null")
        whole = "null in every row" if name in file.columns else "missing"
        rejected.add_column(reasons, file.n_rows, f"the {role} {name!r} is {whole}")
    if ops and OP in file.columns:
        table = table.append_column(OP, _checked_ops(file.columns[OP], rejected))
    bad = {**file.bad, **{int(places[row]): reason for row, reason in rejected.bad.items()}}
    together = {reason: places[rows] for reason, rows in rejected.whole.items()}
    if rejected.is_bad.any():
        table, places = table.filter(pa.array(~rejected.is_bad)), places[~rejected.is_bad]
    return CheckedRows(table, places, bad, together)


def places_of(file: FileRows) -> Longs:
    """The position in the file of each row that is in its columns."""
    places: Longs = np.arange(file.n_rows + len(file.bad))
    return np.delete(places, list(file.bad)) if file.bad else places


def find_failing(count: int, refuses: Callable[[int, int], bool]) -> list[int]:
    """The positions for which `refuses(begin, end)` is true: tries all at once, then smaller blocks.

    Cost: no position is tried more than four times, however many fail.
    """
    failures: list[int] = []
    # A stack, the first range on top.
    ranges = [(0, count)] if count else []
    while ranges:
        begin, end = ranges.pop()
        if not refuses(begin, end):
            continue
        if end - begin == 1:
            failures.append(begin)
            continue
        size = next(size for size in BLOCK_SIZES if size < end - begin)
        ranges += [(start, min(start + size, end)) for start in reversed(range(begin, end, size))]
    return failures


def _typed(given: RawColumn, kind: ColumnType, name: str, is_text: bool, rejected: _RejectedRows) -> pa.Array:
    """The column in its declared type; values that do not fit are null, and their rows rejected."""
    array, bad = _parsed(given, kind) if is_text else cast_or_null(given, kind)
    if bad:
        type_name = "text" if is_text else "JSON" if isinstance(given, list) else given.type
        whole = f"column {name!r} ({type_name}) fits in no row: {next(iter(bad.values()))}"
        reasons = {row: f"column {name!r}: {why}" for row, why in bad.items()}
        rejected.add_column(reasons, len(bad) + len(array) - array.null_count, whole)
    return array


def _parsed(texts: pa.Array, kind: ColumnType) -> tuple[pa.Array, dict[int, str]]:
    """Like `cast_or_null`, for a column of text."""
    if kind.is_string:
        return texts, {}
    texts = pc.utf8_trim_whitespace(texts)
    if kind.is_timestamp or kind.is_date:
        return cast_or_null(texts, kind)
    try:
        return texts.cast(kind.arrow), {}
    except pa.ArrowException:
        encoded = texts.dictionary_encode()
    parsed = [_cast_text(text, kind) for text in encoded.dictionary]
    array = pa.array([None if value is None else value.as_py() for value in parsed], kind.arrow)
    codes = encoded.indices.to_pylist()
    bad = {
        row: f"{encoded.dictionary[code].as_py()!r:.200} is not a {kind.name}"
        for row, code in enumerate(codes)
        if code is not None and parsed[code] is None
    }
    return array.take(encoded.indices), bad


def _cast_text(text: pa.StringScalar, kind: ColumnType) -> pa.Scalar[Any] | None:
    try:
        return text.cast(kind.arrow)
    except pa.ArrowException:
        return None


def _checked_ops(given: RawColumn, rejected: _RejectedRows) -> pa.Array:
    """The column `_op` as text; rows with any other than its two values are rejected."""
    ops = _typed(given, _TEXT, OP, False, rejected)
    unknown = pc.and_(ops.is_valid(), pc.invert(pc.is_in(ops, pa.array(["upsert", "delete"]))))
    rows = np.flatnonzero(unknown.to_numpy(zero_copy_only=False)).tolist()
    for row in rows:
        rejected.add_row(row, f"{OP} is {ops[row].as_py()!r:.200}; it must be 'upsert' or 'delete'")
    return ops
