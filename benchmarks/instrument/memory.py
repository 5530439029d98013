"""Peak memory of a piece of work, in a process of its own.

`python -m benchmarks.instrument.memory module:function '[arguments]'` prints megabytes.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def peak_mb(work: str, *arguments: Any) -> float | None:
    """Megabytes that `module:function(*arguments)` adds to what its process had before it, at its peak.

    None where the system does not tell, or the work failed. Cost: a fresh interpreter, and the work.
    """
    command = [sys.executable, "-m", __name__, work, json.dumps(arguments)]
    # The child imports what the parent does.
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    try:
        return float(done.stdout.split()[-1])
    except (IndexError, ValueError):
        return None


def high_water_mb() -> float | None:
    """The most memory that this process has held at a time; None where the system does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)


def held_mb() -> float | None:
    """The memory that this process holds now."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Do the work, and print what it added."""
    work, arguments = sys.argv[1:]
    module, _, name = work.partition(":")
    function = getattr(importlib.import_module(module), name)
    before = held_mb()
    function(*json.loads(arguments))
    after = high_water_mb()
    if before is not None and after is not None:
        print(after - before)


if __name__ == "__main__":
    main()
