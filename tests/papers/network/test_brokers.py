"""Brokers hand a message to each zone that it must reach, once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.network.naive import areas, maps
from tests.papers.network.naive import Journey
from tocsin.network.areas import Areas
from tocsin.network.zones import Zones
from tocsin.papers.network.brokers import Box, Envelope, brokers_of


@given(maps(), st.data())
def test_a_message_reaches_each_zone_that_it_meets_once(zones: Zones, data: st.DataObject) -> None:
    area = Box(*data.draw(areas(zones.dimensions)))
    start = data.draw(st.integers(0, len(zones) - 1))
    brokers = brokers_of(zones)
    found, _ = zones.intersecting(Areas(np.array([area.low]), np.array([area.high])))
    expected = [zone for zone, broker in enumerate(brokers) if broker.box.intersects(area)]
    assert sorted(found.tolist()) == expected
    journey = Journey(brokers, start, Envelope(area, None))
    assert sorted(journey.delivered) == expected
    assert len(journey.sent) == len(expected) - 1
