"""Running the command: as a process of its own, through real pipes, or in this one where that is enough."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue
from typing import Any

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tocsin"]
#: Seconds that anything may take before a test gives up. The first run has to compile.
PATIENCE = 240


def environment() -> dict[str, str]:
    """This process's, with the package importable even where it is not installed."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "120"}


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(),
        check=False,
    )


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start the command with pipes on all sides."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


class Lines:
    """The lines of a stream as they arrive, read aside so that a test never hangs on them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._stream = process.stdout
        self._queue: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> dict[str, Any]:
        """The next line, as JSON."""
        change: dict[str, Any] = json.loads(self._queue.get(timeout=PATIENCE))
        return change

    def _read(self) -> None:
        for line in self._stream:
            self._queue.put(line)


def changes(output: str) -> list[dict[str, Any]]:
    """JSON lines, read."""
    return [json.loads(line) for line in output.splitlines()]
