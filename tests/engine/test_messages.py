"""Messages through the public API: whoever follows them holds what the engine answers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocsin

RANGE = "x BETWEEN :lo AND :hi"
TOP = f"SELECT k, y FROM t WHERE {RANGE} ORDER BY y LIMIT 2"
#: One of each kind, each with one row or value a line.
TEMPLATES = {
    "top": TOP,
    "best": f"SELECT k, y FROM t WHERE {RANGE} ORDER BY y DESC LIMIT 3",
    "same space": f"SELECT y, k FROM t WHERE {RANGE} ORDER BY y LIMIT 2",
    "fixed": f"SELECT k, y FROM t WHERE {RANGE} AND z BETWEEN 0 AND 1 ORDER BY y LIMIT 1",
    "all": "SELECT k, y FROM t ORDER BY y LIMIT 2",
    "min": f"SELECT MIN(y) FROM t WHERE {RANGE}",
    "max": f"SELECT MAX(y) FROM t WHERE {RANGE}",
    "values": f"SELECT DISTINCT y FROM t WHERE {RANGE}",
    "names": f"SELECT DISTINCT name FROM t WHERE {RANGE}",
}
RANKED = ("top", "best", "same space", "all")

XS = [-math.inf, 0.0, 1.0, 2.0, 3.0, None]
YS = [0.0, -0.0, 1.0, 2.0, math.inf, math.nan, None]
BOUNDS = [-math.inf, 0.0, 0.5, 1.0, 2.0, 3.0, math.inf]
ranges = st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS))

rows = st.fixed_dictionaries(
    {
        "k": st.sampled_from("abcdef"),
        "x": st.sampled_from(XS),
        "y": st.sampled_from(YS),
        "z": st.sampled_from([0.0, 1.0, 2.0]),
        "name": st.sampled_from(["n", "m", None]),
        "_op": st.sampled_from(["upsert", "upsert", "upsert", "delete"]),
    }
)
batches = st.lists(rows, max_size=5)
Batch = list[dict[str, Any]]


def new_engine() -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_table(
        "t",
        key="k",
        columns={"k": "string", "x": "double", "y": "double", "z": "double", "name": "string"},
    )
    return engine


class Edge:
    """One subscription, told by messages alone."""

    def __init__(self, engine: tocsin.Engine, name: str, lo: float, hi: float) -> None:
        self.template = name
        params: dict[str, Any] = {"lo": lo, "hi": hi} if ":lo" in TEMPLATES[name] else {}
        space = engine.create_space(TEMPLATES[name])
        described = {each["space"]: each for each in engine.spaces("t")}[space]
        bounds = (lo, hi) if params else ((), ())
        self.subscriber = tocsin.Subscriber(*bounds, **described)
        self.subscriber.start(engine.snapshot("t", space), seq=engine.counts("t")["rows"] - 1)
        self.sid = engine.subscribe(TEMPLATES[name], **params)

    def check(self, engine: tocsin.Engine) -> None:
        """It holds what the engine answers, to the key and the order."""
        held = self.subscriber.result()
        answer = engine.result(self.sid)
        if self.template in ("values", "names"):
            assert [entry.key for entry in held] == sorted(map(str, answer.column(0).to_pylist()))
            return
        told = engine.answers([self.sid])
        keys, scores = told.column("key").to_pylist(), told.column("score").to_pylist()
        if self.template in ("min", "max") and scores == [None]:
            keys, scores = [], []
        assert [(entry.key, entry.y) for entry in held] == list(zip(keys, scores, strict=True))


@settings(max_examples=60)
@given(
    before=st.lists(batches, max_size=2),
    subscriptions=st.lists(st.tuples(st.sampled_from(list(TEMPLATES)), ranges), max_size=6),
    script=st.lists(st.tuples(batches, st.sampled_from(["dense", "sparse", "publish", "load"])), max_size=5),
)
def test_subscribers_end_exact(
    before: list[Batch],
    subscriptions: list[tuple[str, tuple[float, float]]],
    script: list[tuple[Batch, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    engine = new_engine()
    for batch in before:
        engine.publish("t", batch)
    edges = [Edge(engine, name, lo, hi) for name, (lo, hi) in subscriptions]
    for batch, how in script:
        if how == "load":
            engine = loaded(engine, tmp_path_factory.mktemp("saved"))
        if how == "publish":
            engine.publish("t", batch, each=True)
            for edge in edges:
                space = edge.subscriber.space
                assert space is not None
                edge.subscriber.start(engine.snapshot("t", space), seq=engine.counts("t")["rows"] - 1)
        else:
            messages = engine.messages("t", batch, algorithm="sparse" if how == "sparse" else "dense")
            for edge in edges:
                edge.subscriber.apply(messages)
        for edge in edges:
            edge.check(engine)


@given(
    st.lists(st.tuples(st.sampled_from(RANKED), ranges), max_size=4),
    st.lists(st.tuples(batches, st.sampled_from(["dense", "sparse"])), max_size=4),
    st.sampled_from([0.0, 0.3, 1.0]),
)
@settings(max_examples=50)
def test_an_epsilon_misses_nobody(
    subscriptions: list[tuple[str, tuple[float, float]]], script: list[tuple[Batch, str]], epsilon: float
) -> None:
    engine = new_engine()
    edges = [Edge(engine, name, lo, hi) for name, (lo, hi) in subscriptions]
    for batch, algorithm in script:
        messages = engine.messages("t", batch, algorithm=algorithm, epsilon=epsilon)
        for edge in edges:
            edge.subscriber.apply(messages)
            edge.check(engine)


@pytest.mark.parametrize("algorithm", ["dense", "sparse"])
def test_messages_stay_as_they_were(algorithm: str) -> None:
    engine = new_engine()
    for sql in TEMPLATES.values():
        engine.create_space(sql)
        params: dict[str, Any] = {"lo": 0, "hi": 9} if ":lo" in sql else {}
        engine.subscribe(sql, **params)
    told, texts = [], []
    for number in range(6):
        batch = [{"k": key, "x": float(number + at), "y": float(-number)} for at, key in enumerate("abc")]
        told.append(engine.messages("t", batch[: 1 + number % 3], algorithm=algorithm))
        texts.append(str(told[-1].to_pylist()))
    assert [str(table.to_pylist()) for table in told] == texts


def loaded(engine: tocsin.Engine, folder: Path) -> tocsin.Engine:
    with patch("os.fsync"):
        engine.save(folder / "saved")
    return tocsin.Engine.load(folder / "saved")


@pytest.mark.parametrize(
    "sql", ["SELECT k FROM t WHERE x BETWEEN :lo AND :hi ORDER BY y", "SELECT k FROM t ORDER BY y"]
)
def test_lists_of_any_length_are_told(sql: str) -> None:
    engine = tocsin.Engine()
    engine.create_table("t", key="k", columns={"k": "string", "x": "double", "y": "double"})
    ranges: dict[str, Any] = {"lo": 1.0, "hi": 5.0} if ":lo" in sql else {}
    limits = (3, 70, 2000)
    sids = [engine.subscribe(f"{sql} LIMIT {limit}", **ranges) for limit in limits]
    spaces = {space["k"]: space for space in engine.spaces("t")}
    assert sorted(spaces) == list(limits)
    edges = [tocsin.Subscriber(1.0, 5.0, **spaces[limit]) for limit in limits]
    for edge, limit in zip(edges, limits, strict=True):
        edge.start(engine.snapshot("t", spaces[limit]["space"]))
    rows = [{"k": str(i), "x": float(i % 7), "y": float(i * 37 % 101)} for i in range(120)]
    told = engine.messages("t", rows)
    for edge, sid in zip(edges, sids, strict=True):
        edge.apply(told)
        held = [entry.key for entry in edge.result()]
        assert held == engine.result(sid).column("k").to_pylist()
        assert held
