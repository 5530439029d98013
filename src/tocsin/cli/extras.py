"""Optional dependencies: names a missing package and the command that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: Packages that the pipeline needs beyond the core.
SPARK_PACKAGES = ("pyspark", "pydantic", "pandas", "google")


@contextmanager
def spark_extra() -> Iterator[None]:
    """Exit with advice if a package of the `spark` extra is missing."""
    try:
        yield
    except ModuleNotFoundError as failure:
        if (failure.name or "").split(".")[0] not in SPARK_PACKAGES:
            raise
        raise SystemExit(
            f"{failure.name} is not installed; this command needs: pip install 'tocsin[spark]'"
        ) from None
