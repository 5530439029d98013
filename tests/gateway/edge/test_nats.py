"""A gateway that a job feeds over a real NATS server: its lists are those of the job's engine."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from benchmarks.gateway_parts.process import Gateway as Process

import tocsin
from tests.gateway.servers import Gateway, running
from tests.network.servers import NatsServer
from tocsin import StateError
from tocsin.client import Answer, AsyncClient
from tocsin.gateway.edge.spaces import read_statement
from tocsin.gateway.http.server import Server, Settings
from tocsin.network.areas import points_of
from tocsin.network.publishing import Publisher
from tocsin.network.zones import Zones

pytest.importorskip("nats")

from tocsin.gateway.edge import job_consumer
from tocsin.gateway.edge.edge_hub import EdgeHub
from tocsin.network.nats import NatsCarrier

ROOT = "alerts"
TOP = "SELECT k, y FROM t WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT 3"
LEAST = "SELECT MIN(y) FROM t WHERE x BETWEEN :lo AND :hi"
VALUES = "SELECT DISTINCT y FROM t WHERE x BETWEEN :lo AND :hi"


class Job:
    """What a Spark job does: an engine whose messages and snapshots are published by zone."""

    def __init__(self, servers: str, *templates: str, seed: int = 7) -> None:
        self.engine = tocsin.Engine()
        self.engine.create_table("t", key="k", columns={"k": "string", "x": "double", "y": "double"})
        self.spaces = [self.engine.create_space(sql) for sql in templates]
        self._servers = servers
        self._random = np.random.default_rng(seed)
        ends = self._random.integers(0, 20, (2, 50)).astype(np.float64)
        zones = Zones.build(points_of(ends.min(axis=0), ends.max(axis=0)), 4)
        self._publisher = Publisher(ROOT, lambda space, dimensions: zones)

    async def begin(self) -> None:
        self.engine.publish("t", self._rows(40))
        await self.snapshot()

    async def snapshot(self) -> None:
        async with NatsCarrier(self._servers, root=ROOT) as carrier:
            for space in self.spaces:
                await carrier.publish(self._publisher.snapshot(self.engine.snapshot("t", space)))

    async def change(self, batches: int) -> None:
        async with NatsCarrier(self._servers, root=ROOT) as carrier:
            for _ in range(batches):
                await carrier.publish(self._publisher.post(self.engine.messages("t", self._rows(5))))

    def answer(self, sql: str, **params: Any) -> list[tuple[str | None, float | None]]:
        """Keys and scores, as the engine has them now."""
        engine = tocsin.Engine()
        engine.create_table("t", key="k", columns={"k": "string", "x": "double", "y": "double"})
        rows = self.engine.snapshot("t", self.spaces[0]).sort_by("born")
        x = [each[0] for each in rows.column("x").to_pylist()]
        engine.publish("t", {"k": rows.column("key"), "x": x, "y": rows.column("y")})
        told = engine.answers([engine.subscribe(sql, **params)])
        return list(zip(told.column("key").to_pylist(), told.column("score").to_pylist(), strict=True))

    def _rows(self, count: int) -> list[dict[str, Any]]:
        numbers = self._random.integers(0, 40, count).tolist()
        places = self._random.integers(0, 20, count).tolist()
        values = self._random.integers(0, 9, count).tolist()
        ops = self._random.choice(["upsert", "upsert", "upsert", "delete"], count).tolist()
        return [
            {"k": f"r{n}", "x": float(x), "y": float(y), "_op": op}
            for n, x, y, op in zip(numbers, places, values, ops, strict=True)
        ]


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    made = NatsServer(tmp_path_factory.mktemp("nats"))
    made.start()
    yield made
    made.kill()


def holds(answer: Answer) -> list[tuple[str | None, float | None]]:
    return [(entry["key"], entry["score"]) for entry in answer.entries]


async def follow(client: AsyncClient, name: str, answers: dict[str, Answer], snapshots: list[str]) -> None:
    async for update in client.watch(name):
        answers[name] = update.answer
        if update.kind == "snapshot":
            snapshots.append(name)


async def until(is_so: Any, what: str) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + 60
    while not is_so():
        assert loop.time() < end, what
        await asyncio.sleep(0.05)


@pytest.mark.slow
def test_two_clients_and_a_gateway_that_is_killed(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.start()
    job = Job(server.address, TOP)
    ranges = {"a": (2.0, 9.0), "b": (0.0, 19.0), "late": (5.0, 5.0)}

    async def scenario(gateway: Process) -> None:
        answers: dict[str, Answer] = {}
        snapshots: list[str] = []
        tasks = []
        async with AsyncClient(gateway.url, gateway.key) as one, AsyncClient(gateway.url, gateway.key) as two:
            for client, name in ((one, "a"), (two, "b")):
                lo, hi = ranges[name]
                await client.subscribe(TOP, {"lo": lo, "hi": hi}, id=name)
                tasks.append(asyncio.create_task(follow(client, name, answers, snapshots)))
            await until(lambda: len(answers) == 2, "no snapshot came")
            await job.change(10)
            await asyncio.to_thread(gateway.kill)
            await job.change(5)
            await job.snapshot()
            await job.change(5)
            await asyncio.to_thread(gateway.start)
            await until(lambda: len(snapshots) == 4, "a cursor of before is too old: a new snapshot comes")
            lo, hi = ranges["late"]
            await two.subscribe(TOP, {"lo": lo, "hi": hi}, id="late")
            tasks.append(asyncio.create_task(follow(two, "late", answers, snapshots)))
            await job.change(10)
            expected = {name: job.answer(TOP, lo=lo, hi=hi) for name, (lo, hi) in ranges.items()}
            await until(
                lambda: {name: holds(each) for name, each in answers.items()} == expected, "a list is wrong"
            )
            for name in ranges:
                rows = await one.result(name)
                assert [(row["k"], row["y"]) for row in rows] == expected[name]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert snapshots.count("a") == snapshots.count("b") == 2

    try:
        asyncio.run(job.begin())
        gateway = Process(tmp_path / "data", "--nats", server.address, "--root", ROOT)
        try:
            asyncio.run(scenario(gateway))
        finally:
            assert gateway.stop() == 0
    finally:
        server.kill()


@pytest.fixture(scope="module")
def job(nats_server: NatsServer) -> Job:
    made = Job(nats_server.address, TOP, LEAST, VALUES)
    asyncio.run(made.begin())
    return made


@pytest.fixture(scope="module")
def fed(nats_server: NatsServer, job: Job, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("fed")
    with running(folder, nats=nats_server.address, root=ROOT, linger=0.3) as gateway:
        yield gateway


def test_after_an_orderly_end_all_are_there(nats_server: NatsServer, job: Job, tmp_path: Path) -> None:
    """Registrations before and after news, on disk as records and as a snapshot."""
    ranges = {"a": (0.0, 19.0), "b": (3.0, 8.0), "c": (6.0, 15.0)}
    names: list[str] = []
    for kept in (("a",), ("a", "b"), ("a", "b", "c")):
        with running(tmp_path, nats=nats_server.address, root=ROOT) as gateway:
            for name in names:
                rows = gateway.ok("GET", f"/v1/subscriptions/{name}/result")["rows"]
                lo, hi = ranges[name]
                assert [(row["k"], row["y"]) for row in rows] == job.answer(TOP, lo=lo, hi=hi)
            with gateway.live() as live:
                if names:
                    live.ask(type="watch", subscription="a")
                    asyncio.run(job.change(5))
                for name in (kept[-1], "gone"):
                    lo, hi = ranges.get(name, (1.0, 2.0))
                    live.say(type="subscribe", id=name, sql=TOP, params={"lo": lo, "hi": hi})
                    while live.next().get("subscription") != name:
                        pass
            gateway.ok("DELETE", "/v1/subscriptions/gone")
            listed = gateway.ok("GET", "/v1/subscriptions")["subscriptions"]
            names = [each["id"] for each in listed]
            assert names == list(kept)


@pytest.mark.slow
def test_nats_goes_away_and_a_space_comes_later(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.start()
    try:
        with running(tmp_path / "data", nats=server.address, root=ROOT) as gateway:
            assert "none that you may read yet" in refused(gateway, TOP, lo=0, hi=19)
            job = Job(server.address, TOP)
            asyncio.run(job.begin())
            given = {"sql": TOP, "params": {"lo": 0, "hi": 19}, "id": "s"}
            end = time.monotonic() + 30
            while gateway.call("POST", "/v1/subscriptions", given).status_code != 201:
                assert time.monotonic() < end, "the space is not known"
                time.sleep(0.2)
            with gateway.live() as live:
                answer = Answer()
                answer.begin(live.ask(type="watch", subscription="s")["changes"])
                server.kill()
                time.sleep(0.5)
                server.start()
                asyncio.run(job.change(10))
                while holds(answer) != job.answer(TOP, lo=0, hi=19):
                    answer.apply(live.next(60)["changes"])
    finally:
        server.kill()


@pytest.mark.slow
def test_a_nats_server_that_has_forgotten_everything_and_a_job_that_begins_anew(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    server.start()
    try:
        old = Job(server.address, TOP)
        asyncio.run(old.begin())
        with running(tmp_path / "data", nats=server.address, root=ROOT) as gateway:
            given = {"sql": TOP, "params": {"lo": 0, "hi": 19}, "id": "s"}
            gateway.ok("POST", "/v1/subscriptions", given)
            with gateway.live() as live:
                answer = Answer()
                answer.begin(live.ask(type="watch", subscription="s")["changes"])
                before = holds(answer)
                server.kill()
                shutil.rmtree(tmp_path / "store")
                server.start()
                assert gateway.ok("GET", "/v1/subscriptions/s/result")["rows"], "answers stay as they are"
                job = Job(server.address, TOP, seed=8)
                asyncio.run(job.begin())
                asyncio.run(job.change(3))
                expected = job.answer(TOP, lo=0, hi=19)
                assert expected != before
                while holds(answer) != expected:
                    answer.apply(live.next(60)["changes"])
    finally:
        server.kill()


class Plain(NatsServer):
    """A server without JetStream."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._command.remove("-js")


