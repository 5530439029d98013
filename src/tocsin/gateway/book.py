"""The book of subscriptions: whose they are, what was asked, and how they want to be told."""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

#: How many of a tenant's matured thresholds are remembered, so that a client that was away hears of it.
REMEMBERED = 10_000


class Template(NamedTuple):
    """What the subscriptions of one registration have in common."""

    tenant: str
    sql: str
    #: as the engine keeps it: with the tenant's condition on rows
    kept: str
    kind: str
    names: tuple[str, ...]
    repeat: bool = False
    #: `squash` or `disconnect`: what happens to a consumer that is too slow
    policy: str = "squash"
    #: the least seconds between two updates; 0 for none
    throttle: float = 0.0
    #: whether it ends when nobody has watched it for a while
    temporary: bool = False


class Held(NamedTuple):
    """One subscription."""

    template: Template
    values: tuple[Any, ...]
    #: the record that created it
    number: int
    #: whether it has matured, and is only remembered
    is_over: bool = False

    @property
    def params(self) -> dict[str, Any]:
        return dict(zip(self.template.names, self.values, strict=True))


def full_id(tenant: str, name: str) -> str:
    """An id as the engine knows it: tenants' names have no slash."""
    return f"{tenant}/{name}"


def own_id(full: str) -> str:
    """An id as its tenant knows it."""
    return full.partition("/")[2]


class Book:
    """All subscriptions by full id, and by tenant in the order of their registration.

    All costs are constant a subscription, except where said.
    """

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}
        self._of_tenant: dict[str, dict[str, None]] = {}
        self._live: dict[str, int] = {}
        #: by tenant: those that have matured, the oldest first, each with the record that created it
        self._over: dict[str, deque[tuple[str, int]]] = {}
        #: templates, and how many subscriptions have each
        self._templates: Counter[Template] = Counter()
        self._interned: dict[Template, Template] = {}

    def __len__(self) -> int:
        return sum(self._live.values())

    def get(self, full: str) -> Held | None:
        return self._held.get(full)

    def live(self, tenant: str) -> int:
        """How many subscriptions of a tenant the engine keeps."""
        return self._live.get(tenant, 0)

    def is_free(self, full: str) -> bool:
        """Whether a new subscription may have the id: a matured one's is free again."""
        held = self._held.get(full)
        return held is None or held.is_over

    def fresh(self, tenant: str, number: int, count: int) -> list[str]:
        """Own ids for the subscriptions of record `number`, which nobody has."""
        made = (f"s{number}.{place}" if place else f"s{number}" for place in itertools.count())
        return list(islice((name for name in made if full_id(tenant, name) not in self._held), count))

    def add(self, full: str, held: Held) -> None:
        self.remove(full)
        template = self._interned.setdefault(held.template, held.template)
        self._templates[template] += 1
        self._held[full] = held._replace(template=template)
        self._of_tenant.setdefault(template.tenant, {})[full] = None
        if not held.is_over:
            self._live[template.tenant] = self.live(template.tenant) + 1

    def finish(self, full: str, number: int) -> list[str]:
        """A threshold has matured; the full ids of those that are no longer remembered therefore."""
        held = self._held[full]
        self._held[full] = held._replace(is_over=True)
        self._live[held.template.tenant] -= 1
        over = self._over.setdefault(held.template.tenant, deque())
        over.append((full, held.number))
        gone = []
        while len(over) > REMEMBERED:
            oldest, made = over.popleft()
            known = self._held.get(oldest)
            if known is not None and known.is_over and known.number == made:
                self.remove(oldest)
                gone.append(oldest)
        return gone

    def remove(self, full: str) -> None:
        held = self._held.pop(full, None)
        if held is not None:
            tenant = held.template.tenant
            del self._of_tenant[tenant][full]
            if not held.is_over:
                self._live[tenant] -= 1
            self._templates[held.template] -= 1
            if not self._templates[held.template]:
                del self._templates[held.template], self._interned[held.template]

    def page(self, tenant: str, after: str | None = None, limit: int | None = None) -> list[str]:
        """Full ids of a tenant's subscriptions, those that follow `after`. Cost: linear in those before."""
        names: Iterator[str] = iter(self._of_tenant.get(tenant, ()))
        if after is not None:
            for name in names:
                if name == after:
                    break
        return list(islice(names, limit))

    def templates(self) -> list[Template]:
        """What the subscriptions were registered with, each once."""
        return list(self._templates)

    def count(self, template: Template) -> int:
        """How many subscriptions have a template."""
        return self._templates[template]

    def temporary(self) -> list[str]:
        """Full ids of the subscriptions that end when nobody watches. Cost: linear."""
        return [full for full, held in self._held.items() if held.template.temporary]

    def dump(self) -> tuple[list[dict[str, Any]], pa.Table]:
        """Templates, and a table of subscriptions. Cost: linear."""
        numbers: dict[Template, int] = {}
        rows: list[tuple[str, int, str, int, bool]] = []
        for full, held in self._held.items():
            place = numbers.setdefault(held.template, len(numbers))
            rows.append((full, place, json.dumps(held.values), held.number, held.is_over))
        columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
        types = [pa.string(), pa.int32(), pa.string(), pa.int64(), pa.bool_()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        table = pa.table(arrays, names=["id", "template", "values", "number", "over"])
        return [template._asdict() for template in numbers], table

    @classmethod
    def load(cls, templates: Iterable[dict[str, Any]], table: pa.Table) -> Book:
        """What `dump` gave."""
        book = cls()
        made = [Template(**{**given, "names": tuple(given["names"])}) for given in templates]
        for row in table.to_pylist():
            held = Held(made[row["template"]], tuple(json.loads(row["values"])), row["number"], row["over"])
            book.add(row["id"], held)
            if row["over"]:
                over = book._over.setdefault(held.template.tenant, deque())
                over.append((row["id"], row["number"]))
        return book
