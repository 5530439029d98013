"""Settings for the whole suite.

Hypothesis profiles: `ci` is the default; `interpreted` runs fewer examples, for when kernels run as
plain Python (`NUMBA_DISABLE_JIT=1`). `HYPOTHESIS_PROFILE` chooses another. No profile has a deadline:
the first example may have to wait for the compiler.

Workers of `--dist loadfile`: all tests of one folder of indexes go to one worker, so that its kernels are
compiled once, and not by two workers at a time. Other tests go file by file, when most kernels are there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
#: The folders of the indexes, those first that take longest.
FOLDERS = ("ranges", "preferences", "thresholds", "matching", "filters")
# What is compiled is not said: tests look at the log and at standard error.
os.environ.setdefault("TOCSIN_QUIET", "1")
_FOLDER = re.compile(rf"(?:^tests/indexes/|\[)({'|'.join(FOLDERS)})(?=[/:])")

_shared = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _shared, max_examples=100)
settings.register_profile("interpreted", _shared, max_examples=10)
settings.register_profile("thorough", _shared, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("interpreted" if INTERPRETED else "ci"))


def examples(count: int) -> int:
    """How many examples to try where the profile's number is not right: fewer of plain Python's."""
    return max(count // 6, 3) if INTERPRETED else count


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders of indexes first, then files with slow tests; short ones at the end fill both workers.

    Of the slow files, those first that are given most time.
    """
    patience: dict[Path, float] = {}
    for item in items:
        if item.get_closest_marker("slow"):
            given = item.get_closest_marker("timeout")
            patience[item.path] = max(patience.get(item.path, 0.0), given.args[0] if given else 1.0)

    def place(item: pytest.Item) -> tuple[int, float]:
        group = group_of(item.nodeid)
        return FOLDERS.index(group) if group in FOLDERS else len(FOLDERS), -patience.get(item.path, 0.0)

    items.sort(key=place)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config) -> Generator[None, Any, Any]:
    """Where `--dist loadfile` asks for file by file, go group by group, in the order of the tests."""
    scheduler = yield
    if config.getoption("dist") == "loadfile":
        config.option.loadscopereorder = False
        scheduler._split_scope = group_of
    return scheduler


def group_of(nodeid: str) -> str:
    """A folder of indexes, as the test's file or its parameter's id begins; else the file."""
    file, _, test = nodeid.partition("::")
    found = _FOLDER.search(file) or _FOLDER.search(test)
    return found[1] if found else file
