"""Reading and printing statements."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.language.strategies import statements
from tocsin.errors import SQLError
from tocsin.language import Statement, parse
from tocsin.language.parsing.statement import Condition

#: Words that are SQL, words that other dialects know, and noise.
WORDS = (Path(__file__).parent / "words.txt").read_text(encoding="utf-8").split()
GOOD = (
    "SELECT x FROM t WHERE x > 5 AND y BETWEEN :lo AND :hi ORDER BY x + 2 * y DESC LIMIT 3",
    "SELECT SUM( w ) FROM t WHERE x IN ( 1 , 'a' ) HAVING SUM( w ) >= 3",
    "SELECT a.x AS z , b.y FROM t AS a JOIN s AS b ON a.k = b.k WHERE a.x < 3",
    "SELECT DISTINCT y FROM t WHERE WEIGHT( x = TRUE , 0.4 ) AND y NOT IN ( :a )",
)


@given(statements)
def test_what_is_printed_reads_back(statement: Statement) -> None:
    text = str(statement)
    again = parse(text)
    assert again == statement
    assert str(again) == text


@given(statements)
def test_pieces_know_their_place(statement: Statement) -> None:
    text = str(statement)
    again = parse(text)
    clauses = (again.source, again.join, again.having, again.order)
    values = [item.value for item in again.items]
    operands = [
        operand
        for condition in again.where
        if isinstance(condition, Condition)
        for operand in condition.operands
    ]
    for piece in (*again.items, *again.where, *clauses, *values, *operands):
        if piece is not None:
            assert text[piece.span.start : piece.span.end] == str(piece)


@st.composite
def soups(draw: st.DrawFn) -> str:
    """A good statement with words exchanged, added and dropped; or words alone."""
    words = draw(st.sampled_from(GOOD)).split(" ") if draw(st.booleans()) else ["SELECT"]
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(words)))
        words[place : place + draw(st.integers(0, 1))] = draw(st.lists(st.sampled_from(WORDS), max_size=2))
    return draw(st.sampled_from([" ", "", "\n"])).join(words)


@settings(max_examples=300)
@given(soups() | st.text(max_size=30))
def test_nothing_but_sql_errors(sql: str) -> None:
    found = parse_or_error(sql)
    if isinstance(found, SQLError):
        assert 0 <= found.start < found.end <= max(len(sql), 1)
        assert "^" in str(found)
    else:
        assert parse(str(found)) == found


def parse_or_error(sql: str) -> Statement | SQLError:
    try:
        return parse(sql)
    except SQLError as error:
        return error


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM t WHERE " + "(" * 3000 + "x > 1" + ")" * 3000,
        "SELECT x FROM t ORDER BY " + "- " * 3000 + "x LIMIT 1",
        "SELECT x FROM t ORDER BY " + " + ".join(["x"] * 1000) + " LIMIT 1",
        "SELECT x FROM t ORDER BY " + "SQRT(" * 300 + "x" + ")" * 300 + " LIMIT 1",
    ],
    ids=["parentheses", "signs", "sum", "calls"],
)
def test_deep_nesting_is_an_sql_error(sql: str) -> None:
    with pytest.raises(SQLError, match="nested too deeply"):
        parse(sql)


def test_many_conditions_are_fine() -> None:
    sql = "SELECT x FROM t WHERE " + " AND ".join(f"x{i} > {i}" for i in range(1500))
    assert str(parse(sql)) == sql


def test_numbers_are_given_back_as_written() -> None:
    sql = "SELECT x FROM t WHERE x > 1.50 AND y < 1E3 AND z = -007"
    assert str(parse(sql)) == sql


def test_comments_and_space_do_not_count() -> None:
    assert str(parse("select  x -- one\n from /* two */ t ;; ")) == "SELECT x FROM t"


def test_sqlglot_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for sql in ("SHOW TABLES", "SELECT x FROM t WHERE a[2.5] > 3", "CREATE PROCEDURE x"):
            with pytest.raises(SQLError):
                parse(sql)
    assert not caplog.records


def test_importing_the_language_does_not_import_numba() -> None:
    code = "import sys, tocsin.language; print(sorted({'numba', 'pandas', 'pyspark'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
