"""The errors that Tocsin raises; all derive from `Error`.

An operation that raises one of these has changed nothing.
"""

from __future__ import annotations

#: Characters of a value in a message.
SHOWN = 200


class Error(Exception):
    """The root of Tocsin's errors."""


class SQLError(Error):
    """A statement that cannot be maintained: where it goes wrong, and what would be accepted.

    `line` and `column` are 1-based and point at the first offending character; `text` is the
    offending piece; `hint` says what would be accepted.
    """

    def __init__(self, message: str, *, sql: str, start: int, end: int, hint: str = "") -> None:
        self.message = message
        self.sql = sql
        self.start = start
        self.end = max(end, start + 1)
        self.hint = hint
        before = sql[:start]
        self.line = before.count("\n") + 1
        self.column = start - (before.rfind("\n") + 1) + 1
        self.text = sql[start:end]
        super().__init__(self._render())

    def _render(self) -> str:
        line_start = self.sql.rfind("\n", 0, self.start) + 1
        line_end = self.sql.find("\n", self.start)
        line_end = len(self.sql) if line_end < 0 else line_end
        width = max(1, min(self.end, line_end) - self.start)
        lines = [
            f"{self.message} (line {self.line}, column {self.column})",
            f"  {self.sql[line_start:line_end]}",
            f"  {' ' * (self.start - line_start)}{'^' * width}",
        ]
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


class UnknownSource(Error):
    """No table or stream of that name."""


class DuplicateSource(Error):
    """A table or stream of that name exists already."""


class DeclarationError(Error):
    """A table or stream cannot be declared like this."""


class ParameterError(Error):
    """A parameter of a standing query is missing, unknown, of the wrong type, or NaN."""


class IndexRefused(Error):
    """No index of this name, or it cannot hold a statement."""


class UnknownSubscription(Error):
    """No subscription has this id."""


class DuplicateSubscription(Error):
    """A subscription with this id exists already."""


class RowError(Error):
    """A batch of rows cannot be read as its source declares them."""


class WeightOverflow(RowError):
    """A row's weight does not fit the scaled 64-bit integers that thresholds are summed in."""


class StateError(Error):
    """A saved engine cannot be read."""


def shown(value: object) -> str:
    """A value in a message: as Python would write it, but short."""
    try:
        text = repr(value)
    except ValueError:
        # Python writes no whole number of more than some thousand digits.
        text = f"a {type(value).__name__} that is too long to print"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
