"""The engine and its oracle side by side: every call goes to both, and all outcomes are compared."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import tocsin
from tests.oracles.engine import Change, OracleEngine
from tests.oracles.events import Match, Threshold
from tests.oracles.queries import Query, TopK
from tests.oracles.values import Row, Value

COLUMNS: dict[str, pa.DataType] = {
    "subscription": pa.string(),
    "seq": pa.int64(),
    "op": pa.string(),
    "key": pa.string(),
    "score": pa.float64(),
    "rank": pa.int32(),
}
SCHEMA = pa.schema(COLUMNS)
OPS = ("leave", "update", "enter", "value", "mature", "match")


def saved(engine: tocsin.Engine, folder: Path) -> dict[str, bytes]:
    """Everything that `save` writes, by name."""
    path = folder / "saved"
    with patch("os.fsync"):  # thousands of saves that need not survive a power cut
        engine.save(path)
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files if file.is_file()}


def changes_of(table: pa.Table) -> list[Change]:
    """The Arrow table of changes as the oracle writes them."""
    names = [*SCHEMA.names, "row"] if "row" in table.column_names else SCHEMA.names
    assert table.column_names == names
    assert table.select(SCHEMA.names).schema.remove_metadata() == SCHEMA
    changes = []
    for line in table.to_pylist():
        row = line.pop("row", None)
        changes.append(Change(**line, row=None if row is None else json.loads(row)))
    return changes


def plain(value: Any) -> Any:
    """A cell of a result: NaN as None, decimals as floats."""
    if isinstance(value, float) and math.isnan(value):
        return None
    return float(value) if isinstance(value, Decimal) else value


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """A result as rows."""
    return [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]


class ChangeSubscriber:
    """An answer maintained from changes alone: (key, score) pairs, ranked ones in order."""

    def __init__(self, query: Query, held: list[tuple[str | None, float | None]]) -> None:
        self.query = query
        self.held = held

    def hear(self, changes: list[Change]) -> None:
        """Apply the changes of one step."""
        gone = {change.key for change in changes if change.op in ("leave", "update")}
        self.held = [pair for pair in self.held if pair[0] not in gone]
        come = [change for change in changes if change.op in ("update", "enter")]
        for change in sorted(come, key=lambda change: change.rank or 0):
            place = len(self.held) if change.rank is None else change.rank - 1
            assert place <= len(self.held), "a rank beyond what the subscriber holds"
            self.held.insert(place, (change.key, change.score))
        for change in changes:
            if change.op == "value":
                self.held = [(change.key, change.score)]

    def agrees(self, answer: list[tuple[str | None, float | None]]) -> bool:
        if isinstance(self.query, TopK):
            return self.held == answer
        return sorted(self.held, key=repr) == sorted(answer, key=repr)


class Pair:
    """`tocsin.Engine` and `OracleEngine`, checked against each other at every call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.real = tocsin.Engine()
        self.oracle = OracleEngine()
        self.subscribers: dict[str, ChangeSubscriber] = {}
        self.n_ids = 0

    def create_table(self, name: str, *, key: str, columns: Mapping[str, str]) -> None:
        self.real.create_table(name, key=key, columns=dict(columns))
        self.oracle.create_table(name, key=key, columns=columns)

    def create_stream(self, name: str, **options: Any) -> None:
        self.real.create_stream(name, **options)
        self.oracle.create_stream(name, **options)

    def new_id(self) -> str:
        """Ids whose string order is not their order of registration."""
        self.n_ids += 1
        return f"q{self.n_ids * 7 % 1000}"

    def subscribe(self, query: Query | Threshold | Match, *, repeat: bool = False) -> str:
        id = self.new_id()
        params: dict[str, Any] = dict(query.params())
        assert self.real.subscribe(query.sql(), id=id, repeat=repeat, **params) == id
        self._know(id, query, repeat)
        return id

    def subscribe_many(self, queries: Sequence[Query | Threshold | Match]) -> None:
        """Queries of one template, their parameters as columns."""
        (sql,) = {query.sql() for query in queries}
        ids = [self.new_id() for _ in queries]
        columns: dict[str, list[Any]] = {"id": list(ids)}
        for name in queries[0].params():
            columns[name] = [query.params()[name] for query in queries]
        assert self.real.subscribe_many(sql, pa.table(columns)) == len(queries)
        for id, query in zip(ids, queries, strict=True):
            self._know(id, query, repeat=False)

    def _know(self, id: str, query: Query | Threshold | Match, repeat: bool) -> None:
        self.oracle.subscribe(query, id=id, repeat=repeat)
        if not isinstance(query, Threshold | Match):
            self.subscribers[id] = ChangeSubscriber(query, self._answer(id))

    def unsubscribe(self, id: str) -> None:
        self.real.unsubscribe(id)
        self.oracle.unsubscribe(id)
        self.subscribers.pop(id, None)

    def publish(self, name: str, rows: Sequence[Row], *, each: bool = False, top: int | None = None) -> None:
        options: dict[str, Any] = {} if top is None else {"top": top}
        got = self.real.publish(name, [dict(row) for row in rows], each=each, rows=True, **options)
        self._compare(got, self.oracle.publish(name, rows, each=each, top=top))

    def delete(self, name: str, keys: Sequence[Value]) -> None:
        got = self.real.delete(name, list(keys))
        want = self.oracle.delete(name, keys)
        self._compare(got, [change._replace(row=None) for change in want])

    def advance(self, name: str, time: datetime) -> None:
        got = self.real.advance(name, time)
        want = self.oracle.advance(name, time)
        self._compare(got, [change._replace(row=None) for change in want])

    def refuses(self, error: type[tocsin.Error], call: Callable[[tocsin.Engine], object]) -> None:
        """The call raises the error, and what `save` writes is the same before and after."""
        before = saved(self.real, self.folder)
        with pytest.raises(error):
            call(self.real)
        assert saved(self.real, self.folder) == before

    def reload(self) -> None:
        """Replace the engine by a saved and loaded one."""
        before = saved(self.real, self.folder)
        self.real = tocsin.Engine.load(self.folder / "saved")
        assert saved(self.real, self.folder) == before

    def check(self) -> None:
        """Every result equals the oracle's and that of the change subscriber."""
        for id, subscription in self.oracle.subscriptions.items():
            got = rows_of(self.real.result(id))
            want = [] if isinstance(subscription.query, Match) else self.oracle.result(id)
            assert got == want, f"{id}, {subscription.query.sql()}: the result is {got}, not {want}"
        for id, subscriber in self.subscribers.items():
            answer = self._answer(id)
            assert subscriber.agrees(answer), f"the subscriber of {id} holds {subscriber.held}, not {answer}"

    def _answer(self, id: str) -> list[tuple[str | None, float | None]]:
        return [(entry.key, entry.score) for entry in self.oracle.answer(id)]

    def _compare(self, table: pa.Table, want: list[Change]) -> None:
        got = changes_of(table)
        ids = {change.subscription for change in got} | {change.subscription for change in want}
        for id in sorted(ids):
            ours = steps([change for change in got if change.subscription == id])
            theirs = steps([change for change in want if change.subscription == id])
            ranked = id in self.subscribers and isinstance(self.subscribers[id].query, TopK)
            told, due = ([ordered(step, ranked) for step in side] for side in (ours, theirs))
            assert told == due, f"{id} was told {told}, not {due}"
            if id in self.subscribers:
                for step in ours:
                    self.subscribers[id].hear(step)


def steps(changes: list[Change]) -> list[list[Change]]:
    """Changes of one subscription, cut where `seq` changes."""
    found: list[list[Change]] = []
    for change in changes:
        if not found or found[-1][0].seq != change.seq:
            found.append([])
        found[-1].append(change)
    return found


def ordered(step: list[Change], ranked: bool) -> list[Change]:
    """The step as it is; where nothing is ranked, the order within one op is not promised."""
    ops = [OPS.index(change.op) for change in step]
    assert ops == sorted(ops), "leaves, then updates, then enters"
    if ranked:
        return step
    return sorted(step, key=lambda change: (OPS.index(change.op), change.key or ""))
