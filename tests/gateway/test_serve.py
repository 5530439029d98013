"""`tocsin serve` as a process: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import json
import logging
import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.cli.commands import environment
from tests.gateway.servers import running, secret_of
from tocsin.gateway.http.request_timeouts import RESERVED
from tocsin.gateway.http.server import Settings
from tocsin.gateway.registry import Registry


def serve(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tocsin", "serve", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment())


@pytest.mark.slow
def test_a_server_from_its_first_key_to_its_end(tmp_path: Path) -> None:
    with serve("--folder", str(tmp_path), "--port", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "shown only once" in process.stdout.readline()
        key = process.stdout.readline().strip()
        line = json.loads(process.stderr.readline())
        assert "127.0.0.1" in line["message"]
        process.terminate()
        rest = process.stderr.read()
        assert process.wait() == 0
    assert key.startswith("tocsin_")
    assert secret_of(key) not in rest
    registry = Registry(Settings(tmp_path).url)
    assert registry.identify(key) is not None
    registry.close()
    with serve("--folder", str(tmp_path), "--new-key") as process:
        assert process.stdout is not None
        assert "tocsin_" in process.stdout.read()
        assert process.wait() == 0


def test_a_database_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    with serve("--folder", str(tmp_path), "--database", "postgresql://127.0.0.1:1/none") as process:
        assert process.stderr is not None
        assert "database" in process.stderr.read()
        assert process.wait() == 2


@pytest.mark.slow
def test_what_cannot_start_says_so_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    (tmp_path / "file").write_text("")
    wrong = {
        "no NATS server with JetStream answers at nats://127.0.0.1:1": (
            "--nats",
            "nats://a:geheim@127.0.0.1:1",
        ),
        "Not a directory": ("--folder", str(tmp_path / "file" / "inside")),
    }
    for words, arguments in wrong.items():
        with serve(
            "--folder", str(tmp_path / "good"), "--port", "0", "--log-level", "error", *arguments
        ) as process:
            assert process.stderr is not None
            said = process.stderr.read()
            assert process.wait() == 2
        assert words in said
        assert said.count("\n") == 1
        assert "geheim" not in said


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    with running(tmp_path), serve("--folder", str(tmp_path), "--port", "0") as process:
        assert process.stderr is not None
        assert "another process" in process.stderr.read()
        assert process.wait() != 0


def test_what_was_there_is_there_after_a_restart(tmp_path: Path) -> None:
    columns = {"k": "string", "x": "double"}
    sql = "SELECT k FROM t WHERE x > 0 ORDER BY x LIMIT 2"
    with running(tmp_path) as gateway:
        gateway.ok("POST", "/v1/tables", {"name": "t", "key": "k", "columns": columns})
        gateway.ok("POST", "/v1/subscriptions", {"sql": sql, "id": "s"})
        gateway.ok("POST", "/v1/tables/t/rows", [{"k": "a", "x": 2}, {"k": "b", "x": 1}])
        with gateway.live() as live:
            cursor = live.ask(type="watch", subscription="s")["cursor"]
    with running(tmp_path) as gateway:
        assert gateway.ok("GET", "/v1/subscriptions/s/result")["rows"] == [{"k": "b"}, {"k": "a"}]
        with gateway.live() as live:
            assert live.ask(type="watch", subscription="s", cursor=cursor)["type"] == "resumed"


def test_open_streams_are_ended_in_order(tmp_path: Path) -> None:
    with ExitStack() as clients:
        with running(tmp_path) as gateway:
            columns = {"k": "string", "x": "double"}
            gateway.ok("POST", "/v1/tables", {"name": "t", "key": "k", "columns": columns})
            gateway.ok("POST", "/v1/subscriptions", {"sql": "SELECT COUNT(*) FROM t", "id": "n"})
            address = f"{gateway.url}/v1/subscriptions/n/changes"
            stream = clients.enter_context(httpx.stream("GET", address, headers=gateway.headers()))
            lines = stream.iter_lines()
            assert next(lines).startswith("id: ")
        assert list(lines)[-1] == "", "it ends after a whole event, without an error"


def test_nothing_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with running(tmp_path) as gateway:
        made = gateway.ok("POST", "/v1/keys", {"scopes": ["subscribe"], "label": "x"})["key"]
        gateway.call("GET", "/v1/subscriptions", key=made)
        gateway.call("GET", "/v1/subscriptions?after=s", key=made + "x")
        with gateway.live(made):
            pass
        httpx.get(f"{gateway.url}/health")
        secrets = [secret_of(key) for key in (made, gateway.key)]
    logged = "".join(record.getMessage() + str(record.__dict__) for record in ours(caplog))
    assert "/v1/keys" in logged
    assert not any(secret in logged for secret in secrets)


def ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the server's own process would log: the test's clients log what they send."""
    client = ("httpx", "httpcore", "websockets")
    return [record for record in caplog.records if not record.name.startswith(client)]


@pytest.mark.slow
def test_connections_leave_descriptors_for_files(tmp_path: Path) -> None:
    """More connections than the system allows: the rest is cut off, and the server goes on."""
    with serve("--folder", str(tmp_path), "--port", "0") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        key = process.stdout.readline().strip()
        port = int(json.loads(process.stderr.readline())["message"].rpartition(":")[2])
        try:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (RESERVED + 20, RESERVED + 20))
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                client.headers["Authorization"] = f"Bearer {key}"
                assert client.get("/ready").status_code == 200
                idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
                table = {"name": "t", "key": "k", "columns": {"k": "string", "x": "double"}}
                assert client.post("/v1/tables", json=table).is_success
                assert client.post("/v1/tables/t/rows", json=[{"k": "a", "x": 1}]).is_success
                cut_off = 0
                for connection in idle:
                    connection.settimeout(0.05)
                    with suppress(TimeoutError):
                        try:
                            cut_off += connection.recv(1) == b""
                        except ConnectionResetError:
                            cut_off += 1
                    connection.close()
                assert 80 <= cut_off < 100
                with httpx.Client(base_url=client.base_url, timeout=60) as another:
                    assert another.get("/ready").status_code == 200
        finally:
            process.terminate()
            rest = process.stderr.read()
        assert process.wait() == 0
    assert "resource" not in rest
    assert len(rest.splitlines()) < 50
