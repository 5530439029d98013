"""A real NATS server on loopback, with JetStream."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest


class NatsServer:
    """One server in a process of its own; skips the test where there is none to be had."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which(
            "nats-server"
        )
        if found is None:
            pytest.skip("nats-server is not installed")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self._command = [found, "-a", "127.0.0.1", "-p", str(self._port), "-js", "-sd", str(folder / "store")]
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start, and wait until it answers."""
        with (self._folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.02)
        self.kill()
        raise AssertionError((self._folder / "nats.log").read_text()[-2000:])

    def kill(self) -> None:
        """As `kill -9` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
