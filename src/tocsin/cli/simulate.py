"""`tocsin simulate`: run the papers' simulator, which is imported for this command only."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.cli.failures import BAD_USAGE, OK

if TYPE_CHECKING:
    from tocsin.papers.network.specs import Spec


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="tocsin simulate",
        description="Simulate how messages reach subscribers, link by link, and draw the figures.",
    )
    parser.add_argument("spec", help="the simulation, a TOML file")
    parser.add_argument("--out", help="folder for results (default: named as the file)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these figures")
    options = parser.parse_args(arguments)
    from dataclasses import replace

    from tocsin.errors import Error
    from tocsin.papers.network.figures import draw_figures
    from tocsin.papers.network.simulation import runs_of
    from tocsin.papers.network.specs import read_spec

    try:
        spec = read_spec(options.spec)
        if options.only:
            figures = tuple(figure for figure in spec.figures if figure.name in options.only)
            if not figures:
                names = ", ".join(figure.name for figure in spec.figures)
                print(f"{options.spec}: no such figure; there are: {names}", file=sys.stderr)
                return BAD_USAGE
            spec = replace(spec, figures=figures)
        folder = Path(options.out or spec.name)
        count = _simulate(spec, folder, len(runs_of(spec)))
        drawn = draw_figures(spec, folder)
    except (Error, OSError) as failure:
        print(failure, file=sys.stderr)
        return BAD_USAGE
    print(f"{folder}: {count} runs in runs.parquet, by event in events.parquet, {len(drawn)} figures")
    return OK


def _simulate(spec: Spec, folder: Path, total: int) -> int:
    """Simulate, with a progress bar on a terminal; returns the number of runs."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from tocsin.papers.network.simulation import Run, write_results

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(spec.name, total=total)

        def on_run(run: Run) -> None:
            progress.update(task, advance=1, description=run.approach)

        return int(write_results(spec, folder, on_run).num_rows)
