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
from tocsin.gateway.book import Held, Template
from tocsin.gateway.dealings import Opening
from tocsin.gateway.feeds import TOO_SLOW, WAITING, Feed, Pace
from tocsin.gateway.history import Told

HELD = Held(Template("t", "", "", "top-k", ()), (), 1)


class Desk:
    """A desk whose clock and answers the test moves."""

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

    def count(self, what: str) -> None:
        self.counted.append(what)

    def pass_time(self, seconds: float) -> None:
        self.time += seconds
        due = [call for at, call in self.timers if at <= self.time]
        self.timers = [(at, call) for at, call in self.timers if at > self.time]
        for call in due:
            call()

    def change(self, wanted: list[str]) -> Told:
        """The list becomes another one; what that changes."""
        self.number += 1
        leaves = [{"op": "leave", "seq": 0, "key": key} for key in self.list if key not in wanted]
        kept = [key for key in self.list if key in wanted]
        stay = [key for key in wanted if key in kept]
        moved = stay if stay != kept else []
        updates = [{**entering(key, wanted.index(key) + 1), "op": "update"} for key in moved]
        enters = [entering(key, wanted.index(key) + 1) for key in wanted if key not in kept]
        self.list = wanted
        return Told(self.number, json.dumps(leaves + updates + enters))


class Connection:
    """A sink that is full when the test says so."""

    def __init__(self, desk: Desk) -> None:
        self.sent: list[dict[str, Any]] = []
        self.times: list[float] = []
        self._desk = desk
        self.is_full = False
        self.code: int | None = None
        self.on_room: Callable[[], None] = lambda: None

    def send(self, kind: str, cursor: str | None, text: str) -> None:
        self.sent.append(json.loads(text))
        self.times.append(self._desk.time)

    def close(self, code: int, reason: str) -> None:
        self.code = code


def entering(key: str, rank: int) -> dict[str, Any]:
    return {"op": "enter", "seq": 0, "key": key, "score": 1.0, "rank": rank}


def begun(pace: Pace) -> tuple[Desk, Connection, Feed]:
    desk = Desk()
    connection = Connection(desk)
    feed = Feed(desk, connection, "t/s", "s", pace)
    feed.begin(Opening("snapshot", 0, HELD))
    return desk, connection, feed


LISTS = st.lists(st.sampled_from("ABCD"), unique=True, max_size=3)
STEPS = st.lists(st.tuples(LISTS, st.booleans(), st.sampled_from([0.0, 0.5, 1.0])), max_size=30)


@given(steps=STEPS, throttle=st.sampled_from([0.0, 1.0]))
def test_whatever_is_squashed_the_client_holds_the_list_in_the_end(
    steps: list[tuple[list[str], bool, float]], throttle: float
) -> None:
    desk, connection, feed = begun(Pace("squash", throttle))
    for wanted, is_full, seconds in steps:
        was_full, connection.is_full = connection.is_full, is_full
        if was_full and not is_full:
            feed.flush()
        if wanted != desk.list:
            feed.tell(desk.change(wanted))
        desk.pass_time(seconds)
    connection.is_full = False
    feed.flush()
    desk.pass_time(2.0)
    desk.pass_time(2.0)
    answer = Answer()
    numbers = []
    for message in connection.sent:
        if message["type"] == "snapshot":
            answer.begin(message["changes"])
        else:
            answer.apply(message["changes"])
        numbers.append(int(message["cursor"].partition(".")[2]))
    assert answer.keys == desk.list
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("throttle", [0.0, 1.0])
def test_a_feed_whose_answer_cannot_be_read_asks_again(throttle: float) -> None:
    desk, connection, feed = begun(Pace("squash", throttle))
    connection.is_full = desk.is_busy = True
    for wanted in (["A"], ["B"], ["C"]):
        feed.tell(desk.change(wanted))
    connection.is_full = False
    feed.flush()
    for _ in range(3):
        desk.pass_time(2.0)
    assert len(connection.sent) == 1
    desk.is_busy = False
    desk.pass_time(2.0)
    answer = Answer()
    for message in connection.sent:
        answer.apply(message["changes"])
    assert answer.keys == ["C"]


@given(steps=STEPS)
def test_a_throttled_feed_never_sends_twice_in_a_second(steps: list[tuple[list[str], bool, float]]) -> None:
    desk, connection, feed = begun(Pace("squash", 1.0))
    for wanted, _, seconds in steps:
        if wanted != desk.list:
            feed.tell(desk.change(wanted))
        desk.pass_time(seconds)
    assert all(after - before >= 1.0 for before, after in pairwise(connection.times))


def test_a_feed_that_may_not_squash_gives_up_with_a_cursor() -> None:
    desk, connection, feed = begun(Pace("disconnect"))
    feed.tell(desk.change(["A"]))
    connection.is_full = True
    for number in range(WAITING + 1):
        assert connection.code is None
        feed.tell(desk.change(["B"] if number % 2 else ["A", "C"]))
    assert connection.code == TOO_SLOW
    assert connection.sent[-1]["type"] == "too-slow"
    assert connection.sent[-1]["cursor"] == "e.1"
    assert desk.counted == ["disconnected"]


def test_a_feed_that_may_not_squash_sends_everything_when_there_is_room() -> None:
    desk, connection, feed = begun(Pace("disconnect"))
    connection.is_full = True
    for wanted in (["A"], ["B"], ["C"]):
        feed.tell(desk.change(wanted))
    connection.is_full = False
    feed.flush()
    assert [message["cursor"] for message in connection.sent[1:]] == ["e.1", "e.2", "e.3"]


def test_events_that_are_left_out_are_counted() -> None:
    desk, connection, feed = begun(Pace("squash", 1.0))
    for number in range(1, 5):
        feed.tell(Told(number, json.dumps([{"op": "match", "seq": number, "key": str(number)}])))
    desk.number = 4
    desk.pass_time(1.0)
    assert connection.sent[-1]["missed"] == 3
    assert [change["seq"] for change in connection.sent[-1]["changes"]] == [4]
