"""Starting from nothing: the first answer from a wheel, everything compiled in a clone, a first micro-batch.

A wheel with compiled kernels is installed into a fresh environment. Figures are the wall time of whole
processes, each with a home of its own, beside what it takes there to import Numba and PyArrow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.instrument.records import Record
from benchmarks.instrument.repeats import Work, interleave
from benchmarks.instrument.results import save
from benchmarks.instrument.words import spread
from benchmarks.startup_parts.first_batches import measure_first_batches
from benchmarks.startup_parts.installing import (
    CACHES,
    Environment,
    build_wheel,
    compile_all,
    copy_compiled,
    install,
)
from benchmarks.startup_parts.scripts import Script, forms, readme_example
from tocsin.arrays import shipped_kernels

#: Forms of statement that a quick run measures more than once: the slowest of a first round.
SLOWEST = 4
ANSWER, IMPORTS = "first answer", "import numba, pyarrow"
MEGABYTE = 2**20


class Session(NamedTuple):
    """What the parts of a run share."""

    environment: Environment
    repeats: int
    surroundings: Mapping[str, Any]

    def answer(self, script: Script, cache: str) -> int:
        """Run a script to its end. Raises AssertionError if its answer is not as it should be."""
        output = self.environment.run("python", "-c", script.text, cache=cache)
        assert output if script.output is None else output == script.output, f"{script.name}: {output}"
        return 1

    def run(self, *command: str) -> int:
        """Run a command of the environment to its end."""
        self.environment.run(*command)
        return 1

    def beside_imports(self, works: Mapping[str, Work]) -> dict[str, list[float]]:
        """Seconds of works, in turn with the imports."""
        imports = partial(self.run, "python", "-c", IMPORTS)
        return interleave({**works, IMPORTS: imports}, self.repeats, perf_counter)

    def records(self, case: str, seconds: Mapping[str, Sequence[float]], **sizes: Any) -> list[Record]:
        """A record a subject."""
        return [
            Record("startup", case, subject, "s", tuple(taken), sizes, machine=self.surroundings)
            for subject, taken in seconds.items()
        ]


def main(quick: bool) -> None:
    """Measure, print tables, and add to the results."""
    console = Console(width=140)
    surroundings = machine.describe() | {"quick": quick}
    console.print(surroundings)
    if not shipped_kernels.supports_level():
        console.print(f"this machine cannot run a wheel's kernels, which are for {shipped_kernels.LEVEL}")
        return
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        for records in _measure(Path(folder), surroundings, quick):
            save(records)
            console.print(_table(records))
    console.print(f"NumPy scan after: {machine.numpy_scan_ms():.3f} ms")


def _measure(folder: Path, surroundings: Mapping[str, Any], quick: bool) -> Iterator[list[Record]]:
    """Every part. A quick run compiles only what is missing, and leaves Spark out."""
    kernels = folder / shipped_kernels.folder_name()
    kernels.mkdir()
    if quick:
        copy_compiled(kernels)
    cpu_s = compile_all(kernels)
    wheel = build_wheel(kernels, folder)
    session = Session(install(wheel, folder), 3 if quick else 5, surroundings)
    megabytes = wheel.stat().st_size / MEGABYTE
    yield [Record("startup", "the wheel", "size", "MB", (megabytes,), machine=surroundings)]
    if not quick:
        yield session.records("everything compiled in a clone", {"processor time": [cpu_s]})
    yield measure_help(session)
    yield measure_example(session)
    for cache in CACHES[:1] if quick else CACHES:
        yield measure_forms(session, cache, SLOWEST if quick else None)
    if not quick:
        found = measure_first_batches(install(wheel, folder, "spark"), folder / "jobs", session.repeats)
        yield session.records("first micro-batch on Spark", found)


def measure_help(session: Session) -> list[Record]:
    """The command's help beside a Python that does nothing."""
    commands = {"tocsin --help": ("tocsin", "--help"), "python -c pass": ("python", "-c", "pass")}
    works = {name: partial(session.run, *command) for name, command in commands.items()}
    return session.records("help", interleave(works, session.repeats, perf_counter))


def measure_example(session: Session) -> list[Record]:
    """The README's example with each cache."""
    script = readme_example()
    found = session.beside_imports({cache: partial(session.answer, script, cache) for cache in CACHES})
    records = []
    for cache in CACHES:
        seconds = {ANSWER: found[cache], IMPORTS: found[IMPORTS]}
        records += session.records(f"{script.name}, {cache} cache", seconds)
    return records


def measure_forms(session: Session, cache: str, slowest: int | None = None) -> list[Record]:
    """The slowest form of statement beside the imports; then each, or so many of the slowest."""
    scripts = forms()
    works = {script.name: partial(session.answer, script, cache) for script in scripts}
    if slowest is not None:
        once = {name: _seconds(work) for name, work in works.items()}
        works = {name: works[name] for name in sorted(once, key=lambda name: -once[name])[:slowest]}
    found = session.beside_imports(works)
    imports = found.pop(IMPORTS)
    most = max(found, key=lambda name: median(found[name]))
    records = session.records(
        f"the slowest of all forms, {cache} cache",
        {ANSWER: found[most], IMPORTS: imports},
        form=most,
        forms=len(scripts),
    )
    for name, seconds in found.items():
        records += session.records(f"{name}, {cache} cache", {ANSWER: seconds}, form=name, cache=cache)
    return records


def _seconds(work: Work) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _table(records: Sequence[Record]) -> Table:
    table = Table()
    for heading in ("case", "what", "median (least to most)", "unit"):
        table.add_column(heading)
    for record in records:
        table.add_row(record.case, record.subject, spread(record), record.unit)
    return table
