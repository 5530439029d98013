"""The job file: what is accepted, and which line is wrong."""

from __future__ import annotations

import pytest

from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.shard import Shard

GOOD = """\
[job]
name = "alerts"
checkpoint = "state/alerts"
shards = 4

[streams.trades]
format = "parquet"
path = "in/trades"
columns = { price = "double", shares = "bigint", at = "timestamp" }
order_by = "at"

[[subscriptions]]
sql = "SELECT SUM(shares) FROM trades WHERE price BETWEEN :lo AND :hi HAVING SUM(shares) >= :tau"
params = "in/subscriptions"

[[subscriptions]]
sql = "SELECT COUNT(*) FROM trades HAVING COUNT(*) >= 10"
id = "ten"
repeat = true

[sink]
format = "parquet"
path = "out/changes"
"""


def test_the_file_of_the_design_is_read() -> None:
    job = Job.parse(GOOD)
    assert job.settings.shards == 4
    assert list(job.sources) == ["trades"]
    made = job.shard_job()
    assert made.order_by == {"trades": "at"}
    assert [section.id for section in made.sections] == [None, "ten"]
    assert made.sections[0].weight == ("trades", "shares")
    assert made.sections[1].weight is None


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("shards = 4", "shards = 0", 4, "shards"),
        ("shards = 4", "shard = 4", 4, "did you mean 'shards'"),
        ("shards = 4", 'shards = "four"', 4, "shards"),
        ('name = "alerts"\n', "", 1, "'name' is missing"),
        ("shards = 4", "shards = = 4", 4, "line 4"),
        ('price = "double"', 'price = "dubble"', 6, "dubble"),
        ('order_by = "at"', 'order_by = "when"', 10, "when"),
        ('path = "in/trades"\n', "", 6, "path"),
        ('columns = { price = "double", shares = "bigint", at = "timestamp" }\n', "", 6, "columns"),
        ("FROM trades WHERE", "FROM trade WHERE", 13, "Did you mean"),
        ("BETWEEN :lo AND :hi", "LIKE 'a'", 13, "LIKE"),
        ('params = "in/subscriptions"\n', "", 13, "params"),
        ('id = "ten"\n', "", 16, "id"),
        ("repeat = true", 'repeat = true\nparams = "x"', 18, "id"),
        ('format = "parquet"\npath = "out/changes"', 'format = "parquet"', 21, "path"),
        ('[sink]\nformat = "parquet"', '[sink]\nformat = "oracle"', 22, "format"),
        ("shards = 4", 'indexes = { thresholds = "b-tree" }', 4, "'distributed-tracking'"),
        ("shards = 4", 'indexes = { thresholds = "segment-interval-tree" }', 13, "two ranges"),
        ("SELECT SUM", "SELECT /*+ INDEX('segment-interval-tree') */ SUM", 13, "two ranges"),
    ],
)
def test_a_complaint_names_the_line(old: str, new: str, line: int, words: str) -> None:
    assert old in GOOD
    with pytest.raises(JobError) as caught:
        Job.parse(GOOD.replace(old, new), name="job.toml")
    assert caught.value.line == line
    assert f"job.toml, line {line}: " in str(caught.value)
    assert words in str(caught.value)


def test_a_job_names_indexes() -> None:
    job = Job.parse(GOOD.replace("shards = 4", 'indexes = { thresholds = "distributed-tracking" }'))
    shard = Shard(job.shard_job(), 0)
    assert shard.engine.indexes == {"thresholds": "distributed-tracking"}
    shard.engine.subscribe(job.subscriptions[1].sql, id="x")
    assert "index: distributed-tracking:" in shard.engine.explain("x")
    restored = Shard.load(job.shard_job(), 0, shard.save())
    assert restored.engine.explain("x") == shard.engine.explain("x")


def test_a_name_is_a_table_or_a_stream() -> None:
    both = GOOD.replace(
        "[streams.trades]",
        '[tables.trades]\npath = "in/t"\nkey = "price"\ncolumns = { price = "double" }\n\n[streams.trades]',
    )
    with pytest.raises(JobError, match="both a table and a stream"):
        Job.parse(both)


def test_a_missing_file_is_said() -> None:
    with pytest.raises(JobError, match=r"nowhere\.toml"):
        Job.read("nowhere.toml")
