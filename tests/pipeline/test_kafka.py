"""Topics in, topics out, on a real broker that goes away and comes back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.brokers import Broker, Client, Record, broker_jars, connector_jars
from tests.pipeline.spark_jobs import MATCH, QUICK, THRESHOLD, Running, run
from tests.pipeline.test_messages import JOB as MESSAGES_JOB
from tests.pipeline.test_messages import TOP, answers, held, write_input
from tocsin.engine.engine import Engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

JOB = """\
[job]
name = "test"
checkpoint = "state"
shards = 2

[streams.trades]
format = "kafka"
path = "trades"
columns = {{ price = "double", shares = "bigint" }}
options = {{ "kafka.bootstrap.servers" = "{address}" }}

[[subscriptions]]
sql = "{threshold}"
params = "thresholds"
format = "kafka"
options = {{ "kafka.bootstrap.servers" = "{address}" }}

[[subscriptions]]
sql = "{match}"
params = "matches"
format = "kafka"
options = {{ "kafka.bootstrap.servers" = "{address}" }}

[sink]
format = "kafka"
path = "changes"
rows = true
options = {{ "kafka.bootstrap.servers" = "{address}" }}

{quick}"spark.jars" = "{jars}"
"""

#: What a topic may hold besides rows: each is one reject, and its neighbours are none.
POISON = (
    None,
    "",
    "no JSON",
    "[1, 2]",
    '{"price": "dear", "shares": 1}',
    '{"price": 1, "shares": 1e999}',
    '{"price": 1} {"price": 2}',
    '{"price": 1, "shares": 99999999999999999999}',
    '{"price": 1, "name": "\\ud800"}',
    '{"a":' * 50_000 + "1" + "}" * 50_000,
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("kafka")
    made = Broker(folder / "broker", broker_jars(folder / "jars"))
    made.start()
    yield made
    made.kill()


@pytest.fixture
def client(broker: Broker, tmp_path: Path) -> Iterator[Client]:
    made = Client(broker.address, broker.jars)
    yield made
    made.close()


def test_nothing_is_lost_or_repeated_by_a_broker_that_goes_away(
    tmp_path: Path, broker: Broker, client: Client
) -> None:
    jars = ",".join(connector_jars(tmp_path / "jars"))
    text = JOB.format(address=broker.address, threshold=THRESHOLD, match=MATCH, quick=QUICK, jars=jars)
    (tmp_path / "job.toml").write_text(text)
    client.create("trades", 2)
    for topic in ("thresholds", "matches", "changes", "changes.rejects"):
        client.create(topic)
    # Rows of a partition keep their order, and each subscription is met by one partition only.
    rows = [cheap_and_dear(part) for part in range(2)]
    subscribe(client)
    for partition in range(2):
        client.send("trades", map(json.dumps, rows[0][partition]), partition)
    with Running(tmp_path, "--master", "local[2,4]") as job:
        assert job.wait_until(lambda: len(client.read("changes")) > 0, every=0.5), job.said
        broker.kill()
        broker.start()
        client.send("trades", POISON, 1)
        for partition in range(2):
            client.send("trades", map(json.dumps, rows[1][partition]), partition)
        wanted = expected(rows)
        assert job.wait_until(lambda: emitted(client.read("changes")) == wanted, every=0.5), job.said[-3000:]
        assert job.wait_until(lambda: settled(tmp_path / "state"), every=0.5), job.said[-3000:]
    forget_last_commit(tmp_path / "state")
    finished = run(tmp_path, "--once")
    assert finished.returncode == 0, finished.stderr
    records = client.read("changes")
    keys = Counter(record.key for record in records)
    assert max(keys.values()) > 1, "a batch that was not committed is written again"
    assert emitted(records) == wanted
    assert_rejects(client, first=len(rows[0][1]))


def test_messages_in_a_topic_keep_subscribers_exact(tmp_path: Path, broker: Broker, client: Client) -> None:
    """From any snapshot on, though the last batch is written twice."""
    jars = ",".join(connector_jars(tmp_path / "jars"))
    write_input(tmp_path)
    sink = 'format = "kafka"\npath = "messages"\noptions = { "kafka.bootstrap.servers" = "%s" }'
    text = MESSAGES_JOB.replace('path = "out"', sink % broker.address) + f'"spark.jars" = "{jars}"\n'
    (tmp_path / "job.toml").write_text(text)
    for topic in ("messages", "messages.snapshots", "messages.rejects"):
        client.create(topic)
    for _ in range(2):
        finished = run(tmp_path)
        assert finished.returncode == 0, finished.stderr
        forget_last_commit(tmp_path / "state")
    records = client.read("messages")
    assert max(Counter(record.key for record in records).values()) > 1, "the last batch is written again"
    messages = list({record.key: json.loads(record.value or "") for record in records}.values())
    rows = {record.key: json.loads(record.value or "") for record in client.read("messages.snapshots")}
    batches = sorted({row["batch"] for row in rows.values()})
    snapshots = [[row for row in rows.values() if row["batch"] == batch] for batch in batches]
    assert len(snapshots) > 1
    expected = {name: answer for name, answer in answers().items() if name[0] == TOP}
    for start in range(len(snapshots)):
        found = held(snapshots, messages, start)
        assert {name: answer for name, answer in found.items() if name[0] == TOP} == expected


def subscribe(client: Client) -> None:
    """Twenty thresholds and ten matches; three of the records are bad."""
    thresholds = [
        json.dumps({"id": f"t{i}", "lo": 100 * (i % 2) + i, "hi": 100 * (i % 2) + i + 5, "tau": 50 + i})
        for i in range(20)
    ]
    bad = ["no JSON", '{"lo": 1, "hi": 2, "tau": 3}', '{"id": "x", "lo": "a", "hi": 2, "tau": 3}']
    client.send("thresholds", [*thresholds[:10], *bad, *thresholds[10:]])
    matches = [{"id": f"m{i}", "low": 100 * (i % 2) + 20 + i, "weight": 1 + i} for i in range(10)]
    client.send("matches", map(json.dumps, matches))


def cheap_and_dear(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows for partition 0, all below 100, and for partition 1, all from 100 on."""
    random = np.random.default_rng(seed)

    def some(base: int) -> list[dict[str, Any]]:
        prices, shares = random.integers(0, 30, 60), random.integers(1, 10, 60)
        return [
            {"price": base + int(price), "shares": int(share)}
            for price, share in zip(prices, shares, strict=True)
        ]

    return some(0), some(100)


