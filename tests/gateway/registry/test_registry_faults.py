"""The registry's database fails: it refuses clearly, and what was acknowledged stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from tocsin.gateway.failures import Unavailable
from tocsin.gateway.registry import SCOPES, Registry, Tenant


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(f"sqlite:///{tmp_path / 'registry.db'}")
    yield made
    made.close()


class Interrupted:
    """Has SQLite itself give up at the n-th of its instructions, wherever that is."""

    def __init__(self, registry: Registry, at: int) -> None:
        self._at = at
        self.steps = 0
        self._engine = registry._engine
        event.listen(self._engine, "checkout", self._watch)

    def stop(self) -> None:
        event.remove(self._engine, "checkout", self._watch)
        self._engine.dispose()

    def _watch(self, connection: Any, record: Any, proxy: Any) -> None:
        connection.set_progress_handler(self._step, 1)

    def _step(self) -> bool:
        self.steps += 1
        return self.steps == self._at


def test_whatever_is_interrupted_what_was_acknowledged_stays(registry: Registry) -> None:
    """What is refused may have happened, all or nothing of it; what was acknowledged has."""
    refused, acknowledged = 0, [registry.create_key("main", SCOPES)[1]]
    for at in range(1, 10_000, 7):
        name = f"acme-{at}"
        interrupted = Interrupted(registry, at)
        made = None
        with suppress(Unavailable):
            registry.create_tenant(Tenant(name, {"*": ""}))
            made = registry.create_key(name, SCOPES)
        interrupted.stop()
        names = {tenant.name for tenant in registry.tenants()}
        if made is not None:
            identity = registry.identify(made[1])
            assert identity is not None
            assert identity.tenant.name == name
            acknowledged.append(made[1])
        elif name in names:
            # It may have given up after the commit; nobody has the key's text then.
            assert len(registry.keys(name)) <= 1
        assert all(registry.identify(text) is not None for text in acknowledged)
        if interrupted.steps < at:
            break
        refused += 1
    assert refused > 5
    assert made is not None, "in the end nothing was interrupted"


def test_a_database_without_room_refuses_and_goes_on_when_there_is_some(registry: Registry) -> None:
    """SQLite's own error: it is told to use no more pages."""
    _, before = registry.create_key("main", SCOPES)
    engine = registry._engine

    def full(connection: Any, record: Any, proxy: Any) -> None:
        connection.execute("PRAGMA max_page_count = 1")

    event.listen(engine, "checkout", full)
    made = fill(registry)
    event.remove(engine, "checkout", full)
    engine.dispose()
    assert registry.identify(before) is not None
    assert len(registry.tenants()) == made + 1
    registry.create_tenant(Tenant("later", {}))


def fill(registry: Registry) -> int:
    """Make tenants until there is no room; how many."""
    for number in range(1000):
        try:
            registry.create_tenant(Tenant(f"t{number}", {"s" * 1000: "x" * 1000}))
        except Unavailable:
            return number
    raise AssertionError("there was room for all of them")