def test_a_nats_server_that_is_not_there_or_has_no_jetstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_consumer, "PATIENCE", 2.0)
    plain = Plain(tmp_path)
    plain.start()
    try:
        for servers, words in (("nats://me:geheim@127.0.0.1:1", "Connect"), (plain.address, "no JetStream")):
            with pytest.raises(StateError, match=words) as refused:
                asyncio.run(Server.start(Settings(tmp_path / "data", nats=servers)))
            assert "geheim" not in str(refused.value)
    finally:
        plain.kill()


def edge_hub(folder: Path) -> EdgeHub:
    made = EdgeHub(folder)
    made.spaces = [str(read_statement(TOP).form)]
    return made


def test_that_a_job_has_no_spaces_now_takes_no_rights_away(tmp_path: Path) -> None:
    hub = edge_hub(tmp_path)
    hub.subscribe("main", TOP, {"lo": 1, "hi": 2}, grants={"*": ""}, id="s")
    hub.spaces = []
    assert hub.outdated("main", {"t": ""}) == []
    assert hub.outdated("main", {"t": "x > 3"}) == hub.outdated("main", {"u": ""}) == ["s"]
    hub.close()


def test_parameters_of_every_number_type_outlive_a_snapshot(tmp_path: Path) -> None:
    hub = edge_hub(tmp_path)
    for kind in (pa.int8(), pa.float32(), pa.float64(), pa.decimal128(21, 2)):
        params = {"lo": pa.array([1]).cast(kind), "hi": pa.array([2]).cast(kind)}
        hub.subscribe_many("main", TOP, pa.table(params), grants={"*": ""})
    arrived, _ = hub.drain_moves()
    hub.sync()
    hub.snapshot()
    hub.close()
    again = edge_hub(tmp_path)
    assert {full: seat.lo for full, seat in arrived.items()} == dict.fromkeys(arrived, (1.0,))
    assert again.drain_moves()[0] == arrived
    again.close()


