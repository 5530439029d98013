"""`StringInterner` against a dictionary: slots, texts, reuse, growth, compaction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.conftest import examples
from tocsin.arrays import strings_kernels as names_kernels
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.strings_kernels import compare_interned
from tocsin.arrays.texts import texts_of

TEXTS = st.sampled_from(["", "\0", "a", "b", "ab", "ba", "abc", "é", "日本", "a\0", "x" * 300, "🔔"])


class NamesMachine(RuleBasedStateMachine):
    """Random additions and removals; the model is a dict of text to slot."""

    def __init__(self) -> None:
        super().__init__()
        self.names = StringInterner(capacity=2)
        self.slots: dict[str, int] = {}

    @rule(values=st.lists(TEXTS, max_size=6))
    def add(self, values: list[str]) -> None:
        slots, is_new = self.names.add(pa.array(values, pa.string()))
        for value, slot, new in zip(values, slots.tolist(), is_new.tolist(), strict=True):
            assert new == (value not in self.slots)
            assert self.slots.setdefault(value, slot) == slot

    @rule(values=st.sets(TEXTS, max_size=6))
    def remove(self, values: set[str]) -> None:
        gone = sorted(values & self.slots.keys())
        self.names.remove(np.array([self.slots.pop(value) for value in gone], np.int32))

    @rule()
    def save_and_restore(self) -> None:
        before = self.names.arrays()
        self.names = StringInterner(capacity=2)
        self.names.restore(before)
        after = self.names.arrays()
        assert all(np.array_equal(before[name], after[name]) for name in before)

    @invariant()
    def agrees(self) -> None:
        self.names.check_invariants()
        assert len(self.names) == len(self.slots)
        assert len(set(self.slots.values())) == len(self.slots)
        assert max(self.slots.values(), default=-1) < self.names.top
        texts = [*self.slots, "never added"]
        expected = [*self.slots.values(), -1]
        assert self.names.find(pa.array(texts)).tolist() == expected
        assert self.names.gather(np.array(expected[:-1], np.int32)).to_pylist() == texts[:-1]
        assert [self.names.text(slot) for slot in expected[:-1]] == texts[:-1]


NamesMachine.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=20)
TestNames = NamesMachine.TestCase


@given(st.lists(TEXTS, max_size=8), st.integers(0, 8), st.integers(1, 12))
@settings(max_examples=examples(40))
def test_any_arrow_layout_gives_the_same_slots(values: list[str], cut: int, chunk_bytes: int) -> None:
    plain = pa.array(values, pa.string())
    expected = StringInterner().add(plain)[0].tolist()
    chunked = pa.chunked_array([plain[:cut], plain[cut:]], pa.string())
    padded = pa.array(["pad", *values], pa.string())[1:]
    for layout in (chunked, padded, plain.cast(pa.large_string()), plain.dictionary_encode()):
        assert StringInterner(capacity=2).add(layout)[0].tolist() == expected
    names = StringInterner(capacity=2, chunk_bytes=chunk_bytes)
    gathered = names.gather(names.add(plain)[0])
    gathered.validate(full=True)
    assert gathered.to_pylist() == values
    assert all(len(chunk) == 1 or _size(chunk) <= chunk_bytes for chunk in gathered.chunks)


def _size(texts: pa.Array[Any]) -> int:
    return len("".join(map(str, texts.to_pylist())).encode())


@given(st.lists(TEXTS, min_size=2, unique=True))
@settings(max_examples=examples(40))
def test_names_compare_by_bytes(values: list[str]) -> None:
    names = StringInterner(capacity=2)
    slots = names.add(pa.array(values))[0].tolist()
    heap, starts, lengths = names.columns[:3]
    for a, slot_a in zip(values, slots, strict=True):
        for b, slot_b in zip(values, slots, strict=True):
            expected = (a.encode() > b.encode()) - (a.encode() < b.encode())
            assert compare_interned(heap, starts, lengths, slot_a, slot_b) == expected


def test_many_names_with_slots_used_again() -> None:
    names = StringInterner()
    first = pa.array([f"sub-{number}" for number in range(3000)])
    slots, is_new = names.add(first)
    assert is_new.all()
    assert slots.tolist() == list(range(3000))
    names.remove(slots[:2500])
    assert len(names.columns.heap) < 2 * _size(first[2500:]) + 1024
    again, _ = names.add(pa.array([f"new-{number}" for number in range(2500)]))
    assert sorted(again.tolist()) == list(range(2500))
    assert again[0] == 2499, "the last freed comes first"
    assert names.top == 3000
    names.check_invariants()


def test_nulls_are_the_callers_error() -> None:
    with pytest.raises(AssertionError, match="null"):
        texts_of(pa.array(["a", None]))


def test_each_kernel_has_one_signature() -> None:
    for kernel in vars(names_kernels).values():
        assert len(getattr(kernel, "signatures", [])) <= 1, kernel
