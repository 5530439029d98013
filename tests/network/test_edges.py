"""Edges hold what the engine answers, whatever is split, killed, sent twice or brought in another order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tocsin
from tocsin.errors import ParameterError, StateError, UnknownSubscription
from tocsin.network.areas import points_of
from tocsin.network.edges import Deliver, Edge
from tocsin.network.local import LocalCarrier
from tocsin.network.publishing import Publisher
from tocsin.network.topk_answers import TopKAnswers
from tocsin.network.wire import OutboundMessage
from tocsin.network.zones import Zones
from tocsin.subscriber import Entry

RANGE = "x BETWEEN :lo AND :hi"
TEMPLATES = [
    f"SELECT k, y FROM t WHERE {RANGE} ORDER BY y LIMIT 2",
    f"SELECT k, y FROM t WHERE {RANGE} ORDER BY y DESC LIMIT 3",
    f"SELECT MIN(y) FROM t WHERE {RANGE}",
    f"SELECT MAX(y) FROM t WHERE {RANGE}",
    f"SELECT DISTINCT y FROM t WHERE {RANGE}",
    "SELECT k, y FROM t ORDER BY y LIMIT 2",
]
VALUES = [-math.inf, -1.0, 0.0, 1.0, 2.0, 3.0, math.inf]
bound = st.sampled_from(VALUES)
row = st.fixed_dictionaries(
    {
        "k": st.sampled_from("abcdef"),
        "x": st.sampled_from([*VALUES, None]),
        "y": st.sampled_from([0.0, -0.0, 1.0, 2.0, math.nan, None]),
        "_op": st.sampled_from(["upsert", "upsert", "upsert", "delete"]),
    }
)
batch = st.lists(row, min_size=1, max_size=4)
#: What happens: a batch is published, payloads are delivered to edges, and so on.
step: st.SearchStrategy[tuple[str, list[dict[str, Any]]]] = st.one_of(
    st.tuples(st.just("tell"), batch),
    st.tuples(st.sampled_from(["bring", "snapshot", "kill", "again"]), st.just([])),
    st.tuples(st.just("split"), st.just([])),
)
FIRST = {"k": "z", "x": 1.0, "y": 1.0}


class Scene:
    """An engine that tells, a carrier, and two edges with half of the subscriptions each."""

    def __init__(self, sql: str, ranges: list[tuple[float, float]], zones: int) -> None:
        self.engine = tocsin.Engine()
        self.engine.create_table("t", key="k", columns={"k": "string", "x": "double", "y": "double"})
        self.space = self.engine.create_space(sql)
        (self.described,) = self.engine.spaces("t")
        has_range = ":lo" in sql
        self.params: list[dict[str, Any]] = [{"lo": lo, "hi": hi} if has_range else {} for lo, hi in ranges]
        bounds = np.array(ranges, np.float64).reshape(-1, 2)[:, : 2 if has_range else 0]
        self.lo, self.hi = bounds[:, : bounds.shape[1] // 2], bounds[:, bounds.shape[1] // 2 :]
        self.sql = sql
        self.publisher = Publisher()
        self.carrier = LocalCarrier(self.note)
        self.delivered: dict[Edge, set[int]] = {}
        points = points_of(self.lo, self.hi)
        self.points = points
        self.carrier.publish(self.publisher.open(self.space, Zones.build(points, zones)))
        self.engine.publish("t", [FIRST])
        self.last: list[OutboundMessage] = []
        self.is_switching = False
        self.snapshot()
        self.edges = [self.new_edge(half) for half in (0, 1)]

    def new_edge(self, half: int) -> Edge:
        edge = Edge(self.described, self.lo[half::2], self.hi[half::2])
        self.delivered[edge] = set()
        self.carrier.attach(edge)
        return edge

    def note(self, edge: Edge, delivery: Deliver) -> None:
        self.delivered[edge] |= set(delivery.numbers.tolist())

    def snapshot(self) -> None:
        self.carrier.publish(self.publisher.snapshot(self.engine.snapshot("t", self.space)))

    def tell(self, rows: list[dict[str, Any]]) -> None:
        messages = self.engine.messages("t", rows)
        self.is_switching = self.is_switching and not messages.num_rows
        self.last = self.publisher.post(messages)
        self.carrier.publish(self.last)

    def do(self, what: str, rows: list[dict[str, Any]]) -> None:
        if what == "tell":
            self.tell(rows)
        elif what == "bring":
            self.carrier.bring()
        elif what == "snapshot":
            self.snapshot()
        elif what == "again":
            # As a job does that is killed after it has sent, and before it has said so.
            self.carrier.publish(self.last)
        elif what == "split":
            old = self.publisher.zones(self.space)
            if not self.is_switching:
                self.publisher.switch(self.space, old.split(self.points, len(old) + 2))
            self.is_switching = True
        else:
            self.carrier.detach(self.edges[0])
            self.edges[0] = self.new_edge(0)

    def check(self) -> None:
        for half, edge in enumerate(self.edges):
            every = [(number, entry) for number in range(len(edge)) for entry in edge.result(number)]
            table = edge.answers()
            assert table.column("number").to_pylist() == [number for number, _ in every]
            assert table.column("key").to_pylist() == [entry.key for _, entry in every]
            assert table.column("born").to_pylist() == [entry.born for _, entry in every]
            for number, params in enumerate(self.params[half::2]):
                sid = self.engine.subscribe(self.sql, **params)
                answers = self.engine.answers([sid])
                pairs = zip(
                    answers.column("key").to_pylist(), answers.column("score").to_pylist(), strict=True
                )
                held = edge.result(number)
                expected = list(pairs)
                if self.described["kind"] == "distinct":
                    assert [entry.key for entry in held] == sorted(key for key, _ in expected)
                else:
                    expected = [(key, score) for key, score in expected if score is not None]
                    assert [(entry.key, entry.y) for entry in held] == expected
                self.engine.unsubscribe(sid)


@given(
    st.sampled_from(TEMPLATES),
    st.lists(st.tuples(bound, bound), min_size=1, max_size=8),
    st.integers(1, 6),
    st.lists(step, max_size=9),
)
@settings(max_examples=120)
def test_edges_end_exact(
    sql: str,
    ranges: list[tuple[float, float]],
    zones: int,
    script: list[tuple[str, list[dict[str, Any]]]],
) -> None:
    scene = Scene(sql, ranges, zones)
    for what, rows in script:
        scene.do(what, rows)
    scene.carrier.bring()
    scene.check()


@given(st.lists(st.tuples(bound, bound), min_size=1, max_size=8), st.lists(batch, max_size=4))
@settings(max_examples=40)
def test_who_changes_is_told(ranges: list[tuple[float, float]], batches: list[list[dict[str, Any]]]) -> None:
    scene = Scene(TEMPLATES[0], ranges, 3)
    for rows in batches:
        before = [[edge.result(number) for number in range(len(edge))] for edge in scene.edges]
        for numbers in scene.delivered.values():
            numbers.clear()
        scene.tell(rows)
        scene.carrier.bring()
        for edge, answers in zip(scene.edges, before, strict=True):
            changed = {number for number, old in enumerate(answers) if edge.result(number) != old}
            assert changed <= scene.delivered[edge]


def test_a_map_may_come_after_the_zones_have_ended() -> None:
    scene = Scene(TEMPLATES[0], [(0.0, 1.0), (0.0, 1.0), (2.0, 3.0), (2.0, 3.0)], 1)
    edge = scene.edges[0]
    zones = scene.publisher.zones(scene.space)
    scene.publisher.switch(scene.space, zones.split(scene.points, 2))
    end, found, *_ = scene.publisher.post(scene.engine.messages("t", [{**FIRST, "y": 0.0}]))
    assert edge.handle(*end) == []
    assert len(edge.handle(*found)) == 3, "one ends, two begin"
    with pytest.raises(ParameterError, match="not newer"):
        scene.publisher.switch(scene.space, zones)
    odd = Zones.build(points_of(np.arange(9.0), np.arange(9.0)), 2)
    for _ in range(3):
        odd = odd.split(points_of(np.arange(9.0), np.arange(9.0)), 3)
    with pytest.raises(ParameterError, match="must split"):
        scene.publisher.switch(scene.space, odd)


def test_a_snapshot_that_knows_too_little() -> None:
    scene = Scene(TEMPLATES[0], [(0.0, 3.0)], 1)
    old = scene.engine.snapshot("t", scene.space)
    scene.tell([{**FIRST, "y": 0.0}])
    with pytest.raises(ParameterError, match="older than messages"):
        scene.publisher.snapshot(old)


def test_long_keys_go_in_parts() -> None:
    scene = Scene(TEMPLATES[0], [(0.0, 9.0)], 1)
    rows: list[dict[str, Any]] = [
        {"k": f"{number:05}" * 2000, "x": float(number % 9), "y": -float(number)} for number in range(300)
    ]
    letters = []
    for row in rows:
        letters += scene.publisher.post(scene.engine.messages("t", [row]))
    letters += scene.publisher.post(scene.engine.messages("t", [{**row, "y": row["y"] - 1} for row in rows]))
    snapshot = scene.publisher.snapshot(scene.engine.snapshot("t", scene.space))
    assert len(snapshot) > 5
    assert max(len(letter.payload) for letter in letters + snapshot) < 1_000_000
    scene.carrier.publish(letters + snapshot)
    scene.edges.append(scene.new_edge(0))
    scene.carrier.bring()
    assert len({str(scene.edges[place].result(0)) for place in (0, 2)}) == 1


def test_nothing_to_start_from() -> None:
    space = {"space": "s", "kind": "top-k", "k": 1, "descending": False}
    with pytest.raises(StateError, match="no snapshot"):
        LocalCarrier().attach(Edge(space, np.zeros(1), np.ones(1)))


def test_ids_and_strangers() -> None:
    scene = Scene(TEMPLATES[0], [(0.0, 1.0)], 1)
    edge = Edge(scene.described, np.zeros(1), np.ones(1), ids=["me"])
    scene.carrier.attach(edge)
    assert edge.result("me") == edge.result(0) == [Entry("z", 1.0, 0)]
    for other in ("you", 7):
        with pytest.raises(UnknownSubscription):
            edge.result(other)
    with pytest.raises(ParameterError):
        Edge(scene.described, np.zeros(2), np.ones(1))


values = st.sampled_from([math.nan, *VALUES])


@given(
    st.lists(st.tuples(values, values), max_size=20),
    st.lists(st.tuples(bound, bound), min_size=1, max_size=6),
    st.integers(1, 4),
    st.booleans(),
)
def test_lists_start_with_the_best(
    rows: list[tuple[float, float]], ranges: list[tuple[float, float]], k: int, descending: bool
) -> None:
    lo, hi = np.array(ranges).T
    answers = TopKAnswers(lo, hi, k=k, descending=descending)
    x, y = np.array(rows, np.float64).reshape(-1, 2).T
    answers.start(np.arange(len(rows), dtype=np.int32), x, y, np.arange(len(rows), dtype=np.int64))
    sign = -1 if descending else 1
    for number, (low, high) in enumerate(ranges):
        inside = [(slot, at) for slot, at in enumerate(rows) if low <= at[0] <= high and at[1] == at[1]]
        best = sorted(inside, key=lambda each: (sign * each[1][1], each[0]))[:k]
        assert [slot for slot, _, _ in answers.result(number)] == [slot for slot, _ in best]
