"""The attributes of events, as those that hold conjunctions number them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tocsin.indexes.contract import Ints
from tocsin.indexes.matching.common_kernels import EventColumns
from tocsin.indexes.matching.events import Events


class Attributes:
    """Numbers of attributes, which do not change."""

    def __init__(self, names: Sequence[str]) -> None:
        self._number = {name: number for number, name in enumerate(names)}
        #: names of the last events, and what is known of each
        self._asked: list[str] = []
        self._known: Ints = np.zeros(0, np.int32)

    def translate(self, events: Events) -> EventColumns:
        """Events, and which of their attributes are known here. Cost: linear in the names."""
        if events.names != self._asked:
            self._asked = list(events.names)
            self._known = np.array([self._number.get(name, -1) for name in events.names], np.int32)
        return EventColumns(self._known, *events.columns)
