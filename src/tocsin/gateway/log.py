"""The write-ahead log: what was accepted, in order, on disk before anybody hears of it.

A record is a length, a checksum, its number, a JSON head and a body of bytes. Records are in segments,
`log-<number of the first record>.wal`; a snapshot makes the segments before it superfluous.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.errors import StateError

#: payload bytes, checksum of all that follows, record number, bytes of the head
_FRAME = struct.Struct("<IIQI")
_CHECKED = struct.Struct("<QI")


class Record(NamedTuple):
    """One accepted mutation."""

    number: int
    head: dict[str, Any]
    body: bytes


class Log:
    """The segments of one folder. Records are appended to the last of them.

    After a failed write or sync the log takes nothing more: what is on disk is then unknown, and only
    reading it again tells.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1
        #: whether there are records that are not known to be on disk
        self.is_dirty = False
        self.is_broken = False
        #: bytes of the records since the last snapshot
        self.size = 0

    def replay(self, after: int) -> Iterator[Record]:
        """The records with a number above `after`. A torn last record is cut off; other damage raises."""
        segments = self._segments()
        self.size = 0
        expected: int | None = None
        for place, path in enumerate(segments):
            data = path.read_bytes()
            whole = 0
            for record, end in _records(data):
                if expected is not None and record.number != expected:
                    raise StateError(f"{path.name}: record {expected} is missing, {record.number} follows")
                expected = record.number + 1
                whole = end
                if record.number > after:
                    yield record
            if whole < len(data):
                if place < len(segments) - 1:
                    raise StateError(f"{path.name} is damaged at byte {whole}, and newer segments follow it")
                _cut(path, whole)
            self.size += whole

    def start(self, number: int) -> None:
        """Append from now on, to a segment whose first record has this number."""
        if self._file >= 0:
            os.close(self._file)
        path = self._folder / f"log-{number:020d}.wal"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        sync_folder(self._folder)

    def resume(self, number: int) -> None:
        """Append to the last segment, or to a first one that begins with this number."""
        segments = self._segments()
        self.start(int(segments[-1].stem[4:]) if segments else number)

    def append(self, record: Record) -> None:
        """Write a record; it is safe after `sync`."""
        self._refuse_if_broken()
        data = encode(record)
        try:
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError:
            self.is_broken = True
            raise
        self.size += len(data)
        self.is_dirty = True

    def sync(self) -> None:
        """Return when all records are on disk."""
        self._refuse_if_broken()
        if not self.is_dirty:
            return
        try:
            os.fdatasync(self._file)
        except OSError:
            self.is_broken = True
            raise
        self.is_dirty = False

    def forget(self, before: int) -> None:
        """Remove the segments that hold no record from `before` on."""
        segments = self._segments()
        starts = [int(path.stem[4:]) for path in segments]
        for path, following in zip(segments, starts[1:], strict=False):
            if following <= before:
                path.unlink()
        self.size = sum(path.stat().st_size for path in self._segments())

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _segments(self) -> list[Path]:
        return sorted(self._folder.glob("log-*.wal"))

    def _refuse_if_broken(self) -> None:
        if self.is_broken:
            raise StateError("the log could not be written; start again to go on from what is on disk")


def encode(record: Record) -> bytes:
    """A record as it is on disk."""
    head = json.dumps(record.head, ensure_ascii=False, separators=(",", ":")).encode()
    checked = _CHECKED.pack(record.number, len(head)) + head + record.body
    length = len(head) + len(record.body)
    return struct.pack("<II", length, zlib.crc32(checked)) + checked


def sync_folder(folder: Path) -> None:
    """Make names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _records(data: bytes) -> Iterator[tuple[Record, int]]:
    """Whole records from the start, each with the place where it ends; stops at the first that is not."""
    view = memoryview(data)
    place = 0
    while place + _FRAME.size <= len(data):
        length, checksum, number, head_length = _FRAME.unpack_from(data, place)
        begin, end = place + _FRAME.size, place + _FRAME.size + length
        if end > len(data) or head_length > length or zlib.crc32(view[place + 8 : end]) != checksum:
            return
        head = json.loads(bytes(view[begin : begin + head_length]))
        yield Record(number, head, bytes(view[begin + head_length : end])), end
        place = end


def _cut(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
