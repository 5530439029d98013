"""One adapter a program that writes lines of its own shape: a line in, records out.

A line that an adapter does not know gives nothing: results of a year ago stay readable as far as they go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from benchmarks.instrument.records import Record

Line: TypeAlias = Mapping[str, Any]
Adapter: TypeAlias = Callable[[Line], list[Record]]


def of_thresholds(line: Line) -> list[Record]:
    """µs an element of each rival and size of batches; a part of the stream is another subject."""
    subject, played = str(line["rival"]), int(line["elements_played"])
    subject += ", sampled" if line["is_sampled"] else f", batches of {line['batch']:,}"
    subject += f", the first {played:,} elements" if played < int(line["elements"]) else ""
    return [
        Record(
            "thresholds",
            f"{line['workload']}, {line['queries']:,} queries",
            subject,
            "µs an element",
            tuple(line["us_per_element"]),
            sizes={
                "subscriptions": line["queries"],
                "batch": line["batch"],
                "events": line["elements_played"],
                "matured": line.get("matured"),
            },
            compile_s=_compile_s(line, str(line["rival"])),
            build_s=line["build_s"],
            bytes_each=line["bytes_per_query"],
            seed=20160626,
            machine=line["machine"],
        )
    ]


def of_ranges(line: Line) -> list[Record]:
    """Events a second of each way; what the paper's tables count; publish; boxes; a batch."""
    what, machine = line["what"], line["machine"]
    if what == "speed":
        case = f"{line['rows']:,} rows, k = {line['k']}"
        sizes = {"rows": line["rows"], "k": line["k"]}
        return [
            Record("ranges", case, line["way"], "events/s", tuple(line["events_per_s"]), sizes, seed=7,
                   machine=machine)
        ]  # fmt: skip
    if what == "publish":
        case = f"publish, batches of {line['batch']:,}"
        sizes = {"batch": line["batch"]}
        return [
            Record("ranges", case, subject, "s", tuple(line[name]), sizes, seed=11, machine=machine)
            for subject, name in (("publish", "publish_s"), ("writing the changes", "write_s"))
        ]
    if what == "boxes":
        return _boxes(line)
    if what == "batch":
        case = f"a batch of 50,000 events, k = {line['k']}"
        return [
            Record("ranges", case, line["way"], f"messages {name}", (float(line[name]),), {"k": line["k"]},
                   seed=7, machine=machine)
            for name in ("sent", "received")
        ]  # fmt: skip
    if "found" not in line:
        return []
    case = f"{what}, k = {line['k']}" if line["k"] else str(what)
    subjects = [("found", line["found"])] + [("paper", line["expected"])] * (line["tolerance"] > 0)
    sizes = {"k": line["k"], "tolerance": line["tolerance"]}
    return [
        Record("ranges", case, subject, "an event", (float(value),), sizes, machine=machine)
        for subject, value in subjects
    ]


def _boxes(line: Line) -> list[Record]:
    records = []
    for way, name in (("one by one", "single"), ("batches of 1,000", "batch")):
        case = f"{line['kind']}, {line['subscriptions']:,} subscriptions, {way}"
        for subject, column in (("tree", f"{name}_us"), ("every box", f"scan_{name}_us")):
            figures = line[column] if isinstance(line[column], list) else [line[column]]
            sizes = {"subscriptions": line["subscriptions"]}
            records.append(
                Record("ranges", case, subject, "µs a row", tuple(figures), sizes, seed=11,
                       machine=line["machine"])
            )  # fmt: skip
    return records


def of_windows(line: Line) -> list[Record]:
    """Milliseconds a cycle. The program keeps the median and the extremes of its many cycles."""
    note = ", settled" if line["cycles_before"] >= 100 else ""
    note += f", {line['note']}" if line.get("note") else ""
    names = ("queries", "k", "rows", "rate", "dimensions", "cycles")
    return [
        Record(
            "windows",
            line["workload"] + note,
            line["rival"],
            "ms a cycle",
            (line["least_ms"], line["median_ms"], line["most_ms"]),
            {"subscriptions": line["queries"], **{name: line[name] for name in names}},
            compile_s=_compile_s(line, str(line["rival"])),
            build_s=line["register_s"],
            bytes_each=1e6 * line["megabytes"] / line["queries"],
            seed=20060627,
            machine=line["machine"],
        )
    ]


def of_matching(line: Line) -> list[Record]:
    """µs an event, of all matches or of the best."""
    asked = "all matches" if line["top"] is None else f"best {line['top']}"
    around = {name: line[name] for name in ("numpy_scan_ms_before", "numpy_scan_ms_after") if name in line}
    return [
        Record(
            "matching",
            f"{line['workload']}, {line['subscriptions']:,} subscriptions, {asked}",
            line["rival"],
            "µs an event",
            tuple(line["us"]),
            {"subscriptions": line["subscriptions"], "top": line["top"], "matches": line["matches"]},
            build_s=line["build_s"],
            bytes_each=line["bytes_each"],
            seed=1,
            machine={**line["machine"], **around},
        )
    ]


