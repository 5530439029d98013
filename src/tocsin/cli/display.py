"""The progress display of `tocsin run`: a live table on a terminal, lines in a pipe."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds without output after which a line repeats the current phase.
SILENCE_SECONDS = 5.0


class LineDisplay:
    """Prints a line per batch, and the current phase before the first batch or after a silence."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self._finished = 0
        self._last_line = time.monotonic()
        self._lock = threading.Lock()

    def __enter__(self) -> LineDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def show(self, known: dict[str, Any]) -> None:
        """Show the progress. Called after each change, by the thread that caused it."""
        with self._lock:
            self.known = known
            if known.get("finished", 0) > self._finished:
                self._finished = known["finished"]
                self._print(_line(known["batches"][-1]))
            elif not self._finished:
                self._print(known["phase"])

    def idle(self) -> None:
        """Called periodically."""
        with self._lock:
            if self.known and time.monotonic() - self._last_line >= SILENCE_SECONDS:
                self._print(phase_line(self.known))

    def _print(self, line: str) -> None:
        self._last_line = time.monotonic()
        print(line, file=sys.stderr, flush=True)


class LiveTable:
    """Shows the last batches and the current phase."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self.known: dict[str, Any] = {}
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, known: dict[str, Any]) -> None:
        """Show the progress. Called after each change, by the thread that caused it."""
        self.known = known
        self.idle()

    def idle(self) -> None:
        """Called periodically."""
        from tocsin.cli.status import progress_table

        if self.known:
            self._live.update(progress_table(self.known), refresh=True)


def phase_line(known: dict[str, Any]) -> str:
    """The current phase and its length; before the first batch, what has been compiled."""
    compiled = known.get("compiled", 0) if not known.get("finished") else 0
    kernels = f", {compiled} kernels compiled" if compiled else ""
    return f"{known['phase']} ({time.time() - known['since']:.0f} s{kernels})"


def display() -> LineDisplay | LiveTable:
    """The display that suits standard error."""
    if not sys.stderr.isatty():
        return LineDisplay()
    from rich.console import Console

    return LiveTable(Console(stderr=True))


def _line(batch: dict[str, Any]) -> str:
    from tocsin.pipeline.job.progress import totals

    figures = totals(batch)
    return (
        f"batch {batch['batch']}: {figures['rows']} rows so far, {figures['changes']} changes, "
        f"{figures['rejects']} rejects, {figures['subscriptions']} subscriptions, {figures['seconds']:.2f} s"
    )
