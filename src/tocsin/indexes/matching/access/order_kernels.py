"""Kernels that group the records of a segment: into families, partitions and blocks."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.layout import Column
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.access.layout_kernels import (
    BLOCK,
    CODE_BITS,
    MASK,
    NEVER,
    Words,
    high_of,
    key_of,
    low_of,
)

#: A *trait* is a key and the part of its bounds in which a range begins: parts of a key; traits of a record
#: that are counted, at most.
TRAITS = 4
MAX_TRAITS = 64
#: A record joins a family that has at least one in KINDRED of its traits.
KINDRED = 2
#: Families of an access key, at most. Shared traits are counted in SHARE_BITS bits for each family.
FAMILIES = 16
#: Records with predicates on this many keys in all, or fewer, are one family.
MIN_FAMILY_KEYS = 16
#: Smaller families share blocks: their own would be half empty.
MIN_FAMILY = 128
SHARE_BITS = 4
SHARE_MASK = (1 << SHARE_BITS) - 1
#: Blocks of a partition, at least.
MIN_PARTITION_BLOCKS = 2
#: Different lengths of ranges, to a factor of two.
LENGTHS = CODE_BITS + 1


class FamilyStatistics(NamedTuple):
    """Attribute statistics of one family: on which keys its records have predicates."""

    #: records with a predicate on the key; 0 between families
    n_asking: Annotated[Ints, Column("keys")]
    #: sum of the fractions of the key's bounds that their ranges cover
    width: Annotated[Floats, Column("keys")]
    #: the last record counted
    last: Annotated[Ints, Column("keys")]
    #: the keys that occur
    keys: Annotated[Ints, Column("keys")]


@kernel
def length_of(packed: Whole) -> np.int64:
    """The length of a predicate's range, as a power of two."""
    span, length = high_of(packed) - low_of(packed), np.int64(0)
    while span > 0:
        span >>= 1
        length += 1
    return length


