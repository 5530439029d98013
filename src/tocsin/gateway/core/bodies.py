"""Request bodies: rows and parameters as JSON, newline-delimited JSON, or an Arrow stream."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa

from tocsin.engine.conversion.json_keys import RepeatedKey, loads_unique, may_repeat_keys
from tocsin.errors import RowError
from tocsin.gateway.core.arrow_limits import refuse_bombs

#: By content type: the name of the format, as recorded in the log.
FORMS = {
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/vnd.apache.arrow.stream": "arrow",
}


def read_rows(form: str, body: bytes, *, unique: bool = True) -> list[Any] | pa.Table:
    """The rows of a body; with `unique`, a JSON object that has a key twice is refused. Raises RowError."""
    if form == "arrow":
        return read_arrow(body)
    content = _read_lines(body) if form == "ndjson" else read_json(body, unique=False)
    if unique and may_repeat_keys(body, content):
        content = _read_lines(body, unique=True) if form == "ndjson" else read_json(body)
    rows = content.get("rows") if isinstance(content, dict) else content
    if not isinstance(rows, list):
        raise RowError('rows are a JSON array of objects, or {"rows": [...]}')
    return rows


def _read_lines(body: bytes, *, unique: bool = False) -> list[Any]:
    lines = [line for line in body.split(b"\n") if line.strip()]
    return [read_json(line, where=f"line {number}", unique=unique) for number, line in enumerate(lines, 1)]


def read_json(body: bytes, *, where: str = "the body", unique: bool = True) -> Any:
    """Parse JSON strictly: no NaN, infinities, lone surrogates or excessive nesting. Raises RowError.

    With `unique`, which takes longer where there are many objects, no object may have a key twice.
    """
    try:
        loads = loads_unique if unique else json.loads
        value = loads(body, parse_constant=_no_constant, parse_float=_finite)
        if b"\\u" in body:
            # JSON escapes can hold half a surrogate pair, which UTF-8 cannot encode.
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise RowError(f"{where} is not UTF-8 text") from None
    except RecursionError:
        raise RowError(f"{where} is nested too deeply") from None
    except RepeatedKey as failure:
        raise RowError(f"{where}: {failure}") from None
    except ValueError as failure:
        raise RowError(f"{where} is not JSON: {failure}") from None
    return value


def read_arrow(body: bytes) -> pa.Table:
    """Parse and validate an Arrow stream. Raises RowError."""
    refuse_bombs(body)
    try:
        with pa.ipc.open_stream(body) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as failure:
        raise RowError(f"the body is not an Arrow stream: {failure}") from None
    return table


def _finite(text: str) -> float:
    """Parse a JSON number; one out of range, such as 1e400, is refused rather than read as infinity."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
