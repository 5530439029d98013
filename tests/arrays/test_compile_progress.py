"""What is said while kernels are compiled, and when nothing is."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.commands import PATIENCE, ROOT, environment
from tests.conftest import INTERPRETED
from tocsin.arrays import compile_progress
from tocsin.arrays.compile_progress import Compilation


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Time that moves when it is told to; nothing is silenced, and nothing has to be waited for."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(compile_progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(compile_progress, "_SILENCE", 3600.0)
    monkeypatch.delenv("TOCSIN_QUIET", raising=False)
    return clock


def kernel(name: str) -> Any:
    return SimpleNamespace(py_func=SimpleNamespace(__qualname__=name))


def compile_for(compilation: Compilation, clock: SimpleNamespace, *seconds: float) -> None:
    """A kernel that calls others, each compiled for so long."""
    outer = kernel("outer")
    compilation.begin(outer)
    for number, one in enumerate(seconds):
        inner = kernel(f"inner_{number}")
        compilation.begin(inner)
        clock.now += one
        compilation.end(inner)
    compilation.end(outer)
    if compilation._timer is not None:
        compilation._timer.cancel()


def test_one_line_says_how_many_and_how_long(
    clock: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    compilation = Compilation()
    compile_for(compilation, clock, 2.0, 3.0)
    compile_for(compilation, clock, 4.0)
    for _ in range(2):
        compilation.say()
    (record,) = caplog.records
    assert record.getMessage().startswith("compiled 5 kernels in 9 s; kept in ")
    compile_for(compilation, clock, 7.0)
    compilation.say()
    assert caplog.records[1].getMessage().startswith("compiled 2 kernels in 7 s")


@pytest.mark.parametrize("silenced", ["a moment", "variable", "level"])
def test_nothing_is_said(
    clock: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    silenced: str,
) -> None:
    if silenced == "variable":
        monkeypatch.setenv("TOCSIN_QUIET", "1")
    elif silenced == "level":
        caplog.set_level(logging.ERROR, logger="tocsin")
    compilation = Compilation()
    compile_for(compilation, clock, 0.5 if silenced == "a moment" else 5.0)
    compilation.say()
    assert caplog.records == []
    assert compilation._timer is None


def test_what_failed_is_not_counted(clock: SimpleNamespace) -> None:
    compilation = Compilation()
    outer, inner = kernel("outer"), kernel("inner")
    compilation.begin(outer)
    compilation.begin(inner)
    clock.now += 5
    compilation.end(outer, is_compiled=False)
    assert (compilation.count, compilation.seconds) == (0, 5.0)
    compilation.end(inner, is_compiled=False)
    assert (compilation.count, compilation.seconds) == (0, 5.0)


def test_a_terminal_has_a_line_that_is_overwritten(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile_progress, "_has_terminal", lambda: True)
    compile_for(Compilation(), clock, 0.9, 0.05, 0.1, 0.15, 0.15, 0.15)
    assert capsys.readouterr().err.split("\r\x1b[K") == [
        "",
        "compiling kernels: 3 done, 1 s, now inner_3",
        "compiling kernels: 5 done, 1 s, now inner_5",
        "",
    ]


SCRIPT = """
import time
from tocsin.arrays import compile_progress
from tocsin.arrays.jit import lean_kernel
compile_progress.MOMENT = 0.001
@lean_kernel
def double(number):
    return 2 * number
print(double(4), flush=True)
"""


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_in_a_pipe_one_line_is_left(tmp_path: os.PathLike[str]) -> None:
    variables = {**environment(), "TOCSIN_KERNEL_CACHE": str(tmp_path), "PYTHONWARNINGS": "error"}
    del variables["TOCSIN_QUIET"]
    for expected in (f"compiled 1 kernel in 0 s; kept in {tmp_path}\n", ""):
        finished = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            cwd=ROOT,
            env=variables,
            check=False,
        )
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, "8\n", expected)


def test_what_is_being_compiled_can_be_asked(clock: SimpleNamespace) -> None:
    compilation = Compilation()
    assert compilation.ongoing() is None
    compile_for(compilation, clock, 2.0)
    assert compilation.ongoing() is None, "it has ended"
    compilation.begin(kernel("next"))
    assert compilation.ongoing() is None, "this is but a moment"
    clock.now += 1.5
    assert compilation.ongoing() == (2, 3.5)


def test_kernels_of_the_package_that_cannot_be_used_are_said(
    clock: SimpleNamespace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_progress, "unusable", lambda: "cpython-311-numba-0.1-x86-64-v3")
    compilation = Compilation()
    compile_for(compilation, clock, 2.0)
    compilation.say()
    (record,) = caplog.records
    assert record.getMessage().endswith("; the package has kernels for cpython-311-numba-0.1-x86-64-v3")
