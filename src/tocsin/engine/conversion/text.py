"""Values as text: Python's `str` of every value, and JSON, for whole Arrow columns at once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.texts import AnyStrings
from tocsin.decimals import EXACTLY, printed
from tocsin.engine.conversion.arrow import one_array

#: Up to this many values are formatted one by one: cheaper than an Arrow cast.
SMALL_COLUMN = 32

#: Created once: `json.dumps` creates one for each text.
_json_text = json.JSONEncoder(ensure_ascii=False).encode

_NO_FRACTION = r"\.000000Z$"


def is_text(value: Any) -> bool:
    """Whether a value is text that UTF-8 can encode."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def text_of(column: pa.Array) -> pa.Array:
    """Python's `str` of each value; times as ISO-8601 UTC; -0.0 as 0.0; null stays null.

    Cost: vectorised, but for floats and decimals a Python call for each distinct value.
    """
    kind = column.type
    if pa.types.is_string(kind):
        return column
    if pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "True", "False")
    if pa.types.is_timestamp(kind):
        return _iso(column)
    if pa.types.is_floating(kind):
        return _each_distinct(pc.add(column, pa.scalar(0.0, kind)), str)
    return _each_distinct(column, str)


def key_texts(column: pa.Array) -> AnyStrings:
    """As `text_of`, for a column without nulls; a list if it is short."""
    if len(column) > SMALL_COLUMN or pa.types.is_timestamp(column.type):
        return text_of(column)
    return key_texts_of_list(column.to_pylist())


def key_texts_of_list(values: list[Any]) -> list[str]:
    """As `text_of`, for values without a null or a time."""
    return [str(value + 0.0) if isinstance(value, float) else str(value) for value in values]


def number_keys(column: pa.Array) -> pa.Array:
    """Numbers of any type as canonical texts, equal if the numbers are; null stays null.

    A double with a fraction is the decimal it prints as; a time is its microseconds. Cost: vectorised for
    whole numbers, else a Python call for each distinct value.
    """
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("us"))
        kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
        kind = column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    return _each_distinct(column, _number_key)


def _number_key(value: float | Decimal | None) -> str | None:
    if value is None or value != value:
        return None
    if isinstance(value, float):
        if math.isinf(value):
            return str(value)
        value = printed(value)
    # Without the sign of a zero and trailing zeros.
    return format(value.normalize(EXACTLY), "f") if value else "0"


def value_of(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """The inverse of `text_of`."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_boolean(kind):
        return pc.equal(text, "True")
    if pa.types.is_timestamp(kind):
        return text.cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array(
            [None if t is None else pa.scalar(t).cast(kind).as_py() for t in text.to_pylist()], kind
        )
    return text.cast(kind)


def json_rows(table: pa.Table) -> pa.Array:
    """Each row as a JSON object; NaN and NULL as null, infinities as strings."""
    if table.num_rows == 0:
        return pa.array([], pa.string())
    if table.num_columns == 0:
        return pa.array(["{}"] * table.num_rows, pa.string())
    pieces: list[Any] = []
    for index, name in enumerate(table.column_names):
        pieces.append(("{" if index == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": ")
        pieces.append(_json_of(one_array(table.column(index))))
    return pc.binary_join_element_wise(*pieces, "}", "")


def json_of(value: Any) -> str:
    """One value of a sparse row as JSON."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.longdouble):
        value = float(value)
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if isinstance(value, float) or (isinstance(value, Decimal) and not value.is_finite()):
        return _json_float(float(value) + 0.0)
    if isinstance(value, tuple) and len(value) == 2:
        value = {"low": value[0], "high": value[1]}
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json_of(name)}: {json_of(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (tuple, list, set, frozenset)):
        return "[" + ", ".join(json_of(item) for item in value) + "]"
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return "null"
        unit = "ns" if np.datetime_data(value.dtype)[0] in ("ns", "ps", "fs", "as") else "us"
        moment = pa.array(np.array([value]).astype(f"datetime64[{unit}]"))
        return str(_json_of(moment.cast(pa.timestamp(unit, "UTC")))[0])
    if isinstance(value, datetime):
        return _json_of(pa.array([value], pa.timestamp("us", "UTC")))[0].as_py()  # type: ignore[no-any-return]
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def json_strings(column: pa.Array) -> pa.Array:
    """Each string as a JSON string."""
    return _each_distinct(column, _json_text)


def json_pairs(left: pa.Array, right: pa.Array) -> pa.Array:
    """Each pair of strings as a JSON array."""
    if len(left) > SMALL_COLUMN:
        return pc.binary_join_element_wise("[", json_strings(left), ", ", json_strings(right), "]", "")
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([f"[{_json_text(one)}, {_json_text(other)}]" for one, other in pairs], pa.string())


def _json_of(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_string(kind):
        text = json_strings(column)
    elif pa.types.is_floating(kind):
        text = _each_distinct(pc.add(column, pa.scalar(0.0, kind)), _json_float)
    elif pa.types.is_boolean(kind):
        text = pc.if_else(column, "true", "false")
    elif pa.types.is_timestamp(kind):
        text = pc.binary_join_element_wise('"', _iso(column), '"', "")
    elif pa.types.is_date(kind):
        text = pc.binary_join_element_wise('"', text_of(column), '"', "")
    else:
        text = text_of(column)
    return pc.fill_null(text, "null")


def _json_float(value: float) -> str:
    if math.isnan(value):
        return "null"
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return repr(value)


def _iso(column: pa.Array) -> pa.Array:
    text = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
    return pc.replace_substring_regex(text, pattern=_NO_FRACTION, replacement="Z")


def _each_distinct(column: pa.Array, function: Callable[[Any], str | None]) -> pa.Array:
    encoded = column.dictionary_encode()
    texts = pa.array([function(value) for value in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)
