"""The documentation's examples: those that need neither Spark nor a server run and print what the pages show.

A fence of `python` followed by one of `text` shows its output; a fence of `console` is a session at a shell.
`TOCSIN_WRITE_OUTPUT=1` writes what is printed into the pages instead. Job files are checked on every page.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

import tocsin
import tocsin.errors
import tocsin.spark
from tests.cli.commands import environment, run
from tocsin.cli.main import COMMANDS
from tocsin.spark import Job
from tocsin.types import ColumnType

DOCS = Path(__file__).parents[1] / "docs"
STOCKS = [{"symbol": "A", "risk": 31.0, "per": 7.5}, {"symbol": "B", "risk": 45.0, "per": 3.2}]
ANSWER = [{"symbol": "B", "per": 3.2}, {"symbol": "A", "per": 7.5}]

#: Pages that tests/papers/test_pages.py runs.
PAPERS = [
    "papers/index.md",
    "papers/topk-paint.md",
    "papers/sliding-windows.md",
    "papers/thresholding.md",
    "papers/be-star-tree.md",
    "papers/network.md",
]
#: Pages that run from their top to their end, with nothing taken for granted.
STANDALONE = [
    "index.md",
    "tutorial.md",
    "design/architecture.md",
    "how-to/alerts-on-a-stream.md",
    "how-to/leaderboards.md",
    "how-to/geofences.md",
    "how-to/matching-rules.md",
    "reference/types.md",
    "reference/errors.md",
    "reference/conditions.md",
]
#: Pages whose Python takes names for granted, which the tests below give it.
WITH_NAMES = ["design/indexes/ranges.md", "design/indexes/matching.md", "network.md"]
#: Pages whose Python needs Spark or a server: tests/pipeline and tests/gateway run the like.
ELSEWHERE = ["gateway.md", "how-to/on-spark.md", "how-to/behind-http.md", "reference/spark.md"]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fence: its language, its text, and where that is on the page."""

    language: str
    text: str
    begin: int
    end: int


def pages() -> list[str]:
    return sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def fences(page: str) -> list[Block]:
    text = (DOCS / page).read_text()
    return [Block(found[1], found[2], found.start(2), found.end(2)) for found in FENCE.finditer(text)]


def blocks(page: str, language: str) -> list[str]:
    """What a page shows in one language, from its top to its end."""
    return [block.text for block in fences(page) if block.language == language]


def play(page: str, **names: Any) -> dict[str, Any]:
    """Run a page's Python from its top to its end, with the names that it takes for granted."""
    for code in blocks(page, "python"):
        exec(code, names)
    return names


class Shown(NamedTuple):
    """What a page shows as output, and what was printed."""

    block: Block
    shown: str
    printed: str


