"""Blobs: what travels from a source to the shards, packed so that Spark moves few and large rows.

A blob is an Arrow table with its origin in the schema's metadata. Every shard gets the same rows of
a source, so all agree on their numbers.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import pyarrow as pa

#: What a blob holds.
ROWS = "rows"
PARAMETERS = "parameters"
REJECTS = "rejects"
#: Statements of the job itself that begin with this batch.
BEGIN = "begin"

#: The place of a row in its file, partition or topic.
POSITION = "_position"

REJECT_SCHEMA = pa.schema(
    [("source", pa.string()), ("path", pa.string()), ("position", pa.int64()), ("reason", pa.string())]
)

_ORIGIN = b"tocsin"


class Blob(NamedTuple):
    """Rows of one source, and where they come from."""

    kind: str
    #: name of the table or stream; for parameters, the number of the subscription section
    source: str
    #: the file, or topic and partition
    path: str
    table: pa.Table

    @property
    def order(self) -> tuple[str, int]:
        """Blobs of a source are taken in this order."""
        first = self.table.column(POSITION)[0].as_py() if self.table.num_rows else -1
        return self.path, first


def pack(blob: Blob) -> bytes:
    """A blob as bytes."""
    origin = json.dumps([blob.kind, blob.source, blob.path]).encode()
    table = blob.table.replace_schema_metadata({_ORIGIN: origin})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpack(data: bytes) -> Blob:
    """The inverse of `pack`; the columns are views of `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        table = reader.read_all()
    kind, source, path = json.loads((table.schema.metadata or {})[_ORIGIN])
    return Blob(kind, source, path, table)


def beginnings(ids: list[str]) -> Blob:
    """Statements of the job that begin, by id."""
    return Blob(BEGIN, "", "", pa.table({"id": pa.array(ids, pa.string())}))


def rejects(source: str, path: str, bad: dict[int, str]) -> Blob:
    """Bad rows with their reasons, as a blob."""
    positions = sorted(bad)
    table = pa.table(
        [
            pa.array([source] * len(bad), pa.string()),
            pa.array([path] * len(bad), pa.string()),
            pa.array(positions, pa.int64()),
            pa.array([bad[position] for position in positions], pa.string()),
        ],
        schema=REJECT_SCHEMA,
    )
    return Blob(REJECTS, source, path, table)
