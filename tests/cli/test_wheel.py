"""A wheel with compiled kernels: installed into an empty environment, nothing is left to compile."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import ROOT, environment
from tests.conftest import INTERPRETED
from tocsin.arrays import kernel_folders, shipped_kernels

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(INTERPRETED, reason="nothing is compiled"),
    pytest.mark.skipif(not shipped_kernels.supports_level(), reason="this machine cannot run such kernels"),
]

MEGABYTE = 2**20


def call(*command: object, **variables: str) -> str:
    """Run a command that must succeed; what it prints."""
    finished = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**environment(), **variables},
        cwd=ROOT,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of `make wheel`; kernels that were compiled ahead for the tests are taken from there."""
    folder = tmp_path_factory.mktemp("kernels") / shipped_kernels.folder_name()
    folder.mkdir()
    for cache in kernel_folders.folders()[0]:
        for kernel in Path(cache).glob(f"tocsin.*-{shipped_kernels.LEVEL}-*.kernel"):
            shutil.copy(kernel, folder)
    call(sys.executable, "-m", "tocsin", "warm", "--portable", TOCSIN_KERNEL_CACHE=str(folder))
    built = tmp_path_factory.mktemp("dist")
    pip = sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"
    call(*pip, built, ROOT, TOCSIN_COMPILED_KERNELS=str(folder))
    (found,) = built.iterdir()
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and what it needs."""
    folder = tmp_path_factory.mktemp("environment")
    call(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    pip = python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"
    call(*pip, "--constraint", ROOT / "constraints.txt", wheel)
    return python


def test_its_name_and_size(wheel: Path) -> None:
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert wheel.name.split("-", 2)[2].startswith(f"{version}-none-linux_")
    assert wheel.stat().st_size < 60 * MEGABYTE


def test_no_form_of_statement_lacks_a_kernel(installed: Path, tmp_path: Path) -> None:
    """`--check` fails at the first kernel that would have to be compiled."""
    variables = {"TOCSIN_KERNEL_CACHE": str(tmp_path), "PYTHONPATH": ""}
    assert call(installed, "-m", "tocsin", "warm", "--check", **variables).startswith("every kernel is there")
    assert os.listdir(tmp_path) == []


def test_what_the_readme_shows_compiles_nothing(installed: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```(\w*)\n(.*?)```", readme, re.DOTALL)
    session = re.search(r"```console\n(.*?)```", readme, re.DOTALL)
    assert session is not None
    _, show, rows, command, output = re.split(r"^\$ (.*)\n", session[1], flags=re.MULTILINE)
    (tmp_path / show.split()[1]).write_text(rows)
    nothing = "from tocsin.arrays import kernel_cache; kernel_cache.may_compile = False; "
    variables = {"TOCSIN_KERNEL_CACHE": str(tmp_path / "none"), "PYTHONPATH": ""}
    assert call(installed, "-c", f"{nothing}\n{blocks[0][1]}", **variables) == blocks[1][1]
    main = f"{nothing} import sys; from tocsin.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = shlex.split(command.partition("|")[0])[1:]
    arguments[arguments.index(show.split()[1])] = str(tmp_path / show.split()[1])
    assert call(installed, "-c", main, *arguments, **variables) == output
