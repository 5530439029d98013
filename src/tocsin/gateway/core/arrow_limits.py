"""Size limits for Arrow streams, checked on message headers alone: a few bytes can expand to gigabytes.

Compressed buffers, and columns without buffers of their own, are refused before they are decoded. Headers are
flatbuffers: a table is an offset, and the offsets of its fields are in a vtable, which it points back to.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from tocsin.errors import RowError

#: Field numbers in Arrow's `Message`, `DictionaryBatch` and `RecordBatch`, and the types of messages.
_HEADER, _DATA, _LENGTH, _COMPRESSION = 2, 1, 0, 3
_DICTIONARY, _RECORDS = "dictionary", "record batch"


def refuse_bombs(body: bytes) -> None:
    """Raise RowError for a stream that would expand far beyond its size. Cost: constant a message."""
    rows = 0
    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            if message.type in (_DICTIONARY, _RECORDS):
                rows += max(0, _rows(bytes(message.metadata), message.type))
    except (pa.ArrowException, struct.error, OSError, ValueError) as failure:
        raise RowError(f"the body is not an Arrow stream: {failure}") from None
    if rows > 8 * len(body):
        raise RowError(
            f"an Arrow stream of {len(body)} bytes cannot have {rows} rows: each takes at least a bit"
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
    """The table that a field points to."""
    at = _field(data, table, field)
    if at is None:
        raise ValueError("a batch without a head")
    place: int = at + struct.unpack_from("<I", data, at)[0]
    return place


def _field(data: bytes, table: int, field: int) -> int | None:
    """The offset of a field; None if it is absent."""
    listing = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, listing)
    if 4 + 2 * field >= size:
        return None
    (offset,) = struct.unpack_from("<H", data, listing + 4 + 2 * field)
    return table + offset if offset else None
