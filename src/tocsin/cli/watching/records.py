"""Splits bytes from a file or a pipe into whole records as they arrive."""

from __future__ import annotations

import os
import select
from typing import NamedTuple

from tocsin.cli.failures import DataFailure

#: Bytes per read. A pipe returns what is available.
CHUNK = 1 << 20
#: Maximum bytes of a record: without it, an unclosed quote would swallow the rest of the file.
MAX_RECORD_BYTES = 1 << 24


class Records(NamedTuple):
    """Whole records without their line ends, and the line on which each begins."""

    texts: list[bytes]
    lines: list[int]

    def part(self, start: int, stop: int) -> Records:
        return Records(self.texts[start:stop], self.lines[start:stop])


class RecordReader:
    """Reads records from a descriptor without ever blocking.

    Nothing is split before `start`: the first bytes, `opening`, may be needed to determine the format. With
    `follow` more may be appended to a file, so that a last line without its line end is not a record yet.
    """

    def __init__(self, descriptor: int, label: str, *, is_pipe: bool, follow: bool) -> None:
        self.descriptor = descriptor
        self.label = label
        self.is_pipe = is_pipe
        self.ended = False
        self._follow = follow and not is_pipe
        self._quoted: bool | None = None
        self._ready = Records([], [])
        self._taken = 0
        self._tail = b""
        self._line = 1
        self._position = 0

    def __len__(self) -> int:
        return len(self._ready.texts) - self._taken

    @property
    def opening(self) -> bytes:
        """The bytes read before `start`."""
        return self._tail

    def start(self, *, quoted: bool) -> None:
        """Start splitting; `quoted` if double quotes hide line ends, as in CSV."""
        self._quoted = quoted
        self._cut(b"")
        if self.ended:
            self._flush()

    def fill(self) -> bool:
        """Read once; returns whether anything arrived."""
        if self.ended or (self.is_pipe and not select.select([self.descriptor], [], [], 0)[0]):
            return False
        data = os.read(self.descriptor, CHUNK)
        if data:
            self._position += len(data)
            self._cut(data)
            return True
        if self._follow:
            self._check_length()
            return False
        self.ended = True
        if self._quoted is not None:
            self._flush()
        return False

    def peek(self, limit: int) -> Records:
        """The next records, at most `limit`, without consuming them."""
        return self._ready.part(self._taken, self._taken + limit)

    def take(self, limit: int) -> Records:
        """Consume the next records, at most `limit`."""
        taken = self.peek(limit)
        self._taken += len(taken.texts)
        if len(self) == 0:
            self._ready, self._taken = Records([], []), 0
        return taken

    def _flush(self) -> None:
        self._add(self._line, self._tail)
        self._tail = b""

    def _cut(self, data: bytes) -> None:
        if self._quoted is None:
            self._tail += data
            return
        parts = (self._tail + data).split(b"\n")
        self._tail = parts.pop()
        if self._quoted:
            self._cut_quoted(parts)
        else:
            for part in parts:
                self._add(self._line, part)
                self._line += 1
        if len(self._tail) > MAX_RECORD_BYTES:
            raise DataFailure(f"{self.label}:{self._line}: a record of more than {MAX_RECORD_BYTES} bytes")

    def _cut_quoted(self, parts: list[bytes]) -> None:
        open_parts: list[bytes] = []
        is_open = False
        for part in parts:
            open_parts.append(part)
            is_open ^= part.count(b'"') % 2 == 1
            if not is_open:
                self._add(self._line, b"\n".join(open_parts))
                self._line += len(open_parts)
                open_parts = []
        self._tail = b"\n".join([*open_parts, self._tail])

    def _add(self, line: int, text: bytes) -> None:
        if text and text != b"\r":
            self._ready.texts.append(text)
            self._ready.lines.append(line)

    def _check_length(self) -> None:
        if os.fstat(self.descriptor).st_size < self._position:
            raise DataFailure(f"{self.label}: the file became shorter while it was followed")
