"""Every kernel is compiled once: for one type of each argument."""

from __future__ import annotations

import sys
from typing import Any


def signatures() -> dict[str, list[str]]:
    """The signatures of every kernel of the package that has been compiled, or loaded, so far."""
    found: dict[str, list[str]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("tocsin."):
            for thing in vars(module).values():
                kernel: Any = getattr(thing, "py_func", None)
                if kernel is not None and thing.signatures:
                    found[f"{kernel.__module__}.{kernel.__name__}"] = _distinct(thing.signatures)
    return found


def _distinct(compiled: list[tuple[Any, ...]]) -> list[str]:
    """Signatures as text, each once. A constant is of its type: Numba calls it `Literal`."""
    from numba.core.types import unliteral

    return sorted({str(tuple(unliteral(argument) for argument in one)) for one in compiled})
