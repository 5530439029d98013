"""The documentation's examples: those that need neither Spark nor a server run, and job files are checked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tocsin
from tocsin.spark import Job

DOCS = Path(__file__).parents[1] / "docs"
STOCKS = [{"symbol": "A", "risk": 31.0, "per": 7.5}, {"symbol": "B", "risk": 45.0, "per": 3.2}]
ANSWER = [{"symbol": "B", "per": 3.2}, {"symbol": "A", "per": 7.5}]


def blocks(page: str, language: str) -> list[str]:
    """What a page shows in one language, from its top to its end."""
    shown = re.findall(r"^```(\w*)\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return [text for kind, text in shown if kind == language]


def play(page: str, **names: Any) -> dict[str, Any]:
    """Run a page's Python from its top to its end, with the names that it takes for granted."""
    for code in blocks(page, "python"):
        exec(code, names)
    return names


def engine_with_stocks() -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_table(
        "stocks", key="symbol", columns={"symbol": "string", "risk": "double", "per": "double"}
    )
    return engine


def test_architecture() -> None:
    names = play("architecture.md", engine=engine_with_stocks())
    (change,) = names["changes"].to_pylist()
    assert (change["subscription"], change["op"], change["key"]) == (names["sid"], "enter", "A")


def test_messages() -> None:
    names = play("indexes/ranges.md", tocsin=tocsin, rows=STOCKS)
    sid = names["engine"].subscribe(names["sql"], lo=20, hi=60)
    assert names["engine"].result(sid).to_pylist() == ANSWER
    assert [entry.key for entry in names["edge"].result()] == ["B", "A"]


def test_matching() -> None:
    engine = tocsin.Engine()
    engine.create_stream("visitors")
    play("indexes/matching.md", engine=engine, pa=pa)
    explained = next(text for text in blocks("indexes/matching.md", "") if text.startswith("subscription:"))
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


@pytest.mark.parametrize("page", ["operations.md", "gateway.md", "indexes/ranges.md"])
def test_jobs(page: str) -> None:
    for text in blocks(page, "toml"):
        job = {"job": {"name": "alerts", "checkpoint": "state"}, **tomllib.loads(text)}
        assert Job.of(job).settings.name == "alerts"
