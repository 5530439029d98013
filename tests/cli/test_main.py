"""The `tocsin` command itself: help, version, unknown commands, and what is not imported for them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tocsin
from tests.cli.commands import environment, run
from tocsin.cli.main import main


def test_version() -> None:
    finished = run("--version")
    assert (finished.returncode, finished.stdout) == (0, f"tocsin {tocsin.__version__}\n")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "watch" in capsys.readouterr().out


def test_without_arguments_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert "usage: tocsin" in capsys.readouterr().out


def test_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["listen"])
    assert ended.value.code == 2
    assert "listen" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["watch", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom tocsin.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print({'numba', 'numpy', 'pyarrow', 'sqlglot', 'rich'} & set(sys.modules))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert finished.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--help"], ["watch", "--help"]])
def test_help_imports_nothing_of_the_papers(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom tocsin.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith('tocsin.papers')])"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert finished.stdout.splitlines()[-1] == "[]"
