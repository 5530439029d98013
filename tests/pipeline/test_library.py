"""Standing queries as library calls of a Spark program, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.spark_jobs import changes, expected, rows_of, write_input

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAM = """\
from pathlib import Path
from tocsin.spark import Job, session, standing_queries, start

def keep(folder):
    def write(frame, batch):
        path = Path(folder) / f"batch={batch}"
        path.mkdir(parents=True)
        frame.toPandas().to_parquet(path / "rows.parquet")
    return write

job = Job.read("job.toml")
spark = session(job, master="local[2,4]")
start(job, spark=spark, once=True, sink=keep("out"), rejects=keep("rejects")).awaitTermination()

reader = spark.readStream.name("trades").schema("price double, shares long").option("header", True)
trades = reader.option("maxFilesPerTrigger", 1).csv("in/trades").where("price IS NOT NULL")
told = standing_queries(spark, Job.read("other.toml"), {"trades": trades})
writer = told.writeStream.foreachBatch(keep("told")).option("checkpointLocation", "other")
writer.trigger(availableNow=True).start().awaitTermination()
"""


def test_functions_and_frames_of_a_program(tmp_path: Path) -> None:
    write_input(tmp_path)
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "other.toml").write_text(text.replace('checkpoint = "state"', 'checkpoint = "other"'))
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert changes(tmp_path) == changes(tmp_path, "told") == expected(tmp_path)
    rejects = rows_of(tmp_path / "rejects")
    assert sorted((reject["source"], reject["position"]) for reject in rejects) == [
        ("stocks", -1),
        ("subscriptions 0", 50),
        ("trades", 3),
    ]
