"""A job with every kind of source, its input, and the process that runs it, for tests on a real Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tocsin
from tests.cli.commands import environment as this_package

THRESHOLD = "SELECT SUM(shares) FROM trades WHERE price BETWEEN :lo AND :hi HAVING SUM(shares) >= :tau"
TOP = "SELECT symbol, per FROM stocks WHERE risk < 50 ORDER BY per LIMIT 3"
MATCH = "SELECT price FROM trades WHERE price > :low AND WEIGHT(shares >= 5, :weight)"
FILES = 6

#: Makes Spark start sooner; jobs this small never get to the second compiler.
QUICK = """\
[spark]
"spark.ui.enabled" = false
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""

JOB = f"""\
[job]
name = "test"
checkpoint = "state"
shards = 2

[tables.stocks]
path = "in/stocks"
key = "symbol"
columns = {{ symbol = "string", risk = "double", per = "double" }}
options = {{ maxFilesPerTrigger = 1 }}

[streams.trades]
format = "csv"
path = "in/trades"
columns = {{ price = "double", shares = "bigint" }}
options = {{ maxFilesPerTrigger = 1, header = true }}
top = 3

[[subscriptions]]
sql = "{THRESHOLD}"
params = "in/thresholds"

[[subscriptions]]
sql = "{MATCH}"
params = "in/matches"
format = "json"

[[subscriptions]]
sql = "{TOP}"
id = "cheap"

[sink]
path = "out"

{QUICK}"""

Change = tuple[Any, ...]


class Running:
    """`tocsin run` in a process of its own, in `folder`; killed at the end if it still runs."""

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        # Not in the folder, which may be on a full disk.
        self._said = folder.with_name(f"{folder.name}.said")
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                command(*options),
                cwd=folder,
                env={**this_package(), **(environment or {})},
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def said(self) -> str:
        """What it wrote to standard output and error."""
        return self._said.read_text(errors="replace")

    def wait_until(self, what: Callable[[], bool], seconds: float = 400, every: float = 0.05) -> bool:
        """Whether it came true before the process ended and the time was up."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if what():
                return True
            if self.process.poll() is not None:
                return what()
            time.sleep(every)
        return False

    def wait_for_batches(self, count: int) -> bool:
        """Whether that many batches were written before it ended."""
        return self.wait_until(lambda: batches(self.folder) >= count)

    def finish(self, seconds: float = 600) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Kill -9 of the driver, and of every process that it or its children started."""
        for pid in session(self.process.pid):
            kill(pid)
        self.process.wait()

    def children(self, text: str) -> list[int]:
        """Processes of this run whose command line holds `text`."""
        return [pid for pid in session(self.process.pid) if text in command_line(pid)]

    def workers(self) -> list[int]:
        """The Python workers: children of the daemon that Spark forks them from."""
        daemons = self.children("pyspark.daemon")
        return [pid for pid in daemons if (known := stat(pid)) is not None and known.parent in daemons]


def command(*options: str) -> list[str]:
    """The sample job, drained; another master may be among the options."""
    master = () if "--master" in options else ("--master", "local[2,4]")
    return [sys.executable, "-m", "tocsin", "run", "job.toml", *master, *(options or ("--once",))]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the job of a folder to its end."""
    return subprocess.run(
        command(*options), cwd=folder, env=this_package(), capture_output=True, text=True, check=False
    )


def kill(pid: int) -> None:
    """Kill -9, of a process that may have ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Stat(NamedTuple):
    """What Linux says of a process."""

    state: str
    parent: int
    group: int
    session: int


def stat(pid: int) -> Stat | None:
    """None if there is no such process."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Stat(state, *map(int, numbers[:3]))


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is not only waiting to be buried."""
    known = stat(pid)
    return known is not None and known.state != "Z"


def session(leader: int) -> list[int]:
    """All processes that one started, also those that outlive it: they keep its session."""
    pids = sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if (known := stat(pid)) is not None and known.session == leader]


