"""The hub of a gateway that is fed over NATS: it keeps subscriptions, and is told their answers.

Registrations are records on disk, as in every hub. Answers are not: edges make them anew from the job's
snapshot and messages at a start. So a start begins a new epoch, and cursors of before are too old.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from tocsin.engine.catalog import Declaration
from tocsin.gateway.book import Template, own_id
from tocsin.gateway.dealings import Receipt
from tocsin.gateway.failures import BadRequest, FedByJob, Unavailable
from tocsin.gateway.hub import Hub
from tocsin.gateway.spaces import Asked, check_space, is_granted, read_statement, source_of, template_of
from tocsin.gateway.statements import Checked, Grants
from tocsin.subscriber import Entry


class Seat(NamedTuple):
    """A subscription's place in its space."""

    asked: Asked
    lo: tuple[float, ...]
    hi: tuple[float, ...]


class Known(NamedTuple):
    """The answer of a seat, and the number of the last row that it knows of."""

    seat: Seat
    entries: list[Entry]
    seq: int


class EdgeHub(Hub):
    """Subscriptions to the spaces of a job. Rows, tables and streams are the job's own."""

    is_fed = True

    #: what was told since the start; `number` counts it beside the records on disk
    _news = 0

    def __init__(self, folder: Path, **settings: Any) -> None:
        #: names of the spaces that the job publishes
        self.spaces: list[str] = []
        self._seats: dict[str, Seat] = {}
        self._known: dict[str, Known] = {}
        self._arrived: list[str] = []
        self._gone: list[str] = []
        super().__init__(folder, **settings)
        self.epoch = secrets.token_hex(4)

    def moves(self) -> tuple[dict[str, Seat], list[str]]:
        """Who has come since the last time, and who has gone, by full id."""
        arrived = {full: self._seats[full] for full in self._arrived if full in self._seats}
        gone, self._arrived, self._gone = self._gone, [], []
        return arrived, gone

    def tell(self, found: Mapping[str, Known]) -> int:
        """Take in answers as they are now; the changes. The first answer of a subscription is none."""
        texts, count = [], 0
        for full, now in found.items():
            before = self._known.get(full)
            if self._seats.get(full) != now.seat:
                # It was ended meanwhile, and perhaps another one has its id.
                continue
            self._known[full] = now
            if before is not None:
                changes = now.seat.asked.difference(before.entries, now.entries, now.seq)
                count += len(changes)
                if changes:
                    texts.append((full, json.dumps(changes)))
        if texts:
            self._news += 1
            self.number += 1
            self._fresh += self._history.extend(self.number, texts)
        return count

    def check(self, sql: str, grants: Grants, params: Mapping[str, Any] | None = None) -> Checked:
        """What a statement would be, if the job has a space for it."""
        return check_space(sql, self.spaces, grants)

    def offered(self, grants: Grants) -> list[dict[str, Any]]:
        """The job's spaces that a tenant may subscribe to, each with a statement to begin with."""
        seen = [(space, source_of(space)) for space in self.spaces]
        return [
            {"space": space, "source": source, "sql": template_of(space)}
            for space, source in seen
            if is_granted(source, grants)
        ]

    def declarations(self, grants: Grants) -> list[Declaration]:
        """None: the job has the tables."""
        return []

    def declaration(self, name: str, grants: Grants) -> NoReturn:
        _refuse()

    def declare(self, declaration: Declaration) -> NoReturn:
        _refuse()

    def publish(
        self, name: str, form: str, body: bytes, *, tenant: str = "", batch: str | None = None
    ) -> NoReturn:
        _refuse()

    def delete(self, name: str, keys: Sequence[Any], *, tenant: str = "") -> NoReturn:
        _refuse()

    def advance(self, name: str, time: str | int, *, tenant: str = "") -> NoReturn:
        _refuse()

    def result(self, tenant: str, name: str) -> pa.Table:
        """A subscription's current answer. Raises Unavailable before there is one."""
        self.held(tenant, name)
        full = f"{tenant}/{name}"
        asked, known = self._seats[full].asked, self._known.get(full)
        if known is None:
            raise Unavailable("the job's snapshot has not been read yet: try again", retry_after=1.0)
        rows = [asked.row(entry) for entry in known.entries]
        if asked.form.kind in ("min", "max") and not rows:
            rows = [dict.fromkeys(asked.shown)]
        return pa.table({shown: [row[shown] for row in rows] for shown in asked.shown})

    def explain(self, tenant: str, name: str, event: Mapping[str, Any] | None = None) -> str:
        """Which space a subscription is in."""
        self.held(tenant, name)
        if event is not None:
            _refuse()
        form = self._seats[f"{tenant}/{name}"].asked.form
        return (
            f"subscription: {name}\nsource: {form.source}\nspace: {form}\nindex: kept by the job's messages"
        )

    def space(self, tenant: str, name: str, grants: Grants) -> dict[str, Any]:
        raise BadRequest("a space that a job tells of cannot be drawn here")

    def snapshot(self) -> None:
        with self._counting_records():
            super().snapshot()

    def _recover(self) -> None:
        self._seats = {}
        super()._recover()
        by_template: dict[Template, list[str]] = {}
        tenants = {template.tenant for template in self._book.templates()}
        for full, held in (each for tenant in tenants for each in self.page(tenant)):
            by_template.setdefault(held.template, []).append(full)
            # Nothing older than now can be told again.
            self._history.open(full, self.number + self._news)
        for template, fulls in by_template.items():
            values = [map(_number, self.held(template.tenant, own_id(full)).values) for full in fulls]
            columns = dict(zip(template.names, map(list, zip(*values, strict=True)), strict=False))
            self._keep(template, columns, fulls)

    def _accept(self, head: dict[str, Any], body: bytes = b"") -> Receipt:
        with self._counting_records():
            receipt = super()._accept(head, body)
        for name in receipt.ids:
            self._history.open(f"{head['tenant']}/{name}", self.number)
        return receipt._replace(number=self.number)

    @contextmanager
    def _counting_records(self) -> Iterator[None]:
        """Have `number` be that of the last record on disk for a while."""
        self.number -= self._news
        try:
            yield
        finally:
            self.number += self._news

    def _keep(self, template: Template, columns: Mapping[str, Any], fulls: Sequence[str]) -> None:
        asked = read_statement(template.kept)
        lo, hi = asked.bounds(columns, len(fulls))
        for full, low, high in zip(fulls, lo.tolist(), hi.tolist(), strict=True):
            if full not in self._known:
                self._arrived.append(full)
            self._seats[full] = Seat(asked, tuple(low), tuple(high))

    def _is_kept_so(self, template: Template, grants: Grants) -> bool:
        # Not by the spaces: that the job has none of them just now says nothing of rights.
        return is_granted(read_statement(template.kept).form.source, grants)

    def _is_kept(self, full: str) -> bool:
        return full in self._seats

    def _drop(self, full: str) -> None:
        if self._seats.pop(full, None) is not None:
            self._known.pop(full, None)
            self._gone.append(full)

    def _answers(self, fulls: Sequence[str]) -> dict[str, str]:
        known = ((full, self._known[full]) for full in fulls if full in self._known)
        return {full: json.dumps(each.seat.asked.enters(each.entries, each.seq)) for full, each in known}


def _number(value: Any) -> Any:
    """A parameter as it was bound: decimals are on disk as text."""
    return float(value) if isinstance(value, str) else value


def _refuse() -> NoReturn:
    raise FedByJob("this gateway is fed by a job over NATS: tables, streams and rows are the job's own")
