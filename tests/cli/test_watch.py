"""`tocsin watch` over files: what it prints, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.cli.commands import changes
from tocsin.cli.main import main

QUOTES = "symbol,risk,per\nA,10,5\nB,30,2.5\nC,50,9\nB,30,7\nD,55,1\n"
BEST = "SELECT symbol, per FROM quotes WHERE risk BETWEEN 20 AND 60 ORDER BY per LIMIT 2"
TRADES = "price,shares\n10,100\n11.5,50\n20,70\n"
VOLUME = "SELECT SUM(shares) FROM trades WHERE price < 15 HAVING SUM(shares) >= :tau"


class Shell:
    """Runs the command here and keeps what it wrote."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.error = ""

    def file(self, name: str, text: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def watch(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        try:
            ended = main(["watch", *arguments])
        except SystemExit as failure:
            ended = int(str(failure.code))
        written = self._capsys.readouterr()
        self.error = written.err
        assert ended == code, written.err
        return changes(written.out)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, capsys)


def brief(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(change["op"], change["key"], change["score"], change["rank"]) for change in found]


def test_net_change_of_a_table(shell: Shell) -> None:
    found = shell.watch(shell.file("quotes.csv", QUOTES), "--table", "symbol", "--sql", BEST)
    assert brief(found) == [("enter", "D", 1.0, 1), ("enter", "B", 7.0, 2)]
    assert {change["seq"] for change in found} == {4}
    assert {change["subscription"] for change in found} == {"q1"}


def test_each_row_reports(shell: Shell) -> None:
    found = shell.watch(shell.file("quotes.csv", QUOTES), "--table", "symbol", "--sql", BEST, "--each")
    assert brief(found) == [
        ("enter", "B", 2.5, 1),
        ("enter", "C", 9.0, 2),
        ("update", "B", 7.0, 1),
        ("leave", "C", None, None),
        ("enter", "D", 1.0, 1),
    ]
    assert [change["seq"] for change in found] == [1, 2, 3, 4, 4]


def test_batches_of_one_are_as_each_row(shell: Shell) -> None:
    path = shell.file("quotes.csv", QUOTES)
    each = shell.watch(path, "--table", "symbol", "--sql", BEST, "--each")
    assert shell.watch(path, "--table", "symbol", "--sql", BEST, "--batch", "1") == each


def test_json_lines_and_parquet_answer_as_csv(shell: Shell) -> None:
    rows = [dict(zip(("symbol", "risk", "per"), line.split(","), strict=True)) for line in QUOTES.split()[1:]]
    typed = [{"symbol": r["symbol"], "risk": float(r["risk"]), "per": float(r["per"])} for r in rows]
    lines = "".join(json.dumps(row) + "\n" for row in typed)
    pyarrow.parquet.write_table(pa.Table.from_pylist(typed), shell.folder / "quotes.parquet")
    wanted = ("--table", "symbol", "--sql", BEST, "--each", "--rows")
    from_csv = shell.watch(shell.file("quotes.csv", QUOTES), *wanted)
    assert from_csv[0]["row"] == {"symbol": "B", "per": 2.5}
    assert from_csv[3]["row"] is None
    assert shell.watch(shell.file("quotes.jsonl", lines), *wanted) == from_csv
    assert shell.watch(str(shell.folder / "quotes.parquet"), *wanted) == from_csv


def test_ops_delete_rows(shell: Shell) -> None:
    path = shell.file("quotes.csv", "symbol,risk,per,_op\nA,30,5,upsert\nB,30,6,upsert\nA,,,delete\n")
    found = shell.watch(path, "--table", "symbol", "--sql", BEST, "--each")
    assert brief(found) == [("enter", "A", 5.0, 1), ("enter", "B", 6.0, 2), ("leave", "A", None, None)]


def test_threshold_with_a_parameter(shell: Shell) -> None:
    path = shell.file("trades.csv", TRADES)
    assert brief(shell.watch(path, "--sql", VOLUME, "--param", "tau=120")) == [("mature", "1", 150.0, None)]
    assert shell.watch(path, "--sql", VOLUME, "--param", "tau=1000") == []


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_parameters_in_bulk(shell: Shell, suffix: str) -> None:
    params = pa.table({"id": ["low", "high", "never"], "tau": [100, 150, 151]})
    path = shell.folder / f"params.{suffix}"
    if suffix == "parquet":
        pyarrow.parquet.write_table(params, path)
    elif suffix == "csv":
        path.write_text("id,tau\nlow,100\nhigh,150\nnever,151\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in params.to_pylist()))
    found = shell.watch(shell.file("trades.csv", TRADES), "--sql", VOLUME, "--params", str(path))
    assert sorted(change["subscription"] for change in found) == ["high", "low"]


def test_join_of_two_files(shell: Shell) -> None:
    flights = shell.file("flights.csv", "id,origin,delay\n1,EWR,50\n2,JFK,5\n")
    weather = shell.file("weather.csv", "origin,wind\nEWR,30\nJFK,40\n")
    sql = (
        "SELECT flights.id, weather.wind FROM flights JOIN weather ON flights.origin = weather.origin "
        "WHERE flights.delay > 20 AND weather.wind > 25"
    )
    found = shell.watch(flights, weather, "--table", "flights=id", "--table", "weather=origin", "--sql", sql)
    assert [(change["op"], json.loads(change["key"])) for change in found] == [("enter", ["1", "EWR"])]


def test_files_of_one_name_are_one_source(shell: Shell) -> None:
    first, second = shell.file("monday.csv", TRADES), shell.file("tuesday.csv", TRADES)
    found = shell.watch(first, second, "--name", "trades", "--sql", VOLUME, "--param", "tau=300")
    assert brief(found) == [("mature", "4", 300.0, None)]


def test_window_of_time(shell: Shell) -> None:
    rows = "at,bytes\n2024-01-01T00:00:00Z,5\n2024-01-01T00:01:00Z,3\n2024-01-01T00:06:00Z,1\n"
    sql = "SELECT bytes FROM flows ORDER BY 2 * bytes DESC LIMIT 1"
    path = shell.file("flows.csv", rows)
    found = shell.watch(path, "--window", "5 minutes", "--time", "at", "--sql", sql, "--each")
    assert brief(found) == [("enter", "0", 10.0, 1), ("leave", "0", None, None), ("enter", "2", 2.0, 1)]


def test_sparse_rows_and_best_matches(shell: Shell) -> None:
    rows = '{"age": 30, "city": "Oslo"}\n{"age": {"low": 20, "high": 40}}\n'
    rows += '{"city": "Rome", "_weights": {"city": 5}}\n'
    path = shell.file("visitors.jsonl", rows)
    statements = [
        "SELECT * FROM visitors WHERE age > 35",
        "SELECT * FROM visitors WHERE WEIGHT(age > 25, 2)",
        "SELECT * FROM visitors WHERE city = 'Rome'",
    ]
    given = [part for sql in statements for part in ("--sql", sql)]
    found = shell.watch(path, "--sparse", *given, "--top", "1")
    assert [(change["subscription"], change["key"], change["score"]) for change in found] == [
        ("q2", "0", 2.0),
        ("q2", "1", 2.0),
        ("q3", "2", 5.0),
    ]


def test_columns_give_types_and_names(shell: Shell) -> None:
    path = shell.file("trades.csv", "10,100\n11.5,50\n")
    found = shell.watch(
        path,
        "--no-header",
        "--columns",
        "price decimal(12, 2), shares bigint",
        "--sql",
        VOLUME,
        "--param",
        "tau=1",
    )
    assert brief(found) == [("mature", "0", 100.0, None)]


def test_bad_rows_stop_with_file_and_line(shell: Shell) -> None:
    path = shell.file("trades.csv", TRADES + "12,30\n13,many\n14,5\n")
    columns = ("--columns", "shares bigint, price double")
    found = shell.watch(path, *columns, "--sql", VOLUME, "--param", "tau=150", code=1)
    assert brief(found) == [("mature", "1", 150.0, None)]
    assert shell.error.startswith(f"tocsin watch: {path}:6: column 'shares': 'many' is not a bigint")
    assert len(shell.error.splitlines()) == 1


def test_bad_rows_are_skipped_and_counted(shell: Shell) -> None:
    path = shell.file("trades.csv", "price,shares\n1,100\n2\n3,4,5\n4,x\n5,50\n")
    columns = ("--columns", "shares bigint, price double")
    found = shell.watch(path, *columns, "--sql", VOLUME, "--param", "tau=150", "--skip-bad")
    assert brief(found) == [("mature", "1", 150.0, None)]
    assert "skipped 3 bad rows" in shell.error
    assert f"{path}:3: 1 values where the header has 2" in shell.error


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"price": 1, "shares": "many"}', "column 'shares': \"many\" is not a"),
        ('{"price": 1, "shares": 5', "not JSON"),
        ("[1, 2]", "not a JSON object"),
        (
            '{"price": 1, "shares": 5, "price": 2}',
            "each key of an object must appear once, got 'price' twice",
        ),
    ],
)
def test_bad_json_lines(shell: Shell, line: str, reason: str) -> None:
    path = shell.file("trades.jsonl", f'{{"price": 1, "shares": 5}}\n\n{line}\n')
    given = ("--columns", "price double, shares bigint", "--sql", VOLUME, "--param", "tau=1000")
    shell.watch(path, *given, code=1)
    assert shell.error.startswith(f"tocsin watch: {path}:3: {reason}")


