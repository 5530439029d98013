"""Each example prints what its docstring shows. `TOCSIN_WRITE_OUTPUT=1` writes what it prints instead."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.cli.commands import environment

EXAMPLES = Path(__file__).parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))
MARK = "Output:\n"


def test_there_are_examples() -> None:
    assert {file.stem for file in FILES} >= {"price_alerts", "leaderboard", "matching_rules", "geofence"}


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_example(file: Path, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    text = file.read_text()
    about = ast.get_docstring(ast.parse(text), clean=False) or ""
    assert MARK in about
    if os.environ.get("TOCSIN_WRITE_OUTPUT"):
        described = about[: about.index(MARK)]
        shown = textwrap.indent(finished.stdout, "    ")
        file.write_text(text.replace(about, f"{described}{MARK}\n{shown}", 1))
        return
    assert finished.stdout == textwrap.dedent(about[about.index(MARK) + len(MARK) :]).lstrip("\n")
