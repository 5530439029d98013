"""The network: messages over a real NATS server, and the simulator at the size that the papers have."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.network_parts.calls import count_by_subscriptions, count_on_stocks
from benchmarks.network_parts.loopback import Passage, measure_loopback
from tocsin.papers.network.simulation import Run, play
from tocsin.papers.network.specs import Settings
from tocsin.papers.network.topology import Topology
from tocsin.papers.network.workloads import DOMAIN, ranges
from tocsin.papers.network.world import World

RESULTS = Path(__file__).parent / "results" / "network.jsonl"
#: Real data, where the program runs beside it.
STOCKS = Path("sp500_fundamentals_events.parquet")
#: Messages a second that must get through.
ASKED = 20_000
APPROACHES = ("Unicast", "CN-Relax", "Paint-Dense", "Paint-Sparse", "Paint-Sparse(1)")


def main(quick: bool) -> None:
    """Measure, print tables, and add to the results."""
    console = Console(width=120)
    surroundings = {**machine.describe(), "quick": quick}
    console.print(surroundings)
    passages = measure_loopback(100_000 if quick else 1_000_000, 50_000 if quick else 400_000)
    console.print(_passage_table(passages))
    records = [passage.record() for passage in passages]
    simulated = measure_simulator(quick)
    console.print(*simulated, sep="\n")
    records += simulated
    calls = count_by_subscriptions((200_000, 800_000) if quick else (200_000, 800_000, 4_000_000), 50_000)
    if STOCKS.exists():
        calls += count_on_stocks(STOCKS, 20_000)
    console.print(*calls, sep="\n")
    records += calls
    surroundings["numpy_scan_ms_after"] = round(machine.numpy_scan_ms(), 4)
    surroundings["load_after"] = machine.describe()["load"]
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as lines:
        lines.writelines(json.dumps({**record, "machine": surroundings}) + "\n" for record in records)
    console.print(f"written: {RESULTS.name}")


def measure_simulator(quick: bool) -> list[dict[str, object]]:
    """Seconds of 10,000 events at 2,000,000 subscriptions and 1,000 brokers, by approach."""
    subscriptions, events = (200_000, 1_000) if quick else (2_000_000, 10_000)
    start = time.perf_counter()
    distance = Topology.draw(20_000, 1_000, 7).hops()
    world = World(distance, *ranges(1, subscriptions, "uniform"), DOMAIN / 2)
    records: list[dict[str, object]] = [
        {"what": "simulate", "approach": "network and zones", "seconds": time.perf_counter() - start}
    ]
    for approach in APPROACHES:
        run = Run(approach, Settings(events=events, subscriptions=subscriptions, k=10))
        outcome = play(run, world)
        means = {name: float(np.mean(column)) for name, column in outcome.traffic._asdict().items()}
        told = {"what": "simulate", "approach": approach, "seconds": outcome.seconds}
        records.append({**told, "subscriptions": subscriptions, "events": events, **means})
    return records


def _passage_table(passages: list[Passage]) -> Table:
    table = Table(title="over NATS, until every edge has applied all", title_justify="left")
    for heading in ("subscriptions", "an edge killed", "messages", "payloads", "MB", "told", "s to send",
                    "s in all", "messages/s", "asked", "wrong lists"):  # fmt: skip
        table.add_column(heading, justify="right")
    for passage in passages:
        is_asked = not passage.is_killed
        table.add_row(
            f"{passage.subscriptions:,}",
            "yes" if passage.is_killed else "no",
            f"{passage.messages:,}",
            f"{passage.letters:,}",
            f"{passage.bytes / 1e6:,.0f}",
            f"{passage.delivered:,}",
            f"{passage.publish_s:.1f}",
            f"{passage.apply_s:.1f}",
            f"{passage.messages_per_s:,.0f}",
            f"{ASKED:,}" if is_asked else "",
            f"{passage.wrong:,}",
        )
    return table
