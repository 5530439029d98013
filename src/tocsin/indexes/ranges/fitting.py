"""Messages made without a look at the subscriptions, fitted to those there are."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.ranges.fitting_kernels import fit_tiles
from tocsin.indexes.ranges.messages import CURSOR_SIZE, N_NOTES, N_TILES, Messages
from tocsin.indexes.ranges.points import Points


def fit_messages(points: Points, messages: Messages) -> Messages:
    """The same to the same subscriptions, in fewer messages, none of which reaches nobody.

    Paint-Sparse's snap and greedy merge, for tiles of any origin. Cost: two or three looks at the points for
    each tile.
    """
    points.tend()
    out = Messages.empty(len(messages.note))
    cursor = np.zeros(CURSOR_SIZE, np.int64)
    # Next to the largest double comes infinity, and next to 0 a number that is hardly one.
    with np.errstate(over="ignore", under="ignore"):
        fit_tiles(points.grid, messages, out, cursor)
    return out.first(int(cursor[N_TILES]), int(cursor[N_NOTES]))
