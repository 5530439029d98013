"""The write-ahead log: accepted records in order, on disk before they are acknowledged.

A record is a length, a checksum, its number, a JSON head and a body of bytes. Records are stored in segments,
`log-<number of the first record>.wal`; a snapshot makes the segments before it obsolete.

A crash can leave the records since the last sync in any state. None of those was acknowledged, so they are
cut off. Each record also stores the last record known to be durable when it was written. So an unreadable
record that a later one knew to be durable is not a torn end but damage, and is refused.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.errors import StateError
from tocsin.gateway.core.storage import files

logger = logging.getLogger(__name__)

#: payload bytes, checksum of all that follows, record number, last durable record, bytes of the head
_FRAME = struct.Struct("<IIQQI")
_CHECKED = struct.Struct("<QQI")

#: Start of every head: marks where a whole record may follow a broken one.
_HEAD = b'{"'


class Record(NamedTuple):
    """One accepted mutation."""

    number: int
    head: dict[str, Any]
    body: bytes


class Log:
    """The segments of one folder. Records are appended to the last one.

    After a failed write or sync the log accepts nothing more: what is on disk is unknown until read back.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1
        #: the current segment, and the bytes of its whole records
        self._segment: Path | None = None
        self._end = 0
        #: whether some records are not known to be durable
        self.is_dirty = False
        self.is_broken = False
        #: whether `replay` found a torn end, which `resume` cuts off
        self.is_torn = False
        #: bytes of the records since the last snapshot
        self.size = 0
        #: the last record appended, and the last one known to be durable
        self._last = self._safe = 0

    def replay(self, after: int) -> Iterator[Record]:
        """The records with a number above `after`. A torn end is skipped; other damage raises."""
        segments = self._segments()
        # A crash may have left segments that the snapshot has made obsolete.
        while len(segments) > 1 and _first(segments[1]) <= after + 1:
            del segments[0]
        # A failed rotation may have left an empty segment.
        while len(segments) > 1 and not segments[-1].stat().st_size:
            del segments[-1]
        self.size = 0
        expected: int | None = None
        for place, path in enumerate(segments):
            data = files.read_all(path)
            whole = 0
            for record, end in _records(data):
                if record.number != expected and (expected is not None or record.number > after + 1):
                    missing = after + 1 if expected is None else expected
                    raise StateError(f"{path.name}: record {missing} is missing, {record.number} follows")
                expected = record.number + 1
                whole = end
                if record.number > after:
                    yield record
            if whole < len(data):
                torn = _first(path) if expected is None else expected
                if place < len(segments) - 1 or _is_known_safe(data, whole, torn):
                    raise StateError(_refusal(path, whole, torn))
                self.is_torn = True
            self._segment, self._end = path, whole
            self.size += whole
        self._last = self._safe = after if expected is None else expected - 1

    def resume(self, number: int) -> None:
        """Open the last segment for appending, or create the first one, starting with this number."""
        path = self._segment or self._path(number)
        self._file = files.open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            # What was read may have come from the page cache and never have reached the disk.
            files.write_over_itself(self._file, self._end)
            os.lseek(self._file, self._end, os.SEEK_SET)
            files.sync_folder(self._folder)
        except OSError as failure:
            self.close()
            failure.filename = failure.filename or str(path)
            raise
        self._segment = path

    def rotate(self, number: int) -> None:
        """Continue in a new segment whose first record has this number.

        On failure the old segment stays current: it is closed only once the new one exists.
        """
        path = self._path(number)
        if path == self._segment:
            return
        self.sync()
        opened = files.open_file(path, os.O_RDWR | os.O_CREAT)
        try:
            files.sync(opened)
            files.sync_folder(self._folder)
        except OSError:
            with suppress(OSError):
                files.close(opened)
            raise
        old, self._file = self._file, opened
        self._segment, self._end = path, 0
        if old >= 0:
            _close(old)

    def append(self, record: Record) -> None:
        """Write a record; it is durable after `sync`."""
        self._refuse_if_broken()
        data = encode(record, self._safe)
        try:
            files.write_all(self._file, data)
        except OSError:
            self.is_broken = True
            # Remove the partial record. If that fails, the next start cuts it off.
            with suppress(OSError):
                files.truncate(self._file, self._end)
            raise
        self._end += len(data)
        self.size += len(data)
        self.is_dirty = True
        self._last = record.number

    def sync(self) -> None:
        """Make all records durable."""
        self._refuse_if_broken()
        if not self.is_dirty:
            return
        try:
            files.sync_data(self._file)
        except OSError:
            self.is_broken = True
            raise
        self.is_dirty = False
        self._safe = self._last

    def forget(self, before: int) -> None:
        """Remove the segments all of whose records come before `before`."""
        segments = self._segments()
        for path, following in pairwise(segments):
            if _first(following) <= before:
                try:
                    files.remove(path)
                except OSError as failure:
                    # Harmless: the snapshot covers it, and the next one removes it.
                    logger.warning("%s could not be removed: %s", path.name, failure.strerror)
        self.size = sum(path.stat().st_size for path in self._segments())

    def close(self) -> None:
        if self._file >= 0:
            file, self._file = self._file, -1
            _close(file)

    def _path(self, number: int) -> Path:
        return self._folder / f"log-{number:020d}.wal"

    def _segments(self) -> list[Path]:
        return sorted(self._folder.glob("log-*.wal"))

    def _refuse_if_broken(self) -> None:
        if self.is_broken:
            raise StateError("the log could not be written; restart to continue from what is on disk")


