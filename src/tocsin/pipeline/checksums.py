"""Bytes with a checksum at their end, which is checked before anything parses them."""

from __future__ import annotations

import zlib
from typing import Any, BinaryIO

import pyarrow as pa

from tocsin.errors import StateError

SIZE = 4


def sealed(data: Any) -> bytes:
    """The bytes and their checksum. Cost: linear, about a second a gigabyte."""
    return b"".join((data, _checksum(data)))


def opened(data: Any, name: str) -> pa.Buffer:
    """The bytes that `sealed` was given, not copied. Raises StateError if they are not those."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    body = buffer.slice(0, max(0, buffer.size - SIZE))
    if buffer.size < SIZE or _checksum(body) != buffer.slice(body.size).to_pybytes():
        raise StateError(f"{name} is damaged: it does not have the checksum that it was written with")
    return body


class SealedWriter:
    """A file that is sealed while it is written: `seal` ends it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._checksum = 0
        #: asked by Arrow, which closes what it writes to; the file is the caller's to close
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
