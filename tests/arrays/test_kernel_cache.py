"""Compiled kernels on disk: found by content, in the first folder that can be had, compiled once."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import config

import tocsin
from tests.cli.commands import PATIENCE, ROOT, environment
from tests.conftest import INTERPRETED
from tocsin.arrays import kernel_cache, kernel_folders, kernel_keys, shipped_kernels
from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.kernel_keys import content_key, variant_key

compiled = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
portable = pytest.mark.skipif(
    not shipped_kernels.supports_level(), reason="this machine cannot run portable kernels"
)
#: Have Numba compile for all machines of the level, and for this one.
FOR_ALL = {"NUMBA_CPU_NAME": shipped_kernels.LEVEL, "NUMBA_CPU_FEATURES": ""}
FOR_THIS = {"NUMBA_CPU_NAME": None, "NUMBA_CPU_FEATURES": None}

LEAF = """
from tocsin.arrays.jit import lean_kernel

STEP = 1

@lean_kernel
def leaf(number):
    return number + STEP
"""
USER = """
import leaves
from tocsin.arrays.jit import lean_kernel

@lean_kernel
def user(number):
    return leaves.leaf(number)

@lean_kernel
def other(number):
    return number + 5
"""
#: Calls the kernels, and prints the answers and how many were compiled.
SCRIPT = """
import json, sys
from pathlib import Path
from tocsin.arrays import kernel_folders
if "--installed-read-only" in sys.argv:
    kernel_folders.PACKAGE = Path(__file__)
if "--installed" in sys.argv:
    kernel_folders.PACKAGE = Path(__file__).with_name("package")
