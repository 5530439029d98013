"""What the parts of a running server share."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tocsin.gateway.book import full_id, own_id
from tocsin.gateway.dealings import Receipt
from tocsin.gateway.desk import Desk
from tocsin.gateway.failures import Forbidden, Unauthorized, Unavailable
from tocsin.gateway.hub import MAX_LIMIT, Hub
from tocsin.gateway.metrics import Metrics
from tocsin.gateway.quotas import Allowance, Connections
from tocsin.gateway.recent import RECENT
from tocsin.gateway.registry import Identity, Registry, Tenant

logger = logging.getLogger(__name__)


class Connection(Protocol):
    """A WebSocket or a stream of events, as the server sees it."""

    identity: Identity
    kind: str

    def close(self, code: int, reason: str) -> None:
        """End it."""


@dataclass(frozen=True)
class Settings:
    """How a server runs. The defaults are for one machine."""

    folder: Path
    #: the registry's database; none is a SQLite file in the folder
    database: str | None = None
    #: origins of pages, beside the server's own, that may connect
    origins: tuple[str, ...] = ()
    #: the longest body of a request, and the longest frame, in bytes
    body_limit: int = 16 << 20
    frame_limit: int = 1 << 20
    #: batches of changes retained for each subscription, and characters over all
    retained: int = 256
    retained_characters: int = 64 << 20
    #: matches or firings of each subscription that a snapshot shows
    recent: int = RECENT
    #: the largest LIMIT of a statement
    max_limit: int = MAX_LIMIT
    #: seconds that a temporary subscription lasts when nobody watches it
    linger: float = 60.0
    #: subscriptions that one connection may watch
    watches: int = 10_000
    #: seconds that a connection may take to say who it is, and that a body may take to come
    patience: float = 10.0
    body_patience: float = 60.0
    #: bytes of bodies that are held at the same time
    bodies: int = 256 << 20
    #: seconds between two looks at the registry, for what another server has changed there
    recheck: float = 5.0
    #: NATS servers whose job feeds this gateway, with commas between them; none: it has tables of its own
    nats: str | None = None
    #: the job's root of subjects
    root: str = "tocsin"

    @property
    def url(self) -> str:
        return self.database or f"sqlite:///{self.folder.absolute() / 'registry.db'}"


@dataclass
class Server:
    """One server, while it runs."""

    settings: Settings
    registry: Registry
    desk: Desk
    metrics: Metrics
    allowance: Allowance = field(default_factory=Allowance)
    connections: Connections = field(default_factory=Connections)
    #: bytes of bodies that are held now
    held_bytes: int = 0
    #: tenants as they were seen last
    tenants: dict[str, Tenant] = field(default_factory=dict)
    open: set[Connection] = field(default_factory=set)
    #: temporary subscriptions that nobody watches, and since when
    lonely: dict[str, float] = field(default_factory=dict)
    is_stopping: bool = False
    _checked: float = 0.0

    @classmethod
    async def start(cls, settings: Settings) -> Server:
        """Open the registry and the hub, and go on from what is on disk."""
        settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        registry = await asyncio.to_thread(Registry, settings.url)
        metrics = Metrics()
        server = cls(settings, registry, await _desk(settings, metrics), metrics)
        for full in await server.desk.do(lambda hub: hub.temporary()):
            server.lonely[full] = server.desk.now()
        await server.recheck()
        return server

    def say_goodbye(self) -> None:
        """Take no more connections, and end those that are open."""
        self.is_stopping = True
        for connection in list(self.open):
            connection.close(1012, "the server is stopping: come back with the last cursor")

    async def stop(self) -> None:
        """Say goodbye, finish what waits, and close."""
        self.say_goodbye()
        await self.desk.close()
        self.registry.close()

    async def identify(self, authorization: str | None) -> Identity:
        """Who sends this header. Raises Unauthorized."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("send a key as `Authorization: Bearer tocsin_…`")
        return await self.identify_key(key.strip())

    async def identify_key(self, key: str) -> Identity:
        """Whose key this is. Raises Unauthorized."""
        found = self.registry.remembered(key) or await asyncio.to_thread(self.registry.identify, key)
        if found is None:
            raise Unauthorized("this key is not valid")
        return found

    def admit(self, connection: Connection) -> None:
        """Count a connection in. Raises QuotaExceeded."""
        if self.is_stopping:
            raise Unavailable("the server is stopping", retry_after=1.0)
        self.connections.take(connection.identity.tenant)
        self.metrics.connections.labels(connection.kind).inc()
        self.open.add(connection)

    def dismiss(self, connection: Connection) -> None:
        """Count a connection out."""
        if connection in self.open:
            self.open.discard(connection)
            self.metrics.connections.labels(connection.kind).dec()
            self.connections.give_back(connection.identity.tenant)

    def drop_key(self, key: str) -> None:
        """End the connections that were opened with a key."""
        for connection in list(self.open):
            if connection.identity.key == key:
                connection.close(4001, "the key has been revoked")

    def rights(self, identity: Identity) -> Tenant:
        """A tenant as it is now: of somebody who has been here for a while, not as it was then."""
        return self.tenants.get(identity.tenant.name, identity.tenant)

    async def adopt(self, tenant: Tenant) -> None:
        """Have a tenant's rights hold for its open connections, and end what they would keep otherwise."""
        # Before the job, so that whoever registers after it does so by the new rights.
        self.tenants[tenant.name] = tenant
        for connection in self.open:
            if connection.identity.tenant.name == tenant.name:
                connection.identity = replace(connection.identity, tenant=tenant)
        names = await self.desk.do(lambda hub: hub.outdated(tenant.name, tenant.grants))
        await self.end(tenant.name, names, "your rights have changed: subscribe again")

    async def recheck(self) -> None:
        """Take over what another server has changed in the registry: rights, and keys that were revoked."""
        self._checked = self.desk.now()
        for tenant in await asyncio.to_thread(self.registry.tenants):
            if self.tenants.get(tenant.name) != tenant:
                await self.adopt(tenant)
        keys = {connection.identity.key for connection in self.open}
        if keys:
            for key in keys - await asyncio.to_thread(self.registry.standing, keys):
                self.drop_key(key)

    async def unsubscribe(self, tenant: str, name: str) -> None:
        """End a subscription, and tell those who watch it. Raises NotFound."""
        await self.desk.do(lambda hub: hub.held(tenant, name))
        await self.end(tenant, [name], "it was ended")

    async def end(self, tenant: str, names: list[str], reason: str) -> None:
        """End subscriptions that are still there, and tell those who watch them."""

        def tell(receipt: Receipt) -> None:
            for name in receipt.ids:
                self.lonely.pop(full_id(tenant, name), None)
                self.desk.end(full_id(tenant, name), reason)

        if names:
            await self.desk.do(lambda hub: hub.unsubscribe(tenant, names), after=tell)

    async def sweep(self) -> None:
        """End the temporary subscriptions that nobody has watched for long enough; look at the registry."""
        until = self.desk.now() - self.settings.linger
        alone: dict[str, list[str]] = {}
        for full, since in list(self.lonely.items()):
            if self.desk.watched(full):
                del self.lonely[full]
            elif since <= until:
                del self.lonely[full]
                alone.setdefault(full.partition("/")[0], []).append(own_id(full))
        for tenant, names in alone.items():
            await self.end(tenant, names, "nobody watched it")
        if self.desk.now() - self._checked >= self.settings.recheck:
            await self.recheck()


async def _desk(settings: Settings, metrics: Metrics) -> Desk:
    """A desk with the hub that the settings ask for, as it is on disk."""
    kept: dict[str, Any] = {
        "retained": settings.retained,
        "retained_characters": settings.retained_characters,
        "max_limit": settings.max_limit,
        "recent": settings.recent,
    }
    if settings.nats is None:
        return Desk(await asyncio.to_thread(Hub, settings.folder / "hub", **kept), metrics)
    # Needs the extra `network` too.
    from tocsin.gateway.edge_desk import EdgeDesk
    from tocsin.gateway.edge_hub import EdgeHub

    hub = await asyncio.to_thread(EdgeHub, settings.folder / "edge", **kept)
    desk = EdgeDesk(hub, metrics, settings.nats, settings.root)
    try:
        await desk.follow()
    except BaseException:
        await desk.close()
        raise
    return desk


def require(identity: Identity, scope: str) -> None:
    """Raise Forbidden unless the key is for this."""
    if scope not in identity.scopes:
        raise Forbidden(f"this key is not for {scope}")
