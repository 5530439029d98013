"""Boolean matching, the slow and obvious way."""

from __future__ import annotations

from typing import Any

#: attribute, operator, operands, weight
Predicate = tuple[str, str, tuple[Any, ...], float]
#: position of the event, slot of the subscription, score, rank
Match = tuple[int, int, float, int]


def is_satisfied(operator: str, operands: tuple[Any, ...], value: Any) -> bool:
    """One predicate against one value of an event; a tuple is a range."""
    kind = type(operands[0])
    if isinstance(value, tuple):
        low, high = value
        return kind is float and low <= high and _some_number(operator, operands, low, high)
    if type(value) is not kind or value != value:
        return False
    if kind is str:
        value = value.encode()
        operands = tuple(operand.encode() for operand in operands)
    return _holds(operator, operands, value)


def _holds(operator: str, operands: tuple[Any, ...], value: Any) -> bool:
    first, last = operands[0], operands[-1]
    answers: dict[str, bool] = {
        "<": value < first,
        "<=": value <= first,
        "=": value == first,
        "<>": value != first,
        ">=": value >= first,
        ">": value > first,
        "BETWEEN": first <= value <= last,
        "IN": value in operands,
        "NOT IN": value not in operands,
    }
    return answers[operator]


def _some_number(operator: str, operands: tuple[float, ...], low: float, high: float) -> bool:
    if low == high:
        return _holds(operator, operands, low)
    first, last = operands[0], operands[-1]
    answers: dict[str, bool] = {
        "<": low < first,
        "<=": low <= first,
        "=": low <= first <= high,
        "<>": True,
        ">=": high >= first,
        ">": high > first,
        "BETWEEN": max(low, first) <= min(high, last),
        "IN": any(low <= operand <= high for operand in operands),
        "NOT IN": True,
    }
    return answers[operator]


def score_of(score: str, terms: list[float]) -> float:
    """Terms in their order; nothing has the score 0, and the product 1."""
    total = 1.0 if score == "product" else 0.0
    for number, term in enumerate(terms):
        if score == "sum":
            total += term
        elif score == "product":
            total *= term
        elif number == 0 or (term > total if score == "max" else term < total):
            total = term
    return total


class Matching:
    """All subscriptions by slot, each with its id; scores are sums, or another function of weights."""

    def __init__(self, score: str = "sum") -> None:
        self.score = score
        self.by_slot: dict[int, tuple[str, list[Predicate]]] = {}

    def register(self, slot: int, name: str, predicates: list[Predicate]) -> None:
        self.by_slot[slot] = name, predicates

    def terminate(self, slot: int) -> None:
        del self.by_slot[slot]

    def apply(self, events: list[dict[str, Any]], top: int | None) -> list[Match]:
        """All matches by slot, or the best of each event by rank."""
        found: list[Match] = []
        for position, event in enumerate(events):
            weights = event.get("_weights", {})
            matches = []
            for slot, (_, predicates) in sorted(self.by_slot.items()):
                if all(
                    event.get(attribute) is not None and is_satisfied(operator, operands, event[attribute])
                    for attribute, operator, operands, _ in predicates
                ):
                    terms = [weight * weights.get(name, 1.0) for name, _, _, weight in predicates]
                    matches.append((slot, score_of(self.score, terms)))
            if top is None:
                found += [(position, slot, score, 0) for slot, score in matches]
            else:
                matches.sort(key=lambda match: (-match[1], self.by_slot[match[0]][0].encode()))
                found += [
                    (position, slot, score, rank + 1) for rank, (slot, score) in enumerate(matches[:top])
                ]
        return found
