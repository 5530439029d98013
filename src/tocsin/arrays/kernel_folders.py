"""Where compiled kernels are kept: the first folder that can be written, and those before it to read."""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from numba.core import config

from tocsin import __version__

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

PACKAGE = Path(__file__).parents[1]
#: Locks of all kernels of a folder: a byte each.
LOCKS = "kernels.lock"


def folders() -> tuple[list[str], str | None]:
    """Folders to read kernels from, in order, and the one to write them to, if any.

    `TOCSIN_KERNEL_CACHE`, else the package's own, the user's, a temporary one. All up to the first that can
    be written are read: kernels compiled when an image was built are found by whoever runs it.
    """
    return _usable(*_candidates())


@cache
def _usable(*candidates: str) -> tuple[list[str], str | None]:
    for place, folder in enumerate(candidates):
        if _is_writable(folder):
            return list(candidates[: place + 1]), folder
    temporary = _temporary()
    if temporary is None:
        logger.warning(
            "compiled kernels cannot be kept, so every process compiles them again: no folder is writable; "
            "set TOCSIN_KERNEL_CACHE to one that is"
        )
        return list(candidates), None
    return [*candidates, temporary], temporary


def _candidates() -> list[str]:
    found = [os.environ.get("TOCSIN_KERNEL_CACHE", "")]
    if not found[0] and vars(config)["CACHE_DIR"]:
        found.append(os.path.join(vars(config)["CACHE_DIR"], "tocsin"))
    found.append(str(PACKAGE / "__pycache__" / "kernels"))
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(home):
        found.append(os.path.join(home, "tocsin", __version__))
    return [os.path.abspath(folder) for folder in found if folder]


def _is_writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _temporary() -> str | None:
    """A temporary folder that only this user can write, since what is read from it is run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        folder = os.path.join(tempfile.gettempdir(), f"tocsin-kernels-{user}")
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and (os.name == "nt" or found.st_uid == user)
    is_private = os.name == "nt" or not stat.S_IMODE(found.st_mode) & 0o077
    return folder if is_ours and is_private and _is_writable(folder) else None


class FileLocks:
    """Locks between processes, many to a file. They end with their process, and are not inherited.

    Without `fcntl`, and where the file system has no locks, each is granted: then some kernels are compiled
    twice.
    """

    def __init__(self, path: str) -> None:
        #: Never closed: that would end this process's locks.
        self._file: int | None = None
        if fcntl is not None:
            with suppress(OSError):
                self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def acquire(self, number: int) -> bool:
        """Whether lock `number` is this process's now."""
        if self._file is None:
            return True
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:
            self._file = None
        return True

    def release(self, number: int) -> None:
        """Let others have lock `number`."""
        if self._file is not None:
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)


@cache
def locks(folder: str) -> FileLocks:
    """The locks of a folder: one object for all of a process, as its locks end when any handle is closed."""
    return FileLocks(os.path.join(folder, LOCKS))