def test_what_can_be_subscribed_to_is_listed(fed: Gateway) -> None:
    told = fed.ok("GET", "/v1/spaces")
    assert told["fed"]
    assert {each["source"] for each in told["spaces"]} == {"t"}
    for each in told["spaces"]:
        assert fed.ok("POST", "/v1/check", {"sql": each["sql"]})["parameters"] == ["hi", "lo"]
    for name, grants in (("elsewhere", {"u": ""}), ("some-rows", {"t": "x > 3"})):
        fed.ok("POST", "/v1/tenants", {"name": name, "grants": grants})
        key = fed.make_key(name, "subscribe")
        assert fed.ok("GET", "/v1/spaces", key=key) == {"fed": True, "spaces": []}


def test_server_sent_events(fed: Gateway) -> None:
    fed.ok("POST", "/v1/subscriptions", {"sql": LEAST, "params": {"lo": 0, "hi": 19}, "id": "least"})
    address = f"{fed.url}/v1/subscriptions/least/changes"
    with httpx.stream("GET", address, headers=fed.headers()) as stream:
        lines = stream.iter_lines()
        at = next(lines).removeprefix("id: ")
        assert next(lines) == "event: snapshot"
        told = json.loads(next(lines).removeprefix("data: "))
        assert [change["op"] for change in told["changes"]] == ["value"]
    before = {**fed.headers(), "Last-Event-ID": "00000000." + at.partition(".")[2]}
    assert httpx.get(address, headers=before).status_code == 410


