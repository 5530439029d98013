"""Run the demo: `make demo`, or `python -m demo` in the project's folder."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from rich.console import Console

from demo.checks import FOLLOWED, check_all
from demo.data import load_year, weeks, write_inputs
from demo.picture import save_picture
from demo.queries import FAMILIES
from demo.report import print_checks, print_report
from demo.story import Story
from demo.watching import watch
from tocsin.pipeline.job.progress import FILE
from tocsin.spark import start

OUT = Path("demo/out")
JOB = Path("demo/job.toml")


def main() -> int:
    """Write the year as files, run the job over them, tell what happened and check some of it."""
    if not JOB.exists():
        sys.exit("run this in the project's folder")
    console = Console()
    year = load_year()
    count = sum(family.count for family in FAMILIES)
    console.print(
        f"{len(year.flights):,} flights, {len(year.weather):,} weather reports, "
        f"{count:,} subscriptions, by {JOB}"
    )
    shutil.rmtree(OUT, ignore_errors=True)
    write_inputs(year, OUT / "in")
    began = time.perf_counter()
    story = Story(OUT / "changes")
    story.follow(*FOLLOWED)
    query = start(JOB, once=True, log=OUT / "spark.log")
    watch(lambda: query.isActive, OUT / "checkpoint" / FILE, story, len(weeks(year)), console)
    failure = query.exception()
    if failure is not None:
        raise failure
    seconds = time.perf_counter() - began
    print_report(story, console)
    console.print(
        f"{story.by_subscription.total():,} changes of {story.n_batches} micro-batches in {seconds:.0f} s, "
        f"the start of Spark included; they are in {story.folder}"
    )
    all_equal = print_checks(check_all(year, story), console)
    console.print(f"picture: {save_picture(story, year, OUT / 'flights.png')}")
    return 0 if all_equal else 1


if __name__ == "__main__":
    sys.exit(main())
