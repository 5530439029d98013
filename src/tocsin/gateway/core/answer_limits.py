"""Limits on the length of answers and on the changes of one record, since all tenants wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tocsin.gateway.core.statements import Checked, longest
from tocsin.gateway.failures import LimitTooLarge

#: The largest LIMIT of a statement, and the longest answer, by default.
MAX_LIMIT = 10_000

#: Pairs of a join that one published row may change on average, if that exceeds the longest answer.
PAIRS = 10

#: How many times as many pairs all joins of a tenant may change by, together.
TOGETHER = 5

#: Why a subscription is ended by another tenant's rows, which are not refused for its sake.
INEXACT = (
    "a row has a value that this statement cannot compare or sum exactly: narrow it, and register it again"
)

#: Kinds of statements whose answer no LIMIT bounds.
UNLIMITED = ("rows", "join", "distinct")


def check_limit(checked: Checked, params: Mapping[str, Any], most: int) -> None:
    """Raise LimitTooLarge for a statement whose LIMIT exceeds the maximum."""
    if longest(checked.plan, params) > most:
        raise LimitTooLarge(f"LIMIT is at most {most} here")


def too_long(count: int, most: int) -> LimitTooLarge | None:
    """The error for an answer of `count` rows; None if it is short enough."""
    if count <= most:
        return None
    return LimitTooLarge(
        f"the answer has {count} rows, and at most {most} are allowed here: narrow the statement"
    )


def most_pairs(rows: int, max_limit: int) -> int:
    """The most pairs by which a request with `rows` rows may change one join."""
    return max(max_limit, PAIRS * rows)


def overgrown_joins(
    counts: Mapping[str, int], rows: int, max_limit: int, number_of: Callable[[str], int]
) -> dict[str, str]:
    """The joins to end, by full id with the reason: those that `rows` rows would change by too many pairs.

    The joins of one tenant are also bounded together: the largest go first, and of equal ones the newest.
    """
    most = most_pairs(rows, max_limit)
    ended: dict[str, str] = {}
    of_tenant: dict[str, list[str]] = {}
    for full, count in counts.items():
        if count > most:
            ended[full] = (
                f"it would have changed by {count} pairs at once, and at most {most} are allowed: narrow it"
            )
        else:
            of_tenant.setdefault(full.partition("/")[0], []).append(full)
    for fulls in of_tenant.values():
        total = sum(counts[full] for full in fulls)
        # Many narrow joins are no reason to end any.
        together = max(TOGETHER * most, PAIRS * len(fulls))
        if total <= together:
            continue
        reason = (
            f"your joins would have changed by {total} pairs at once, and at most {together} are allowed "
            "for all of them; the largest were ended, among them this one, by"
        )
        for full in sorted(fulls, key=lambda full: (-counts[full], -number_of(full), full)):
            if total <= together:
                break
            total -= counts[full]
            ended[full] = f"{reason} {counts[full]}: narrow it"
    return ended