def refused(fed: Gateway, sql: str, key: str | None = None, **params: Any) -> str:
    response = fed.call("POST", "/v1/subscriptions", {"sql": sql, "params": params}, key=key)
    assert response.status_code == 400, response.text
    return str(response.json()["error"]["message"])


def test_statements_of_no_space_are_told_what_there_is(fed: Gateway) -> None:
    known = "FROM t WHERE x BETWEEN ? AND ? ORDER BY y LIMIT 3"
    for sql in (
        TOP.replace("LIMIT 3", "LIMIT 4"),
        TOP.replace("ORDER BY y", "ORDER BY x"),
        TOP.replace("t ", "u "),
    ):
        assert known in refused(fed, sql, lo=1, hi=2)
    assert "no other statement" in refused(fed, "SELECT COUNT(*) FROM t")
    assert "select the table's key" in refused(fed, TOP.replace("k, y", "k, x, y"), lo=1, hi=2)
    assert "JOIN" in refused(fed, "SELECT t.k FROM t JOIN u ON t.k = u.k")
    assert ":hi" in refused(fed, TOP, lo=1)
    assert fed.ok("POST", "/v1/check", {"sql": LEAST})["parameters"] == ["hi", "lo"]


def test_what_the_job_does_is_refused_here(fed: Gateway) -> None:
    table = {"name": "t", "key": "k", "columns": {"k": "string"}}
    for path, given in (
        ("/v1/tables", table),
        ("/v1/streams", {"name": "s"}),
        ("/v1/tables/t/rows", [{"k": "a"}]),
        ("/v1/tables/t/delete", {"keys": ["a"]}),
        ("/v1/streams/s/rows", [{"k": "a"}]),
        ("/v1/streams/s/try", {"event": {}}),
    ):
        response = fed.call("POST", path, given)
        assert response.status_code == 409, response.text
        assert response.json()["error"]["code"] == "fed-by-job"
    assert fed.ok("GET", "/v1/tables") == {"tables": []}


