"""Tenants and what their keys may do, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

#: What a key may be for.
SCOPES = ("publish", "subscribe", "admin")


@dataclass(frozen=True)
class Quotas:
    """What a tenant may use at the same time, or a second."""

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
    """Who makes a request: the tenant of the key, the key's public part, and what it is for."""

    tenant: Tenant
    key: str
    scopes: frozenset[str]
