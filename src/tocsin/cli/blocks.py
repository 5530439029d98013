"""What an input of `tocsin watch` is: something that gives blocks of rows as they come."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from tocsin.cli.formats import RowData
from tocsin.types import ColumnType

#: Seconds between two looks at a file that may grow.
POLL = 0.1


class Block(Protocol):
    """Some rows of an input."""

    def __len__(self) -> int: ...

    def rows(self) -> RowData:
        """The rows, as the engine takes them. Raises BadRow."""

    def part(self, start: int, stop: int) -> Block: ...

    def place(self) -> str:
        """Where the block begins, for a message."""


class Input(Protocol):
    """A file or pipe that rows come from."""

    label: str
    is_pipe: bool
    #: rows may still be added, so that the first ones show less than all
    grows: bool
    #: rows may have columns that the first ones have not
    is_open: bool

    def columns(self) -> dict[str, str] | None:
        """Columns and inferred types, None for an input that ended without a row. Waits for the first row."""

    def declare(self, columns: Mapping[str, ColumnType] | None) -> None:
        """Read rows as these columns from now on; None for sparse rows."""

    def take(self, limit: int) -> Block | None:
        """What is there now, at most `limit` rows; None if there is nothing."""

    def ended(self) -> bool:
        """Whether no more will come."""

    def descriptor(self) -> int | None:
        """What to wait on, if it is a pipe."""

    def close(self) -> None:
        """Read no more."""


def wait(inputs: Sequence[Input]) -> None:
    """Until a pipe among the inputs has something, or it is time to look again."""
    pipes = [descriptor for each in inputs if (descriptor := each.descriptor()) is not None]
    if pipes:
        select.select(pipes, [], [], POLL)
    else:
        time.sleep(POLL)
