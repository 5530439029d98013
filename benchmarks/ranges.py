"""Range top-k messages: the paper's tables as checks, and events a second beside telling one by one."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.range_parts.boxes import box_table, measure_boxes
from benchmarks.range_parts.publishing import Published, measure_publish
from benchmarks.range_parts.speeds import (
    DENSE,
    LITERAL,
    SPARSE,
    TILES,
    Speed,
    count_batch,
    measure_speeds,
)
from benchmarks.range_parts.tables import Check, checks_of, count_seed
from benchmarks.range_parts.workloads import EVENTS, ROWS, SUBSCRIPTIONS

RESULTS = Path(__file__).parent / "results" / "ranges.jsonl"
#: How many times as fast as literal Unicast Paint-Dense must be, by k.
TIMES_LITERAL = {1: 100, 10: 400}
#: How many times as fast as literal Unicast Paint-Sparse must be, by k.
SPARSE_TIMES_LITERAL = {10: 80}
#: And Paint-Dense than unicast through tiles, for any k.
TIMES_TILES = 20
#: What `publish` may cost, if to write its changes costs 1: of all batches of a size together.
PUBLISH_TO_WRITE = 1.5
#: Events a second at a million rows, k = 10.
AT_A_MILLION = 150_000


#: What can be run by itself, in this order: `python -m benchmarks.ranges tables speeds`.
REPEATS = 5
PARTS = ("tables", "speeds", "publish", "boxes", "batch")


def main(quick: bool, parts: Iterable[str] = PARTS, only_k: int = 0) -> None:
    """Count, measure, print tables, and add each part to the results as soon as it is done.

    `only_k` chooses one k of the speeds.
    """
    console = Console(width=130)
    for part in parts:
        surroundings = {**machine.describe(), "quick": quick}
        console.print(surroundings)
        records = _measure(part, quick, only_k, console)
        surroundings["numpy_scan_ms_after"] = round(machine.numpy_scan_ms(), 4)
        surroundings["load_after"] = os.getloadavg()[0]
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as lines:
            lines.writelines(json.dumps({**record, "machine": surroundings}) + "\n" for record in records)
        console.print(f"written: {RESULTS.name}")


def _measure(part: str, quick: bool, only_k: int, console: Console) -> list[dict[str, object]]:
    """Measure one part, print it, and answer its lines of the results."""
    seeds, subscriptions, events = (
        (1, SUBSCRIPTIONS // 4, EVENTS // 10) if quick else (10, SUBSCRIPTIONS, EVENTS)
    )
    if part == "tables":
        checks = checks_of([count_seed(seed, subscriptions) for seed in range(seeds)], subscriptions)
        console.print(_check_table(checks))
        return [asdict(check) for check in checks]
    if part == "speeds":
        sizes = [(k, ROWS, events, SUBSCRIPTIONS) for k in ((1, 10) if quick else (1, 10, 20))]
        if not quick:
            sizes += [(k, 1_000_000, EVENTS, 0) for k in (1, 10)]
        chosen = [size for size in sizes if only_k in (0, size[0])]
        speeds = [speed for size in chosen for speed in measure_speeds(*size, REPEATS)]
        console.print(_speed_table(speeds))
        return [speed.record() for speed in speeds]
    if part == "publish":
        published = measure_publish(subscriptions // 2, REPEATS)
        console.print(_publish_table(published))
        return [result.record() for result in published]
    if part == "boxes":
        counts = (100_000,) if quick else (100_000, 1_000_000)
        boxes = [cost for count in counts for cost in measure_boxes(count)]
        console.print(box_table(boxes))
        return [cost.record() for cost in boxes]
    sent = count_batch(10, events, subscriptions)
    console.print(*sent, sep="\n")
    return sent


def _check_table(checks: list[Check]) -> Table:
    table = Table(title="an event, on average; beside the paper's figure", title_justify="left")
    for heading in ("what", "k", "found", "expected", "within", ""):
        table.add_column(heading, justify="right")
    for check in checks:
        is_checked = check.tolerance > 0
        table.add_row(
            check.what,
            str(check.k or ""),
            f"{check.found:,.3f}",
            f"{check.expected:,.3f}" if is_checked else "",
            f"{check.tolerance:.0%}" if is_checked else "",
            ("met" if check.is_met else "not met") if is_checked else "",
        )
    return table


def _speed_table(speeds: list[Speed]) -> Table:
    table = Table(title="events a second", title_justify="left")
    for heading in ("way", "rows", "k", "median", "least to most", "Paint-Dense is", "asked", ""):
        table.add_column(heading, justify="right")
    dense = {(speed.rows, speed.k): speed.median for speed in speeds if speed.way == DENSE}
    literal = {speed.k: speed.median for speed in speeds if speed.way == LITERAL}
    for speed in speeds:
        times = dense[speed.rows, speed.k] / speed.median
        asked = _asked(speed, literal)
        found = speed.median if speed.way in (DENSE, SPARSE) else times
        table.add_row(
            speed.way,
            f"{speed.rows:,}",
            str(speed.k),
            f"{speed.median:,.0f}",
            f"{min(speed.events_per_s):,.0f} to {max(speed.events_per_s):,.0f}",
            "" if speed.way == DENSE else f"{times:,.0f} times",
            f"{asked:,.0f}" if asked else "",
            ("met" if found >= asked else "not met") if asked else "",
        )
    return table


def _publish_table(published: list[Published]) -> Table:
    table = Table(title="publish, beside writing its changes to Parquet", title_justify="left")
    for heading in ("rows a batch", "changes", "ms", "ms to write", "ratio", "of all together", "asked", ""):
        table.add_column(heading, justify="right")
    for result in published:
        table.add_row(
            f"{result.batch:,}",
            f"{median(result.changes):,.0f}",
            f"{1000 * median(result.publish_s):,.1f}",
            f"{1000 * median(result.write_s):,.1f}",
            f"{result.ratio:.2f}",
            f"{result.total_ratio:.2f}",
            f"{PUBLISH_TO_WRITE}",
            "met" if result.total_ratio <= PUBLISH_TO_WRITE else "not met",
        )
    return table


def _asked(speed: Speed, literal: dict[int, float]) -> float:
    """What must be reached: events a second of a Paint; of a rival, how many times Paint-Dense is as fast."""
    if speed.way == SPARSE:
        return SPARSE_TIMES_LITERAL.get(speed.k, 0) * literal[speed.k]
    if speed.way == DENSE:
        return AT_A_MILLION if speed.rows > ROWS and speed.k == 10 else 0
    if speed.way == TILES:
        return TIMES_TILES
    return TIMES_LITERAL.get(speed.k, 0) if speed.way == LITERAL else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranges", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all of them, if none is named")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--k", type=int, default=0, help="of the speeds, those of one k alone")
    options = parser.parse_args()
    main(options.quick, options.parts or PARTS, options.k)
