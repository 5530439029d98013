"""Windowed streams: top-k, score thresholds and live rows, by count and by time, late and delayed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import tocsin
from tests.oracles.conditions import Param, Score
from tests.oracles.queries import LiveRows, Query, ScoreThreshold, TopK
from tests.oracles.strategies import (
    PairMachine,
    bigints,
    boxes,
    doubles,
    effort,
    expressions,
    limits,
    operands,
    scores,
    sectors,
    truths,
)
from tests.oracles.values import Row

START = datetime(2024, 3, 1, tzinfo=UTC)
FLOWS = {
    "bytes": "double",
    "packets": "double",
    "ports": "bigint",
    "at": "timestamp",
    "sector": "string",
    "open": "boolean",
}

selects = st.lists(st.sampled_from(list(FLOWS)), min_size=1, max_size=3, unique=True).map(tuple)
numeric = ["bytes", "packets", "ports"]
TOTAL = Score("bytes + packets", ("bytes", "packets"), lambda a, b: a + b)
#: seconds between one row and the next, now and then backwards
strides = st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 7.0, -1.0, -3.0])


@st.composite
def flows(draw: st.DrawFn) -> Row:
    numbers = {"bytes": draw(doubles), "packets": draw(doubles), "ports": draw(bigints)}
    return {**numbers, "sector": draw(sectors), "open": draw(truths)}


batches = st.lists(st.tuples(flows(), strides), min_size=1, max_size=6)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    kind = draw(st.sampled_from(["top", "top", "threshold", "rows"]))
    box = draw(boxes(numeric, equal=("sector", "open")))
    if kind == "top":
        score = draw(scores("bytes", "packets"))
        return TopK("flows", draw(selects), box, score, draw(st.booleans()), draw(limits))
    if kind == "threshold":
        operator = draw(st.sampled_from([">", ">", ">=", "<", "<="]))
        score = draw(expressions("bytes", "packets"))
        return ScoreThreshold("flows", draw(selects), box, score, operator, draw(operands("t")))
    return LiveRows("flows", draw(selects), box)


class Windows(PairMachine):
    """Rules shared by the windows; a subclass declares the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.declare()

    def declare(self) -> None:
        raise NotImplementedError

    @initialize(before=batches, queries=st.lists(queries(), min_size=3, max_size=6), after=batches)
    def begin(
        self, before: list[tuple[Row, float]], queries: list[Query], after: list[tuple[Row, float]]
    ) -> None:
        """Some rows before the first queries and some after, so that there is something to change."""
        self.publish(before, each=False)
        for query in queries:
            self.pair.subscribe(query)
        self.publish(after, each=True)

    @rule(query=queries())
    def subscribe(self, query: Query) -> None:
        self.pair.subscribe(query)

    @rule(bounds=st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=3))
    def subscribe_many(self, bounds: list[float]) -> None:
        queries = [ScoreThreshold("flows", ("at",), (), TOTAL, ">", Param("t", bound)) for bound in bounds]
        self.pair.subscribe_many(queries)

    @rule(flows=batches, each=st.booleans())
    def publish(self, flows: list[tuple[Row, float]], each: bool) -> None:
        rows: list[Row] = []
        for flow, stride in flows:
            self.now += timedelta(seconds=stride)
            rows.append({**flow, "at": self.now, **self.named()})
        self.pair.publish("flows", rows, each=each)

    @rule(flow=flows(), stride=strides)
    def publish_one(self, flow: Row, stride: float) -> None:
        self.publish([(flow, stride)], each=False)

    def named(self) -> Row:
        """The row's own key, where the stream declares one."""
        return {}

    @rule(row=flows(), bad=st.sampled_from([{"byts": 1.0}, {"bytes": "many"}, {"ports": 0.5}]))
    def publish_bad(self, row: Row, bad: Row) -> None:
        good = {**row, "at": self.now, **self.named()}
        rows = [good, {**good, **bad}]
        self.pair.refuses(tocsin.RowError, lambda engine: engine.publish("flows", rows))


class CountWindow(Windows):
    def declare(self) -> None:
        self.pair.create_stream("flows", columns=FLOWS, window="5 rows")


class SmallestWindow(Windows):
    def declare(self) -> None:
        self.pair.create_stream("flows", columns=FLOWS, window="1 row")


class KeyedWindow(Windows):
    n_named = 0

    def declare(self) -> None:
        self.pair.create_stream("flows", columns={"name": "string", **FLOWS}, window="3 rows", key="name")

    def named(self) -> Row:
        self.n_named += 1
        # Names come again: a row's key is its number.
        return {"name": f"flow-{self.n_named % 2}"}


class TimeWindow(Windows):
    delay: str | None = None

    def declare(self) -> None:
        options = {} if self.delay is None else {"delay": self.delay}
        self.pair.create_stream("flows", columns=FLOWS, window="4 seconds", time="at", **options)

    @rule(stride=st.sampled_from([-2, 0, 1, 2, 4, 10]))
    def advance(self, stride: int) -> None:
        self.now += timedelta(seconds=stride)
        self.pair.advance("flows", self.now)

    @rule(row=flows())
    def publish_without_time(self, row: Row) -> None:
        rows = [{**row, "at": self.now}, {**row, "at": None}]
        self.pair.refuses(tocsin.RowError, lambda engine: engine.publish("flows", rows))


class DelayedWindow(TimeWindow):
    delay = "2 seconds"


TestCountWindow = CountWindow.TestCase
TestCountWindow.settings = effort(0.3)
TestSmallestWindow = SmallestWindow.TestCase
TestSmallestWindow.settings = effort(0.1)
TestKeyedWindow = KeyedWindow.TestCase
TestKeyedWindow.settings = effort(0.1)
TestTimeWindow = TimeWindow.TestCase
TestTimeWindow.settings = effort(0.3)
TestDelayedWindow = DelayedWindow.TestCase
TestDelayedWindow.settings = effort(0.3)
