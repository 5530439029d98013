"""Faults under file operations: the n-th call that touches a folder fails, or the process dies there."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Of the system; and the process dying before or after the call is done.
ERRORS = ("ENOSPC", "EIO", "EMFILE", "EACCES")
DEATHS = ("dies before", "dies after")

_CALLS = ("stat", "mkdir", "rmdir", "rename", "replace", "unlink", "listdir", "scandir", "fsync")


class Died(BaseException):
    """What no handler of errors sees, as a kill is seen by none."""


class Faults:
    """Counts calls below `folder`, and lets one of them fail. Once dead, the process does nothing more."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = str(folder)
        #: the place, from 0, of the call that fails, and how
        self.place = -1
        self.kind = ""
        self.count = 0
        self._is_dead = False
        for name in _CALLS:
            patch.setattr(os, name, self._wrapped(getattr(os, name), is_number=name == "fsync"))
        real = builtins.open

        def opened(path: Any, *given: Any, **named: Any) -> Any:
            if not self._is_mine(path):
                return real(path, *given, **named)
            return _File(self._call(lambda: real(path, *given, **named)), self)

        for module in (builtins, io):
            patch.setattr(module, "open", opened)

    def arm(self, place: int, kind: str) -> None:
        """Fail at this call, counted from now on; -1 for none."""
        self.place, self.kind, self.count, self._is_dead = place, kind, 0, False

    def _is_mine(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and str(path).startswith(self._folder)

    def _wrapped(self, real: Callable[..., Any], *, is_number: bool) -> Callable[..., Any]:
        def call(path: Any, *given: Any, **named: Any) -> Any:
            if not (is_number or self._is_mine(path)):
                return real(path, *given, **named)
            # A test does not lose its power: nothing has to come to the disk.
            return self._call(lambda: None if is_number else real(path, *given, **named))

        return call

    def _call(self, real: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        if self._is_dead:
            raise Died
        place = self.count
        self.count += 1
        if place != self.place:
            return real()
        if self.kind in ERRORS:
            if half is not None:
                half()
            number = getattr(errno, self.kind)
            raise OSError(number, os.strerror(number))
        self._is_dead = True
        if self.kind == "dies after":
            made = real()
            if hasattr(made, "close"):
                made.close()
        elif half is not None:
            half()
        raise Died


class _File:
    """An open file whose reads and writes may fail, writes half way."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file = file
        self._faults = faults

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *given: object) -> None:
        self._file.close()

    def write(self, data: Any) -> Any:
        half = data[: len(data) // 2]
        return self._faults._call(lambda: self._file.write(data), lambda: self._file.write(half))

    def read(self, *given: Any) -> Any:
        return self._faults._call(lambda: self._file.read(*given))

    def flush(self) -> None:
        self._faults._call(self._file.flush)

    def fileno(self) -> int:
        return int(self._file.fileno())
