"""`tocsin run`: a job on Spark."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tocsin.cli.failures import BAD_DATA, BAD_USAGE, OK

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: Seconds between two looks at the query.
INTERVAL = 0.5


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="tocsin run", description="Run a job on Spark Structured Streaming."
    )
    parser.add_argument("job", help="the job file")
    parser.add_argument("--once", action="store_true", help="drain what is there and stop")
    parser.add_argument("--master", help="Spark master, such as spark://host:7077 (default: this machine)")
    options = parser.parse_args(arguments)
    from tocsin.cli.extras import spark_extra

    with spark_extra():
        from tocsin.errors import Error
        from tocsin.pipeline.jobs import Job
        from tocsin.pipeline.running import SPARK_GONE, start, why_failed
    try:
        job = Job.read(options.job)
        query = start(job, master=options.master, once=options.once, log=_log(job.settings.name))
    except Error as failure:
        print(failure, file=sys.stderr)
        return BAD_USAGE
    try:
        _follow(query, f"{job.settings.checkpoint.rstrip('/')}")
        reason = why_failed(query)
    except KeyboardInterrupt:
        query.stop()
        return OK
    except SPARK_GONE:
        reason = "Spark has ended, killed or crashed; run the job again to go on"
    if reason is not None:
        print(f"the job has failed: {reason}", file=sys.stderr)
        return BAD_DATA
    return OK


def _log(name: str) -> str | None:
    """A file for Spark's own log where a live table is shown; else it goes where ours does."""
    if not sys.stderr.isatty():
        return None
    file, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".spark.log")
    os.close(file)
    print(f"Spark's own log: {path}", file=sys.stderr)
    return path


def _follow(query: StreamingQuery, checkpoint: str) -> None:
    """Show progress until the query ends: a live table on a terminal, a line a batch in a pipe."""
    from rich.console import Console
    from rich.live import Live

    from tocsin.cli.status import progress_table, read_progress

    console = Console(stderr=True)
    seen = -1
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            while query.isActive:
                known = read_progress(checkpoint)
                if known:
                    live.update(progress_table(known), refresh=True)
                time.sleep(INTERVAL)
        return
    while True:
        active = query.isActive
        for batch in (read_progress(checkpoint) or {"batches": []})["batches"]:
            if batch["batch"] > seen:
                seen = batch["batch"]
                print(_line(batch), file=sys.stderr)
        if not active:
            return
        time.sleep(INTERVAL)


def _line(batch: dict[str, Any]) -> str:
    from tocsin.pipeline.progress import totals

    figures = totals(batch)
    return (
        f"batch {batch['batch']}: {figures['rows']} rows so far, {figures['changes']} changes, "
        f"{figures['rejects']} rejects, {figures['subscriptions']} subscriptions, {figures['seconds']:.2f} s"
    )
