"""The packed predicates of a BE*-Tree, parallel to those of its store."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.types import Floats, Ints, Ops
from tocsin.indexes.matching.access.bound_kernels import PredicateBounds
from tocsin.indexes.matching.access.bounds import encoded_by_key, has_codes, spaced_bounds
from tocsin.indexes.matching.scan.store import PredicateStore
from tocsin.papers.be_star_tree.betree_code_kernels import Codes, pack_expressions

#: Fewer predicates added since bounds were collected are not worth collecting them again.
MIN_STALE = 4096


class TreeCodes:
    """Packs the predicates of a store."""

    def __init__(self, store: PredicateStore, kind: int) -> None:
        """`kind` is SUM … PRODUCT: how weights combine into a score."""
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
        """Whether most predicates were added after bounds were collected."""
        return self._n_since > max(MIN_STALE, self._n_collected)

    def add(self, slots: Ints, out_score: Floats, out_is_exact: Ops) -> None:
        """Pack the predicates of slots by the existing bounds; write scores and exactness by slot.

        Cost: n log n.
        """
        self._ensure_capacity()
        kept = self._store.columns
        self._n_since += int(kept.slots["count"][slots].sum())
        given = np.array(slots, np.int32)
        with np.errstate(all="ignore"):
            pack_expressions(
                kept.predicates, kept.slots, given, self._kind, self.columns, out_score, out_is_exact
            )

    def collect(self, slots: Ints, out_score: Floats, out_is_exact: Ops) -> None:
        """Collect the bounds of all predicates, then `add` all slots. Cost: n log n."""
        predicates, n_keys = self._store.columns.predicates[: self._store.n_predicates], self._store.n_keys
        bounds = _no_bounds(n_keys)
        if len(predicates) and has_codes(predicates, n_keys):
            bounds = encoded_by_key(predicates, n_keys).bounds
        self.columns = self.columns._replace(bounds=bounds)
        self.add(slots, out_score, out_is_exact)
        self._n_collected, self._n_since = len(predicates), 0

    def _ensure_capacity(self) -> None:
        """Ensure columns for all slots, keys and predicates of the store. Cost: amortised constant."""
        columns, first = self.columns, self.columns.bounds.first
        if len(first) <= self._store.n_keys:
            # Newer keys have no bounds.
            more = np.full(self._store.n_keys + 1 - len(first), first[-1], np.int64)
            columns = columns._replace(bounds=columns.bounds._replace(first=np.concatenate([first, more])))
        self.columns = columns._replace(packed=ensure_capacity(columns.packed, self._store.n_predicates))


def _no_bounds(n_keys: int) -> PredicateBounds:
    return spaced_bounds(np.zeros(0), np.zeros(n_keys, np.int64))
