"""The job file: what a job reads, keeps and writes. Every complaint names the line."""

from __future__ import annotations

import difflib
import tomllib
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from tocsin.engine.catalog import Declaration
from tocsin.engine.forms import form_of
from tocsin.errors import Error
from tocsin.language import Join, Plan, SourceSchema, Threshold, parameters, parse, plan
from tocsin.pipeline.lines import Lines, line_of
from tocsin.pipeline.lines import Path as KeyPath
from tocsin.pipeline.reading import FORMATS
from tocsin.pipeline.shard import Section, ShardJob, Telling

Options = dict[str, str | int | float | bool]


class JobError(Error):
    """A job file that cannot be run: which line, and what would be accepted."""

    def __init__(self, message: str, *, file: str = "", line: int = 0) -> None:
        self.file = file
        self.line = line
        super().__init__(f"{file}, line {line}: {message}" if file else message)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JobSection(_Model):
    """`[job]`."""

    name: str = Field(min_length=1)
    checkpoint: str = Field(min_length=1)
    shards: int = Field(default=2, ge=1, le=4096)
    output: Literal["changes", "messages"] = "changes"
    #: of messages: whether they fit the subscriptions, and how many may be in vain
    algorithm: Literal["dense", "sparse"] = "dense"
    epsilon: float = Field(default=0.0, ge=0, le=1)
    #: messages of a table after which its snapshot is written anew
    snapshot_after: PositiveInt = 100_000
    #: how long a trigger waits, such as "5 seconds"; without it batches follow each other
    trigger: str | None = None


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
    #: how many of an event's best matches are kept
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
    #: where rows go that cannot be used; next to `path` unless said
    rejects: str | None = None
    rows: bool = False
    options: Options = {}


class _JobFile(_Model):
    job: JobSection
    tables: dict[str, SourceSection] = {}
    streams: dict[str, SourceSection] = {}
    subscriptions: list[SubscriptionSection] = Field(min_length=1)
    sink: SinkSection
    spark: Options = {}


