"""Says that kernels are being compiled, where that takes longer than a moment."""

from __future__ import annotations

import time
from typing import Any


class Compilation:
    """What this process has compiled so far."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self._begun: list[tuple[Any, float]] = []

    def begin(self, kernel: Any) -> None:
        """A kernel, maybe one that another one calls, is about to be compiled."""
        self._begun.append((kernel, time.monotonic()))

    def end(self, kernel: Any, *, is_compiled: bool = True) -> None:
        """The kernel has been compiled; or it has not, as another process has done it or as it failed."""
        while self._begun:
            last, since = self._begun.pop()
            if last is kernel:
                break
        else:
            return
        self.count += is_compiled
        if not self._begun:
            self.seconds += time.monotonic() - since


compilation = Compilation()
