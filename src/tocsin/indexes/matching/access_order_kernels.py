"""Kernels that say which records of the access index come together: in families, strips and blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.access_layout_kernels import (
    BLOCK,
    CODE_BITS,
    MASK,
    NEVER,
    Words,
    high_of,
    key_of,
    low_of,
)
from tocsin.indexes.shared.jit import kernel
from tocsin.indexes.shared.names_kernels import Whole

#: Keys alike are told apart by where ranges begin, in so many shares; a record has so many traits at most.
TRAITS = 4
MOST_TRAITS = 64
#: A record is of a family that has at least one of so many of its traits.
KINDRED = 2
#: Families of an access key, at most; how many traits of a record each has is counted in so many bits.
FAMILIES = 16
#: Records that ask for so many different keys, or less, are one family.
FEW_KEYS = 16
#: Smaller families share blocks, which would be half empty.
SMALL = 128
SHARE_BITS = 4
SHARE_MASK = (1 << SHARE_BITS) - 1
#: Blocks of a strip, at least.
STRIP = 2
#: How long a range is, to a factor of two: so many different lengths.
LENGTHS = CODE_BITS + 1


class Census(NamedTuple):
    """What the records of one family ask for, by key."""

    #: int32 (keys,): records that ask for the key; 0 between families
    n_asking: Ints
    #: float64 (keys,): the shares of the key's bounds that they ask for, in all
    width: Floats
    #: int32 (keys,): the record that asked last
    last: Ints
    #: int32: the keys
    keys: Ints


@kernel
def length_of(packed: Whole) -> np.int64:
    """How long the range of a predicate is, to a factor of two."""
    span, length = high_of(packed) - low_of(packed), np.int64(0)
    while span > 0:
        span >>= 1
        length += 1
    return length


@kernel
def trait_of(packed: Whole, n_bounds: Longs) -> np.int64:
    """A predicate's key, and in which share of the key's bounds its range begins."""
    key = key_of(packed)
    return np.int64(TRAITS * key + min(TRAITS * low_of(packed) // max(n_bounds[key], 1), TRAITS - 1))


@kernel
def find_family(traits: Longs, n_traits: Whole, holders: Words, n_families: Whole) -> Whole:
    """The family that has the most traits of a record, or `n_families` if none has enough of them."""
    # The counts of all families in one word. So many traits are enough to tell.
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
    """Bring records that ask for the same together, among those of an access key, which come in `order`.

    A record is of the family that has the most of its traits, if these are enough, or else the first of a
    new one; a family has the traits of all its records. Small families are put together. `key_record` says
    where each access key begins in `order`. `holders` is (traits,), 0 at first: a count of 1 for each family
    that has it. `family_of` is by place. Returns how many families there are; `out_first`: where each begins.
    """
    n_families, sizes, held = 0, np.zeros(FAMILIES, np.int64), np.empty(holders.shape[0], np.int32)
    traits = np.empty(MOST_TRAITS, np.int64)
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
        if n_keys <= FEW_KEYS:
            # Columns are few as it is, and hulls are shorter without families.
            family_of[begin:end] = 0
            n_mine, sizes[0] = np.int64(min(end - begin, 1)), end - begin
        to = begin
        for is_small in (False, True):
            is_begun = False
            for family in range(n_mine):
                if (sizes[family] < SMALL) != is_small:
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
    first: Longs, predicate: Longs, n_bounds: Longs, access: Whole, mine: Ints, census: Census
) -> tuple[np.int64, np.int64]:
    """Another key that all records of a family ask for, or the access key; and how many blocks a strip has.

    A key in which ranges are short is the best. With `crowded` blocks of the family met in the access key, an
    event meets one strip of n blocks, and `crowded / n` more, and in each of them one block and n times the
    share that a range has of the second key.
    """
    n_asking, width, last, keys = census.n_asking, census.width, census.last, census.keys
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
    """Order records by how long their ranges in a key are, and by where these begin.

    Lengths that fewer than `least` have count as the next longer one: a short range among longer ones makes
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
def lay_strips(
    first: Longs,
    predicate: Longs,
    n_bounds: Longs,
    key_record: Longs,
    family_first: Ints,
    order: Ints,
    census: Census,
    out_first: Ints,
    out_key: Ints,
) -> int:
    """Cut families into strips, where that makes an event meet fewer blocks; order those by a second key.

    Records come in `order`, which is changed. Returns how many strips there are: `out_first` is where each
    begins, `out_key` the key in which its blocks have their hulls. A family that is not cut is one strip.
    """
    n_strips, access, place = 0, 0, np.empty(order.shape[0], np.int64)
    for family in range(family_first.shape[0] - 1):
        begin, end = family_first[family], family_first[family + 1]
        while key_record[access + 1] <= begin:
            access += 1
        mine, key, size = order[begin:end], np.int64(access), np.int64(0)
        if mine.shape[0] > STRIP * BLOCK:
            key, size = find_second(first, predicate, n_bounds, access, mine, census)
        if size < STRIP:
            out_first[n_strips], out_key[n_strips] = begin, access
            n_strips += 1
            continue
        sort_by_place(first, predicate, access, size * BLOCK, mine, place)
        here, first_strip = np.int64(0), n_strips
        while here < mine.shape[0]:
            # Ranges of another length begin another strip.
            length, behind = place[here] >> CODE_BITS, here
            while behind < mine.shape[0] and place[behind] >> CODE_BITS == length:
                behind += 1
            n_alike = max(np.int64(1), (behind - here) // (size * BLOCK))
            for number in range(n_alike):
                out_first[n_strips] = begin + here + number * (behind - here) // n_alike
                out_key[n_strips] = key
                n_strips += 1
            here = behind
        for strip in range(first_strip, n_strips):
            behind = np.int64(end if strip + 1 == n_strips else out_first[strip + 1])
            mine = order[out_first[strip] : behind]
            # As a literal it would make a signature of its own.
            sort_by_place(first, predicate, key, np.int64(BLOCK), mine, place)
    return n_strips
