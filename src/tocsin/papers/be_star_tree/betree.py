"""BE*-Tree and BE-Tree: expressions in a tree of partitions and clusters.

A bucket that overflows is split in three by the ranges of its items in one attribute (non-rigid clustering),
or if that does not help, partitioned by another attribute. Every bucket has a tight bounding box and the
greatest weights below it. BE-Tree, its predecessor, halves space regardless of the items and has no bounds,
so it cannot prune when only the best are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.types import Arrays, Floats, Ints
from tocsin.indexes.matching.access.layout_kernels import LACKING
from tocsin.indexes.matching.conjunctions import (
    Conjunctions,
    PredicateColumns,
    conjunctions_of,
    parameters_of,
    restored_arrays,
    runs_of,
    saved_arrays,
)
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.layout import N_ROWS, SCORES, IdOrder
from tocsin.indexes.matching.reports import (
    changes_of,
    empty_best,
    empty_report,
    enlarged_report,
    sorted_changes,
)
from tocsin.indexes.matching.scan.store import PredicateStore
from tocsin.kernels.status import FULL
from tocsin.papers.be_star_tree.betree_checks import check_codes, check_tree
from tocsin.papers.be_star_tree.betree_codes import TreeCodes
from tocsin.papers.be_star_tree.betree_compaction import compacted
from tocsin.papers.be_star_tree.betree_layout_kernels import (
    ALPHA,
    BETA,
    BIGGEST,
    COUNT,
    DETAIL,
    ENTRY,
    FREE_NODE,
    FREE_PARTITION,
    IS_CAPPED,
    IS_EXHAUSTIVE,
    IS_RARE_FIRST,
    IS_RIGID,
    ITEM,
    LEAF,
    LONGEST,
    N_BOXES,
    N_ENTRIES,
    N_ITEMS,
    N_NODES,
    NODE,
    PARTITION,
    SCORE,
    SETTINGS,
    STATES,
    WANTED_BOXES,
    WANTED_ENTRIES,
    WANTED_ITEMS,
    WANTED_NODES,
    WANTED_PARTITIONS,
    WANTED_WORK,
    WASTED,
    Scratch,
    Tree,
)
from tocsin.papers.be_star_tree.betree_match_kernels import ExpandedEvent, match_tree
from tocsin.papers.be_star_tree.betree_settle_kernels import insert_expressions, settle_buckets
from tocsin.papers.be_star_tree.betree_shrink_kernels import remove_expressions

#: Up to this much waste is not worth compaction.
MIN_WASTE = 4096


@dataclass(frozen=True)
class TreeOptions:
    """Parameters of a tree: `leaf`, `beta` and `alpha` are the paper's."""

    #: items of a bucket, at most, unless it cannot be split
    leaf: int = 32
    #: which attributes partition a bucket first
    first: Literal["rare", "popular"] = "rare"
    split: Literal["exhaustive", "approximate"] = "exhaustive"
    #: how many times as long a range may make a bucket before the directory grows a level above it
    beta: int = 4
    #: percent of a bucket's items that each side of a split gets at least
    alpha: int = 10
    #: an expression's whole weight bounds the best, too, which the paper does not do
    is_capped: bool = True


#: The fastest measured here; the paper has leaves of 5, popular attributes first and no cap.
DEFAULT_OPTIONS = TreeOptions()


