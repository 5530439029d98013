"""Which shard owns a subscription, and the key by which Spark partitions a shard."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tocsin.arrays.texts import one_text, texts_of
from tocsin.arrays.types import Longs
from tocsin.pipeline.sharding_kernels import hash_texts

_MASK = 0xFFFFFFFF
#: Spark's seed for hash partitioning.
_SEED = 42


def shards_of(ids: pa.Array, shards: int) -> Longs:
    """The shards that own subscriptions, by hash of their ids."""
    texts = texts_of(ids)
    hashes = np.empty(len(ids), np.int64)
    hash_texts(texts.heap, texts.offsets, hashes)
    return hashes % shards


def shard_of(sid: str, shards: int) -> int:
    """The shard that owns one subscription."""
    text = one_text(sid)
    hashes = np.empty(1, np.int64)
    hash_texts(text.heap, text.offsets, hashes)
    return int(hashes[0] % shards)


def shard_keys(shards: int) -> list[int]:
    """One key a shard, chosen so that Spark puts each into a partition of its own, of `shards` partitions."""
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < shards:
        keys.setdefault(spark_hash(key) % shards, key)
        key += 1
    return [keys[partition] for partition in range(shards)]


def spark_hash(key: int) -> int:
    """Spark's hash of an int column: 32-bit Murmur3."""
    mixed = _rotated(key * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    code = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    code ^= 4
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK
    code ^= code >> 16
    return code - (1 << 32) if code >> 31 else code


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _MASK
