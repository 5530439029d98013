"""The registry: tenants and keys in SQLite or PostgreSQL, migrated when opened.

A key is `tocsin_<public part>_<secret>`. It is shown once; the database stores a digest of the secret.
Thread-safe.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.resources import files

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, select
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    SQLAlchemyError,
)
from sqlalchemy.orm import Session

from tocsin.errors import DeclarationError, StateError
from tocsin.gateway.failures import BadRequest, Conflict, NotFound, Unavailable
from tocsin.gateway.registry.identity import EVERY, OPERATOR, SCOPES, Identity, Quotas, Tenant
from tocsin.gateway.registry.models import KeyRow, TenantRow

#: Seconds that a key is cached: a revocation by another process takes effect after that.
REMEMBERED = 5.0

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_KEY = re.compile(r"tocsin_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


@dataclass(frozen=True)
class KeyInfo:
    """A key without its secret."""

    id: str
    tenant: str
    scopes: tuple[str, ...]
    label: str
    created: datetime
    revoked: datetime | None


class Registry:
    """Tenants and keys. Opening it migrates the database and creates the operator's tenant."""

    def __init__(self, url: str) -> None:
        try:
            self._engine = create_engine(_with_driver(url), pool_pre_ping=True)
            with self._engine.begin() as connection:
                config = Config()
                config.set_main_option(
                    "script_location", str(files("tocsin.gateway.registry") / "migrations")
                )
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except (ArgumentError, NoSuchModuleError) as failure:
            raise StateError(f"the registry cannot use this database: {failure}") from None
        except SQLAlchemyError as failure:
            raise StateError(
                f"the registry's database does not answer: {type(failure).__name__}"
            ) from failure
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, Identity | None]] = {}
        #: incremented by every change, so that what was read before it is not cached after it
        self._age = 0
        if OPERATOR not in {tenant.name for tenant in self.tenants()}:
            self.create_tenant(Tenant(OPERATOR, {EVERY: ""}))

    def close(self) -> None:
        self._engine.dispose()

    def tenants(self) -> list[Tenant]:
        """All tenants, by name."""
        with self._session() as session:
            return [_tenant(row) for row in session.scalars(select(TenantRow).order_by(TenantRow.name))]

    def tenant(self, name: str) -> Tenant:
        """One tenant. Raises NotFound."""
        with self._session() as session:
            row = session.get(TenantRow, name)
            if row is None:
                raise NotFound(f"there is no tenant {name!r}")
            return _tenant(row)

    def create_tenant(self, tenant: Tenant) -> None:
        """Create a tenant. Raises Conflict."""
        if not _NAME.fullmatch(tenant.name):
            raise DeclarationError("a tenant's name is up to 40 of a-z, 0-9 and -, and starts with a letter")
        row = TenantRow(
            name=tenant.name, grants=tenant.grants, quotas=asdict(tenant.quotas), created=datetime.now(UTC)
        )
        try:
            with self._session() as session, session.begin():
                session.add(row)
        except IntegrityError:
            raise Conflict(f"tenant {tenant.name!r} exists already") from None

    def change_tenant(self, tenant: Tenant) -> None:
        """Replace a tenant's grants and quotas. Raises NotFound."""
        with self._session() as session, session.begin():
            row = session.get(TenantRow, tenant.name)
            if row is None:
                raise NotFound(f"there is no tenant {tenant.name!r}")
            row.grants, row.quotas = tenant.grants, asdict(tenant.quotas)
        self._forget()

    def create_key(self, tenant: str, scopes: Iterable[str], label: str = "") -> tuple[KeyInfo, str]:
        """Create a key; returns its text, which cannot be shown again. Raises NotFound, BadRequest."""
        ordered = tuple(scope for scope in SCOPES if scope in set(scopes))
        if not ordered or set(scopes) - set(SCOPES):
            raise BadRequest(f"a key has one or more of the scopes {', '.join(SCOPES)}")
        self.tenant(tenant)
        public, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        row = KeyRow(
            id=public,
            tenant=tenant,
            digest=_digest(secret),
            scopes=list(ordered),
            label=label[:200],
            created=datetime.now(UTC),
            revoked=None,
        )
        with self._session() as session, session.begin():
            session.add(row)
            info = _info(row)
        return info, f"tocsin_{public}_{secret}"

    def keys(self, tenant: str) -> list[KeyInfo]:
        """The keys of a tenant, oldest first."""
        query = select(KeyRow).where(KeyRow.tenant == tenant).order_by(KeyRow.created, KeyRow.id)
        with self._session() as session:
            return [_info(row) for row in session.scalars(query)]

    def has_keys(self) -> bool:
        with self._session() as session:
            return session.scalars(select(KeyRow.id).limit(1)).first() is not None

    def revoke(self, tenant: str, key: str) -> None:
        """Revoke a key of the tenant (the operator: of any), at once in this process. Raises NotFound."""
        with self._session() as session, session.begin():
            row = session.get(KeyRow, key)
            if row is None or tenant not in (row.tenant, OPERATOR):
                raise NotFound(f"there is no key {key!r}")
            row.revoked = row.revoked or datetime.now(UTC)
        self._forget()

    def standing(self, keys: Iterable[str]) -> set[str]:
        """The keys among these that have not been revoked."""
        query = select(KeyRow.id).where(KeyRow.id.in_(list(keys)), KeyRow.revoked.is_(None))
        with self._session() as session:
            return set(session.scalars(query))

    def remembered(self, text: str) -> Identity | None:
        """The identity of a key if cached; does not query the database."""
        with self._lock:
            until, identity = self._known.get(_digest(text), (0.0, None))
        return identity if time.monotonic() < until else None

    def identify(self, text: str) -> Identity | None:
        """The identity of a key, or None. Compares secrets in constant time."""
        age = self._age
        identity = self._identify(text)
        if identity is not None:
            with self._lock:
                if len(self._known) > 10_000:
                    self._known.clear()
                if age == self._age:
                    self._known[_digest(text)] = time.monotonic() + REMEMBERED, identity
        return identity

    def _identify(self, text: str) -> Identity | None:
        match = _KEY.fullmatch(text)
        if match is None:
            return None
        with self._session() as session:
            row = session.get(KeyRow, match[1])
            digest = row.digest if row is not None else "0" * 64
            if not hmac.compare_digest(digest, _digest(match[2])) or row is None or row.revoked is not None:
                return None
            tenant = session.get(TenantRow, row.tenant)
            assert tenant is not None
            return Identity(_tenant(tenant), row.id, frozenset(row.scopes))

    def _forget(self) -> None:
        with self._lock:
            self._age += 1
            self._known.clear()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """A session. Raises Unavailable if the database does not answer."""
        try:
            with Session(self._engine) as session:
                yield session
        except IntegrityError:
            raise
        except DBAPIError as failure:
            raise Unavailable("the registry's database does not answer", retry_after=1.0) from failure


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _tenant(row: TenantRow) -> Tenant:
    return Tenant(row.name, dict(row.grants), Quotas(**row.quotas))


def _info(row: KeyRow) -> KeyInfo:
    return KeyInfo(row.id, row.tenant, tuple(row.scopes), row.label, row.created, row.revoked)


def _with_driver(url: str) -> str:
    """The URL with psycopg as PostgreSQL's driver, whatever it says."""
    return re.sub(r"^postgres(ql)?://", "postgresql+psycopg://", url)