def test_a_null_key_is_a_bad_row(shell: Shell) -> None:
    path = shell.file("quotes.csv", QUOTES + ",30,1\n")
    shell.watch(path, "--table", "symbol", "--sql", BEST, code=1)
    assert f"{path}:7: " in shell.error


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("quotes.parquet", QUOTES.encode(), "not a whole Parquet file"),
        ("quotes.parquet", b"", "not a whole Parquet file"),
        ("quotes.csv", b"PAR1\x00\x01", "looks like a Parquet file"),
        ("quotes.csv", b"\x1f\x8b\x08\x00", "looks like gzip"),
        ("quotes.csv", b"a,b\0\n1,2\n", "zero byte"),
        ("quotes.csv", b"symbol,r\xe9sum\xe9\n1,2\n", "not UTF-8"),
        ("quotes.csv", b"symbol,symbol\n1,2\n", "must name each column once"),
        ("quotes.csv", b"", "no rows to infer types from"),
        ("quotes.csv", b"symbol,risk,per\n", "no rows to infer types from"),
        ("quotes.jsonl", QUOTES.encode(), ":1: not JSON"),
    ],
)
def test_a_file_that_is_not_what_it_says(shell: Shell, name: str, data: bytes, reason: str) -> None:
    path = shell.file(name, data)
    shell.watch(path, "--table", "symbol", "--sql", BEST, code=1)
    assert shell.error.startswith(f"tocsin watch: {path}")
    assert reason in shell.error
    assert len(shell.error.splitlines()) == 1