def encode(record: Record, safe: int = 0) -> bytes:
    """A record in its on-disk format; `safe` is the last record known to be durable."""
    head = json.dumps(record.head, ensure_ascii=False, separators=(",", ":")).encode()
    checked = _CHECKED.pack(record.number, safe, len(head)) + head + record.body
    length = len(head) + len(record.body)
    return struct.pack("<II", length, zlib.crc32(checked)) + checked


def _records(data: bytes) -> Iterator[tuple[Record, int]]:
    """Whole records from the start, each with its end offset; stops at the first incomplete one."""
    place = 0
    while (end := _end(data, place)) is not None:
        _, _, number, _, head_length = _FRAME.unpack_from(data, place)
        begin = place + _FRAME.size
        head = json.loads(data[begin : begin + head_length])
        yield Record(number, head, data[begin + head_length : end]), end
        place = end


def _end(data: bytes, place: int) -> int | None:
    """The end offset of the record at `place`; None if it is not a whole record."""
    if place < 0 or place + _FRAME.size > len(data):
        return None
    length, checksum, _, _, head_length = _FRAME.unpack_from(data, place)
    end: int = place + _FRAME.size + length
    if end > len(data) or head_length > length:
        return None
    return end if zlib.crc32(memoryview(data)[place + 8 : end]) == checksum else None


def _is_known_safe(data: bytes, place: int, number: int) -> bool:
    """Whether a whole record after `place` knew record `number` to be durable. Cost: linear."""
    candidate = data.find(_HEAD, place)
    while candidate >= 0:
        at = candidate - _FRAME.size
        if at > place and _end(data, at) is not None:
            _, _, later, safe, _ = _FRAME.unpack_from(data, at)
            if number <= safe < later:
                return True
        candidate = data.find(_HEAD, candidate + 1)
    return False


def _refusal(path: Path, place: int, number: int) -> str:
    return (
        f"{path} is damaged at byte {place}: record {number} was acknowledged and cannot be read. "
        "Nothing has been changed. Restore a copy of the folder; or, to continue without this record and all "
        f"that came after it, cut it off (truncate -s {place} {path}), remove the log files after it, and "
        f"remove {path.parent / 'epoch'}: older cursors must not be mistaken for new ones"
    )


def _first(segment: Path) -> int:
    """The number of a segment's first record."""
    return int(segment.stem[4:])


def _close(descriptor: int) -> None:
    """Close a segment. Failing is harmless: its records are durable, or will be read back."""
    try:
        files.close(descriptor)
    except OSError as failure:
        logger.warning("a log segment could not be closed: %s", failure.strerror)
