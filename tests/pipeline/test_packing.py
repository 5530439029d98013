"""Records of topics and files as blobs: a bad one is one reject at its place, and its neighbours are none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.samples import job
from tocsin import Engine
from tocsin.pipeline.blobs import PARAMETERS, POSITION, REJECTS, ROWS, Blob, unpack
from tocsin.pipeline.job.running import first_cause
from tocsin.pipeline.shard import Shard
from tocsin.pipeline.sources.file_rows import read_json
from tocsin.pipeline.sources.packing import ParametersPacker, RowsPacker, pack_kafka
from tocsin.types import ColumnType

COLUMNS = {
    name: ColumnType.parse(kind, column=name)
    for name, kind in {"price": "double", "shares": "bigint", "name": "string", "at": "timestamp"}.items()
}
GOOD = b'{"price": 1.5, "shares": 2, "name": "x", "at": "2026-01-01T00:00:00Z"}'
FIRST = 1000

POISON = {
    "nothing": None,
    "empty": b"",
    "blank": b"  ",
    "null": b"null",
    "text": b"text",
    "a list": b"[1]",
    "two objects": b'{"price": 1} {"price": 2}',
    "half an object": b'{"price":',
    "the other half": b"1}",
    "not UTF-8": b'{"name": "\xff"}',
    "half a character": b'{"name": "\\ud800"}',
    "half a character elsewhere": b'{"other": "\\ud800"}',
    "a line break in a string": b'{"name": "a\nb"}',
    "infinite shares": b'{"shares": 1e999}',
    "too many shares": b'{"shares": 9223372036854775808}',
    "half a share": b'{"shares": 0.5}',
    "a price in words": b'{"price": "1"}',
    "a price that is true": b'{"price": true}',
    "a time in words": b'{"at": "yesterday"}',
    "too many digits": b'{"shares": ' + b"1" * 5000 + b"}",
    "too deep": b'{"other":' * 100_000 + b"1" + b"}" * 100_000,
    "too deep and open": b"[" * 100_000,
}
FINE = {
    "an empty row": b"{}",
    "spread over lines": b'{\r\n "price":\n1\n}\n',
    "an infinite price": b'{"price": 1e999}',
    "whole shares": b'{"shares": 2.0}',
    "shares that are no number, which is NULL": b'{"shares": NaN}',
    "a column too many": b'{"price": 1, "other": {"a": [1, null]}}',
    "a price of many digits": b'{"price": 1' + b"0" * 30 + b"}",
}


def blobs_of(packer: RowsPacker | ParametersPacker, values: Iterable[bytes | None]) -> list[Blob]:
    """What becomes of the records of one partition."""
    given = list(values)
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["t"] * len(given),
            "partition": pa.array([3] * len(given), pa.int32()),
            "offset": pa.array(range(FIRST, FIRST + len(given)), pa.int64()),
            "value": pa.array(given, pa.binary()),
        }
    )
    packed = pack_kafka(packer)([batch])
    return [unpack(data) for part in packed for data in part.column("data").to_pylist()]


def places(blobs: list[Blob], kind: str) -> list[int]:
    """Positions of the rows, or of the rejects, and that all are of the partition."""
    assert all(blob.path == "t/3" for blob in blobs)
    column = "position" if kind == REJECTS else POSITION
    found = [blob.table.column(column).to_pylist() for blob in blobs if blob.kind == kind]
    return sorted(place for part in found for place in part)


@pytest.mark.parametrize("name", POISON)
def test_a_poisonous_record_is_one_reject(name: str) -> None:
    blobs = blobs_of(RowsPacker("trades", COLUMNS, {}, (0,)), [GOOD, POISON[name], GOOD])
    assert places(blobs, REJECTS) == [FIRST + 1]
    assert places(blobs, ROWS) == [FIRST, FIRST + 2]
    (rows,) = (blob.table for blob in blobs if blob.kind == ROWS)
    assert rows.column("shares").to_pylist() == [2, 2]


@pytest.mark.parametrize("name", FINE)
def test_an_odd_record_is_a_row(name: str) -> None:
    blobs = blobs_of(RowsPacker("trades", COLUMNS, {}, (0,)), [GOOD, FINE[name], GOOD])
    assert places(blobs, ROWS) == [FIRST, FIRST + 1, FIRST + 2]


@settings(max_examples=50)
@given(st.lists(st.sampled_from([*POISON.values(), *FINE.values(), GOOD]), max_size=8))
def test_records_do_not_mind_their_neighbours(values: list[bytes | None]) -> None:
    blobs = blobs_of(RowsPacker("trades", COLUMNS, {}, (0,)), values)
    bad = [FIRST + place for place, value in enumerate(values) if value in POISON.values()]
    assert places(blobs, REJECTS) == bad
    assert places(blobs, ROWS) == [FIRST + place for place in range(len(values)) if FIRST + place not in bad]


def test_a_poisonous_subscription_is_one_reject() -> None:
    packer = ParametersPacker("0", True, (0, 1))
    good = [json.dumps({"id": f"q{i}", "lo": i, "hi": 9.5}).encode() for i in range(6)]
    blobs = blobs_of(packer, [*good[:3], b"no JSON", b'{"lo": 1}', b'{"id": "q9", "lo": "x"}', *good[3:]])
    assert places(blobs, REJECTS) == [FIRST + 3, FIRST + 4]
    rows = {row["id"]: row for blob in blobs if blob.kind == PARAMETERS for row in blob.table.to_pylist()}
    assert {sid: row["lo"] for sid, row in rows.items()} == {
        **{f"q{i}": float(i) for i in range(6)},
        "q9": None,
    }
    assert places(blobs_of(packer, [b'{"lo": 1}', b"no JSON"]), REJECTS) == [FIRST, FIRST + 1]


def test_a_table_takes_deletes_and_refuses_other_ops() -> None:
    made = job()
    schema = made.schemas()["stocks"].columns
    assert schema is not None
    packer = RowsPacker("stocks", schema, {"symbol": "key"}, (0,), ops=True)
    batches: list[list[dict[str, Any]]] = [
        [{"symbol": "A", "risk": 1.0, "per": 2.0}, {"symbol": "B", "risk": 70.0, "per": 2.0}],
        [{"symbol": "B", "_op": "delete"}, {"symbol": "C", "risk": 80.0, "_op": "upsert"}],
        [{"symbol": "C", "_op": "remove"}, {"symbol": "A", "_op": "delete"}],
    ]
    shard = Shard(made.shard_job(), 0)
    engine = Engine()
    engine.create_table(
        "stocks", key="symbol", columns=dict.fromkeys(["risk", "per"], "double") | {"symbol": "string"}
    )
    for rows in batches:
        file = read_json("\n".join(map(json.dumps, rows)).encode(), schema)
        blobs = [unpack(data) for part in packer.pack("f", file) for data in part.column("data").to_pylist()]
        # One file with `_op` and one without come together.
        plain = RowsPacker("stocks", schema, {"symbol": "key"}, (0,), ops=True)
        more = read_json(b'{"symbol": "D", "risk": 1.0}', schema)
        blobs += [unpack(data) for part in plain.pack("g", more) for data in part.column("data").to_pylist()]
        list(shard.apply(blobs))
        good = [row for row in rows if row.get("_op") != "remove"]
        engine.publish("stocks", [*good, {"symbol": "D", "risk": 1.0}])
        assert [blob.kind for blob in blobs if blob.kind == REJECTS] == [REJECTS] * (len(rows) - len(good))
    everything = "SELECT symbol, risk, per FROM stocks WHERE risk < 1000 ORDER BY risk LIMIT 9"
    sid = engine.subscribe(everything)
    assert shard.engine.result(shard.engine.subscribe(everything)).equals(engine.result(sid))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", ""),
        ("[PATH_NOT_FOUND] no folder\nmore", "[PATH_NOT_FOUND] no folder"),
        (
            "failed\n\tat a.B\nCaused by: a.C: twice\n\tat b\nCaused by: java.io.IOException: full\n\tat c",
            "java.io.IOException: full",
        ),
        (
            "failed\nCaused by: a.B: Traceback (most recent call last):\n  File x\nStateError: lost\n\tat d",
            "StateError: lost",
        ),
        (
            "[RUNNER] Cause: Traceback (most recent call last):\n  File y\nModuleNotFoundError: tocsin\n",
            "ModuleNotFoundError: tocsin",
        ),
    ],
)
def test_the_first_cause_is_found(text: str, cause: str) -> None:
    assert first_cause(text) == cause
