"""The packed predicates of a BE*-Tree: beside those of its store, in the same places."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Floats, Ints, Ops
from tocsin.indexes.matching.bound_kernels import Bounds
from tocsin.indexes.matching.bounds import encoded_by_key, has_codes, spaced_bounds
from tocsin.indexes.matching.store import PredicateStore
from tocsin.indexes.shared.columns import grown
from tocsin.papers.be_star_tree.betree_code_kernels import Codes, pack_expressions

#: Fewer predicates that came after the bounds were collected are not worth collecting them again.
FEW = 4096


class TreeCodes:
    """Packs what is in a store."""

    def __init__(self, store: PredicateStore, kind: int) -> None:
        """`kind` is SUM … PRODUCT: how weights make a score."""
        self._store = store
        self._kind = np.int64(kind)
        self._n_collected = 0
        self._n_since = 0
        self.columns = Codes(
            bounds=_no_bounds(store.n_keys),
            packed=np.zeros(1, np.int64),
        )

    @property
    def is_stale(self) -> bool:
        """Whether most predicates have come since the bounds were collected."""
        return self._n_since > max(FEW, self._n_collected)

    def add(self, slots: Ints, out_score: Floats, out_is_sure: Ops) -> None:
        """Pack what slots hold by the bounds that there are; scores, and what is sure, go out by slot.

        Cost: n log n.
        """
        self._fit()
        kept = self._store.columns
        self._n_since += int(kept.slots["count"][slots].sum())
        given = np.array(slots, np.int32)
        with np.errstate(all="ignore"):
            pack_expressions(
                kept.predicates, kept.slots, given, self._kind, self.columns, out_score, out_is_sure
            )

    def collect(self, slots: Ints, out_score: Floats, out_is_sure: Ops) -> None:
        """Collect the bounds of all predicates, then as `add`; slots are all. Cost: n log n."""
        predicates, n_keys = self._store.columns.predicates[: self._store.n_predicates], self._store.n_keys
        bounds = _no_bounds(n_keys)
        if len(predicates) and has_codes(predicates, n_keys):
            bounds = encoded_by_key(predicates, n_keys).bounds
        self.columns = self.columns._replace(bounds=bounds)
        self.add(slots, out_score, out_is_sure)
        self._n_collected, self._n_since = len(predicates), 0

    def _fit(self) -> None:
        """Have columns for all slots, keys and predicates of the store. Cost: amortised constant."""
        columns, first = self.columns, self.columns.bounds.first
        if len(first) <= self._store.n_keys:
            # Keys that have come since have no bounds.
            more = np.full(self._store.n_keys + 1 - len(first), first[-1], np.int64)
            columns = columns._replace(bounds=columns.bounds._replace(first=np.concatenate([first, more])))
        self.columns = columns._replace(packed=grown(columns.packed, self._store.n_predicates))


def _no_bounds(n_keys: int) -> Bounds:
    return spaced_bounds(np.zeros(0), np.zeros(n_keys, np.int64))
