"""Registers the statements of the command line with their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

import tocsin
from tocsin.cli.failures import UsageFailure
from tocsin.cli.watching.statements import parameter_names

Value = int | float | str


def subscribe_all(
    engine: tocsin.Engine,
    statements: Sequence[str],
    params: Mapping[str, Value],
    params_file: str | None,
    *,
    repeat: bool,
) -> dict[str, str]:
    """Register the statements as q1, q2, … in order; returns these ids with their text.

    One statement may have parameters that `params` lacks: it takes them, and its ids, from the file.
    """
    used = {name for sql in statements for name in parameter_names(sql)}
    for name in params:
        if name not in used:
            raise UsageFailure(f"--param {name}: no statement has :{name}")
    open_ones = [sql for sql in statements if not set(parameter_names(sql)) <= set(params)]
    if params_file is not None and len(open_ones) != 1:
        raise UsageFailure(
            f"--params needs exactly one --sql with parameters that no --param gives, got {len(open_ones)}"
        )
    titles = {}
    for number, sql in enumerate(statements, start=1):
        own_params = {name: params[name] for name in parameter_names(sql) if name in params}
        if params_file is not None and sql is open_ones[0]:
            engine.subscribe_many(sql, _bulk(params_file, own_params), repeat=repeat)
        else:
            titles[engine.subscribe(sql, id=f"q{number}", repeat=repeat, **own_params)] = " ".join(
                sql.split()
            )
    return titles


def parse_param(text: str) -> tuple[str, Value]:
    """Parse `name=value`; the value is a number if it looks like one."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageFailure(f"--param must be name=value, got {text!r}")
    for convert in (int, float):
        try:
            return name, convert(value)
        except ValueError:
            continue
    return name, value


def _bulk(path: str, constants: Mapping[str, Value]) -> pa.Table:
    """The parameters of many subscriptions: a column `id`, and a column per parameter."""
    try:
        match Path(path).suffix.lower():
            case ".csv":
                table = pyarrow.csv.read_csv(path)
            case ".json" | ".jsonl" | ".ndjson":
                table = pyarrow.json.read_json(path)
            case ".parquet" | ".pq":
                table = pyarrow.parquet.read_table(path)
            case _:
                raise UsageFailure(f"--params must be a .csv, .jsonl or .parquet file, got {path!r}")
    except (pa.ArrowException, OSError) as failure:
        raise UsageFailure(f"--params {path}: {' '.join(str(failure).split())}") from None
    if "id" in table.column_names:
        place = table.column_names.index("id")
        table = table.set_column(place, "id", table.column("id").cast(pa.string()))
    for name, value in constants.items():
        table = table.append_column(name, pa.array([value] * table.num_rows))
    return table