def test_a_parquet_file_cut_short(shell: Shell) -> None:
    pyarrow.parquet.write_table(pa.table({"symbol": ["A"], "risk": [1.0]}), shell.folder / "whole.parquet")
    path = shell.file("quotes.parquet", (shell.folder / "whole.parquet").read_bytes()[:-20])
    shell.watch(path, "--table", "symbol", "--sql", BEST, code=1)
    assert "not a whole Parquet file" in shell.error


def test_bad_sql_is_underlined(shell: Shell) -> None:
    path = shell.file("quotes.csv", QUOTES)
    shell.watch(path, "--table", "symbol", "--sql", BEST.replace("risk", "rsik"), code=2)
    assert "^^^^" in shell.error
    assert "risk" in shell.error
    assert shell.error.endswith("sources as read: quotes (symbol string, risk bigint, per double)\n")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "--sql"),
        (("--sql", BEST, "--columns", "price"), "not a name and a type"),
        (("--sql", BEST, "--columns", "price text"), "price"),
        (("--sql", BEST, "--columns", "colour string"), "colour"),
        (("--sql", BEST, "--param", "tau"), "name=value"),
        (("--sql", BEST, "--param", "tau=1"), ":tau"),
        (("--sql", BEST, "--params", "missing.csv"), "--params"),
        (("--sql", BEST, "--batch", "0"), "--batch"),
        (("--sql", BEST, "--no-header"), "--columns"),
        (("--sql", BEST, "--table", "stocks=symbol"), "stocks"),
        (("--sql", BEST, "--table", "colour"), "colour"),
        (("--sql", "SELECT"), "SELECT"),
    ],
)
def test_bad_usage(shell: Shell, arguments: tuple[str, ...], reason: str) -> None:
    shell.watch(shell.file("quotes.csv", QUOTES), *arguments, code=2)
    assert reason in shell.error


def test_missing_file_and_directory(shell: Shell) -> None:
    shell.watch("nowhere.csv", "--sql", BEST, code=2)
    assert "nowhere.csv: No such file" in shell.error
    shell.watch(str(shell.folder), "--sql", BEST, code=2)
    assert "is a directory" in shell.error
