"""Migrations of the registry's database, run by Alembic."""
