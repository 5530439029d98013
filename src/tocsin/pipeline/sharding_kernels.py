"""Hashes of many texts."""

from __future__ import annotations

from tocsin.indexes.contract import Bytes, Longs
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import hash_bytes


@kernel
def hash_texts(heap: Bytes, offsets: Longs, out_hashes: Longs) -> None:
    """The hash of each text."""
    for text in range(len(out_hashes)):
        out_hashes[text] = hash_bytes(heap, offsets[text], offsets[text + 1])
