"""Bytes into records, however they are cut on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cli.failures import DataFailure
from tocsin.cli.watching import records as module
from tocsin.cli.watching.records import RecordReader

#: Few characters, so that quotes, line ends and empty lines meet.
PIECES = st.lists(st.sampled_from([b"a", b",", b"\n", b"\r\n", b'"x\ny"', b'"q""q"']), max_size=12).map(
    b"".join
)


def read_all(data: bytes, sizes: list[int], *, quoted: bool) -> list[tuple[int, bytes]]:
    """Everything a reader gives for `data` written to a pipe in pieces of these sizes."""
    reading, writing = os.pipe()
    reader = RecordReader(reading, "pipe", is_pipe=True, follow=False)
    reader.start(quoted=quoted)
    found: list[tuple[int, bytes]] = []
    position = 0
    for size in [*sizes, len(data)]:
        os.write(writing, data[position : position + size])
        position += size
        while reader.fill():
            pass
        taken = reader.take(100)
        found += zip(taken.lines, taken.texts, strict=True)
    os.close(writing)
    reader.fill()
    taken = reader.take(100)
    os.close(reading)
    assert reader.ended
    return [*found, *zip(taken.lines, taken.texts, strict=True)]


def expected(data: bytes, *, quoted: bool) -> list[tuple[int, bytes]]:
    """One byte after the other."""
    found, line, begun, record, inside = [], 1, 1, b"", False
    for value in data:
        character = bytes([value])
        inside ^= quoted and character == b'"'
        line += character == b"\n"
        if character == b"\n" and not inside:
            found.append((begun, record))
            record, begun = b"", line
        else:
            record += character
    return [(at, text) for at, text in [*found, (begun, record)] if text not in (b"", b"\r")]


@given(PIECES, st.lists(st.integers(1, 5), max_size=6), st.booleans())
def test_cuts_as_one_by_one(data: bytes, sizes: list[int], quoted: bool) -> None:
    assert read_all(data, sizes, quoted=quoted) == expected(data, quoted=quoted)


def test_takes_in_parts() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"1\n2\n3\n4")
    os.close(writing)
    reader = RecordReader(reading, "pipe", is_pipe=True, follow=False)
    reader.fill()
    assert reader.opening == b"1\n2\n3\n4"
    reader.start(quoted=False)
    assert reader.peek(2).texts == [b"1", b"2"]
    assert reader.take(2).texts == [b"1", b"2"]
    assert len(reader) == 1
    reader.fill()
    assert reader.take(5) == ([b"3", b"4"], [3, 4])
    os.close(reading)


def test_a_followed_file_that_shrinks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"a\n1\n2\n")
    descriptor = os.open(path, os.O_RDONLY)
    reader = RecordReader(descriptor, "log.csv", is_pipe=False, follow=True)
    assert reader.fill()
    assert not reader.fill()
    path.write_bytes(b"a\n")
    with pytest.raises(DataFailure, match="shorter"):
        reader.fill()
    os.close(descriptor)


def test_a_quote_that_never_closes_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "MAX_RECORD_BYTES", 10)
    path = tmp_path / "bad.csv"
    path.write_bytes(b'a\n1\n"' + b"x\n" * 20)
    descriptor = os.open(path, os.O_RDONLY)
    reader = RecordReader(descriptor, "bad.csv", is_pipe=False, follow=False)
    reader.start(quoted=True)
    with pytest.raises(DataFailure, match=r"bad\.csv:3: "):
        reader.fill()
    os.close(descriptor)
