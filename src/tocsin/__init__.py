"""Tocsin maintains millions of standing SQL queries exactly over streams and emits what changed.

Start with `Engine`. It is imported on first use, so that `import tocsin` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tocsin.errors import (
    DeclarationError,
    DuplicateSource,
    DuplicateSubscription,
    Error,
    IndexRefused,
    ParameterError,
    RowError,
    SQLError,
    StateError,
    UnknownSource,
    UnknownSubscription,
    WeightOverflow,
)

if TYPE_CHECKING:
    from tocsin.client import AsyncClient, Client
    from tocsin.engine.engine import Engine
    from tocsin.subscriber import Subscriber

__all__ = [
    "AsyncClient",
    "Client",
    "DeclarationError",
    "DuplicateSource",
    "DuplicateSubscription",
    "Engine",
    "Error",
    "IndexRefused",
    "ParameterError",
    "RowError",
    "SQLError",
    "StateError",
    "Subscriber",
    "UnknownSource",
    "UnknownSubscription",
    "WeightOverflow",
]

__version__ = "0.2.0"

#: Names that load on first use, and the module that holds each.
_LAZY = {
    "AsyncClient": "tocsin.client",
    "Client": "tocsin.client",
    "Engine": "tocsin.engine.engine",
    "Subscriber": "tocsin.subscriber",
}


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
