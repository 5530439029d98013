"""The package as a house: one word, one meaning; folders of few files; imports that compile nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.cli.commands import ROOT, environment
from tests.conftest import INTERPRETED
from tocsin.kernels import status

PACKAGE = ROOT / "src" / "tocsin"
LAYERS = sorted(folder.name for folder in PACKAGE.iterdir() if (folder / "__init__.py").exists())
#: More want a folder of their own.
MOST_FILES = 19
#: Fewer where several indexes answer a question: each has a folder.
MOST_INDEX_FILES = 13
#: Lines after which a module wants splitting.
MOST_LINES = 600
#: Parameters of a function that is no kernel.
MOST_PARAMETERS = 8
#: Public, with an option a keyword.
LONG_SIGNATURES = {"pipeline/job/running.py: start"}

COMPILED = """
import sys
import tocsin.engine
from tocsin.arrays.dispatchers import KernelDispatcher
found = [
    f"{module}.{name}"
    for module, content in list(sys.modules.items()) if module.startswith("tocsin.")
    for name, thing in vars(content).items()
    if isinstance(thing, KernelDispatcher) and (thing.overloads or thing.inner)
]
papers = [module for module in sys.modules if module.startswith("tocsin.papers")]
print(found + papers)
"""


@pytest.mark.parametrize("layer", LAYERS)
def test_no_class_name_stands_for_two_things(layer: str) -> None:
    places = defaultdict(list)
    for file in sorted((PACKAGE / layer).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(PACKAGE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_folders_can_be_looked_over() -> None:
    sizes = {
        folder.relative_to(PACKAGE): len(list(folder.glob("*.py")))
        for folder in PACKAGE.rglob("*")
        if folder.is_dir()
    }
    most = {place: MOST_INDEX_FILES if place.parts[0] == "indexes" else MOST_FILES for place in sizes}
    assert {str(place): n for place, n in sizes.items() if n > most[place]} == {}


def test_modules_are_not_too_long() -> None:
    lengths = {file: len(file.read_text().splitlines()) for file in PACKAGE.rglob("*.py")}
    assert {str(f.relative_to(PACKAGE)): n for f, n in lengths.items() if n > MOST_LINES} == {}


def test_functions_take_few_parameters() -> None:
    long = set()
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE)
        if file.name.endswith("_kernels.py") or place.parts[0] in ("kernels", "papers"):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if len([name for name in names if name.arg not in ("self", "cls")]) > MOST_PARAMETERS:
                    long.add(f"{place}: {node.name}")
    assert long == LONG_SIGNATURES


def test_every_status_has_a_value_of_its_own() -> None:
    places = {"STEP", "AT", "N_OUT", "OWN"}
    values = {name: value for name, value in vars(status).items() if name.isupper() and name not in places}
    assert len(values) >= 10
    assert len(set(values.values())) == len(values)
    for file in PACKAGE.rglob("*.py"):
        if file != Path(status.__file__):
            assigned = {
                target.id
                for node in ast.parse(file.read_text()).body
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            assert not assigned & values.keys(), file


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_importing_the_engine_compiles_nothing_and_loads_no_paper() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", COMPILED],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == "[]"
