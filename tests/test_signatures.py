"""Every kernel is compiled once: for one type of each argument.

A second signature costs a second compilation on every machine's first run. It comes of an array that is
read-only or strided, as Arrow's are, or of a number of another width, that a class let through to a kernel.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import ROOT, environment
from tests.conftest import INTERPRETED
from tocsin.cli.workload import run


def signatures() -> dict[str, list[str]]:
    """The signatures of every kernel of the package that has been compiled, or loaded, so far."""
    found: dict[str, list[str]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("tocsin."):
            for thing in vars(module).values():
                kernel: Any = getattr(thing, "py_func", None)
                if kernel is not None and thing.signatures:
                    found[f"{kernel.__module__}.{kernel.__name__}"] = _distinct(thing.signatures)
    return found


def _distinct(compiled: list[tuple[Any, ...]]) -> list[str]:
    """Signatures as text, each once. A constant, which Numba types as a literal, counts as its type."""
    plain = [tuple(getattr(argument, "literal_type", argument) for argument in one) for one in compiled]
    return sorted({str(one) for one in plain})


def main() -> None:
    """Print the signatures that the public API leads to."""
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))
    papers = [name for name in sys.modules if name.startswith("tocsin.papers")]
    print(json.dumps({"signatures": signatures(), "papers": papers}))


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_the_public_api_compiles_each_kernel_once() -> None:
    # In a process of its own: what other tests hand to kernels is their own affair.
    finished = subprocess.run(
        [sys.executable, "-c", "from tests.test_signatures import main; main()"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    printed = json.loads(finished.stdout)
    found: dict[str, list[str]] = printed["signatures"]
    assert printed["papers"] == []
    folders = {name.split(".")[2] for name in found if name.startswith("tocsin.indexes.")}
    assert folders == {"filters", "matching", "preferences", "ranges", "thresholds"}
    assert {name.split(".")[1] for name in found} >= {"arrays", "kernels"}
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}
