"""The hub's interface: mutations, which become log records, and queries.

`durable` makes acknowledged records survive a crash, and `state` applies them. No network and no clock. Not
thread-safe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tocsin.arrow_streams import write_arrow
from tocsin.engine.conversion.text import json_rows
from tocsin.engine.sources.catalog import Declaration
from tocsin.errors import Error, ParameterError
from tocsin.gateway.core.answer_limits import UNLIMITED, check_limit, too_long
from tocsin.gateway.core.catalog import Subscription, Template, full_id, own_id
from tocsin.gateway.core.changes import by_subscription
from tocsin.gateway.core.idempotency import digest_of, head_of
from tocsin.gateway.core.protocol import LASTING, Ack, Options, WatchRequest, WatchStart
from tocsin.gateway.core.sketches import Sketch
from tocsin.gateway.core.state import HubState
from tocsin.gateway.core.statements import Checked, check, sources_of, visible
from tocsin.gateway.failures import Forbidden, LimitTooLarge, NotFound, QuotaExceeded
from tocsin.gateway.registry import OPERATOR, Grants
from tocsin.language import SourceSchema, parse

#: Kinds of statements that emit events and have no answer of rows.
EVENTFUL = ("match", "threshold")

#: Subscriptions of a space drawn at most.
DRAWN = 2000


class Hub(HubState):
    """Sources, subscriptions and their changes, durable in one folder."""

    #: whether a job owns the tables and decides what can be subscribed to
    is_fed = False

    @property
    def subscriptions(self) -> int:
        return len(self._catalog)

    def declarations(self, grants: Grants) -> list[Declaration]:
        """The sources that a tenant may see."""
        return [each for name, each in self._declarations.items() if visible(name, grants)]

    def declaration(self, name: str, grants: Grants) -> Declaration:
        """One source that a tenant may see. Raises NotFound."""
        if name not in self._declarations or not visible(name, grants):
            raise NotFound(f"there is no table or stream {name!r}")
        return self._declarations[name]

    def offered(self, grants: Grants) -> list[dict[str, Any]]:
        """The spaces that a tenant may subscribe to, if a job publishes them."""
        return []

    def schemas(self) -> list[SourceSchema]:
        return list(self._schemas.values())

    def declare(self, declaration: Declaration) -> Ack:
        """Declare a table or a stream."""
        return self._accept({"op": "declare", "source": declaration.as_dict()})

    def check(self, sql: str, grants: Grants, params: Mapping[str, Any] | None = None) -> Checked:
        """Check a statement without registering it. Raises SQLError, and LimitTooLarge for its LIMIT."""
        checked = self._read(sql, grants)
        check_limit(checked, params or {}, self._max_limit)
        return checked

    def _read(self, sql: str, grants: Grants) -> Checked:
        scores = {name: each.score for name, each in self._declarations.items()}
        return check(sql, self._schemas, grants, scores)

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
    ) -> Ack:
        """Register one standing query of a tenant, who may have `limit` of them.

        With a `batch` name it is registered once, as in `publish`.
        """
        request = json.dumps([sql, dict(params), id, options], sort_keys=True, default=str)
        digest = digest_of(request.encode())
        if (ack := self._answered_before(batch, digest)) is not None:
            return ack
        checked = self.check(sql, grants, params)
        _refuse_hint(tenant, checked)
        self._refuse_more(tenant, 1, limit)
        name = id if id is not None else self._catalog.new_ids(tenant, self.number + 1, 1)[0]
        head = self._head(tenant, checked, options)
        return self._accept({**head, **head_of(batch, digest), "id": name, "params": dict(params)})

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
    ) -> Ack:
        """Register one subscription for each row of `params`; its column `id`, if any, names them."""
        digest = ""
        if batch is not None:
            digest = digest_of(json.dumps([sql, options]).encode(), write_arrow(params))
        if (ack := self._answered_before(batch, digest)) is not None:
            return ack
        checked = self.check(sql, grants, {name: params.column(name) for name in params.column_names})
        _refuse_hint(tenant, checked)
        self._refuse_more(tenant, params.num_rows, limit)
        if "id" not in params.column_names:
            names = self._catalog.new_ids(tenant, self.number + 1, params.num_rows)
            params = params.append_column("id", pa.array(names, pa.string()))
        head = self._head(tenant, checked, options)
        return self._accept({**head, **head_of(batch, digest)}, write_arrow(params))

    def unsubscribe(self, tenant: str, names: Sequence[str]) -> Ack:
        """End a tenant's subscriptions, ignoring unknown ones; the reply has the ids that existed."""
        existing = [
            name for name in dict.fromkeys(names) if self._catalog.get(full_id(tenant, name)) is not None
        ]
        if not existing:
            return Ack(self.number)
        ack = self._accept({"op": "unsubscribe", "tenant": tenant, "ids": existing})
        return ack._replace(ids=tuple(existing))

    def publish(
        self, name: str, form: str, body: bytes, *, tenant: str = "", batch: str | None = None
    ) -> Ack:
        """Publish a tenant's rows. A named batch is applied once; a retry gets the same reply.

        The name starts with the tenant and a slash. Raises KeyReused if a different request had it.
        """
        digest = "" if batch is None else digest_of(form.encode(), body)
        if (ack := self._answered_before(batch, digest)) is not None:
            return ack
        head = {"op": "publish", "tenant": tenant, "source": name, "form": form, **head_of(batch, digest)}
        return self._accept(head, body)

    def delete(self, name: str, keys: Sequence[Any], *, tenant: str = "", batch: str | None = None) -> Ack:
        """Delete rows of a table by key. With a `batch` name it is done once, as in `publish`."""
        return self._accept_once(
            {"op": "delete", "tenant": tenant, "source": name, "keys": list(keys)}, batch
        )

    def advance(self, name: str, time: str | int, *, tenant: str = "", batch: str | None = None) -> Ack:
        """Advance the time of a windowed stream. With a `batch` name it is done once, as in `publish`."""
        return self._accept_once({"op": "advance", "tenant": tenant, "source": name, "time": time}, batch)

    def subscription(self, tenant: str, name: str) -> Subscription:
        """A subscription of a tenant. Raises NotFound."""
        subscription = self._catalog.get(full_id(tenant, name))
        if subscription is None:
            raise NotFound(f"no subscription has the id {name!r}")
        return subscription

    def page(
        self, tenant: str, after: str | None = None, limit: int | None = None
    ) -> list[tuple[str, Subscription]]:
        """A tenant's subscriptions, or those after one of them, in registration order."""
        start = None if after is None else full_id(tenant, after)
        found = ((full, self._catalog.get(full)) for full in self._catalog.page(tenant, start, limit))
        return [(full, subscription) for full, subscription in found if subscription is not None]

    def live(self, tenant: str) -> int:
        """Number of a tenant's live subscriptions."""
        return self._catalog.live(tenant)

    def outdated(self, tenant: str, grants: Grants) -> list[str]:
        """Own ids of a tenant's subscriptions whose plan these grants would change. Cost: linear."""
        verdicts: dict[Template, bool] = {}
        names = []
        for full, subscription in self.page(tenant):
            if subscription.template not in verdicts:
                verdicts[subscription.template] = not self._has_same_plan(subscription.template, grants)
            if verdicts[subscription.template]:
                names.append(own_id(full))
        return names

    def ids_over(self, tenant: str, source: str, kind: str) -> list[str]:
        """Own ids of a tenant's subscriptions of one kind over a source. Cost: linear."""
        verdicts: dict[Template, bool] = {}
        names = []
        for full, subscription in self.page(tenant):
            template = subscription.template
            if template not in verdicts:
                verdicts[template] = template.kind == kind and source in sources_of(template.sql)
            if verdicts[template]:
                names.append(own_id(full))
        return names

    def is_temporary(self, tenant: str, name: str) -> bool:
        """Whether a subscription of a tenant ends when nobody watches."""
        subscription = self._catalog.get(full_id(tenant, name))
        return subscription is not None and subscription.template.temporary

    def temporary(self) -> list[str]:
        """Full ids of temporary subscriptions."""
        return self._catalog.temporary()

    def open(self, requests: Sequence[WatchRequest]) -> list[WatchStart | NotFound | LimitTooLarge]:
        """Start watches: from a snapshot, or after the last record that the client received.

        Many at once cost little more than one.
        """
        self.refuse_if_failed()
        starts: list[WatchStart | NotFound | LimitTooLarge] = []
        new: set[str] = set()
        for tenant, name, after in requests:
            full = full_id(tenant, name)
            subscription = self._catalog.get(full)
            if subscription is None:
                starts.append(NotFound(f"no subscription has the id {name!r}"))
                continue
            missed = None if after is None or after > self.number else self._history.since(full, after)
            if missed is not None:
                starts.append(WatchStart("resumed", self.number, subscription, batches=tuple(missed)))
            elif after is not None:
                starts.append(WatchStart("too-old", self.number, subscription))
            elif (refusal := self._too_long(full, subscription)) is not None:
                starts.append(refusal)
            else:
                new.add(full)
                starts.append(
                    WatchStart(
                        "snapshot",
                        self.number,
                        subscription,
                        progress=self._progress(full, subscription),
                        recent=self._recent.of(full) if subscription.template.kind in EVENTFUL else None,
                    )
                )
        answers = self._answers([full for full in new if self._is_maintained(full)])
        for place, start in enumerate(starts):
            if isinstance(start, WatchStart) and start.kind == "snapshot":
                full = full_id(requests[place].tenant, requests[place].name)
                starts[place] = start._replace(changes=answers.get(full, "[]"))
        return starts

    def answer(self, full: str) -> str:
        """The current answer of a subscription as a JSON array of enters; empty if it has none."""
        self.refuse_if_failed()
        subscription = self._catalog.get(full)
        if subscription is None or not self._is_maintained(full):
            return "[]"
        if (refusal := self._too_long(full, subscription)) is not None:
            raise refusal
        return self._answers([full]).get(full, "[]")

    def result(self, tenant: str, name: str) -> pa.Table:
        """A subscription's current answer. Raises NotFound for one that has matured, and LimitTooLarge."""
        self.refuse_if_failed()
        subscription = self.subscription(tenant, name)
        if subscription.is_matured:
            raise NotFound(f"{name!r} has matured")
        if (refusal := self._too_long(full_id(tenant, name), subscription)) is not None:
            raise refusal
        return self.engine.result(full_id(tenant, name))

    def explain(self, tenant: str, name: str, event: Mapping[str, Any] | None = None) -> str:
        """How a subscription is maintained; with an event, why it does or does not match.

        The choice of index depends on all tenants' subscriptions, so only the operator sees it.
        """
        self.refuse_if_failed()
        subscription = self.subscription(tenant, name)
        if subscription.is_matured:
            raise NotFound(f"{name!r} has matured")
        text = self.engine.explain(full_id(tenant, name), event).replace(full_id(tenant, name), name, 1)
        own = f"index: shared, with {self._catalog.count(subscription.template)} of yours for this statement"
        lines = text.split("\n")
        if tenant != OPERATOR:
            lines = [own if line.startswith("index:") else line for line in lines]
        return "\n".join(lines)

    def space(self, tenant: str, name: str, grants: Grants) -> dict[str, Any]:
        """The space of a subscription: the tenant's own ranges, and rectangles of the last messages.

        The first call reads the table. From then on each batch is applied twice, until the space
        has not been read for a while.
        """
        subscription = self.subscription(tenant, name)
        template = subscription.template
        sketch = self._sketches.look(template, lambda: self._new_sketch(template, grants))
        subscriptions = [each for _, each in self.page(tenant) if each.template == template]
        ranges = [sketch.interval(each.params) for each in subscriptions[:DRAWN]]
        return {"column": sketch.column, "ranges": ranges, "tiles": sketch.rectangles, "number": self.number}

    def _new_sketch(self, template: Template, grants: Grants) -> Sketch:
        checked = self._read(template.sql, grants)
        return Sketch(self.engine, self._declarations[checked.source], checked)

    def _answered_before(self, batch: str | None, digest: str) -> Ack | None:
        """The reply to an earlier request with this key. Raises KeyReused if that was a different request."""
        self.refuse_if_failed()
        return self._requests.find(batch, digest)

    def _accept_once(self, head: dict[str, Any], batch: str | None) -> Ack:
        """Accept a record that its head describes entirely, unless an earlier one has the batch name."""
        digest = "" if batch is None else digest_of(json.dumps(head).encode())
        if (ack := self._answered_before(batch, digest)) is not None:
            return ack
        return self._accept({**head, **head_of(batch, digest)})

    def _too_long(self, full: str, subscription: Subscription) -> LimitTooLarge | None:
        """The error for an answer longer than the maximum LIMIT; None if it is short enough."""
        if subscription.template.kind not in UNLIMITED or full not in self.engine:
            return None
        return too_long(self.engine.size(full), self._max_limit)

    def _answers(self, fulls: Sequence[str]) -> dict[str, str]:
        return dict(by_subscription(self.engine.answers(fulls, rows=True))) if fulls else {}

    def _progress(self, full: str, subscription: Subscription) -> str | None:
        if subscription.template.kind != "threshold" or subscription.is_matured:
            return None
        return str(json_rows(self.engine.result(full))[0].as_py())

    def _has_same_plan(self, template: Template, grants: Grants) -> bool:
        try:
            # Printed again from its tree, because another version may print the same statement differently.
            # The maximum LIMIT is not applied: subscriptions registered under another maximum stay.
            return self._read(template.sql, grants).maintained_sql == str(parse(template.kept))
        except Error:
            return False

    def _refuse_more(self, tenant: str, count: int, limit: int | None) -> None:
        live = self._catalog.live(tenant)
        if limit is not None and live + count > limit:
            more = f", {count} more requested" if count > 1 else ""
            raise QuotaExceeded(f"subscription quota exceeded ({live} of {limit}{more})")

    def _head(self, tenant: str, checked: Checked, options: Options) -> dict[str, Any]:
        if options.repeat and checked.kind != "threshold":
            raise ParameterError("repeat applies to thresholds only (SUM or COUNT … HAVING)")
        template = Template(tenant, checked.sql, checked.maintained_sql, checked.kind, (), *options)
        return {"op": "subscribe", "tenant": tenant, "template": template._asdict()}


def _refuse_hint(tenant: str, checked: Checked) -> None:
    """Raise Forbidden if a tenant names an index: every tenant pays for a slow one."""
    if checked.index is not None and tenant != OPERATOR:
        raise Forbidden("only the operator may name the index of a statement: leave out the hint")
