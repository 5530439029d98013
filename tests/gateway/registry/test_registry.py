"""Tenants and keys, in SQLite and in PostgreSQL."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.gateway.servers import running, secret_of
from tocsin import StateError
from tocsin.gateway.failures import BadRequest, Conflict, NotFound
from tocsin.gateway.registry import OPERATOR, Quotas, Registry, Tenant


def postgres_programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    found += [Path(path) for path in (shutil.which("postgres"),) if path]
    return found[-1].parent if found else None


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A PostgreSQL server of the test's own, on a socket in a folder."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL's programs are not on this machine")
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as folder:
        data = Path(folder) / "data"
        runner: list[str] = []
        if os.geteuid() == 0:
            # It refuses to run as root.
            if shutil.which("setpriv") is None:
                pytest.skip("PostgreSQL does not run as root, and setpriv is not on this machine")
            shutil.chown(folder, "nobody")
            runner = ["setpriv", "--reuid=nobody", "--clear-groups"]

        def run(program: str, *arguments: str) -> None:
            command = [*runner, str(programs / program), "-D", str(data), *arguments]
            silent = subprocess.DEVNULL
            subprocess.run(command, check=True, stdout=silent, stderr=silent, cwd=folder)

        run("initdb", "-A", "trust", "-U", "postgres")
        run("pg_ctl", "-w", "-o", f"-k {folder} -c listen_addresses='' -c fsync=off", "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/registry.db"
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
def registry(url: str) -> Iterator[Registry]:
    opened = Registry(url)
    yield opened
    opened.close()


def test_keys_are_shown_once_and_revocable(registry: Registry, url: str) -> None:
    info, key = registry.create_key(OPERATOR, ["subscribe", "publish"], "laptop")
    assert info.scopes == ("publish", "subscribe")
    found = registry.identify(key)
    assert found is not None
    assert found.scopes == {"publish", "subscribe"}
    assert registry.remembered(key) == found
    for other in (key[:-1], key[:-1] + ("A" if key[-1] != "A" else "B"), key.upper(), "", "tocsin__"):
        assert registry.identify(other) is None
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        stored = str(connection.execute(text("SELECT * FROM keys")).all())
    engine.dispose()
    assert secret_of(key) not in stored
    registry.revoke(OPERATOR, info.id)
    assert registry.identify(key) is None
    assert registry.remembered(key) is None
    assert info.id in [each.id for each in registry.keys(OPERATOR) if each.revoked]


def test_tenants(registry: Registry) -> None:
    tenant = Tenant("a-1", {"stocks": "owner = 1"}, Quotas(1, 2, 3.0))
    registry.create_tenant(tenant)
    assert registry.tenant("a-1") == tenant
    with pytest.raises(Conflict):
        registry.create_tenant(tenant)
    registry.change_tenant(Tenant("a-1"))
    assert registry.tenant("a-1") == Tenant("a-1")
    with pytest.raises(NotFound):
        registry.tenant("b")
    with pytest.raises(BadRequest):
        registry.create_key("a-1", ["fly"])
    info, _ = registry.create_key("a-1", ["admin"])
    with pytest.raises(NotFound):
        registry.revoke("b", info.id)
    assert registry.standing([info.id, "none"]) == {info.id}
    registry.revoke(OPERATOR, info.id)
    assert registry.standing([info.id]) == set()


def test_an_older_database_is_opened_again(url: str) -> None:
    first = Registry(url)
    _, key = first.create_key(OPERATOR, ["admin"])
    first.close()
    second = Registry(url)
    assert second.identify(key) is not None
    second.close()


def test_a_database_that_is_none_is_refused(tmp_path: Path) -> None:
    for wrong in ("nonsense", "mongodb://x", f"sqlite:///{tmp_path}/no/such/folder/x.db"):
        with pytest.raises(StateError) as refused:
            Registry(wrong)
        assert "database" in str(refused.value)


def test_a_gateway_with_its_registry_in_postgresql(postgres: str, tmp_path: Path) -> None:
    with running(tmp_path, database=postgres) as gateway:
        assert gateway.ok("GET", "/v1/me")["tenant"] == OPERATOR
        assert not (tmp_path / "registry.db").exists()