def of_engine(line: Line) -> list[Record]:
    """Events a second of a statement beside the NumPy scan; and registration."""
    if line["what"] == "registration":
        return [
            Record("engine", f"register {line['subscriptions']:,} at once", "engine", "s",
                   tuple(line["seconds"]), {"subscriptions": line["subscriptions"]},
                   bytes_each=line["bytes_each"], seed=3, machine=line["machine"])
        ]  # fmt: skip
    case = f"{line['kind']}, {line['subscriptions']:,} subscriptions, batches of {line['batch']:,}"
    sizes = {"kind": line["kind"], "subscriptions": line["subscriptions"], "batch": line["batch"]}
    return [
        Record("engine", case, subject, "events/s", tuple(line[name]), sizes, seed=2, machine=line["machine"])
        for subject, name in (("engine", "events_per_s"), ("NumPy scan", "scan_events_per_s"))
    ]


def of_network(line: Line) -> list[Record]:
    """Messages a second over NATS; seconds of the simulator; calls an event."""
    machine = line["machine"]
    if line["what"] == "loopback":
        case = f"over NATS, {line['subscriptions']:,} subscriptions"
        case += ", an edge killed" if line["is_killed"] else ""
        sizes = {name: line[name] for name in ("subscriptions", "messages", "delivered", "wrong")}
        return [
            Record("network", case, "network", "messages/s", (float(line["messages_per_s"]),), sizes, seed=3,
                   machine=machine)
        ]  # fmt: skip
    if line["what"] == "simulate" and "events" in line:
        case = f"simulate {line['events']:,} events, {line['subscriptions']:,} subscriptions"
        units = {"s": "seconds", "bytes on overlay links an event": "link_bytes", "letters an event": "sent"}
        sizes = {"subscriptions": line["subscriptions"]}
        return [
            Record("network", case, line["approach"], unit, (float(line[name]),), sizes, seed=1,
                   machine=machine)
            for unit, name in units.items()
        ]  # fmt: skip
    return []


def of_pipeline(line: Line) -> list[Record]:
    """Events a second on Spark by the size of micro-batches, and the plain Spark way."""
    machine, records = line["machine"], []
    took: dict[int, list[float]] = {}
    for batch in line["batches"]:
        took.setdefault(batch["rows"], []).append(batch["rows"] / batch["seconds"])
    for rows, rates in took.items():
        case = f"{line['subscriptions']:,} thresholds, micro-batches of {rows:,}"
        sizes = {"subscriptions": line["subscriptions"], "batch": rows}
        records.append(
            Record("pipeline", case, "engine on Spark", "events/s", tuple(rates), sizes, machine=machine)
        )
    few = line.get("few")
    if few is None:
        # A run of one size alone.
        return records
    case = f"{few['subscriptions']:,} thresholds, beside the plain way"
    subjects = {
        "engine on Spark": "events_per_s",
        "Spark SQL range join": "plain_events_per_s",
        "Spark SQL, binned join": "binned_events_per_s",
    }
    for subject, name in subjects.items():
        if name in few:
            figures = few[name] if isinstance(few[name], list) else [few[name]]
            sizes = {"subscriptions": few["subscriptions"]}
            records.append(
                Record("pipeline", case, subject, "events/s", tuple(figures), sizes, machine=machine)
            )
    return records


def of_gateway(line: Line) -> list[Record]:
    """Milliseconds from publish to delivery, of each run."""
    records = []
    for run in line.get("runs", [line]):
        case = f"{run['subscribers']:,} subscribers, {run['rows_per_second']:,} rows/s"
        sizes = {"subscribers": run["subscribers"], "deliveries": run["deliveries"]}
        records += [
            Record("gateway", f"{case}, {name}", "gateway", "ms", (run[f"{name}_ms"],), sizes,
                   machine=line["machine"])
            for name in ("p50", "p99", "worst")
        ]  # fmt: skip
    return records


def _compile_s(line: Line, rival: str) -> float | None:
    known = line["machine"].get("compile_s", {})
    return known.get(rival) if isinstance(known, Mapping) else None


ADAPTERS: dict[str, Adapter] = {
    "thresholds": of_thresholds,
    "ranges": of_ranges,
    "windows": of_windows,
    "matching": of_matching,
    "engine": of_engine,
    "network": of_network,
    "pipeline": of_pipeline,
    "gateway": of_gateway,
}
