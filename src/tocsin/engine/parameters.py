"""Parameters of subscriptions, as users give them, as Arrow columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.engine.conversion.intake import as_columns
from tocsin.engine.conversion.text import text_of
from tocsin.errors import ParameterError, RowError, shown


class ParameterBatch(NamedTuple):
    """The parameters of several subscriptions."""

    #: their ids, if given
    ids: pa.Array | None
    columns: dict[str, pa.Array]
    n_rows: int


def read_parameters(params: Any) -> ParameterBatch:
    """Read an Arrow table, a pandas frame or a dict of arrays. Raises ParameterError. Cost: linear."""
    columns = named_columns(params, source="params")
    ids = columns.pop("id", None)
    lengths = {len(column) for column in columns.values()} | ({len(ids)} if ids is not None else set())
    if len(lengths) > 1:
        raise ParameterError(f"the parameters' columns have different lengths: {sorted(lengths)}")
    if ids is not None:
        if ids.null_count:
            row = int(np.argmax(ids.is_null().to_numpy(zero_copy_only=False)))
            raise ParameterError(f"row {row}: id is null")
        if pa.types.is_nested(ids.type):
            raise ParameterError(f"id must be text or a number, got {ids.type}")
        ids = text_of(ids)
    return ParameterBatch(ids, columns, lengths.pop() if lengths else 0)


def named_columns(given: Any, *, source: str) -> dict[str, pa.Array]:
    """Any accepted form of rows as Arrow arrays by name. Raises ParameterError."""
    try:
        return as_columns(given, source=source)
    except RowError as failure:
        raise ParameterError(str(failure)) from None


def scalar_columns(params: Mapping[str, Any]) -> dict[str, pa.Array]:
    """Single values as columns of one row. Raises ParameterError."""
    return {name: _scalar_column(name, value) for name, value in params.items()}


def _scalar_column(name: str, value: Any) -> pa.Array:
    if isinstance(value, (Sequence, Mapping, np.ndarray, pa.Array)) and not isinstance(value, str):
        raise ParameterError(f"parameter :{name} must be one value, got {type(value).__name__}")
    try:
        return as_columns({name: [value]}, source="parameters")[name]
    except RowError:
        raise ParameterError(f"parameter :{name} cannot be {shown(value)}") from None
