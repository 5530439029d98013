"""`tocsin warm`: compiling ahead, all or for a job, and telling what is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, environment
from tests.conftest import INTERPRETED
from tocsin.cli import warm
from tocsin.cli.workload import TEMPLATES, templates_of
from tocsin.planning.questions import KINDS, ROWS

JOB = """
[job]
name = "seen"
checkpoint = "state"

[tables.cars]
path = "in/cars"
key = "id"
columns = { id = "string", km = "double" }

[[subscriptions]]
sql = "SELECT id FROM cars WHERE km BETWEEN 1 AND 5"
id = "near"

[sink]
path = "out"
"""


def warmed(*arguments: str, cache: Path) -> tuple[int, str, str]:
    finished = subprocess.run(
        [*COMMAND, "warm", *arguments],
        capture_output=True,
        text=True,
        env={**environment(), "TOCSIN_KERNEL_CACHE": str(cache)},
        check=False,
    )
    return finished.returncode, finished.stdout, finished.stderr


def test_there_is_a_form_of_every_kind() -> None:
    numbers = [number for kind in KINDS for number in templates_of([kind])]
    assert all(templates_of([kind]) for kind in KINDS)
    assert sorted(numbers) == list(range(len(TEMPLATES)))


def test_a_job_selects_the_forms_of_its_kinds(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    assert warm._selected(str(tmp_path / "job.toml")) == (templates_of([ROWS]), {})
    assert len(warm._selected(None)[0]) == len(TEMPLATES)


def test_bad_usage_is_refused(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB.replace("km BETWEEN", "size BETWEEN"))
    code, output, errors = warmed("--for", str(tmp_path / "job.toml"), cache=tmp_path)
    assert (code, output) == (2, "")
    assert "size" in errors


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_a_missing_kernel_is_told_and_not_compiled(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    code, output, errors = warmed("--for", str(tmp_path / "job.toml"), "--check", cache=tmp_path / "kept")
    assert (code, output) == (1, "")
    assert "forms of statement lack kernels, such as tocsin." in errors
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_what_has_been_compiled_ahead_is_there(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(JOB)
    arguments = "--for", str(tmp_path / "job.toml")
    code, output, _ = warmed(*arguments, cache=tmp_path / "kept")
    assert code == 0
    assert output.startswith(f"{tmp_path / 'kept'}: ")
    assert warmed(*arguments, "--check", cache=tmp_path / "kept")[0] == 0
    assert warmed(*arguments, cache=tmp_path / "kept")[1].startswith(f"{tmp_path / 'kept'}: 0 kernels")


@pytest.mark.parametrize(
    ("unit", "line"),
    [
        ("forms", "compiling kernels: 2 of 3 forms, 9 compiled, 0 s\n"),
        ("kernels", "compiling kernels: 2 of 3 kernels, 0 s\n"),
    ],
)
def test_progress_in_a_pipe_is_a_line_now_and_then(
    unit: str, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with warm._progress("compiling kernels", 3, unit) as shown:
        shown.update(1, 5)
        monkeypatch.setattr(warm, "INTERVAL", 0.0)
        shown.update(2, 9)
    assert capsys.readouterr().err == line
