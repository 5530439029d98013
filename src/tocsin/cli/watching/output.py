"""The contract of outputs, and JSON lines; the live table is in `screen`."""

from __future__ import annotations

import json
import math
from typing import Any, Protocol, TextIO

import pyarrow as pa


class Output(Protocol):
    """Writes changes as they happen."""

    def write(self, changes: pa.Table, n_rows: int) -> None:
        """Write the changes that `n_rows` more rows caused."""

    def idle(self) -> None:
        """Called when there is nothing to read at the moment."""

    def close(self) -> None:
        """Called once at the end, even after Ctrl-C."""


class JsonLinesOutput:
    """One change per line, flushed batch by batch. Infinities are strings, because JSON lacks them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, changes: pa.Table, n_rows: int) -> None:
        if changes.num_rows:
            self._stream.write("".join(map(_line, changes.to_pylist())))
            self._stream.flush()

    def idle(self) -> None:
        pass

    def close(self) -> None:
        self._stream.flush()


def _line(change: dict[str, Any]) -> str:
    score = change["score"]
    if score is not None and math.isinf(score):
        change["score"] = "Infinity" if score > 0 else "-Infinity"
    if change.get("row") is not None:
        change["row"] = json.loads(change["row"])
    return json.dumps(change, ensure_ascii=False) + "\n"