class BEStarTree:
    """Holds conjunctions of weighted predicates and finds, for each event, those that it satisfies."""

    is_rigid = False

    def __init__(
        self,
        capacity: int = 16,
        *,
        score_rule: str = "sum",
        options: TreeOptions = DEFAULT_OPTIONS,
        is_batch: bool = True,
    ) -> None:
        """With `is_batch`, conjunctions that outnumber the existing ones are built into the tree at once."""
        self._capacity = capacity
        self._is_batch = is_batch
        self._store = PredicateStore(capacity)
        self._codes = TreeCodes(self._store, SCORES[score_rule])
        self._settings = np.zeros(SETTINGS, np.int64)
        self._settings[[LEAF, BETA, ALPHA]] = options.leaf, options.beta, options.alpha
        self._settings[IS_RIGID] = self.is_rigid
        self._settings[IS_EXHAUSTIVE] = options.split == "exhaustive"
        self._settings[IS_RARE_FIRST] = options.first == "rare"
        self._settings[SCORE] = SCORES[score_rule]
        self._settings[IS_CAPPED] = options.is_capped
        self._n_sweeps = 0
        self._rows = capacity
        self._n_here = 0
        self._reset()

    def __len__(self) -> int:
        return self._n_here

    def register(self, slots: Ints, predicates: Sequence[PredicateColumns] | Conjunctions) -> None:
        """Add n subscriptions, each with one predicate a column set; none is satisfied by every event.

        Cost of one: the buckets on its path and their bounds, and amortised the splits that it causes.
        """
        if len(slots) == 0:
            return
        self._store.add(slots, conjunctions_of(predicates, len(slots)))
        is_many = self._is_batch and len(slots) > len(self)
        self._n_here += len(slots)
        if is_many:
            self._build()
            return
        self._ensure_capacity()
        self._codes.add(slots, self._tree.score, self._tree.is_exact)
        self._apply_kernel(insert_expressions, self._possible(slots), self._store.columns.slots)
        self._compact_if_needed()

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost of one: the buckets above it whose bounds depend on it."""
        if len(slots) == 0:
            return
        self._n_here -= len(slots)
        self._ensure_capacity()
        self._apply_kernel(remove_expressions, np.array(slots, np.int32))
        self._store.remove(slots)
        if self._store.n_sweeps > self._n_sweeps:
            self._build()
        self._compact_if_needed()

    def recycle(self, threshold: float = 0.0) -> int:
        """Dissolve partitions of the root with a rank below a threshold, and reinsert their conjunctions.

        The rank falls with evaluations that fail. Returns the number of reinserted conjunctions. Cost: as to
        remove and to add them.
        """
        tree = self._tree
        roots = tree.root[tree.root >= 0]
        slots = np.flatnonzero(tree.home >= 0).astype(np.int32)
        bad = roots[tree.partitions["rank"][roots] < threshold]
        slots = slots[np.isin(self._root_partitions(slots), bad)]
        if len(slots):
            self._ensure_capacity()
            self._apply_kernel(remove_expressions, slots)
            self._apply_kernel(insert_expressions, slots, self._store.columns.slots)
            self._compact_if_needed()
        return len(slots)

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        """The matches of each event, by slot; with `top`, the best of each event, by rank.

        Cost of an event: the buckets that it meets and their items; for the best, only those whose summaries
        allow a score that is high enough.
        """
        if len(self) == 0 or events.n_events == 0 or top == 0:
            return ChangeSet.empty()
        self._ensure_capacity()
        best = empty_best(1, 0 if top is None else min(top, len(self)))
        columns, expanded = self._store.translate(events), self._empty_expansion(events)
        out = empty_report(self._rows)
        with np.errstate(all="ignore"):
            while not match_tree(
                self._tree, self._store.columns, self._codes.columns, columns, expanded, best, ids, out
            ):
                out = enlarged_report(out, len(out.step) + best.slot.shape[1] + 1)
            n_rows = int(out.progress[N_ROWS])
            self._rows = max(self._capacity, n_rows + n_rows // 4, events.n_events)
            if top is None:
                return sorted_changes(out, events.n_events, self._store.top)
        return changes_of(out.step[:n_rows], out.subscription[:n_rows], out.score[:n_rows], out.rank[:n_rows])

    def result(self, slots: Ints) -> ChangeSet:
        """Nothing: a stream without a window holds no rows."""
        return ChangeSet.empty()

    def live(self) -> Ints:
        """The slots of all subscriptions, ascending. Cost: linear."""
        return self._store.live()

    def conjunctions(self, slots: Ints) -> Conjunctions:
        """The conjunctions of subscriptions. Cost: linear in the whole store."""
        return self._store.conjunctions(slots)

    def parameters(self, slot: int) -> dict[str, object]:
        """The predicates of a subscription, in words. Cost: linear in the whole store."""
        return parameters_of(self._store.conjunctions(np.array([slot], np.int32)))

    def arrays(self) -> Arrays:
        """The conjunction of each slot, in the format of the scan. Cost: linear."""
        counts = self._store.columns.slots["count"][: self._store.top]
        return saved_arrays(counts, self._store.conjunctions(np.flatnonzero(counts >= 0)))

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` was taken from. Cost: as to register all at once."""
        counts, _ = restored_arrays(arrays)
        self._store.restore(arrays)
        self._n_here = int(np.count_nonzero(counts >= 0))
        self._build()

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self._store.check_invariants()
        counts = self._store.columns.slots["count"][: self._store.top]
        slots = np.flatnonzero(counts >= 0).astype(np.int32)
        assert len(slots) == len(self)
        check_tree(self._tree, self._scratch, self._store.columns, self._possible(slots))
        check_codes(self._tree, self._codes.columns, self._store.columns)

    def explain(self) -> str:
        """One line: how it works."""
        tree = self._tree
        n_buckets = int(np.count_nonzero(tree.nodes["level"][: tree.state[N_NODES]] >= 0))
        return f"{len(self)} conjunctions in {n_buckets:,} buckets; an event visits those that it meets"

    def _reset(self) -> None:
        """Start over with nothing but a root."""
        capacity = max(self._capacity, 2)
        state = np.zeros(STATES, np.int64)
        state[N_NODES] = 1
        state[[FREE_NODE, FREE_PARTITION]] = -1
        nodes, details = np.zeros(capacity, NODE), np.zeros(capacity, DETAIL)
        for field in ("left", "right", "partitions", "partition"):
            nodes[field][0] = -1
        details["parent"][0], details["max_items"][0] = -1, self._settings[LEAF]
        self._tree = Tree(
            nodes=nodes,
            details=details,
            partitions=np.zeros(capacity, PARTITION),
            items=np.zeros(capacity, ITEM),
            boxes=np.zeros((capacity, 2)),
            entries=np.zeros(capacity, ENTRY),
            summaries=np.zeros((capacity, 2, 3), np.int32),
            home=np.full(capacity, -1, np.int32),
            place=np.full(capacity, -1, np.int32),
            score=np.zeros(capacity),
            is_exact=np.zeros(capacity, np.int8),
            root=np.full(1, -1, np.int32),
            state=state,
            settings=self._settings,
        )
        self._scratch = Scratch(
            mark=np.full(1, -1.0),
            asking=np.zeros(1, np.int32),
            first=np.zeros(1, np.int32),
            keys=np.zeros(1, np.int32),
            work=np.zeros(64, np.int32),
        )

    def _ensure_capacity(self) -> None:
        """Ensure columns for all slots and keys, and update the largest sizes."""
        tree, scratch, n_keys = self._tree, self._scratch, self._store.n_keys
        self._tree = tree = tree._replace(
            home=ensure_capacity(tree.home, self._store.top, -1),
            place=ensure_capacity(tree.place, self._store.top, -1),
            score=ensure_capacity(tree.score, self._store.top),
            is_exact=ensure_capacity(tree.is_exact, self._store.top),
            root=ensure_capacity(tree.root, n_keys, -1),
        )
        self._scratch = Scratch(
            mark=ensure_capacity(scratch.mark, n_keys, -1.0),
            asking=ensure_capacity(scratch.asking, n_keys),
            first=ensure_capacity(scratch.first, n_keys),
            keys=ensure_capacity(scratch.keys, n_keys),
            work=scratch.work,
        )
        used = slice(int(tree.state[N_NODES]))
        tree.state[BIGGEST] = tree.nodes["count"][used].max()
        tree.state[LONGEST] = tree.summaries[used, :, COUNT].max()

    def _possible(self, slots: Ints) -> Ints:
        """The slots that some event can satisfy: the others stay out of the tree."""
        held = self._store.columns.slots[slots]
        low = self._store.columns.predicates["low"][runs_of(held["start"], held["count"])]
        owner = np.repeat(np.arange(len(slots)), held["count"])
        is_never = np.bincount(owner, np.isnan(low), minlength=len(slots)) > 0
        return np.array(slots, np.int32)[~is_never]

    def _apply_kernel(self, kernel: Callable[..., tuple[int, int]], slots: Ints, *first: np.ndarray) -> None:
        """Run a kernel over slots, and grow the columns whenever it answers FULL."""
        begin = np.int64(0)
        with np.errstate(all="ignore"):
            while True:
                predicates = self._store.columns.predicates
                status, done = kernel(self._tree, *first, predicates, slots, begin, self._scratch)
                begin = np.int64(done)
                if status != FULL:
                    return
                self._grow()

    def _grow(self) -> None:
        """Grow the columns to what a kernel asked for, at least to twice their size."""
        tree, state, work = self._tree, self._tree.state, self._scratch.work
        wanted = {
            "nodes": WANTED_NODES,
            "details": WANTED_NODES,
            "summaries": WANTED_NODES,
            "partitions": WANTED_PARTITIONS,
            "items": WANTED_ITEMS,
            "boxes": WANTED_BOXES,
            "entries": WANTED_ENTRIES,
        }
        larger = {
            name: ensure_capacity(getattr(tree, name), int(state[want])) for name, want in wanted.items()
        }
        self._tree = tree._replace(**larger)
        self._scratch = self._scratch._replace(work=ensure_capacity(work, int(state[WANTED_WORK])))

    def _build(self) -> None:
        """Build everything at once: all in the root, which is then split as far as needed."""
        counts = self._store.columns.slots["count"][: self._store.top]
        slots = self._possible(np.flatnonzero(counts >= 0).astype(np.int32))
        self._n_sweeps = self._store.n_sweeps
        self._reset()
        self._ensure_capacity()
        tree, held = self._tree, self._store.columns.slots[slots]
        items = np.zeros(max(len(slots), 1), ITEM)
        items["slot"][: len(slots)] = slots
        items["start"][: len(slots)], items["count"][: len(slots)] = held["start"], held["count"]
        tree.nodes["count"][0] = tree.details["capacity"][0] = len(slots)
        tree.state[[N_ITEMS, BIGGEST]] = len(slots)
        tree.home[slots], tree.place[slots] = 0, np.arange(len(slots))
        self._tree = tree._replace(items=items)
        self._scratch.work[:2] = 1, 0
        with np.errstate(all="ignore"):
            while settle_buckets(self._tree, self._store.columns.predicates, self._scratch) == FULL:
                self._grow()
        self._compact()

    def _compact_if_needed(self) -> None:
        """Compact if half of the tree is waste, or most predicates came after bounds were collected."""
        state = self._tree.state
        used = int(state[N_ITEMS] + state[N_BOXES] + state[N_ENTRIES])
        if state[WASTED] > max(MIN_WASTE, used // 2) or self._codes.is_stale:
            self._compact()

    def _compact(self) -> None:
        """Rewrite the tree without gaps, with predicates packed in the order of reads."""
        self._tree = tree = compacted(self._tree)
        items = tree.items[: tree.state[N_ITEMS]]
        slots = items["slot"].copy()
        self._store.arrange(slots)
        self._codes.collect(slots, tree.score, tree.is_exact)
        items["start"] = self._store.columns.slots["start"][slots]
        items["score"], items["is_sure"] = tree.score[slots], tree.is_exact[slots]

    def _empty_expansion(self, events: Events) -> ExpandedEvent:
        n_keys, n_nodes = self._store.n_keys, int(self._tree.state[N_NODES])
        missing: Floats = np.full(n_keys, np.nan)
        code = np.full(n_keys, LACKING, np.int64)
        # The key of predicates that cannot be packed: every event meets them.
        code[0] = 0
        return ExpandedEvent(
            low=missing,
            high=missing.copy(),
            weight=np.zeros(n_keys),
            entry=np.zeros(n_keys, np.int64),
            code=code,
            keys=np.empty(n_keys, np.int32),
            stack=np.empty(n_nodes + 1, np.int32),
            found=np.empty(int(self._tree.state[BIGGEST]), np.int32),
            queue_bound=np.empty(n_nodes + 1),
            queue=np.empty(n_nodes + 1, np.int32),
        )

    def _root_partitions(self, slots: Ints) -> Ints:
        """The partition of the root above each slot; -1 for those in the root itself."""
        tree = self._tree
        node = tree.home[slots].copy()
        partition = tree.nodes["partition"][node]
        while True:
            home = np.where(partition >= 0, tree.partitions["home"][partition], 0)
            if not (home > 0).any():
                return partition
            partition = np.where(home > 0, tree.nodes["partition"][home], partition)


class BETree(BEStarTree):
    """The predecessor: space is halved regardless of the items, and buckets have no bounds."""

    is_rigid = True
