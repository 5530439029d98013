"""The hub's state, and how each record changes it, whether new or replayed from the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.engine import Engine
from tocsin.engine.pair_bound import PairBound
from tocsin.engine.sources.catalog import Declaration
from tocsin.errors import ParameterError, RowError, StateError, UnknownSource
from tocsin.gateway.core.answer_limits import INEXACT, MAX_LIMIT, most_pairs, overgrown_joins
from tocsin.gateway.core.bodies import read_arrow, read_rows
from tocsin.gateway.core.catalog import Subscription, SubscriptionCatalog, Template, full_id
from tocsin.gateway.core.changes import by_subscription, newest_events, texts
from tocsin.gateway.core.durable import DurableHub
from tocsin.gateway.core.history import History
from tocsin.gateway.core.idempotency import IdempotencyKeys
from tocsin.gateway.core.protocol import Ack
from tocsin.gateway.core.recent import RECENT, Recent
from tocsin.gateway.core.sketches import Sketches
from tocsin.gateway.core.statements import schema_of
from tocsin.gateway.core.storage import snapshots
from tocsin.gateway.core.storage.log import Record
from tocsin.gateway.failures import Conflict


class HubState(DurableHub):
    """The engine, the catalog of subscriptions, and their latest changes."""

    def __init__(
        self,
        folder: Path,
        *,
        retained: int = 256,
        retained_characters: int = 64 << 20,
        max_limit: int = MAX_LIMIT,
        recent: int = RECENT,
    ) -> None:
        self._max_limit = max_limit
        self._recent_count = recent
        self._retained = retained, retained_characters
        self._ended: dict[str, str] = {}
        self._is_replaying = False
        super().__init__(folder)

    def drain_ended(self) -> dict[str, str]:
        """Take the subscriptions that rows have ended since the last call, with the reasons."""
        found, self._ended = self._ended, {}
        return found

    def _recover(self) -> None:
        self._is_replaying = True
        try:
            super()._recover()
        finally:
            self._is_replaying = False
            # What replayed records ended: their watchers were notified before, or have gone.
            self._ended = {}

    def _restore(self) -> int:
        history = History(per_subscription=self._retained[0], characters=self._retained[1])
        self._recent = Recent(self._recent_count)
        snapshot = snapshots.read(self._folder, history, self._recent)
        facts: dict[str, Any] = snapshot.facts if snapshot else {"taken": [], "sources": []}
        self.engine = snapshot.engine if snapshot else Engine()
        self._catalog = snapshot.catalog if snapshot else SubscriptionCatalog()
        self._history = history
        self._sketches = Sketches()
        self._declarations = {each["name"]: Declaration(**each) for each in facts["sources"]}
        self._schemas = {name: schema_of(each) for name, each in self._declarations.items()}
        self._requests = IdempotencyKeys.load(facts.get("taken", ()), facts.get("batches", ()))
        return snapshot.number if snapshot else 0

    def _state(self) -> snapshots.State:
        facts = {
            "taken": self._requests.dump(),
            "sources": [each.as_dict() for each in self._declarations.values()],
        }
        return snapshots.State(self.number, self.engine, self._catalog, self._history, self._recent, facts)

    def _perform(self, record: Record) -> Ack:
        head = record.head
        match head["op"]:
            case "declare":
                declaration = Declaration(**head["source"])
                self.engine.declare(declaration)
                self._declarations[declaration.name] = declaration
                self._schemas[declaration.name] = schema_of(declaration)
                return Ack(record.number)
            case "subscribe":
                return self._register(record)
            case "unsubscribe":
                for name in head["ids"]:
                    self._end(full_id(head["tenant"], name))
                return Ack(record.number)
            case "publish":
                return self._take_rows(record)
            case "delete":
                with self._bounded(record, len(head["keys"])) as pairs:
                    changes = self.engine.delete(head["source"], head["keys"], rows=True, pairs=pairs)
                key = self._declarations[head["source"]].key
                self._sketches.publish(
                    head["source"], [{key: value, "_op": "delete"} for value in head["keys"]]
                )
                return self._emit_once(record, changes, rows=len(head["keys"]))
            case "advance":
                changes = self.engine.advance(head["source"], head["time"], rows=True)
                return self._emit_once(record, changes)
            case other:
                raise StateError(f"record {record.number} has the unknown operation {other!r}")

    def _register(self, record: Record) -> Ack:
        head = record.head
        if "id" in head:
            columns = {name: [value] for name, value in head["params"].items()}
            rows = [dict(head["params"])]
            names = [head["id"]]
        else:
            table = read_arrow(record.body)
            names = _ids(table.column("id"))
            columns = {name: table.column(name) for name in table.column_names if name != "id"}
            rows = table.drop_columns(["id"]).to_pylist()
        fulls = [full_id(head["tenant"], name) for name in names]
        for name, full in zip(names, fulls, strict=True):
            if not self._catalog.is_free(full):
                raise Conflict(f"subscription id {name!r} is taken")
        if len(set(fulls)) < len(fulls):
            raise Conflict("a subscription id occurs twice")
        template = Template(**{**head["template"], "names": tuple(columns)})
        self._maintain(template, columns, fulls)
        for full, row in zip(fulls, rows, strict=True):
            self._catalog.add(full, Subscription(template, tuple(map(_plain, row.values())), record.number))
            self._history.open(full, record.number)
            self._recent.forget(full)
        # Ids of a bulk registration are not remembered: a retried request does not return them.
        remembered = names if len(names) == 1 else ()
        self._requests.remember(head, Ack(record.number, tuple(remembered), len(names)))
        return Ack(record.number, tuple(names), len(names))

    def _take_rows(self, record: Record) -> Ack:
        head = record.head
        name = head["source"]
        if name not in self._schemas:
            raise UnknownSource(f"there is no table or stream {name!r}")
        # Older logs may hold what is refused today.
        rows = read_rows(head["form"], record.body, unique=not self._is_replaying)
        with self._bounded(record, len(rows)) as pairs:
            changes = self._publish(record, rows, pairs)
        self._sketches.publish(name, rows)
        return self._emit_once(record, changes, rows=len(rows))

    def _publish(self, record: Record, rows: Any, pairs: PairBound | None) -> pa.Table:
        """The changes of rows. Ends other tenants' subscriptions that cannot be exact with them."""
        name, tenant = record.head["source"], record.head.get("tenant", "")
        try:
            return self.engine.publish(name, rows, rows=True, pairs=pairs)
        except RowError:
            refusing = self.engine.refusing(name, rows)
            if not refusing or any(full.startswith(f"{tenant}/") for full in refusing):
                raise
            self._end_for(record, dict.fromkeys(refusing, INEXACT))
        return self.engine.publish(name, rows, rows=True, pairs=pairs)

    def _emit_once(self, record: Record, changes: pa.Table, rows: int = 0) -> Ack:
        """Emit the changes of a record, and remember the reply if its request came with a key."""
        ack = self._emit(record, changes, rows)
        self._requests.remember(record.head, ack)
        return ack

    def _emit(self, record: Record, changes: pa.Table, rows: int = 0) -> Ack:
        number = record.number
        if changes.num_rows:
            rendered = texts(changes)
            self._undelivered += self._history.extend(number, by_subscription(changes, rendered))
            self._recent.extend(number, newest_events(changes, rendered, self._recent.count))
        if "mature" in changes.column("op").unique().to_pylist():
            for full in changes.column("subscription").unique().to_pylist():
                if full not in self.engine:
                    for evicted in self._catalog.mark_matured(full, number):
                        self._history.forget(evicted)
                        self._recent.forget(evicted)
        # A publisher must not learn of other tenants' alerts, not even how many there are.
        tenant = record.head.get("tenant") or str(record.head.get("batch") or "").partition("/")[0]
        own = pc.sum(pc.starts_with(changes.column("subscription"), f"{tenant}/")).as_py() or 0
        return Ack(number, (), rows, own, changes.num_rows)

    def _maintain(self, template: Template, columns: Mapping[str, Any], fulls: Sequence[str]) -> None:
        """Start maintaining the answers of new subscriptions."""
        self.engine.subscribe_many(template.kept, {**columns, "id": fulls}, repeat=template.repeat)

    def _is_maintained(self, full: str) -> bool:
        return full in self.engine

    def _stop_maintaining(self, full: str) -> None:
        """Stop maintaining an answer."""
        if full in self.engine:
            self.engine.unsubscribe(full)

    def _end(self, full: str) -> None:
        self._stop_maintaining(full)
        self._catalog.remove(full)
        self._history.forget(full)
        self._recent.forget(full)

    @contextmanager
    def _bounded(self, record: Record, rows: int) -> Iterator[PairBound | None]:
        """A bound for the joins that the rows of a record change; those that it ends are part of the record.

        So a replay of the record ends the same joins, whatever the bound is then.
        """
        if self._is_replaying:
            for full in record.head.get("ended", ()):
                self._end(full)
            yield None
            return
        ended: dict[str, str] = {}

        def choose(counts: Mapping[str, int]) -> list[str]:
            ended.update(overgrown_joins(counts, rows, self._max_limit, self._number_of))
            return list(ended)

        yield PairBound(most_pairs(rows, self._max_limit), choose)
        if ended:
            self._end_for(record, ended)

    def _end_for(self, record: Record, ended: Mapping[str, str]) -> None:
        """End subscriptions as a part of the record, and tell their watchers the reasons."""
        record.head["ended"] = [*record.head.get("ended", ()), *ended]
        for full in ended:
            self._end(full)
        self._ended |= ended

    def _number_of(self, full: str) -> int:
        """The record that created a subscription."""
        subscription = self._catalog.get(full)
        return 0 if subscription is None else subscription.number


def _ids(column: pa.ChunkedArray) -> list[str]:
    if column.null_count:
        raise ParameterError("an id is null")
    return [str(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    """A parameter as a JSON value."""
    return value if isinstance(value, str | int | float | bool | None) else str(value)
