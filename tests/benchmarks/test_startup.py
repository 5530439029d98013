"""Starting: scripts of all forms, what a process finds to cache in, and what becomes of figures."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from benchmarks.report.starting import starting_section
from benchmarks.startup import IMPORTS, Session, measure_example, measure_forms, measure_help
from benchmarks.startup_parts.first_batch import job_of
from benchmarks.startup_parts.first_batches import SUBJECTS, measure_first_batches, write_input
from benchmarks.startup_parts.installing import CACHES, EMPTY, UNWRITABLE, Environment
from benchmarks.startup_parts.scripts import CHECK, Script, forms, readme_example

from tests.benchmarks.samples import record
from tocsin.cli.workload import TEMPLATES

#: Prints where kernels would be read and written, if the package were where this says.
FOLDERS = """
from pathlib import Path
from tocsin.arrays import kernel_folders
kernel_folders.PACKAGE = Path({!r})
print(kernel_folders.folders()[1])
"""


class Pretended(Environment):
    """Runs nothing; writes down what was asked for."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.asked: list[tuple[str, str]] = []

    def run(self, *command: str, cache: str = EMPTY) -> str:
        self.asked.append((command[-1], cache))
        return self.output


def printed(script: Script) -> str:
    """What a script prints in this process, which may have compiled."""
    output = StringIO()
    with redirect_stdout(output):
        exec(script.text.removesuffix(CHECK), {})
    return output.getvalue()


def test_the_readme_s_example_prints_what_the_readme_shows() -> None:
    script = readme_example()
    assert script.output
    assert printed(script) == script.output


@pytest.mark.parametrize("script", forms(), ids=lambda script: script.name)
def test_a_form_has_an_answer(script: Script) -> None:
    assert printed(script).strip()


def test_every_form_is_there_under_a_name_of_its_own() -> None:
    assert [script.name for script in forms()] == [sql for sql, _ in TEMPLATES]
    assert len({script.name for script in forms()}) == len(TEMPLATES)


@pytest.mark.parametrize("cache", CACHES)
def test_what_a_process_finds_to_cache_in(cache: str, tmp_path: Path) -> None:
    (tmp_path / "homes").mkdir()
    package = tmp_path / "package"
    kernels = package / "__pycache__" / "kernels"
    environment = Environment(Path(sys.executable).parent, tmp_path / "homes", kernels)
    for turn in (EMPTY, cache):
        found = environment.run("python", "-c", FOLDERS.format(str(package)), cache=turn).strip()
        assert found == (str(kernels) if turn == EMPTY else "None")
    assert len(os.listdir(tmp_path / "homes")) == 2


def test_a_process_that_fails_is_an_error(tmp_path: Path) -> None:
    environment = Environment(Path(sys.executable).parent, tmp_path, tmp_path / "kernels")
    with pytest.raises(RuntimeError, match="1 kernels were compiled"):
        environment.run("python", "-c", 'assert False, "1 kernels were compiled"')


def test_the_slowest_form_stands_for_all() -> None:
    environment = Pretended("an answer")
    found = measure_forms(Session(environment, 2, {}), UNWRITABLE, slowest=3)
    assert {cache for command, cache in environment.asked if command != IMPORTS} == {UNWRITABLE}
    # Each once, then three of them and the imports, twice and a round that does not count.
    assert len(environment.asked) == len(TEMPLATES) + 3 * 4
    slowest, imports, *each = found
    assert slowest.case == imports.case == "the slowest of all forms, unwritable cache"
    assert imports.subject == IMPORTS
    assert slowest.median == max(form.median for form in each)
    assert len({form.key for form in found}) == len(found) == 5


def test_the_example_stands_beside_the_imports_with_each_cache() -> None:
    found = measure_example(Session(Pretended(str(readme_example().output)), 2, {}))
    assert [(each.case, each.subject) for each in found] == [
        (f"README's example, {cache} cache", subject)
        for cache in CACHES
        for subject in ("first answer", IMPORTS)
    ]
    with pytest.raises(AssertionError, match="another answer"):
        measure_example(Session(Pretended("another answer"), 2, {}))


def test_the_help_stands_beside_a_python_that_does_nothing() -> None:
    found = measure_help(Session(Pretended(""), 2, {}))
    assert [each.subject for each in found] == ["tocsin --help", "python -c pass"]


def test_first_micro_batches_take_turns(tmp_path: Path) -> None:
    environment = Pretended("a warning\n1.5\n")
    found = measure_first_batches(environment, tmp_path, 2)
    assert found == {name: [1.5, 1.5] for name in SUBJECTS}
    assert len(set(environment.asked)) == 6


def test_the_job_is_valid(tmp_path: Path) -> None:
    write_input(tmp_path)
    assert len(job_of(tmp_path).plans()) == 1


def test_the_report_has_cases_and_forms() -> None:
    known = [
        record("first answer", 1.0, case="example", unit="s"),
        record(IMPORTS, 0.5, case="example", unit="s"),
        record("size", 31.0, case="the wheel", unit="MB"),
        record("first answer", 2.0, case="SELECT a, empty cache", unit="s",
               sizes={"form": "SELECT a", "cache": "empty"}),
        record("first answer", 3.0, case="SELECT b, empty cache", unit="s",
               sizes={"form": "SELECT b", "cache": "empty"}),
    ]  # fmt: skip
    text = starting_section(known)
    assert f"| example | first answer | 1 | s | {IMPORTS} | 0.5 | 2 |" in text
    assert "| the wheel | size | 31 | MB |  |  |  |" in text
    assert text.index("| `SELECT b` | 3 |") < text.index("| `SELECT a` | 2 |")
    assert "python -m benchmarks startup" in starting_section([])