def outputs(page: str) -> Iterator[Shown]:
    """Run a page's Python and its sessions at a shell, in the current folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    found = fences(page)
    for place, block in enumerate(found):
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, page, "exec"), names)
            following = found[place + 1] if place + 1 < len(found) else None
            if following is not None and following.language == "text":
                yield Shown(following, following.text, printed.getvalue())
            else:
                assert printed.getvalue() == "", f"{page} does not show what this prints: {block.text}"
        elif block.language == "console":
            yield Shown(block, block.text, session(block.text))


def session(text: str) -> str:
    """A session at a shell, with what its commands print: `cat FILE` writes the file that it shows."""
    _, *parts = re.split(r"^\$ (.*(?:\\\n.*)*)\n", text, flags=re.MULTILINE)
    shown = []
    for command, output in zip(parts[::2], parts[1::2], strict=True):
        program, *arguments = shlex.split(command.partition(" | cat")[0].replace("\\\n", ""))
        if program == "cat":
            Path(arguments[0]).write_text(output)
        else:
            assert program == "tocsin"
            finished = subprocess.run(
                [sys.executable, "-m", "tocsin", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment(),
                check=False,
            )
            output = finished.stdout
        shown.append(f"$ {command}\n{output}")
    return "".join(shown)


def rewritten(text: str, found: list[Shown]) -> str:
    for block, _, printed in reversed(found):
        text = text[: block.begin] + printed + text[block.end :]
    return text


def test_every_page_with_python_is_run() -> None:
    assert {page for page in pages() if blocks(page, "python")} <= {
        *STANDALONE,
        *WITH_NAMES,
        *ELSEWHERE,
        *PAPERS,
    }


@pytest.mark.parametrize("page", STANDALONE)
def test_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = list(outputs(page))
    if os.environ.get("TOCSIN_WRITE_OUTPUT"):
        path = DOCS / page
        path.write_text(rewritten(path.read_text(), found))
        return
    for _, shown, printed in found:
        assert printed == shown


def engine_with_stocks() -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_table(
        "stocks", key="symbol", columns={"symbol": "string", "risk": "double", "per": "double"}
    )
    return engine


def test_messages() -> None:
    names = play("design/indexes/ranges.md", tocsin=tocsin, rows=STOCKS)
    sid = names["engine"].subscribe(names["sql"], lo=20, hi=60)
    assert names["engine"].result(sid).to_pylist() == ANSWER
    assert [entry.key for entry in names["edge"].result()] == ["B", "A"]


def test_matching() -> None:
    engine = tocsin.Engine()
    engine.create_stream("visitors")
    play("design/indexes/matching.md", engine=engine, pa=pa)
    explained = next(
        text for text in blocks("design/indexes/matching.md", "") if text.startswith("subscription:")
    )
    assert engine.explain("ad 1", {"age": 30.0, "city": "Rome"}) == explained.rstrip()


def test_network() -> None:
    engine = engine_with_stocks()
    engine.publish("stocks", STOCKS[:1])
    lo, hi = np.array([[20.0], [40.0]]), np.array([[60.0], [50.0]])
    names = play(
        "network.md",
        engine=engine,
        rows=STOCKS[1:],
        lo=lo,
        hi=hi,
        ids=["wide", "narrow"],
        server=0,
        low=(20.0, 50.0),
        high=(40.0, 60.0),
        body=b"",
    )
    edge = names["edge"]
    assert [entry.key for entry in edge.result("wide")] == ["B", "A"]
    assert [entry.key for entry in edge.result("narrow")] == ["B"]


JOB_FILE = re.compile(r"^\[\[?(job|tables|streams|subscriptions|sink|spark)\b", re.MULTILINE)

#: What a page may leave out of a job file that is about something else.
COMPLETED = {
    "tables": {"stocks": {"path": "in", "key": "symbol", "columns": {"symbol": "string", "per": "double"}}},
    "subscriptions": [{"sql": "SELECT symbol, per FROM stocks ORDER BY per LIMIT 3"}],
}


@pytest.mark.parametrize("page", pages())
def test_jobs(page: str) -> None:
    for text in blocks(page, "toml"):
        if JOB_FILE.search(text):
            given = tomllib.loads(text)
            rest = {} if "subscriptions" in given else COMPLETED
            job = {**rest, **given, "job": {"name": "alerts", "checkpoint": "state", **given.get("job", {})}}
            assert Job.of(job).settings.name


#: The sections of the job file's page, and the model of each.
SECTIONS = {
    "[job]": "JobSection",
    "[tables.NAME]` and `[streams.NAME]": "SourceSection",
    "[[subscriptions]]": "SubscriptionSection",
    "[sink]": "SinkSection",
}


@pytest.mark.parametrize("title", SECTIONS)
def test_the_job_file_s_page_has_every_key(title: str) -> None:
    model = getattr(importlib.import_module("tocsin.pipeline.job.sections"), SECTIONS[title])
    fields = {
        name: "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        for name, field in model.model_fields.items()
    }
    section = (DOCS / "reference/job-file.md").read_text().split(f"\n## `{title}`\n")[1].split("\n## ")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|", section, re.MULTILINE)) == fields


def _default(value: Any) -> str:
    return "none" if value is None else f"`{json.dumps(value)}`"


def test_the_job_file_s_page_has_every_section() -> None:
    text = (DOCS / "reference/job-file.md").read_text()
    sections = importlib.import_module("tocsin.pipeline.job.sections").JobFile.model_fields
    assert all(re.search(rf"^## .*`\[\[?{name}\b", text, re.MULTILINE) for name in sections)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_commands(command: str) -> None:
    finished = run(*filter(None, [command, "--help"]))
    text = (DOCS / "reference/commands.md").read_text()
    shown = text.split(f"\n## `{f'tocsin {command}'.strip()}`\n")[1].split("```")[1]
    # argparse breaks lines in its own way in each version of Python.
    assert shown.split() == finished.stdout.split()


def test_types() -> None:
    text = (DOCS / "reference/types.md").read_text()
    for first, others, arrow in re.findall(r"^\| (`[^|]*) \|([^|]*)\| `([^|]*)` \|", text, re.MULTILINE):
        for name in re.findall("`([^`]*)`", first + others):
            parsed = ColumnType.parse(name.replace("(p,s)", "(12, 2)"), column="x")
            assert str(parsed.arrow) == arrow.replace("p, s", "12, 2")


def test_every_public_name_has_a_place_in_the_reference() -> None:
    text = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    documented = set(re.findall(r"^::: tocsin\.(\w+)$", text, re.MULTILINE))
    assert "errors" in documented
    errors = {name for name in tocsin.__all__ if hasattr(tocsin.errors, name)}
    assert set(tocsin.__all__) - errors <= documented
    assert {f"::: tocsin.spark.{name}" for name in tocsin.spark.__all__} <= set(text.splitlines())
