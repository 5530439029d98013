"""A gateway in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx


class Gateway:
    """`tocsin serve` on a folder; it can be killed and started again."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._arguments = arguments
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = ""
        self.start()

    def start(self) -> None:
        """Start, and wait until it is ready."""
        command = [sys.executable, "-m", "tocsin", "serve", "--folder", str(self._folder)]
        command += ["--port", str(self.port), "--log-level", "warning", *self._arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if not self.key:
            assert self._process.stdout is not None
            self._process.stdout.readline()
            self.key = self._process.stdout.readline().strip()
        while True:
            try:
                if httpx.get(f"{self.url}/ready", timeout=5).status_code == 200:
                    return
            except httpx.TransportError:
                if self._process.poll() is not None:
                    raise RuntimeError("the gateway did not start") from None
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._close()

    def stop(self) -> int:
        """An orderly end; its exit code."""
        self._process.terminate()
        code = self._process.wait(60)
        self._close()
        return code

    def cpu_seconds(self) -> float:
        """Seconds of processor time it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _close(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
