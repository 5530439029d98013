"""Statements and what becomes of them, as the golden files have it."""

from __future__ import annotations

import pytest

from tests.language.golden import FOLDER, Entry, entries, outcome

CASES = [
    pytest.param(entry, id=f"{path.stem}: {entry.sql[:60]}")
    for path in sorted(FOLDER.glob("*.txt"))
    for entry in entries(path)
]


@pytest.mark.parametrize("entry", CASES)
def test_outcome(entry: Entry) -> None:
    assert outcome(entry.sql) == entry.outcome
