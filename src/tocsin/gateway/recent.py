"""The last matches and firings of every subscription, for those who were not there when they happened.

They are part of no answer, so that a snapshot would be empty without them. What a tenant has of them is
bounded: a busy one pushes out nothing of a quiet one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.gateway.history import History, Told

#: How many of each subscription are kept, unless the settings say otherwise.
RECENT = 10

#: Characters of them for each tenant.
CHARACTERS = 16 << 20


class Recent:
    """The last `count` matches or firings of each subscription. All costs are constant for each of them."""

    def __init__(self, count: int = RECENT, characters: int = CHARACTERS) -> None:
        self.count = count
        self._characters = characters
        #: by tenant; one entry a match, not one a batch
        self._of_tenant: dict[str, History] = {}

    def extend(self, number: int, events: Sequence[tuple[str, str]]) -> None:
        """Keep what record `number` has caused: full ids, each with one change as JSON, in order."""
        by_tenant: dict[str, list[tuple[str, str]]] = {}
        for full, change in events:
            by_tenant.setdefault(_tenant(full), []).append((full, change))
        for tenant, own in by_tenant.items():
            if tenant not in self._of_tenant:
                self._of_tenant[tenant] = History(per_subscription=self.count, characters=self._characters)
            self._of_tenant[tenant].extend(number, own)

    def of(self, full: str) -> str:
        """Those of a subscription as a JSON array, the newest last."""
        kept = self._of_tenant.get(_tenant(full))
        return f"[{','.join(told.changes for told in kept.of(full))}]" if kept else "[]"

    def forget(self, full: str) -> None:
        """Drop those of a subscription."""
        kept = self._of_tenant.get(_tenant(full))
        if kept is not None:
            kept.forget(full)

    def entries(self) -> Iterator[tuple[str, Told]]:
        """All that is kept, in order for each subscription, for a snapshot."""
        for kept in self._of_tenant.values():
            yield from kept.entries()


def _tenant(full: str) -> str:
    return full.partition("/")[0]
