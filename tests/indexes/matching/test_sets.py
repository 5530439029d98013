"""Events with several values of an attribute, against the definition: a condition holds if one value does."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin import Engine
from tocsin.engine.conversion import event_sets

VALUE = st.sampled_from([1, 2, 3.5, True, "x", "y"])
ROW = st.dictionaries(
    st.sampled_from(["a", "b", "c"]), VALUE | st.lists(VALUE | st.none(), max_size=4), max_size=3
)
CONDITION = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(
        ["= 1", "> 1", "<= 2", "<> 2", "= 'x'", "<> 'y'", "IN ('x', 'y')", "= TRUE", "BETWEEN 2 AND 4"]
    ),
)


COMBINED: dict[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min, "product": prod}


def _holds(value: Any, asked: str) -> bool:
    """One value against one condition, in so many words."""
    if isinstance(value, bool):
        return asked == "= TRUE" and value
    if isinstance(value, str):
        return {"= 'x'": value == "x", "<> 'y'": value != "y", "IN ('x', 'y')": True}.get(asked, False)
    truths = {"= 1": value == 1, "> 1": value > 1, "<= 2": value <= 2, "<> 2": value != 2}
    return bool(truths.get(asked, asked == "BETWEEN 2 AND 4" and 2 <= value <= 4))


def _values(row: dict[str, Any], name: str) -> list[Any]:
    value = row.get(name)
    return [each for each in (value if isinstance(value, list) else [value]) if each is not None]


@pytest.mark.parametrize("most", [event_sets.MAX_PLAIN_EVENTS, 2])
@pytest.mark.parametrize("score", ["sum", "max", "min", "product"])
@settings(max_examples=40, deadline=None)
@given(
    wanted=st.lists(st.lists(CONDITION, min_size=1, max_size=3), min_size=1, max_size=6),
    rows=st.lists(ROW, min_size=1, max_size=4),
    top=st.none() | st.integers(1, 3),
)
def test_a_condition_holds_if_one_value_does(
    most: int, score: str, wanted: list[list[tuple[str, str]]], rows: list[dict[str, Any]], top: int | None
) -> None:
    engine = Engine()
    engine.create_stream("s", score=score)
    scores = {}
    for number, conditions in enumerate(wanted):
        weights = [1.0 + (number + place) % 3 for place in range(len(conditions))]
        where = " AND ".join(
            f"WEIGHT({name} {asked}, {weight})"
            for (name, asked), weight in zip(conditions, weights, strict=True)
        )
        engine.subscribe(f"SELECT * FROM s WHERE {where}", id=f"q{number}")
        scores[f"q{number}"] = COMBINED[score](weights)
    expected = []
    for place, row in enumerate(rows):
        found = [
            (f"q{number}", float(scores[f"q{number}"]))
            for number, conditions in enumerate(wanted)
            if all(any(_holds(value, asked) for value in _values(row, name)) for name, asked in conditions)
        ]
        if top is not None:
            found = sorted(found, key=lambda match: (-match[1], match[0]))[:top]
        expected += [(place, sid, total) for sid, total in found]
    with patch.object(event_sets, "MAX_PLAIN_EVENTS", most):
        changes = engine.publish("s", rows, top=top).to_pylist()
        again = Engine.from_state(*engine.state()).publish("s", rows, top=top).to_pylist()
    assert [(change["seq"], change["subscription"], change["score"]) for change in changes] == expected
    assert [(change["subscription"], change["score"]) for change in again] == [each[1:] for each in expected]


def test_explain_of_an_event_with_lists() -> None:
    engine = Engine()
    engine.create_stream("s")
    sid = engine.subscribe("SELECT * FROM s WHERE tag = 'x' AND tag = 'z'")
    text = engine.explain(sid, {"tag": ["x", "y"]})
    assert "no match, 1 of 2 predicates hold" in text
    assert "the event has 'x', 'y'" in text
