"""A session of `tocsin watch`: declares sources from inputs, publishes rows, writes changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import tocsin
from tocsin.cli.failures import BadRow, DataFailure, UsageFailure
from tocsin.cli.watching.blocks import Block, Input, wait
from tocsin.cli.watching.output import Output
from tocsin.types import ColumnType


@dataclass(frozen=True)
class SourceOptions:
    """How sources are declared, from the command line."""

    #: key column of each source that is a table; under None, that of all others
    keys: Mapping[str | None, str]
    window: str | None
    time: str | None
    sparse: bool
    #: types given for columns, by name
    types: Mapping[str, str]


@dataclass(frozen=True)
class PublishOptions:
    """How rows are published, from the command line."""

    batch: int
    each: bool
    rows: bool
    top: int | None
    skip_bad: bool


@dataclass
class SkippedRows:
    """Bad rows that were skipped: their number, and the reason of the first."""

    count: int = 0
    first: str = ""


@dataclass
class Watch:
    """Moves rows from inputs through the engine to the output."""

    engine: tocsin.Engine
    options: PublishOptions
    skipped: SkippedRows = field(default_factory=SkippedRows)
    #: a description of each source: its name, and its columns with their types
    sources: list[str] = field(default_factory=list)

    def declare(self, sources: Mapping[str, Sequence[Input]], options: SourceOptions) -> None:
        """Create each source with the columns of its inputs. Waits for the first row of every input."""
        inferred = {source: _columns(inputs, options) for source, inputs in sources.items()}
        for name in options.types:
            is_open = any(each.is_open for inputs in sources.values() for each in inputs)
            if (
                not options.sparse
                and not is_open
                and not any(name in columns for columns in inferred.values())
            ):
                raise UsageFailure(f"--columns: no input has a column {name!r}")
        for source, inputs in sources.items():
            key = options.keys.get(source, options.keys.get(None))
            columns = None if options.sparse else _typed(inferred[source], inputs[0], options, key)
            names = None if columns is None else {name: kind.name for name, kind in columns.items()}
            if key is not None and names is not None:
                self.engine.create_table(source, key=key, columns=names)
            else:
                self.engine.create_stream(source, columns=names, window=options.window, time=options.time)
            for each in inputs:
                each.declare(columns)
            shown = ", ".join(f"{name} {kind}" for name, kind in (names or {"any": "attribute"}).items())
            self.sources.append(f"{source} ({shown})")

    def run(self, inputs: Sequence[tuple[str, Input]], output: Output) -> None:
        """Read each file to its end, in the order given, then rows as they arrive, until all have ended."""
        waiting = list(inputs)
        while waiting:
            moved = False
            for source, each in waiting:
                while (block := each.take(self.options.batch)) is not None:
                    self._publish(source, block, output)
                    moved = True
                    if each.is_pipe:
                        break
            waiting = [(source, each) for source, each in waiting if not each.ended()]
            if waiting and not moved:
                output.idle()
                wait([each for _, each in waiting])

    def _publish(self, source: str, block: Block, output: Output) -> None:
        """Publish a block; if it has a bad row, halve it until that row is alone."""
        try:
            changes = self.engine.publish(
                source, block.rows(), each=self.options.each, rows=self.options.rows, top=self.options.top
            )
        except (BadRow, tocsin.RowError) as failure:
            if len(block) > 1:
                middle = len(block) // 2
                self._publish(source, block.part(0, middle), output)
                self._publish(source, block.part(middle, len(block)), output)
                return
            reason = str(failure).replace(", row 0", "")
            if not self.options.skip_bad:
                raise DataFailure(f"{block.place()}: {reason}") from None
            self.skipped.first = self.skipped.first or f"{block.place()}: {reason}"
            self.skipped.count += 1
        else:
            output.write(changes, len(block))


def _columns(inputs: Sequence[Input], options: SourceOptions) -> dict[str, str]:
    """The columns that the inputs of one source share, with the types inferred from the first."""
    shown = [(each, columns) for each in inputs if (columns := each.columns()) is not None]
    if not shown:
        if not options.types and not options.sparse:
            raise DataFailure(f"{inputs[0].label}: no rows to infer types from; --columns gives them")
        return dict(options.types)
    first, found = shown[0]
    for each, columns in shown[1:]:
        if not first.is_open and set(columns) != set(found):
            raise DataFailure(f"{each.label}: its columns differ from those of {first.label}")
    return found


def _typed(
    inferred: Mapping[str, str], first: Input, options: SourceOptions, key: str | None
) -> dict[str, ColumnType]:
    """The types of columns: those of the command line, else inferred."""
    types = dict(inferred)
    for name, kind in inferred.items():
        # Later rows may have fractions where the first ones have none; a key is an identifier.
        if first.grows and kind == "bigint" and name != key:
            types[name] = "double"
    types.update((name, kind) for name, kind in options.types.items() if name in inferred or first.is_open)
    if key is not None:
        types.pop("_op", None)
    return {name: ColumnType.parse(kind, column=name) for name, kind in types.items()}
