"""What the simulator sums up, against parcels handed from broker to broker and plain counting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.ranges_messages import World as Table
from tests.papers.network.naive import Journey, hops
from tocsin.errors import ParameterError
from tocsin.indexes.ranges.messages.messages import Messages
from tocsin.network.areas import areas_of
from tocsin.papers.network.approaches import MESSAGE_BYTES, UNICAST_BYTES, approach_of, spread
from tocsin.papers.network.brokers import Box, Envelope, brokers_of
from tocsin.papers.network.multicast import FAN_OUT, build_hierarchy
from tocsin.papers.network.topology import Topology
from tocsin.papers.network.workloads import NetworkWorkload, Rows
from tocsin.papers.network.world import World
from tocsin.papers.topk_paint.minmax import MarHull
from tocsin.papers.topk_paint.relax import relax_events

MINIMUM = ("S-UN", "S-MN", "CN+", "S-CN", "DS-CN")
DISTANCE = Topology.draw(300, 40, 1).hops()

value = st.integers(0, 9).map(float)
ranges = st.lists(st.tuples(value, value).map(sorted), min_size=1, max_size=40)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    lo, hi = np.array(draw(ranges)).T
    brokers = draw(st.sampled_from([1, 3, 12, 40]))
    return World(np.ascontiguousarray(DISTANCE[:brokers, :brokers]), lo, hi, 4.5)


@st.composite
def works(draw: st.DrawFn) -> NetworkWorkload:
    """A table with few distinct values, and events that change y."""
    rows = draw(st.lists(st.tuples(value, value), min_size=1, max_size=8))
    changes = draw(st.lists(st.tuples(st.integers(0, len(rows) - 1), value), max_size=6))
    x, y = (np.array(column) for column in zip(*rows, strict=True))
    slots = np.array([slot for slot, _ in changes], np.int32)
    born = np.arange(len(rows), dtype=np.int64)
    now, old = y.copy(), []
    for slot, after in changes:
        old.append(now[slot])
        now[slot] = after
    events = Rows(slots, x[slots], np.array([after for _, after in changes], np.float64), born[slots])
    return NetworkWorkload(
        Rows(np.arange(len(rows), dtype=np.int32), x, y, born), events, np.array(old, np.float64)
    )


def journeys(world: World, messages: Messages, start: int | None) -> dict[int, list[Journey]]:
    """Every message of every event, carried by brokers; without a start from where it enters."""
    brokers, areas = brokers_of(world.zones), areas_of(messages)
    found: dict[int, list[Journey]] = {}
    for place, event in enumerate(messages.event.tolist()):
        area = Box(tuple(areas.low[place].tolist()), tuple(areas.high[place].tolist()))
        entry = int(world.zones.find(np.array([area.inner]))[0])
        journey = Journey(brokers, entry if start is None else start, Envelope(area, None))
        found.setdefault(event, []).append(journey)
    return found


def sums(world: World, told: list[Journey]) -> tuple[int, int, int]:
    """Hops, links and the busiest broker's messages."""
    sent = [pair for journey in told for pair in journey.sent + journey.routed]
    senders = [sender for sender, _ in sent]
    stress = max((senders.count(sender) for sender in senders), default=0)
    return len(sent), sum(int(world.distance[pair]) for pair in sent), stress


@given(worlds(), works(), st.booleans())
@settings(max_examples=60)
def test_spreading_is_what_brokers_do(world: World, work: NetworkWorkload, is_entering: bool) -> None:
    painter = MarHull()
    painter.load(*work.table)
    messages = relax_events(*work.events) if is_entering else painter.apply(*work.events)
    tally = spread(world, messages, work.events, is_entering=is_entering)
    told = journeys(world, messages, None if is_entering else world.server)
    for event in range(len(work.old_y)):
        expected = sums(world, told.get(event, []))
        found = (tally.out_hops[event], tally.out_links[event], tally.out_stress[event])
        assert tuple(map(int, found)) == expected


def affected(world: World, work: NetworkWorkload, k: int) -> list[set[int]]:
    """Of each event, the subscriptions whose k best it changes."""
    table, found = Table(), []
    for row in zip(*(column.tolist() for column in work.table), strict=True):
        table.put(*row)
    bounds = list(zip(world.lo.tolist(), world.hi.tolist(), strict=True))
    before = [table.top(lo, hi, k) for lo, hi in bounds]
    for event in zip(*(column.tolist() for column in work.events), strict=True):
        table.put(*event)
        after = [table.top(lo, hi, k) for lo, hi in bounds]
        found.append({slot for slot in range(len(bounds)) if before[slot] != after[slot]})
        before = after
    return found


@given(worlds(), works(), st.sampled_from([1, 2, 3]))
@settings(max_examples=60)
def test_letters_go_to_who_is_affected(world: World, work: NetworkWorkload, k: int) -> None:
    expected = affected(world, work, k)
    for name in ("S-UN", "Unicast") if k == 1 else ("Unicast",):
        approach = approach_of(name, world, k)
        approach.load(work.table)
        traffic = approach.play(work.events, work.old_y)
        assert traffic.sent.tolist() == [len(slots) for slots in expected]
        assert traffic.received.tolist() == traffic.sent.tolist()
        links = [
            sum(int(world.distance[world.server, world.zone[slot]]) for slot in told) for told in expected
        ]
        assert traffic.links.tolist() == links
        assert traffic.sent_bytes.tolist() == [UNICAST_BYTES * len(slots) for slots in expected]


