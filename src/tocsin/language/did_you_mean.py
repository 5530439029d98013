"""Suggestions of similar names, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_SHOWN = 12


def did_you_mean(name: str, known: Iterable[str], what: str) -> str:
    """A sentence that names the nearest of `known`, or else lists them as `what`."""
    names = list(known)
    folded = {each.lower(): each for each in reversed(names)}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    if near:
        return f"Did you mean {folded[near[0]]!r}?"
    if not names:
        return f"There are no {what}."
    listed = ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
    return f"The {what} are {listed}."
