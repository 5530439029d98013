"""`tocsin warm`: compile ahead what statements need."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tocsin.cli.compiled import CompiledKernels
from tocsin.cli.failures import BAD_DATA, BAD_USAGE, OK

if TYPE_CHECKING:
    from rich.progress import Progress

    from tocsin.pipeline.job.jobs import Job

#: Seconds between two lines of progress in a pipe.
INTERVAL = 5.0


class Form(NamedTuple):
    """A form of statement after its kernels have been compiled or looked for."""

    number: int
    compiled: int
    #: a kernel that would have had to be compiled, if that was not allowed; then there may be more
    missing: str | None


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="tocsin warm",
        description="Compile ahead the kernels of every form of statement, on all cores, and keep them.",
        epilog="They are kept in the first folder that can be written: the one TOCSIN_KERNEL_CACHE names, "
        "the package's own, the user's (~/.cache/tocsin), a temporary one.",
    )
    parser.add_argument(
        "--for", dest="job", metavar="JOB", help="only what the statements of a job file need"
    )
    parser.add_argument("--check", action="store_true", help="compile nothing; fail if a kernel is missing")
    parser.add_argument(
        "--portable",
        action="store_true",
        help="compile for all x86-64 machines with AVX2, not for this one's CPU alone",
    )
    parser.add_argument("--processes", type=int, metavar="N", help="processes (default: one a core)")
    options = parser.parse_args(arguments)
    if options.processes is not None and options.processes < 1:
        parser.error("--processes must be at least 1")
    if options.portable and not _compile_portably():
        print("--portable needs a machine of the level x86-64-v3 (with AVX2)", file=sys.stderr)
        return BAD_USAGE
    try:
        numbers, indexes = _selected(options.job)
    except ValueError as failure:
        print(failure, file=sys.stderr)
        return BAD_USAGE
    from tocsin.arrays.kernel_folders import folders

    found, folder = folders()
    if folder is None and not options.check:
        print("no folder is writable; set TOCSIN_KERNEL_CACHE to one that is", file=sys.stderr)
        return BAD_USAGE
    since = time.monotonic()
    try:
        forms = _run_all(numbers, indexes, options.processes, is_check=options.check)
    except KeyboardInterrupt:
        print("interrupted; what has been compiled is kept", file=sys.stderr)
        return BAD_DATA
    if options.check:
        return _report_missing(forms, found)
    count = sum(form.compiled for form in forms)
    print(f"{folder}: {count} kernels compiled in {time.monotonic() - since:.0f} s, the others were there")
    return OK


def _compile_portably() -> bool:
    """Have Numba compile for a level of CPU, here and in the processes of the pool; whether this one has it.

    Numba's settings are read again whenever it finds the environment changed.
    """
    from tocsin.arrays.shipped_kernels import LEVEL, supports_level

    os.environ.update(NUMBA_CPU_NAME=LEVEL, NUMBA_CPU_FEATURES="")
    return supports_level()


def _report_missing(forms: list[Form], folders: list[str]) -> int:
    missing = sorted({form.missing for form in forms if form.missing})
    if not missing:
        print(f"every kernel is there, for {len(forms)} forms of statement")
        return OK
    lacking = sum(form.missing is not None for form in forms)
    print(
        f"{lacking} of {len(forms)} forms of statement lack kernels, such as {', '.join(missing[:3])}, "
        f"in {', '.join(folders)}; `tocsin warm` compiles them",
        file=sys.stderr,
    )
    return BAD_DATA


def _selected(path: str | None) -> tuple[list[int], dict[str, str]]:
    """The forms to compile, and the indexes that the job names. Raises ValueError for a bad job file."""
    from tocsin.cli.workload import TEMPLATES, kind_of, templates_of

    if path is None:
        return list(range(len(TEMPLATES))), {}
    job = _read(path)
    catalog = job.schemas()
    return templates_of(kind_of(logical, catalog) for logical in job.plans()), job.settings.indexes


def _read(path: str) -> Job:
    from tocsin.cli.extras import spark_extra

    with spark_extra():
        from tocsin.pipeline.job.errors import JobError
        from tocsin.pipeline.job.jobs import Job
    try:
        return Job.read(path)
    except JobError as failure:
        raise ValueError(str(failure)) from None


def _run_all(
    numbers: list[int], indexes: dict[str, str], processes: int | None, *, is_check: bool
) -> list[Form]:
    """Run the forms in parallel. Two that share a kernel do not compile it twice: one waits for the other."""
    from multiprocessing import get_context

    from tocsin.cli.workload import KERNELS, TEMPLATES

    done = []
    workers = min(processes or _cores(), len(numbers))
    counted = CompiledKernels()
    is_whole = not (is_check or counted.before or len(numbers) < len(TEMPLATES))
    title = "checking kernels" if is_check else "compiling kernels"
    with (
        _progress(title, KERNELS if is_whole else len(numbers), "kernels" if is_whole else "forms") as shown,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        pending = {pool.submit(run_form, number, indexes, is_check=is_check) for number in numbers}
        try:
            while pending:
                finished, pending = wait(pending, timeout=INTERVAL / 5, return_when=FIRST_COMPLETED)
                done += [future.result() for future in finished]
                compiled = counted.count()
                shown.update(compiled if is_whole else len(done), compiled)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return done


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_form(number: int, indexes: dict[str, str], *, is_check: bool) -> Form:
    """Use a form of statement, in a process of the pool."""
    import logging
    import tempfile
    from pathlib import Path

    from tocsin.arrays import kernel_cache
    from tocsin.arrays.compile_progress import compilation
    from tocsin.cli.workload import MANY, run
    from tocsin.errors import IndexRefused

    logging.disable()
    kernel_cache.may_compile = not is_check
    before = compilation.count
    try:
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), numbers=[number], many=MANY, indexes=indexes)
    except kernel_cache.KernelMissing as missing:
        return Form(number, 0, str(missing))
    except IndexRefused:
        # The job names an index that holds other forms of this kind only.
        if not indexes:
            raise
    return Form(number, compilation.count - before, None)


class _Lines:
    """Progress in a pipe: a line now and then."""

    def __init__(self, title: str, total: int, unit: str) -> None:
        self._title, self._total, self._unit = title, total, unit
        self._since = self._last = time.monotonic()

    def update(self, done: int, compiled: int) -> None:
        now = time.monotonic()
        if now - self._last >= INTERVAL:
            self._last = now
            text = f"{self._title}: {done} of {self._total} {self._unit}"
            if self._unit != "kernels":
                text += f", {compiled} compiled"
            print(f"{text}, {now - self._since:.0f} s", file=sys.stderr, flush=True)


class _Bar:
    """Progress on a terminal, with the time that it will take."""

    def __init__(self, progress: Progress, title: str, total: int, unit: str) -> None:
        self._progress, self._title, self._unit = progress, title, unit
        self._task = progress.add_task(title, total=total)

    def update(self, done: int, compiled: int) -> None:
        text = self._title if self._unit == "kernels" else f"{self._title}: {compiled}"
        self._progress.update(self._task, completed=done, description=text)


@contextmanager
def _progress(title: str, total: int, unit: str) -> Iterator[_Lines | _Bar]:
    if not sys.stderr.isatty():
        yield _Lines(title, total, unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield _Bar(progress, title, total, unit)
