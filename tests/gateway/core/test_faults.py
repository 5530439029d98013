"""Every file operation of the gateway fails in turn: it refuses or is right, and so it is after a restart."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.core.faults import Faults
from tocsin.client import Answer
from tocsin.engine.sources.catalog import Declaration
from tocsin.errors import Error
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.protocol import WatchRequest, WatchStart
from tocsin.gateway.failures import Unavailable
from tocsin.gateway.live.cursors import read_cursor

ALL = {"*": ""}
TOP = "SELECT k, x FROM t WHERE x > 0 ORDER BY x LIMIT 2"
MATCH = "SELECT * FROM e WHERE x > 1"

#: What happens, one after the other: rows of the table, events, snapshots, restarts.
STEPS: list[tuple[str, Any]] = [
    ("table", {"k": "a", "x": 3}),
    ("events", [2]),
    ("snapshot", None),
    ("table", {"k": "b", "x": 2}),
    ("restart", None),
    ("events", [1, 5]),
    ("table", {"k": "c", "x": 1}),
    ("snapshot", None),
    ("table", {"k": "a", "x": 0.5}),
    ("snapshot", None),
    ("events", [7]),
    ("restart", None),
    ("table", {"k": "d", "x": 0.25}),
]


class Watcher:
    """A client: what it holds, what it heard, and where it stands."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answer = Answer()
        self.events: list[float] = []
        self.cursor: str | None = None
        #: whether it ever had to begin anew
        self.was_too_old = False

    def tell(self, hub: Hub, number: int, changes: list[dict[str, Any]]) -> None:
        self.answer.apply(changes)
        self.events += [change["row"]["x"] for change in changes if change["op"] == "match"]
        self.cursor = f"{hub.epoch}.{number}"

    def come_back(self, hub: Hub) -> None:
        """Resume, or begin anew where that is refused."""
        (opening,) = hub.open([WatchRequest("main", self.name, read_cursor(self.cursor, hub.epoch))])
        assert isinstance(opening, WatchStart)
        if opening.kind == "too-old":
            self.was_too_old = True
            (opening,) = hub.open([WatchRequest("main", self.name, None)])
            assert isinstance(opening, WatchStart)
        if opening.kind == "snapshot":
            self.answer.begin(json.loads(opening.changes))
        for told in opening.batches:
            self.tell(hub, told.number, json.loads(told.changes))
        self.cursor = f"{hub.epoch}.{opening.number}"


class World:
    """A hub in a folder, two that watch it, and what they should hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, float] = {}
        self.events: list[float] = []
        #: a step that was refused: it may have come to the disk all the same
        self.doubtful: tuple[str, Any] | None = None
        #: what was told, by epoch, record and subscription
        self.told: dict[tuple[str, int, str], str] = {}
        self.watchers = [Watcher("top"), Watcher("match")]
        self.hub = Hub(folder)
        self.hub.declare(Declaration("table", "t", {"k": "string", "x": "double"}, "k"))
        self.hub.declare(Declaration("stream", "e", {"x": "double"}))
        self.hub.subscribe("main", TOP, {}, grants=ALL, id="top")
        self.hub.subscribe("main", MATCH, {}, grants=ALL, id="match")
        self.hub.sync()
        self.come_back()

    def play(self) -> None:
        """All steps; ends at the first that leaves the hub refusing. Raises what a restart raises."""
        for step, given in STEPS:
            if step == "restart":
                self.hub.close()
                self.hub = Hub(self.folder)
                self.come_back()
            elif step == "snapshot":
                self.snapshot()
            else:
                self.publish(step, given)
            if self.hub.failure is not None:
                return
            self.check()

    def snapshot(self) -> None:
        with suppress(Error, OSError):
            self.hub.snapshot()

    def publish(self, step: str, given: Any) -> None:
        try:
            self.send(step, given)
            self.hub.sync()
        except Unavailable:
            assert self.hub.failure is not None
            assert self.hub.drain_batches() == [], "what was refused is told to nobody"
            self.doubtful = step, given
            return
        self.take(step, given)
        self.deliver()

    def send(self, step: str, given: Any) -> None:
        if step == "table":
            self.hub.publish("t", "json", json.dumps([given]).encode())
        else:
            self.hub.publish("e", "json", json.dumps([{"x": x} for x in given]).encode())

    def take(self, step: str, given: Any) -> None:
        if step == "table":
            self.rows[given["k"]] = given["x"]
        else:
            self.events += [x for x in given if x > 1]

    def deliver(self) -> None:
        for full, told in self.hub.drain_batches():
            self.note(full, told.number, told.changes)
            for watcher in self.watchers:
                if full == f"main/{watcher.name}":
                    watcher.tell(self.hub, told.number, json.loads(told.changes))

    def note(self, full: str, number: int, changes: str) -> None:
        known = self.told.setdefault((self.hub.epoch, number, full), changes)
        assert known == changes, "a cursor was used twice"

    def come_back(self) -> None:
        if self.doubtful is not None and self.is_there(*self.doubtful):
            self.take(*self.doubtful)
        self.doubtful = None
        for watcher in self.watchers:
            watcher.come_back(self.hub)

    def is_there(self, step: str, given: Any) -> bool:
        """Whether a step that was refused is on disk all the same."""
        if step == "table":
            fresh = Watcher("top")
            fresh.come_back(self.hub)
            return (given["k"], given["x"]) in [(e["key"], e["score"]) for e in fresh.answer.entries]
        return self.hub.engine.counts("e")["rows"] > sum(1 for _ in self.numbered())

    def numbered(self) -> Iterator[float]:
        for step, given in STEPS:
            if (step, given) == self.doubtful:
                return
            if step == "events":
                yield from given

    def check(self) -> None:
        expected = sorted((x, k) for k, x in self.rows.items())[:2]
        top, match = self.watchers
        assert [(e["score"], e["key"]) for e in top.answer.entries] == expected
        if not match.was_too_old:
            assert match.events == self.events
        assert len(set(match.events)) == len(match.events), "an event came twice"

    def refuses(self) -> None:
        """Nothing is read or taken any more."""
        with pytest.raises(Unavailable, match="cannot be written"):
            self.hub.open([WatchRequest("main", "top", None)])
        with pytest.raises(Unavailable, match="cannot be written"):
            self.hub.result("main", "top")
        with pytest.raises(Unavailable, match="cannot be written"):
            self.hub.publish("t", "json", b'[{"k": "z", "x": 9}]')
        assert self.hub.drain_batches() == []


def play(folder: Path, error: int, at: int) -> Faults:
    """The whole story with one fault, a restart, and a little more of it."""
    world = World(folder)
    faults = Faults(error, at)
    with faults.injected():
        try:
            world.play()
            if world.hub.failure is not None:
                world.refuses()
        except (Error, OSError):
            # It did not start again: it says so, and nothing else has happened.
            assert faults.failed is not None
    world.hub.close()
    world.hub = Hub(folder)
    world.come_back()
    world.check()
    world.publish("table", {"k": "e", "x": 0.125})
    world.publish("events", [9])
    world.check()
    world.hub.close()
    return faults


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EMFILE", "EACCES"])
def test_whatever_fails_it_refuses_or_is_right(tmp_path: Path, error: str) -> None:
    at, failed = 1, set()
    while True:
        faults = play(tmp_path / str(at), getattr(errno, error), at)
        if faults.failed is None:
            break
        failed.add(faults.failed)
        at += 1
    assert {"open_file", "write", "sync", "sync_data", "rename", "overwrite", "close"} <= failed
