"""Kernels of `Names`: hashing, probing, ordering and copying of byte strings in a heap.

The table is open addressing with linear probing. A removal shifts later entries back, so there are
no tombstones, and the table depends on its content and history alone.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from tocsin.indexes.contract import Bools, Bytes, Ints, Longs
from tocsin.indexes.shared.jit import kernel

#: A whole number in a kernel: Python's or NumPy's, compiled the same.
Whole: TypeAlias = int | np.int64

#: Places in `NameColumns.state`.
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


class NameColumns(NamedTuple):
    """The columns of a `Names`. A slot that is free has length -1."""

    #: uint8: the bytes of all names; some of it garbage, left by names that were removed.
    heap: Bytes
    #: int64 (slots,): where a name begins in `heap`.
    starts: Longs
    #: int32 (slots,): bytes of a name; -1 where the slot is free.
    lengths: Ints
    #: int64 (slots,): 32-bit hash of a name.
    hashes: Longs
    #: int32 (power of two,): slot of a name at or after its hash's place; -1 for none.
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
def compare_names(heap: Bytes, starts: Longs, lengths: Ints, a: Whole, b: Whole) -> int:
    """-1, 0 or 1 as the name in slot `a` comes before, is, or comes after that in slot `b`, by bytes."""
    return compare_bytes(heap, starts[a], np.int64(lengths[a]), heap, starts[b], np.int64(lengths[b]))


@kernel
def probe_table(names: NameColumns, code: Whole, heap: Bytes, start: Whole, end: Whole) -> Whole:
    """The place in the table of the name `heap[start:end]`, or the empty place where it would go."""
    mask: int = names.table.shape[0] - 1
    place = code & mask
    while True:
        slot = names.table[place]
        if slot < 0:
            return place
        if names.hashes[slot] == code:
            length = np.int64(names.lengths[slot])
            # The hash has 32 bits: two long names may share it, so the bytes decide.
            if compare_bytes(names.heap, names.starts[slot], length, heap, start, end - start) == 0:
                return place
        place = (place + 1) & mask


@kernel
def find_names(names: NameColumns, heap: Bytes, offsets: Longs, out_slots: Ints) -> None:
    """The slot of each text, -1 where absent."""
    for text in range(offsets.shape[0] - 1):
        start, end = offsets[text], offsets[text + 1]
        code = hash_bytes(heap, start, end)
        out_slots[text] = names.table[probe_table(names, code, heap, start, end)]


@kernel
def add_names(
    names: NameColumns, heap: Bytes, offsets: Longs, begin: int, out_slots: Ints, out_is_new: Bools
) -> int:
    """Find or add each text from number `begin` on; the number of the first that found no room."""
    state = names.state
    room = names.table.shape[0] // 2
    n_texts: int = offsets.shape[0] - 1
    for text in range(begin, n_texts):
        start, end = offsets[text], offsets[text + 1]
        code = hash_bytes(heap, start, end)
        place = probe_table(names, code, heap, start, end)
        slot = np.int64(names.table[place])
        out_is_new[text] = slot < 0
        if slot < 0:
            is_crowded = (
                state[TOP] - state[N_FREE] >= room or state[HEAP_USED] + end - start > names.heap.shape[0]
            )
            if is_crowded or (state[N_FREE] == 0 and state[TOP] == names.starts.shape[0]):
                return text
            if state[N_FREE] > 0:
                state[N_FREE] -= 1
                slot = np.int64(names.free[state[N_FREE]])
            else:
                slot = state[TOP]
                state[TOP] += 1
            used = state[HEAP_USED]
            for byte in range(end - start):
                names.heap[used + byte] = heap[start + byte]
            names.starts[slot] = used
            names.lengths[slot] = end - start
            names.hashes[slot] = code
            names.table[place] = slot
            state[HEAP_USED] += end - start
            state[HEAP_LIVE] += end - start
        out_slots[text] = slot
    return n_texts


@kernel
def remove_names(names: NameColumns, slots: Ints) -> None:
    """Free distinct slots in use. `free` has room for them."""
    state = names.state
    mask = names.table.shape[0] - 1
    for slot in slots:
        hole = names.hashes[slot] & mask
        while names.table[hole] != slot:
            hole = (hole + 1) & mask
        # An entry moves back into the hole unless its home lies cyclically in (hole, place].
        place = hole
        while True:
            place = (place + 1) & mask
            mover = names.table[place]
            if mover < 0:
                break
            if (place - (names.hashes[mover] & mask)) & mask >= (place - hole) & mask:
                names.table[hole] = mover
                hole = place
        names.table[hole] = -1
        state[HEAP_LIVE] -= names.lengths[slot]
        names.lengths[slot] = -1
        names.free[state[N_FREE]] = slot
        state[N_FREE] += 1


@kernel
def fill_table(names: NameColumns) -> None:
    """Hash every name in use into an empty table."""
    mask = names.table.shape[0] - 1
    for slot in range(names.state[TOP]):
        if names.lengths[slot] >= 0:
            start = names.starts[slot]
            code = hash_bytes(names.heap, start, start + np.int64(names.lengths[slot]))
            names.hashes[slot] = code
            place = code & mask
            while names.table[place] >= 0:
                place = (place + 1) & mask
            names.table[place] = slot


@kernel
def measure_texts(lengths: Ints, slots: Longs, out_offsets: Longs) -> int:
    """Where the text of each slot begins if they are written one after the other; how long all are."""
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
