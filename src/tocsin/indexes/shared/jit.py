"""How every kernel is compiled: cached on disk, without the GIL, IEEE arithmetic, no fast-math."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on its first call. Division by zero gives an infinity or NaN, as in IEEE."""
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return cast(Callable[P, R], compiled)
