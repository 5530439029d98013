"""The fewest rectangles that separate some points of a plane from the others, by brute force."""

from __future__ import annotations

from itertools import product

Point = tuple[float, float]


def fewest_boxes(wanted: set[Point], others: set[Point]) -> int:
    """The least number of rectangles that hold each wanted point exactly once and no other point."""
    boxes = set()
    for left, right, low, high in product(wanted, repeat=4):
        box = (left[0], right[0], low[1], high[1])
        if not any(is_inside(point, box) for point in others):
            boxes.add(frozenset(point for point in wanted if is_inside(point, box)))
    boxes.discard(frozenset())
    return _fewest(frozenset(wanted), sorted(boxes, key=len, reverse=True), len(wanted))


def is_inside(point: Point, box: tuple[float, float, float, float]) -> bool:
    return box[0] <= point[0] <= box[1] and box[2] <= point[1] <= box[3]


def _fewest(wanted: frozenset[Point], boxes: list[frozenset[Point]], limit: int) -> int:
    """At most `limit`, which is what is known to do."""
    if not wanted:
        return 0
    if limit <= 1:
        return limit
    point = min(wanted)
    best = limit
    for box in boxes:
        if point in box and box <= wanted:
            best = min(best, 1 + _fewest(wanted - box, boxes, best - 1))
    return best
