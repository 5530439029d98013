"""What memory a piece of work needs, in a process of its own, and what an index holds.

`python -m benchmarks.instrument.memory module:function '[[arguments], …]'` prints megabytes.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def peaks_mb(work: str, many: Sequence[Sequence[Any]]) -> list[float | None]:
    """Megabytes that `module:function(*arguments)` adds to what its process had before it, at its peak.

    For each of the arguments, each in a process of its own.
    None where the system does not tell, or the work failed. Cost: a fresh interpreter for all, and the work.
    """
    command = [sys.executable, "-m", __name__, work, json.dumps(many)]
    # The child imports what the parent does.
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    try:
        found: list[float | None] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return [None] * len(many)
    return found


def peak_mb(work: str, *arguments: Any) -> float | None:
    """As `peaks_mb`, of one."""
    return peaks_mb(work, [arguments])[0]


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


def footprint(thing: object) -> int:
    """Bytes of all arrays that an index holds, each counted once."""
    seen: set[int] = set()
    waiting, total = [thing], 0
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            if isinstance(item.base, np.ndarray):
                waiting.append(item.base)
            else:
                total += item.nbytes
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
        elif hasattr(item, "__dict__") and not isinstance(item, type):
            waiting.extend(vars(item).values())
    return total


def main() -> None:
    """Do the work with each of the arguments, and print what each added."""
    work, many = sys.argv[1:]
    module, _, name = work.partition(":")
    # Imported once: what is forked has it already. Threads begin only with the work.
    function = getattr(importlib.import_module(module), name)
    print(json.dumps([_forked(function, arguments) for arguments in json.loads(many)]))


def _forked(function: Callable[..., Any], arguments: Sequence[Any]) -> float | None:
    """What a call adds, in a copy of this process."""
    theirs, ours = os.pipe()
    child = os.fork()
    if child == 0:
        # Whatever it prints or raises, it ends here.
        try:
            before = held_mb()
            function(*arguments)
            after = high_water_mb()
            if before is not None and after is not None:
                os.write(ours, str(after - before).encode())
        finally:
            os._exit(0)
    os.close(ours)
    with os.fdopen(theirs) as told:
        text = told.read()
    os.waitpid(child, 0)
    return float(text) if text else None


if __name__ == "__main__":
    main()
