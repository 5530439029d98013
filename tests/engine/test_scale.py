"""A million subscriptions of one template: what they weigh, and that ending one is no work for the others.

Times are compared with each other only, never with a clock's idea of fast.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tests.cli.commands import environment
from tests.conftest import INTERPRETED

SQL = "SELECT symbol, per FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT 3"
MANY = 1_000_000
FEW = 10_000
#: Bytes that one subscription may cost.
BYTES_EACH = 500
#: Subscriptions that are ended while the clock runs, and how much slower that may be among the many.
ENDED = 2000
RATIO = 5

compiled_only = pytest.mark.skipif(INTERPRETED, reason="a million of anything needs compiled kernels")


def params(count: int) -> pa.Table:
    """Ranges for so many subscriptions, and ids of the length that people use."""
    random = np.random.default_rng(7)
    low = random.uniform(0, 90, count)
    ids = pa.array(np.char.add("customer-", np.arange(count).astype(str)))
    return pa.table({"id": ids, "lo": low, "hi": low + random.uniform(0, 10, count)})


def engine_with(subscriptions: pa.Table) -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_table(
        "stocks", key="symbol", columns={"symbol": "string", "risk": "double", "per": "double"}
    )
    engine.subscribe_many(SQL, subscriptions)
    return engine


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def seconds_to_end(engine: tocsin.Engine, count: int) -> float:
    """The median of a few runs, in time of this process alone."""
    sids = [f"customer-{number}" for number in np.random.default_rng(3).permutation(count)[:ENDED]]
    took = []
    for part in np.array_split(sids, 10):
        chosen = part.tolist()
        start = time.process_time()
        for sid in chosen:
            engine.unsubscribe(sid)
        took.append(time.process_time() - start)
    return median(took)


@pytest.mark.slow
@compiled_only
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory of a Linux process")
def test_a_million_subscriptions() -> None:
    engine_with(params(10)).unsubscribe("customer-1")
    many = params(MANY)
    gc.collect()
    before = resident()
    engine = engine_with(many)
    gc.collect()
    assert len(engine) == MANY
    assert resident() - before <= BYTES_EACH * MANY

    _, arrays = engine.state()
    assert sum(array.nbytes for array in arrays.values()) <= BYTES_EACH * MANY

    few = engine_with(params(FEW))
    assert seconds_to_end(engine, MANY) <= RATIO * seconds_to_end(few, FEW)
    assert len(engine) == MANY - ENDED
    assert len(few) == FEW - ENDED
    engine.publish("stocks", [{"symbol": "A", "risk": 45.0, "per": 3.0}])


@pytest.mark.parametrize("code", ["import tocsin", "from tocsin.cli.main import main; main(['--help'])"])
def test_the_compiler_is_not_loaded_for_nothing(code: str) -> None:
    ending = "import sys; sys.exit('numba' in sys.modules)"
    lines = ["try:", f"    {code}", "except SystemExit:", "    pass", ending]
    finished = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
