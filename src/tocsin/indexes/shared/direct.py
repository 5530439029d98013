"""Calling a kernel often: without a look at the types of what it is given, or at NumPy's warnings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

#: What kernels were compiled to: to ask them takes as long as a small batch.
_entries: dict[Callable[..., Any], Callable[..., Any]] = {}


def compiled(kernel: Callable[P, R]) -> Callable[P, R]:
    """What `kernel` was compiled to, once it has been called; before that, or without compiler, `kernel`.

    A kernel finds out the types of its arguments at every call: with eighty columns that takes longer than
    a small batch. What this answers takes them for what they were at the first call. So it is for
    kernels with one signature, whose arguments are settled by the class that calls them.
    """
    entry = _entries.get(kernel)
    if entry is None:
        overloads: dict[Any, Any] = getattr(kernel, "overloads", {})
        for overload in overloads.values():
            entry = _entries[kernel] = overload.entry_point
    return kernel if entry is None else entry


def unwarned(kernel: Callable[..., object]) -> AbstractContextManager[object]:
    """Where to call `kernel`: not compiled, NumPy would warn of infinities and NaNs that are meant."""
    return nullcontext() if hasattr(kernel, "overloads") else np.errstate(all="ignore")


def quiet(kernel: Callable[P, R]) -> Callable[P, R]:
    """`kernel`, and not compiled as `unwarned` has it: for where even that takes too long."""
    return kernel if hasattr(kernel, "overloads") else np.errstate(all="ignore")(kernel)
