"""What `import tocsin` gives, and what it does not cost."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tocsin
from tests.cli.commands import environment

ROOT = Path(__file__).parents[1]


def test_every_public_name_is_there() -> None:
    for name in tocsin.__all__:
        assert getattr(tocsin, name).__name__ == name
        assert name in dir(tocsin)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Motor"):
        tocsin.__getattr__("Motor")


def test_every_error_is_a_tocsin_error() -> None:
    for name in tocsin.__all__:
        value = getattr(tocsin, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, tocsin.Error)


def test_import_is_cheap() -> None:
    code = "import sys, tocsin; print({'numba', 'numpy', 'pyarrow', 'sqlglot'} & set(sys.modules))"
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert finished.stdout == "set()\n"


def test_version_is_in_the_changelog() -> None:
    assert f"## [{tocsin.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_version_is_in_the_citation() -> None:
    assert f"\nversion: {tocsin.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_constraints_pin_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(one for extra in project["optional-dependencies"].values() for one in extra),
    ]
    names = {re.split(r"[\[<>=!~ ]", requirement)[0] for requirement in wanted} - {"tocsin"}
    pinned = set(re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert names <= pinned


def test_the_readme_says_what_happens() -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (_, code), (_, output) = blocks[:2]
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert finished.stdout == output


def test_the_readme_s_command_says_what_happens(tmp_path: Path) -> None:
    session = re.search(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert session is not None
    _, show, rows, command, output = re.split(r"^\$ (.*)\n", session[1], flags=re.MULTILINE)
    (tmp_path / show.split()[1]).write_text(rows)
    arguments = shlex.split(command.partition("|")[0])[1:]
    finished = subprocess.run(
        [sys.executable, "-m", "tocsin", *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        cwd=tmp_path,
        check=True,
    )
    assert finished.stdout == output


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text())
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_the_readme_shows_make() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make demo " in text
    assert "make test " in text
