"""The other sections: headline, goals, statements, systems, and how it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.instrument.floors import BELOW, MET, MISSING, SHORT, Verdict
from benchmarks.instrument.records import Record
from benchmarks.instrument.words import number, spread, table


class Highlight(NamedTuple):
    """One row of the first table: the first of its cases that was measured, largest first."""

    what: str
    program: str
    cases: tuple[str, ...]
    own: str
    rivals: tuple[str, ...]


TOGETHER = "batches of 10,000"
HIGHLIGHTS = (
    Highlight(
        "Range thresholds, one dimension",
        "thresholds",
        ("static 1-d, 1,000,000 queries", "static 1-d, 100,000 queries"),
        f"engine, {TOGETHER}",
        (f"distributed tracking, {TOGETHER}", "interval tree, sampled", "scan, sampled"),
    ),
    Highlight(
        "The same, two dimensions",
        "thresholds",
        ("static 2-d, 1,000,000 queries", "static 2-d, 100,000 queries"),
        f"engine, {TOGETHER}",
        (f"distributed tracking, {TOGETHER}",),
    ),
    Highlight(
        "Range top-k, messages",
        "ranges",
        ("10,000 rows, k = 10",),
        "Paint-Dense",
        ("unicast through tiles", "literal Unicast"),
    ),
    Highlight(
        "Top-k by preference over a window",
        "windows",
        ("IND N=1,000,000 r=10,000 d=4 Q=1,000 k=20 sum", "IND N=100,000 r=1,000 d=4 Q=1,000 k=20 sum"),
        "engine",
        ("SMA", "TMA"),
    ),
    Highlight(
        "Matching, all matches",
        "matching",
        (
            "planted, uniform, 1,000,000 subscriptions, all matches",
            "planted, uniform, 100,000 subscriptions, all matches",
        ),
        "engine",
        ("BE*-Tree", "NumPy scan"),
    ),
    Highlight(
        "Thresholds on Spark",
        "pipeline",
        ("100,000 thresholds, beside the plain way", "10,000 thresholds, beside the plain way"),
        "engine on Spark",
        ("Spark SQL range join", "Spark SQL, binned join"),
    ),
)


def headline(verdicts: Sequence[Verdict], records: Sequence[Record]) -> str:
    """The first table, and how many goals are reached."""
    rows = [row for each in HIGHLIGHTS if (row := _highlight_row(each, records))]
    measured = [each for each in verdicts if each.state != MISSING and each.floor.goal is not None]
    met = [verdict for verdict in measured if verdict.state == MET and verdict.counts]
    vain = [verdict for verdict in measured if verdict.state == MET and not verdict.counts]
    short = [verdict for verdict in measured if verdict.state in (SHORT, BELOW)]
    text = f"Of {len(measured)} goals, {len(met)} are reached, {len(short)} are not"
    text += _at_figure(short, "only because the rival is faster than the one they were set beside")
    if vain:
        text += f", and {len(vain)} stand against a rival that is too slow to count"
        text += _at_figure(vain, "reached beside the rival's figure too")
    text += "."
    shown = table(("", "on", "Tocsin", "how many times as fast as"), rows, left=4) + "\n\n" if rows else ""
    return f"{shown}{text}\n"


def _at_figure(verdicts: Sequence[Verdict], what: str) -> str:
    """How many of them would reach their goals beside rivals that take what their figures say."""
    reached = sum(verdict.is_reached_at_figure for verdict in verdicts)
    return f" ({reached} of these {what})" if reached else ""


def _highlight_row(each: Highlight, records: Sequence[Record]) -> tuple[str, ...] | None:
    for case in each.cases:
        mine = [record for record in records if (record.program, record.case) == (each.program, case)]
        own = next((record for record in mine if record.subject == each.own), None)
        if own is None:
            continue
        rivals = [
            rival
            for name in each.rivals
            for rival in mine
            if rival.subject == name and rival.when == own.when
        ]
        beside = [f"{_plainly(rival.subject)}: {number(own.times(rival))}" for rival in rivals]
        return each.what, case, f"{number(own.median)} {own.unit}", "; ".join(beside)
    return None


def _plainly(subject: str) -> str:
    """A rival's name without how it was measured."""
    return subject.removesuffix(f", {TOGETHER}").removesuffix(", sampled")


def goals_section(verdicts: Sequence[Verdict]) -> str:
    """One table a part: the goal, what is found, and whether the rival counts."""
    parts = []
    for name in dict.fromkeys(verdict.floor.part for verdict in verdicts):
        rows = [_verdict_row(verdict) for verdict in verdicts if verdict.floor.part == name]
        headings = ("what, on what", "beside", "rival's pace", "found", "goal", "floor", "")
        parts.append(f"**{name}**\n\n{table(headings, rows, left=2)}\n")
    return "\n".join(parts)


