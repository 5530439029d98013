"""Files as rows: Parquet, CSV and JSON lines, read where the job runs, each row with its place in the file.

Spark's own readers would order rows by how they happened to split a file, and end the query at a
file that is damaged. Here a row knows its place, and a file that cannot be read is one reject that
names it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.json
import pyarrow.parquet

from tocsin.types import ColumnType

FORMATS = ("parquet", "csv", "json")

#: Options of a CSV source that are read here, with Spark's names and defaults. Others go to Spark.
CSV_OPTIONS = frozenset({"header", "sep", "delimiter", "quote", "escape", "nullValue"})


class Unreadable(Exception):
    """A file that is not what it says."""


class FileRows(NamedTuple):
    """The rows of one file, in order."""

    columns: dict[str, pa.Array]
    #: how many rows are in the columns
    n_rows: int
    #: place among all rows of the file, and reason, of those that could not be split into columns
    bad: dict[int, str]
    #: whether all values are text, still to be read
    is_text: bool


def read_file(
    path: str, kind: str, options: Mapping[str, Any], columns: Mapping[str, ColumnType]
) -> FileRows:
    """All rows of a file. `columns` are the declared ones. Raises Unreadable."""
    try:
        with _open(path) as file:
            if kind == "parquet":
                wanted = pa.parquet.ParquetFile(file).schema_arrow.names
                file.seek(0)
                return _whole(
                    pa.parquet.read_table(file, columns=[n for n in wanted if _is_wanted(n, columns)])
                )
            data = file.read()
        return read_csv(data, options, list(columns)) if kind == "csv" else read_json(data, columns)
    except (pa.ArrowException, OSError, ValueError, csv.Error) as failure:
        reason = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
        raise Unreadable(f"cannot be read as {kind}: {reason}") from None


def read_csv(data: bytes, options: Mapping[str, Any], names: list[str]) -> FileRows:
    """Comma separated values, all as text. Without a header the columns are `names`."""
    header = str(options.get("header", "false")).lower() == "true"
    delimiter = str(options.get("sep", options.get("delimiter", ",")))
    if header:
        first = next(csv.reader(io.StringIO(data.decode("utf-8-sig")), delimiter=delimiter), [])
        names = [name.strip() for name in first]
    if not data.strip() or not names:
        return FileRows({name: pa.array([], pa.string()) for name in names}, 0, {}, True)
    bad: dict[int, str] = {}

    def note(row: Any) -> str:
        bad[row.number - (2 if header else 1)] = (
            f"{row.actual_columns} values, not {row.expected_columns}: {row.text!r}"
        )
        return "skip"

    table = pyarrow.csv.read_csv(
        io.BytesIO(data),
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False, block_size=len(data) + 1, column_names=names, skip_rows=1 if header else 0
        ),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=delimiter,
            quote_char=options.get("quote", '"'),
            escape_char=options.get("escape", "\\"),
            newlines_in_values=True,
            invalid_row_handler=note,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            null_values=["", str(options.get("nullValue", ""))],
        ),
    )
    return FileRows({name: table.column(name).combine_chunks() for name in names}, table.num_rows, bad, True)


def read_json(data: bytes, columns: Mapping[str, ColumnType]) -> FileRows:
    """One JSON object a line. Read at once where every line is sound, else line by line."""
    if not data.strip():
        return FileRows({}, 0, {}, False)
    # Times are read as text: the engine takes them with and without a zone.
    fields = [(name, pa.string() if kind.is_timestamp else kind.arrow) for name, kind in columns.items()]
    if b"\n\n" not in data:
        try:
            return _whole(
                pyarrow.json.read_json(
                    io.BytesIO(data),
                    read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                    parse_options=pyarrow.json.ParseOptions(explicit_schema=pa.schema(fields)),
                )
            )
        except pa.ArrowException:
            pass
    return _json_lines(data, columns)


def _json_lines(data: bytes, columns: Mapping[str, ColumnType]) -> FileRows:
    rows: list[dict[str, Any]] = []
    bad: dict[int, str] = {}
    for place, line in enumerate(data.splitlines()):
        try:
            row = json.loads(line)
        except ValueError as failure:
            bad[place] = f"not JSON: {failure}"
            continue
        problem = _misfit(row, columns)
        if problem:
            bad[place] = problem
            continue
        rows.append(row)
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    arrays = {name: _array([row.get(name) for row in rows]) for name in names}
    return FileRows(arrays, len(rows), bad, False)


def _misfit(row: Any, columns: Mapping[str, ColumnType]) -> str | None:
    """Why a JSON row cannot be a row of `columns`; None if it can."""
    if not isinstance(row, dict):
        return "not a JSON object"
    for name, value in row.items():
        if value is None or name not in columns:
            continue
        kind = columns[name]
        if kind.is_boolean:
            fits = isinstance(value, bool)
        elif kind.is_string or kind.is_timestamp:
            fits = isinstance(value, str)
        else:
            fits = isinstance(value, int | float) and not isinstance(value, bool)
            fits = fits and not (kind.is_integer and value != int(value))
        if not fits:
            return f"column {name!r}: {json.dumps(value)} is not a {kind.name}"
    return None


def _array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError):
        return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())


def _is_wanted(name: str, columns: Mapping[str, ColumnType]) -> bool:
    return not columns or name in columns or name.startswith("_")


def _open(path: str) -> pa.NativeFile:
    """A file by path or URI, on any file system that Arrow knows."""
    if path.startswith("file:"):
        return pa.OSFile(urlsplit(path).path)
    if "://" not in path:
        return pa.OSFile(path)
    system, inner = pa.fs.FileSystem.from_uri(path)
    return system.open_input_file(inner)


def _whole(table: pa.Table) -> FileRows:
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    return FileRows(columns, table.num_rows, {}, False)
