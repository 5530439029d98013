"""Files as rows: Parquet, CSV and JSON lines, read where the job runs, each row with its place in the file.

A file that cannot be read at all is one reject that names it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.fs
import pyarrow.json
import pyarrow.parquet

#: Options that the readers understand, by format; the others go to Spark's file source.
READER_OPTIONS = {
    "parquet": frozenset[str](),
    "json": frozenset[str](),
    "csv": frozenset({"header", "sep", "delimiter", "quote", "escape", "nullValue"}),
}


class Unreadable(Exception):
    """A file that is not what it says."""


class FileRows(NamedTuple):
    """The rows of one file, not yet typed."""

    columns: dict[str, pa.Array]
    count: int
    #: place and reason of rows that could not even be split into columns; they are in no column
    bad: dict[int, str]
    #: whether values are text that has still to be read
    is_text: bool


def open_file(path: str) -> pa.NativeFile:
    """A file by path or URI, on any file system that Arrow knows."""
    if urlsplit(path).scheme in ("", "file"):
        return pa.OSFile(urlsplit(path).path if path.startswith("file:") else path)
    system, inner = pa.fs.FileSystem.from_uri(path)
    return system.open_input_file(inner)


def read_file(path: str, kind: str, options: Mapping[str, Any], names: list[str]) -> FileRows:
    """All rows of a file. `names` are the columns of a CSV file without a header. Raises Unreadable."""
    try:
        with open_file(path) as file:
            if kind == "parquet":
                return _whole(pa.parquet.read_table(pa.BufferReader(file.read_buffer())))
            data = file.read()
    except (pa.ArrowException, OSError, ValueError) as failure:
        raise Unreadable(f"not a {kind} file: {_first_line(failure)}") from None
    return read_csv(data, options, names) if kind == "csv" else read_json(data, names)


def read_csv(data: bytes, options: Mapping[str, Any], names: list[str]) -> FileRows:
    """Comma separated values, all as text. Spark's names for options, and Spark's defaults."""
    header = str(options.get("header", "false")).lower() == "true"
    bad: dict[int, str] = {}

    def note(row: Any) -> str:
        place = row.number - (2 if header else 1)
        bad[place] = f"{row.actual_columns} values where {row.expected_columns} are expected: {row.text!r}"
        return "skip"

    null = str(options.get("nullValue", ""))
    escape = options.get("escape", "\\")
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(data),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=max(len(data), 1), column_names=None if header else names
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=str(options.get("sep", options.get("delimiter", ","))),
                quote_char=options.get("quote", '"') or False,
                escape_char=escape or False,
                newlines_in_values=True,
                invalid_row_handler=note,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=_AllText(), strings_can_be_null=True, null_values=[null, ""]
            ),
        )
    except pa.ArrowInvalid as failure:
        if b"".join(data.split()) == b"":
            return FileRows({name: pa.array([], pa.string()) for name in names}, 0, {}, True)
        raise Unreadable(f"not a csv file: {_first_line(failure)}") from None
    text = {name: table.column(name).combine_chunks().cast(pa.string()) for name in table.column_names}
    return FileRows(text, table.num_rows, bad, True)


def read_json(data: bytes, names: list[str]) -> FileRows:
    """One JSON object a line. Fast if all lines are sound and of one type a column; else line by line."""
    if not data.strip():
        return FileRows({name: pa.nulls(0) for name in names}, 0, {}, False)
    try:
        return _whole(
            pyarrow.json.read_json(
                io.BytesIO(data),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            )
        )
    except pa.ArrowInvalid:
        return _json_lines(data, names)


def _json_lines(data: bytes, names: list[str]) -> FileRows:
    rows: list[dict[str, Any]] = []
    bad: dict[int, str] = {}
    for place, line in enumerate(data.splitlines()):
        try:
            row = json.loads(line)
        except ValueError as failure:
            bad[place] = f"not JSON: {failure}"
            continue
        if not isinstance(row, dict):
            bad[place] = "not a JSON object"
            continue
        rows.append(row)
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowException, OverflowError, TypeError):
            # Values of several types: as text, so that each can be judged alone.
            texts = [value if isinstance(value, str | None) else json.dumps(value) for value in values]
            columns[name] = pa.array(texts, pa.string())
    return FileRows(columns, len(rows), bad, True)


def _whole(table: pa.Table) -> FileRows:
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    return FileRows(columns, table.num_rows, {}, False)


class _AllText(dict[str, pa.DataType]):
    """Every column is text."""

    def items(self) -> Any:
        return ()


def _first_line(failure: BaseException) -> str:
    return str(failure).splitlines()[0] if str(failure) else type(failure).__name__


def as_numbers(text: pa.Array) -> pa.Array:
    """Text as doubles, null where it is none."""
    is_number = pc.match_substring_regex(text, r"^\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+|inf|nan)\s*$")
    return pc.if_else(is_number, text, None).cast(pa.float64())
