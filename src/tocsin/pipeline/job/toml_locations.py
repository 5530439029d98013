"""Line numbers of keys in a TOML file, which `tomllib` does not report."""

from __future__ import annotations

import re
import tomllib

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")

Path = tuple[str | int, ...]


class TomlLocations:
    """Line numbers by key path, such as `("subscriptions", 0, "sql")`."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        counts: dict[str, int] = {}
        prefix: Path = ()
        for number, line in enumerate(text.splitlines(), 1):
            header = _HEADER.match(line)
            if header:
                prefix = _parts(header[2])
                if header[1] == "[[":
                    counts[header[2]] = counts.get(header[2], -1) + 1
                    prefix = (*prefix, counts[header[2]])
                self._add(prefix, number)
                continue
            key = _KEY.match(line)
            if key:
                self._add((*prefix, *_parts(key[1])), number)

    def _add(self, path: Path, number: int) -> None:
        for length in range(1, len(path) + 1):
            self._lines.setdefault(path[:length], number)

    def find(self, path: Path) -> int:
        """The line of `path`, or of the nearest enclosing table; 1 if there is none."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return 1


def _parts(dotted: str) -> Path:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def line_of(failure: tomllib.TOMLDecodeError) -> int:
    """The line that a syntax error names."""
    found = re.search(r"line (\d+)", str(failure))
    return int(found[1]) if found else 1