sys.path.insert(0, str(Path(__file__).parent))
import users
from tocsin.arrays.compile_progress import compilation
print(json.dumps({"answers": [users.user(1), users.other(1)], "compiled": compilation.count}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A program with three kernels in two files, and a folder for what is compiled of it."""
    (tmp_path / "leaves.py").write_text(LEAF)
    (tmp_path / "users.py").write_text(USER)
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "kept").mkdir()
    return tmp_path


def start(project: Path, *arguments: str, **variables: str | None) -> subprocess.Popen[str]:
    wanted = {**environment(), "TOCSIN_KERNEL_CACHE": str(project / "kept"), **variables}
    return subprocess.Popen(
        [sys.executable, str(project / "script.py"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in wanted.items() if value is not None},
    )


def finish(process: subprocess.Popen[str]) -> tuple[list[int], int, str]:
    """The answers of the kernels, how many were compiled, and standard error."""
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    printed = json.loads(output)
    return printed["answers"], printed["compiled"], errors


def run(project: Path, *arguments: str, **variables: str | None) -> tuple[list[int], int, str]:
    return finish(start(project, *arguments, **variables))


def kept(project: Path) -> list[Path]:
    return sorted(path for path in (project / "kept").iterdir() if path.name != kernel_folders.LOCKS)


@compiled
def test_a_second_process_compiles_nothing(project: Path) -> None:
    assert run(project) == ([2, 6], 3, "")
    assert run(project) == ([2, 6], 0, "")


@compiled
def test_time_and_place_do_not_matter(project: Path, tmp_path: Path) -> None:
    run(project)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("leaves.py", "users.py", "script.py"):
        (moved / name).write_text((project / name).read_text())
    assert run(moved, TOCSIN_KERNEL_CACHE=str(project / "kept")) == ([2, 6], 0, "")


@compiled
def test_an_edit_of_a_leaf_recompiles_what_calls_it_and_nothing_else(project: Path) -> None:
    run(project)
    (project / "leaves.py").write_text(LEAF.replace("number + STEP", "number + 2 * STEP"))
    assert run(project) == ([3, 6], 2, "")
    (project / "leaves.py").write_text(LEAF.replace("number + STEP", "number + 2 * STEP # why"))
    assert run(project) == ([3, 6], 0, "")


@compiled
def test_an_edit_of_a_constant_recompiles_what_reads_it(project: Path) -> None:
    run(project)
    (project / "leaves.py").write_text(LEAF.replace("STEP = 1", "STEP = 10"))
    assert run(project) == ([11, 6], 2, "")


@compiled
@pytest.mark.parametrize("damage", ["truncated", "emptied", "garbled", "renamed", "not a file"])
def test_a_file_that_cannot_be_read_is_a_miss(project: Path, damage: str) -> None:
    run(project)
    for path in kept(project):
        data = path.read_bytes()
        if damage == "not a file":
            path.unlink()
            path.mkdir()
        elif damage == "renamed":
            start = len(kernel_cache._HEADER)
            kernel_cache._write(str(path), data[start : start + 32], b"cnumba.core.compiler\nNoSuchClass\n.")
        else:
            path.write_bytes(
                {"truncated": data[:-9], "emptied": b"", "garbled": data[:-9] + bytes(9)}[damage]
            )
    assert run(project) == ([2, 6], 3, "")
    assert run(project)[1] == (3 if damage == "not a file" else 0)


@compiled
def test_processes_at_the_same_time_compile_each_kernel_once(project: Path) -> None:
    finished = [finish(process) for process in [start(project) for _ in range(3)]]
    assert [answers for answers, _, _ in finished] == [[2, 6]] * 3
    assert sum(count for _, count, _ in finished) == 3


@compiled
def test_a_full_disk_is_no_error(project: Path) -> None:
    script = (project / "script.py").read_text()
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    (project / "script.py").write_text(limit + script)
    assert run(project) == ([2, 6], 3, "")
    assert list((project / "kept").iterdir()) == [project / "kept" / kernel_folders.LOCKS]


def without_folder(project: Path) -> dict[str, str | None]:
    """Variables with which a read-only package has no folder to write to, not even a temporary one."""
    nowhere = str(project / "script.py" / "below")
    (project / "script.py").write_text("import tempfile\ntempfile.tempdir = __file__\n" + SCRIPT)
    return {
        "TOCSIN_KERNEL_CACHE": nowhere,
        "HOME": nowhere,
        "XDG_CACHE_HOME": None,
        "NUMBA_CACHE_DIR": None,
    }


@compiled
def test_without_a_folder_there_is_one_warning(project: Path) -> None:
    answers, count, errors = run(project, "--installed-read-only", **without_folder(project))
    assert (answers, count) == ([2, 6], 3)
    assert errors.count("\n") == 1
    assert "set TOCSIN_KERNEL_CACHE" in errors


@compiled
@pytest.mark.parametrize("home", [None, "below"])
def test_it_starts_with_a_temporary_folder(project: Path, home: str | None) -> None:
    """In a hardened container: the package is read-only, and there is no home."""
    nowhere = str(project / "script.py" / "below")
    temporary = project / "temporary"
    temporary.mkdir()
    variables = {
        "TOCSIN_KERNEL_CACHE": None,
        "HOME": home and nowhere,
        "XDG_CACHE_HOME": nowhere,
        "NUMBA_CACHE_DIR": None,
        "TMPDIR": str(temporary),
    }
    assert run(project, "--installed-read-only", **variables) == ([2, 6], 3, "")
    assert run(project, "--installed-read-only", **variables) == ([2, 6], 0, "")
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


@compiled
@portable
def test_portable_kernels_are_found_by_a_process_that_compiles_for_its_own_machine(project: Path) -> None:
    assert run(project, **FOR_ALL) == ([2, 6], 3, "")
    names = [path.name.rpartition("-")[0] for path in kept(project)]
    level = shipped_kernels.LEVEL
    assert names == [f"leaves.leaf-{level}", f"users.other-{level}", f"users.user-{level}"]
    assert run(project, **FOR_THIS) == ([2, 6], 0, "")
    assert len(kept(project)) == 3


def ship(project: Path, name: str) -> None:
    """Have the package come with portable kernels, in a folder of this name."""
    folder = project / "package" / "compiled" / name
    folder.mkdir(parents=True)
    assert run(project, **FOR_ALL, TOCSIN_KERNEL_CACHE=str(folder))[1] == 3
    (folder / kernel_folders.LOCKS).unlink()


@compiled
@portable
def test_kernels_that_came_with_the_package_are_found_and_nothing_is_written(project: Path) -> None:
    ship(project, shipped_kernels.folder_name())
    before = sorted(project.rglob("*"))
    assert run(project, "--installed", **FOR_THIS) == ([2, 6], 0, "")
    assert run(project, "--installed", **FOR_ALL) == ([2, 6], 0, "")
    assert sorted(project.rglob("*")) == before
    assert kept(project) == []


@compiled
@portable
def test_with_kernels_that_came_with_the_package_no_folder_is_missed(project: Path) -> None:
    ship(project, shipped_kernels.folder_name())
    (project / "package" / "__pycache__").touch()
    assert run(project, "--installed", **FOR_THIS, **without_folder(project)) == ([2, 6], 0, "")


@compiled
@portable
def test_an_edit_compiles_what_came_with_the_package_again(project: Path) -> None:
    ship(project, shipped_kernels.folder_name())
    (project / "users.py").write_text(USER.replace("number + 5", "number + 6"))
    assert run(project, "--installed", **FOR_THIS) == ([2, 7], 1, "")
    assert len(kept(project)) == 1
    assert run(project, "--installed", **FOR_THIS) == ([2, 7], 0, "")


@compiled
@portable
@pytest.mark.parametrize("version", ["numba", "python"])
def test_kernels_of_another_version_are_not_used(project: Path, version: str) -> None:
    name = shipped_kernels.folder_name()
    part = numba.__version__ if version == "numba" else sys.implementation.cache_tag
    ship(project, name.replace(part, "other"))
    assert run(project, "--installed", **FOR_THIS) == ([2, 6], 3, "")
    assert len(kept(project)) == 3


def test_a_machine_below_the_level_uses_nothing_that_came_with_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped_kernels, "SHIPPED", tmp_path)
    (tmp_path / shipped_kernels.folder_name()).mkdir()
    for is_supported in (True, False):
        monkeypatch.setattr(shipped_kernels, "supports_level", lambda answer=is_supported: answer)
        assert (shipped_kernels.shipped_folder.__wrapped__() is not None) == is_supported


@compiled
@portable
def test_portable_kernels_are_left_aside_where_native_ones_are_wanted(project: Path) -> None:
    assert run(project, **FOR_ALL) == ([2, 6], 3, "")
    assert run(project, **FOR_THIS) == ([2, 6], 0, "")
    assert run(project, **FOR_THIS, TOCSIN_NATIVE="1") == ([2, 6], 3, "")
    assert run(project, **FOR_THIS, TOCSIN_NATIVE="1") == ([2, 6], 0, "")


def test_whether_there_are_kernels_is_told_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped_kernels, "shipped_folder", lambda: None)
    monkeypatch.setenv("TOCSIN_KERNEL_CACHE", str(tmp_path))
    (tmp_path / kernel_folders.LOCKS).touch()
    assert not shipped_kernels.are_kernels_there()
    (tmp_path / "tocsin.some-x86-64-v3-0.kernel").touch()
    assert shipped_kernels.are_kernels_there()


@compiled
def test_the_user_s_own_kernels_have_the_cache_of_numba(project: Path) -> None:
    (project / "users.py").write_text(
        "import numba\n" + USER.replace("@lean_kernel\ndef other", "@numba.njit(cache=True)\ndef other")
    )
    variables = {"NUMBA_CACHE_DIR": str(project / "numba")}
    assert run(project, **variables) == ([2, 6], 2, "")
    found = {path.suffix for path in (project / "numba").rglob("users.other*")}
    assert found == {".nbc", ".nbi"}


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No folder can be written: all are below a file. A path below that file."""
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(kernel_folders, "PACKAGE", file / "package")
    monkeypatch.setattr(tempfile, "tempdir", str(file / "temporary"))
    for name in ("TOCSIN_KERNEL_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(file / name))
    monkeypatch.setitem(vars(config), "CACHE_DIR", "")
    kernel_folders._usable.cache_clear()
    yield file
    kernel_folders._usable.cache_clear()


def test_folders_are_tried_in_order(nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found, last = kernel_folders.folders()
    assert last == found[-1]
    assert Path(last or "").parent == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Path(kernel_folders.folders()[1] or "").parent == tmp_path / "home" / ".cache" / "tocsin"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert Path(kernel_folders.folders()[1] or "").parent == tmp_path / "caches" / "tocsin"
    monkeypatch.setattr(kernel_folders, "PACKAGE", tmp_path / "package")
    found, last = kernel_folders.folders()
    assert last == str(tmp_path / "package" / "__pycache__" / "kernels")
    assert found == [str(nowhere / "TOCSIN_KERNEL_CACHE"), last]
    monkeypatch.setitem(vars(config), "CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.delenv("TOCSIN_KERNEL_CACHE")
    beside_numba_s = str(tmp_path / "numba" / "tocsin")
    assert kernel_folders.folders() == ([beside_numba_s], beside_numba_s)
    monkeypatch.setenv("TOCSIN_KERNEL_CACHE", str(tmp_path / "named"))
    assert kernel_folders.folders() == ([str(tmp_path / "named")], str(tmp_path / "named"))


def test_no_folder_is_warned_of_once(nowhere: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert [kernel_folders.folders()[1] for _ in range(3)] == [None] * 3
    assert len(caplog.records) == 1


@pytest.mark.skipif(os.name == "nt", reason="a temporary folder is the user's there")
@pytest.mark.parametrize("made", ["open to others", "a link"])
def test_a_temporary_folder_that_others_could_fill_is_not_used(
    nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    folder = temporary / f"tocsin-kernels-{os.getuid()}"
    if made == "a link":
        (tmp_path / "mine").mkdir(0o700)
        folder.symlink_to(tmp_path / "mine")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    assert kernel_folders.folders()[1] is None


HOLDER = """
import sys
from tocsin.arrays.kernel_folders import FileLocks
held = FileLocks(sys.argv[1])
print(held.acquire(7), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="no locks here")
def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = str(tmp_path / "locks")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    locks = kernel_folders.FileLocks(path)
    assert not locks.acquire(7)
    assert locks.acquire(8)
    holder.kill()
    holder.communicate()
    assert locks.acquire(7)


def test_without_locks_all_are_granted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_folders.FileLocks(str(tmp_path / "no" / "folder")).acquire(1)
    monkeypatch.setattr(kernel_folders, "fcntl", None)
    locks = kernel_folders.FileLocks(str(tmp_path / "locks"))
    assert locks.acquire(1)
    locks.release(1)


class _Busy:
    """Locks that another process never lets go of."""

    def acquire(self, number: int) -> bool:
        return False

    def release(self, number: int) -> None:
        raise AssertionError("not ours")


@compiled
def test_waiting_for_another_process_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[int] = []
    busy = _Busy()
    monkeypatch.setattr(busy, "release", released.append)
    monkeypatch.setattr(kernel_cache, "locks", lambda folder: busy)
    monkeypatch.setattr(kernel_cache, "PATIENCE", 0.05)
    monkeypatch.setattr(kernel_cache, "_read", lambda path, content: None)
    assert lean_kernel(_double)(21) == 42
    assert len(released) == 1


def _double(number: int) -> int:
    return 2 * number


def _fail(number: int) -> Any:
    return number.no_such_attribute  # type: ignore[attr-defined]


@compiled
def test_a_kernel_that_fails_to_compile_keeps_no_lock() -> None:
    with pytest.raises(Exception, match="no_such_attribute"):
        lean_kernel(_fail)(1)
    assert len(kernel_cache._claims) == 1
    lean_kernel(_double)(1)
    assert kernel_cache._claims == {}


def _module(path: Path, source: str) -> Any:
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("made_for_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BODY = """
import numpy as np
from typing import NamedTuple
from tocsin.arrays import intrinsics
from tocsin.arrays.argument_packs import unpack
from tocsin.arrays.jit import kernel, lean_kernel, inlined
from tocsin.kernels import status

class Pair(NamedTuple):
    low: int
    high: int

TABLE = np.array([1, 2])
BOTH = (1, 2.0)

@inlined
def helper(x):
    return x + 1

@lean_kernel
def main(x):
    '''Say so.'''
    if x in (1, 2):
        return status.FULL
    return helper(x) + TABLE[0] + BOTH[0] + Pair(1, 2).low
"""


@compiled
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return x + 1", "return x + 2"),
        ("@inlined", "@lean_kernel"),
        ("@lean_kernel\ndef main", "@kernel\ndef main"),
        ("np.array([1, 2])", "np.array([1, 3])"),
        ("np.array([1, 2])", "np.array([1, 2], np.int32)"),
        ("BOTH = (1, 2.0)", "BOTH = (1, 2)"),
        ("in (1, 2)", "in (1, 3)"),
        ("status.FULL", "status.DONE"),
        ("helper(x) + TABLE", "intrinsics.first_bit(x) + TABLE"),
        ("    low: int\n    high: int", "    high: int\n    low: int"),
        ("def main(x):", "def main(x=1):"),
    ],
)
def test_what_a_kernel_leads_to_is_in_its_key(tmp_path: Path, old: str, new: str) -> None:
    assert BODY.count(old) == 1
    before = content_key(_module(tmp_path / "a.py", BODY).main)
    assert before != content_key(_module(tmp_path / "a.py", BODY.replace(old, new)).main)


@compiled
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Say so.", "Say it otherwise."),
        ("import numpy", "\n\n\nimport numpy"),
        ("TABLE =", "#: Why\nTABLE ="),
        ("@inlined", "OTHER = 1\n\n@inlined"),
    ],
)
def test_what_makes_no_difference_is_not_in_a_key(tmp_path: Path, old: str, new: str) -> None:
    before = content_key(_module(tmp_path / "a.py", BODY).main)
    assert before == content_key(_module(tmp_path / "b.py", BODY.replace(old, new)).main)


@compiled
def test_intrinsics_count_by_the_source_of_their_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = BODY.replace("helper(x) + TABLE", "intrinsics.first_bit(x) + TABLE")
    before = content_key(_module(tmp_path / "a.py", source).main)
    monkeypatch.setattr(kernel_keys, "_descriptions", {})
    monkeypatch.setattr(kernel_keys, "_source", lambda module: f"edited {module.__name__}")
    assert before != content_key(_module(tmp_path / "a.py", source).main)


@compiled
def test_a_module_without_source_counts_by_the_version(tmp_path: Path) -> None:
    module = _module(tmp_path / "a.py", BODY)
    assert kernel_keys._source(module) != tocsin.__version__
    (tmp_path / "a.py").unlink()
    assert kernel_keys._source(module) == tocsin.__version__


@compiled
def test_a_variant_has_types_cpu_and_options_in_its_key() -> None:
    from numba import types

    kernel = lean_kernel(_double)
    keys = [
        variant_key(kernel, signature, cpu)
        for signature in ([types.int64], [types.int32], [types.int64, types.int64])
        for cpu in (("x86_64", "znver4", "+avx2"), ("x86_64", "haswell", "+avx2"))
    ]
    assert len(set(keys)) == 6


@compiled
def test_columns_of_a_signature_count_by_name(tmp_path: Path) -> None:
    import numba

    numba_: Any = numba
    columns = [
        numba_.typeof(_module(tmp_path / "a.py", source).Pair(np.zeros(1), 2))
        for source in (BODY, BODY.replace("    low: int\n    high: int", "    high: int\n    low: int"))
    ]
    kernel = lean_kernel(_double)
    assert variant_key(kernel, columns[:1], ()) != variant_key(kernel, columns[1:], ())


#: Loads every kernel of a folder before anything is compiled: symbols that are not there end the process.
LOADER = """
import sys
from pathlib import Path
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from tocsin.arrays import compiled_kernels, kernel_cache
target = cpu_target.target_context
rtsys.initialize(target)
start = len(kernel_cache._HEADER) + 32 + 4
for path in sys.argv[1:]:
    try:
        compiled_kernels.load(Path(path).read_bytes()[start:], target)
    except (ImportError, AttributeError, ValueError):
        continue  # of an earlier version of the package
print("loaded")
"""


@compiled
def test_kernels_load_without_what_compiling_needs() -> None:
    """`target.refresh` imports most of Numba, which takes longer than all else before a first answer."""
    found = [str(path) for folder in kernel_folders.folders()[0] for path in Path(folder).glob("*.kernel")]
    finished = subprocess.run(
        [sys.executable, "-c", LOADER, *found],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert (finished.returncode, finished.stdout) == (0, "loaded\n"), finished.stderr
