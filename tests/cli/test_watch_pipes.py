"""`tocsin watch` as a process: slow pipes, growing files, a terminal, a reader that leaves."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import COMMAND, PATIENCE, Lines, changes, environment, run, start

BEST = "SELECT symbol, per FROM quotes ORDER BY per LIMIT 2"


def test_a_change_arrives_before_the_producer_ends() -> None:
    with start("watch", "--table", "symbol", "--sql", BEST) as process:
        assert process.stdin is not None
        lines = Lines(process)
        for line in ("symbol,per\n", "A,5\n"):
            process.stdin.write(line)
            process.stdin.flush()
        first = lines.next()
        assert (first["op"], first["key"], first["score"]) == ("enter", "A", 5.0)
        process.stdin.write("B,2.")
        process.stdin.flush()
        process.stdin.write("5\n")
        process.stdin.flush()
        second = lines.next()
        assert (second["op"], second["key"], second["score"]) == ("enter", "B", 2.5)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_json_lines_are_recognised_in_a_pipe() -> None:
    rows = '{"symbol": "A \\" quoted", "per": 1}\n{"symbol": "B", "per": 0.5}\n'
    finished = run("watch", "-", "--table", "symbol", "--sql", BEST, "--each", stdin=rows)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert [change["key"] for change in changes(finished.stdout)] == ['A " quoted', "B"]


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let processes hear SIGINT, even where the tests were started to ignore it, as a shell does with `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text("symbol,per\nA,5\n")
    with start("watch", str(path), "--follow", "--table", "symbol", "--sql", BEST) as process:
        lines = Lines(process)
        assert lines.next()["key"] == "A"
        with path.open("a") as file:
            file.write("B,")
            file.flush()
            time.sleep(0.3)
            file.write("2.5\n")
        second = lines.next()
        assert (second["key"], second["score"]) == ("B", 2.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text("symbol,per\n" + "".join(f"S{n},{-n}\n" for n in range(20_000)))
    with start("watch", str(path), "--table", "symbol", "--sql", BEST, "--each") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "S0" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


def test_bad_data_in_a_pipe_names_the_line() -> None:
    arguments = ("--table", "symbol", "--columns", "per double", "--sql", BEST)
    finished = run("watch", *arguments, stdin="symbol,per\nA,1\nB,dear\n")
    assert finished.returncode == 1
    assert finished.stderr.startswith("tocsin watch: standard input:3: ")


def test_a_live_table_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text("symbol,per\nA,5\nB,2.5\n")
    controller, terminal = pty.openpty()
    arguments = ["watch", str(path), "--follow", "--table", "symbol", "--sql", BEST]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=subprocess.PIPE,
        env={**environment(), "TERM": "xterm"},
    ) as process:
        os.close(terminal)
        shown = read_until(controller, "2 rows, 2 changes")
        with path.open("a") as file:
            file.write("C,1\n")
        shown += read_until(controller, "3 rows, 4 changes")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(controller)
    assert "Latest changes" in shown
    assert "symbol" in shown


def read_until(descriptor: int, wanted: str) -> str:
    """What appears on a terminal up to the wanted text."""
    shown = ""
    end = time.monotonic() + PATIENCE
    while wanted not in shown:
        assert time.monotonic() < end, shown
        shown += os.read(descriptor, 65536).decode(errors="replace")
    return shown
