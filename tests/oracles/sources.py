"""Tables, windows and plain streams, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tests.oracles.queries import LiveRow
from tests.oracles.values import Row, Value, coerce, text


def typed(row: Row, columns: Mapping[str, str]) -> dict[str, Value]:
    """The row with each declared column as its type holds it; a missing one is NULL."""
    return {name: coerce(row.get(name), type_name) for name, type_name in columns.items()}


def length_of(words: str) -> timedelta:
    """A length of time such as `10 seconds`."""
    count, unit = words.split()
    return timedelta(**{unit if unit.endswith("s") else unit + "s": int(count)})


class Table:
    """Rows by key. A key's `born` is the number of the row that inserted it."""

    newest_first = False

    def __init__(self, key: str, columns: Mapping[str, str]) -> None:
        self.key = key
        self.columns = columns
        self.count = 0
        self.rows: dict[str, LiveRow] = {}

    def live(self) -> list[LiveRow]:
        return sorted(self.rows.values(), key=lambda row: row.born)

    def take(self, row: Row) -> Iterator[int]:
        """Apply one row and yield its number."""
        values = typed(row, self.columns)
        key = text(values[self.key])
        if row.get("_op") == "delete":
            self.rows.pop(key, None)
        else:
            born = self.rows[key].born if key in self.rows else self.count
            self.rows[key] = LiveRow(key, key, born, values)
        self.count += 1
        yield self.count - 1


def named(values: Row, key: str | None) -> Row:
    """A stream row with its name beside it, if the stream has a key."""
    return values if key is None else {**values, "_name": text(values[key])}


class Stream:
    """A stream without a window keeps nothing but its count. No columns: sparse rows."""

    def __init__(self, columns: Mapping[str, str] | None, key: str | None) -> None:
        self.columns = columns
        self.key = key
        self.count = 0

    def take(self, row: Row) -> tuple[int, str, Row]:
        """The event's number, key and values."""
        values = dict(row) if self.columns is None else typed(row, self.columns)
        number = self.count
        self.count += 1
        return number, str(number), named(values, self.key)


class Window:
    """The last N rows, or the rows later than the newest time minus a length."""

    newest_first = True

    def __init__(
        self, columns: Mapping[str, str], window: str, time: str | None, delay: str | None, key: str | None
    ) -> None:
        self.columns = columns
        self.size = int(window.split()[0]) if window.endswith(("rows", "row")) else None
        self.length = None if self.size is not None else length_of(window)
        self.time = time
        self.delay = length_of(delay) if delay else timedelta(0)
        self.key = key
        self.count = 0
        self.n_applied = 0
        self.n_late = 0
        self.rows: list[tuple[datetime | None, LiveRow]] = []
        self.held: list[tuple[datetime, int, Row]] = []
        self.seen: datetime | None = None
        self.newest: datetime | None = None

    def live(self) -> list[LiveRow]:
        return [row for _, row in self.rows]

    def take(self, row: Row) -> Iterator[int]:
        """Number one row, and yield the number of each row that is applied because of it."""
        values = typed(row, self.columns)
        number = self.count
        self.count += 1
        if self.length is None:
            self._apply(None, number, values)
            yield number
            return
        assert self.time is not None
        time = values[self.time]
        assert isinstance(time, datetime)
        self.seen = time if self.seen is None else max(self.seen, time)
        self.held.append((time, number, values))
        yield from self._release()

    def advance(self, time: datetime) -> Iterator[int]:
        """Move the newest seen time on: release what was held back, then expire."""
        self.seen = time if self.seen is None else max(self.seen, time)
        yield from self._release()
        reached = self.seen - self.delay
        self.newest = reached if self.newest is None else max(self.newest, reached)
        self._expire()

    def _release(self) -> Iterator[int]:
        assert self.seen is not None
        horizon = self.seen - self.delay
        due = sorted((each for each in self.held if each[0] <= horizon), key=lambda each: each[:2])
        self.held = [each for each in self.held if each[0] > horizon]
        for time, number, values in due:
            if self.newest is not None and time < self.newest:
                self.n_late += 1
            else:
                self._apply(time, number, values)
                yield number

    def _apply(self, time: datetime | None, number: int, values: Row) -> None:
        self.rows.append((time, LiveRow(number, str(number), self.n_applied, named(values, self.key))))
        self.n_applied += 1
        self.newest = time
        self._expire()

    def _expire(self) -> None:
        if self.size is not None:
            self.rows = self.rows[-self.size :]
        elif self.length is not None and self.newest is not None:
            edge = self.newest - self.length
            self.rows = [(time, row) for time, row in self.rows if time is not None and time > edge]
