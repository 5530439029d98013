"""The driver's files on a local disk: markers, job descriptions, batches moved into place.

Uses system calls, which either fail or complete. Hadoop's local file system reports a file as missing if it
lacks the permission to see it, copies a folder file by file if it cannot rename it, and stores checksums in
files of their own, which a kill between two renames leaves stale.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Protocol


class FileSystem(Protocol):
    """The operations that the driver needs. Every method raises OSError."""

    def exists(self, path: str) -> bool: ...
    def make_folder(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def delete(self, path: str) -> None: ...
    def names(self, path: str) -> list[str]: ...
    def read_text(self, path: str) -> str: ...
    def write_text(self, path: str, text: str) -> None: ...


class LocalFileSystem:
    """A local or mounted disk."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists; raises if that cannot be determined."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder atomically; the target must not exist."""
        if self.exists(target):
            raise FileExistsError(f"cannot move {source}: {target} exists")
        os.rename(source, target)

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with its content; missing ones are ignored."""
        if os.path.isdir(path):
            shutil.rmtree(path)
            return
        _drop_checksum(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def read_text(self, path: str) -> str:
        with open(path, encoding="utf-8") as file:
            return file.read()

    def write_text(self, path: str, text: str) -> None:
        """Write to a temporary file, fsync it and rename it over the target."""
        aside = f"{path}.writing"
        try:
            with open(aside, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            _drop_checksum(path)
            os.replace(aside, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise


def _drop_checksum(path: str) -> None:
    """Delete the checksum that Spark stored for a file: it would refuse the file that replaces it."""
    folder, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, f".{name}.crc"))
