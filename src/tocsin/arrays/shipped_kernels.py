"""Compiled kernels for more machines than this one: for a level of CPU, and those that a wheel carries.

Numba compiles for the CPU it runs on. With `NUMBA_CPU_NAME` it compiles for a level, which other machines
support too (`tocsin warm --portable`); what was compiled so is found under the level's name on each of them.
Numba's choice of CPU for other kernels is not changed.
"""

from __future__ import annotations

import os
import sys
from functools import cache

import llvmlite.binding as llvm
import numba

from tocsin.arrays.kernel_folders import PACKAGE, folders

#: The level that portable kernels are compiled for, as LLVM names it: x86-64 with AVX2.
LEVEL = "x86-64-v3"
_FEATURES = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2")
#: In a wheel, holds a folder of kernels; there is none in a clone.
SHIPPED = PACKAGE / "compiled"


def folder_name() -> str:
    """Names the folder of portable kernels that this Python and this Numba compile."""
    return f"{sys.implementation.cache_tag}-numba-{numba.__version__}-{LEVEL}"


@cache
def supports_level() -> bool:
    """Whether this machine runs portable kernels."""
    features = llvm.get_host_cpu_features()
    return all(features.get(name, False) for name in _FEATURES)


@cache
def shipped_folder() -> str | None:
    """The kernels that came with the package, if this process can run them."""
    folder = SHIPPED / folder_name()
    return str(folder) if folder.is_dir() and supports_level() else None


def are_kernels_there() -> bool:
    """Whether there are compiled kernels that this process would use, with the package or kept before."""
    return shipped_folder() is not None or any(
        name.endswith(".kernel")
        for folder in folders()[0]
        if os.path.isdir(folder)
        for name in os.listdir(folder)
    )


@cache
def unusable() -> str | None:
    """What kernels came with the package, if this process cannot run them."""
    if shipped_folder() is not None or not SHIPPED.is_dir():
        return None
    return ", ".join(sorted(os.listdir(SHIPPED))) or None


if __name__ == "__main__":
    print(folder_name())
