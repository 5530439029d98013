"""What `tocsin warm` runs leads to every kernel that the package calls, and to one signature of each."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

import tocsin
from tests.cli.commands import ROOT, environment
from tests.conftest import INTERPRETED
from tests.test_signatures import signatures
from tocsin.cli.workload import MANY, TEMPLATES, run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")]

#: Kernels that Python calls without need of `tocsin warm`, and why. Others are called by kernels as well.
EXCEPTIONS = {
    "tocsin.indexes.matching.access.layout_kernels.bit_of": "only `check_invariants` calls it",
    "tocsin.indexes.ranges.structures.row_treap_kernels.rank_of": "only `check_invariants` calls it",
    "tocsin.kernels.scoring.score_tile": "only `check_invariants` calls it",
    "tocsin.indexes.ranges.messages.receivers_kernels.count_receivers": "for papers and benchmarks",
}


class Reached(NamedTuple):
    """What a process that ran all forms of statement knows of kernels."""

    #: by kernel that Python calls and that was neither compiled nor loaded, the functions that call it
    missing: dict[str, list[str]]
    #: the signatures of the others
    signatures: dict[str, list[str]]


def main() -> None:
    """Run all forms as `tocsin warm` does, and print what they reached."""
    for number in range(len(TEMPLATES)):
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), numbers=[number], many=MANY)
    missing: dict[str, list[str]] = {}
    for module in _modules():
        for function in _functions(module):
            for kernel in _called_kernels(function):
                if not kernel.overloads:
                    callers = missing.setdefault(_name(kernel.py_func), [])
                    callers.append(_name(function))
    print(json.dumps(Reached(missing, signatures())))


def _modules() -> Iterator[ModuleType]:
    """All modules of the package but the papers; those of migrations run only inside of Alembic."""
    for found in pkgutil.walk_packages(tocsin.__path__, "tocsin."):
        if not {"papers", "migrations", "__main__"} & set(found.name.split(".")):
            yield importlib.import_module(found.name)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that a module defines, but for those that check invariants."""
    owners = [module, *(thing for thing in vars(module).values() if isinstance(thing, type))]
    for owner in owners:
        for thing in vars(owner).values():
            function = _plain(thing)
            if (
                function is not None
                and function.__module__ == module.__name__
                and not function.__name__.lstrip("_").startswith("check")
            ):
                yield function


def _plain(thing: Any) -> FunctionType | None:
    """The function inside of a method, a property or a decorator; None for kernels and anything else."""
    while thing is not None and not _is_kernel(thing):
        inner = [getattr(thing, name, None) for name in ("__wrapped__", "__func__", "fget", "func")]
        if isinstance(thing, FunctionType) and inner[0] is None:
            return thing
        thing = next(filter(None, inner), None)
    return None


def _is_kernel(thing: Any) -> bool:
    return hasattr(thing, "overloads") and hasattr(thing, "py_func")


def _called_kernels(function: FunctionType) -> Iterator[Any]:
    """The kernels that a function names, directly or in a module of the package."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        others = vars(value) if isinstance(value, ModuleType) and _is_ours(value.__name__) else {}
        for found in (value, *(others[other] for other in sorted(names & others.keys()))):
            if _is_kernel(found):
                yield found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "tocsin"


def _name(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@pytest.fixture(scope="module")
def reached() -> Reached:
    finished = subprocess.run(
        [sys.executable, "-c", "from tests.cli.test_workload import main; main()"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return Reached(*json.loads(finished.stdout))


def test_every_kernel_that_python_calls_is_reached(reached: Reached) -> None:
    assert {name: by for name, by in reached.missing.items() if name not in EXCEPTIONS} == {}
    assert sorted(reached.missing) == sorted(EXCEPTIONS)


def test_many_subscriptions_compile_each_kernel_once(reached: Reached) -> None:
    assert len(reached.signatures) > 100
    several = {name: kinds for name, kinds in reached.signatures.items() if len(kinds) > 1}
    # These take the columns of any index.
    assert {
        name: kinds for name, kinds in several.items() if not name.startswith("tocsin.arrays.argument_packs.")
    } == {}
