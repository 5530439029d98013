"""Invariants of a BE*-Tree after each step. For tests."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.types import Ints
from tocsin.indexes.matching.access.layout_kernels import pack_predicate
from tocsin.indexes.matching.scan.scan_kernels import MatchColumns
from tocsin.papers.be_star_tree.betree_code_kernels import Codes
from tocsin.papers.be_star_tree.betree_layout_kernels import (
    ALL,
    COUNT,
    FIRST,
    IS_RIGID,
    LEAF,
    N_NODES,
    OWN,
    SCORE,
    WHOLE,
    Scratch,
    Tree,
    box_key,
    find_range,
    mark_weights,
    unmark_weights,
)


def check_tree(tree: Tree, scratch: Scratch, columns: MatchColumns, slots: Ints) -> None:
    """Assert that all columns agree, and that the tree holds `slots`."""
    assert (scratch.mark == -1.0).all()
    assert (scratch.asking == 0).all()
    assert scratch.work[0] == 0
    seen: list[int] = []
    _check_bucket(tree, scratch, columns, 0, set(), seen)
    assert sorted(seen) == sorted(slots.tolist())
    assert len(seen) == int(np.count_nonzero(tree.home >= 0))


def check_codes(tree: Tree, codes: Codes, columns: MatchColumns) -> None:
    """Assert that predicates are packed by the nearest bounds, and exact ones by bounds of their own."""
    for slot in np.flatnonzero(tree.home >= 0).tolist():
        start, count = columns.slots[slot].tolist()
        is_exact = True
        for place in range(start, start + count):
            low, high, _, key, test = columns.predicates[place].tolist()
            begin, end = codes.bounds.first[key : key + 2].tolist()
            values = codes.bounds.value[begin:end]
            values = values[~np.isnan(values)]
            first, last = np.searchsorted(values, low, side="right") - 1, np.searchsorted(values, high)
            assert codes.packed[place] == pack_predicate(key, int(first), int(last))
            is_exact &= test < 0 and low in values[max(first, 0) :] and high in values[: last + 1]
        assert tree.is_exact[slot] == is_exact


def _check_bucket(
    tree: Tree, scratch: Scratch, columns: MatchColumns, node: int, used: set[int], seen: list[int]
) -> list[int]:
    """Check a bucket and all below it. Returns the places of their expressions."""
    bucket, detail = tree.nodes[node], tree.details[node]
    own: list[int] = []
    for number in range(bucket["first"], bucket["first"] + bucket["count"]):
        item = tree.items[number]
        assert tree.home[item["slot"]] == node
        assert tree.place[item["slot"]] == number
        assert columns.slots[item["slot"]].tolist() == (item["start"], item["count"])
        assert tree.score[item["slot"]] == item["score"]
        assert tree.is_exact[item["slot"]] == item["is_sure"]
        own.append(number)
        seen.append(int(item["slot"]))
    assert bucket["count"] <= detail["capacity"]
    assert bucket["count"] <= max(int(detail["max_items"]), int(tree.settings[LEAF]))
    listed = list(own)
    partition = int(bucket["partitions"])
    keys: set[int] = set()
    while partition >= 0:
        made = tree.partitions[partition]
        assert made["home"] == node
        key, top = int(made["key"]), int(made["top"])
        assert key not in used | keys
        keys.add(key)
        assert node > 0 or tree.root[key] == partition
        assert tree.details[top]["parent"] == -1
        assert tree.nodes[top]["partition"] == partition
        assert tree.nodes[top]["level"] == bucket["level"] + 1
        below = _check_bucket(tree, scratch, columns, top, used | {key}, seen)
        assert below
        listed += below
        partition = int(made["next"])
    everything = list(listed)
    children = [int(child) for child in (bucket["left"], bucket["right"]) if child >= 0]
    for child in children:
        assert tree.details[child]["parent"] == node
        below = _check_bucket(tree, scratch, columns, child, used, seen)
        assert below
        everything += below
    if node > 0:
        _check_ranges(tree, columns, node, own, listed, everything, children)
        if not tree.settings[IS_RIGID]:
            _check_bounds(tree, scratch, columns, node, own, listed, everything)
    return everything


def _range(tree: Tree, columns: MatchColumns, number: int, key: int) -> tuple[float, float]:
    item = tree.items[number]
    return find_range(columns.predicates, int(item["start"]), int(item["count"]), key)


def _check_ranges(
    tree: Tree,
    columns: MatchColumns,
    node: int,
    own: list[int],
    listed: list[int],
    everything: list[int],
    children: list[int],
) -> None:
    """Everything below is within the bucket, siblings are disjoint, and no item fits a child."""
    bucket = tree.nodes[node]
    for number in everything:
        low, high = _range(tree, columns, number, int(bucket["key"]))
        assert bucket["low"] <= low <= high <= bucket["high"]
    for number in listed:
        low, high = _range(tree, columns, number, int(bucket["key"]))
        assert bucket["own_low"] <= low <= high <= bucket["own_high"]
    if len(children) == 2:
        left, right = (tree.nodes[child] for child in children)
        assert left["high"] < right["low"] or right["high"] < left["low"]
    for number in own:
        low, high = _range(tree, columns, number, int(bucket["key"]))
        for child in children:
            assert not (tree.nodes[child]["low"] <= low and high <= tree.nodes[child]["high"])


def _check_bounds(
    tree: Tree,
    scratch: Scratch,
    columns: MatchColumns,
    node: int,
    own: list[int],
    listed: list[int],
    everything: list[int],
) -> None:
    """Boxes and summaries are tight for the expressions."""
    level, first = int(tree.nodes[node]["level"]), int(tree.details[node]["box"])
    for which, members in ((ALL, everything), (OWN, listed)):
        for dimension in range(level):
            key = box_key(tree, node, dimension)
            ranges = [_range(tree, columns, number, key) for number in members]
            low, high = tree.boxes[first + which * level + dimension].tolist()
            assert low == min((one for one, _ in ranges), default=np.inf)
            assert high == max((one for _, one in ranges), default=-np.inf)
    for which, members in ((ALL, everything), (OWN, own)):
        expected: dict[int, float] = {}
        for number in members:
            item = tree.items[number]
            span = columns.predicates, int(item["start"]), int(item["count"])
            mark_weights(*span, tree.settings[SCORE], scratch.mark)
            for key in np.flatnonzero(scratch.mark >= 0.0).tolist():
                expected[key] = max(expected.get(key, 0.0), float(scratch.mark[key]))
            unmark_weights(*span, scratch.mark)
        begin, count = tree.summaries[node, which, FIRST], tree.summaries[node, which, COUNT]
        entries = tree.entries[begin : begin + count]
        assert count == 0 or entries["key"][0] == WHOLE
        assert dict(zip(entries["key"].tolist(), entries["weight"].tolist(), strict=True)) == expected
    assert tree.state[N_NODES] <= len(tree.nodes)