@given(worlds(), works())
@settings(max_examples=60)
def test_a_multicast_reaches_every_gateway(world: World, work: NetworkWorkload) -> None:
    expected = affected(world, work, 1)
    approach = approach_of("S-MN", world, 1)
    approach.load(work.table)
    traffic = approach.play(work.events, work.old_y)
    for event, slots in enumerate(expected):
        gateways = {int(world.zone[slot]) for slot in slots} - {world.server}
        assert int(traffic.received[event]) == len(slots)
        assert int(traffic.hops[event]) >= len(gateways)
        assert int(traffic.stress[event]) <= int(traffic.hops[event])
        assert (int(traffic.bytes[event]) > 0) == bool(gateways)


@given(worlds(), works())
@settings(max_examples=60)
def test_cut_offs_miss_nobody(world: World, work: NetworkWorkload) -> None:
    """CN+ visits no more zones than CN, and each that has somebody who is affected."""
    expected = affected(world, work, 1)
    plain, aware = approach_of("CN", world, 1), approach_of("CN+", world, 1)
    for approach in (plain, aware):
        approach.load(work.table)
    relaxed, cut = plain.play(work.events, work.old_y), aware.play(work.events, work.old_y)
    for event, slots in enumerate(expected):
        if work.events.y[event] >= work.old_y[event]:
            assert int(cut.hops[event]) == 0
            continue
        x = np.full((1, 2), work.events.x[event])
        zones = {int(world.zone[slot]) for slot in slots} - {int(world.zones.find(x)[0])}
        assert len(zones) <= int(cut.hops[event]) <= int(relaxed.hops[event])


@given(worlds(), works())
@settings(max_examples=60)
def test_a_distributed_server_looks_as_far_as_it_must(world: World, work: NetworkWorkload) -> None:
    painter = MarHull()
    painter.load(*work.table)
    messages = painter.apply(*work.events).copy()
    approach = approach_of("DS-CN", world, 1)
    approach.load(work.table)
    traffic = approach.play(work.events, work.old_y)
    own = world.zones.find(np.repeat(work.events.x, 2).reshape(-1, 2))
    boxes = [broker.box for broker in brokers_of(world.zones)]
    # Zones along the diagonal, by walking it in halves of a step, beyond all values on both sides.
    line = [
        zone
        for step in range(-10, 40)
        for zone, box in enumerate(boxes)
        if box.contains((step / 2, step / 2))
    ]
    for event in range(len(work.old_y)):
        mine = np.flatnonzero(messages.event == event)
        asked = {int(own[event])}
        for place in mine.tolist():
            low, high = messages.outer_lo[place], messages.outer_hi[place]
            for step, zone in zip(range(-10, 40), line, strict=True):
                if (np.isnan(low) or step / 2 >= low) and (np.isnan(high) or step / 2 <= high):
                    asked.add(zone)
        single = {event: journeys(world, messages, int(own[event])).get(event, [])}
        spread_hops = sums(world, single[event])[0]
        diagonal = world.diagonal.tolist()
        places = sorted(diagonal.index(zone) for zone in asked)
        here = diagonal.index(int(own[event]))
        sides = (here > places[0]) + (here < places[-1])
        assert int(traffic.hops[event]) == spread_hops + places[-1] - places[0] + sides
        assert int(traffic.bytes[event]) == MESSAGE_BYTES * int(traffic.hops[event])


def test_names_of_approaches() -> None:
    world = World(DISTANCE, np.zeros(3), np.ones(3), 0.5)
    for name in (*MINIMUM, "CN", "CN-Relax", "Unicast", "Paint-Dense", "Paint-Sparse", "Paint-Sparse(0.5)"):
        assert approach_of(name, world, 1).k == 1
    for name in ("Other", "Paint-Dense(2)", "Paint-Dense(x)"):
        with pytest.raises(ParameterError, match="unknown approach"):
            approach_of(name, world, 1)
    with pytest.raises(ParameterError, match="k must be 1"):
        approach_of("S-CN", world, 2)


def test_graphs_are_connected_and_hops_are_shortest() -> None:
    topology = Topology.draw(200, 30, 5)
    start, other = topology.link_start.tolist(), topology.link_node.tolist()
    links = {node: other[start[node] : start[node + 1]] for node in range(200)}
    for row, broker in zip(topology.hops().tolist(), topology.brokers.tolist(), strict=True):
        found = hops(links, broker)
        assert len(found) == 200
        assert row == [found[each] for each in topology.brokers.tolist()]


def test_a_second_opinion_on_hops() -> None:
    networkx: Any = pytest.importorskip("networkx")
    topology = Topology.draw(500, 40, 2)
    graph = networkx.Graph()
    for node in range(500):
        near = topology.link_node[topology.link_start[node] : topology.link_start[node + 1]]
        graph.add_edges_from((node, other) for other in near.tolist())
    assert networkx.is_connected(graph)
    for place, broker in enumerate(topology.brokers.tolist()):
        lengths = networkx.single_source_shortest_path_length(graph, broker)
        assert topology.hops()[place].tolist() == [lengths[other] for other in topology.brokers.tolist()]
    assert max(dict(graph.degree).values()) > 20, "some have very many links"


def test_the_same_seed_draws_the_same_graph() -> None:
    one, same, other = (Topology.draw(100, 10, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("brokers", [1, 2, 11, 40])
def test_a_hierarchy_has_everybody_once(brokers: int) -> None:
    tree = build_hierarchy(np.ascontiguousarray(DISTANCE[:brokers, :brokers]), 0, 1)
    assert sorted(tree.upwards.tolist()) == list(range(brokers))
    assert np.flatnonzero(tree.parent < 0).tolist() == [0]
    assert np.diff(tree.child_start).max() <= FAN_OUT
    place = {broker: number for number, broker in enumerate(tree.upwards.tolist())}
    for child, parent in enumerate(tree.parent.tolist()):
        assert parent < 0 or place[child] < place[parent]
