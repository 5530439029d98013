"""The hub of a gateway fed over NATS: it stores subscriptions and receives their answers.

Registrations are durable records, as in every hub. Answers are not: edges rebuild them from the job's
snapshot and messages at startup. So every start begins a new epoch, and cursors from before are too old.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from tocsin.engine.sources.catalog import Declaration
from tocsin.gateway.core.catalog import Template, own_id
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.protocol import Ack
from tocsin.gateway.core.statements import Checked
from tocsin.gateway.edge.spaces import (
    SpaceQuery,
    check_space,
    is_granted,
    read_statement,
    source_of,
    template_of,
)
from tocsin.gateway.failures import BadRequest, FedByJob, Unavailable
from tocsin.gateway.registry import Grants
from tocsin.subscriber import Entry


class Placement(NamedTuple):
    """The range of a subscription in its space."""

    query: SpaceQuery
    lo: tuple[float, ...]
    hi: tuple[float, ...]


class PlacementAnswer(NamedTuple):
    """The answer of a placement, and the number of the last row that it reflects."""

    placement: Placement
    entries: list[Entry]
    seq: int


class EdgeHub(Hub):
    """Subscriptions to a job's spaces. The job owns rows, tables and streams."""

    is_fed = True

    #: updates since the start; `number` counts them in addition to the records on disk
    _n_updates = 0

    def __init__(self, folder: Path, **settings: Any) -> None:
        #: names of the spaces that the job publishes
        self.spaces: list[str] = []
        self._placements: dict[str, Placement] = {}
        self._latest: dict[str, PlacementAnswer] = {}
        self._arrived: list[str] = []
        self._gone: list[str] = []
        super().__init__(folder, **settings)
        self.epoch = secrets.token_hex(4)

    def drain_moves(self) -> tuple[dict[str, Placement], list[str]]:
        """Take the subscriptions added and ended since the last call, by full id."""
        arrived = {full: self._placements[full] for full in self._arrived if full in self._placements}
        gone, self._arrived, self._gone = self._gone, [], []
        return arrived, gone

    def update_answers(self, answers: Mapping[str, PlacementAnswer]) -> int:
        """Set current answers; returns the number of changes. A first answer is not a change."""
        texts, count = [], 0
        for full, now in answers.items():
            before = self._latest.get(full)
            if self._placements.get(full) != now.placement:
                # It has ended meanwhile, and another subscription may have taken its id.
                continue
            self._latest[full] = now
            if before is not None:
                changes = now.placement.query.difference(before.entries, now.entries, now.seq)
                count += len(changes)
                if changes:
                    texts.append((full, json.dumps(changes)))
        if texts:
            self._n_updates += 1
            self.number += 1
            self._undelivered += self._history.extend(self.number, texts)
        return count

    def check(self, sql: str, grants: Grants, params: Mapping[str, Any] | None = None) -> Checked:
        """Check a statement: the job must have a space for it."""
        return check_space(sql, self.spaces, grants)

    def offered(self, grants: Grants) -> list[dict[str, Any]]:
        """The job's spaces that a tenant may subscribe to, each with a statement template."""
        spaces = [(space, source_of(space)) for space in self.spaces]
        return [
            {"space": space, "source": source, "sql": template_of(space)}
            for space, source in spaces
            if is_granted(source, grants)
        ]

    def declarations(self, grants: Grants) -> list[Declaration]:
        """None: the job owns the tables."""
        return []

    def declaration(self, name: str, grants: Grants) -> NoReturn:
        _refuse()

    def declare(self, declaration: Declaration) -> NoReturn:
        _refuse()

    def publish(
        self, name: str, form: str, body: bytes, *, tenant: str = "", batch: str | None = None
    ) -> NoReturn:
        _refuse()

    def delete(
        self, name: str, keys: Sequence[Any], *, tenant: str = "", batch: str | None = None
    ) -> NoReturn:
        _refuse()

    def advance(self, name: str, time: str | int, *, tenant: str = "", batch: str | None = None) -> NoReturn:
        _refuse()

    def result(self, tenant: str, name: str) -> pa.Table:
        """A subscription's current answer. Raises Unavailable before there is one."""
        self.subscription(tenant, name)
        full = f"{tenant}/{name}"
        query, latest = self._placements[full].query, self._latest.get(full)
        if latest is None:
            raise Unavailable("the job's snapshot has not been read yet: try again", retry_after=1.0)
        rows = [query.row(entry) for entry in latest.entries]
        if query.form.kind in ("min", "max") and not rows:
            rows = [dict.fromkeys(query.shown)]
        return pa.table({shown: [row[shown] for row in rows] for shown in query.shown})

    def explain(self, tenant: str, name: str, event: Mapping[str, Any] | None = None) -> str:
        """Which space a subscription is in."""
        self.subscription(tenant, name)
        if event is not None:
            _refuse()
        form = self._placements[f"{tenant}/{name}"].query.form
        lines = [f"subscription: {name}", f"source: {form.source}", f"space: {form}"]
        return "\n".join([*lines, "index: maintained by the job's messages"])

    def space(self, tenant: str, name: str, grants: Grants) -> dict[str, Any]:
        raise BadRequest("a space that a job publishes cannot be drawn here")

    def snapshot(self) -> None:
        with self._counting_records():
            super().snapshot()

    def _recover(self) -> None:
        self._placements = {}
        super()._recover()
        by_template: dict[Template, list[str]] = {}
        tenants = {template.tenant for template in self._catalog.templates()}
        for full, subscription in (each for tenant in tenants for each in self.page(tenant)):
            by_template.setdefault(subscription.template, []).append(full)
            # Changes from before the restart cannot be delivered again.
            self._history.open(full, self.number + self._n_updates)
        for template, fulls in by_template.items():
            values = [map(_number, self.subscription(template.tenant, own_id(full)).values) for full in fulls]
            columns = dict(zip(template.names, map(list, zip(*values, strict=True)), strict=False))
            self._maintain(template, columns, fulls)

    def _accept(self, head: dict[str, Any], body: bytes = b"") -> Ack:
        with self._counting_records():
            ack = super()._accept(head, body)
        for name in ack.ids:
            self._history.open(f"{head['tenant']}/{name}", self.number)
        return ack._replace(number=self.number)

    @contextmanager
    def _counting_records(self) -> Iterator[None]:
        """Within the block, `number` is that of the last record on disk."""
        self.number -= self._n_updates
        try:
            yield
        finally:
            self.number += self._n_updates

    def _maintain(self, template: Template, columns: Mapping[str, Any], fulls: Sequence[str]) -> None:
        query = read_statement(template.kept)
        lo, hi = query.bounds(columns, len(fulls))
        for full, low, high in zip(fulls, lo.tolist(), hi.tolist(), strict=True):
            if full not in self._latest:
                self._arrived.append(full)
            self._placements[full] = Placement(query, tuple(low), tuple(high))

    def _has_same_plan(self, template: Template, grants: Grants) -> bool:
        # Independent of the current spaces: a missing space says nothing about rights.
        return is_granted(read_statement(template.kept).form.source, grants)

    def _is_maintained(self, full: str) -> bool:
        return full in self._placements

    def _stop_maintaining(self, full: str) -> None:
        if self._placements.pop(full, None) is not None:
            self._latest.pop(full, None)
            self._gone.append(full)

    def _answers(self, fulls: Sequence[str]) -> dict[str, str]:
        latest = ((full, self._latest[full]) for full in fulls if full in self._latest)
        return {
            full: json.dumps(each.placement.query.enters(each.entries, each.seq)) for full, each in latest
        }


def _number(value: Any) -> Any:
    """A parameter as it was bound: decimals are stored as text."""
    return float(value) if isinstance(value, str) else value


def _refuse() -> NoReturn:
    raise FedByJob("this gateway is fed by a job over NATS: tables, streams and rows are the job's own")
