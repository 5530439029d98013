"""Feeds by hand: a slow connection, a patient client, and what each gets in the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.client import Answer
from tocsin.gateway.core.catalog import Subscription, Template
from tocsin.gateway.core.history import DeliveredBatch
from tocsin.gateway.core.protocol import WatchStart
from tocsin.gateway.live.feeds import MAX_WAITING, TOO_SLOW, Feed, Pace

SUBSCRIPTION = Subscription(Template("t", "", "", "top-k", ()), (), 1)


class FakeCommitter:
    """A committer whose clock and answers the test moves."""

    epoch = "e"

    def __init__(self) -> None:
        self.time = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.number = 0
        self.list: list[str] = []
        self.counted: list[str] = []
        self.is_busy = False

    def now(self) -> float:
        return self.time

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.time + seconds, call))

    def answer(self, full: str, call: Callable[[int, str], None], failed: Callable[[], None]) -> None:
        if self.is_busy:
            failed()
            return
        call(self.number, json.dumps([entering(key, rank) for rank, key in enumerate(self.list, 1)]))

    def aside(self, work: Callable[[], Any], call: Callable[[Any], None]) -> None:
        call(work())

    def count(self, what: str) -> None:
        self.counted.append(what)

    def pass_time(self, seconds: float) -> None:
        self.time += seconds
        due = [call for at, call in self.timers if at <= self.time]
        self.timers = [(at, call) for at, call in self.timers if at > self.time]
        for call in due:
            call()

    def change(self, wanted: list[str]) -> DeliveredBatch:
        """The list becomes another one; what that changes."""
        self.number += 1
        leaves = [{"op": "leave", "seq": 0, "key": key} for key in self.list if key not in wanted]
        kept = [key for key in self.list if key in wanted]
        stay = [key for key in wanted if key in kept]
        moved = stay if stay != kept else []
        updates = [{**entering(key, wanted.index(key) + 1), "op": "update"} for key in moved]
        enters = [entering(key, wanted.index(key) + 1) for key in wanted if key not in kept]
        self.list = wanted
        return DeliveredBatch(self.number, json.dumps(leaves + updates + enters))


class Connection:
    """A sink that is full when the test says so."""

    def __init__(self, committer: FakeCommitter) -> None:
        self.sent: list[dict[str, Any]] = []
        self.times: list[float] = []
        self._committer = committer
        self.is_full = False
        self.code: int | None = None
        self.on_writable: Callable[[], None] = lambda: None

    def send(self, kind: str, cursor: str | None, text: str) -> None:
        self.sent.append(json.loads(text))
        self.times.append(self._committer.time)

    def close(self, code: int, reason: str) -> None:
        self.code = code


def entering(key: str, rank: int) -> dict[str, Any]:
    return {"op": "enter", "seq": 0, "key": key, "score": 1.0, "rank": rank}


def begun(pace: Pace) -> tuple[FakeCommitter, Connection, Feed]:
    committer = FakeCommitter()
    connection = Connection(committer)
    feed = Feed(committer, connection, "t/s", "s", pace)
    feed.begin(WatchStart("snapshot", 0, SUBSCRIPTION))
    return committer, connection, feed


LISTS = st.lists(st.sampled_from("ABCD"), unique=True, max_size=3)
STEPS = st.lists(st.tuples(LISTS, st.booleans(), st.sampled_from([0.0, 0.5, 1.0])), max_size=30)


@given(steps=STEPS, throttle=st.sampled_from([0.0, 1.0]))
def test_whatever_is_squashed_the_client_holds_the_list_in_the_end(
    steps: list[tuple[list[str], bool, float]], throttle: float
) -> None:
    committer, connection, feed = begun(Pace("squash", throttle))
    for wanted, is_full, seconds in steps:
        was_full, connection.is_full = connection.is_full, is_full
        if was_full and not is_full:
            feed.flush()
        if wanted != committer.list:
            feed.deliver(committer.change(wanted))
        committer.pass_time(seconds)
    connection.is_full = False
    feed.flush()
    committer.pass_time(2.0)
    committer.pass_time(2.0)
    answer = Answer()
    numbers = []
    for message in connection.sent:
        if message["type"] == "snapshot":
            answer.begin(message["changes"])
        else:
            answer.apply(message["changes"])
        numbers.append(int(message["cursor"].partition(".")[2]))
    assert answer.keys == committer.list
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("throttle", [0.0, 1.0])
def test_a_feed_whose_answer_cannot_be_read_asks_again(throttle: float) -> None:
    committer, connection, feed = begun(Pace("squash", throttle))
    connection.is_full = committer.is_busy = True
    for wanted in (["A"], ["B"], ["C"]):
        feed.deliver(committer.change(wanted))
    connection.is_full = False
    feed.flush()
    for _ in range(3):
        committer.pass_time(2.0)
    assert len(connection.sent) == 1
    committer.is_busy = False
    committer.pass_time(2.0)
    answer = Answer()
    for message in connection.sent:
        answer.apply(message["changes"])
    assert answer.keys == ["C"]


@given(steps=STEPS)
def test_a_throttled_feed_never_sends_twice_in_a_second(steps: list[tuple[list[str], bool, float]]) -> None:
    committer, connection, feed = begun(Pace("squash", 1.0))
    for wanted, _, seconds in steps:
        if wanted != committer.list:
            feed.deliver(committer.change(wanted))
        committer.pass_time(seconds)
    assert all(after - before >= 1.0 for before, after in pairwise(connection.times))


def test_a_feed_that_may_not_squash_gives_up_with_a_cursor() -> None:
    committer, connection, feed = begun(Pace("disconnect"))
    feed.deliver(committer.change(["A"]))
    connection.is_full = True
    for number in range(MAX_WAITING + 1):
        assert connection.code is None
        feed.deliver(committer.change(["B"] if number % 2 else ["A", "C"]))
    assert connection.code == TOO_SLOW
    assert connection.sent[-1]["type"] == "too-slow"
    assert connection.sent[-1]["cursor"] == "e.1"
    assert committer.counted == ["disconnected"]


def test_a_feed_that_may_not_squash_sends_everything_when_there_is_room() -> None:
    committer, connection, feed = begun(Pace("disconnect"))
    connection.is_full = True
    for wanted in (["A"], ["B"], ["C"]):
        feed.deliver(committer.change(wanted))
    connection.is_full = False
    feed.flush()
    assert [message["cursor"] for message in connection.sent[1:]] == ["e.1", "e.2", "e.3"]


def test_events_that_are_left_out_are_counted() -> None:
    committer, connection, feed = begun(Pace("squash", 1.0))
    for number in range(1, 5):
        feed.deliver(DeliveredBatch(number, json.dumps([{"op": "match", "seq": number, "key": str(number)}])))
    committer.number = 4
    committer.pass_time(1.0)
    assert connection.sent[-1]["missed"] == 3
    assert [change["seq"] for change in connection.sent[-1]["changes"]] == [4]
