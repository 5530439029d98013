"""The Arrow schema of messages, for every kind of space."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.messages import Messages

_LIST = pa.list_(pa.float64())

SCHEMA = pa.schema(
    [
        ("space", pa.string()),
        ("seq", pa.int64()),
        ("n", pa.int32()),
        ("inner_lo", _LIST),
        ("inner_hi", _LIST),
        ("outer_lo", _LIST),
        ("outer_hi", _LIST),
        ("key", pa.string()),
        ("x", _LIST),
        ("y", pa.float64()),
        ("born", pa.int64()),
        ("gone", pa.bool_()),
    ]
)

SNAPSHOT_SCHEMA = pa.schema(
    [
        ("space", pa.string()),
        ("key", pa.string()),
        ("x", _LIST),
        ("y", pa.float64()),
        ("born", pa.int64()),
        ("seq", pa.int64()),
    ]
)


def messages_table(space: str, seq: int, messages: Messages, keys: pa.Array, dimensions: int) -> pa.Table:
    """The messages of one space and batch; `keys` has one text for each payload. Cost: linear."""
    count, note = len(messages.payload), pa.array(messages.payload)
    bounds = [_lists(column, dimensions) for column in messages[:4]]
    columns = [
        _repeated(space, count),
        pa.array(np.full(count, seq)),
        pa.array(np.arange(count, dtype=np.int32)),
        *bounds,
        keys.take(note),
        _lists(messages.payload_x[messages.payload], dimensions),
        _numbers(messages.payload_y).take(note),
        _borns(messages.payload_born).take(note),
        pa.array(messages.payload_gone).take(note),
    ]
    return pa.table(columns, schema=SCHEMA)


def snapshot_table(
    space: str, seq: int, keys: pa.Array, x: Floats, y: Floats, born: Longs, dimensions: int
) -> pa.Table:
    """The rows that a new subscriber of a space starts with. Cost: linear."""
    columns = [
        _repeated(space, len(x)),
        keys,
        _lists(x, dimensions),
        _numbers(y),
        _borns(born),
        pa.array(np.full(len(x), seq)),
    ]
    return pa.table(columns, schema=SNAPSHOT_SCHEMA)


def _lists(column: Floats, dimensions: int) -> pa.Array:
    """Lists of one number or none; null for NaN."""
    offsets = np.arange(len(column) + 1, dtype=np.int32) * dimensions
    values = _numbers(column) if dimensions else pa.array([], pa.float64())
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _numbers(column: Floats) -> pa.Array:
    return pa.array(column, pa.float64(), mask=np.isnan(column))


def _borns(column: Longs) -> pa.Array:
    """Values have no insertion number."""
    return pa.array(column, pa.int64(), mask=column == ABSENT)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.array([text]).take(pa.array(np.zeros(count, np.int64)))
