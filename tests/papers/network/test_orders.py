"""What the papers claim, on a network small enough for every run: orders of magnitude, flat or linear."""

from __future__ import annotations

import pytest

from tests.conftest import INTERPRETED
from tocsin.papers.network.simulation import Run, play
from tocsin.papers.network.specs import Settings
from tocsin.papers.network.topology import Topology
from tocsin.papers.network.workloads import DOMAIN, normal_ranges, ranges
from tocsin.papers.network.world import World

DISTANCE = Topology.draw(2_000, 100, 7).hops()
FEW, MANY = 100_000, 200_000


def means(world: World, approach: str, settings: Settings) -> dict[str, float]:
    traffic = play(Run(approach, settings), world).traffic
    return {name: float(column.mean()) for name, column in traffic._asdict().items()}


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="takes minutes without the compiler")
def test_minima_reach_many_for_little() -> None:
    found = {}
    for count in (FEW, MANY):
        world = World(DISTANCE, *normal_ranges(1, count, (5000, 1500), (1000, 1000)), DOMAIN / 2)
        settings = Settings(workload="walking", rows=5_000, events=2_000, subscriptions=count)
        for name in ("S-UN", "S-MN", "CN", "CN+", "S-CN", "DS-CN"):
            found[name, count] = means(world, name, settings)
    # Where S-MN's messages branch depends on the clusters of brokers too.
    for name, spread in (("S-UN", 0.1), ("S-MN", 0.25)):
        assert found[name, MANY]["bytes"] / found[name, FEW]["bytes"] == pytest.approx(2, rel=spread)
        for better in ("S-CN", "DS-CN"):
            assert found[name, MANY]["bytes"] > 10 * found[better, MANY]["bytes"]
    for name in ("CN", "S-CN", "DS-CN"):
        # Other subscriptions are other zones, and so another way from the server; but no way twice as long.
        assert found[name, MANY]["bytes"] / found[name, FEW]["bytes"] == pytest.approx(1, rel=0.5)
    assert found["S-CN", MANY]["sent"] < 0.01 * found["S-UN", MANY]["sent"]
    assert found["CN+", MANY]["bytes"] < 0.05 * found["CN", MANY]["bytes"]
    assert found["DS-CN", MANY]["bytes"] < found["S-CN", MANY]["bytes"] < found["CN", MANY]["bytes"]


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="takes minutes without the compiler")
def test_the_k_best_reach_many_for_little() -> None:
    world = World(DISTANCE, *ranges(1, MANY, "uniform"), DOMAIN / 2)
    settings = Settings(workload="jumping", rows=5_000, events=1_000, subscriptions=MANY, k=10)
    names = ("Unicast", "CN-Relax", "Paint-Dense", "Paint-Sparse", "Paint-Sparse(1)")
    found = {name: means(world, name, settings) for name in names}
    exact = found["Paint-Sparse"]["received"]
    assert found["Unicast"]["received"] == found["Paint-Dense"]["received"] == exact
    assert found["Unicast"]["bytes"] > 10 * found["Paint-Sparse"]["bytes"]
    assert found["Paint-Sparse"]["bytes"] < found["Paint-Dense"]["bytes"]
    assert 0 < found["Paint-Sparse(1)"]["received"] / exact - 1 < 0.4
    assert found["CN-Relax"]["received"] / exact - 1 > 10
