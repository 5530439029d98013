"""The answers of the subscriptions that an edge holds in one zone."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Floats, Ints
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.messages import Messages
from tocsin.network.areas import bounds_of
from tocsin.network.topk_answers import TopKAnswers
from tocsin.subscriber import Entry, Subscriber

#: Answers of many subscriptions: one row per entry, best first.
ANSWERS = pa.schema([("number", pa.int32()), ("key", pa.string()), ("y", pa.float64()), ("born", pa.int64())])


class ZoneAnswers(Protocol):
    """Answers of some subscriptions of one space, numbered from 0."""

    def start(self, rows: pa.Table) -> None:
        """Start over from a snapshot."""

    def apply(self, messages: pa.Table) -> Ints:
        """Apply messages in order; returns the subscriptions that received any, ascending."""

    def result(self, number: int) -> list[Entry]:
        """One answer, like `Subscriber.result`."""

    def answers(self, numbers: Ints) -> pa.Table:
        """All answers in one table of schema `ANSWERS`; `numbers` are the subscriptions' numbers in it."""

    def part(self, numbers: Ints) -> ZoneAnswers:
        """A copy of some of the subscriptions with their answers."""


class KeyInterner:
    """Maps row keys to small numbers, for all zones of an edge."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def numbers(self, keys: pa.ChunkedArray) -> Ints:
        """The number of each key; new keys get the next ones. Cost: linear."""
        coded = keys.combine_chunks().dictionary_encode()
        coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
        numbers = []
        for text in coded.dictionary.to_pylist():
            number = self._numbers.setdefault(text, len(self.texts))
            if number == len(self.texts):
                self.texts.append(text)
            numbers.append(number)
        return np.asarray(np.array(numbers, np.int32)[coded.indices.to_numpy()])


class RangeAnswers:
    """Ranges of at most one dimension over top-k, MIN or MAX, in arrays."""

    def __init__(self, answers: TopKAnswers, keys: KeyInterner, dimensions: int) -> None:
        self._answers = answers
        self._keys = keys
        self._dimensions = dimensions

    def start(self, rows: pa.Table) -> None:
        x = _column(rows, "x", self._dimensions)
        numbers = self._keys.numbers(rows.column("key"))
        self._answers.start(numbers, x, _floats(rows, "y"), _borns(rows))

    def apply(self, messages: pa.Table) -> Ints:
        without_range = np.full(messages.num_rows, np.nan)
        columns = Messages(
            _column(messages, "inner_lo", self._dimensions),
            _column(messages, "inner_hi", self._dimensions),
            _column(messages, "outer_lo", self._dimensions) if self._dimensions else without_range,
            _column(messages, "outer_hi", self._dimensions) if self._dimensions else without_range,
            np.arange(messages.num_rows, dtype=np.int32),
            np.zeros(messages.num_rows, np.int32),
            self._keys.numbers(messages.column("key")),
            np.zeros(messages.num_rows),
            _floats(messages, "y"),
            _borns(messages),
            np.array(messages.column("gone").to_numpy()),
        )
        return np.flatnonzero(self._answers.apply(columns)).astype(np.int32)

    def result(self, number: int) -> list[Entry]:
        return [Entry(self._keys.texts[row], y, born) for row, y, born in self._answers.result(number)]

    def answers(self, numbers: Ints) -> pa.Table:
        slots, row, y, born = self._answers.entries()
        keys = pa.array(self._keys.texts, pa.string()).take(pa.array(row))
        return pa.table([numbers[slots], keys, y, born], schema=ANSWERS)

    def part(self, numbers: Ints) -> RangeAnswers:
        return RangeAnswers(self._answers.part(numbers), self._keys, self._dimensions)


class PerSubscriberAnswers:
    """Subscriptions of any kind, with a `Subscriber` each: for DISTINCT. Cost of a message: all of them."""

    def __init__(self, subscribers: list[Subscriber]) -> None:
        self._subscribers = subscribers

    def start(self, rows: pa.Table) -> None:
        listed = rows.to_pylist()
        for subscriber in self._subscribers:
            subscriber.start(listed)

    def apply(self, messages: pa.Table) -> Ints:
        listed = messages.to_pylist()
        is_notified = [subscriber.apply(listed) > 0 for subscriber in self._subscribers]
        return np.flatnonzero(is_notified).astype(np.int32)

    def result(self, number: int) -> list[Entry]:
        return self._subscribers[number].result()

    def answers(self, numbers: Ints) -> pa.Table:
        rows = [
            {"number": number, **entry._asdict()}
            for number, subscriber in zip(numbers.tolist(), self._subscribers, strict=True)
            for entry in subscriber.result()
        ]
        return pa.Table.from_pylist(rows, schema=ANSWERS)

    def part(self, numbers: Ints) -> PerSubscriberAnswers:
        return PerSubscriberAnswers([self._subscribers[number] for number in numbers.tolist()])


def new_zone_answers(space: dict[str, Any], lo: Floats, hi: Floats, keys: KeyInterner) -> ZoneAnswers:
    """Answers of subscriptions `[lo, hi]`, each (subscriptions, dimensions), of one of `engine.spaces`."""
    if space["kind"] == "distinct" or lo.shape[1] > 1:
        bounds = zip(lo.tolist(), hi.tolist(), strict=True)
        return PerSubscriberAnswers([Subscriber(low, high, **space) for low, high in bounds])
    is_whole = space["kind"] in ("min", "max")
    answers = TopKAnswers(
        lo[:, 0] if lo.shape[1] else np.zeros(len(lo)),
        hi[:, 0] if hi.shape[1] else np.zeros(len(hi)),
        k=1 if is_whole else space["k"],
        is_whole=is_whole,
        descending=space["descending"],
    )
    return RangeAnswers(answers, keys, lo.shape[1])


def _column(table: pa.Table, name: str, dimensions: int) -> Floats:
    """Bounds or coordinates of one dimension; without dimensions all are 0."""
    if not dimensions:
        return np.zeros(table.num_rows)
    return np.ascontiguousarray(bounds_of(table.column(name), 1)[:, 0])


def _floats(table: pa.Table, name: str) -> Floats:
    return np.array(table.column(name).to_numpy(), np.float64)


def _borns(table: pa.Table) -> np.ndarray:
    return np.array(table.column("born").fill_null(ABSENT).to_numpy(), np.int64)
