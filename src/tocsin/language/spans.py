"""Where a piece of a statement stands in its text."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Offsets into the statement's text: from `start` up to, not including, `end`."""

    start: int
    end: int


#: For pieces that no text was read for.
NOWHERE = Span(0, 0)
