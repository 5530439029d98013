"""The slow, obvious answer to preference top-k: score all rows, sort, cut."""

from __future__ import annotations

import math

from tests.oracles.members import Change, Query, State, Steps, is_inside, is_touched, score_of


def top_k(
    state: State, query: Query, steps: Steps, *, descending: bool, newest_first: bool
) -> list[tuple[int, float]]:
    """The k best rows with their scores, best first."""
    found = []
    for slot, row in state.items():
        score = score_of(row, query, steps)
        if is_inside(row, query) and not math.isnan(score):
            place = (-score if descending else score, -row.born if newest_first else row.born)
            found.append((place, slot, score))
    return [(slot, score) for _, slot, score in sorted(found)[: query.k]]


def top_k_changes(
    before: State, after: State, old: list[tuple[int, float]], new: list[tuple[int, float]]
) -> list[Change]:
    """What a subscriber is told when its answer goes from `old` to `new`, in reporting order."""
    old_scores, new_slots = dict(old), {slot for slot, _ in new}
    leaves = [("leave", slot, math.nan, 0) for slot, _ in old if slot not in new_slots]
    updates, enters = [], []
    for rank, (slot, score) in enumerate(new, start=1):
        if slot not in old_scores:
            enters.append(("enter", slot, score, rank))
        elif old_scores[slot] != score or is_touched(before[slot], after[slot]):
            updates.append(("update", slot, score, rank))
    return leaves + updates + enters


def replay(answer: list[tuple[int, float]], changes: list[Change]) -> list[tuple[int, float]]:
    """What a subscriber holds after some changes: take out what left or was updated, put in by rank."""
    gone = {row for op, row, _, _ in changes if op != "enter"}
    held = [item for item in answer if item[0] not in gone]
    arrivals = sorted((rank, row, score) for op, row, score, rank in changes if op != "leave")
    for rank, row, score in arrivals:
        held.insert(rank - 1, (row, score))
    return held
