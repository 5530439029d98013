"""The scheduler: queued commands by tenant, and which tenant was served least recently."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

#: Tenants whose last turn is remembered, with or without queued commands.
REMEMBERED = 10_000

#: Bytes from which on a request is expected to be slow.
LARGE = 1 << 17


class Schedulable(Protocol):
    """A queued command, as the scheduler sees it."""

    @property
    def tenant(self) -> str: ...

    @property
    def size(self) -> int: ...


J = TypeVar("J", bound=Schedulable)


class Turns(Generic[J]):
    """Queued commands by tenant, each tenant's in order. The tenant served least recently is next.

    A tenant keeps its place while its queue is empty, so that one that always sends one more command does not
    overtake another that has waited since.
    """

    def __init__(self) -> None:
        #: queued commands
        self.count = 0
        self._queues: dict[str, deque[J]] = {}
        #: by tenant: the number of its last turn
        self._served: dict[str, int] = {}
        self._turn = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, job: J) -> None:
        """Queue a command. Cost: constant."""
        self._queues.setdefault(job.tenant, deque()).append(job)
        self.count += 1

    def take(self, most: int) -> list[J]:
        """Dequeue the next commands, in the order in which they would be served one by one."""
        turn = self._turn
        # Of two tenants never served, the first to arrive.
        order = [(self._served.get(tenant, 0), place, tenant) for place, tenant in enumerate(self._queues)]
        heapq.heapify(order)
        jobs: list[J] = []
        while order and len(jobs) < most:
            _, place, tenant = order[0]
            queue = self._queues[tenant]
            jobs.append(queue.popleft())
            turn += 1
            if queue:
                heapq.heapreplace(order, (turn, place, tenant))
            else:
                heapq.heappop(order)
                del self._queues[tenant]
        self.count -= len(jobs)
        return jobs

    def settle(self, finished: Iterable[J], rest: Iterable[J]) -> None:
        """Record which of the commands taken have run, in order, and requeue the rest ahead of all others."""
        for job in finished:
            self._turn += 1
            # The newest last.
            self._served.pop(job.tenant, None)
            self._served[job.tenant] = self._turn
        while len(self._served) > REMEMBERED:
            del self._served[next(iter(self._served))]
        front: dict[str, deque[J]] = {}
        for job in rest:
            front.setdefault(job.tenant, deque()).append(job)
            self.count += 1
        for tenant, queue in front.items():
            queue.extend(self._queues.pop(tenant, ()))
        self._queues = {**front, **self._queues}


class Costs:
    """Estimates how long a command takes, from its tenant's recent commands and the size of its request."""

    def __init__(self, slow: float) -> None:
        self._slow = slow
        self._seconds: dict[str, float] = {}

    def note(self, tenant: str, seconds: float) -> None:
        """Record how long a command took. Earlier ones count half."""
        expected = max(seconds, self._seconds.pop(tenant, 0.0) / 2)
        if expected > self._slow / 2:
            self._seconds[tenant] = expected

    def is_slow(self, job: Schedulable) -> bool:
        """Whether a command is likely to be slow."""
        return job.size > LARGE or self._seconds.get(job.tenant, 0.0) > self._slow
