"""Programs one after the other, each in a process of its own; then what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.instrument.comparing import Change, changes
from benchmarks.instrument.floors import BELOW, MET, MISSING, Verdict, judge, read_floors
from benchmarks.instrument.records import Record
from benchmarks.instrument.results import FOLDER, read_all, read_committed, save
from benchmarks.instrument.words import number

ROOT = Path(__file__).resolve().parents[2]
#: Changes since the last commit that are printed: the worst.
SHOWN = 12
#: What comes before several programs.
COMPILING = "compiling"


class Run(NamedTuple):
    """What became of a program."""

    seconds: float
    peak_mb: float
    code: int


def run_all(names: Sequence[str], quick: bool, resume: bool) -> bool:
    """Run programs, print what changed and what the floors say: whether all is well."""
    console = _console()
    began = machine.describe()
    done: dict[str, Run] = {}
    if len(names) > 1:
        console.rule(COMPILING)
        done[COMPILING] = _wait_for([sys.executable, "-m", "benchmarks.instrument.compiling"])
    for name in names:
        console.rule(name)
        done[name] = run(name, quick, resume)
        if not done[name].code:
            save([_record(name, done[name], quick, began)])
        console.print(f"{name}: {done[name].seconds:.0f} s, {done[name].peak_mb:,.0f} MB at its peak")
    failed = [name for name, one in done.items() if one.code]
    records = read_all()
    # Programs write down when each of them began.
    now = [each for each in records if each.program in names and each.when >= str(began["when"])]
    _print_changes(console, changes(now, read_committed()))
    are_held = _print_verdicts(console, judge_all(now))
    console.print(_runs_table(done))
    if failed:
        console.print(f"[bold red]failed: {', '.join(failed)}")
    return are_held and not failed


def check_all() -> bool:
    """Hold all floors over the newest results."""
    console = _console()
    return _print_verdicts(console, judge_all(read_all()), is_all=True)


def judge_all(records: Sequence[Record]) -> list[Verdict]:
    """Every floor, over some records."""
    reference, floors = read_floors()
    return judge(floors, records, reference)


def run(name: str, quick: bool, resume: bool) -> Run:
    """One program in a process of its own, and of its children the most memory that one of them held."""
    command = [sys.executable, "-m", "benchmarks", name, "--inside"]
    return _wait_for([*command, *["--quick"] * quick, *["--resume"] * resume])


def _wait_for(command: Sequence[str]) -> Run:
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        _, status, used = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    # Linux tells kilobytes, macOS bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Run(time.perf_counter() - start, used.ru_maxrss / unit, process.returncode)


def _console() -> Console:
    """As wide as the terminal, or as tables need it."""
    return Console(width=None if sys.stdout.isatty() else 150)


def _record(name: str, done: Run, quick: bool, surroundings: dict[str, object]) -> Record:
    size = "quick" if quick else "full"
    return Record(
        "runs", f"{name}, {size}", name, "s", (done.seconds,), peak_mb=done.peak_mb, machine=surroundings
    )


def _runs_table(done: Mapping[str, Run]) -> Table:
    """How long each program took, the longest first, and all of them."""
    table = Table(title="how long each took", title_justify="left", show_footer=True)
    seconds = sum(one.seconds for one in done.values())
    table.add_column("program", "all")
    table.add_column("seconds", f"{seconds:,.0f}", justify="right")
    table.add_column("peak MB", justify="right")
    for name, one in sorted(done.items(), key=lambda each: -each[1].seconds):
        table.add_row(name, f"{one.seconds:,.0f}", f"{one.peak_mb:,.0f}")
    return table


def _print_changes(console: Console, found: list[Change]) -> None:
    """What is worse than at the last commit by more than the spread, and how the machine itself was."""
    worse = [change for change in found if change.is_beyond and change.times < 1]
    better = sum(change.is_beyond and change.times > 1 for change in found)
    told = f"beyond the spread {better} better, {len(worse)} worse"
    console.print(f"\n{len(found)} figures beside the last commit; {told}")
    if not worse:
        return
    table = Table(title="worse by more than the spread", title_justify="left")
    for heading in ("program", "case", "subject", "then", "now", "unit", "times", "the machine"):
        table.add_column(heading)
    for change in worse[:SHOWN]:
        table.add_row(
            change.now.program,
            change.now.case,
            change.now.subject,
            number(change.before.median),
            number(change.now.median),
            change.now.unit,
            f"{change.times:.2f}",
            f"{change.machine_times:.2f}" if change.machine_times else "",
        )
    console.print(table)


def _print_verdicts(console: Console, verdicts: list[Verdict], *, is_all: bool = False) -> bool:
    """All floors that were measured; what is below its floor in red. Whether there is none."""
    table = Table(title="floors", title_justify="left")
    for heading in ("part", "ratio", "found", "floor", "goal", ""):
        table.add_column(heading)
    for verdict in verdicts:
        if verdict.state == MISSING and not is_all:
            continue
        floor, style = verdict.floor, "red" if verdict.is_broken else None
        told = verdict.state if verdict.counts else f"{verdict.state}; the rival does not count"
        table.add_row(
            floor.part,
            f"{floor.program}: {floor.name}",
            number(verdict.ratio),
            number(floor.floor),
            number(floor.goal),
            told,
            style=style,
        )
    console.print(table)
    count = {state: sum(verdict.state == state for verdict in verdicts) for state in (MET, BELOW, MISSING)}
    console.print(
        f"{count[MET]} met, {count[BELOW]} below their floor, {count[MISSING]} not measured; {FOLDER}"
    )
    return count[BELOW] == 0
