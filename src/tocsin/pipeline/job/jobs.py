"""A job as its file describes it: sources, subscriptions and sink."""

from __future__ import annotations

import tomllib
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tocsin.engine.sources.catalog import Declaration
from tocsin.language import Join, Plan, SourceSchema, Threshold, parse, plan
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.sections import JobFile, SourceSection, explain_failure
from tocsin.pipeline.job.toml_locations import TomlLocations, line_of
from tocsin.pipeline.job.validation import JobValidator
from tocsin.pipeline.shard import MessageOptions, Section, ShardJob


class Job:
    """A validated job: its sources can be built and its statements maintained."""

    def __init__(self, file: JobFile) -> None:
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
    def of(cls, content: dict[str, Any]) -> Job:
        """A job from a dict with the layout of the file. Raises JobError."""
        try:
            job = cls(JobFile.model_validate(content))
        except ValidationError as failure:
            raise JobError(explain_failure(failure)[1]) from None
        JobValidator(job, content, TomlLocations(""), "").check()
        return job

    @classmethod
    def parse(cls, text: str, *, name: str = "job") -> Job:
        """Parse and check the text of a job file. Raises JobError."""
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as failure:
            raise JobError(str(failure), file=name, line=line_of(failure)) from None
        locations = TomlLocations(text)
        try:
            job = cls(JobFile.model_validate(content))
        except ValidationError as failure:
            where, message = explain_failure(failure)
            raise JobError(message, file=name, line=locations.find(where)) from None
        JobValidator(job, content, locations, name).check()
        return job

    def schemas(self) -> dict[str, SourceSchema]:
        """The catalog that statements are resolved against."""
        return {name: declaration.build().schema for name, declaration in self.declarations.items()}

    def plans(self) -> list[Plan]:
        """The plan of each subscription section."""
        schemas = self.schemas()
        return [plan(parse(section.sql), schemas) for section in self.subscriptions]

    def shard_of_table(self, name: str) -> int | None:
        """The only shard that receives a table if the job emits messages; None if all shards receive it."""
        if self.settings.output != "messages":
            return None
        return list(self.declarations).index(name) % self.settings.shards

    def shard_job(self) -> ShardJob:
        """The part of the job that its shards need."""
        sections = []
        for section, logical in zip(self.subscriptions, self.plans(), strict=True):
            weight = None
            if isinstance(logical, Threshold) and logical.column is not None:
                weight = (logical.source, logical.column)
            shard = None if isinstance(logical, Join) else self.shard_of_table(logical.source)
            sections.append(Section(section.sql, section.id, section.repeat, weight, shard))
        settings = self.settings
        return ShardJob(
            tuple(self.declarations.values()),
            tuple(sections),
            self.settings.shards,
            {name: section.order_by for name, section in self.sources.items() if section.order_by},
            {name: section.top for name, section in self.sources.items() if section.top},
            self.sink.rows,
            MessageOptions(settings.algorithm, settings.epsilon, settings.snapshot_after)
            if settings.output == "messages"
            else None,
            settings.indexes,
        )


def _declaration(kind: str, name: str, section: SourceSection) -> Declaration:
    options = (section.columns, section.key, section.window, section.time, section.delay, section.score)
    return Declaration(kind, name, *options)