def expected(rows: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]) -> Counter[tuple[Any, ...]]:
    """What one engine tells, partition after partition."""
    engine = Engine()
    engine.create_stream("trades", columns={"price": "double", "shares": "bigint"})
    base = [100.0 * (i % 2) for i in range(20)]
    engine.subscribe_many(
        THRESHOLD,
        {
            "id": [f"t{i}" for i in range(20)],
            "lo": [base[i] + i for i in range(20)],
            "hi": [base[i] + i + 5 for i in range(20)],
            "tau": [50.0 + i for i in range(20)],
        },
    )
    engine.subscribe_many(
        MATCH,
        {
            "id": [f"m{i}" for i in range(10)],
            "low": [base[i] + 20 + i for i in range(10)],
            "weight": [1.0 + i for i in range(10)],
        },
    )
    found: list[dict[str, Any]] = []
    for partition in range(2):
        given = [row for part in rows for row in part[partition]]
        found += engine.publish("trades", given, rows=True).to_pylist()
    return Counter(_told(change) for change in found)


def emitted(records: list[Record]) -> Counter[tuple[Any, ...]]:
    """Each change once, by its key: what does not depend on how rows met in batches."""
    values = {record.key: json.loads(record.value or "") for record in records}
    return Counter(_told(change) for change in values.values())


def _told(change: dict[str, Any]) -> tuple[Any, ...]:
    return change["subscription"], change["op"], change.get("score"), change.get("row")


def settled(checkpoint: Path) -> bool:
    """Whether the last batch that was begun is written, told of and committed."""
    begun, committed = (max(logged(checkpoint / log), default=-1) for log in ("offsets", "commits"))
    return begun == committed == max((batch["batch"] for batch in progress(checkpoint)), default=-2)


def forget_last_commit(checkpoint: Path) -> None:
    """What a kill leaves between the writing of a batch and its commit."""
    changed = [batch for batch in progress(checkpoint) if any(shard["changes"] for shard in batch["shards"])]
    last = max(batch["batch"] for batch in changed)
    for log, first in (("commits", last), ("offsets", last + 1)):
        for number, paths in logged(checkpoint / log).items():
            for path in paths if number >= first else ():
                path.unlink()


def progress(checkpoint: Path) -> list[dict[str, Any]]:
    """The last batches that the job told of."""
    told_of: list[dict[str, Any]] = json.loads((checkpoint / "tocsin-progress.json").read_text())["batches"]
    return told_of


def logged(log: Path) -> dict[int, list[Path]]:
    """Files of one of Spark's logs, checksums among them, by batch."""
    found: dict[int, list[Path]] = {}
    for path in log.iterdir():
        number = path.name.strip(".").removesuffix(".crc")
        if number.isdigit():
            found.setdefault(int(number), []).append(path)
    return found


def assert_rejects(client: Client, first: int) -> None:
    """Every bad record, and no other, is told with its topic, partition and offset."""
    rejects = {record.key: json.loads(record.value or "") for record in client.read("changes.rejects")}
    places = Counter((r["source"], r["path"], r["position"]) for r in rejects.values())
    assert places == Counter(
        [
            *(("subscriptions 0", "thresholds/0", offset) for offset in (10, 11, 12)),
            *(("trades", "trades/1", first + place) for place in range(len(POISON))),
        ]
    )
    assert all(reject["reason"] for reject in rejects.values())
