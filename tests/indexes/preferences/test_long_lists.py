"""Long top-k lists, against the oracle."""

from __future__ import annotations

from hypothesis import settings

from tests.indexes.preferences.machine import PreferenceMachine
from tocsin.indexes.contract import RowIndex
from tocsin.indexes.preferences.long_lists.index import LongLists
from tocsin.kernels.programs import Program


class LongListsMachine(PreferenceMachine):
    def make(
        self, dimensions: int, scorer: Program, *, descending: bool, newest_first: bool, capacity: int
    ) -> RowIndex:
        return LongLists(
            dimensions, scorer, descending=descending, newest_first=newest_first, capacity=capacity
        )


TestLongLists = LongListsMachine.TestCase
TestLongLists.settings = settings(stateful_step_count=15)
