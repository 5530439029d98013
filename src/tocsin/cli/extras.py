"""Parts that are installed on their own: what is missing is named, with the line that adds it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: What the pipeline needs beyond the core.
SPARK = ("pyspark", "pydantic", "pandas", "google")


@contextmanager
def spark_extra() -> Iterator[None]:
    """Turn a missing package of the `spark` extra into advice."""
    try:
        yield
    except ModuleNotFoundError as failure:
        if (failure.name or "").split(".")[0] not in SPARK:
            raise
        raise SystemExit(
            f"{failure.name} is not installed; this command needs: pip install 'tocsin[spark]'"
        ) from None