def command_line(pid: int) -> str:
    """Empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def batches(folder: Path) -> int:
    """How many batches the sink shows."""
    return len(list((folder / "out").glob("batch=*")))


def write_input(folder: Path, files: int = FILES) -> None:
    """A few files a source, so that batches are the same each time; a few rows and one file are bad."""
    random = np.random.default_rng(1)
    (folder / "job.toml").write_text(JOB)
    for name in ("stocks", "trades", "thresholds", "matches"):
        (folder / "in" / name).mkdir(parents=True)
    lo = random.integers(0, 20, 50).astype(float)
    thresholds = {"id": [f"t{i}" for i in range(50)], "lo": lo, "hi": lo + 3, "tau": np.full(50, 90.0) + lo}
    good = pa.table(thresholds)
    bad = pa.table({"id": ["bad"], "lo": [0.0], "hi": [1.0], "tau": [-1.0]})
    pq.write_table(pa.concat_tables([good, bad]), folder / "in/thresholds/a.parquet")
    lines = [f'{{"id": "m{i}", "low": {i}, "weight": {1 + i % 3}}}' for i in range(20)]
    (folder / "in/matches/a.json").write_text("\n".join(lines))
    for number in range(files):
        prices, shares = random.integers(0, 25, 40), random.integers(1, 20, 40)
        rows = [f"{price},{share}" for price, share in zip(prices, shares, strict=True)]
        if number == 0:
            rows.insert(3, "dear,5")
        path = folder / f"in/trades/{number:02}.csv"
        path.write_text("\n".join(["price,shares", *rows]) + "\n")
        symbols = [f"S{i}" for i in random.choice(30, 10, replace=False)]
        table = pa.table(
            {"symbol": symbols, "risk": random.uniform(0, 100, 10), "per": random.uniform(1, 9, 10)}
        )
        pq.write_table(table, folder / f"in/stocks/{number:02}.parquet")
        for made in (path, folder / f"in/stocks/{number:02}.parquet"):
            os.utime(made, (1_700_000_000 + number, 1_700_000_000 + number))
    garbage = folder / "in/stocks/garbage.parquet"
    garbage.write_bytes(b"PAR1 this is no parquet file PAR1")
    os.utime(garbage, (1_700_000_100, 1_700_000_100))


def engine() -> tocsin.Engine:
    """An engine with the sources of the sample job."""
    made = tocsin.Engine()
    made.create_table("stocks", key="symbol", columns={"symbol": "string", "risk": "double", "per": "double"})
    made.create_stream("trades", columns={"price": "double", "shares": "bigint"})
    return made


def expected(folder: Path) -> list[Change]:
    """What one engine tells of the same batches."""
    made = engine()
    made.subscribe_many(THRESHOLD, pq.read_table(folder / "in/thresholds/a.parquet").slice(0, 50))
    made.subscribe_many(
        MATCH,
        {"id": [f"m{i}" for i in range(20)], "low": range(20), "weight": [1.0 + i % 3 for i in range(20)]},
    )
    made.subscribe(TOP, id="cheap")
    emitted: list[dict[str, Any]] = []
    for path in sorted((folder / "in/trades").glob("*.csv")):
        stocks = folder / "in/stocks" / f"{path.stem}.parquet"
        emitted += made.publish("stocks", pq.read_table(stocks)).to_pylist()
        emitted += made.publish("trades", trades(path), top=3).to_pylist()
    return ordered(emitted)


def trades(path: Path) -> list[dict[str, Any]]:
    """The good rows of a file of trades."""
    pairs = [line.split(",") for line in path.read_text().split()[1:] if not line.startswith("dear")]
    return [{"price": float(price), "shares": int(share)} for price, share in pairs]


def changes(folder: Path, name: str = "out") -> list[Change]:
    """What the sink's folder holds for any reader."""
    return ordered(rows_of(folder / name))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows of a sink's folder, batch by batch."""
    files = sorted(folder.glob("batch=*/*.parquet"), key=lambda file: int(file.parent.name[6:]))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def ordered(emitted: Sequence[dict[str, Any]]) -> list[Change]:
    """Changes that can be compared."""
    names = ("subscription", "seq", "op", "key", "score", "rank")
    return sorted((tuple(change[name] for name in names) for change in emitted), key=repr)
