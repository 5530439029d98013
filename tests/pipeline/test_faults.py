"""Processes killed one by one, a full disk: nothing is lost, nothing comes twice, and it is said why."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.pipeline.spark_jobs import Running, changes, expected, is_alive, kill, run, write_input

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

SMALL_DISK = 64 << 20


def test_nothing_is_lost_or_repeated_by_four_kills(tmp_path: Path) -> None:
    """A Python worker, Spark's process and the driver, each alone; then all of them at any point."""
    write_input(tmp_path, files=10)
    with Running(tmp_path) as job:
        assert job.wait_for_batches(1), job.said
        kill(job.workers()[-1])
        assert job.wait_for_batches(4), job.said
        kill(min(job.children("java")))
        assert job.finish() == 1
        assert "the job has failed: Spark has been killed" in job.said
    with Running(tmp_path) as job:
        assert job.wait_for_batches(6), job.said
        # What it forks has its command line for a moment.
        jvm = min(job.children("org.apache.spark.deploy.SparkSubmit"))
        kill(job.process.pid)
        job.finish()
        deadline = time.monotonic() + 120
        while is_alive(jvm) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not is_alive(jvm), "Spark goes on without its driver"
    with Running(tmp_path) as job:
        job.wait_for_batches(7)
        time.sleep(np.random.default_rng().uniform(0, 2))
    finished = run(tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert changes(tmp_path) == expected(tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own, which is easily full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_ends_the_job_and_room_lets_it_go_on(small_disk: Path) -> None:
    write_input(small_disk, files=12)
    with Running(small_disk) as job:
        assert job.wait_for_batches(2), job.said
        fill(small_disk / "ballast")
        assert job.finish() == 1
        assert job.said.splitlines()[-1].startswith("the job has failed: ")
        assert "No space left on device" in job.said.splitlines()[-1]
    before = changes(small_disk)
    (small_disk / "ballast").unlink()
    finished = run(small_disk)
    assert finished.returncode == 0, finished.stderr
    assert set(before) < set(changes(small_disk))
    assert changes(small_disk) == expected(small_disk)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_twenty_kills(tmp_path: Path) -> None:
    """`make soak`: whoever dies, whenever."""
    write_input(tmp_path, files=40)
    random = np.random.default_rng()
    for kills in range(20):
        with Running(tmp_path) as job:
            job.wait_for_batches(kills + 1)
            time.sleep(random.uniform(0, 3))
            victims = {
                "all": [],
                "driver": [job.process.pid],
                "jvm": job.children("org.apache.spark.deploy.SparkSubmit"),
                "worker": job.workers(),
            }
            chosen = random.choice(list(victims))
            for pid in victims[chosen]:
                kill(pid)
            if chosen != "all":
                time.sleep(random.uniform(0, 3))
    finished = run(tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert changes(tmp_path) == expected(tmp_path)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(os.urandom(size))
            except OSError:
                continue
