"""Every kernel of the network and of its simulator is compiled once, for one type of each argument."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cli.commands import ROOT, environment
from tests.conftest import INTERPRETED
from tests.network.test_edges import FIRST, TEMPLATES, Scene
from tests.papers.network.test_simulation import SPEC
from tests.test_signatures import signatures
from tocsin.papers.network.simulation import write_results
from tocsin.papers.network.specs import read_spec


def main() -> None:
    """Use the network and its simulator broadly, and print the signatures of its kernels."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.toml").write_text(SPEC)
        write_results(read_spec(folder / "spec.toml"), folder, lambda run: None)
    for sql in TEMPLATES:
        scene = Scene(sql, [(0.0, 1.0), (1.0, 3.0), (2.0, 3.0), (0.0, 3.0)], 2)
        for what in ("tell", "bring", "split", "tell", "snapshot", "kill", "tell", "bring"):
            scene.do(what, [{**FIRST, "y": 0.5}, {"k": "b", "x": 2.0, "y": 3.0}])
        scene.check()
    print(json.dumps({name: kinds for name, kinds in signatures().items() if ".network." in name}))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_the_network_compiles_each_kernel_once() -> None:
    command = [sys.executable, "-c", "from tests.network.test_compiling import main; main()"]
    finished = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment(), check=False
    )
    assert finished.returncode == 0, finished.stderr
    found: dict[str, list[str]] = json.loads(finished.stdout)
    assert len(found) >= 9
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}
