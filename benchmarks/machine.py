"""What a measurement ran on, and how fast that machine was at the time."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.choice_parts.scanning import NumpyScan
from benchmarks.choice_parts.tasks import attributes_task

PACKAGES = ("numba", "numpy", "pyarrow")


def describe() -> dict[str, object]:
    """Processor, cores, memory, load, versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 2**30, 1),
        "load": os.getloadavg()[0],
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "commit": commit(),
        "numpy_scan_ms": round(numpy_scan_ms(), 4),
        "three_ranges_scan_ms": round(three_ranges_scan_ms(), 4),
    }


def commit() -> str:
    """The commit at hand, with a plus if files differ from it; empty outside of a clone."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def numpy_scan_ms(ranges: int = 1_000_000, repeats: int = 9) -> float:
    """Milliseconds that NumPy needs to find the ranges, of a million, that hold a value: the median.

    Figures of another machine, or another hour, are compared after dividing by theirs.
    """
    random = np.random.default_rng(1)
    low = random.uniform(0, 90_000, ranges)
    high = low + 10_000
    took = []
    for value in random.uniform(0, 100_000, repeats):
        start = time.process_time()
        np.count_nonzero((low <= value) & (value <= high))
        took.append(time.process_time() - start)
    return 1000 * median(took)


def three_ranges_scan_ms(repeats: int = 9) -> float:
    """Milliseconds an event that NumPy needs to scan 100,000 subscriptions of three ranges: the median.

    The goals are for a machine that takes 0.25, so it tells how much slower than that one this is now.
    """
    task = attributes_task(100_000, 0.02)
    scan, events = NumpyScan(task), task.events(20)
    took = []
    # The first one brings everything into the caches.
    for _ in range(1 + repeats):
        start = time.process_time()
        scan.match(*events)
        took.append(time.process_time() - start)
    return 1000 * median(took[1:]) / events[0].n_events


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
