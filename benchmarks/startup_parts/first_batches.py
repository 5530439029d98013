"""First micro-batches of jobs on Spark, a process each, over the same input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.startup_parts.installing import Environment

PROGRAM = Path(__file__).with_name("first_batch.py")
#: The subject, and a job that keeps a number and does nothing else, as `first_batch.py` names them.
SUBJECTS = {"Tocsin": "tocsin", "stateful job that does nothing": "noop"}
EVENTS, SUBSCRIPTIONS = 10_000, 1000


def measure_first_batches(environment: Environment, folder: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of first micro-batches, as Spark tells, in turn; a first round does not count."""
    found: dict[str, list[float]] = {name: [] for name in SUBJECTS}
    for repeat in range(repeats + 1):
        for name, subject in SUBJECTS.items():
            place = folder / f"{subject}-{repeat}"
            write_input(place)
            seconds = float(environment.run("python", str(PROGRAM), subject, str(place)).split()[-1])
            if repeat:
                found[name].append(seconds)
    return found


def write_input(folder: Path) -> None:
    """Events, and thresholds on a tenth of their line each."""
    random = np.random.default_rng(1)
    low = random.uniform(0, 9, SUBSCRIPTIONS)
    events = {"price": random.uniform(0, 10, EVENTS), "shares": random.integers(1, 200, EVENTS)}
    thresholds = {
        "id": [f"t{number}" for number in range(SUBSCRIPTIONS)],
        "lo": low,
        "hi": low + 1,
        "tau": random.integers(1, 100 * EVENTS // 5, SUBSCRIPTIONS),
    }
    for name, columns in {"trades": events, "thresholds": thresholds}.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table(columns), folder / name / "0.parquet")
