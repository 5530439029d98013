"""Adds compiled kernels to the wheel, if `TOCSIN_COMPILED_KERNELS` names a folder of them (`make wheel`)."""

import os
import re
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledKernels(BuildHookInterface):
    """Puts kernels into `tocsin/compiled/<what they were compiled for>`, and that into the wheel's tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        named = os.environ.get("TOCSIN_COMPILED_KERNELS")
        if not named or version == "editable":
            return
        folder = Path(named)
        # A folder's name says what its kernels are for, as cpython-311-numba-0.68.1-x86-64-v3.
        parts = re.fullmatch(r"cpython-(\d+)-numba-[^-]+-(.+)", folder.name)
        if parts is None:
            raise ValueError(f"{folder.name} is no name of a folder of kernels as `make wheel` makes it")
        kernels = sorted(folder.glob(f"tocsin.*-{parts[2]}-*.kernel"))
        if not kernels:
            raise ValueError(f"{folder} holds no kernels for {parts[2]}")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp{parts[1]}-none-{platform}"
        for kernel in kernels:
            build_data["force_include"][str(kernel)] = f"tocsin/compiled/{folder.name}/{kernel.name}"
