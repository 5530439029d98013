"""Run the demo: `make demo`, or `python -m demo`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console

import tocsin
from demo.checks import check_all
from demo.data import load_year
from demo.picture import save_picture
from demo.queries import create_sources, subscribe_all
from demo.replay import replay
from demo.report import print_checks, print_report

OUT = Path(__file__).parent / "out" / "flights.png"


def main() -> int:
    """Replay the year, tell what happened, and check some of it; 1 if anything differs."""
    console = Console()
    began = time.perf_counter()
    year = load_year()
    engine = tocsin.Engine()
    create_sources(engine)
    count = subscribe_all(engine)
    console.print(
        f"{len(year.flights):,} flights, {len(year.weather):,} weather reports, {count:,} subscriptions"
    )
    story = replay(engine, year, console)
    print_report(engine, story, console)
    console.print(
        f"{story.n_rows:,} rows into five sources in {story.seconds:.1f} s once compiled: "
        f"{story.n_rows / story.seconds:,.0f} rows/s; {time.perf_counter() - began:.0f} s in all"
    )
    all_equal = print_checks(check_all(engine, year, story), console)
    console.print(f"picture: {save_picture(story, year, OUT)}")
    return 0 if all_equal else 1


if __name__ == "__main__":
    sys.exit(main())
