"""What an Arrow stream would become, told from its heads alone: a few bytes can stand for gigabytes.

Compressed buffers, and columns that take no room of their own, are refused before they are unpacked. The
heads are flatbuffers: a table is a place, with a list of where its fields are, which begins before it.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from tocsin.errors import RowError

#: Fields of Arrow's `Message`, `DictionaryBatch` and `RecordBatch`, and what kind of message has which.
_HEADER, _DATA, _LENGTH, _COMPRESSION = 2, 1, 0, 3
_DICTIONARY, _RECORDS = "dictionary", "record batch"


def refuse_bombs(body: bytes) -> None:
    """Raise RowError for a stream that would take much more room than it does. Cost: constant a message."""
    rows = 0
    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            if message.type in (_DICTIONARY, _RECORDS):
                rows += max(0, _rows(bytes(message.metadata), message.type))
    except (pa.ArrowException, struct.error, OSError, ValueError) as failure:
        raise RowError(f"the body is not an Arrow stream: {failure}") from None
    if rows > 8 * len(body):
        raise RowError(
            f"an Arrow stream of {len(body)} bytes cannot have {rows} rows: each takes a bit at least"
        )


def _rows(metadata: bytes, kind: str) -> int:
    """The rows of a batch. Raises RowError if it is compressed."""
    header = _table(metadata, _root(metadata), _HEADER)
    batch = _table(metadata, header, _DATA) if kind == _DICTIONARY else header
    if _field(metadata, batch, _COMPRESSION) is not None:
        raise RowError("send the Arrow stream without compression")
    at = _field(metadata, batch, _LENGTH)
    length: int = 0 if at is None else struct.unpack_from("<q", metadata, at)[0]
    return length


def _root(data: bytes) -> int:
    place: int = struct.unpack_from("<I", data, 0)[0]
    return place


def _table(data: bytes, table: int, field: int) -> int:
    """The table that a field of a table refers to."""
    at = _field(data, table, field)
    if at is None:
        raise ValueError("a batch without a head")
    place: int = at + struct.unpack_from("<I", data, at)[0]
    return place


def _field(data: bytes, table: int, field: int) -> int | None:
    """Where a field of a table is; None if it is not given."""
    listing = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, listing)
    if 4 + 2 * field >= size:
        return None
    (offset,) = struct.unpack_from("<H", data, listing + 4 + 2 * field)
    return table + offset if offset else None
