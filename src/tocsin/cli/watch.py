"""`tocsin watch`: run standing queries at the shell."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tocsin.cli.failures import BAD_DATA, BAD_USAGE, OK, DataFailure, UsageFailure

if TYPE_CHECKING:
    import tocsin
    from tocsin.cli.watching.output import Output
    from tocsin.cli.watching.session import SkippedRows

EXAMPLES = """\
examples:
  tocsin watch trades.csv --sql "SELECT SUM(shares) FROM trades WHERE price > 100 HAVING SUM(shares) >= 1000"
  tail -f quotes.jsonl | tocsin watch --table id --sql "SELECT id, price FROM quotes ORDER BY price LIMIT 3"
  tocsin watch flows.csv --follow --window "5 minutes" --time at \\
      --sql "SELECT src, bytes FROM flows ORDER BY bytes + 100 * packets DESC LIMIT 10"

Types are taken from the first rows. In a pipe or a growing file, whole numbers are read as double, because
later ones may have fractions; --columns gives other types.
Exit code: 0, 1 for bad data, 2 for bad usage or SQL."""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    # Imported late: help and usage errors need no engine.
    from tocsin.errors import Error

    try:
        return _run(options)
    except KeyboardInterrupt:
        return OK
    except BrokenPipeError:
        # The reader has closed the pipe. Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except DataFailure as failure:
        return _complain(failure, BAD_DATA)
    except (UsageFailure, Error) as failure:
        return _complain(failure, BAD_USAGE)


def _run(options: argparse.Namespace) -> int:
    import tocsin
    from tocsin.cli.watching.inputs import open_input
    from tocsin.cli.watching.session import PublishOptions, SourceOptions, Watch
    from tocsin.cli.watching.subscriptions import parse_param, subscribe_all

    types = _parse_columns(options.columns)
    if options.no_header and not types:
        raise UsageFailure("--no-header: --columns must name the columns")
    names = list(types) if options.no_header else None
    params = dict(map(parse_param, options.param))
    with ExitStack() as opened:
        inputs = []
        for path in options.files or ["-"]:
            each = open_input(path, format_name=options.format, follow=options.follow, names=names)
            opened.callback(each.close)
            inputs.append((_source_of(path, options), each))
        sources = {source: [each for name, each in inputs if name == source] for source, _ in inputs}
        keys = _parse_keys(options.table, set(sources))
        source_options = SourceOptions(keys, options.window, options.time, options.sparse, types)
        publishing = PublishOptions(options.batch, options.each, options.rows, options.top, options.skip_bad)
        watch = Watch(tocsin.Engine(), publishing)
        watch.declare(sources, source_options)
        try:
            titles = subscribe_all(watch.engine, options.sql, params, options.params, repeat=options.repeat)
        except tocsin.SQLError as failure:
            # Often the reason is a column read as text, or the name of a file.
            raise UsageFailure(f"{failure}\nsources as read: {'; '.join(watch.sources)}") from None
        opened.callback(_report_skipped, watch.skipped)
        output = _output(options.output, watch.engine, titles)
        opened.callback(output.close)
        watch.run(inputs, output)
    return OK


def _output(kind: str, engine: tocsin.Engine, titles: Mapping[str, str]) -> Output:
    if kind == "table" or (kind == "auto" and sys.stdout.isatty()):
        from rich.console import Console

        from tocsin.cli.watching.screen import Screen

        return Screen(engine, titles, Console())
    from tocsin.cli.watching.output import JsonLinesOutput

    return JsonLinesOutput(sys.stdout)


def _source_of(path: str, options: argparse.Namespace) -> str:
    from tocsin.cli.watching.inputs import source_name
    from tocsin.cli.watching.statements import first_source

    name = options.name or source_name(path) or first_source(options.sql[0])
    if name is None:
        raise UsageFailure("standard input has no name: the statement has no FROM; --name gives one")
    return str(name)


def _parse_columns(text: str | None) -> dict[str, str]:
    """`price double, amount decimal(12, 2)` as names and types."""
    if text is None:
        return {}
    types = {}
    for item in re.split(r",(?![^(]*\))", text):
        name, _, kind = item.strip().partition(" ")
        if not name or not kind.strip():
            raise UsageFailure(
                f"--columns: {item.strip()!r} is not a name and a type, such as 'price double'"
            )
        types[name] = kind.strip()
    return types


def _parse_keys(texts: Sequence[str], sources: set[str]) -> dict[str | None, str]:
    """`KEY` for every source, or `NAME=KEY` for one."""
    keys: dict[str | None, str] = {}
    for text in texts:
        name, equals, key = text.rpartition("=")
        if equals and name not in sources:
            raise UsageFailure(f"--table {text}: no source {name!r}; there are {', '.join(sorted(sources))}")
        keys[name if equals else None] = key
    return keys


def _report_skipped(skipped: SkippedRows) -> None:
    if skipped.count:
        summary = f"skipped {skipped.count:,} bad rows; the first: {skipped.first}"
        print(f"tocsin watch: {summary}", file=sys.stderr)


def _complain(failure: Exception, code: int) -> int:
    print(f"tocsin watch: {failure}", file=sys.stderr)
    return code


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tocsin watch",
        description="Run standing queries over files or standard input and print what changes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="CSV, JSON lines or Parquet; - is standard input"
    )
    queries = parser.add_argument_group("queries")
    queries.add_argument("--sql", action="append", required=True, help="a standing query; may be repeated")
    queries.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a value for :NAME"
    )
    queries.add_argument("--params", metavar="FILE", help="ids and parameters of many subscriptions")
    queries.add_argument("--repeat", action="store_true", help="restart a threshold each time it is reached")
    source = parser.add_argument_group("source")
    source.add_argument(
        "--name", help="name of the source (default: that of the file, or the one after FROM)"
    )
    kind = source.add_mutually_exclusive_group()
    kind.add_argument(
        "--table",
        action="append",
        default=[],
        metavar="[NAME=]KEY",
        help="the rows are a table with this key column",
    )
    kind.add_argument("--stream", action="store_true", help="the rows are a stream (the default)")
    kind.add_argument("--sparse", action="store_true", help="the rows are a stream of any attributes")
    source.add_argument("--window", help="make the stream a window: '1000 rows' or '5 minutes'")
    source.add_argument("--time", metavar="COLUMN", help="the timestamp column of a window of time")
    source.add_argument(
        "--columns", metavar="'NAME TYPE, …'", help="types of columns, where those inferred are wrong"
    )
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--format",
        choices=("csv", "jsonl", "parquet"),
        help="format of the input (default: from the file's name)",
    )
    reading.add_argument(
        "--no-header", action="store_true", help="CSV without a header; --columns names the columns"
    )
    reading.add_argument("--follow", action="store_true", help="wait for more rows at the end of a file")
    reading.add_argument(
        "--skip-bad", action="store_true", help="skip rows that cannot be read, and count them"
    )
    reading.add_argument(
        "--batch", type=_positive, default=10_000, metavar="N", help="maximum rows of a batch"
    )
    printing = parser.add_argument_group("printing")
    printing.add_argument(
        "--each", action="store_true", help="report changes after every row, not net of a batch"
    )
    printing.add_argument("--rows", action="store_true", help="show the selected columns with each change")
    printing.add_argument(
        "--top", type=_positive, metavar="K", help="report only the K best matches of an event"
    )
    printing.add_argument(
        "--output", choices=("auto", "table", "jsonl"), default="auto", help="table on a terminal"
    )
    return parser
