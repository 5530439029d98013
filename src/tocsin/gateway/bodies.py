"""Rows and parameters as they are sent: JSON, lines of JSON, or an Arrow stream."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from tocsin.errors import RowError
from tocsin.gateway.arrivals import refuse_bombs

#: By content type: the name of the form, which the log remembers.
FORMS = {
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/vnd.apache.arrow.stream": "arrow",
}


def read_rows(form: str, body: bytes) -> list[Any] | pa.Table:
    """The rows of a body. Raises RowError."""
    if form == "arrow":
        return read_arrow(body)
    if form == "ndjson":
        lines = [line for line in body.split(b"\n") if line.strip()]
        return [read_json(line, where=f"line {number}") for number, line in enumerate(lines, 1)]
    given = read_json(body)
    rows = given.get("rows") if isinstance(given, dict) else given
    if not isinstance(rows, list):
        raise RowError('rows are a JSON array of objects, or {"rows": [...]}')
    return rows


def read_json(body: bytes, *, where: str = "the body") -> Any:
    """JSON without NaN, infinities, lone surrogates, or nesting beyond reason. Raises RowError."""
    try:
        value = json.loads(body, parse_constant=_no_constant, parse_float=_finite)
        if b"\\u" in body:
            # Half of a surrogate pair can be written in JSON, and nowhere else.
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise RowError(f"{where} is not UTF-8 text") from None
    except RecursionError:
        raise RowError(f"{where} is nested too deeply") from None
    except ValueError as failure:
        raise RowError(f"{where} is not JSON: {failure}") from None
    return value


def read_arrow(body: bytes) -> pa.Table:
    """An Arrow stream as a table, checked. Raises RowError."""
    refuse_bombs(body)
    try:
        with pa.ipc.open_stream(body) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as failure:
        raise RowError(f"the body is not an Arrow stream: {failure}") from None
    return table


def write_arrow(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def tuples_for_ranges(rows: Iterable[Any]) -> list[Any]:
    """Sparse rows as the engine takes them: a JSON array of two numbers is a range."""
    return [_each(row, _range) if isinstance(row, dict) else row for row in rows]


def _each(row: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: convert(value) for name, value in row.items()}


def _range(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _finite(text: str) -> float:
    """A number of JSON; one that no double is near, such as 1e400, is not read as an infinity."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
