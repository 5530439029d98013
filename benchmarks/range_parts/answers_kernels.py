"""Answers kept one by one, as shards would have to that get messages and tell changes: for `chained`."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.arrays.changes import ENTER, LEAVE, UPDATE
from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.types import Floats, Ints, Longs, Ops
from tocsin.indexes.ranges.structures.blocked_rows_kernels import is_before


class Answers(NamedTuple):
    """The k best rows of each subscription, best first; and before the batch, of those that it met."""

    #: int32 (subscriptions, k + 1), float64, int64: the rows
    key: Ints
    y: Floats
    born: Longs
    #: int32 (subscriptions,)
    size: Ints
    #: as above
    old_key: Ints
    old_y: Floats
    old_born: Longs
    old_size: Ints
    #: int64 (subscriptions,): the last batch that met each
    met: Longs


class Told(NamedTuple):
    """Messages, and who gets them."""

    #: int32: subscriptions, message by message
    slot: Ints
    #: int64 (messages,): where those of each end
    end: Longs
    #: int32 (messages,): the row
    key: Ints
    y: Floats
    born: Longs
    gone: Ints


class Changes(NamedTuple):
    """What changed, one row each."""

    slot: Ints
    op: Ops
    key: Ints
    score: Floats
    rank: Ints


@inlined
def find_key(keys: Ints, size: int, key: int) -> int:
    """Where a key is among the first ones, -1 if it is not there."""
    for i in range(size):
        if keys[i] == key:
            return i
    return -1


@inlined
def take_row(answers: Answers, slot: int, key: int, y: float, born: int, is_gone: bool, k: int) -> None:
    """The protocol: the row gets its new value or is taken in, then the k best stay; or it goes."""
    keys, ys, borns = answers.key[slot], answers.y[slot], answers.born[slot]
    size = int(answers.size[slot])
    at = find_key(keys, size, key)
    if at >= 0:
        size -= 1
        for i in range(at, size):
            keys[i], ys[i], borns[i] = keys[i + 1], ys[i + 1], borns[i + 1]
    if not is_gone:
        at = size
        while at > 0 and is_before(y, born, ys[at - 1], borns[at - 1]):
            keys[at], ys[at], borns[at] = keys[at - 1], ys[at - 1], borns[at - 1]
            at -= 1
        keys[at], ys[at], borns[at] = key, y, born
        size = min(size + 1, k)
    answers.size[slot] = size


@lean_kernel
def apply_told(answers: Answers, told: Told, batch: int, k: int, out_met: Ints) -> int:
    """Apply messages in order. Writes who was met, and answers how many."""
    n_met = begin = 0
    for message in range(len(told.end)):
        for i in range(begin, told.end[message]):
            slot = int(told.slot[i])
            if answers.met[slot] != batch:
                answers.met[slot] = batch
                out_met[n_met] = slot
                n_met += 1
                answers.old_size[slot] = answers.size[slot]
                for j in range(answers.size[slot]):
                    answers.old_key[slot, j] = answers.key[slot, j]
                    answers.old_y[slot, j] = answers.y[slot, j]
                    answers.old_born[slot, j] = answers.born[slot, j]
            key, y, born = int(told.key[message]), told.y[message], told.born[message]
            take_row(answers, slot, key, y, born, told.gone[message] != 0, k)
        begin = told.end[message]
    return n_met


@inlined
def write_change(out: Changes, at: int, slot: int, op: int, key: int, score: float, rank: int) -> int:
    """Write one row. Answers where the next one goes."""
    out.slot[at] = slot
    out.op[at] = op
    out.key[at] = key
    out.score[at] = score
    out.rank[at] = rank
    return at + 1


@lean_kernel
def write_changes(answers: Answers, met: Ints, n_met: int, out: Changes) -> int:
    """What is different in the answers of those met: how many rows. There is room for 2k each."""
    n = 0
    for i in range(n_met):
        slot = int(met[i])
        old_size, size = int(answers.old_size[slot]), int(answers.size[slot])
        for j in range(old_size):
            key = int(answers.old_key[slot, j])
            if find_key(answers.key[slot], size, key) < 0:
                n = write_change(out, n, slot, LEAVE, key, answers.old_y[slot, j], 0)
        for op in (UPDATE, ENTER):
            for j in range(size):
                key, y = int(answers.key[slot, j]), answers.y[slot, j]
                before = find_key(answers.old_key[slot], old_size, key)
                is_new = before < 0
                is_other = is_new or answers.old_y[slot, before] != y
                is_other = is_other or answers.old_born[slot, before] != answers.born[slot, j]
                if is_other and is_new == (op == ENTER):
                    n = write_change(out, n, slot, op, key, y, j + 1)
    return n
