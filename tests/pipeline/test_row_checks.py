"""Columns of a file as declared: what the engine takes in-process is taken from a file, at a linear cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tocsin import Engine, RowError
from tocsin.engine.conversion import intake
from tocsin.engine.conversion.values import convert
from tocsin.pipeline.blobs import PARAMETERS, REJECTS, ROWS, Blob, unpack
from tocsin.pipeline.sources import row_checks
from tocsin.pipeline.sources.packing import ParametersPacker, RowsPacker, pack_files, pack_frame
from tocsin.pipeline.sources.row_checks import find_failing
from tocsin.types import ColumnType

KINDS = {"name": "string", "price": "double", "shares": "bigint", "at": "timestamp"}
COLUMNS = {name: ColumnType.parse(kind, column=name) for name, kind in KINDS.items()}
TIMES = ["2026-01-01T00:00:00", "2026-01-02T00:00:00+01:00", None, "2026-01-03T00:00:00Z"]

#: Columns as other writers have them, all of which are what is declared.
TYPED = {
    "large_string": {"name": pa.array(["a", "b", None, "ü"], pa.large_string())},
    "string_view": {"name": pa.array(["a", "b", None, "ü"], pa.string_view())},
    "dictionary": {"name": pa.array(["a", "b", None, "a"]).dictionary_encode()},
    "dictionary of large_string": {"name": pa.array(["a", "b", "a"], pa.large_string()).dictionary_encode()},
    "dictionary of numbers": {"price": pa.array([1.5, 2.5, 1.5]).dictionary_encode()},
    "times in large_string": {"at": pa.array(TIMES, pa.large_string())},
    "times in a dictionary": {"at": pa.array(TIMES).dictionary_encode()},
    "int32": {"shares": pa.array([1, None, 3], pa.int32()), "price": pa.array([1, 2, 3], pa.int16())},
    "unsigned": {"shares": pa.array([1, 2], pa.uint64()), "price": pa.array([1, 2], pa.uint8())},
    "decimal": {"price": pa.array([1, 2]).cast(pa.decimal128(21, 2)), "shares": pa.array([1.0, 2.0])},
    "float": {"price": pa.array([0.5, float("nan")], pa.float32())},
    "date": {"at": pa.array([0, 1], pa.date32())},
    "nanoseconds": {"at": pa.array([1_500, 2_500], pa.timestamp("ns"))},
    "nulls": {"name": pa.nulls(2), "price": pa.nulls(2), "shares": pa.nulls(2), "at": pa.nulls(2)},
}

#: A column none of whose values fits.
UNFIT: dict[str, tuple[str, Any]] = {
    "numbers for text": ("name", pa.array([1, 2, 3])),
    "bytes for text": ("name", pa.array([b"a", b"b"])),
    "text for numbers": ("price", pa.array(["1", "2"], pa.large_string())),
    "categories for numbers": ("shares", pa.array(["x", "y"]).dictionary_encode()),
    "booleans for numbers": ("price", pa.array([True, False])),
    "lists for numbers": ("price", pa.array([[1.0], [2.0]])),
    "objects for text": ("name", pa.array([{"a": 1}, {"a": 2}])),
    "numbers for times": ("at", pa.array([1, 2])),
    "words for times": ("at", pa.array(["yesterday", "today"])),
}


def packed(packer: RowsPacker | ParametersPacker, path: Path, kind: str = "parquet") -> list[Blob]:
    """What becomes of one file."""
    batch = pa.RecordBatch.from_pydict({"path": [str(path)]})
    parts = pack_files(packer, kind, {"header": True})([batch])
    return [unpack(data) for part in parts for data in part.column("data").to_pylist()]


def rows_packer(required: Mapping[str, str] | None = None) -> RowsPacker:
    return RowsPacker("trades", COLUMNS, required or {}, (0,))


def rejects(blobs: list[Blob]) -> list[dict[str, Any]]:
    return [row for blob in blobs if blob.kind == REJECTS for row in blob.table.to_pylist()]


def n_rows(blobs: list[Blob]) -> int:
    return sum(blob.table.num_rows for blob in blobs if blob.kind == ROWS)


@pytest.mark.parametrize("name", TYPED)
def test_a_file_is_read_as_the_engine_reads_a_table(name: str, tmp_path: Path) -> None:
    table = pa.table(TYPED[name])
    if name != "string_view":
        pq.write_table(table, tmp_path / "a.parquet")
        blobs = packed(rows_packer(), tmp_path / "a.parquet")
    else:
        parts = pack_frame(rows_packer(), lambda: 0)(table.to_batches())
        blobs = [unpack(data) for part in parts for data in part.column("data").to_pylist()]
    assert rejects(blobs) == []
    read = intake.read_batch(table, COLUMNS, source="trades", key=None, extra=None)
    (rows,) = (blob.table.select(list(COLUMNS)) for blob in blobs)
    assert rows.replace_schema_metadata(None).equals(read.rows)


@pytest.mark.parametrize("categories", [False, True])
def test_a_file_of_polars_is_taken_whole(tmp_path: Path, categories: bool) -> None:
    kind = pl.Categorical if categories else pl.String
    names = pl.Series("name", [f"n{i % 50}" for i in range(10_000)], dtype=kind)
    pl.DataFrame({"name": names, "price": np.arange(10_000.0)}).write_parquet(tmp_path / "a.parquet")
    blobs = packed(rows_packer({"name": "key"}), tmp_path / "a.parquet")
    assert rejects(blobs) == []
    assert n_rows(blobs) == 10_000


def test_parameters_of_polars_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    ids = pl.Series("id", [f"q{i}" for i in range(100)], dtype=pl.Categorical)
    pl.DataFrame({"id": ids, "name": ["a"] * 100, "lo": np.arange(100.0)}).write_parquet(path)
    blobs = packed(ParametersPacker("0", True, (0, 1)), path)
    assert {blob.kind for blob in blobs} == {PARAMETERS}
    assert sorted(sid for blob in blobs for sid in blob.table.column("id").to_pylist()) == sorted(ids)


@pytest.mark.parametrize("name", UNFIT)
def test_a_column_that_fits_in_no_row_is_one_reject(name: str, tmp_path: Path) -> None:
    column, array = UNFIT[name]
    pq.write_table(pa.table({column: array}), tmp_path / "a.parquet")
    (reject,) = rejects(packed(rows_packer(), tmp_path / "a.parquet"))
    assert repr(column) in reject["reason"]
    assert f"is not a {KINDS[column]}" in reject["reason"]
    assert reject["rows"] == len(array)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_so_it_is_in_every_format(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    lines = {
        "csv": ["price,shares", *[f"x{i},1" for i in range(9)], ",2"],
        "json": [*[f'{{"price": "x{i}", "shares": 1}}' for i in range(9)], '{"shares": 2}'],
    }
    path.write_text("\n".join(lines[kind]))
    blobs = packed(rows_packer(), path, kind)
    (reject,) = rejects(blobs)
    assert "column 'price'" in reject["reason"]
    assert (reject["position"], reject["rows"]) == (0, 9)
    assert n_rows(blobs) == 1


def test_each_row_is_rejected_once_and_counted_once(tmp_path: Path) -> None:
    """Two columns fit in no row, one of them with nulls; and a single value of a third does not fit."""
    table = pa.table(
        {
            "price": pa.array([None, "a", "b", None, None]),
            "at": pa.array([1, 2, None, 3, None]),
            "shares": pa.array([0.5, 1.0, 2.0, 0.5, 3.0]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    blobs = packed(rows_packer(), tmp_path / "a.parquet")
    rejected = {
        reject["position"]: (reject["reason"].split("'")[1], reject["rows"]) for reject in rejects(blobs)
    }
    assert rejected == {1: ("price", 2), 0: ("shares", 1), 3: ("shares", 1)}
    assert n_rows(blobs) == 1


def test_a_key_that_is_missing_is_one_reject(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for table, words in (
        (pa.table({"price": np.arange(9.0)}), "the key 'name' is missing"),
        (pa.table({"price": np.arange(9.0), "name": pa.nulls(9, pa.string())}), "is null in every row"),
    ):
        pq.write_table(table, path)
        (reject,) = rejects(packed(rows_packer({"name": "key"}), path))
        assert words in reject["reason"]
        assert reject["rows"] == 9


def test_parameters_that_are_none_are_one_reject(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for table, words in (
        (pa.table({"lo": np.arange(9.0)}), "'id' is missing"),
        (pa.table({"id": np.arange(9), "lo": [[1.0]] * 9}), "column 'lo' is list"),
    ):
        pq.write_table(table, path)
        (reject,) = rejects(packed(ParametersPacker("0", True, (0, 1)), path))
        assert words in reject["reason"]
        assert reject["rows"] == 9


def test_a_column_that_comes_twice_is_said(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["price", "price"])
    pq.write_table(twice, tmp_path / "a.parquet")
    (reject,) = rejects(packed(rows_packer(), tmp_path / "a.parquet"))
    assert "appears twice" in reject["reason"]
    assert (reject["position"], reject["rows"]) == (-1, None)


def test_bad_rows_are_converted_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost in conversions, which does not depend on the machine: linear, half of the rows being bad."""
    calls = []

    def counted(value: Any, kind: ColumnType) -> Any:
        calls.append(value)
        return convert(value, kind)

    monkeypatch.setattr("tocsin.engine.conversion.intake.convert", counted)
    count = 20_000
    shares = pa.array(np.where(np.arange(count) % 2, 0.5, 1.0))
    pq.write_table(pa.table({"shares": shares}), tmp_path / "a.parquet")
    blobs = packed(rows_packer(), tmp_path / "a.parquet")
    assert n_rows(blobs) == len(rejects(blobs)) == count // 2
    assert len(calls) <= count + 1


def test_no_place_is_asked_about_more_than_four_times() -> None:
    asked = np.zeros(10_000, np.int64)
    order: list[int] = []

    def refuses(begin: int, end: int) -> bool:
        asked[begin:end] += 1
        if end - begin == 1:
            order.append(begin)
        return True

    assert find_failing(len(asked), refuses) == list(range(len(asked)))
    assert asked.max() <= 1 + len(row_checks.BLOCK_SIZES)
    assert order == sorted(order)


def test_what_a_file_may_hold_the_engine_takes_too() -> None:
    """The other way round: what is rejected here is refused there."""
    engine = Engine()
    engine.create_stream("trades", columns=KINDS)
    for column, array in UNFIT.values():
        with pytest.raises(RowError):
            engine.publish("trades", pa.table({column: array}))
