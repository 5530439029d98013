"""How the kernels over the object index are compiled: they only read and write the arrays they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

#: As every kernel, but arrays are not counted while they are passed on; so such a kernel can allocate none.
#: Numba counts references to every array of a named tuple, atomically, wherever one is passed on inside a
#: branch: with many columns and small kernels that takes longer than the work.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}


def lean_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call."""
    return cast(Callable[P, R], numba.njit(**_OPTIONS)(function))


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` as a part of each kernel that calls it.

    For what is small, or called from one place: a call would copy every column's description.
    """
    return cast(Callable[P, R], numba.njit(inline="always", **_OPTIONS)(function))
