"""The engine: sources, subscriptions, rows in, changes out. It knows no algorithm."""

from tocsin.engine.engine import Engine

__all__ = ["Engine"]
