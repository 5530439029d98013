"""Requests to the hub and its replies, as plain values."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.gateway.core.catalog import Subscription
from tocsin.gateway.core.history import DeliveredBatch


class Options(NamedTuple):
    """Delivery options of a subscription, and whether it is temporary."""

    repeat: bool = False
    policy: str = "squash"
    throttle: float = 0.0
    temporary: bool = False


LASTING = Options()


class Ack(NamedTuple):
    """The reply to a mutation: record number, ids of new subscriptions, number of rows. On disk as a list."""

    number: int
    ids: tuple[str, ...] = ()
    rows: int = 0
    #: changes of the requesting tenant's own subscriptions
    changes: int = 0
    #: changes of all subscriptions: only for metrics
    caused: int = 0


class AnsweredRequest(NamedTuple):
    """A request that came with an Idempotency-Key: its digest and its reply."""

    #: of everything that identifies the request; empty if unknown
    digest: str
    ack: Ack


class WatchRequest(NamedTuple):
    """A client's request to watch a subscription, with the last record that it received, if any."""

    tenant: str
    name: str
    after: int | None


class WatchStart(NamedTuple):
    """How a watch starts: `kind` is `snapshot`, `resumed` or `too-old`."""

    kind: str
    number: int
    subscription: Subscription
    #: for a snapshot: the answer as a JSON array of enters
    changes: str = "[]"
    #: for a resumption: the batches that the client missed
    batches: tuple[DeliveredBatch, ...] = ()
    #: for a threshold: the weight so far and the weight still missing
    progress: str | None = None
    #: for a match or a threshold: its latest events as a JSON array of changes
    recent: str | None = None
