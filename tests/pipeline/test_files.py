"""The driver's files through a Spark session: a local disk is used by the system's own calls."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.samples import job
from tocsin.pipeline.filesystems.hadoop import SparkFileSystem
from tocsin.pipeline.job.running import session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    made = session(job(spark={"spark.ui.enabled": False}), master="local[1]")
    yield made
    made.stop()


def test_a_stale_checksum_refuses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop moves a file and then its checksum; a kill between the two leaves that of the file before."""
    files = SparkFileSystem(spark)
    path = tmp_path / "with space, ü.json"
    files.write_text(str(path), "one")
    checksum = path.with_name(f".{path.name}.crc")
    before = checksum.read_bytes() if checksum.exists() else b"crc\0\0\0\2\0\0\0\0\0"
    files.write_text(str(path), "two")
    checksum.write_bytes(before)
    assert files.read_text(path.as_posix()) == "two"
    files.write_text(f"file:{path}", "three")
    assert files.read_text(f"file://{path}") == "three"
    assert not checksum.exists()
    assert files.names(str(tmp_path)) == [path.name]


def test_a_rename_is_one_step_or_fails(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop copies what it cannot rename, file by file, and readers see half of it meanwhile."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second disk")
    with tempfile.TemporaryDirectory(dir=memory) as other:
        (Path(other) / "batch").mkdir()
        with pytest.raises(OSError, match="cross-device"):
            SparkFileSystem(spark).rename(f"{other}/batch", str(tmp_path / "batch"))
    assert not (tmp_path / "batch").exists()


def test_what_may_not_be_looked_at_is_not_missing(spark: SparkSession, tmp_path: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("everything may be looked at by root")
    inner = tmp_path / "closed/inner"
    inner.mkdir(parents=True)
    inner.parent.chmod(0)
    try:
        with pytest.raises(PermissionError):
            SparkFileSystem(spark).exists(str(inner))
    finally:
        inner.parent.chmod(0o700)
