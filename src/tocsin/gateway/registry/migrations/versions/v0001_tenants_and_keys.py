"""Tenants and keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("grants", sa.JSON, nullable=False),
        sa.Column("quotas", sa.JSON, nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(16), primary_key=True),
        sa.Column("tenant", sa.String(40), sa.ForeignKey("tenants.name"), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked", sa.DateTime(timezone=True)),
    )
    op.create_index("ix_keys_tenant", "keys", ["tenant"])


def downgrade() -> None:
    op.drop_table("keys")
    op.drop_table("tenants")
