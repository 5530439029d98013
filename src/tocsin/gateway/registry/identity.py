"""Tenants, identities and scopes, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: The tenant that runs the server: its admins declare sources and create tenants.
OPERATOR = "main"

#: In a grant: all sources.
EVERY = "*"

#: What a tenant may see: by source, or EVERY, a condition on its rows; an empty one allows all rows.
Grants = Mapping[str, str]

#: The scopes of keys.
SCOPES = ("publish", "subscribe", "admin")


@dataclass(frozen=True)
class Quotas:
    """A tenant's limits on concurrent use and on rows a second."""

    subscriptions: int = 100_000
    connections: int = 20_000
    rows_per_second: float = 100_000.0


@dataclass(frozen=True)
class Tenant:
    """A tenant: the sources it may see, each with a condition on rows, and its quotas."""

    name: str
    grants: dict[str, str] = field(default_factory=dict)
    quotas: Quotas = Quotas()


@dataclass(frozen=True)
class Identity:
    """The sender of a request: the key's tenant, its public part, and its scopes."""

    tenant: Tenant
    key: str
    scopes: frozenset[str]
