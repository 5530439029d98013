"""The hub against a table kept by hand: clients come and go, the hub is killed and restarted in between."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tocsin.client import Answer
from tocsin.engine.sources.catalog import Declaration
from tocsin.gateway.core.changes import ChangeCoalescer
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.protocol import WatchRequest, WatchStart
from tocsin.gateway.core.storage.log import Record, encode
from tocsin.gateway.failures import KeyReused
from tocsin.gateway.live.cursors import read_cursor

TOP = "SELECT symbol, per FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT 2"
ALL = {"*": ""}
SYMBOLS = st.sampled_from("ABCDE")
VALUES = st.integers(0, 3)
ROW = st.fixed_dictionaries({"symbol": SYMBOLS, "risk": VALUES, "per": VALUES})


class Client:
    """One that watches a subscription, now and then."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.cursor: str | None = None
        self.is_connected = False


class HubMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.hub = Hub(self.folder, retained=3)
        #: the table by hand: key to (risk, per, number of insertion)
        self.rows: dict[str, tuple[int, int, int]] = {}
        self.born = 0
        self.ranges: dict[str, tuple[int, int]] = {}
        self.clients: dict[str, Client] = {}
        #: what was sent under each name first
        self.batches: dict[str, bytes] = {}

    @initialize()
    def declare(self) -> None:
        columns = {"symbol": "string", "risk": "double", "per": "double"}
        self.hub.declare(Declaration("table", "stocks", columns, "symbol"))
        self.deliver()

    def teardown(self) -> None:
        self.hub.close()
        shutil.rmtree(self.folder)

    @rule(lo=VALUES, hi=VALUES)
    def subscribe(self, lo: int, hi: int) -> None:
        receipt = self.hub.subscribe("main", TOP, {"lo": lo, "hi": hi}, grants=ALL)
        self.deliver()
        self.ranges[receipt.ids[0]] = lo, hi
        self.clients[receipt.ids[0]] = Client()

    @precondition(lambda self: self.ranges)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.ranges)))
        self.hub.unsubscribe("main", [name])
        self.deliver()
        del self.ranges[name], self.clients[name]

    @rule(rows=st.lists(ROW, min_size=1, max_size=4), batch=st.none() | st.sampled_from("xyz"))
    def publish(self, rows: list[dict[str, Any]], batch: str | None) -> None:
        before, body = self.hub.number, json.dumps(rows).encode()
        if batch is not None and self.batches.setdefault(batch, body) != body:
            with pytest.raises(KeyReused):
                self.hub.publish("stocks", "json", body, batch=batch)
        else:
            self.hub.publish("stocks", "json", body, batch=batch)
        if self.hub.number > before:
            for row in rows:
                if row["symbol"] not in self.rows:
                    self.born += 1
                born = self.rows.get(row["symbol"], (0, 0, self.born))[2]
                self.rows[row["symbol"]] = row["risk"], row["per"], born
        self.deliver()

    @rule(keys=st.lists(SYMBOLS, max_size=2))
    def delete(self, keys: list[str]) -> None:
        self.hub.delete("stocks", keys)
        for key in keys:
            self.rows.pop(key, None)
        self.deliver()

    @precondition(lambda self: self.ranges)
    @rule(data=st.data(), is_forgetful=st.booleans())
    def connect(self, data: st.DataObject, is_forgetful: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.ranges)))
        client = self.clients[name]
        opening = self.open(name, None if is_forgetful else client.cursor)
        if opening.kind == "too-old":
            opening = self.open(name, None)
        if opening.kind == "snapshot":
            client.answer.begin(json.loads(opening.changes))
        for told in opening.batches:
            client.answer.apply(json.loads(told.changes))
        client.cursor, client.is_connected = self.cursor(opening.number), True

    @precondition(lambda self: self.ranges)
    @rule(data=st.data())
    def catch_up_squashed(self, data: st.DataObject) -> None:
        """Whatever was missed, told as one."""
        name = data.draw(st.sampled_from(sorted(self.ranges)))
        client = self.clients[name]
        opening = self.open(name, client.cursor)
        if opening.kind == "resumed":
            pending = ChangeCoalescer()
            for told in opening.batches:
                pending.add(json.loads(told.changes))
            client.answer.apply(pending.net(json.loads(self.hub.answer(f"main/{name}"))))
            client.cursor, client.is_connected = self.cursor(opening.number), True

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        self.clients[data.draw(st.sampled_from(sorted(self.clients)))].is_connected = False

    @rule()
    def snapshot(self) -> None:
        self.hub.snapshot()

    @rule(torn=st.integers(0, 40))
    def die(self, torn: int) -> None:
        """All clients lose the hub, whose last record was half-written."""
        number, epoch = self.hub.number, self.hub.epoch
        self.hub.close()
        half = encode(Record(number + 1, {"op": "publish", "source": "stocks"}, b"[]"))[:torn]
        with sorted(self.folder.glob("log-*.wal"))[-1].open("ab") as file:
            file.write(half)
        self.hub = Hub(self.folder, retained=3)
        assert self.hub.number == number
        assert (self.hub.epoch == epoch) == (torn == 0), "numbers of a torn end come again"
        assert self.hub.drain_batches() == []
        for client in self.clients.values():
            client.is_connected = False

    @invariant()
    def connected_clients_hold_the_answer(self) -> None:
        for name, client in self.clients.items():
            if client.is_connected:
                assert [(e["key"], e["score"]) for e in client.answer.entries] == self.expected(name)

    def expected(self, name: str) -> list[tuple[str, int]]:
        lo, hi = self.ranges[name]
        inside = [(per, born, key) for key, (risk, per, born) in self.rows.items() if lo <= risk <= hi]
        return [(key, per) for per, _, key in sorted(inside)[:2]]

    def cursor(self, number: int) -> str:
        return f"{self.hub.epoch}.{number}"

    def open(self, name: str, cursor: str | None) -> WatchStart:
        (opening,) = self.hub.open([WatchRequest("main", name, read_cursor(cursor, self.hub.epoch))])
        assert isinstance(opening, WatchStart)
        return opening

    def deliver(self) -> None:
        self.hub.sync()
        for full, told in self.hub.drain_batches():
            client = self.clients.get(full.removeprefix("main/"))
            if client is not None and client.is_connected:
                client.answer.apply(json.loads(told.changes))
                client.cursor = self.cursor(told.number)


TestHub = HubMachine.TestCase
TestHub.settings = settings(max_examples=40, stateful_step_count=30)
