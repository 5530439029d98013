"""Work whose memory is known."""

from __future__ import annotations


def hold(megabytes: int) -> None:
    """Hold so many megabytes for a moment."""
    held = bytearray(megabytes << 20)
    # Touched page by page, or the system would not give it.
    held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])


def fail() -> None:
    """Do not even begin."""
    raise RuntimeError("as asked")
