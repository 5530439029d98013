"""How every kernel is compiled: cached on disk, without the GIL, IEEE arithmetic, no fast-math."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

#: Division by zero gives an infinity or NaN, as in IEEE.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
#: Arrays are not counted while they are passed on. Numba counts references to every array of a named tuple,
#: atomically, wherever one is passed on: with many columns and small kernels that takes longer than the work.
_UNCOUNTED: dict[str, Any] = {**_OPTIONS, "_nrt": False}


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call."""
    return cast(Callable[P, R], numba.njit(**_OPTIONS)(function))


def lean_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, for what only reads and writes the arrays that it is given, and allocates none."""
    return cast(Callable[P, R], numba.njit(**_UNCOUNTED)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """As `lean_kernel`, but compiled as a part of each kernel that calls it.

    For what is small, or called from one place: a call would copy every column's description.
    """
    return cast(Callable[P, R], numba.njit(inline="always", **_UNCOUNTED)(function))
