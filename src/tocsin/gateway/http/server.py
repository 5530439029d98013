"""The state of a running server, shared by its endpoints: settings, registry, committer, connections."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from tocsin.gateway.core.answer_limits import MAX_LIMIT
from tocsin.gateway.core.catalog import full_id, own_id
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.protocol import Ack
from tocsin.gateway.core.recent import RECENT
from tocsin.gateway.failures import Forbidden, Unauthorized, Unavailable
from tocsin.gateway.http.quotas import Allowance, Connections
from tocsin.gateway.live.committer import GroupCommitter
from tocsin.gateway.metrics import Metrics
from tocsin.gateway.registry import Identity, Registry, Tenant

logger = logging.getLogger(__name__)


class Connection(Protocol):
    """A WebSocket or an event stream, as seen by the server."""

    identity: Identity
    kind: str

    def close(self, code: int, reason: str) -> None:
        """Close it."""


@dataclass(frozen=True)
class Settings:
    """Settings of a server. The defaults suit one machine."""

    folder: Path
    #: URL of the registry's database; None: a SQLite file in the folder
    database: str | None = None
    #: origins of pages that may connect, besides the server's own
    origins: tuple[str, ...] = ()
    #: the longest body of a request, and the longest frame, in bytes
    body_limit: int = 16 << 20
    frame_limit: int = 1 << 20
    #: batches of changes retained for each subscription, and characters in total
    retained: int = 256
    retained_characters: int = 64 << 20
    #: matches or firings of each subscription in its watch snapshot
    recent: int = RECENT
    #: the largest LIMIT of a statement
    max_limit: int = MAX_LIMIT
    #: seconds that a temporary subscription lasts without a watcher
    linger: float = 60.0
    #: subscriptions that one connection may watch
    watches: int = 10_000
    #: seconds that authentication by first frame may take, and that a body may take
    patience: float = 10.0
    body_patience: float = 60.0
    #: bytes of request bodies held at the same time
    bodies: int = 256 << 20
    #: seconds between two polls of the registry for changes by another server
    recheck: float = 5.0
    #: comma-separated NATS servers of the job that feeds this gateway; None: it has its own tables
    nats: str | None = None
    #: the job's root of subjects
    root: str = "tocsin"

    @property
    def url(self) -> str:
        return self.database or f"sqlite:///{self.folder.absolute() / 'registry.db'}"


@dataclass
class Server:
    """A running server."""

    settings: Settings
    registry: Registry
    committer: GroupCommitter
    metrics: Metrics
    allowance: Allowance = field(default_factory=Allowance)
    connections: Connections = field(default_factory=Connections)
    #: bytes of request bodies held now
    held_bytes: int = 0
    #: tenants as last read from the registry
    tenants: dict[str, Tenant] = field(default_factory=dict)
    open: set[Connection] = field(default_factory=set)
    #: temporary subscriptions without a watcher, and since when
    unwatched: dict[str, float] = field(default_factory=dict)
    is_stopping: bool = False
    _checked: float = 0.0

    @classmethod
    async def start(cls, settings: Settings) -> Server:
        """Open the registry and the hub, recovering from disk."""
        settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        registry = await asyncio.to_thread(Registry, settings.url)
        metrics = Metrics()
        server = cls(settings, registry, await _committer(settings, metrics), metrics)
        for full in await server.committer.execute(lambda hub: hub.temporary()):
            server.unwatched[full] = server.committer.now()
        await server.recheck()
        return server

    def say_goodbye(self) -> None:
        """Refuse new connections and close the open ones."""
        self.is_stopping = True
        for connection in list(self.open):
            connection.close(1012, "the server is stopping: resume from the last cursor")

    async def stop(self) -> None:
        """Close connections, finish what is queued, and close."""
        self.say_goodbye()
        await self.committer.close()
        self.registry.close()

    async def identify(self, authorization: str | None) -> Identity:
        """Authenticate by header. Raises Unauthorized."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized("send a key as `Authorization: Bearer tocsin_…`")
        return await self.identify_key(key.strip())

    async def identify_key(self, key: str) -> Identity:
        """Authenticate by key. Raises Unauthorized."""
        found = self.registry.remembered(key) or await asyncio.to_thread(self.registry.identify, key)
        if found is None:
            raise Unauthorized("this key is not valid")
        return found

    def admit(self, connection: Connection) -> None:
        """Register a connection. Raises QuotaExceeded."""
        if self.is_stopping:
            raise Unavailable("the server is stopping", retry_after=1.0)
        self.connections.take(connection.identity.tenant)
        self.metrics.connections.labels(connection.kind).inc()
        self.open.add(connection)

    def dismiss(self, connection: Connection) -> None:
        """Unregister a connection."""
        if connection in self.open:
            self.open.discard(connection)
            self.metrics.connections.labels(connection.kind).dec()
            self.connections.give_back(connection.identity.tenant)

    def drop_key(self, key: str) -> None:
        """Close the connections that were opened with a key."""
        for connection in list(self.open):
            if connection.identity.key == key:
                connection.close(4001, "the key has been revoked")

    def rights(self, identity: Identity) -> Tenant:
        """The tenant's current rights, which may have changed since the connection was opened."""
        return self.tenants.get(identity.tenant.name, identity.tenant)

    async def adopt(self, tenant: Tenant) -> None:
        """Apply a tenant's new rights to its connections, and end subscriptions that these rights change."""
        # Before the command, so that every later registration uses the new rights.
        self.tenants[tenant.name] = tenant
        for connection in self.open:
            if connection.identity.tenant.name == tenant.name:
                connection.identity = replace(connection.identity, tenant=tenant)
        names = await self.committer.execute(
            lambda hub: hub.outdated(tenant.name, tenant.grants), tenant=tenant.name
        )
        await self.end(tenant.name, names, "your rights have changed: subscribe again")

    async def recheck(self) -> None:
        """Apply what another server changed in the registry: rights, and revoked keys."""
        self._checked = self.committer.now()
        for tenant in await asyncio.to_thread(self.registry.tenants):
            if self.tenants.get(tenant.name) != tenant:
                await self.adopt(tenant)
        keys = {connection.identity.key for connection in self.open}
        if keys:
            for key in keys - await asyncio.to_thread(self.registry.standing, keys):
                self.drop_key(key)

    async def unsubscribe(self, tenant: str, name: str) -> None:
        """End a subscription and notify its watchers. Raises NotFound."""
        await self.committer.execute(lambda hub: hub.subscription(tenant, name), tenant=tenant)
        await self.end(tenant, [name], "it was ended")

    async def end(self, tenant: str, names: list[str], reason: str, *, only_temporary: bool = False) -> None:
        """End the subscriptions that still exist, and notify their watchers."""

        def notify(ack: Ack) -> None:
            for name in ack.ids:
                self.unwatched.pop(full_id(tenant, name), None)
                self.committer.end(full_id(tenant, name), reason)

        def unsubscribe(hub: Hub) -> Ack:
            # Another one may have the id of one that was ended meanwhile.
            ending = [name for name in names if not only_temporary or hub.is_temporary(tenant, name)]
            return hub.unsubscribe(tenant, ending)

        if names:
            await self.committer.execute(unsubscribe, tenant=tenant, after=notify)

    async def sweep(self) -> None:
        """End temporary subscriptions unwatched for too long, and poll the registry when due."""
        until = self.committer.now() - self.settings.linger
        alone: dict[str, list[str]] = {}
        for full, since in list(self.unwatched.items()):
            if self.committer.watched(full):
                del self.unwatched[full]
            elif since <= until:
                del self.unwatched[full]
                alone.setdefault(full.partition("/")[0], []).append(own_id(full))
        for tenant, names in alone.items():
            await self.end(tenant, names, "it had no watcher", only_temporary=True)
        if self.committer.now() - self._checked >= self.settings.recheck:
            await self.recheck()


async def _committer(settings: Settings, metrics: Metrics) -> GroupCommitter:
    """A committer with the hub that the settings ask for, recovered from disk."""
    limits: dict[str, Any] = {
        "retained": settings.retained,
        "retained_characters": settings.retained_characters,
        "max_limit": settings.max_limit,
        "recent": settings.recent,
    }
    if settings.nats is None:
        return GroupCommitter(await asyncio.to_thread(Hub, settings.folder / "hub", **limits), metrics)
    # Imported lazily: needs the extra `network`.
    from tocsin.gateway.edge.edge_committer import EdgeCommitter
    from tocsin.gateway.edge.edge_hub import EdgeHub

    hub = await asyncio.to_thread(EdgeHub, settings.folder / "edge", **limits)
    committer = EdgeCommitter(hub, metrics, settings.nats, settings.root)
    try:
        await committer.start()
    except BaseException:
        await committer.close()
        raise
    return committer


def require(identity: Identity, scope: str) -> None:
    """Raise Forbidden unless the key has this scope."""
    if scope not in identity.scopes:
        raise Forbidden(f"this key lacks the scope {scope}")
