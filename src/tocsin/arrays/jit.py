"""How kernels are compiled, and called with little overhead.

Every kernel is cached on disk, runs without the GIL, and computes in IEEE arithmetic without fast-math.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from numba.core import config

from tocsin.arrays.dispatchers import KernelDispatcher

P = ParamSpec("P")
R = TypeVar("R")

#: Division by zero gives an infinity or NaN, as in IEEE.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
#: No reference counting. Numba counts references to every array of a named tuple, atomically, at every call
#: that passes it on: with many columns and small kernels that costs more than the work.
_UNCOUNTED: dict[str, Any] = {**_OPTIONS, "_nrt": False}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call."""
    return _cached(function, **_OPTIONS)


def lean_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, for functions that only read and write the arrays they are given, and allocate none."""
    return _cached(function, **_UNCOUNTED)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """As `lean_kernel`, but inlined into each kernel that calls it.

    For small functions and those with one call site: a call would copy every column's descriptor.
    """
    return _cached(function, inline="always", **_UNCOUNTED)


def _cached(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """The function's dispatcher, with a cache on disk; with `NUMBA_DISABLE_JIT=1`, the function."""
    if vars(config)["DISABLE_JIT"]:
        return function
    settings = {"nopython": True, "boundscheck": None, **options}
    return cast(Callable[P, R], KernelDispatcher(function, targetoptions=settings))


@lean_kernel
def zero() -> int:
    """Zero as an argument: a literal 0 would compile another signature."""
    return int(np.int64(0))


#: Entry points by kernel: to ask the dispatcher takes as long as a small batch.
_entries: dict[Callable[..., Any], Callable[..., Any]] = {}


def entry_point(kernel: Callable[P, R]) -> Callable[P, R]:
    """The compiled entry point of `kernel` once it has been called; before that, or without JIT, `kernel`.

    Dispatch infers the types of all arguments at every call: with eighty columns that takes longer than a
    small batch. An entry point assumes the types of the first call, so this is only for kernels with one
    signature, whose argument types are settled by the class that calls them.
    """
    entry = _entries.get(kernel)
    if entry is None:
        overloads: dict[Any, Any] = getattr(kernel, "overloads", {})
        for overload in overloads.values():
            entry = _entries[kernel] = overload.entry_point
    return kernel if entry is None else entry


def suppress_fp_warnings(kernel: Callable[..., object]) -> AbstractContextManager[object]:
    """Context to call `kernel` in: interpreted, NumPy would warn of intended infinities and NaNs."""
    return nullcontext() if hasattr(kernel, "overloads") else np.errstate(all="ignore")


def without_fp_warnings(kernel: Callable[P, R]) -> Callable[P, R]:
    """`kernel`, wrapped once in `suppress_fp_warnings` if interpreted: for where a context costs too much."""
    return kernel if hasattr(kernel, "overloads") else np.errstate(all="ignore")(kernel)
