"""Redirects Spark's log: it and its workers write to standard error, across a live display there."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from os import PathLike


@contextlib.contextmanager
def stderr_into(path: str | PathLike[str] | None) -> Iterator[None]:
    """Append the standard error of processes that are started within to this file, if there is one."""
    if path is None:
        yield
        return
    sys.stderr.flush()
    before = os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(file)
