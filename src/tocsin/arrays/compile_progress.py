"""Reports that kernels are being compiled, if that takes longer than a moment.

On a terminal it overwrites one line. Everywhere it logs one line at the end. `TOCSIN_QUIET=1`, or a log level
above warnings, silences both.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from tocsin.arrays.kernel_folders import folders
from tocsin.arrays.shipped_kernels import unusable

logger = logging.getLogger(__name__)

#: Seconds of compiling after which it is reported.
MOMENT = 1.0
#: Seconds between two updates of the line on a terminal.
_INTERVAL = 0.2
#: Seconds without compiling after which compilation counts as ended.
_SILENCE = 2.0


class Compilation:
    """Counts the kernels that this process has compiled, and the seconds that it took."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        #: the count and the seconds that have been logged
        self._said = 0, 0.0
        #: kernels being compiled, each called by the one before it, and when each began
        self._begun: list[tuple[Any, float]] = []
        self._shown = 0.0
        self._timer: threading.Timer | None = None
        self._saying = threading.Lock()

    def begin(self, kernel: Any) -> None:
        """Note that a kernel, maybe one called by a kernel being compiled, is about to be compiled."""
        self._begun.append((kernel, time.monotonic()))
        if self._timer is not None:
            self._timer.cancel()
        self._show(kernel.py_func)

    def end(self, kernel: Any, *, is_compiled: bool = True) -> None:
        """Note that compiling the kernel has ended; `is_compiled` is false if it failed or was not needed."""
        since = None
        while since is None and self._begun:
            last, begun = self._begun.pop()
            since = begun if last is kernel else None
        self.count += is_compiled
        if since is not None and not self._begun:
            self.seconds += time.monotonic() - since
            self._clear()
            if self._is_long() and not _is_quiet():
                self._timer = threading.Timer(_SILENCE, self.say)
                self._timer.daemon = True
                self._timer.start()

    def ongoing(self) -> tuple[int, float] | None:
        """Kernels compiled and seconds that took, of this process, if it has been compiling for a moment."""
        begun = self._begun[:1]
        seconds = time.monotonic() - begun[0][1] if begun else 0.0
        return (self.count, self.seconds + seconds) if seconds >= MOMENT else None

    def say(self) -> None:
        """Log what has been compiled since the last log line, if that took longer than a moment."""
        with self._saying:
            if self._is_long() and not _is_quiet():
                count, seconds = self.count - self._said[0], self.seconds - self._said[1]
                self._said = self.count, self.seconds
                folder = folders()[1]
                kept = f"kept in {folder}" if folder else "not kept, as no folder is writable"
                if (shipped := unusable()) is not None:
                    kept += f"; the package has kernels for {shipped}"
                logger.warning("compiled %d kernel%s in %.0f s; %s", count, "s" * (count != 1), seconds, kept)

    def _is_long(self) -> bool:
        return self.count > self._said[0] and self.seconds - self._said[1] >= MOMENT

    def _show(self, function: Any) -> None:
        """Overwrite the line on the terminal, if there is one and nothing else draws there."""
        now = time.monotonic()
        seconds = self.seconds - self._said[1] + now - self._begun[0][1]
        if seconds >= MOMENT and now - self._shown >= _INTERVAL and _has_terminal() and not _is_quiet():
            self._shown = now
            text = f"compiling kernels: {self.count} done, {seconds:.0f} s, now {function.__qualname__}"
            _write(text[: shutil.get_terminal_size().columns - 1])

    def _clear(self) -> None:
        if self._shown and _has_terminal():
            self._shown = 0.0
            _write("")


def _is_quiet() -> bool:
    return os.environ.get("TOCSIN_QUIET", "0") not in ("", "0") or not logger.isEnabledFor(logging.WARNING)


def _has_terminal() -> bool:
    return sys.stderr is sys.__stderr__ and os.isatty(2)


def _write(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


compilation = Compilation()
atexit.register(compilation.say)
