"""What happened, as tables on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from demo.queries import FAMILIES, family_of
from demo.story import Story


def print_report(story: Story, console: Console) -> None:
    """Changes by kind, and the liveliest subscriptions."""
    console.print(_kinds(story))
    console.print(_liveliest(story))


def print_checks(checks: Iterable[tuple[str, bool]], console: Console) -> bool:
    """One line a comparison; whether all are equal."""
    all_equal = True
    for what, is_equal in checks:
        verdict = "[green]equal[/]" if is_equal else "[bold red]DIFFERENT[/]"
        console.print(f"checked against pandas: {what}: {verdict}")
        all_equal &= is_equal
    return all_equal


def _kinds(story: Story) -> Table:
    changes: Counter[str] = Counter()
    for subscription, count in story.by_subscription.items():
        changes[family_of(subscription)] += count
    ops = ", ".join(f"{op} {count:,}" for op, count in story.by_op.most_common())
    table = Table(title="What changed", title_justify="left", title_style="bold", caption=ops)
    table.add_column("kind")
    table.add_column("subscriptions", justify="right")
    table.add_column("changes", justify="right")
    for family in FAMILIES:
        table.add_row(family.what, f"{family.count:,}", f"{changes[family.name]:,}")
    table.add_section()
    table.add_row("all", f"{sum(family.count for family in FAMILIES):,}", f"{changes.total():,}")
    return table


def _liveliest(story: Story) -> Table:
    table = Table(title="The liveliest of each kind", title_justify="left", title_style="bold")
    table.add_column("subscription")
    table.add_column("changes", justify="right")
    table.add_column("parameters")
    for family in FAMILIES:
        of_family = Counter(
            {sid: n for sid, n in story.by_subscription.items() if family_of(sid) == family.name}
        )
        for subscription, count in of_family.most_common(1):
            params = family.params().set_index("id").loc[subscription]
            shown = ", ".join(f"{name} {value}" for name, value in params.items())
            table.add_row(subscription, f"{count:,}", shown)
    return table
