"""A disk that fills up under a running gateway: a process that may suddenly write no longer files."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest
from benchmarks.gateway_parts.process import Gateway as Process

from tests.gateway.servers import Gateway
from tocsin.client import Answer
from tocsin.errors import StateError
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.storage import files

TOP = "SELECT k, x FROM t WHERE x > 0 ORDER BY x LIMIT 3"


def fill(process: Process, folder: Path, left: int) -> None:
    """Leave room for so many bytes of the log."""
    (segment,) = folder.glob("hub/log-*.wal")
    size = segment.stat().st_size + left
    resource.prlimit(process._process.pid, resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.timeout(600)
def test_a_full_disk_refuses_and_nothing_of_it_is_told(tmp_path: Path) -> None:
    process = Process(tmp_path)
    gateway = Gateway(process.url, process.key)
    try:
        gateway.ok("POST", "/v1/tables", {"name": "t", "key": "k", "columns": {"k": "string", "x": "double"}})
        gateway.ok("POST", "/v1/subscriptions", {"sql": TOP, "id": "s"})
        gateway.ok("POST", "/v1/tables/t/rows", [{"k": "a", "x": 3}])
        answer = Answer()
        with gateway.live() as live:
            begun = live.ask(type="watch", subscription="s")
            answer.begin(begun["changes"])
            fill(process, tmp_path, left=50)
            for number in range(3):
                refused = gateway.call("POST", "/v1/tables/t/rows", [{"k": f"lost{number}", "x": 1}])
                assert refused.status_code == 503
                assert "cannot be written" in refused.json()["error"]["message"]
            assert gateway.bare("GET", "/ready").status_code == 503
            assert gateway.call("GET", "/v1/subscriptions/s/result").status_code == 503
            with pytest.raises(TimeoutError):
                live.next(0.5)
        process.kill()
        process.start()
        with gateway.live() as live:
            assert live.ask(type="watch", subscription="s", cursor=begun["cursor"])["type"] == "resumed"
            gateway.ok("POST", "/v1/tables/t/rows", [{"k": "b", "x": 2}])
            answer.apply(live.next()["changes"])
        rows = gateway.ok("GET", "/v1/subscriptions/s/result")["rows"]
        assert [row["k"] for row in rows] == answer.keys == ["b", "a"]
    finally:
        gateway.close()
        assert process.stop() == 0


def test_a_start_that_cannot_write_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Hub(tmp_path).close()
    monkeypatch.setattr(files, "truncate", no_room)
    with pytest.raises(StateError) as refused:
        Hub(tmp_path)
    assert "No space left" in str(refused.value)
    assert "log-" in str(refused.value)
    assert "free some space" in str(refused.value)


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
