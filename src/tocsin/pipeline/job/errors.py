"""The error of a job that cannot be run."""

from __future__ import annotations

from tocsin.errors import Error


class JobError(Error):
    """A job that cannot be run. The message names the line and what would be accepted."""

    def __init__(self, message: str, *, file: str = "", line: int = 0) -> None:
        self.file = file
        self.line = line
        super().__init__(f"{file}, line {line}: {message}" if file else message)
