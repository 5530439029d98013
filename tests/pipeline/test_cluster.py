"""A job on a cluster of its own: a master and two workers on loopback, each a process."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.pipeline.spark_jobs import (
    Running,
    changes,
    command_line,
    expected,
    kill,
    rows_of,
    session,
    write_input,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

HOME = Path(pyspark.__file__).parent
SMALL = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC"}
SETTINGS = """\
"spark.driver.host" = "127.0.0.1"
"spark.executor.memory" = "512m"
"spark.executor.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""


class Cluster:
    """A standalone master and its workers."""

    def __init__(self, folder: Path, workers: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._launch("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        for number in range(workers):
            place = ("--work-dir", str(folder / f"work{number}"))
            size = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
            self._launch("worker.Worker", *size, *place, self.master)

    def _launch(self, name: str, *options: str) -> None:
        with (self._folder / f"{name}.{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *options],
                env={**os.environ, **SMALL, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"},
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)

    def executors(self) -> list[int]:
        """The processes that run tasks."""
        pids = [pid for process in self._processes for pid in session(process.pid)]
        return [pid for pid in pids if "CoarseGrainedExecutorBackend" in command_line(pid)]

    def logs(self) -> str:
        """What the cluster's processes wrote."""
        return "\n".join(path.read_text(errors="replace") for path in self._folder.glob("*.log"))

    def kill(self) -> None:
        for process in self._processes:
            for pid in session(process.pid):
                kill(pid)
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(folder, workers=2)
    yield made
    made.kill()


def test_a_cluster_tells_what_the_engine_tells_though_an_executor_dies(
    tmp_path: Path, cluster: Cluster
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    write_input(folder, files=8)
    with (folder / "job.toml").open("a") as job:
        job.write(SETTINGS)
    with Running(folder, "--once", "--master", cluster.master) as running:
        assert running.wait_for_batches(2), running.said + cluster.logs()
        executors = cluster.executors()
        assert len(executors) == 2
        kill(executors[0])
        assert running.finish() == 0, running.said[-5000:]
    assert changes(folder) == expected(folder)
    assert len(rows_of(folder / "out.rejects")) == 3
