"""Exceptions that end a command early, and exit codes."""

from __future__ import annotations

OK = 0
BAD_DATA = 1
BAD_USAGE = 2


class UsageFailure(Exception):
    """The arguments of the command are invalid."""


class DataFailure(Exception):
    """An input is invalid. The message names the file, and the line if there is one."""


class BadRow(Exception):
    """Records that cannot be read as rows; for a single record, the message has the reason."""
