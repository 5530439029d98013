"""Upserts and deletes, one after the other."""

from __future__ import annotations

from tocsin.indexes.contract import Bools, Ints, Longs
from tocsin.indexes.shared.jit import kernel

GONE = -1


@kernel
def step_rows(
    slots: Ints,
    deletes: Bools,
    first_number: int,
    first_position: int,
    born: Longs,
    position: Longs,
    out_born: Longs,
    out_position: Longs,
) -> int:
    """Apply each row in turn to `born` and `position` by slot; how many of them delete.

    `out_born[:, i]` is the slot's insertion number before row i and after it, `out_position[:, i]` its place
    likewise; GONE where the key is not there.
    """
    n_deletes = 0
    for i in range(len(slots)):
        slot = slots[i]
        out_born[0, i] = born[slot]
        out_position[0, i] = position[slot]
        if deletes[i]:
            n_deletes += 1
            born[slot] = GONE
            position[slot] = GONE
        else:
            if born[slot] == GONE:
                born[slot] = first_number + i
            position[slot] = first_position + i
        out_born[1, i] = born[slot]
        out_position[1, i] = position[slot]
    return n_deletes


@kernel
def collapse_rows(slots: Ints, entry_of_slot: Ints, born: Longs, position: Longs, out_slots: Ints) -> int:
    """Merge all rows of one slot into one entry, in place: the first one's before, the last one's after.

    `entry_of_slot` is scratch, -1 everywhere, and is left so. Returns the number of entries.
    """
    n_entries = 0
    for i in range(len(slots)):
        entry = entry_of_slot[slots[i]]
        if entry < 0:
            entry = n_entries
            n_entries += 1
            entry_of_slot[slots[i]] = entry
            out_slots[entry] = slots[i]
            born[0, entry] = born[0, i]
            position[0, entry] = position[0, i]
        born[1, entry] = born[1, i]
        position[1, entry] = position[1, i]
    for i in range(n_entries):
        entry_of_slot[out_slots[i]] = -1
    return n_entries
