"""Request bodies and WebSocket frames as validated models; the OpenAPI description uses their schemas."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from tocsin.engine.sources.catalog import Declaration
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.protocol import Ack, Options
from tocsin.gateway.failures import BadRequest
from tocsin.gateway.registry import Quotas, Tenant

NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"

Name = Annotated[StrictStr, Field(pattern=NAME)]
Id = Annotated[StrictStr, Field(pattern=ID)]
TenantName = Annotated[StrictStr, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
Sql = Annotated[StrictStr, Field(min_length=1, max_length=16_000)]
Cursor = Annotated[StrictStr, Field(max_length=64)]
Policy = Literal["squash", "disconnect"]
Throttle = Annotated[StrictFloat | StrictInt, Field(ge=0, le=3600)]
#: JSON parsers disagree about integers beyond 64 bits.
Number = Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
Scalar = StrictStr | StrictBool | Number | StrictFloat | None


class Model(BaseModel):
    """Base of all models: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class NewTable(Model):
    """A table: rows are upserted by key."""

    name: Name
    key: StrictStr
    columns: dict[str, StrictStr] = Field(min_length=1, examples=[{"symbol": "string", "price": "double"}])

    def declaration(self) -> Declaration:
        return Declaration("table", self.name, self.columns, self.key)


class NewStream(Model):
    """A stream; without columns its rows have any attributes."""

    name: Name
    columns: dict[str, StrictStr] | None = None
    key: StrictStr | None = None
    window: StrictStr | None = Field(None, examples=["1000 rows", "5 minutes"])
    time: StrictStr | None = None
    delay: StrictStr | None = None
    score: Literal["sum", "max", "min", "product"] | None = None

    def declaration(self) -> Declaration:
        return Declaration(
            "stream", self.name, self.columns, self.key, self.window, self.time, self.delay, self.score
        )


class SubscriptionSpec(Model):
    """The fields shared by all registrations."""

    sql: Sql
    repeat: StrictBool = False
    policy: Policy = "squash"
    throttle: Throttle = 0
    temporary: StrictBool = False

    def options(self) -> Options:
        return Options(self.repeat, self.policy, float(self.throttle), self.temporary)


class NewSubscription(SubscriptionSpec):
    """One standing query."""

    id: Id | None = None
    params: dict[StrictStr, Scalar] = Field(default_factory=dict)

    def register(self, hub: Hub, tenant: Tenant, batch: str | None = None) -> Ack:
        return hub.subscribe(
            tenant.name,
            self.sql,
            self.params,
            grants=tenant.grants,
            id=self.id,
            options=self.options(),
            limit=tenant.quotas.subscriptions,
            batch=batch,
        )


class NewSubscriptions(SubscriptionSpec):
    """A template with many parameters, by column; the column `id` names the subscriptions."""

    params: dict[StrictStr, list[Scalar]] = Field(min_length=1)

    def table(self) -> pa.Table:
        """The parameters as a table. Raises BadRequest."""
        if len({len(column) for column in self.params.values()}) > 1:
            raise BadRequest("the parameters' columns have different lengths")
        try:
            return pa.table(dict(self.params))
        except (pa.ArrowException, OverflowError, TypeError) as failure:
            raise BadRequest(f"the parameters' columns: {failure}") from None


class Statement(Model):
    """A statement to check."""

    sql: Sql


class Keys(Model):
    """Keys of rows to delete."""

    keys: list[StrictStr | StrictBool | Number | StrictFloat] = Field(max_length=1_000_000)


class Moment(Model):
    """A time: ISO-8601, or UTC microseconds."""

    time: StrictStr | Number


class Event(Model):
    """An event to test."""

    event: dict[str, Any]


class NewTenant(Model):
    """A tenant: the condition on rows by source (`*` is every source), and quotas."""

    name: TenantName
    grants: dict[StrictStr, StrictStr] = Field(default_factory=dict, examples=[{"stocks": "owner = 7"}])
    subscriptions: Annotated[StrictInt, Field(ge=0, le=10**9)] = 100_000
    connections: Annotated[StrictInt, Field(ge=0, le=10**9)] = 20_000
    rows_per_second: Annotated[StrictFloat | StrictInt, Field(ge=0, le=1e12)] = 100_000.0

    def tenant(self) -> Tenant:
        quotas = Quotas(self.subscriptions, self.connections, float(self.rows_per_second))
        return Tenant(self.name, dict(self.grants), quotas)


class NewKey(Model):
    """A key for one or more of publish, subscribe, admin."""

    scopes: list[Literal["publish", "subscribe", "admin"]] = Field(min_length=1, max_length=3)
    label: Annotated[StrictStr, Field(max_length=200)] = ""
    #: for another tenant: only by the operator's admins
    tenant: TenantName | None = None


class Hello(Model):
    """The first frame of a connection without an Authorization header."""

    type: Literal["hello"]
    key: StrictStr


class Watch(Model):
    """Start to watch: from a snapshot, or after a cursor."""

    subscription: Id
    cursor: Cursor | None = None
    policy: Policy | None = None
    throttle: Throttle | None = None


class Unwatch(Model):
    """Stop watching, or end, a subscription."""

    subscription: Id
