"""The latest matches and firings of every subscription, for clients that start watching later.

Events are not part of any answer, so a snapshot would be empty without them. The bound is for each tenant: a
busy tenant never evicts a quiet one's events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.gateway.core.history import DeliveredBatch, History

#: Events retained for each subscription by default.
RECENT = 10

#: Characters of events retained for each tenant.
CHARACTERS = 16 << 20


class Recent:
    """The latest `count` matches or firings of each subscription. Constant cost an event."""

    def __init__(self, count: int = RECENT, characters: int = CHARACTERS) -> None:
        self.count = count
        self._characters = characters
        #: by tenant; one entry an event, not one a batch
        self._of_tenant: dict[str, History] = {}

    def extend(self, number: int, events: Sequence[tuple[str, str]]) -> None:
        """Append the events of record `number`: full ids, each with one change as JSON, in order."""
        by_tenant: dict[str, list[tuple[str, str]]] = {}
        for full, change in events:
            by_tenant.setdefault(_tenant(full), []).append((full, change))
        for tenant, own in by_tenant.items():
            if tenant not in self._of_tenant:
                self._of_tenant[tenant] = History(per_subscription=self.count, characters=self._characters)
            self._of_tenant[tenant].extend(number, own)

    def of(self, full: str) -> str:
        """The events of a subscription as a JSON array, newest last."""
        history = self._of_tenant.get(_tenant(full))
        return f"[{','.join(batch.changes for batch in history.of(full))}]" if history else "[]"

    def forget(self, full: str) -> None:
        """Drop the events of a subscription."""
        history = self._of_tenant.get(_tenant(full))
        if history is not None:
            history.forget(full)

    def entries(self) -> Iterator[tuple[str, DeliveredBatch]]:
        """All retained events, in order within each subscription, for a snapshot."""
        for history in self._of_tenant.values():
            yield from history.entries()


def _tenant(full: str) -> str:
    return full.partition("/")[0]