def statements_section(records: Iterable[Record]) -> str:
    """The engine through its public API, by kind of statement, beside a NumPy scan."""
    cases: dict[str, dict[str, Record]] = {}
    for record in records:
        cases.setdefault(record.case, {})[record.subject] = record
    pairs = [pair for pair in cases.values() if len(pair) == 2]
    if not pairs:
        return "Not measured yet: `python -m benchmarks engine`.\n"
    most = max(int(pair["engine"].sizes["subscriptions"]) for pair in pairs)
    batches = sorted({int(pair["engine"].sizes["batch"]) for pair in pairs})
    size = f"{most:,} subscriptions"
    kinds = dict.fromkeys(str(pair["engine"].sizes["kind"]) for pair in pairs)
    rows = [
        [
            kind,
            *(_beside_scan(cases.get(f"{kind}, {size}, batches of {batch:,}")) for batch in batches),
        ]
        for kind in kinds
    ]
    headings = ("statement", *(f"batches of {batch:,}" for batch in batches))
    counts = sorted({int(pair["engine"].sizes["subscriptions"]) for pair in pairs})
    won = [[f"{count:,}", *(_faster(pairs, count, batch) for batch in batches)] for count in counts]
    return (
        f"Events a second through `engine.publish` at {size} and, in brackets, how many times a NumPy scan, "
        "which only finds the affected subscriptions: it maintains no answers and emits no changes.\n\n"
        f"{table(headings, rows)}\n\nOf how many statements the engine is faster than that scan, by "
        "subscriptions and batches. For few subscriptions, or rows that cannot be sent together, that easier "
        f"task is done faster by NumPy.\n\n{table(('subscriptions', *headings[1:]), won)}\n"
    )


def _faster(pairs: Sequence[Mapping[str, Record]], count: int, batch: int) -> str:
    """Of how many statements the engine is faster, at a size."""
    sizes = {"subscriptions": count, "batch": batch}
    beside = [pair for pair in pairs if sizes.items() <= pair["engine"].sizes.items()]
    faster = sum(pair["engine"].times(pair["NumPy scan"]) > 1 for pair in beside)
    return f"{faster} of {len(beside)}"


def _beside_scan(pair: Mapping[str, Record] | None) -> str:
    if not pair:
        return ""
    return f"{number(pair['engine'].median)} ({number(pair['engine'].times(pair['NumPy scan']))})"


def systems_section(records: Mapping[str, Sequence[Record]]) -> str:
    """Pipeline, network and gateway: one table each."""
    parts = []
    for program, heading in (
        ("pipeline", "On Spark"),
        ("network", "Over NATS, and simulated"),
        ("gateway", "The gateway"),
    ):
        known = [record for record in records.get(program, ()) if not record.unit.endswith("an event")]
        if known:
            rows = [(record.case, record.subject, spread(record), record.unit) for record in known]
            parts.append(
                f"**{heading}**\n\n{table(('', 'what', 'median (least to most)', 'unit'), rows, left=2)}\n"
            )
    return "\n".join(parts)


def measured_section(records: Sequence[Record], runs: Sequence[Record]) -> str:
    """Machines, times of day, NumPy scans and loads of the newest records, a row a run."""
    rows = {}
    for record in records:
        machine = record.machine
        loads = [number(machine[name]) for name in ("load", "load_after") if name in machine]
        rows[record.program, record.when] = (
            record.program,
            record.when.replace("+00:00", "").replace("T", " "),
            str(machine.get("processor", "")),
            str(machine.get("cores", "")),
            " to ".join(loads),
            number(record.scan_ms),
            number(record.reference_ms),
            str(machine.get("commit", "")),
            "quick" if machine.get("quick") else "full",
        )
    headings = (
        "program",
        "when (UTC)",
        "processor",
        "cores",
        "load",
        "scan, ms",
        "three ranges, ms",
        "commit",
        "size",
    )
    text = table(headings, [rows[key] for key in sorted(rows)], left=3) + "\n"
    compiled = {
        (record.program, record.subject.split(", ")[0]): number(record.compile_s)
        for record in records
        if record.compile_s is not None
    }
    if compiled:
        took = [(*names, seconds) for names, seconds in sorted(compiled.items())]
        columns = ("program", "what", "seconds to compile, or to load, and to warm up")
        text += f"\n{table(columns, took, left=2)}\n"
    if runs:
        took = [(record.case, number(record.median), number(record.peak_mb)) for record in runs]
        text += f"\n{table(('program', 'seconds', 'peak MB'), took)}\n"
    return text


def _verdict_row(verdict: Verdict) -> tuple[str, ...]:
    floor = verdict.floor
    if floor.limit is not None:
        # Limits read better as they are than as ratios.
        figure = None if verdict.own is None else _measured(verdict)
        beside = f"limit {number(floor.limit)}"
        found = "" if figure is None else number(figure)
        is_rate = verdict.own is not None and verdict.own.is_rate and floor.measure == "median"
        goal = number(floor.limit)
        least = number(floor.limit * floor.floor if is_rate else floor.limit / floor.floor)
    else:
        beside = f"{floor.rival}" if floor.rival_case is None else f"{floor.rival}, {floor.rival_case}"
        found, goal, least = number(verdict.ratio), number(floor.goal), number(floor.floor)
    state = verdict.state if verdict.counts else f"{verdict.state}, but the rival does not count"
    if not verdict.counts or (verdict.state == SHORT and verdict.is_reached_at_figure):
        state += f"; beside the rival's figure {number(verdict.at_figure)}"
    what = floor.measure.replace("_", " ").replace(" s", ", s") if floor.measure != "median" else ""
    name = f"{floor.subject}: {floor.case}" + (f", {what}" if what else "")
    return name, beside, number(verdict.pace), found, goal, least, state


def _measured(verdict: Verdict) -> float | None:
    own = verdict.own
    value = None if own is None else getattr(own, verdict.floor.measure)
    return None if value is None else float(value)
