"""CSV and JSON lines: infers columns and types, and converts records to rows."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from tocsin.cli.failures import BadRow, DataFailure
from tocsin.cli.watching.records import RecordReader, Records
from tocsin.engine.conversion.json_keys import RepeatedKey, loads_unique, may_repeat_keys
from tocsin.types import ColumnType

#: Rows as the engine accepts them.
RowData: TypeAlias = pa.Table | list[dict[str, Any]]

_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?")
_NULLS = ["", "NA", "N/A", "NULL", "null", "NaN", "nan"]
_CSV_VALUE = re.compile(r"In CSV column #(\d+): .*invalid value '(.*)'", re.DOTALL)
_CSV_COUNT = re.compile(r"Expected (\d+) columns?, got (\d+)")


class TextFormat(Protocol):
    """Converts the records of one file to rows."""

    def begin(self, reader: RecordReader) -> bool:
        """Read what precedes the first record; False while it has not arrived."""

    def infer(self, sample: Records) -> dict[str, str]:
        """Infer columns and type names from a sample. Raises BadRow if it shows none."""

    def read(self, records: Records, columns: Mapping[str, ColumnType] | None) -> RowData:
        """Convert records to rows of `columns`, or to sparse rows if that is None. Raises BadRow."""


class Csv:
    """Comma-separated values as in RFC 4180, with a header line unless names are given."""

    def __init__(self, label: str, delimiter: str, names: list[str] | None) -> None:
        self._label = label
        self._delimiter = delimiter
        self.names = names or []

    def begin(self, reader: RecordReader) -> bool:
        if self.names:
            return True
        header = reader.take(1)
        if not header.texts:
            return False
        try:
            text = header.texts[0].decode("utf-8-sig")
        except UnicodeDecodeError:
            raise DataFailure(f"{self._label}:1: not UTF-8 text") from None
        names = [name.strip() for name in next(csv.reader([text], delimiter=self._delimiter))]
        if "" in names or len(set(names)) < len(names):
            raise DataFailure(f"{self._label}:1: a header must name each column once, got {text.strip()!r}")
        self.names = names
        return True

    def infer(self, sample: Records) -> dict[str, str]:
        try:
            table = self._parse(sample, {}, skip=True)
        except pa.ArrowInvalid:
            # Not text, for example: reading it as rows reports where.
            return dict.fromkeys(self.names, "string")
        return {field.name: type_name(field.type) or "string" for field in table.schema}

    def read(self, records: Records, columns: Mapping[str, ColumnType] | None) -> RowData:
        if columns is None:
            return self._read_sparse(records)
        types = {name: _read_type(columns.get(name)) for name in self.names}
        try:
            return self._parse(records, types, skip=False)
        except pa.ArrowInvalid as failure:
            raise BadRow(self._reason(str(failure), columns)) from None

    def _parse(self, records: Records, types: Mapping[str, pa.DataType], *, skip: bool) -> pa.Table:
        data = b"\n".join(records.texts) + b"\n"
        return pyarrow.csv.read_csv(
            io.BytesIO(data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=self.names, use_threads=False, block_size=len(data) + 1
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter,
                newlines_in_values=True,
                invalid_row_handler=_skip_row if skip else None,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict(types),
                null_values=_NULLS,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _reason(self, message: str, columns: Mapping[str, ColumnType]) -> str:
        value = _CSV_VALUE.search(message)
        if value:
            name = self.names[int(value[1])]
            kind = columns[name].name if name in columns else "string"
            return f"column {name!r}: {value[2]!r} is not a {kind}; --columns '{name} …' gives another type"
        count = _CSV_COUNT.search(message)
        if count:
            return f"{count[2]} values where the header has {count[1]}"
        return message.splitlines()[0]

    def _read_sparse(self, records: Records) -> list[dict[str, Any]]:
        rows = []
        for text in records.texts:
            try:
                values = next(csv.reader(io.StringIO(text.decode(), newline=""), delimiter=self._delimiter))
            except (UnicodeDecodeError, csv.Error) as failure:
                raise BadRow(str(failure)) from None
            if len(values) != len(self.names):
                raise BadRow(f"{len(values)} values where the header has {len(self.names)}")
            named = zip(self.names, values, strict=True)
            rows.append({name: _scalar(value) for name, value in named if value not in _NULLS})
        return rows


class JsonLines:
    """One JSON object per line. Nested fields are ignored, unless the rows are sparse."""

    def begin(self, reader: RecordReader) -> bool:
        return True

    def infer(self, sample: Records) -> dict[str, str]:
        seen: dict[str, set[str]] = {}
        for text in sample.texts:
            try:
                row = _load_object(text)
            except BadRow:
                continue
            for name, value in row.items():
                seen.setdefault(name, set()).add(_kind(value))
        if not seen:
            _load_object(sample.texts[0])
        return {name: _joint_kind(kinds) for name, kinds in seen.items() if "nested" not in kinds}

    def read(self, records: Records, columns: Mapping[str, ColumnType] | None) -> RowData:
        if columns is None:
            return [_sparse_row(_load_object(text)) for text in records.texts]
        types = {"_op": pa.string(), **{name: _read_type(kind) for name, kind in columns.items()}}
        data = b"\n".join(records.texts)
        try:
            table = pyarrow.json.read_json(
                io.BytesIO(data),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema(types), unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid as failure:
            raise BadRow(_json_reason(records, columns, str(failure))) from None
        has_ops = "_op" in columns or table.column("_op").null_count < table.num_rows
        return table if has_ops else table.drop_columns(["_op"])


def type_name(kind: pa.DataType) -> str | None:
    """The column type that corresponds to an Arrow type; None if there is none."""
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "int" if kind.bit_width < 32 or kind.equals(pa.int32()) else "bigint"
    if pa.types.is_floating(kind):
        return "double" if kind.bit_width == 64 else "float"
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "timestamp"
    if pa.types.is_dictionary(kind):
        return type_name(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    return None


def _read_type(kind: ColumnType | None) -> pa.DataType:
    # Times are read as text: the engine parses them with and without a zone.
    return pa.string() if kind is None or kind.is_timestamp else kind.arrow


def _skip_row(row: Any) -> Literal["skip"]:
    return "skip"


def _load_object(text: bytes) -> dict[str, Any]:
    try:
        row = json.loads(text)
        if may_repeat_keys(text, row):
            row = loads_unique(text)
    except RepeatedKey as failure:
        raise BadRow(str(failure)) from None
    except ValueError as failure:
        raise BadRow(f"not JSON: {failure}") from None
    if not isinstance(row, dict):
        raise BadRow("not a JSON object")
    return row


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if abs(value) < 1 << 63 else "double"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str):
        return "timestamp" if _TIME.fullmatch(value) else "string"
    return "null" if value is None else "nested"


def _joint_kind(kinds: set[str]) -> str:
    known = kinds - {"null"}
    if len(known) == 1:
        return known.pop()
    return "double" if known == {"bigint", "double"} else "string"


def _scalar(text: str) -> Any:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def _sparse_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _json_reason(records: Records, columns: Mapping[str, ColumnType], message: str) -> str:
    for text in records.texts:
        for name, value in _load_object(text).items():
            if name in columns and not _fits(_kind(value), columns[name]):
                return f"column {name!r}: {json.dumps(value)} is not a {columns[name].name}"
    return message.splitlines()[0]


def _fits(kind: str, wanted: ColumnType) -> bool:
    if wanted.is_boolean:
        return kind in ("boolean", "null")
    if wanted.is_string or wanted.is_timestamp:
        return kind in ("string", "timestamp", "null")
    return kind in ("bigint", "null") or (kind == "double" and not wanted.is_integer)
