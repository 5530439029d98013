"""Files that the driver keeps on a local disk: markers, job descriptions, batches moved into place.

By the system's own calls, which fail or are done. Hadoop's local file system says that a file is not there
when it may not look, copies a folder file by file when it cannot rename it, and keeps a checksum aside that a
kill between two renames leaves stale.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Protocol


class Folders(Protocol):
    """What the driver needs of a file system. Every method raises OSError."""

    def exists(self, path: str) -> bool: ...
    def make_folder(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def delete(self, path: str) -> None: ...
    def names(self, path: str) -> list[str]: ...
    def read_text(self, path: str) -> str: ...
    def write_text(self, path: str, text: str) -> None: ...


class LocalFiles:
    """A local disk, or one that is mounted like it."""

    def exists(self, path: str) -> bool:
        """Whether it is there; raises if that cannot be found out."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder in one step; the target must not be there."""
        if self.exists(target):
            raise FileExistsError(f"cannot move {source}: {target} is there")
        os.rename(source, target)

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if it is not there."""
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
        """Written aside, brought to the disk and moved over what is there."""
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
    """Forget what Spark noted of a file that it wrote: it would refuse the file that takes its place."""
    folder, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, f".{name}.crc"))
