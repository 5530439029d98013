"""Counts kernels as they are compiled, by whatever process."""

from __future__ import annotations

import os


class CompiledKernels:
    """Kernels that any process of this machine has compiled since: files that are new in the folder."""

    def __init__(self) -> None:
        from tocsin.arrays.kernel_folders import folders

        self._folder = folders()[1]
        self.before = self._files()

    def count(self) -> int:
        return self._files() - self.before

    def _files(self) -> int:
        return (
            sum(name.endswith((".kernel", ".inner")) for name in os.listdir(self._folder))
            if self._folder
            else 0
        )
