"""Alembic environment: uses the connection that the registry passes in."""

from __future__ import annotations

from alembic import context

from tocsin.gateway.registry.models import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