class Job:
    """A job whose every part has been checked: sources can be built, statements can be kept."""

    def __init__(self, file: _JobFile) -> None:
        self.settings = file.job
        self.sources = {**file.tables, **file.streams}
        self.declarations = {
            **{name: _declaration("table", name, section) for name, section in file.tables.items()},
            **{name: _declaration("stream", name, section) for name, section in file.streams.items()},
        }
        self.subscriptions = file.subscriptions
        self.sink = file.sink
        #: settings of the Spark session
        self.spark = file.spark

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Job:
        """Read and check a job file. Raises JobError."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as failure:
            raise JobError(f"{file}: {failure.strerror}") from None
        except UnicodeDecodeError as failure:
            raise JobError(f"{file}: {failure}") from None
        return cls.parse(text, name=str(file))

    @classmethod
    def of(cls, given: dict[str, Any]) -> Job:
        """A job from a dict laid out as the file is. Raises JobError."""
        try:
            job = cls(_JobFile.model_validate(given))
        except ValidationError as failure:
            raise JobError(_explain(failure)[1]) from None
        _check(job, given, Lines(""), "")
        return job

    @classmethod
    def parse(cls, text: str, *, name: str = "job") -> Job:
        """Check the text of a job file. Raises JobError."""
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as failure:
            raise JobError(str(failure), file=name, line=line_of(failure)) from None
        lines = Lines(text)
        try:
            job = cls(_JobFile.model_validate(given))
        except ValidationError as failure:
            where, message = _explain(failure)
            raise JobError(message, file=name, line=lines.find(where)) from None
        _check(job, given, lines, name)
        return job

    def schemas(self) -> dict[str, SourceSchema]:
        """The catalog that statements are planned against."""
        return {name: declaration.build().schema for name, declaration in self.declarations.items()}

    def plans(self) -> list[Plan]:
        """The plan of each subscription section."""
        schemas = self.schemas()
        return [plan(parse(section.sql), schemas) for section in self.subscriptions]

    def shard_of_table(self, name: str) -> int | None:
        """The one shard that a table goes to where messages are told; None where each source goes to all."""
        if self.settings.output != "messages":
            return None
        return list(self.declarations).index(name) % self.settings.shards

    def shard_job(self) -> ShardJob:
        """What the shards have to know."""
        sections = []
        for section, made in zip(self.subscriptions, self.plans(), strict=True):
            weight = None
            if isinstance(made, Threshold) and made.column is not None:
                weight = (made.source, made.column)
            shard = None if isinstance(made, Join) else self.shard_of_table(made.source)
            sections.append(Section(section.sql, section.id, section.repeat, weight, shard))
        settings = self.settings
        return ShardJob(
            tuple(self.declarations.values()),
            tuple(sections),
            self.settings.shards,
            {name: section.order_by for name, section in self.sources.items() if section.order_by},
            {name: section.top for name, section in self.sources.items() if section.top},
            self.sink.rows,
            Telling(settings.algorithm, settings.epsilon, settings.snapshot_after)
            if settings.output == "messages"
            else None,
        )


def _declaration(kind: str, name: str, section: SourceSection) -> Declaration:
    said = (section.columns, section.key, section.window, section.time, section.delay, section.score)
    return Declaration(kind, name, *said)


def _check(job: Job, given: dict[str, Any], lines: Lines, file: str) -> None:
    """What types alone cannot say."""

    def refuse(where: KeyPath, message: object) -> None:
        raise JobError(str(message), file=file, line=lines.find(where))

    both = set(given.get("tables", {})) & set(given.get("streams", {}))
    if both:
        refuse(("streams", min(both)), f"{min(both)!r} is both a table and a stream")
    for name, section in job.sources.items():
        kind = job.declarations[name].kind
        where: KeyPath = (f"{kind}s", name)
        try:
            job.declarations[name].build()
        except Error as failure:
            refuse(where, failure)
        if section.columns is None:
            refuse(where, "say its columns: rows with any attribute are kept in-process only, not on Spark")
        if section.format in FORMATS and section.path is None:
            refuse(where, f"a {section.format} source needs a path")
        if section.order_by is not None and section.order_by not in (section.columns or {}):
            refuse((*where, "order_by"), f"order_by: {name!r} has no column {section.order_by!r}")
        if section.top is not None and (kind == "table" or section.window is not None):
            refuse((*where, "top"), "top goes with a stream without a window")
    schemas = job.schemas()
    ids: set[str] = set()
    for place, subscription in enumerate(job.subscriptions):
        where = ("subscriptions", place)
        try:
            made = plan(parse(subscription.sql), schemas)
        except Error as failure:
            refuse((*where, "sql"), failure)
            raise
        if job.settings.output == "messages":
            _check_space(job, subscription, made, where, refuse)
        if job.settings.output == "changes" or job.settings.algorithm == "sparse":
            _check_subscription(subscription, made, ids, where, refuse)
    if job.settings.output == "messages":
        _check_messages(job, refuse)
    elif job.sink.format == "nats":
        refuse(("sink", "format"), 'a nats sink sends messages; say output = "messages" under [job]')
    if job.sink.format in FORMATS and job.sink.path is None:
        refuse(("sink",), f"a {job.sink.format} sink needs a path")


def _check_subscription(
    section: SubscriptionSection, made: Plan, ids: set[str], where: KeyPath, refuse: Any
) -> None:
    names = parameters(made)
    if section.params is None and names:
        refuse(
            (*where, "sql"),
            f"the statement has parameters (:{names[0]}); say where they come from: params = …",
        )
    if section.params is None and section.id is None:
        refuse(where, "a statement without params needs an id")
    if section.params is not None and section.id is not None:
        refuse((*where, "id"), "ids come with the params; id goes with a statement without them")
    if section.id is not None and section.id in ids:
        refuse((*where, "id"), f"subscription id {section.id!r} comes twice")
    if section.repeat and not isinstance(made, Threshold):
        refuse((*where, "repeat"), "repeat goes with a threshold (SUM or COUNT … HAVING)")
    if section.id is not None:
        ids.add(section.id)


def _check_messages(job: Job, refuse: Any) -> None:
    """What a job that writes messages cannot have."""
    for name, declaration in job.declarations.items():
        if declaration.kind != "table":
            refuse(("streams", name), f"messages describe tables, and {name!r} is a stream")
    if job.sink.format == "csv":
        refuse(("sink", "format"), "messages have lists, which a CSV file cannot hold; use parquet or json")
    if job.sink.rows:
        refuse(("sink", "rows"), "rows goes with changes; a message has the row's key")


def _check_space(job: Job, section: SubscriptionSection, made: Plan, where: KeyPath, refuse: Any) -> None:
    """A statement that messages describe, with subscriptions only if the algorithm looks at them."""
    try:
        form = form_of(made, {})
    except Error as failure:
        refuse((*where, "sql"), failure)
        raise
    if job.settings.epsilon and form.kind != "top-k":
        refuse(("job", "epsilon"), f"an epsilon goes with top-k alone; subscriptions {where[1]} is another")
    if job.settings.algorithm == "dense" and (section.params is not None or section.id is not None):
        refuse(where, "dense messages need no subscriptions: leave out params and id, or say sparse")


def _explain(failure: ValidationError) -> tuple[KeyPath, str]:
    """The first complaint: where, and in words."""
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
    section = sections[str(where[0])] if where else _JobFile
    return list(section.model_fields)
