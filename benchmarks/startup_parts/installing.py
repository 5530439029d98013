"""A wheel with compiled kernels, and a fresh environment that it is installed into."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tocsin.arrays import kernel_folders, shipped_kernels

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "constraints.txt"

#: What a process finds where kernels are kept: nothing yet, or nothing that can be written.
CACHES = EMPTY, UNWRITABLE = "empty", "unwritable"

#: Of this process's environment; all else might change what is imported, found or compiled.
KEPT = ("PATH", "LANG", "LC_ALL", "JAVA_HOME")


def compile_all(folder: Path) -> float:
    """Seconds of processor time, of all processes, to compile into `folder` what is not there yet."""
    environment = {**os.environ, "TOCSIN_KERNEL_CACHE": str(folder)}
    before = _children_seconds()
    command = [sys.executable, "-m", "tocsin", "warm", "--portable"]
    subprocess.run(command, env=environment, cwd=ROOT, check=True)
    return _children_seconds() - before


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def copy_compiled(folder: Path) -> None:
    """Copy kernels that were compiled ahead in this clone."""
    for cache in kernel_folders.folders()[0]:
        for kernel in Path(cache).glob(f"tocsin.*-{shipped_kernels.LEVEL}-*.kernel"):
            shutil.copy(kernel, folder)


def build_wheel(kernels: Path, folder: Path) -> Path:
    """The wheel of `make wheel`, with these kernels."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    environment = {**os.environ, "TOCSIN_COMPILED_KERNELS": str(kernels)}
    subprocess.run([*command, str(ROOT)], env=environment, cwd=ROOT, check=True)
    (built,) = folder.glob("*.whl")
    return built


class Environment:
    """A virtual environment with a wheel. Each process gets a home of its own in `homes`."""

    def __init__(self, bin: Path, homes: Path, kernels: Path) -> None:
        self._bin = bin
        self._homes = homes
        #: where the package keeps compiled kernels, if it can
        self._kernels = kernels

    def run(self, *command: str, cache: str = EMPTY) -> str:
        """Run a command of the environment; what it prints. Raises RuntimeError if it fails."""
        finished = subprocess.run(
            [self._bin / command[0], *command[1:]],
            env=self._variables(cache),
            cwd=self._homes,
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode:
            raise RuntimeError(f"{command[-1]}: {finished.stderr}")
        return finished.stdout

    def _variables(self, cache: str) -> dict[str, str]:
        """A fresh home, in which nothing is cached or can be: a file where a folder would be.

        Not by permissions, which a superuser does not heed.
        """
        home = Path(tempfile.mkdtemp(dir=self._homes))
        shutil.rmtree(self._kernels, ignore_errors=True)
        self._kernels.unlink(missing_ok=True)
        variables = {name: os.environ[name] for name in KEPT if name in os.environ}
        variables |= {"HOME": str(home), "TMPDIR": str(home)}
        if cache == UNWRITABLE:
            self._kernels.parent.mkdir(exist_ok=True)
            for path in (self._kernels, home / ".cache", home / f"tocsin-kernels-{os.getuid()}"):
                path.touch()
        return variables


def install(wheel: Path, folder: Path, extra: str = "") -> Environment:
    """The environment in `folder`, made if need be, with a wheel and what it or one of its extras needs."""
    bin = folder / "environment" / "bin"
    homes = folder / "homes"
    if not bin.exists():
        homes.mkdir()
        subprocess.run([sys.executable, "-m", "venv", str(bin.parent)], check=True)
    pip = [str(bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    what = f"{wheel}[{extra}]" if extra else str(wheel)
    subprocess.run([*pip, "--constraint", str(CONSTRAINTS), what], check=True)
    (package,) = bin.parent.glob("lib/python*/site-packages/tocsin")
    return Environment(bin, homes, package / "__pycache__" / "kernels")
