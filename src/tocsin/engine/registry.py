"""The registry of subscriptions: their ids, and the group and local slot of each."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.types import Arrays, Ints
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.text import is_text
from tocsin.engine.saving import with_prefix, with_prefix_stripped
from tocsin.errors import DuplicateSubscription, UnknownSubscription

#: Fewer ids are formatted faster by Python than by Arrow.
SMALL_BATCH_IDS = 100


class SubscriptionRegistry:
    """Maps ids to (group, local slot). All costs are constant per subscription."""

    def __init__(self) -> None:
        self.ids = StringInterner()
        #: int32 by slot: number of the subscription's group
        self.group: Ints = np.empty(16, np.int32)
        #: int32 by slot: the subscription's slot in its group
        self.local: Ints = np.empty(16, np.int32)
        self._next_id = 0
        #: incremented whenever a subscription is added or removed
        self.version = 0

    def __len__(self) -> int:
        return len(self.ids)

    def locate(self, sid: str) -> tuple[int, int, int]:
        """(slot, group, local slot) of an id."""
        if not is_text(sid):
            # A long list of ids is abbreviated.
            shown = reprlib.repr(sid)
            raise UnknownSubscription(f"no subscription has the id {shown}: an id is a single text")
        slot = self.ids.find_one(sid)
        if slot < 0:
            raise UnknownSubscription(f"no subscription has the id {sid!r}")
        return slot, int(self.group[slot]), int(self.local[slot])

    def find(self, sids: Any) -> Ints:
        """Slots of many ids."""
        ids = (
            one_array(sids) if isinstance(sids, (pa.Array, pa.ChunkedArray)) else pa.array(sids, pa.string())
        )
        slots = self.ids.find(ids)
        if (slots < 0).any():
            raise UnknownSubscription(f"no subscription has the id {ids[int(np.argmin(slots))].as_py()!r}")
        return slots

    def fresh_ids(self, count: int) -> pa.Array:
        """Ids that are not in use."""
        while True:
            first, self._next_id = self._next_id, self._next_id + count
            if count < SMALL_BATCH_IDS:
                ids = pa.array([f"s{number}" for number in range(first, first + count)], pa.string())
            else:
                numbers = pa.array(np.arange(first, first + count)).cast(pa.string())
                ids = pc.binary_join_element_wise("s", numbers, "")
            if not (self.ids.find(ids) >= 0).any():
                return ids

    def refuse_taken(self, ids: pa.Array) -> None:
        """Raise DuplicateSubscription if an id is in use, or occurs twice."""
        is_taken = self.ids.find(ids) >= 0
        if is_taken.any():
            raise DuplicateSubscription(f"subscription id {ids[int(np.argmax(is_taken))].as_py()!r} is taken")
        counts = ids.value_counts()
        if len(counts) < len(ids):
            again = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
            raise DuplicateSubscription(f"subscription id {again!r} occurs twice")

    def add(self, ids: pa.Array) -> Ints:
        """Slots for new, distinct ids."""
        self.version += 1
        slots, _ = self.ids.add(ids)
        self.group = ensure_capacity(self.group, self.ids.top)
        self.local = ensure_capacity(self.local, self.ids.top)
        return slots

    def remove(self, slots: Ints) -> None:
        """Free the ids of distinct slots."""
        self.version += 1
        self.ids.remove(slots)

    def arrays(self) -> Arrays:
        top = self.ids.top
        ids = dict(with_prefix("ids", self.ids.arrays()))
        next_id = np.array([self._next_id])
        return {
            "group": self.group[:top].copy(),
            "local": self.local[:top].copy(),
            "next_id": next_id,
            **ids,
        }

    def restore(self, arrays: Arrays) -> None:
        self.group = arrays["group"].astype(np.int32)
        self.local = arrays["local"].astype(np.int32)
        self._next_id = int(arrays["next_id"][0])
        self.ids.restore(with_prefix_stripped(arrays, "ids"))
