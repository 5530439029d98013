"""Reads Parquet, CSV and JSON lines as rows with their position in the file.

Spark's own readers order rows by how a file happens to be split, and fail the query at a damaged file.
Here a row has a position, and a file that cannot be read is one reject that names it.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.csv
import pyarrow.fs
import pyarrow.json
import pyarrow.parquet

from tocsin.engine.conversion.casting import decoded
from tocsin.engine.conversion.intake import RawColumn
from tocsin.types import ColumnType

FORMATS = ("parquet", "csv", "json")

#: Options of a CSV source that apply here, with Spark's names and defaults. Others go to Spark.
CSV_OPTIONS = frozenset({"header", "sep", "delimiter", "quote", "escape", "nullValue"})

#: Braces and brackets in a JSON text up to which Arrow's recursive parser is used.
MAX_NESTING = 1000


class UnreadableFile(Exception):
    """A file that cannot be read in the format it is declared to have."""


class FileRows(NamedTuple):
    """The rows of one file, in order."""

    columns: dict[str, RawColumn]
    #: rows in the columns
    n_rows: int
    #: rows that could not be split into columns: position among all rows of the file, and reason
    bad: dict[int, str]
    #: whether all values are text that is still to be parsed
    is_text: bool
    #: whether a column without any valid value is one reject; records of a topic are rejected one by one
    by_column: bool = True


def read_file(
    path: str, kind: str, options: Mapping[str, Any], columns: Mapping[str, ColumnType]
) -> FileRows:
    """Read all rows of a file. `columns` are the declared ones. Raises UnreadableFile."""
    try:
        with _open(path) as file:
            if kind == "parquet":
                names = pa.parquet.ParquetFile(file).schema_arrow.names
                if len(set(names)) < len(names):
                    raise ValueError(f"a column name appears twice in {names}")
                file.seek(0)
                table = pa.parquet.read_table(file, columns=[n for n in names if _is_wanted(n, columns)])
                return _whole(table)
            data = file.read()
        return read_csv(data, options, list(columns)) if kind == "csv" else read_json(data, columns)
    except (pa.ArrowException, OSError, ValueError, csv.Error) as failure:
        reason = str(failure).splitlines()[0] if str(failure) else type(failure).__name__
        raise UnreadableFile(f"cannot be read as {kind}: {reason}") from None


def read_csv(data: bytes, options: Mapping[str, Any], names: list[str]) -> FileRows:
    """Read comma-separated values, all as text. Without a header the columns are `names`."""
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
    columns: dict[str, RawColumn] = {name: decoded(table.column(name)) for name in names}
    return FileRows(columns, table.num_rows, bad, True)


def read_json(data: bytes, columns: Mapping[str, ColumnType]) -> FileRows:
    """Read one JSON object per line."""
    return read_objects(data.removeprefix(codecs.BOM_UTF8).splitlines(), columns)


def read_objects(texts: Sequence[bytes], columns: Mapping[str, ColumnType]) -> FileRows:
    """Read JSON objects, one per text and without line breaks; any other text is a bad row.

    All are parsed together if every text is valid, else one by one, which takes several times as long.
    """
    if not texts:
        return FileRows({}, 0, {}, False)
    table = _objects_at_once(texts, columns)
    return _objects_one_by_one(texts, columns) if table is None else _whole(table)


def _objects_at_once(texts: Sequence[bytes], columns: Mapping[str, ColumnType]) -> pa.Table | None:
    """One row per text, or None if some text is not exactly one JSON object that fits the columns.

    Arrow treats line breaks as blanks. Texts that begin and end with a brace cannot merge into one object,
    so as many rows as texts means one row each.
    """
    if not all(_is_braced(text) for text in texts):
        return None
    data = b"\n".join(texts)
    # Times are read as text: the engine parses them with and without a zone.
    fields = [(name, pa.string() if kind.is_timestamp else kind.arrow) for name, kind in columns.items()]
    try:
        data.decode()
        table = pyarrow.json.read_json(
            io.BytesIO(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=pa.schema(fields)),
        )
    except (pa.ArrowException, UnicodeDecodeError):
        return None
    return table if table.num_rows == len(texts) else None


def _is_braced(text: bytes) -> bool:
    """Whether this may be one JSON object, not nested so deeply that Arrow's parser exhausts the stack."""
    if text[:1] != b"{" or text[-1:] != b"}":
        return False
    return len(text) < MAX_NESTING or text.count(b"{") + text.count(b"[") < MAX_NESTING


def _objects_one_by_one(texts: Sequence[bytes], columns: Mapping[str, ColumnType]) -> FileRows:
    rows: list[dict[str, Any]] = []
    bad: dict[int, str] = {}
    for place, text in enumerate(texts):
        try:
            row = json.loads(text.decode())
            problem = _unusable(row)
        except UnicodeDecodeError as failure:
            problem = f"not UTF-8: {failure.reason} at byte {failure.start}"
        except ValueError as failure:
            problem = f"not JSON: {failure}"
        except RecursionError:
            problem = "not usable JSON: nested too deeply"
        if problem:
            bad[place] = problem
        else:
            rows.append(row)
    names = list(dict.fromkeys([*columns, *(name for row in rows for name in row)]))
    return FileRows({name: [row.get(name) for row in rows] for name in names}, len(rows), bad, False)


def _unusable(row: Any) -> str | None:
    """The reason why a JSON value cannot be a row; None if it can."""
    if not isinstance(row, dict):
        return "not a JSON object"
    for name, value in row.items():
        if not _is_text(name) or (isinstance(value, str) and not _is_text(value)):
            return f"{json.dumps(name)}: not valid text (a lone surrogate)"
    return None


def _is_text(text: str) -> bool:
    """Whether there are no lone surrogates, which JSON can express as escapes."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _is_wanted(name: str, columns: Mapping[str, ColumnType]) -> bool:
    return not columns or name in columns or name.startswith("_")


def _open(path: str) -> pa.NativeFile:
    """Open a file by path or URI, on any file system that Arrow supports."""
    if path.startswith("file:"):
        return pa.OSFile(urlsplit(path).path)
    if "://" not in path:
        return pa.OSFile(path)
    system, inner = pa.fs.FileSystem.from_uri(path)
    return system.open_input_file(inner)


def _whole(table: pa.Table) -> FileRows:
    """The columns as the engine accepts them: text as `string`, dictionaries decoded."""
    columns: dict[str, RawColumn] = {name: decoded(table.column(name)) for name in table.column_names}
    return FileRows(columns, table.num_rows, {}, False)
