"""What is asked of the hub, and what it answers, as plain values."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.gateway.book import Held
from tocsin.gateway.history import Told


class Options(NamedTuple):
    """How a subscription wants to be told, and whether it is to last."""

    repeat: bool = False
    policy: str = "squash"
    throttle: float = 0.0
    temporary: bool = False


LASTING = Options()


class Receipt(NamedTuple):
    """The answer to a mutation: the record's number, the subscriptions made, the rows taken."""

    number: int
    ids: tuple[str, ...] = ()
    rows: int = 0
    #: changes of subscriptions of the tenant who asked
    changes: int = 0
    #: changes of all subscriptions: for the metrics alone
    caused: int = 0


class Taken(NamedTuple):
    """A request that was sent with an Idempotency-Key: what it was, and what was answered."""

    #: of all that makes it differ from another request; empty if that was not kept
    digest: str
    receipt: Receipt


class Asking(NamedTuple):
    """A client that wants to watch, and the record that it heard last, if any."""

    tenant: str
    name: str
    after: int | None


class Opening(NamedTuple):
    """How a watch begins: `kind` is `snapshot`, `resumed` or `too-old`."""

    kind: str
    number: int
    held: Held
    #: of a snapshot: the answer as a JSON array of enters
    changes: str = "[]"
    #: of a resumption: what was missed
    batches: tuple[Told, ...] = ()
    #: of a threshold: the weight so far, and what is missing
    progress: str | None = None
    #: of a match or a threshold: what happened last, as a JSON array of changes
    recent: str | None = None
