"""The job while it runs: what it has read, what it told last."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from demo.queries import FAMILIES
from demo.story import Story

#: Seconds between two looks.
INTERVAL = 0.3


def watch(
    is_active: Callable[[], bool], progress: Path, story: Story, batches: int, console: Console
) -> None:
    """Show the job until it ends: a live view on a terminal, a line a batch elsewhere."""
    began = time.perf_counter()
    if not console.is_terminal:
        goes_on = True
        while goes_on:
            goes_on = is_active()
            if story.read_news():
                console.print(_headline(progress, story, batches, began))
            time.sleep(INTERVAL)
        return
    with Live(console=console, auto_refresh=False) as live:
        goes_on = True
        while goes_on:
            goes_on = is_active()
            story.read_news()
            live.update(_view(progress, story, batches, began), refresh=True)
            time.sleep(INTERVAL)


def _view(progress: Path, story: Story, batches: int, began: float) -> RenderableType:
    side = Group(_board(story, "latest-7"), _alerts(story))
    return Group(_headline(progress, story, batches, began), Columns([_changes(story), side]))


def _headline(progress: Path, story: Story, batches: int, began: float) -> Text:
    seconds = time.perf_counter() - began
    if story.n_batches == 0:
        return Text(f"Spark starts, and what is not compiled yet is compiled: {seconds:.0f} s")
    last = _last_batch(progress)
    rows = max((shard["rows"] for shard in last), default=0)
    subscriptions = sum(shard["subscriptions"] for shard in last)
    return Text(
        f"week {story.n_batches} of {batches}: {rows:,} rows, {subscriptions:,} subscriptions, "
        f"{story.by_subscription.total():,} changes, {seconds:.0f} s"
    )


def _last_batch(progress: Path) -> list[dict[str, Any]]:
    """What the shards said of the last batch."""
    try:
        shards: list[dict[str, Any]] = json.loads(progress.read_text())["batches"][-1]["shards"]
    except (OSError, ValueError, IndexError):
        return []
    return shards


def _changes(story: Story) -> Table:
    table = Table(title="changes by kind", title_justify="left")
    table.add_column("kind")
    table.add_column("last week", justify="right")
    table.add_column("so far", justify="right")
    for family in FAMILIES:
        of_family = {batch: n for (batch, name), n in story.by_batch.items() if name == family.name}
        table.add_row(
            family.what, f"{of_family.get(story.n_batches - 1, 0):,}", f"{sum(of_family.values()):,}"
        )
    return table


def _board(story: Story, subscription: str) -> Table:
    table = Table(title=f"{subscription}: latest aircraft", title_justify="left")
    table.add_column("aircraft")
    table.add_column("minutes late", justify="right")
    best = sorted(story.boards[subscription].items(), key=lambda entry: -entry[1])
    for key, score in best:
        table.add_row(key, f"{score:,.0f}")
    return table


def _alerts(story: Story) -> Table:
    table = Table(title="thresholds reached last", title_justify="left")
    table.add_column("subscription")
    table.add_column("weight", justify="right")
    for subscription, weight in story.alerts:
        table.add_row(subscription, f"{weight:,.0f}")
    return table
