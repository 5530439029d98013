"""The hub: an engine that forgets nothing that it has acknowledged.

Every mutation is a record: it is applied, appended to the log, and after `sync` on disk; only then may
anybody hear of it. A snapshot and the records since rebuild the same hub, to the same cursors, because the
engine is deterministic. When a record cannot be written, the engine is ahead of the disk: from then on the
hub answers nothing, and a restart goes on from what is on disk. The hub knows no network and no clock. Not
safe for threads.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.catalog import Declaration
from tocsin.engine.engine import Engine
from tocsin.engine.text import json_rows
from tocsin.errors import Error, ParameterError, StateError, UnknownSource
from tocsin.gateway import files, snapshots
from tocsin.gateway.bodies import read_arrow, read_rows, tuples_for_ranges, write_arrow
from tocsin.gateway.book import Book, Held, Template, full_id, own_id
from tocsin.gateway.changes import by_subscription, newest_events, texts
from tocsin.gateway.dealings import LASTING, Asking, Opening, Options, Receipt, Taken
from tocsin.gateway.failures import Conflict, KeyReused, LimitTooLarge, NotFound, QuotaExceeded, Unavailable
from tocsin.gateway.history import History, Told
from tocsin.gateway.log import Log, Record
from tocsin.gateway.recent import RECENT, Recent
from tocsin.gateway.sketches import Sketch, try_follow
from tocsin.gateway.statements import Checked, Grants, check, longest, schema_of, sources_of, visible
from tocsin.language import SourceSchema, parse

logger = logging.getLogger(__name__)

#: How many of a tenant's batches are remembered, so that one sent again is not applied again.
REMEMBERED_BATCHES = 10_000

#: A snapshot is due when the log has grown to this, and to twice the last snapshot.
SNAPSHOT_BYTES = 64 << 20

#: The largest LIMIT of a statement, unless the settings say otherwise.
MAX_LIMIT = 10_000

#: Kinds of statements that have no answer of rows: something happens, or it does not.
EVENTFUL = ("match", "threshold")

#: Subscriptions of a space that are drawn at most, and spaces that are followed for that.
DRAWN, SKETCHES = 2000, 8


#: Where an index begins to tell how much it holds, or why it was chosen.
_COUNTED = re.compile(r"[;(]|(?:,|:| of| over| in)? (?=[\d,]+\b(?!-dimensional))")


class Hub:
    """Sources, subscriptions and what they were told, kept in one folder."""

    #: whether a job has the tables, and says what can be subscribed to
    is_fed = False

    def __init__(
        self,
        folder: Path,
        *,
        retained: int = 256,
        retained_characters: int = 64 << 20,
        max_limit: int = MAX_LIMIT,
        recent: int = RECENT,
    ) -> None:
        self._folder = folder
        self._max_limit = max_limit
        self._recent_count = recent
        self._retained = retained, retained_characters
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _locked(folder)
        self._fresh: list[tuple[str, Told]] = []
        self._snapshot_bytes = 0
        #: the size of the log at which a snapshot that failed is tried again
        self._retry_bytes = 0
        #: why nothing is taken or answered any more, if so
        self.failure: str | None = None
        self._log = Log(folder)
        try:
            self._recover()
        except BaseException:
            self.close()
            raise

    @property
    def records_bytes(self) -> int:
        """Bytes of the log that a restart would read."""
        return self._log.size

    @property
    def is_dirty(self) -> bool:
        """Whether there are records that `sync` would write."""
        return self._log.is_dirty

    @property
    def subscriptions(self) -> int:
        return len(self._book)

    def declarations(self, grants: Grants) -> list[Declaration]:
        """The sources that a tenant may see."""
        return [each for name, each in self._declarations.items() if visible(name, grants)]

    def declaration(self, name: str, grants: Grants) -> Declaration:
        """One source that a tenant may see. Raises NotFound."""
        if name not in self._declarations or not visible(name, grants):
            raise NotFound(f"there is no table or stream {name!r}")
        return self._declarations[name]

    def offered(self, grants: Grants) -> list[dict[str, Any]]:
        """The spaces that a tenant may subscribe to, where a job says which there are."""
        return []

    def schemas(self) -> list[SourceSchema]:
        return list(self._catalog.values())

    def declare(self, declaration: Declaration) -> Receipt:
        """Take in a table or a stream."""
        return self._accept({"op": "declare", "source": declaration.as_dict()})

    def check(self, sql: str, grants: Grants, params: Mapping[str, Any] | None = None) -> Checked:
        """What a statement would be. Raises SQLError, and LimitTooLarge for lists that are too long."""
        checked = self._read(sql, grants)
        if longest(checked.plan, params or {}) > self._max_limit:
            raise LimitTooLarge(f"LIMIT is at most {self._max_limit} here")
        return checked

    def _read(self, sql: str, grants: Grants) -> Checked:
        scores = {name: each.score for name, each in self._declarations.items()}
        return check(sql, self._catalog, grants, scores)

    def subscribe(
        self,
        tenant: str,
        sql: str,
        params: Mapping[str, Any],
        *,
        grants: Grants,
        id: str | None = None,
        options: Options = LASTING,
        limit: int | None = None,
        batch: str | None = None,
    ) -> Receipt:
        """Register one standing query of a tenant, who may have `limit` of them.

        With the name of a batch it is registered once, as in `publish`.
        """
        asked = json.dumps([sql, dict(params), id, options], sort_keys=True, default=str)
        digest = _digest(asked.encode())
        if (known := self._answered(batch, digest)) is not None:
            return known
        checked = self.check(sql, grants, params)
        self._refuse_more(tenant, 1, limit)
        name = id if id is not None else self._book.fresh(tenant, self.number + 1, 1)[0]
        head = self._head(tenant, checked, options)
        return self._accept({**head, **_once(batch, digest), "id": name, "params": dict(params)})

    def subscribe_many(
        self,
        tenant: str,
        sql: str,
        params: pa.Table,
        *,
        grants: Grants,
        options: Options = LASTING,
        limit: int | None = None,
        batch: str | None = None,
    ) -> Receipt:
        """Register a template with one subscription for each row of `params`; `id` names them."""
        digest = ""
        if batch is not None:
            digest = _digest(json.dumps([sql, options]).encode(), write_arrow(params))
        if (known := self._answered(batch, digest)) is not None:
            return known
        checked = self.check(sql, grants, {name: params.column(name) for name in params.column_names})
        self._refuse_more(tenant, params.num_rows, limit)
        if "id" not in params.column_names:
            names = self._book.fresh(tenant, self.number + 1, params.num_rows)
            params = params.append_column("id", pa.array(names, pa.string()))
        head = self._head(tenant, checked, options)
        return self._accept({**head, **_once(batch, digest)}, write_arrow(params))

    def unsubscribe(self, tenant: str, names: Sequence[str]) -> Receipt:
        """End those of a tenant's subscriptions that are there; which they were."""
        there = [name for name in dict.fromkeys(names) if self._book.get(full_id(tenant, name)) is not None]
        if not there:
            return Receipt(self.number)
        receipt = self._accept({"op": "unsubscribe", "tenant": tenant, "ids": there})
        return receipt._replace(ids=tuple(there))

    def publish(
        self, name: str, form: str, body: bytes, *, tenant: str = "", batch: str | None = None
    ) -> Receipt:
        """Take in a tenant's rows. A batch that was taken in before, by its name, is not applied again.

        The name begins with the tenant's and a slash. Raises KeyReused if it was another batch's.
        """
        digest = "" if batch is None else _digest(form.encode(), body)
        if (known := self._answered(batch, digest)) is not None:
            return known
        head = {"op": "publish", "tenant": tenant, "source": name, "form": form, **_once(batch, digest)}
        return self._accept(head, body)

    def delete(self, name: str, keys: Sequence[Any], *, tenant: str = "") -> Receipt:
        """Delete rows of a table by key."""
        return self._accept({"op": "delete", "tenant": tenant, "source": name, "keys": list(keys)})

    def advance(self, name: str, time: str | int, *, tenant: str = "") -> Receipt:
        """Time has moved on for a windowed stream."""
        return self._accept({"op": "advance", "tenant": tenant, "source": name, "time": time})

    def sync(self) -> None:
        """Have all records on disk."""
        self.refuse_if_failed()
        try:
            self._log.sync()
        except (OSError, StateError) as failure:
            raise self._fail(failure) from failure

    def refuse_if_failed(self) -> None:
        """Raise Unavailable if a record could not be written: the engine is ahead of the disk."""
        if self.failure is not None:
            raise Unavailable(self.failure)

    def told(self) -> list[tuple[str, Told]]:
        """What there is to tell since the last time, by full id: not before `sync`."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def held(self, tenant: str, name: str) -> Held:
        """A subscription of a tenant. Raises NotFound."""
        held = self._book.get(full_id(tenant, name))
        if held is None:
            raise NotFound(f"no subscription has the id {name!r}")
        return held

    def page(self, tenant: str, after: str | None = None, limit: int | None = None) -> list[tuple[str, Held]]:
        """A tenant's subscriptions, or those after one of them, in the order of their registration."""
        start = None if after is None else full_id(tenant, after)
        found = ((full, self._book.get(full)) for full in self._book.page(tenant, start, limit))
        return [(full, held) for full, held in found if held is not None]

    def live(self, tenant: str) -> int:
        """How many subscriptions of a tenant are kept."""
        return self._book.live(tenant)

    def outdated(self, tenant: str, grants: Grants) -> list[str]:
        """Own ids of a tenant's subscriptions that these grants would keep otherwise. Cost: linear."""
        verdicts: dict[Template, bool] = {}
        found = []
        for full, held in self.page(tenant):
            if held.template not in verdicts:
                verdicts[held.template] = not self._is_kept_so(held.template, grants)
            if verdicts[held.template]:
                found.append(own_id(full))
        return found

    def over(self, tenant: str, source: str, kind: str) -> list[str]:
        """Own ids of a tenant's subscriptions of one kind over a source. Cost: linear."""
        verdicts: dict[Template, bool] = {}
        found = []
        for full, held in self.page(tenant):
            template = held.template
            if template not in verdicts:
                verdicts[template] = template.kind == kind and source in sources_of(template.sql)
            if verdicts[template]:
                found.append(own_id(full))
        return found

    def temporary(self) -> list[str]:
        """Full ids of the subscriptions that end when nobody watches."""
        return self._book.temporary()

    def open(self, asked: Sequence[Asking]) -> list[Opening | NotFound]:
        """How clients begin to watch: from snapshots, or from the records that they heard last.

        Many at once cost little more than one.
        """
        self.refuse_if_failed()
        openings: list[Opening | NotFound] = []
        new: set[str] = set()
        for tenant, name, after in asked:
            full = full_id(tenant, name)
            held = self._book.get(full)
            if held is None:
                openings.append(NotFound(f"no subscription has the id {name!r}"))
                continue
            missed = None if after is None or after > self.number else self._history.since(full, after)
            if missed is not None:
                openings.append(Opening("resumed", self.number, held, batches=tuple(missed)))
            elif after is not None:
                openings.append(Opening("too-old", self.number, held))
            else:
                new.add(full)
                openings.append(
                    Opening(
                        "snapshot",
                        self.number,
                        held,
                        progress=self._progress(full, held),
                        recent=self._recent.of(full) if held.template.kind in EVENTFUL else None,
                    )
                )
        answers = self._answers([full for full in new if self._is_kept(full)])
        for place, opening in enumerate(openings):
            if isinstance(opening, Opening) and opening.kind == "snapshot":
                full = full_id(asked[place].tenant, asked[place].name)
                openings[place] = opening._replace(changes=answers.get(full, "[]"))
        return openings

    def answer(self, full: str) -> str:
        """The current answer of a subscription as a JSON array of enters; empty for what has none."""
        self.refuse_if_failed()
        if not self._is_kept(full):
            return "[]"
        return self._answers([full]).get(full, "[]")

    def result(self, tenant: str, name: str) -> pa.Table:
        """A subscription's current answer. Raises NotFound for one that has matured."""
        self.refuse_if_failed()
        held = self.held(tenant, name)
        if held.is_over:
            raise NotFound(f"{name!r} has matured")
        return self.engine.result(full_id(tenant, name))

    def explain(self, tenant: str, name: str, event: Mapping[str, Any] | None = None) -> str:
        """Which index keeps a subscription; with an event, why it does or does not match."""
        self.refuse_if_failed()
        held = self.held(tenant, name)
        if held.is_over:
            raise NotFound(f"{name!r} has matured")
        if event is not None:
            event = tuples_for_ranges([event])[0]
        text = self.engine.explain(full_id(tenant, name), event)
        return _with_own_count(text.replace(full_id(tenant, name), name, 1), self._book.count(held.template))

    def space(self, tenant: str, name: str, grants: Grants) -> dict[str, Any]:
        """The space of a subscription: ranges of the tenant's own, and tiles of the last batch's messages.

        The first call costs a reading of the table, and from then on each batch is told twice, until nobody
        has looked for a while.
        """
        held = self.held(tenant, name)
        template = held.template
        sketch = self._sketches.get(template)
        if sketch is None:
            checked = self._read(template.sql, grants)
            sketch = Sketch(self.engine, self._declarations[checked.source], checked)
            self._sketches[template] = sketch
            while len(self._sketches) > SKETCHES:
                self._sketches.popitem(last=False)
        self._sketches.move_to_end(template)
        sketch.idle = 0
        mine = [each for _, each in self.page(tenant) if each.template == template]
        ranges = [sketch.interval(each.params) for each in mine[:DRAWN]]
        return {"column": sketch.column, "ranges": ranges, "tiles": sketch.tiles, "number": self.number}

    @property
    def is_snapshot_due(self) -> bool:
        return self._log.size > max(SNAPSHOT_BYTES, 2 * self._snapshot_bytes, self._retry_bytes)

    def snapshot(self) -> None:
        """Write a snapshot and drop the log before it. Cost: linear in the state.

        One that fails loses nothing: what was there before is removed only when the new one is on disk.
        """
        if (self._folder / snapshots.name(self.number)).exists():
            return
        self.sync()
        # Should this fail, the next attempt waits until it is worth the while.
        self._retry_bytes = self._log.size + SNAPSHOT_BYTES
        self._log.rotate(self.number + 1)
        facts = {
            "taken": [[name, *known] for of in self._batches.values() for name, known in of.items()],
            "sources": [each.as_dict() for each in self._declarations.values()],
        }
        state = snapshots.State(self.number, self.engine, self._book, self._history, self._recent, facts)
        self._snapshot_bytes = snapshots.write(self._folder, state)
        self._retry_bytes = 0
        snapshots.forget(self._folder, self.number)
        self._log.forget(self.number + 1)

    def close(self) -> None:
        """Let go of the folder, once."""
        self._log.close()
        if self._lock >= 0:
            lock, self._lock = self._lock, -1
            os.close(lock)

    def _recover(self) -> None:
        """Become what is on disk."""
        history = History(per_subscription=self._retained[0], characters=self._retained[1])
        self._recent = Recent(self._recent_count)
        found = snapshots.read(self._folder, history, self._recent)
        facts: dict[str, Any] = found.facts if found else {"taken": [], "sources": []}
        self.number = found.number if found else 0
        self.engine = found.engine if found else Engine()
        self._book = found.book if found else Book()
        self._history = history
        #: the one that was looked at last is the last
        self._sketches: OrderedDict[Template, Sketch] = OrderedDict()
        self._declarations = {each["name"]: Declaration(**each) for each in facts["sources"]}
        self._catalog = {name: schema_of(each) for name, each in self._declarations.items()}
        #: by tenant: what was answered, by name of the batch, the oldest first
        self._batches: dict[str, OrderedDict[str, Taken]] = {}
        for name, *known in facts.get("batches", ()):
            # Of the version before, which did not keep what the request was.
            self._batches_of(name)[name] = Taken("", Receipt(*known))
        for name, digest, (number, ids, *rest) in facts.get("taken", ()):
            self._batches_of(name)[name] = Taken(digest, Receipt(number, tuple(ids), *rest))
        self._log = Log(self._folder)
        for record in self._log.replay(self.number):
            self._perform(record)
            self.number = record.number
        self._fresh = []
        #: what cursors begin with: no record's number is told twice in an epoch
        self.epoch = self._epoch(is_new=self._log.is_torn)
        self._log.resume(self.number + 1)

    def _epoch(self, *, is_new: bool) -> str:
        """The epoch, on disk before its first record. Without its file, or if asked for, a new one begins.

        A torn end looks the same whether or not somebody had heard of it, and its numbers come again.
        """
        path = self._folder / "epoch"
        if path.exists() and not is_new:
            known = files.read_all(path)
            if re.fullmatch(rb"[0-9a-f]{8}", known):
                return known.decode()
        epoch = secrets.token_hex(4)
        files.replace_file(path, epoch.encode())
        return epoch

    def _fail(self, failure: Exception) -> Unavailable:
        """Answer nothing from now on; what to raise."""
        said = (failure.strerror if isinstance(failure, OSError) else None) or str(failure)
        self.failure = f"the log cannot be written ({said}); nothing is taken or answered until a restart"
        self._fresh = []
        return Unavailable(self.failure)

    def _accept(self, head: dict[str, Any], body: bytes = b"") -> Receipt:
        self.refuse_if_failed()
        record = Record(self.number + 1, head, body)
        heard = len(self._fresh)
        try:
            receipt = self._perform(record)
        except Error:
            raise
        except Exception:
            # What the engine did before it failed is unknown: what is on disk is not.
            logger.exception(
                "record %d (%s) failed; going back to what is on disk", record.number, head["op"]
            )
            fresh = self._fresh[:heard]
            try:
                self._log.sync()
                self._log.close()
                self._recover()
            except Exception as failure:
                raise self._fail(failure) from failure
            self._fresh = fresh
            raise
        try:
            self._log.append(record)
        except (OSError, StateError) as failure:
            raise self._fail(failure) from failure
        self.number = record.number
        return receipt

    def _perform(self, record: Record) -> Receipt:
        """Apply a record, new or read from the log. One that raises an Error has changed nothing."""
        head = record.head
        match head["op"]:
            case "declare":
                declaration = Declaration(**head["source"])
                self.engine.declare(declaration)
                self._declarations[declaration.name] = declaration
                self._catalog[declaration.name] = schema_of(declaration)
                return Receipt(record.number)
            case "subscribe":
                return self._register(record)
            case "unsubscribe":
                for name in head["ids"]:
                    self._end(full_id(head["tenant"], name))
                return Receipt(record.number)
            case "publish":
                return self._take_rows(record)
            case "delete":
                told = self.engine.delete(head["source"], head["keys"], rows=True)
                key = self._declarations[head["source"]].key
                self._sketch(head["source"], [{key: value, "_op": "delete"} for value in head["keys"]])
                return self._tell(record, told, rows=len(head["keys"]))
            case "advance":
                told = self.engine.advance(head["source"], head["time"], rows=True)
                return self._tell(record, told)
            case other:
                raise StateError(f"record {record.number} has the unknown operation {other!r}")

    def _register(self, record: Record) -> Receipt:
        head = record.head
        if "id" in head:
            columns = {name: [value] for name, value in head["params"].items()}
            rows = [dict(head["params"])]
            names = [head["id"]]
        else:
            table = read_arrow(record.body)
            names = _ids(table.column("id"))
            columns = {name: table.column(name) for name in table.column_names if name != "id"}
            rows = table.drop_columns(["id"]).to_pylist()
        fulls = [full_id(head["tenant"], name) for name in names]
        for name, full in zip(names, fulls, strict=True):
            if not self._book.is_free(full):
                raise Conflict(f"subscription id {name!r} is taken")
        if len(set(fulls)) < len(fulls):
            raise Conflict("a subscription id comes twice")
        template = Template(**{**head["template"], "names": tuple(columns)})
        self._keep(template, columns, fulls)
        for full, row in zip(fulls, rows, strict=True):
            self._book.add(full, Held(template, tuple(map(_plain, row.values())), record.number))
            self._history.open(full, record.number)
            self._recent.forget(full)
        # Of many, the names are not remembered: nobody is told them again.
        kept = names if len(names) == 1 else ()
        self._remember(head, Receipt(record.number, tuple(kept), len(names)))
        return Receipt(record.number, tuple(names), len(names))

    def _take_rows(self, record: Record) -> Receipt:
        head = record.head
        name = head["source"]
        if name not in self._catalog:
            raise UnknownSource(f"there is no table or stream {name!r}")
        rows = read_rows(head["form"], record.body)
        if self._catalog[name].columns is None and isinstance(rows, list):
            rows = tuples_for_ranges(rows)
        told = self.engine.publish(name, rows, rows=True)
        self._sketch(name, rows)
        receipt = self._tell(record, told, rows=len(rows))
        self._remember(head, receipt)
        return receipt

    def _answered(self, batch: str | None, digest: str) -> Receipt | None:
        """What was answered to a request that came before. Raises KeyReused if it was another one."""
        self.refuse_if_failed()
        taken = None if batch is None else self._batches_of(batch).get(batch)
        if taken is None:
            return None
        if taken.digest not in ("", digest):
            raise KeyReused("this Idempotency-Key came with another request before: send a new one")
        return taken.receipt

    def _remember(self, head: Mapping[str, Any], receipt: Receipt) -> None:
        batch = head.get("batch")
        if batch is not None:
            batches = self._batches_of(batch)
            batches[batch] = Taken(head.get("digest", ""), receipt)
            if len(batches) > REMEMBERED_BATCHES:
                batches.popitem(last=False)

    def _batches_of(self, batch: str) -> OrderedDict[str, Taken]:
        """The batches of the tenant whose batch this is."""
        return self._batches.setdefault(batch.partition("/")[0], OrderedDict())

    def _sketch(self, name: str, rows: Any) -> None:
        """Tell the sketches of a table too, while somebody looks at them."""
        for template, sketch in list(self._sketches.items()):
            if sketch.source == name and not try_follow(sketch, rows):
                del self._sketches[template]

    def _tell(self, record: Record, changes: pa.Table, rows: int = 0) -> Receipt:
        number = record.number
        if changes.num_rows:
            told = texts(changes)
            self._fresh += self._history.extend(number, by_subscription(changes, told))
            self._recent.extend(number, newest_events(changes, told, self._recent.count))
        if "mature" in changes.column("op").unique().to_pylist():
            for full in changes.column("subscription").unique().to_pylist():
                if full not in self.engine:
                    for gone in self._book.finish(full, number):
                        self._history.forget(gone)
                        self._recent.forget(gone)
        # A publisher hears of no others' alerts, not even how many there are.
        tenant = record.head.get("tenant") or str(record.head.get("batch") or "").partition("/")[0]
        own = pc.sum(pc.starts_with(changes.column("subscription"), f"{tenant}/")).as_py() or 0
        return Receipt(number, (), rows, own, changes.num_rows)

    def _keep(self, template: Template, columns: Mapping[str, Any], fulls: Sequence[str]) -> None:
        """Begin to keep the answers of new subscriptions."""
        self.engine.subscribe_many(template.kept, {**columns, "id": fulls}, repeat=template.repeat)

    def _is_kept(self, full: str) -> bool:
        return full in self.engine

    def _drop(self, full: str) -> None:
        """Keep an answer no more."""
        if full in self.engine:
            self.engine.unsubscribe(full)

    def _end(self, full: str) -> None:
        self._drop(full)
        self._book.remove(full)
        self._history.forget(full)
        self._recent.forget(full)

    def _answers(self, fulls: Sequence[str]) -> dict[str, str]:
        return dict(by_subscription(self.engine.answers(fulls, rows=True))) if fulls else {}

    def _progress(self, full: str, held: Held) -> str | None:
        if held.template.kind != "threshold" or held.is_over:
            return None
        return str(json_rows(self.engine.result(full))[0].as_py())

    def _is_kept_so(self, template: Template, grants: Grants) -> bool:
        try:
            # Written anew, because another version may have put the same thing into other words.
            # Not by the longest LIMIT: what was registered when it was another one stays.
            return self._read(template.sql, grants).kept == str(parse(template.kept))
        except Error:
            return False

    def _refuse_more(self, tenant: str, count: int, limit: int | None) -> None:
        if limit is not None and self._book.live(tenant) + count > limit:
            raise QuotaExceeded(f"you may have {limit} subscriptions, and have {self._book.live(tenant)}")

    def _head(self, tenant: str, checked: Checked, options: Options) -> dict[str, Any]:
        if options.repeat and checked.kind != "threshold":
            raise ParameterError("repeat goes with a threshold (SUM or COUNT … HAVING)")
        template = Template(tenant, checked.sql, checked.kept, checked.kind, (), *options)
        return {"op": "subscribe", "tenant": tenant, "template": template._asdict()}


def _locked(folder: Path) -> int:
    """A lock on the folder that ends with the process. Raises StateError if another has it."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StateError(f"another process is using {folder}") from None
    return descriptor


def _ids(column: pa.ChunkedArray) -> list[str]:
    if column.null_count:
        raise ParameterError("an id is null")
    return [str(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it."""
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _digest(*parts: bytes) -> str:
    """What a request was, in short."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8))
        whole.update(part)
    return whole.hexdigest()


def _once(batch: str | None, digest: str) -> dict[str, Any]:
    """What a record says of a request that is taken once."""
    return {} if batch is None else {"batch": batch, "digest": digest}


def _with_own_count(text: str, own: int) -> str:
    """An explanation that says of the index what it is, not how much is in it: others have some of that."""
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if line.startswith("index:"):
            lines[place] = f"{_COUNTED.split(line, maxsplit=1)[0]} ({own} of yours with this statement)"
    return "\n".join(lines)
