"""The live table of `tocsin watch` on a terminal: answers above, the latest changes below."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

import tocsin

#: Minimum seconds between repaints.
INTERVAL = 0.1
ANSWER_ROWS = 10
CHANGE_ROWS = 8
#: Maximum answers shown; with more subscriptions, those that changed last.
ANSWERS = 6

_COLOURS = {
    "enter": "green",
    "leave": "red",
    "update": "yellow",
    "value": "cyan",
    "mature": "magenta",
    "match": "blue",
}


class Screen:
    """Shows current answers and recent changes. `titles` are subscriptions named on the command line."""

    def __init__(self, engine: tocsin.Engine, titles: Mapping[str, str], console: Console) -> None:
        self._engine = engine
        self._titles = dict(titles)
        self._recent: dict[str, None] = {}
        self._changes: deque[dict[str, Any]] = deque(maxlen=CHANGE_ROWS)
        self._n_rows = 0
        self._n_changes = 0
        self._painted = 0.0
        self._is_stale = True
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="ellipsis")
        self._live.start()

    def write(self, changes: pa.Table, n_rows: int) -> None:
        self._n_rows += n_rows
        self._n_changes += changes.num_rows
        self._changes.extend(changes.slice(max(0, changes.num_rows - CHANGE_ROWS)).to_pylist())
        for subscription in changes.column("subscription").unique().to_pylist()[-ANSWERS:]:
            name = str(subscription)
            self._recent.pop(name, None)
            self._recent[name] = None
        while len(self._recent) > ANSWERS:
            del self._recent[next(iter(self._recent))]
        self._is_stale = True
        if time.monotonic() - self._painted >= INTERVAL:
            self._paint()

    def idle(self) -> None:
        if self._is_stale:
            self._paint()

    def close(self) -> None:
        self._paint()
        self._live.stop()

    def _paint(self) -> None:
        self._live.update(self._picture(), refresh=True)
        self._painted = time.monotonic()
        self._is_stale = False

    def _picture(self) -> RenderableType:
        few = len(self._titles) <= ANSWERS and all(name in self._titles for name in self._recent)
        shown = list(self._titles) if few else list(reversed(self._recent))
        answers = [answer for name in shown if (answer := self._answer(name)) is not None]
        counts = Text(f"{self._n_rows:,} rows, {self._n_changes:,} changes", style="bold")
        return Group(counts, *answers, _latest(self._changes))

    def _answer(self, name: str) -> Table | None:
        try:
            answer = self._engine.result(name)
        except tocsin.Error:
            # A matured threshold is gone, and a match has no lasting answer.
            return None
        rows = answer.slice(0, ANSWER_ROWS).to_pylist()
        caption = f"… {answer.num_rows - len(rows):,} more" if answer.num_rows > len(rows) else None
        title = f"{name}: {self._titles[name]}" if name in self._titles else name
        table = Table(title=title, title_justify="left", title_style="bold", caption=caption)
        for field in answer.schema:
            table.add_column(field.name, justify="left" if pa.types.is_string(field.type) else "right")
        for row in rows:
            table.add_row(*map(_show, row.values()))
        return table


def _latest(changes: deque[dict[str, Any]]) -> Table:
    table = Table(title="Latest changes", title_justify="left", title_style="bold")
    for name in ("subscription", "op", "key", "score", "rank", "seq"):
        table.add_column(name, justify="right" if name in ("score", "rank", "seq") else "left")
    has_rows = any("row" in change for change in changes)
    if has_rows:
        table.add_column("row", overflow="ellipsis", no_wrap=True)
    for change in reversed(changes):
        cells = [_show(change[name]) for name in ("subscription", "op", "key", "score", "rank", "seq")]
        cells[1] = f"[{_COLOURS[change['op']]}]{change['op']}[/]"
        table.add_row(*cells, *([_show(change["row"])] if has_rows else []))
    return table


def _show(value: object) -> str:
    if value is None:
        return ""
    shown = f"{value:.10g}" if isinstance(value, float) else str(value)
    return shown.replace("[", r"\[")
