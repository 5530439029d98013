"""Hashing many texts at once."""

from __future__ import annotations

from tocsin.arrays.jit import kernel
from tocsin.arrays.strings_kernels import hash_bytes
from tocsin.arrays.types import Bytes, Longs


@kernel
def hash_texts(heap: Bytes, offsets: Longs, out_hashes: Longs) -> None:
    """Hash each text."""
    for text in range(len(out_hashes)):
        out_hashes[text] = hash_bytes(heap, offsets[text], offsets[text + 1])
