"""The tables of the registry."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, DateTime, ForeignKey, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables."""


class TenantRow(Base):
    """A tenant."""

    __tablename__ = "tenants"

    name: Mapped[str] = mapped_column(String(40), primary_key=True)
    #: condition on rows, by source
    grants: Mapped[dict[str, str]] = mapped_column(JSON)
    quotas: Mapped[dict[str, Any]] = mapped_column(JSON)
    created: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class KeyRow(Base):
    """A key. Only a digest of its secret is stored."""

    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    tenant: Mapped[str] = mapped_column(ForeignKey("tenants.name"), index=True)
    #: SHA-256 of the secret, which is 256 random bits: nothing slower is needed
    digest: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[str]] = mapped_column(JSON)
    label: Mapped[str] = mapped_column(String(200))
    created: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    revoked: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
