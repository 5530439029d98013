"""The whole engine, slow and obvious: every answer is computed from scratch, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from tests.oracles.events import Match, Threshold
from tests.oracles.queries import Aggregate, Entry, Query
from tests.oracles.sources import Stream, Table, Window
from tests.oracles.values import Row, Value, as_json


class Change(NamedTuple):
    """One row of the changes of `publish`; `row` is the SELECT list, if requested."""

    subscription: str
    seq: int
    op: str
    key: str | None
    score: float | None
    rank: int | None
    row: dict[str, object] | None


@dataclass
class Subscription:
    """A registered query; `weight` and `repeat` are for thresholds."""

    id: str
    query: Query | Threshold | Match
    repeat: bool = False
    weight: Fraction = field(default_factory=Fraction)


class OracleEngine:
    """The verbs of `tocsin.Engine`, with structured queries in place of SQL."""

    def __init__(self) -> None:
        self.sources: dict[str, Table | Window | Stream] = {}
        self.subscriptions: dict[str, Subscription] = {}

    def create_table(self, name: str, *, key: str, columns: Mapping[str, str]) -> None:
        self.sources[name] = Table(key, columns)

    def create_stream(
        self,
        name: str,
        *,
        columns: Mapping[str, str] | None = None,
        window: str | None = None,
        time: str | None = None,
        delay: str | None = None,
        key: str | None = None,
    ) -> None:
        if window is None:
            self.sources[name] = Stream(columns, key)
        else:
            assert columns is not None
            self.sources[name] = Window(columns, window, time, delay, key)

    def subscribe(self, query: Query | Threshold | Match, *, id: str, repeat: bool = False) -> str:
        self.subscriptions[id] = Subscription(id, query, repeat)
        return id

    def unsubscribe(self, id: str) -> None:
        del self.subscriptions[id]

    def publish(
        self, name: str, rows: Sequence[Row], *, each: bool = False, top: int | None = None
    ) -> list[Change]:
        """Apply the rows in order; the changes."""
        source = self.sources[name]
        if isinstance(source, Stream):
            return [change for row in rows for change in self._event(name, source, row, top)]
        changes: list[Change] = []
        before = self._answers(name)
        for row in rows:
            for number in source.take(row):
                if each:
                    after = self._answers(name)
                    changes += compare(before, after, number)
                    before = after
        if not each:
            changes = compare(before, self._answers(name), source.count - 1)
        return changes

    def delete(self, name: str, keys: Sequence[Value]) -> list[Change]:
        table = self.sources[name]
        assert isinstance(table, Table)
        return self.publish(name, [{table.key: key, "_op": "delete"} for key in keys])

    def advance(self, name: str, time: datetime) -> list[Change]:
        window = self.sources[name]
        assert isinstance(window, Window)
        before = self._answers(name)
        for _ in window.advance(time):
            pass
        return compare(before, self._answers(name), window.count - 1)

    def answer(self, id: str) -> list[Entry]:
        """The current answer with keys and scores; nothing for thresholds and matches."""
        query = self.subscriptions[id].query
        if isinstance(query, Threshold | Match):
            return []
        sources = []
        for name in query.sources:
            source = self.sources[name]
            assert not isinstance(source, Stream)
            sources.append(source)
        return query.answer(sources)

    def result(self, id: str) -> list[dict[str, Value]]:
        """The SELECT list of each row of the answer, in order."""
        subscription = self.subscriptions[id]
        query = subscription.query
        if isinstance(query, Threshold):
            missing = self._goal(query) - subscription.weight
            return [{query.name: float(subscription.weight), "missing": float(missing)}]
        return [dict(entry.shown) for entry in self.answer(id)]

    def _answers(self, name: str) -> dict[str, tuple[Query, list[Entry]]]:
        return {
            id: (subscription.query, self.answer(id))
            for id, subscription in self.subscriptions.items()
            if not isinstance(subscription.query, Threshold | Match) and name in subscription.query.sources
        }

    def _event(self, name: str, stream: Stream, row: Row, top: int | None) -> list[Change]:
        number, key, values = stream.take(row)
        weights = row.get("_weights") or {}
        assert isinstance(weights, Mapping)
        changes: list[Change] = []
        matches: list[tuple[float, str, Match]] = []
        for subscription in list(self.subscriptions.values()):
            query = subscription.query
            if isinstance(query, Threshold) and query.source == name:
                changes += self._weigh(subscription, query, number, key, values)
            elif isinstance(query, Match) and query.source == name:
                score = query.score(values, weights)
                if score is not None:
                    matches.append((score, subscription.id, query))
        matches.sort(key=lambda match: (-match[0], match[1]))
        for rank, (score, id, query) in enumerate(matches[:top], start=1):
            shown = {column: as_json(values.get(column)) for column in query.select}
            changes.append(Change(id, number, "match", key, score, rank if top else None, shown))
        return changes

    def _goal(self, query: Threshold) -> Fraction:
        columns = self.sources[query.source].columns
        assert columns is not None
        return query.goal(columns)

    def _weigh(
        self, subscription: Subscription, query: Threshold, number: int, key: str, values: Row
    ) -> list[Change]:
        subscription.weight += query.weight(values)
        if subscription.weight < self._goal(query):
            return []
        reached = float(subscription.weight)
        if subscription.repeat:
            subscription.weight = Fraction(0)
        else:
            del self.subscriptions[subscription.id]
        name: dict[str, object] | None = {"_name": values["_name"]} if "_name" in values else None
        return [Change(subscription.id, number, "mature", key, reached, None, name)]


def compare(
    before: Mapping[str, tuple[Query, list[Entry]]],
    after: Mapping[str, tuple[Query, list[Entry]]],
    seq: int,
) -> list[Change]:
    """The changes from the answers before to the answers after."""
    changes: list[Change] = []
    for id, (query, new) in after.items():
        _, old = before[id]
        if isinstance(query, Aggregate):
            if (old[0].score, old[0].key) != (new[0].score, new[0].key):
                changes.append(Change(id, seq, "value", new[0].key, new[0].score, None, None))
        else:
            changes += moves(id, old, new, seq)
    return changes


def moves(id: str, old: list[Entry], new: list[Entry], seq: int) -> list[Change]:
    """Leaves, then updates, then enters. A row that others pushed to another rank makes none."""
    was = {entry.identity: entry for entry in old}
    now = {entry.identity for entry in new}
    leaves = [entry for entry in old if entry.identity not in now]
    updates = [entry for entry in new if entry.identity in was and differs(was[entry.identity], entry)]
    enters = [entry for entry in new if entry.identity not in was]
    changes = [Change(id, seq, "leave", entry.key, None, None, None) for entry in leaves]
    for op, entries in (("update", updates), ("enter", enters)):
        for entry in entries:
            shown = {name: as_json(value) for name, value in entry.shown.items()}
            changes.append(Change(id, seq, op, entry.key, entry.score, entry.rank, shown))
    return changes


def differs(old: Entry, new: Entry) -> bool:
    """Another score, another selected value, or deleted and inserted again."""
    return (old.score, old.shown, old.born) != (new.score, new.shown, new.born)
