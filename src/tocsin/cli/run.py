"""`tocsin run`: run a job on Spark."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tocsin.cli.compiled import CompiledKernels
from tocsin.cli.display import LineDisplay, LiveTable, display
from tocsin.cli.failures import BAD_DATA, BAD_USAGE, OK

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from tocsin.pipeline.job.jobs import Job

#: Seconds between polls of the query.
INTERVAL = 0.5


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="tocsin run", description="Run a job on Spark Structured Streaming."
    )
    parser.add_argument("job", help="the job file")
    parser.add_argument("--once", action="store_true", help="process the available input and stop")
    parser.add_argument("--master", help="Spark master, such as spark://host:7077 (default: this machine)")
    options = parser.parse_args(arguments)
    with display() as shown:
        # Before the imports, which take a second or two.
        shown.show({"job": options.job, "phase": "reading the job", "since": time.time()})
        reason, code, job = _run(options, shown)
    if reason:
        print(reason, file=sys.stderr)
    if job is not None and code == OK:
        return _report_rejects(shown.known, job, once=options.once)
    return code


def _run(options: argparse.Namespace, shown: LineDisplay | LiveTable) -> tuple[str, int, Job | None]:
    """Run the job to its end; returns a message, the exit code, and the job if it was read."""
    from tocsin.cli.extras import spark_extra

    with spark_extra():
        from tocsin.errors import Error
        from tocsin.pipeline.job.jobs import Job
        from tocsin.pipeline.job.running import SPARK_GONE, start, why_failed
    compiled = CompiledKernels()
    try:
        job = Job.read(options.job)
        log = _log(job.settings.name)
        query = start(job, master=options.master, once=options.once, log=log, report=shown.show)
    except Error as failure:
        return str(failure), BAD_USAGE, None
    try:
        _follow(query, shown, compiled)
        reason = why_failed(query)
    except KeyboardInterrupt:
        query.stop()
        return "", OK, job
    except SPARK_GONE:
        reason = "Spark has been killed or has crashed; run the job again to continue"
    return ("", OK, job) if reason is None else (f"the job has failed: {reason}", BAD_DATA, job)


def _log(name: str) -> str | None:
    """A file for Spark's log if there is a live table; None if it may share standard error."""
    if not sys.stderr.isatty():
        return None
    try:
        file, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".spark.log")
    except OSError as failure:
        print(f"cannot create a file for Spark's own log, which is shown here: {failure}", file=sys.stderr)
        return None
    os.close(file)
    print(f"Spark's own log: {path}", file=sys.stderr)
    return path


def _follow(query: StreamingQuery, shown: LineDisplay | LiveTable, compiled: CompiledKernels) -> None:
    """Wait until the query ends. The thread that finishes a batch displays it."""
    while query.isActive:
        time.sleep(INTERVAL)
        shown.known["compiled"] = compiled.count()
        shown.idle()


def _report_rejects(known: dict[str, Any], job: Job, *, once: bool) -> int:
    """Report rejected rows. A drained source without any valid row is a failure."""
    from tocsin.pipeline.job.progress import wholly_rejected

    sources = known.get("sources", {})
    count = sum(rows["rejected"] for rows in sources.values())
    if not count:
        return OK
    lost = wholly_rejected(known)
    lines = [
        f"every row of {name} was rejected, {sources[name]['rejected']:,} in total; {sources[name]['why']}"
        for name in lost
    ]
    place = job.sink.rejects or (f"{job.sink.path}.rejects" if job.sink.path else None)
    lines.append(f"rows rejected: {count:,}" + (f"; reasons in {place}" if place else ""))
    print("\n".join(lines), file=sys.stderr)
    return BAD_DATA if lost and once else OK
