"""The contract of inputs of `tocsin watch`: they return blocks of rows as they arrive."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from tocsin.cli.watching.formats import RowData
from tocsin.types import ColumnType

#: Seconds between polls of a file that may grow.
POLL_SECONDS = 0.1


class Block(Protocol):
    """Some rows of an input."""

    def __len__(self) -> int: ...

    def rows(self) -> RowData:
        """The rows, as the engine accepts them. Raises BadRow."""

    def part(self, start: int, stop: int) -> Block: ...

    def place(self) -> str:
        """Where the block begins, for messages."""


class Input(Protocol):
    """A file or pipe of rows."""

    label: str
    is_pipe: bool
    #: whether rows may still be added, so that types cannot be inferred from all of them
    grows: bool
    #: whether rows may have columns that the first ones lack
    is_open: bool

    def columns(self) -> dict[str, str] | None:
        """Columns and inferred types; None for an input without rows. Waits for the first row."""

    def declare(self, columns: Mapping[str, ColumnType] | None) -> None:
        """Read rows as these columns from now on; None for sparse rows."""

    def take(self, limit: int) -> Block | None:
        """The available rows, at most `limit`; None if there are none."""

    def ended(self) -> bool:
        """Whether no more rows will arrive."""

    def descriptor(self) -> int | None:
        """The file descriptor to wait on, if it is a pipe."""

    def close(self) -> None:
        """Close the input."""


def wait(inputs: Sequence[Input]) -> None:
    """Wait until a pipe among the inputs is readable, or until the next poll."""
    pipes = [descriptor for each in inputs if (descriptor := each.descriptor()) is not None]
    if pipes:
        select.select(pipes, [], [], POLL_SECONDS)
    else:
        time.sleep(POLL_SECONDS)
