"""Quotas of tenants: rows a second, and open connections."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from tocsin.gateway.failures import QuotaExceeded
from tocsin.gateway.registry import Tenant


class Allowance:
    """Token bucket of rows a tenant may publish: holds one second's worth, and may go negative."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def check(self, tenant: Tenant) -> None:
        """Raise QuotaExceeded while the tenant's bucket is empty."""
        left = self._now(tenant)
        if left <= 0:
            rate = tenant.quotas.rows_per_second
            wait = (1 - left) / rate if rate > 0 else 60.0
            raise QuotaExceeded(f"quota of rows exceeded ({rate:g} a second)", retry_after=wait)

    def charge(self, tenant: Tenant, rows: int) -> None:
        """Charge published rows."""
        self._left[tenant.name] = self._now(tenant) - rows, self._clock()

    def _now(self, tenant: Tenant) -> float:
        rate = tenant.quotas.rows_per_second
        left, at = self._left.get(tenant.name, (rate, self._clock()))
        return min(rate, left + rate * (self._clock() - at))


class Connections:
    """Open connections by tenant."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def take(self, tenant: Tenant) -> None:
        """Count one more. Raises QuotaExceeded."""
        if self._open[tenant.name] >= tenant.quotas.connections:
            most = tenant.quotas.connections
            raise QuotaExceeded(f"connection quota exceeded ({most} of {most})", retry_after=1.0)
        self._open[tenant.name] += 1

    def give_back(self, tenant: Tenant) -> None:
        """Count one less."""
        self._open[tenant.name] -= 1
