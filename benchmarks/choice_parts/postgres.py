"""PostgreSQL with a GiST index: a real server of the program's own, on a socket in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import numpy as np
import psycopg

from benchmarks.choice_parts.tasks import Task
from tocsin.arrays.types import Floats
from tocsin.indexes.matching import Events

#: All in memory, no log that anyone waits for, no compiler for queries of a few milliseconds.
SETTINGS = {
    "listen_addresses": "''",
    "shared_buffers": "1GB",
    "work_mem": "256MB",
    "maintenance_work_mem": "1GB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "jit": "off",
    "max_wal_size": "8GB",
    "autovacuum": "off",
}


def programs() -> Path | None:
    """Where PostgreSQL's programs are: Debian's place, or on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    found += [Path(path) for path in (shutil.which("postgres"),) if path]
    return found[-1].parent if found else None


@contextmanager
def server() -> Iterator[str | None]:
    """The address of a server that lives as long as this; None where there are no programs for it."""
    home = programs()
    if home is None or (os.geteuid() == 0 and shutil.which("setpriv") is None):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        runner: list[str] = []
        if os.geteuid() == 0:
            # It refuses to run as root.
            shutil.chown(folder, "nobody")
            runner = ["setpriv", "--reuid=nobody", "--clear-groups"]

        def run(program: str, *arguments: str) -> None:
            command = [*runner, str(home / program), "-D", f"{folder}/data", *arguments]
            silent = subprocess.DEVNULL
            subprocess.run(command, check=True, stdout=silent, stderr=silent, cwd=folder)

        run("initdb", "-A", "trust", "-U", "postgres")
        options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        run("pg_ctl", "-w", "-o", f"-k {folder} {options}", "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")


class Postgres:
    """A connection, with a type for ranges of doubles: there is none built in."""

    def __init__(self, address: str) -> None:
        self.connection = psycopg.connect(address, autocommit=True)
        self.run("CREATE EXTENSION IF NOT EXISTS btree_gist")
        self.run("DROP TABLE IF EXISTS s, e")
        self.run("DROP TYPE IF EXISTS span CASCADE")
        # Without the difference, the index cannot tell near from far.
        self.run("CREATE TYPE span AS RANGE (subtype = float8, subtype_diff = float8mi)")
        # A few rows against an index: its own guess, without statistics, is a scan.
        for name in ("enable_seqscan", "enable_mergejoin", "enable_hashjoin"):
            self.connection.execute(f"SET {name} = off".encode())

    def run(self, sql: LiteralString) -> None:
        self.connection.execute(sql)

    def load(self, table: LiteralString, columns: list[np.ndarray]) -> None:
        """Copy columns into a table. Cost: a line of text a row."""
        lines = (
            "\t".join(map(str, row)) for row in zip(*(column.tolist() for column in columns), strict=True)
        )
        with self.connection.cursor().copy(f"COPY {table} FROM STDIN".encode()) as copy:
            copy.write("\n".join(lines) + "\n")

    def close(self) -> None:
        self.connection.close()


class PostgresMatcher:
    """Ranges under GiST: by the first attribute and its range, or as boxes; the other ranges by `WHERE`."""

    def __init__(self, task: Task, address: str) -> None:
        self._task = task
        self._server = Postgres(address)
        run = self._server.run
        run("""CREATE UNLOGGED TABLE raw (id int, a0 int, lo0 float8, hi0 float8, a1 int, lo1 float8,
            hi1 float8, a2 int, lo2 float8, hi2 float8)""")
        columns: list[np.ndarray] = [np.arange(task.count)]
        for number in range(3):
            known = min(number, task.ranges - 1)
            columns += [task.attribute[:, known] + 1, task.low[:, known], task.high[:, known]]
        self._server.load("raw", columns)
        if self._is_box:
            run("CREATE UNLOGGED TABLE s AS SELECT *, box(point(lo0, lo1), point(hi0, hi1)) AS r FROM raw")
        else:
            run("CREATE UNLOGGED TABLE s AS SELECT *, span(lo0, hi0, '[]') AS r FROM raw")
        if task.ranges == task.dimensions:
            run("CREATE INDEX ON s USING gist (r)")
        else:
            run("CREATE INDEX ON s USING gist (a0, r)")
        run("DROP TABLE raw")
        run("VACUUM ANALYZE s")
        run("CREATE TEMP TABLE e (event int, v float8[])")

    @property
    def _is_box(self) -> bool:
        return self._task.ranges == self._task.dimensions == 2

    def match(self, events: Events, table: Floats) -> tuple[np.ndarray, np.ndarray]:
        self._server.run("TRUNCATE e")
        lines = (f"{number}\t{{{','.join(map(str, row))}}}\n" for number, row in enumerate(table.tolist()))
        with self._server.connection.cursor().copy("COPY e FROM STDIN") as copy:
            copy.write("".join(lines))
        found = self._server.connection.execute(self._query(), binary=True).fetchall()
        pairs = np.array(found, np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def _query(self) -> LiteralString:
        if self._is_box:
            # Its boxes are compared with a tolerance of a millionth: the bounds decide.
            return """SELECT event, id FROM e JOIN s ON s.r @> box(point(v[1], v[2]), point(v[1], v[2]))
                WHERE v[1] BETWEEN lo0 AND hi0 AND v[2] BETWEEN lo1 AND hi1"""
        if self._task.dimensions == 1:
            return "SELECT event, id FROM e JOIN s ON s.r @> v[1]"
        return """SELECT event, id FROM e CROSS JOIN generate_series(1, 10) AS a
            JOIN s ON s.a0 = a AND s.r @> v[a]
            WHERE v[a1] BETWEEN lo1 AND hi1 AND v[a2] BETWEEN lo2 AND hi2"""

    def close(self) -> None:
        self._server.close()
