"""The sections of a job file and their keys."""

from __future__ import annotations

import difflib
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from tocsin.pipeline.job.toml_locations import Path as KeyPath

Options = dict[str, str | int | float | bool]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JobSection(_Model):
    """`[job]`."""

    name: str = Field(min_length=1)
    checkpoint: str = Field(min_length=1)
    shards: int = Field(default=2, ge=1, le=4096)
    output: Literal["changes", "messages"] = "changes"
    #: of messages: whether they depend on the subscriptions, and the share that may be superfluous
    algorithm: Literal["dense", "sparse"] = "dense"
    epsilon: float = Field(default=0.0, ge=0, le=1)
    #: messages of a table after which its next snapshot is written
    snapshot_after: PositiveInt = 100_000
    #: interval of the trigger, such as "5 seconds"; without it batches run back to back
    trigger: str | None = None
    #: by kind of question, the index to use instead of the planner's choice
    indexes: dict[str, str] = {}


class SourceSection(_Model):
    """`[tables.NAME]` and `[streams.NAME]`."""

    format: str = "parquet"
    path: str | None = None
    options: Options = {}
    columns: dict[str, str] | None = None
    order_by: str | None = None
    key: str | None = None
    window: str | None = None
    time: str | None = None
    delay: str | None = None
    score: str | None = None
    #: number of best matches that are emitted for an event
    top: PositiveInt | None = None


class SubscriptionSection(_Model):
    """`[[subscriptions]]`: a template with parameters, or one standing query with an `id`."""

    sql: str = Field(min_length=1)
    params: str | None = None
    format: str = "parquet"
    options: Options = {}
    id: str | None = None
    repeat: bool = False


class SinkSection(_Model):
    """`[sink]`."""

    format: Literal["parquet", "csv", "json", "kafka", "console", "nats"] = "parquet"
    path: str | None = None
    #: where rejected rows are written; by default beside `path`
    rejects: str | None = None
    rows: bool = False
    options: Options = {}


class JobFile(_Model):
    """A whole job file."""

    job: JobSection
    tables: dict[str, SourceSection] = {}
    streams: dict[str, SourceSection] = {}
    subscriptions: list[SubscriptionSection] = Field(min_length=1)
    sink: SinkSection
    spark: Options = {}


def explain_failure(failure: ValidationError) -> tuple[KeyPath, str]:
    """The first error: the path of its key, and a message."""
    first = failure.errors()[0]
    where: KeyPath = tuple(first["loc"])
    name = str(where[-1]) if where else "the file"
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, _known_keys(where[:-1]), n=1)
        return where, f"unknown key {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    if first["type"] == "missing":
        return where[:-1], f"{name!r} is missing"
    return where, f"{'.'.join(map(str, where))}: {first['msg'].lower()}"


def _known_keys(where: KeyPath) -> list[str]:
    sections: dict[str, type[_Model]] = {
        "job": JobSection,
        "tables": SourceSection,
        "streams": SourceSection,
        "subscriptions": SubscriptionSection,
        "sink": SinkSection,
    }
    section = sections[str(where[0])] if where else JobFile
    return list(section.model_fields)
