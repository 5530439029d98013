"""Settings for the whole suite.

Hypothesis profiles: `ci` is the default; `interpreted` runs fewer examples, for when kernels run as
plain Python (`NUMBA_DISABLE_JIT=1`). `HYPOTHESIS_PROFILE` chooses another. No profile has a deadline:
the first example may have to wait for the compiler.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

_shared = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _shared, max_examples=100)
settings.register_profile("interpreted", _shared, max_examples=10)
settings.register_profile("thorough", _shared, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("interpreted" if INTERPRETED else "ci"))


def examples(count: int) -> int:
    """How many examples to try where the profile's number is not right: fewer of plain Python's."""
    return max(count // 6, 3) if INTERPRETED else count
