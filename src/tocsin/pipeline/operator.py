"""The stateful operator: one key per shard, whose state is a snapshot and a log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tocsin.errors import StateError
from tocsin.pipeline.blobs import dump, load
from tocsin.pipeline.shard import CHANGES, Output, ShardJob
from tocsin.pipeline.state.shard_state import ShardMeta, ShardStateManager
from tocsin.pipeline.state.warm_cache import WarmCache

#: Rows that leave the operator: packed tables, distinguished by `kind`.
OUTPUT = "kind string, data binary"
CHANGES_DDL = (
    "source string, subscription string, seq bigint, op string, key string, "
    "score double, rank int, row string"
)
MESSAGES_DDL = (
    "space string, seq bigint, n int, inner_lo array<double>, inner_hi array<double>, "
    "outer_lo array<double>, outer_hi array<double>, key string, x array<double>, y double, born bigint, "
    "gone boolean"
)
SNAPSHOTS_DDL = "space string, key string, x array<double>, y double, born bigint, seq bigint"
REJECTS_DDL = "source string, path string, position bigint, reason string, rows bigint"

#: `kind` of one row per shard and batch: counts and timings as JSON.
FIGURES = "figures"

#: Rows per packed output table.
CHUNK = 1 << 18


class SparkStore:
    """One shard's state in Spark's state store."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._meta = handle.getValueState("meta", "value string")
        self._parts = {
            kind: handle.getMapState(kind, "number int", "data binary") for kind in ("snapshot", "log")
        }

    def get_meta(self) -> ShardMeta | None:
        stored = self._meta.get()
        return ShardMeta(**json.loads(stored[0])) if stored is not None else None

    def put_meta(self, meta: ShardMeta) -> None:
        self._meta.update((json.dumps(asdict(meta)),))

    def get_part(self, kind: str, number: int) -> bytes:
        found = self._parts[kind].getValue((number,))
        if found is None:
            raise StateError(f"the state store has lost part {number} of a shard's {kind}")
        return bytes(found[0])

    def put_part(self, kind: str, number: int, data: bytes) -> None:
        self._parts[kind].updateValue((number,), (data,))

    def drop_part(self, kind: str, number: int) -> None:
        self._parts[kind].removeKey((number,))


class ShardProcessor(StatefulProcessor):
    """Passes a micro-batch to its shard. All decisions are made in `ShardStateManager` and `Shard`."""

    def __init__(self, job: ShardJob, keys: tuple[int, ...], folder: str, name: str) -> None:
        self._job = job
        self._keys = keys
        self._folder = folder
        self._name = name

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        number = self._keys.index(key[0])
        # Spark delivers blobs in any order; the order of the log must not depend on it.
        inputs = sorted(bytes(data) for frame in rows for data in frame["data"])
        warm_cache = WarmCache(Path(self._folder), self._name, self._job, number)
        manager = ShardStateManager(self._job, number, self._store, warm_cache)
        for output in manager.run(inputs):
            for begin in range(0, output.table.num_rows, CHUNK):
                part = output._replace(table=output.table.slice(begin, CHUNK))
                yield pd.DataFrame({"kind": [part.kind], "data": [_packed(part)]})
        yield pd.DataFrame({"kind": [FIGURES], "data": [json.dumps(manager.figures).encode()]})

    def close(self) -> None:
        return


def unpack_outputs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Unpack tables of one kind into rows."""
    for batch in batches:
        for data in batch.column("data"):
            yield from load(data.as_buffer()).to_batches()


def merge_matches(top: Mapping[str, int]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Merge the matches of all shards and keep the best. A partition has all changes of an event."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = list(batches)
        if not received:
            return
        table = pa.Table.from_batches(received)
        is_match = pc.equal(table.column("op"), "match")
        ranked = pc.and_(is_match, pc.is_in(table.column("source"), pa.array(list(top))))
        yield from table.filter(pc.invert(ranked)).to_batches()
        matches = table.filter(ranked).sort_by(
            [
                ("source", "ascending"),
                ("seq", "ascending"),
                ("score", "descending"),
                ("subscription", "ascending"),
            ]
        )
        if matches.num_rows == 0:
            return
        source = matches.column("source").to_numpy()
        event = np.stack([np.unique(source, return_inverse=True)[1], matches.column("seq").to_numpy()])
        starts = np.flatnonzero(np.r_[True, (np.diff(event) != 0).any(axis=0)])
        sizes = np.diff(np.r_[starts, matches.num_rows])
        rank = np.arange(matches.num_rows) - np.repeat(starts, sizes) + 1
        best = rank <= np.array([top[name] for name in source])
        place = matches.schema.get_field_index("rank")
        ranks = matches.set_column(place, "rank", pa.array(rank, pa.int32()))
        yield from ranks.filter(pa.array(best)).to_batches()

    return run


def _packed(output: Output) -> bytes:
    table = output.table
    if output.kind == CHANGES:
        count = table.num_rows
        if "row" not in table.column_names:
            table = table.append_column("row", pa.nulls(count, pa.string()))
        table = table.add_column(
            0, "source", pa.array([output.source]).take(pa.array(np.zeros(count, np.int64)))
        )
    return dump(table)
