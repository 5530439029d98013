"""Bytes that end in a checksum, which is verified before anything parses them."""

from __future__ import annotations

import zlib
from typing import Any, BinaryIO

import pyarrow as pa

from tocsin.errors import StateError

SIZE = 4


def seal(data: Any) -> bytes:
    """Append a checksum. Cost: linear, about a second per gigabyte."""
    return b"".join((data, _checksum(data)))


def unseal(data: Any, name: str) -> pa.Buffer:
    """The bytes that `seal` was given, without copying them. Raises StateError if they are damaged."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    body = buffer.slice(0, max(0, buffer.size - SIZE))
    if buffer.size < SIZE or _checksum(body) != buffer.slice(body.size).to_pybytes():
        raise StateError(f"{name} is damaged: its checksum does not match")
    return body


class SealedWriter:
    """Computes the checksum of a file as it is written; `seal` appends it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._checksum = 0
        #: read by Arrow, which closes its target; closing the file is up to the caller
        self.closed = False

    def write(self, data: Any) -> int:
        self._checksum = zlib.crc32(data, self._checksum)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True

    def seal(self) -> None:
        self._file.write(self._checksum.to_bytes(SIZE, "little"))


def _checksum(data: Any) -> bytes:
    return zlib.crc32(data).to_bytes(SIZE, "little")
