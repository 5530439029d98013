"""File operations that fail: the n-th call of the gateway's own, and what comes after it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tocsin.gateway.core.storage import files

#: Calls that a disk without room refuses, and those that a broken one does.
WRITES = ("write", "overwrite", "sync", "sync_data", "make_folder")


class Faults:
    """Has the `at`-th call fail with an error; a full or broken disk stays so.

    A write that fails for want of room has written half of its data.
    """

    def __init__(self, error: int, at: int) -> None:
        self._error = error
        self._at = at
        self.calls = 0
        #: the call that failed first
        self.failed: str | None = None

    @contextmanager
    def injected(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patched:
            for name in files.CALLS:
                patched.setattr(files, name, self._faulty(name, getattr(files, name)))
            yield

    def _faulty(self, name: str, real: Any) -> Any:
        def call(*given: Any) -> Any:
            self.calls += 1
            is_first = self.calls == self._at
            stays = self._error in (errno.ENOSPC, errno.EIO) and name in WRITES
            if not is_first and not (self.failed is not None and stays):
                return real(*given)
            self.failed = self.failed or name
            if name == "write" and self._error == errno.ENOSPC:
                descriptor, data = given
                real(descriptor, bytes(data)[: len(data) // 2])
            if name == "close":
                # The system lets go of a descriptor whatever it says.
                real(*given)
            raise OSError(self._error, os.strerror(self._error))

        return call
