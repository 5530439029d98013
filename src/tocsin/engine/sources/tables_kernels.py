"""Upserts and deletes in sequence."""

from __future__ import annotations

from tocsin.arrays.jit import kernel
from tocsin.arrays.types import Bools, Ints, Longs

NO_ROW = -1


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
    """Apply each row in turn to `born` and `position` by slot; the number of deletes.

    `out_born[:, i]` is the slot's insertion number before row i and after it, `out_position[:, i]` its
    position likewise; GONE where the key is absent.
    """
    n_deletes = 0
    for i in range(len(slots)):
        slot = slots[i]
        out_born[0, i] = born[slot]
        out_position[0, i] = position[slot]
        if deletes[i]:
            n_deletes += 1
            born[slot] = NO_ROW
            position[slot] = NO_ROW
        else:
            if born[slot] == NO_ROW:
                born[slot] = first_number + i
            position[slot] = first_position + i
        out_born[1, i] = born[slot]
        out_position[1, i] = position[slot]
    return n_deletes


@kernel
def collapse_rows(slots: Ints, entry_of_slot: Ints, born: Longs, position: Longs, out_slots: Ints) -> int:
    """Merge all rows of a slot into one entry, in place: the first row's before, the last row's after.

    `entry_of_slot` is scratch, -1 everywhere before and after. Returns the number of entries.
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
