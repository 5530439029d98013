"""Zones are all of space, each point once; a message goes to each zone that it meets, once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.naive import Box, areas, boxes_of, maps, owners, value
from tocsin.engine.spaces.messages import SCHEMA
from tocsin.errors import StateError
from tocsin.network.areas import Areas, areas_of_table, points_of
from tocsin.network.zones import Zones


@given(maps(), st.data())
def test_every_point_has_one_owner(zones: Zones, data: st.DataObject) -> None:
    zones.check_invariants()
    point = data.draw(st.tuples(*[value] * (2 * zones.dimensions)))
    assert owners(boxes_of(zones), point) == zones.find(np.array([point])).tolist()


@given(maps(), st.data())
def test_a_message_goes_to_each_zone_that_it_meets_once(zones: Zones, data: st.DataObject) -> None:
    area = data.draw(areas(zones.dimensions))
    found, ends = zones.intersecting(Areas(np.array([area.low]), np.array([area.high])))
    expected = [zone for zone, box in enumerate(boxes_of(zones)) if box.intersects(area)]
    assert sorted(found.tolist()) == expected
    assert ends.tolist() == [len(expected)]


@given(maps(), st.data())
@settings(max_examples=30)
def test_a_split_keeps_what_it_does_not_cut(zones: Zones, data: st.DataObject) -> None:
    shape = st.tuples(*[value] * (2 * zones.dimensions))
    points = np.array(data.draw(st.lists(shape, min_size=1, max_size=20)), np.float64)
    after = zones.split(points, len(zones) + 2)
    assert after.version == zones.version + 1
    assert after.refines(zones)
    assert zones.refines(after) == (len(after) == len(zones))
    before_zone, after_zone = zones.find(points), after.find(points)
    moved = before_zone != after_zone
    assert (after_zone[moved] >= len(zones)).all(), "who moves, moves to a new zone"


@given(maps())
def test_a_map_is_read_back_to_the_bit(zones: Zones) -> None:
    again = Zones.from_json(zones.to_json())
    again.check_invariants()
    assert again.version == zones.version
    for mine, theirs in zip(zones.tree, again.tree, strict=True):
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()


@pytest.mark.parametrize("text", ["", "{}", '{"format": "other"}', '{"format": "tocsin zones 1"}', "[1]"])
def test_other_texts_are_no_map(text: str) -> None:
    with pytest.raises(StateError, match="not a map of zones"):
        Zones.from_json(text)


def test_zones_are_where_subscriptions_are() -> None:
    random = np.random.default_rng(3)
    lo = random.normal(50, 5, 20_000)
    points = points_of(lo, lo + random.exponential(3, 20_000))
    zones = Zones.build(points, 64)
    held = np.bincount(zones.find(points), minlength=64)
    assert len(zones) == 64
    assert held.min() > 20_000 / 64 / 4
    assert held.max() < 20_000 / 64 * 4


def test_equal_points_are_one_zone() -> None:
    assert len(Zones.build(np.ones((50, 2)), 8)) == 1
    assert len(Zones.build(np.empty((0, 2)), 8)) == 1


def test_a_space_without_a_range_has_one_zone() -> None:
    zones = Zones.whole(0)
    assert zones.find(np.empty((3, 0))).tolist() == [0, 0, 0]
    assert zones.intersecting(Areas(np.empty((2, 0)), np.empty((2, 0))))[0].tolist() == [0, 0]


@given(st.tuples(value, value), st.tuples(value, value), st.tuples(value, value), st.booleans())
def test_areas_say_what_messages_say(
    inner: tuple[float, float], outer: tuple[float, float], range_: tuple[float, float], is_open: bool
) -> None:
    (inner_lo, inner_hi), (outer_lo, outer_hi), (lo, hi) = inner, outer, range_
    row = {name: [bound] for name, bound in (("inner_lo", inner_lo), ("inner_hi", inner_hi))}
    outers = {"outer_lo": [outer_lo], "outer_hi": [None if is_open else outer_hi]}
    made = areas_of_table(pa.Table.from_pylist([{**row, **outers}], schema=SCHEMA), 1)
    area = Box(tuple(made.low[0].tolist()), tuple(made.high[0].tolist()))
    expected = outer_lo < lo <= inner_lo and inner_hi <= hi and (is_open or hi < outer_hi)
    assert area.contains((lo, hi)) == expected
