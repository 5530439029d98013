"""Status codes of kernels, and the positions that every cursor has.

A kernel never raises and never allocates lasting memory: it returns a status, its caller grows what is full
or does what was asked for, and calls again; the kernel resumes at the cursor. Codes are distinct.
"""

from __future__ import annotations

#: Finished.
DONE = 0
#: The output has no capacity left for the next change, message or match.
FULL = 1

#: No capacity left in:
POOL_FULL = 2
EVENTS_FULL = 3
ROWS_FULL = 4
NODES_FULL = 5
POINTS_FULL = 6
LISTS_FULL = 7
LOG_FULL = 8
AROUND_FULL = 9
BLOCKS_FULL = 10
TALLY_FULL = 11
SORT_FULL = 12
SLOTS_FULL = 13

#: A list must be refilled with rows that only the caller can find.
LIST_SHORT = 14
#: The log is so long that applying it at once is cheaper than continuing.
LOG_LONG = 15
#: So many rows change that evaluating from scratch is cheaper.
BULK = 16
#: The structure no longer suits its contents and should be rebuilt.
STALE = 17
#: The scratch memory does not fit the delta.
CROWDED = 18
#: Some queries must be evaluated from scratch.
SEARCH = 19

#: Positions in a cursor (int64): the step, the entry within it, and how much output was written. A kernel's
#: own fields begin at OWN.
STEP = 0
AT = 1
N_OUT = 2
OWN = 3