def test_tenants_see_spaces_of_their_tables_and_no_condition_is_taken(fed: Gateway) -> None:
    for name, grants in (("blind", {"u": ""}), ("seeing", {"t": ""}), ("confined", {"t": "x > 3"})):
        fed.ok("POST", "/v1/tenants", {"name": name, "grants": grants, "subscriptions": 1})
    assert "none that you may read yet" in refused(fed, TOP, fed.make_key("blind", "subscribe"), lo=1, hi=2)
    assert "condition on your rows" in refused(fed, TOP, fed.make_key("confined", "subscribe"), lo=1, hi=2)
    key = fed.make_key("seeing", "subscribe")
    given = {"sql": TOP, "params": {"lo": 1, "hi": 2}}
    made = fed.ok("POST", "/v1/subscriptions", given, key=key)
    assert fed.call("POST", "/v1/subscriptions", given, key=key).status_code == 429
    assert fed.call("GET", f"/v1/subscriptions/{made['id']}").status_code == 404


@pytest.mark.slow
def test_all_kinds_in_more_waves_than_are_kept(
    fed: Gateway, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    """Every subscription comes alone while the job goes on, and one edge takes over from many."""
    caplog.set_level("INFO", "tocsin.gateway.edge.job_consumer")
    asked: dict[str, tuple[str, float, float]] = {}
    feeding = threading.Thread(target=lambda: asyncio.run(job.change(40)))
    with fed.live() as live:
        answers: dict[str, Answer] = {}
        feeding.start()
        for number in range(24):
            name, sql = f"n{number}", (TOP, LEAST, VALUES)[0 if number < 14 else number % 3]
            lo, hi = float(number % 7), float(5 + number % 11)
            asked[name] = sql, lo, hi
            live.say(type="subscribe", id=name, sql=sql, params={"lo": lo, "hi": hi})
        feeding.join()
        expected = {name: job.answer(sql, lo=lo, hi=hi) for name, (sql, lo, hi) in asked.items()}

        def held(name: str) -> list[tuple[str | None, float | None]]:
            found = answers.get(name, Answer())
            if asked[name][0] == LEAST:
                return [(expected[name][0][0], found.value)]
            # The values of a column are a set.
            return holds(found) if asked[name][0] == TOP else sorted(holds(found))

        for name, (sql, _, _) in asked.items():
            expected[name] = sorted(expected[name]) if sql == VALUES else expected[name]
        while wrong := {name: held(name) for name in asked if held(name) != expected[name]}:
            try:
                message = live.next(20)
            except TimeoutError:
                raise AssertionError(f"{wrong} instead of {expected}") from None
            if message["type"] == "snapshot":
                answers[message["subscription"]] = Answer()
                answers[message["subscription"]].begin(message["changes"])
            elif message["type"] == "changes":
                answers[message["subscription"]].apply(message["changes"])
        assert "takes over" in caplog.text
        first = live.ask(type="watch", subscription="n0")
        assert live.ask(type="watch", subscription="n0", cursor=first["cursor"])["type"] == "resumed"
        old = live.ask(
            type="watch", subscription="n0", cursor="00000000." + first["cursor"].partition(".")[2]
        )
        assert old["type"] == "too-old"
    for name, (sql, _, _) in asked.items():
        rows = fed.ok("GET", f"/v1/subscriptions/{name}/result")["rows"]
        column = "y" if sql != LEAST else next(iter(rows[0]))
        assert sorted(row[column] for row in rows) == sorted(score or 0.0 for _, score in expected[name])
        assert "space: " in fed.ok("GET", f"/v1/subscriptions/{name}/explain")["text"]
        fed.call("DELETE", f"/v1/subscriptions/{name}")
    assert fed.call("GET", "/v1/subscriptions/n0/result").status_code == 404
