"""What `tocsin run` shows of a job: a live table on a terminal, lines in a pipe."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds without news after which a line says that the job is still at it.
SILENCE = 10.0


class Lines:
    """A line a batch. Until the first, and whenever nothing is heard for a while, what the job is at."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self._finished = 0
        self._said = time.monotonic()
        self._lock = threading.Lock()

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def show(self, known: dict[str, Any]) -> None:
        """Called with what is known, by the thread that found out."""
        with self._lock:
            self.known = known
            if known.get("finished", 0) > self._finished:
                self._finished = known["finished"]
                self._say(_line(known["batches"][-1]))
            elif not self._finished:
                self._say(known["phase"])

    def idle(self) -> None:
        """Called now and then."""
        with self._lock:
            if self.known and time.monotonic() - self._said >= SILENCE:
                self._say(f"{self.known['phase']} ({time.time() - self.known['since']:.0f} s)")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        print(line, file=sys.stderr, flush=True)


class LiveTable:
    """The last batches, and what the job is at."""

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
        """Called with what is known, by the thread that found out."""
        self.known = known
        self.idle()

    def idle(self) -> None:
        """Called now and then."""
        from tocsin.cli.status import progress_table

        if self.known:
            self._live.update(progress_table(self.known), refresh=True)


def display() -> Lines | LiveTable:
    """What goes with standard error."""
    if not sys.stderr.isatty():
        return Lines()
    from rich.console import Console

    return LiveTable(Console(stderr=True))


def _line(batch: dict[str, Any]) -> str:
    from tocsin.pipeline.progress import totals

    figures = totals(batch)
    return (
        f"batch {batch['batch']}: {figures['rows']} rows so far, {figures['changes']} changes, "
        f"{figures['rejects']} rejects, {figures['subscriptions']} subscriptions, {figures['seconds']:.2f} s"
    )
