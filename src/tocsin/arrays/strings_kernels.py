"""Kernels of `StringInterner`: hashing, probing, ordering and copying of byte strings in a heap.

The hash table uses open addressing with linear probing. A removal shifts later entries back, so there are
no tombstones, and the table depends on its content and history alone.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Bools, Bytes, Ints, Longs

#: An integer in a kernel: Python's and NumPy's compile to the same.
Whole: TypeAlias = int | np.int64

#: Positions in `InternerColumns.state`.
TOP = 0
N_FREE = 1
HEAP_USED = 2
HEAP_LIVE = 3
N_STATE = 4

#: 32-bit FNV-1a, then a multiplicative mix. All products stay below 2**63: no overflow anywhere.
MASK_32 = 0xFFFFFFFF
FNV_OFFSET = 0x811C9DC5
FNV_PRIME = 0x01000193
MIX_PRIME = 0x045D9F3B


class InternerColumns(NamedTuple):
    """The columns of a `StringInterner`. A free slot has length -1."""

    #: uint8: the bytes of all strings, and garbage left by removed ones.
    heap: Bytes
    #: int64 (slots,): where a string begins in `heap`.
    starts: Longs
    #: int32 (slots,): bytes of a string; -1 where the slot is free.
    lengths: Ints
    #: int64 (slots,): 32-bit hash of a string.
    hashes: Longs
    #: int32 (power of two,): slot of a string, at or after the position its hash gives; -1 for none.
    table: Ints
    #: int32: stack of free slots below `top`.
    free: Ints
    #: int64 (N_STATE,): slots ever used, free slots, heap bytes written, heap bytes that are not garbage.
    state: Longs


@kernel
def hash_bytes(heap: Bytes, start: Whole, end: Whole) -> Whole:
    """A 32-bit hash of `heap[start:end]`."""
    code = np.int64(FNV_OFFSET)
    for place in range(start, end):
        code = ((code ^ np.int64(heap[place])) * FNV_PRIME) & MASK_32
    code = ((code ^ (code >> 16)) * MIX_PRIME) & MASK_32
    return code ^ (code >> 15)


@kernel
def compare_bytes(
    left: Bytes, left_start: Whole, left_length: Whole, right: Bytes, right_start: Whole, right_length: Whole
) -> int:
    """-1, 0 or 1 as the left bytes come before, are equal to, or come after the right ones."""
    for place in range(min(left_length, right_length)):
        a = left[left_start + place]
        b = right[right_start + place]
        if a != b:
            return -1 if a < b else 1
    if left_length == right_length:
        return 0
    return -1 if left_length < right_length else 1


@kernel
def compare_interned(heap: Bytes, starts: Longs, lengths: Ints, a: Whole, b: Whole) -> int:
    """-1, 0 or 1 as the string in slot `a` comes before, equals or comes after that in `b`, by bytes."""
    return compare_bytes(heap, starts[a], np.int64(lengths[a]), heap, starts[b], np.int64(lengths[b]))


@kernel
def probe_table(strings: InternerColumns, code: Whole, heap: Bytes, start: Whole, end: Whole) -> Whole:
    """Position in the table of the string `heap[start:end]`, or the empty one where it would go."""
    mask: int = strings.table.shape[0] - 1
    place = code & mask
    while True:
        slot = strings.table[place]
        if slot < 0:
            return place
        if strings.hashes[slot] == code:
            length = np.int64(strings.lengths[slot])
            # Two strings may share a 32-bit hash, so the bytes decide.
            if compare_bytes(strings.heap, strings.starts[slot], length, heap, start, end - start) == 0:
                return place
        place = (place + 1) & mask


@kernel
def find_strings(strings: InternerColumns, heap: Bytes, offsets: Longs, out_slots: Ints) -> None:
    """The slot of each text, -1 where absent."""
    for text in range(offsets.shape[0] - 1):
        start, end = offsets[text], offsets[text + 1]
        code = hash_bytes(heap, start, end)
        out_slots[text] = strings.table[probe_table(strings, code, heap, start, end)]


@kernel
def add_strings(
    strings: InternerColumns, heap: Bytes, offsets: Longs, begin: int, out_slots: Ints, out_is_new: Bools
) -> int:
    """Find or add each text from number `begin` on; the number of the first without capacity."""
    state = strings.state
    capacity = strings.table.shape[0] // 2
    n_texts: int = offsets.shape[0] - 1
    for text in range(begin, n_texts):
        start, end = offsets[text], offsets[text + 1]
        code = hash_bytes(heap, start, end)
        place = probe_table(strings, code, heap, start, end)
        slot = np.int64(strings.table[place])
        out_is_new[text] = slot < 0
        if slot < 0:
            is_crowded = (
                state[TOP] - state[N_FREE] >= capacity
                or state[HEAP_USED] + end - start > strings.heap.shape[0]
            )
            if is_crowded or (state[N_FREE] == 0 and state[TOP] == strings.starts.shape[0]):
                return text
            if state[N_FREE] > 0:
                state[N_FREE] -= 1
                slot = np.int64(strings.free[state[N_FREE]])
            else:
                slot = state[TOP]
                state[TOP] += 1
            used = state[HEAP_USED]
            for byte in range(end - start):
                strings.heap[used + byte] = heap[start + byte]
            strings.starts[slot] = used
            strings.lengths[slot] = end - start
            strings.hashes[slot] = code
            strings.table[place] = slot
            state[HEAP_USED] += end - start
            state[HEAP_LIVE] += end - start
        out_slots[text] = slot
    return n_texts


@kernel
def remove_strings(strings: InternerColumns, slots: Ints) -> None:
    """Free distinct slots in use. `free` has the capacity."""
    state = strings.state
    mask = strings.table.shape[0] - 1
    for slot in slots:
        hole = strings.hashes[slot] & mask
        while strings.table[hole] != slot:
            hole = (hole + 1) & mask
        # An entry moves back into the hole unless its home lies cyclically in (hole, place].
        place = hole
        while True:
            place = (place + 1) & mask
            mover = strings.table[place]
            if mover < 0:
                break
            if (place - (strings.hashes[mover] & mask)) & mask >= (place - hole) & mask:
                strings.table[hole] = mover
                hole = place
        strings.table[hole] = -1
        state[HEAP_LIVE] -= strings.lengths[slot]
        strings.lengths[slot] = -1
        strings.free[state[N_FREE]] = slot
        state[N_FREE] += 1


@kernel
def fill_table(strings: InternerColumns) -> None:
    """Hash every string in use into an empty table."""
    mask = strings.table.shape[0] - 1
    for slot in range(strings.state[TOP]):
        if strings.lengths[slot] >= 0:
            start = strings.starts[slot]
            code = hash_bytes(strings.heap, start, start + np.int64(strings.lengths[slot]))
            strings.hashes[slot] = code
            place = code & mask
            while strings.table[place] >= 0:
                place = (place + 1) & mask
            strings.table[place] = slot


@kernel
def measure_texts(lengths: Ints, slots: Longs, out_offsets: Longs) -> int:
    """Offsets of the texts of slots, concatenated; their total length."""
    out_offsets[0] = 0
    for text in range(slots.shape[0]):
        out_offsets[text + 1] = out_offsets[text] + lengths[slots[text]]
    return int(out_offsets[slots.shape[0]])


@kernel
def copy_texts(heap: Bytes, starts: Longs, slots: Longs, offsets: Longs, out_heap: Bytes) -> None:
    """Copy the text of each slot, of `offsets[i + 1] - offsets[i]` bytes, to `offsets[i]`."""
    # Unsigned indexes: a signed one may be negative, which costs a check at each use.
    for text in range(slots.shape[0]):
        start, first = np.uint64(starts[slots[text]]), np.uint64(offsets[text])
        for place in range(first, np.uint64(offsets[text + 1])):
            out_heap[place] = heap[start + (place - first)]
