"""A key that a JSON object has twice is found, and usual text is parsed only once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.engine.conversion import json_keys
from tocsin.engine.conversion.json_keys import RepeatedKey, loads_unique, may_repeat_keys

NAMES = st.sampled_from(["a", "b", "é", ":", '":', "a b", ""])
LEAVES = st.one_of(
    st.none(), st.integers(), st.booleans(), st.sampled_from(["", "12:00:00", '":', " :", "\\", "\t:"])
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\r\n: "), (",", "\t:")])


class Pairs(list[tuple[str, Any]]):
    """An object as JSON text may have it, with a key twice."""


VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.lists(st.tuples(NAMES, inner), max_size=4).map(Pairs)
    ),
    max_leaves=20,
)


def written(value: Any, separators: tuple[str, str]) -> str:
    comma, colon = separators
    if isinstance(value, Pairs):
        items = (f"{json.dumps(name)}{colon}{written(each, separators)}" for name, each in value)
        return "{" + comma.join(items) + "}"
    if isinstance(value, list):
        return "[" + comma.join(written(each, separators) for each in value) + "]"
    return json.dumps(value)


def repeats(value: Any) -> bool:
    if isinstance(value, Pairs):
        return len(dict(value)) < len(value) or any(repeats(each) for _, each in value)
    return isinstance(value, list) and any(map(repeats, value))


@pytest.mark.parametrize("long", [0, 1 << 30])
@given(value=VALUES, separators=SEPARATORS)
def test_a_key_that_is_there_twice_is_found(long: int, value: Any, separators: tuple[str, str]) -> None:
    text = written(value, separators).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_keys, "LONG", long)
        patch.setattr(json_keys, "CHUNK", 7)
        may_repeat = may_repeat_keys(text, json.loads(text))
    if repeats(value):
        assert may_repeat
        with pytest.raises(RepeatedKey, match="must appear once"):
            loads_unique(text)
    else:
        assert loads_unique(text) == json.loads(text)


@pytest.mark.parametrize("long", [0, 1 << 30])
def test_usual_rows_are_not_parsed_twice(long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_keys, "LONG", long)
    row = {"symbol": "A:B", "at": "2024-03-01T12:00:00Z", "_weights": {"x": 0.5}, "tags": ["a", {"b": 1}]}
    for value in (row, [row] * 3, {"rows": [row, {}]}, [1, "x"], [[row], {}], 5, "a", []):
        for text in (json.dumps(value), json.dumps(value, indent=1)):
            assert not may_repeat_keys(text.encode(), value)


def test_other_encodings_are_parsed_again() -> None:
    assert may_repeat_keys('{"a": 1}'.encode("utf-16-le"), {"a": 1})
