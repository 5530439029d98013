"""Statements as spaces of a job, and answers that become others."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocsin
from tocsin.client import Answer
from tocsin.errors import ParameterError
from tocsin.gateway.edge.spaces import check_space, read_statement, source_of
from tocsin.subscriber import Entry

TOP = "SELECT k, y FROM t WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT 4"
LEAST = "SELECT MIN(y) FROM t WHERE x BETWEEN :lo AND :hi"

entry = st.builds(Entry, st.sampled_from("abcdef"), st.sampled_from([-1.0, 0.0, 1.0]), st.integers(0, 9))
entries = st.lists(entry, max_size=4, unique_by=lambda each: each.key).map(
    lambda listed: sorted(listed, key=lambda each: (each.y, each.born, each.key))
)


@settings(max_examples=200)
@given(st.lists(entries, min_size=1, max_size=5))
def test_changes_make_one_answer_of_the_other(answers: list[list[Entry]]) -> None:
    asked, held = read_statement(TOP), Answer()
    held.begin(asked.enters(answers[0], 0))
    for before, after in pairwise(answers):
        changes = asked.difference(before, after, 0)
        assert bool(changes) == (before != after)
        held.apply(changes)
        assert [(each["key"], each["score"]) for each in held.entries] == [each[:2] for each in after]


def test_a_least_value() -> None:
    asked = read_statement(LEAST)
    one, other = [Entry("a", 1.0, 0)], [Entry("b", 1.0, 1)]
    assert asked.enters([], 3) == [{"op": "value", "seq": 3, "key": None, "score": None, "rank": None}]
    assert asked.difference(one, one, 3) == []
    assert [change["key"] for change in asked.difference(one, other, 3)] == ["b"]


def test_a_statement_is_known_by_the_space_that_it_makes() -> None:
    engine = tocsin.Engine()
    columns = {"k": "bigint", "x": "int", "odd name": "decimal(9,2)"}
    for name in ("t", 'of "two" words'):
        quoted = '"' + name.replace('"', '""') + '"'
        engine.create_table(name, key="k", columns=columns)
        for sql in (
            f'SELECT k FROM {quoted} WHERE x >= :a AND x < :b ORDER BY "odd name" DESC LIMIT 2',
            f'SELECT MAX("odd name") FROM {quoted} WHERE x = :a',
            f'SELECT DISTINCT x FROM {quoted} WHERE "odd name" > :a AND x BETWEEN 1 AND 4',
        ):
            space = engine.create_space(sql)
            assert str(read_statement(sql).form) == space
            assert source_of(space) == name
            assert check_space(sql, [space], {name: ""}).maintained_sql == sql


def test_bounds_are_of_the_range_that_is_free() -> None:
    asked = read_statement("SELECT k FROM t WHERE z BETWEEN 1 AND 2 AND x > :lo ORDER BY y LIMIT 2")
    lo, hi = asked.bounds({"lo": [1.0, 5.0]}, 2)
    assert lo.shape == hi.shape == (2, 1)
    assert (lo[:, 0] > [1.0, 5.0]).all()
    with pytest.raises(ParameterError, match="lo"):
        asked.bounds({"lo": ["text"]}, 1)
    with pytest.raises(ParameterError, match="lo"):
        asked.bounds({"lo": [object()]}, 1)
