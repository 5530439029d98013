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
) -> None:
    """Apply each row in turn to `born` and `position` by slot.

    `out_born[i]` is the slot's insertion number before row i (column 0) and after it (column 1),
    `out_position[i]` its place likewise; GONE where the key is not there.
    """
    for i in range(len(slots)):
        slot = slots[i]
        out_born[i, 0] = born[slot]
        out_position[i, 0] = position[slot]
        if deletes[i]:
            born[slot] = GONE
            position[slot] = GONE
        else:
            if born[slot] == GONE:
                born[slot] = first_number + i
            position[slot] = first_position + i
        out_born[i, 1] = born[slot]
        out_position[i, 1] = position[slot]


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
            born[entry, 0] = born[i, 0]
            position[entry, 0] = position[i, 0]
        born[entry, 1] = born[i, 1]
        position[entry, 1] = position[i, 1]
    for i in range(n_entries):
        entry_of_slot[out_slots[i]] = -1
    return n_entries
