"""Blobs carry rows from a source to the shards, packed so that Spark moves few and large rows.

A blob is an Arrow table with its origin in the schema's metadata. Every shard gets the same rows of
a source, so all shards number them alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.pipeline.state.checksums import seal, unseal

#: Kinds of blobs.
ROWS = "rows"
PARAMETERS = "parameters"
REJECTS = "rejects"
#: Statements of the job itself that are registered with this batch.
BEGIN = "begin"

#: The column with a row's position in its file, partition or topic.
POSITION = "_position"

#: `rows` is the number of rows that a reject stands for: null for a file that could not be read.
REJECT_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("path", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("rows", pa.int64()),
    ]
)

#: The position of the reject of a file that could not be read.
WHOLE_FILE = -1

_ORIGIN = b"tocsin"

_ONE_EACH: Mapping[int, int | None] = {}

#: One thread, because Spark already runs one task per core.
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)


class Blob(NamedTuple):
    """Rows of one source with their origin."""

    kind: str
    #: name of the table or stream; for parameters, the number of the subscription section
    source: str
    #: the file, or topic and partition
    path: str
    table: pa.Table

    @property
    def order(self) -> tuple[str, int]:
        """The sort key by which blobs of a source are applied."""
        first = self.table.column(POSITION)[0].as_py() if self.table.num_rows else -1
        return self.path, first


def pack(blob: Blob) -> bytes:
    """Serialise a blob, compressed, because every shard shuffles, logs and caches a copy of it."""
    table, first = blob.table, None
    if POSITION in table.column_names and table.num_rows:
        positions = table.column(POSITION).to_numpy()
        if (np.diff(positions) == 1).all():
            # Consecutive positions, the usual case, are stored as their first one.
            first = int(positions[0])
            table = table.drop_columns([POSITION])
    origin = json.dumps([blob.kind, blob.source, blob.path, first]).encode()
    return dump(table.replace_schema_metadata({_ORIGIN: origin}))


def unpack(data: bytes) -> Blob:
    """The inverse of `pack`. Raises StateError if the bytes are damaged."""
    table = load(data)
    kind, source, path, first = json.loads((table.schema.metadata or {})[_ORIGIN])
    if first is not None:
        table = table.append_column(POSITION, pa.array(np.arange(first, first + table.num_rows)))
    return Blob(kind, source, path, table)


def dump(table: pa.Table) -> bytes:
    """Serialise an Arrow table, compressed and with a checksum."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table)
    return seal(sink.getvalue())


def load(data: Any) -> pa.Table:
    """The inverse of `dump`. Raises StateError if the bytes are damaged."""
    with pa.ipc.open_stream(unseal(data, "a packed table")) as reader:
        return reader.read_all()


def started_statements(ids: list[str]) -> Blob:
    """A blob that makes shards register these statements of the job."""
    return Blob(BEGIN, "", "", pa.table({"id": pa.array(ids, pa.string())}))


def rejects(
    source: str, path: str, bad: Mapping[int, str], rows: Mapping[int, int | None] = _ONE_EACH
) -> Blob:
    """A blob of rejects: reasons by position. `rows` maps positions to numbers of rows other than one."""
    positions = sorted(bad)
    table = pa.table(
        [
            pa.array([source] * len(bad), pa.string()),
            pa.array([path] * len(bad), pa.string()),
            pa.array(positions, pa.int64()),
            pa.array([bad[position] for position in positions], pa.string()),
            pa.array([rows.get(position, 1) for position in positions], pa.int64()),
        ],
        schema=REJECT_SCHEMA,
    )
    return Blob(REJECTS, source, path, table)
