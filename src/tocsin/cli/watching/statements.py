"""Extracts the source and the parameters of a statement before any source is declared."""

from __future__ import annotations

import re

#: Quoted text and comments are matched first, so their content is ignored.
_TOKENS = re.compile(
    r"""'(?:[^']|'')*' | --[^\n]* | :(?P<parameter>[a-z_]\w*) | \bFROM\s+"?(?P<source>\w+)""",
    re.IGNORECASE | re.VERBOSE,
)


def first_source(sql: str) -> str | None:
    """The name after FROM."""
    return next((match["source"] for match in _TOKENS.finditer(sql) if match["source"]), None)


def parameter_names(sql: str) -> list[str]:
    """The `:name` parameters, each once, in order."""
    return list(dict.fromkeys(match["parameter"] for match in _TOKENS.finditer(sql) if match["parameter"]))
