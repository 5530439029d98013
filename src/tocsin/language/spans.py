"""Positions in the text of a statement."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Offsets into the statement's text: from `start` up to, not including, `end`."""

    start: int
    end: int


#: Of nodes that were not read from text.
NOWHERE = Span(0, 0)
