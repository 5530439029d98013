"""`tocsin validate`: check a job file without running it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tocsin.cli.failures import BAD_USAGE, OK


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="tocsin validate", description="Check a job file without running it."
    )
    parser.add_argument("job", help="the job file")
    options = parser.parse_args(arguments)
    from tocsin.cli.extras import spark_extra

    with spark_extra():
        from tocsin.pipeline.job.errors import JobError
        from tocsin.pipeline.job.jobs import Job
    try:
        job = Job.read(options.job)
    except JobError as failure:
        print(failure, file=sys.stderr)
        return BAD_USAGE
    sources = ", ".join(f"{declared.kind} {name}" for name, declared in job.declarations.items())
    count = len(job.subscriptions)
    print(f"{options.job}: {job.settings.name!r} can be run: {sources}; sections of subscriptions: {count}")
    return OK
