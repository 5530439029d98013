"""The engine room: catalog, registry, publish → changes. It knows no algorithm."""

from tocsin.engine.engine import Engine

__all__ = ["Engine"]
