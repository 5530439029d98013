"""Idempotency-Keys: remembers the reply to each keyed request, so that a retry is not applied again."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from tocsin.gateway.core.protocol import Ack, AnsweredRequest
from tocsin.gateway.failures import KeyReused

#: Keyed requests remembered for each tenant.
REMEMBERED_BATCHES = 10_000


class IdempotencyKeys:
    """The remembered requests by batch name, which starts with the tenant and a slash. Constant cost each."""

    def __init__(self) -> None:
        #: by tenant: requests by batch name, oldest first
        self._of_tenant: dict[str, OrderedDict[str, AnsweredRequest]] = {}

    def find(self, batch: str | None, digest: str) -> Ack | None:
        """The reply to an earlier request with this key. Raises KeyReused if that was a different request."""
        earlier = None if batch is None else self._batches(batch).get(batch)
        if earlier is None:
            return None
        if earlier.digest not in ("", digest):
            raise KeyReused("this Idempotency-Key was used for a different request: send a new one")
        return earlier.ack

    def remember(self, head: Mapping[str, Any], ack: Ack) -> None:
        """Remember the reply to a record's request, if it came with a key."""
        batch = head.get("batch")
        if batch is not None:
            batches = self._batches(batch)
            batches[batch] = AnsweredRequest(head.get("digest", ""), ack)
            if len(batches) > REMEMBERED_BATCHES:
                batches.popitem(last=False)

    def dump(self) -> list[list[Any]]:
        """Plain values for a snapshot. Cost: linear."""
        return [[name, *known] for batches in self._of_tenant.values() for name, known in batches.items()]

    @classmethod
    def load(cls, taken: Iterable[Any], batches: Iterable[Any]) -> IdempotencyKeys:
        """Restore from `dump`, or from `batches` of an older snapshot, which has no digests."""
        keys = cls()
        for name, *known in batches:
            keys._batches(name)[name] = AnsweredRequest("", Ack(*known))
        for name, digest, (number, ids, *rest) in taken:
            keys._batches(name)[name] = AnsweredRequest(digest, Ack(number, tuple(ids), *rest))
        return keys

    def _batches(self, batch: str) -> OrderedDict[str, AnsweredRequest]:
        """The keyed requests of the tenant that a batch belongs to."""
        return self._of_tenant.setdefault(batch.partition("/")[0], OrderedDict())


def digest_of(*parts: bytes) -> str:
    """A digest of the parts that identify a request."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8))
        whole.update(part)
    return whole.hexdigest()


def head_of(batch: str | None, digest: str) -> dict[str, Any]:
    """The fields of a record's head for a keyed request; empty without a key."""
    return {} if batch is None else {"batch": batch, "digest": digest}