@kernel
def trait_of(packed: Whole, n_bounds: Longs) -> np.int64:
    """A predicate's key, and the part of the key's bounds in which its range begins."""
    key = key_of(packed)
    return np.int64(TRAITS * key + min(TRAITS * low_of(packed) // max(n_bounds[key], 1), TRAITS - 1))


@kernel
def find_family(traits: Longs, n_traits: Whole, holders: Words, n_families: Whole) -> Whole:
    """The family that has the most of a record's traits, or `n_families` if none has enough."""
    # The counts of all families fit one word if no more traits are counted.
    n_traits = min(n_traits, SHARE_MASK)
    shares = np.uint64(0)
    for number in range(n_traits):
        shares += holders[traits[number]]
    family, most = np.int64(0), np.int64(-1)
    for other in range(n_families):
        shared = np.int64((shares >> np.uint64(SHARE_BITS * other)) & np.uint64(SHARE_MASK))
        if shared > most:
            family, most = np.int64(other), shared
    is_enough = n_families > 0 and (KINDRED * most >= n_traits or n_families == FAMILIES)
    return family if is_enough else n_families


@kernel
def sort_families(
    first: Longs,
    predicate: Longs,
    n_bounds: Longs,
    key_record: Longs,
    order: Ints,
    holders: Words,
    family_of: Bytes,
    out_order: Ints,
    out_first: Ints,
) -> int:
    """Group the records of each access key into families that have predicates on the same keys.

    A record joins the family that has the most of its traits, if that is enough, or else starts a new one; a
    family has the traits of all its records. Small families are merged. Records come in `order`, where
    `key_record` says where each access key begins. `holders` is (traits,), 0 at first: a count of 1 for each
    family that has it. `family_of` is by place. Returns the number of families; `out_first` is where each
    begins.
    """
    n_families, sizes, held = 0, np.zeros(FAMILIES, np.int64), np.empty(holders.shape[0], np.int32)
    traits = np.empty(MAX_TRAITS, np.int64)
    for access in range(key_record.shape[0] - 1):
        begin, end, n_mine = key_record[access], key_record[access + 1], np.int64(0)
        sizes[:] = 0
        n_held = 0
        for place in range(begin, end):
            low, n_traits = first[order[place]], first[order[place] + 1] - first[order[place]]
            n_traits = min(n_traits, traits.shape[0])
            for number in range(n_traits):
                traits[number] = trait_of(predicate[low + number], n_bounds)
            family = find_family(traits, n_traits, holders, n_mine)
            n_mine = np.int64(max(n_mine, family + 1))
            for number in range(n_traits):
                if holders[traits[number]] == 0:
                    held[n_held] = traits[number]
                    n_held += 1
                holders[traits[number]] |= np.uint64(1) << np.uint64(SHARE_BITS * family)
            family_of[place] = family
            sizes[family] += 1
        n_keys = 0
        for number in range(n_held):
            trait = held[number]
            is_first = True
            for other in range(trait - trait % TRAITS, trait):
                is_first &= holders[other] == 0
            n_keys += int(is_first)
        if n_keys <= MIN_FAMILY_KEYS:
            # Columns are few anyway, and hulls are shorter without families.
            family_of[begin:end] = 0
            n_mine, sizes[0] = np.int64(min(end - begin, 1)), end - begin
        to = begin
        for is_small in (False, True):
            is_begun = False
            for family in range(n_mine):
                if (sizes[family] < MIN_FAMILY) != is_small:
                    continue
                if not is_begun or not is_small:
                    out_first[n_families] = to
                    n_families += 1
                    is_begun = True
                for place in range(begin, end):
                    if family_of[place] == family:
                        out_order[to] = order[place]
                        to += 1
        for number in range(n_held):
            holders[held[number]] = np.uint64(0)
    return n_families


@kernel
def find_second(
    first: Longs, predicate: Longs, n_bounds: Longs, access: Whole, mine: Ints, statistics: FamilyStatistics
) -> tuple[np.int64, np.int64]:
    """Another key on which all records of a family have predicates, or the access key; blocks of a partition.

    The key with the shortest ranges is best. If an event meets `crowded` blocks of the family by the access
    key, it meets one partition of n blocks, and `crowded / n` more, and in each of them one block and n times
    the fraction that a range covers of the second key.
    """
    n_asking, width, last, keys = statistics.n_asking, statistics.width, statistics.last, statistics.keys
    n_keys = 0
    for place in range(mine.shape[0]):
        record = mine[place]
        for number in range(first[record], first[record + 1]):
            packed = predicate[number]
            key = key_of(packed)
            if n_asking[key] == 0:
                keys[n_keys] = key
                n_keys += 1
                width[key] = 0.0
                last[key] = -1
            if last[key] != place:
                last[key] = place
                n_asking[key] += 1
                if low_of(packed) != NEVER:
                    width[key] += (high_of(packed) - low_of(packed) + 1) / n_bounds[key]
    crowded, second, share = width[access] / BLOCK, np.int64(access), np.inf
    for number in range(n_keys):
        key = keys[number]
        if key != access and n_asking[key] == mine.shape[0] and width[key] / mine.shape[0] < share:
            second, share = np.int64(key), width[key] / mine.shape[0]
        n_asking[key] = 0
    if second == access:
        return second, np.int64(0)
    return second, np.int64(min(np.sqrt(crowded / max(share, 1e-9)), mine.shape[0] / BLOCK))


@kernel
def sort_by_place(
    first: Longs, predicate: Longs, key: Whole, least: Whole, records: Ints, out_place: Longs
) -> None:
    """Order records by the lengths of their ranges in a key, and by where these begin.

    Lengths of fewer than `least` records count as the next longer one: a short range among longer ones makes
    no hull longer. `out_place` is in the same order, its bits above CODE_BITS the length.
    """
    n_alike = np.zeros(LENGTHS, np.int64)
    for number in range(records.shape[0]):
        packed = np.int64(0)
        for each in range(first[records[number]], first[records[number] + 1]):
            if key_of(predicate[each]) == key:
                packed = predicate[each]
        length = length_of(packed)
        n_alike[length] += 1
        out_place[number] = length << CODE_BITS | low_of(packed)
    counted = np.arange(LENGTHS)
    for short in range(LENGTHS - 1):
        if n_alike[short] < least:
            n_alike[short + 1] += n_alike[short]
            n_alike[short] = 0
    for short in range(LENGTHS - 2, -1, -1):
        if n_alike[short] == 0:
            counted[short] = counted[short + 1]
    for number in range(records.shape[0]):
        length, low = out_place[number] >> CODE_BITS, out_place[number] & MASK
        out_place[number] = counted[length] << CODE_BITS | low
    order = np.argsort(out_place[: records.shape[0]], kind="mergesort")
    records[:] = records[order]
    out_place[: records.shape[0]] = out_place[order]


@kernel
def cut_partitions(
    first: Longs,
    predicate: Longs,
    n_bounds: Longs,
    key_record: Longs,
    family_first: Ints,
    order: Ints,
    statistics: FamilyStatistics,
    out_first: Ints,
    out_key: Ints,
) -> int:
    """Cut families into partitions where that makes an event meet fewer blocks; order these by a second key.

    Records come in `order`, which is changed. Returns the number of partitions: `out_first` is where each
    begins, `out_key` the key of its blocks' hulls. A family that is not cut is one partition.
    """
    n_partitions, access, place = 0, 0, np.empty(order.shape[0], np.int64)
    for family in range(family_first.shape[0] - 1):
        begin, end = family_first[family], family_first[family + 1]
        while key_record[access + 1] <= begin:
            access += 1
        mine, key, size = order[begin:end], np.int64(access), np.int64(0)
        if mine.shape[0] > MIN_PARTITION_BLOCKS * BLOCK:
            key, size = find_second(first, predicate, n_bounds, access, mine, statistics)
        if size < MIN_PARTITION_BLOCKS:
            out_first[n_partitions], out_key[n_partitions] = begin, access
            n_partitions += 1
            continue
        sort_by_place(first, predicate, access, size * BLOCK, mine, place)
        here, first_partition = np.int64(0), n_partitions
        while here < mine.shape[0]:
            # Ranges of another length begin another partition.
            length, behind = place[here] >> CODE_BITS, here
            while behind < mine.shape[0] and place[behind] >> CODE_BITS == length:
                behind += 1
            n_alike = max(np.int64(1), (behind - here) // (size * BLOCK))
            for number in range(n_alike):
                out_first[n_partitions] = begin + here + number * (behind - here) // n_alike
                out_key[n_partitions] = key
                n_partitions += 1
            here = behind
        for partition in range(first_partition, n_partitions):
            behind = np.int64(end if partition + 1 == n_partitions else out_first[partition + 1])
            mine = order[out_first[partition] : behind]
            # A literal would compile another signature.
            sort_by_place(first, predicate, key, np.int64(BLOCK), mine, place)
    return n_partitions
