"""What ends a command early, and the exit code it ends with."""

from __future__ import annotations

OK = 0
BAD_DATA = 1
BAD_USAGE = 2


class UsageFailure(Exception):
    """The command cannot be run as it was given."""


class DataFailure(Exception):
    """An input is not what it should be. The message names the file, and the line where there is one."""


class BadRow(Exception):
    """Records that cannot be read as rows; of a single record, the message says why."""
