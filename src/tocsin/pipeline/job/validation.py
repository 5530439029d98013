"""Checks of a job beyond types: names, statements, and incompatible settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from tocsin.engine.spaces.space_keys import space_key_of
from tocsin.errors import Error
from tocsin.language import Plan, SourceSchema, Threshold, parameters, parse, plan
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.sections import SourceSection, SubscriptionSection
from tocsin.pipeline.job.toml_locations import Path as KeyPath
from tocsin.pipeline.job.toml_locations import TomlLocations
from tocsin.pipeline.sources.file_rows import FORMATS
from tocsin.planning import check_choice, check_indexes

if TYPE_CHECKING:
    from tocsin.pipeline.job.jobs import Job


class JobValidator:
    """Checks one job. The first check that fails raises JobError with the line of its key.

    `given` is the file's content as a dict, `file` its name; without a name the error has no line.
    """

    def __init__(self, job: Job, given: dict[str, Any], locations: TomlLocations, file: str) -> None:
        self._job = job
        self._given = given
        self._locations = locations
        self._file = file
        self._is_messages = job.settings.output == "messages"
        #: ids of statements without params, as they are checked
        self._ids: set[str] = set()

    def check(self) -> None:
        """Check the sources, the subscriptions, and then what depends on both."""
        both = set(self._given.get("tables", {})) & set(self._given.get("streams", {}))
        if both:
            self._refuse(("streams", min(both)), f"{min(both)!r} is both a table and a stream")
        for name, section in self._job.sources.items():
            self._check_source(name, section)
        try:
            check_indexes(self._job.settings.indexes)
        except Error as failure:
            self._refuse(("job", "indexes"), failure)
        schemas = self._job.schemas()
        for number, subscription in enumerate(self._job.subscriptions):
            self._check_subscription(subscription, ("subscriptions", number), schemas)
        if self._is_messages:
            self._check_messages()
        self._check_sink()

    def _refuse(self, where: KeyPath, message: object) -> NoReturn:
        raise JobError(str(message), file=self._file, line=self._locations.find(where))

    def _check_source(self, name: str, section: SourceSection) -> None:
        declaration = self._job.declarations[name]
        where: KeyPath = (f"{declaration.kind}s", name)
        try:
            declaration.build()
        except Error as failure:
            self._refuse(where, failure)
        if section.columns is None:
            self._refuse(
                where, "declare its columns: streams of any attributes work in-process only, not on Spark"
            )
        if section.format in FORMATS and section.path is None:
            self._refuse(where, f"a {section.format} source needs a path")
        if section.order_by is not None and section.order_by not in section.columns:
            self._refuse((*where, "order_by"), f"order_by: {name!r} has no column {section.order_by!r}")
        if section.top is not None and (declaration.kind == "table" or section.window is not None):
            self._refuse((*where, "top"), "top applies to streams without a window")

    def _check_subscription(
        self, section: SubscriptionSection, where: KeyPath, schemas: dict[str, SourceSchema]
    ) -> None:
        try:
            statement = parse(section.sql)
            logical = plan(statement, schemas)
            check_choice(logical, schemas, statement.index, self._job.settings.indexes)
        except Error as failure:
            self._refuse((*where, "sql"), failure)
        if self._is_messages:
            self._check_space(section, logical, where)
        if not self._is_messages or self._job.settings.algorithm == "sparse":
            self._check_parameters(section, logical, where)
            self._check_id(section, where)
            if section.repeat and not isinstance(logical, Threshold):
                self._refuse((*where, "repeat"), "repeat applies to thresholds (SUM or COUNT … HAVING)")

    def _check_space(self, section: SubscriptionSection, logical: Plan, where: KeyPath) -> None:
        """A statement that messages describe; it has subscriptions only if the algorithm reads them."""
        settings = self._job.settings
        try:
            form = space_key_of(logical, {})
        except Error as failure:
            self._refuse((*where, "sql"), failure)
        if settings.epsilon and form.kind != "top-k":
            self._refuse(
                ("job", "epsilon"),
                f"epsilon applies to top-k only; subscriptions {where[1]} is of another kind",
            )
        if settings.algorithm == "dense" and (section.params is not None or section.id is not None):
            self._refuse(
                where,
                'dense messages need no subscriptions: remove params and id, or set algorithm = "sparse"',
            )

    def _check_parameters(self, section: SubscriptionSection, logical: Plan, where: KeyPath) -> None:
        """Parameters come from `params`, and a statement without them has an id of its own."""
        names = parameters(logical)
        if section.params is None and names:
            self._refuse(
                (*where, "sql"),
                f"the statement has parameters (:{names[0]}); name their files: params = …",
            )
        if section.params is None and section.id is None:
            self._refuse(where, "a statement without params needs an id")
        if section.params is not None and section.id is not None:
            self._refuse((*where, "id"), "params contain the ids; id is for a statement without params")

    def _check_id(self, section: SubscriptionSection, where: KeyPath) -> None:
        if section.id is None:
            return
        if section.id in self._ids:
            self._refuse((*where, "id"), f"duplicate subscription id {section.id!r}")
        self._ids.add(section.id)

    def _check_messages(self) -> None:
        """Refuse what a job that writes messages cannot have."""
        for name, declaration in self._job.declarations.items():
            if declaration.kind != "table":
                self._refuse(("streams", name), f"messages describe tables, and {name!r} is a stream")
        if self._job.sink.format == "csv":
            self._refuse(
                ("sink", "format"), "messages contain lists, which CSV cannot represent; use parquet or json"
            )
        if self._job.sink.rows:
            self._refuse(("sink", "rows"), "rows applies to changes; a message has the row's key")

    def _check_sink(self) -> None:
        sink = self._job.sink
        if sink.format == "nats" and not self._is_messages:
            self._refuse(
                ("sink", "format"), 'a nats sink sends messages; set output = "messages" under [job]'
            )
        if sink.format in FORMATS and sink.path is None:
            self._refuse(("sink",), f"a {sink.format} sink needs a path")
