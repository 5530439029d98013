"""The catalog of subscriptions: their tenants, statements, parameters and delivery options."""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

#: Matured thresholds retained for each tenant, so that a client that was offline learns of them.
REMEMBERED = 10_000


class Template(NamedTuple):
    """What all subscriptions of one registration share. Its field names are on disk."""

    tenant: str
    sql: str
    #: the statement that the engine maintains: with the tenant's condition on rows
    kept: str
    kind: str
    names: tuple[str, ...]
    repeat: bool = False
    #: `squash` or `disconnect`: what to do with a consumer that is too slow
    policy: str = "squash"
    #: minimum seconds between two updates; 0 for no limit
    throttle: float = 0.0
    #: whether it ends after a while without a watcher
    temporary: bool = False


class Subscription(NamedTuple):
    """One subscription."""

    template: Template
    values: tuple[Any, ...]
    #: the record that created it
    number: int
    #: whether it has matured: the engine no longer maintains it
    is_matured: bool = False

    @property
    def params(self) -> dict[str, Any]:
        return dict(zip(self.template.names, self.values, strict=True))


def full_id(tenant: str, name: str) -> str:
    """An id as the engine knows it. Unambiguous: names of tenants contain no slash."""
    return f"{tenant}/{name}"


def own_id(full: str) -> str:
    """An id as its tenant knows it."""
    return full.partition("/")[2]


class SubscriptionCatalog:
    """All subscriptions, by full id and by tenant in registration order.

    Constant cost a subscription unless stated otherwise.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Subscription] = {}
        self._of_tenant: dict[str, dict[str, None]] = {}
        self._live: dict[str, int] = {}
        #: by tenant: matured subscriptions, oldest first, each with the record that created it
        self._matured: dict[str, deque[tuple[str, int]]] = {}
        #: number of subscriptions of each template
        self._templates: Counter[Template] = Counter()
        self._interned: dict[Template, Template] = {}

    def __len__(self) -> int:
        return sum(self._live.values())

    def get(self, full: str) -> Subscription | None:
        return self._by_id.get(full)

    def live(self, tenant: str) -> int:
        """Number of a tenant's subscriptions that the engine maintains."""
        return self._live.get(tenant, 0)

    def is_free(self, full: str) -> bool:
        """Whether a new subscription may take the id. A matured subscription frees its id."""
        subscription = self._by_id.get(full)
        return subscription is None or subscription.is_matured

    def new_ids(self, tenant: str, number: int, count: int) -> list[str]:
        """Unused own ids for the subscriptions that record `number` creates."""
        made = (f"s{number}.{place}" if place else f"s{number}" for place in itertools.count())
        return list(islice((name for name in made if full_id(tenant, name) not in self._by_id), count))

    def add(self, full: str, subscription: Subscription) -> None:
        self.remove(full)
        template = self._interned.setdefault(subscription.template, subscription.template)
        self._templates[template] += 1
        self._by_id[full] = subscription._replace(template=template)
        self._of_tenant.setdefault(template.tenant, {})[full] = None
        if not subscription.is_matured:
            self._live[template.tenant] = self.live(template.tenant) + 1

    def mark_matured(self, full: str, number: int) -> list[str]:
        """Mark a threshold as matured; returns the full ids evicted in its favour."""
        subscription = self._by_id[full]
        self._by_id[full] = subscription._replace(is_matured=True)
        self._live[subscription.template.tenant] -= 1
        matured = self._matured.setdefault(subscription.template.tenant, deque())
        matured.append((full, subscription.number))
        evicted = []
        while len(matured) > REMEMBERED:
            oldest, record = matured.popleft()
            old = self._by_id.get(oldest)
            if old is not None and old.is_matured and old.number == record:
                self.remove(oldest)
                evicted.append(oldest)
        return evicted

    def remove(self, full: str) -> None:
        subscription = self._by_id.pop(full, None)
        if subscription is not None:
            tenant = subscription.template.tenant
            del self._of_tenant[tenant][full]
            if not subscription.is_matured:
                self._live[tenant] -= 1
            self._templates[subscription.template] -= 1
            if not self._templates[subscription.template]:
                del self._templates[subscription.template], self._interned[subscription.template]

    def page(self, tenant: str, after: str | None = None, limit: int | None = None) -> list[str]:
        """Full ids of a tenant's subscriptions after `after`. Cost: linear in those before."""
        names: Iterator[str] = iter(self._of_tenant.get(tenant, ()))
        if after is not None:
            for name in names:
                if name == after:
                    break
        return list(islice(names, limit))

    def templates(self) -> list[Template]:
        """The distinct templates in use."""
        return list(self._templates)

    def count(self, template: Template) -> int:
        """Number of subscriptions of a template."""
        return self._templates[template]

    def temporary(self) -> list[str]:
        """Full ids of temporary subscriptions. Cost: linear."""
        return [full for full, subscription in self._by_id.items() if subscription.template.temporary]

    def dump(self) -> tuple[list[dict[str, Any]], pa.Table]:
        """Templates and a table of subscriptions, for a snapshot. Cost: linear."""
        numbers: dict[Template, int] = {}
        rows: list[tuple[str, int, str, int, bool]] = []
        for full, subscription in self._by_id.items():
            place = numbers.setdefault(subscription.template, len(numbers))
            rows.append(
                (full, place, json.dumps(subscription.values), subscription.number, subscription.is_matured)
            )
        columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
        types = [pa.string(), pa.int32(), pa.string(), pa.int64(), pa.bool_()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        table = pa.table(arrays, names=["id", "template", "values", "number", "over"])
        return [template._asdict() for template in numbers], table

    @classmethod
    def load(cls, templates: Iterable[dict[str, Any]], table: pa.Table) -> SubscriptionCatalog:
        """Restore from the output of `dump`."""
        catalog = cls()
        loaded = [Template(**{**fields, "names": tuple(fields["names"])}) for fields in templates]
        for row in table.to_pylist():
            subscription = Subscription(
                loaded[row["template"]], tuple(json.loads(row["values"])), row["number"], row["over"]
            )
            catalog.add(row["id"], subscription)
            if row["over"]:
                matured = catalog._matured.setdefault(subscription.template.tenant, deque())
                matured.append((row["id"], row["number"]))
        return catalog
