"""`tocsin status`: show a job's progress, from the file beside its checkpoint."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tocsin.cli.display import phase_line
from tocsin.cli.failures import BAD_DATA, BAD_USAGE, OK

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="tocsin status", description="Show how a job is doing.")
    parser.add_argument("job", help="the job file")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    from tocsin.cli.extras import spark_extra

    with spark_extra():
        from tocsin.pipeline.job.errors import JobError
        from tocsin.pipeline.job.jobs import Job
        from tocsin.pipeline.job.lag import waiting_files
    try:
        job = Job.read(options.job)
        checkpoint = job.settings.checkpoint
    except JobError as failure:
        print(failure, file=sys.stderr)
        return BAD_USAGE
    known = read_progress(checkpoint)
    if known is None:
        print(f"{checkpoint}: no batch has been finished yet", file=sys.stderr)
        return BAD_DATA
    waiting = waiting_files(job)
    if options.json:
        print(json.dumps({**known, "waiting": waiting}))
        return OK
    from rich.console import Console

    console = Console()
    console.print(progress_table(known))
    shown = ", ".join(f"{name} {count:,}" for name, count in waiting.items() if count)
    console.print(f"waiting files: {shown or 'none'}")
    return OK


def read_progress(checkpoint: str) -> dict[str, Any] | None:
    """The progress that a job wrote; None if there is none."""
    from tocsin.pipeline.job.lag import read_text
    from tocsin.pipeline.job.progress import FILE

    try:
        known: dict[str, Any] = json.loads(read_text(f"{checkpoint.rstrip('/')}/{FILE}") or "")
    except ValueError:
        return None
    return known


def progress_table(known: dict[str, Any]) -> RenderableType:
    """The current phase, the last batches, and the shards of the newest."""
    from rich.console import Group

    batches = known.get("batches")
    at = [phase_line(known)] if known.get("phase") else []
    if not batches:
        return Group(f"{known['job']}: no batch has been finished yet", *at)
    age = time.time() - batches[-1]["time"]
    title = f"{known['job']}: batch {batches[-1]['batch']}, {age:.0f} s ago"
    tables = _batches_table(title, batches[-9:]), _shards_table(batches[-1]["shards"])
    return Group(*tables, *_spark_lines(batches), *at)


def _spark_lines(batches: list[dict[str, Any]]) -> list[str]:
    """Spark's own figures of the last batch that has any."""
    lines = []
    for batch in [batch for batch in batches if "stages" in batch][-1:]:
        stages = sorted(batch["stages"].items(), key=lambda stage: -stage[1])
        shown = ", ".join(f"{name} {took:.2f}" for name, took in stages if took >= 0.01)
        lines.append(f"Spark's seconds, batch {batch['batch']}: {shown}")
        lines += [f"{topic}: {count:,} records behind" for topic, count in batch["behind"].items()]
    return lines


def _batches_table(title: str, batches: list[dict[str, Any]]) -> Table:
    from tocsin.pipeline.job.progress import totals

    table = _table(title, ("batch", "rows so far", "rows/s", "changes", "rejects", "seconds"))
    before: dict[str, Any] | None = None
    for batch in batches:
        figures = totals(batch)
        speed = ""
        if before is not None and batch["time"] > before["time"]:
            speed = f"{(figures['rows'] - totals(before)['rows']) / (batch['time'] - before['time']):,.0f}"
        counts = (f"{figures[name]:,}" for name in ("changes", "rejects"))
        table.add_row(
            str(batch["batch"]), f"{figures['rows']:,}", speed, *counts, f"{figures['seconds']:.2f}"
        )
        before = batch
    return table


def _shards_table(shards: list[dict[str, Any]]) -> Table:
    table = _table(
        "shards", ("shard", "subscriptions", "changes", "state MB", "found", "find", "apply", "keep s")
    )
    for shard in sorted(shards, key=lambda shard: int(shard["shard"])):
        size = (shard["snapshot_bytes"] + shard["log_bytes"]) / 1e6
        spent = (f"{shard[f'{name}_seconds']:.2f}" for name in ("find", "apply", "keep"))
        counts = (f"{shard[name]:,}" for name in ("subscriptions", "changes"))
        table.add_row(str(shard["shard"]), *counts, f"{size:.1f}", shard["found"], *spent)
    return table


def _table(title: str, names: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(title=title)
    for name in names:
        table.add_column(name, justify="right")
    return table
