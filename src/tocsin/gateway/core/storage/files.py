"""All file operations of the log, the snapshots and the hub's folder.

The first group wraps one system call each, so that a test can make any of them fail. The rest build on these.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Bytes read or written at once.
CHUNK = 1 << 20


def open_file(path: Path, flags: int) -> int:
    return os.open(path, flags, 0o600)


def write(descriptor: int, data: Any) -> int:
    return os.write(descriptor, data)


def overwrite(descriptor: int, data: bytes, place: int) -> int:
    return os.pwrite(descriptor, data, place)


def read(descriptor: int, size: int, place: int) -> bytes:
    return os.pread(descriptor, size, place)


def sync(descriptor: int) -> None:
    os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    os.fdatasync(descriptor)


def truncate(descriptor: int, size: int) -> None:
    os.ftruncate(descriptor, size)


def close(descriptor: int) -> None:
    os.close(descriptor)


def rename(path: Path, target: Path) -> None:
    path.replace(target)


def remove(path: Path) -> None:
    path.unlink()


def make_folder(path: Path) -> None:
    path.mkdir()


def remove_folder(path: Path) -> None:
    shutil.rmtree(path)


#: The calls above, by name.
CALLS = (
    "open_file",
    "write",
    "overwrite",
    "read",
    "sync",
    "sync_data",
    "truncate",
    "close",
    "rename",
    "remove",
    "make_folder",
    "remove_folder",
)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, retrying short writes."""
    rest = memoryview(data)
    while rest:
        rest = rest[write(descriptor, rest) :]


def read_all(path: Path) -> bytes:
    """The whole of a file."""
    descriptor = open_file(path, os.O_RDONLY)
    try:
        parts: list[bytes] = []
        place = 0
        while part := read(descriptor, CHUNK, place):
            parts.append(part)
            place += len(part)
        return b"".join(parts)
    finally:
        close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder durable."""
    descriptor = open_file(folder, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        close(descriptor)


def write_over_itself(descriptor: int, size: int) -> None:
    """Make the first `size` bytes of a file durable, and truncate the rest.

    After a failed fsync the kernel may mark dirty pages clean although they never reached the disk, and a
    later fsync skips them. So the bytes are rewritten in place, which takes no extra space.
    """
    place = 0
    while place < size:
        part = read(descriptor, min(CHUNK, size - place), place)
        if not part:
            raise OSError("the file became shorter while it was read")
        rewritten = 0
        while rewritten < len(part):
            rewritten += overwrite(descriptor, part[rewritten:], place + rewritten)
        place += len(part)
    truncate(descriptor, size)
    sync(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Replace or create a file atomically; durable on return."""
    aside = path.with_name(f"{path.name}.writing")
    with Writer(aside) as file:
        file.write(data)
    rename(aside, path)
    sync_folder(path.parent)


class Writer(io.BufferedWriter):
    """A new file, durable when its block ends without an error; computes its checksum."""

    def __init__(self, path: Path) -> None:
        self._under = _Descriptor(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        super().__init__(self._under, CHUNK)

    @property
    def checksum(self) -> str:
        """SHA-256 of everything written."""
        return self._under.digest.hexdigest()

    def __exit__(self, kind: Any, *failure: Any) -> None:
        try:
            if kind is None:
                self.flush()
                sync(self._under.descriptor)
        finally:
            # After a failure the buffer is useless, and flushing it would fail again.
            with suppress(OSError):
                self.close()


class _Descriptor(io.RawIOBase):
    """A raw stream over a descriptor, for Python's buffered writer."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.digest = hashlib.sha256()
        self._place = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def write(self, data: Any) -> int:
        count = write(self.descriptor, data)
        self.digest.update(memoryview(data)[:count])
        self._place += count
        return count

    def close(self) -> None:
        if not self.closed:
            super().close()
            close(self.descriptor)


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    descriptor = open_file(path, os.O_RDONLY)
    try:
        place = 0
        while part := read(descriptor, CHUNK, place):
            digest.update(part)
            place += len(part)
    finally:
        close(descriptor)
    return digest.hexdigest()
