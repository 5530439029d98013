"""Kernels of a tally: a list of rows ordered by x with prefix counts and exact prefix sums of y.

Rows are ordered by (x, y) and stored in *blocks* of up to SIZE rows; `order` lists the blocks in that order,
wherever they are stored. Each row has the sum of its block up to and including itself, each block the sum of
the blocks before it. The sum over a range of x is the difference of two prefix sums; an insertion or removal
updates one block and passes once over the list of blocks.

A sum is a fixed-point number in int64 columns: *limbs*, of which limb i counts 2**(32 i) units, then the
numbers of positive and of negative infinities. Limbs are signed, and carries are propagated only when the sum
is rounded, so adding and subtracting is exact in any order. A unit is the lowest bit that any y needs:
`first` limbs of 32 bits above 2**-1074, the smallest double. COUNT needs no sums and has no such columns.

Not `blocked_rows_kernels`: those find the lowest y, by summaries in two levels, and hold rows by slot. Here
blocks hold prefix sums, in one level, and equal rows need not be told apart.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from tocsin.arrays.jit import inlined, lean_kernel
from tocsin.arrays.layout import Column, Size
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.kernels.search import find_cut

#: Capacity of a block, in rows.
SIZE = 256

#: Places in `Tally.state`.
N_BLOCKS = 0
FIRST_LIMB = 1
STATE_SIZE = 2

#: The aggregates that follow from a sum and a count.
COUNT = 0
SUM = 1
AVG = 2

#: Columns of a sum after its limbs.
N_INFINITIES = 2

LOW_BITS = 0xFFFFFFFF
FRACTION_BITS = (1 << 52) - 1
HIDDEN_BIT = 1 << 52
EXPONENT_BITS = 0x7FF


class Tally(NamedTuple):
    """Rows by block. `order` lists the blocks in use, then those that are free."""

    #: by (x, y), ascending; infinity after the last
    x: Annotated[Floats, Column("blocks", SIZE, fill=np.inf)]
    y: Annotated[Floats, Column("blocks", SIZE, fill=None)]
    #: the sum of the block's rows up to this one
    part: Annotated[Longs, Column("blocks", SIZE, "columns")]
    #: rows in the block; whether `part` must be recomputed
    size: Annotated[Ints, Column("blocks")]
    is_stale: Annotated[Bools, Column("blocks")]
    #: blocks, as listed
    order: Annotated[Ints, Column("blocks", fill=None)]
    #: as listed: x and y of the first row
    least: Annotated[Floats, Column("blocks")]
    least_y: Annotated[Floats, Column("blocks")]
    #: as listed: rows before, and their sum
    n_before: Annotated[Longs, Column(Size("blocks", plus=1))]
    total: Annotated[Longs, Column(Size("blocks", plus=1), "columns")]
    #: blocks in use, and the limb of a double that limb 0 is
    state: Annotated[Longs, Column(STATE_SIZE)]


@lean_kernel
def span_limbs(y: Floats) -> tuple[int, int]:
    """The least and the largest limb that a finite value begins in; the latter is less if there is none."""
    first, last = EXPONENT_BITS, -1
    for value in y:
        exponent = (np.float64(value).view(np.int64) >> 52) & EXPONENT_BITS
        if value != 0.0 and exponent != EXPONENT_BITS:
            limb = int((exponent - 1) >> 5) if exponent > 0 else 0
            first, last = min(first, limb), max(last, limb)
    return first, last


@lean_kernel
def add_y(total: Longs, y: float, sign: int, first: int) -> None:
    """Add `y` to a sum, or subtract it if `sign` is -1. The sum has the limbs that y needs."""
    if len(total) == 0 or y == 0.0:
        return
    bits = np.float64(y).view(np.int64)
    exponent = (bits >> 52) & EXPONENT_BITS
    if exponent == EXPONENT_BITS:
        total[len(total) - (1 if bits < 0 else 2)] += sign
        return
    fraction = bits & FRACTION_BITS
    shift = np.int64(0)
    if exponent > 0:
        fraction |= HIDDEN_BIT
        shift = exponent - 1
    if bits < 0:
        sign = -sign
    at = (shift >> 5) - first
    within = shift & 31
    low = (fraction & LOW_BITS) << within
    high = ((fraction >> 32) << within) + (low >> 32)
    total[at] += sign * (low & LOW_BITS)
    total[at + 1] += sign * (high & LOW_BITS)
    total[at + 2] += sign * (high >> 32)


@lean_kernel
def round_sum(total: Longs, first: int, limbs: Longs) -> float:
    """The double nearest to a sum, ties to even; NaN where infinities of both signs are in.

    `limbs` is scratch, two longer than the limbs of the sum. Its limbs come out carried.
    """
    size = len(total) - N_INFINITIES
    if total[size] > 0 or total[size + 1] > 0:
        if total[size] > 0 and total[size + 1] > 0:
            return np.nan
        return np.inf if total[size] > 0 else -np.inf
    carry = np.int64(0)
    for i in range(size):
        limb = total[i] + carry
        limbs[i] = limb & LOW_BITS
        carry = limb >> 32
    limbs[size] = carry & LOW_BITS
    limbs[size + 1] = carry >> 32
    is_negative = limbs[size + 1] < 0
    if is_negative:
        carry = np.int64(1)
        for i in range(size + 2):
            limb = (limbs[i] ^ LOW_BITS) + carry if i <= size else ~limbs[i] + carry
            limbs[i] = limb & LOW_BITS
            carry = limb >> 32
    top = size + 1
    while top >= 0 and limbs[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    # The exponent of the highest limb, as a double, is how many bits it has.
    length = np.int64((first + top) * 32 + (np.float64(limbs[top]).view(np.int64) >> 52) - 1022)
    # The lowest bit of the answer; with 53 bits or fewer the sum is a double as it is.
    shift = max(length, np.int64(53)) - 53
    if shift > EXPONENT_BITS - 2:
        return -np.inf if is_negative else np.inf
    at = (shift >> 5) - first
    within = shift & 31
    fraction = np.int64(0)
    for i in range(top + 1):
        if i < at or i > at + 2:
            continue
        if i == at:
            fraction += limbs[i] >> within
        else:
            fraction += limbs[i] << ((i - at) * 32 - within)
    half = ((shift - 1) >> 5) - first
    if shift > 0 and half >= 0 and (limbs[half] >> ((shift - 1) & 31)) & 1 == 1:
        rest = limbs[half] & ((np.int64(1) << ((shift - 1) & 31)) - 1)
        for i in range(half):
            rest |= limbs[i]
        if rest != 0 or (fraction & 1) == 1:
            fraction += 1
    # A fraction with its hidden bit adds one to the exponent; one rounded up to 2**53, two; the
    # largest exponent with no fraction is infinity. So one addition makes the bits of the answer.
    rounded = np.int64((shift << 52) + fraction).view(np.float64)
    return -rounded if is_negative else rounded


@lean_kernel
def finish_total(function: int, count: int, total: Longs, first: int, limbs: Longs) -> float:
    """The aggregate of `count` rows that sum to `total`; NaN for null. `limbs`: see `round_sum`."""
    if function == COUNT:
        return np.float64(count)
    if count == 0:
        return np.nan
    rounded = round_sum(total, first, limbs) + 0.0
    if function == SUM:
        return rounded
    return rounded / count


@lean_kernel
def find_block(tally: Tally, x: float, y: float) -> int:
    """Position in the list of the last block whose first row is not above (x, y); 0 if there is none."""
    return find_cut(tally.least, tally.least_y, 0, int(tally.state[N_BLOCKS]), x, y)


@lean_kernel
def find_row(tally: Tally, block: int, x: float, y: float) -> int:
    """How many rows of a block are below (x, y)."""
    # No search of `kernels.search`: `find_cut` would also count the rows that are equal.
    left = 0
    right = int(tally.size[block])
    while left < right:
        middle = (left + right) >> 1
        at_x = tally.x[block, middle]
        if at_x < x or (at_x == x and tally.y[block, middle] < y):
            left = middle + 1
        else:
            right = middle
    return left


@lean_kernel
def list_block(tally: Tally, at: int, block: int) -> None:
    """Record a block as the `at`-th of the list."""
    tally.order[at] = block
    tally.least[at] = tally.x[block, 0]
    tally.least_y[at] = tally.y[block, 0]
    tally.is_stale[block] = True


@lean_kernel
def split_block(tally: Tally, at: int) -> None:
    """Move the upper half of a listed block to a free one, which is listed after it."""
    n_blocks = int(tally.state[N_BLOCKS])
    block = int(tally.order[at])
    other = int(tally.order[n_blocks])
    half = int(tally.size[block]) >> 1
    tally.size[other] = tally.size[block] - half
    for i in range(tally.size[other]):
        tally.x[other, i] = tally.x[block, half + i]
        tally.y[other, i] = tally.y[block, half + i]
        tally.x[block, half + i] = np.inf
    tally.size[block] = half
    for i in range(n_blocks, at + 1, -1):
        tally.order[i] = tally.order[i - 1]
        tally.least[i] = tally.least[i - 1]
        tally.least_y[i] = tally.least_y[i - 1]
    tally.state[N_BLOCKS] = n_blocks + 1
    list_block(tally, at, block)
    list_block(tally, at + 1, other)


@lean_kernel
def insert_row(tally: Tally, x: float, y: float) -> bool:
    """Add a row; sums are set by `sum_blocks`. Returns whether there was capacity."""
    at = find_block(tally, x, y)
    if tally.size[tally.order[at]] == SIZE:
        if tally.state[N_BLOCKS] == len(tally.order):
            return False
        split_block(tally, at)
        at = find_block(tally, x, y)
    block = int(tally.order[at])
    place = find_row(tally, block, x, y)
    for i in range(tally.size[block], place, -1):
        tally.x[block, i] = tally.x[block, i - 1]
        tally.y[block, i] = tally.y[block, i - 1]
    tally.x[block, place] = x
    tally.y[block, place] = y
    tally.size[block] += 1
    list_block(tally, at, block)
    return True


@lean_kernel
def remove_row(tally: Tally, x: float, y: float) -> None:
    """Remove an existing row, any of several equal ones. Sums are set by `sum_blocks`."""
    at = find_block(tally, x, y)
    block = int(tally.order[at])
    for i in range(find_row(tally, block, x, y) + 1, tally.size[block]):
        tally.x[block, i - 1] = tally.x[block, i]
        tally.y[block, i - 1] = tally.y[block, i]
    tally.size[block] -= 1
    tally.x[block, tally.size[block]] = np.inf
    n_blocks = int(tally.state[N_BLOCKS])
    if tally.size[block] > 0 or n_blocks == 1:
        list_block(tally, at, block)
        return
    for i in range(at, n_blocks - 1):
        tally.order[i] = tally.order[i + 1]
        tally.least[i] = tally.least[i + 1]
        tally.least_y[i] = tally.least_y[i + 1]
    tally.order[n_blocks - 1] = block
    tally.state[N_BLOCKS] = n_blocks - 1


@lean_kernel
def sum_blocks(tally: Tally) -> None:
    """Set the sums of the blocks that changed, and those before every block. Cost: a pass over the list."""
    n_columns = tally.total.shape[1]
    first = int(tally.state[FIRST_LIMB])
    for at in range(tally.state[N_BLOCKS]):
        block = tally.order[at]
        size = int(tally.size[block])
        if tally.is_stale[block] and n_columns > 0:
            for row in range(size):
                part = tally.part[block, row]
                for i in range(n_columns):
                    part[i] = tally.part[block, row - 1, i] if row > 0 else 0
                add_y(part, tally.y[block, row], 1, first)
        tally.is_stale[block] = False
        tally.n_before[at + 1] = tally.n_before[at] + size
        for i in range(n_columns):
            before = tally.total[at, i]
            tally.total[at + 1, i] = before + (tally.part[block, size - 1, i] if size > 0 else 0)


@lean_kernel
def insert_rows(tally: Tally, x: Floats, y: Floats, first: int) -> int:
    """Add rows from `first` on, and set all sums. Returns where it stopped for lack of blocks."""
    at = first
    while at < len(x) and insert_row(tally, x[at], y[at]):
        at += 1
    sum_blocks(tally)
    return at


@lean_kernel
def find_ranks(
    tally: Tally, value: Floats, count: int, is_after: bool, out_at: Longs, out_row: Longs
) -> None:
    """For each of the first `count` values, where the rows below it end, or those not above it if `is_after`:
    a place in the list, and how many rows of that block.

    Logarithmic each. The searches are interleaved and branch-free, so that none waits for another.
    """
    size = int(tally.state[N_BLOCKS])
    for i in range(count):
        out_at[i] = 0
        out_row[i] = 0
    while size > 1:
        half = size >> 1
        for i in range(count):
            x = tally.least[out_at[i] + half]
            out_at[i] += half * int((x < value[i]) | (is_after & (x == value[i])))
        size -= half
    half = SIZE >> 1
    while half > 0:
        for i in range(count):
            x = tally.x[tally.order[out_at[i]], out_row[i] + half - 1]
            out_row[i] += half * int((x < value[i]) | (is_after & (x == value[i])))
        half >>= 1
    for i in range(count):
        block = tally.order[out_at[i]]
        x = tally.x[block, out_row[i]]
        out_row[i] += int((x < value[i]) | (is_after & (x == value[i])))
        # Unused places hold infinity, which may be the value searched for.
        out_row[i] = min(out_row[i], tally.size[block])


@inlined
def sum_between(tally: Tally, first: int, first_row: int, last: int, last_row: int, total: Longs) -> int:
    """Set `total` to the sum of the rows between two ranks; returns how many there are."""
    n_columns = len(total)
    for i in range(n_columns):
        total[i] = tally.total[last, i] - tally.total[first, i]
    if last_row > 0:
        block = tally.order[last]
        for i in range(n_columns):
            total[i] += tally.part[block, last_row - 1, i]
    if first_row > 0:
        block = tally.order[first]
        for i in range(n_columns):
            total[i] -= tally.part[block, first_row - 1, i]
    return int(tally.n_before[last] + last_row - tally.n_before[first] - first_row)
