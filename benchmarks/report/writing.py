"""Write docs/benchmarks.md from all results."""

from __future__ import annotations

from pathlib import Path

from benchmarks.instrument.records import Record
from benchmarks.instrument.results import newest, read_all
from benchmarks.instrument.running import judge_all
from benchmarks.report.choosing import choices_section
from benchmarks.report.growing import growth_section
from benchmarks.report.papers import papers_section
from benchmarks.report.sections import (
    goals_section,
    headline,
    measured_section,
    statements_section,
    systems_section,
)
from benchmarks.report.starting import starting_section

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"

INTRO = """# Benchmarks

This page is written by `python -m benchmarks --report` from `benchmarks/results/`; nothing in it is typed by
hand. `make bench` measures everything at 100,000 subscriptions{quick}, `make bench-full` at a million and
more{full}; the first time, kernels are compiled before that. Figures are medians of repeats that take turns
with their rivals; in brackets the least and the most. Rivals answer the same questions, and all
answers are compared. At the end: [the machine, and how it was measured](#how-it-was-measured).
"""

RULES = """
- Every figure is the median of repeats in which rivals take turns, five or more where the table gives a
  spread; a first round, which compiles and lets buffers grow, does not count. A cycle of a window counts as a
  repeat.
- Indexes are timed in processor seconds of one core. What a user would take instead is timed by the wall:
  some of it uses both cores, and one is a server.
- "Scan" in the table below is what NumPy took in the same run to compare a value with a million ranges,
  "three ranges" what it took to scan 100,000 subscriptions of three ranges for an event: the speed of the
  machine in that hour. The reference machine, for which the goals are, took 0.25 ms for the latter.
- A rival that we wrote *counts* only if it takes at most 1.5 times what a well-built one takes on the
  reference machine, scaled by the three ranges of its run over those 0.25 ms; where a run has none, as the
  figure stands. Its *pace* is how many times as fast as that it is: above 1, the goal was set beside a
  slower one, beside which the ratio would be that many times what is found.
- A floor is what a ratio must not fall below: `python -m benchmarks` prints it in red and fails. Where a
  goal is not reached, the floor is the level of the day it was set.
- Both sides of a ratio are of one run; the newest run that has both is taken, a whole one rather than a quick
  one.
- Results are JSON lines in `benchmarks/results/`, compared with the last commit's after each run.
"""


def write(page: Path = PAGE) -> None:
    """The whole page and its pictures. Cost: a few seconds, most of it for pictures."""
    page.write_text(compose(list(newest(read_all()).values()), read_all()))


def compose(latest: list[Record], everything: list[Record]) -> str:
    """The text: `latest` has each measurement once, `everything` all runs."""
    by_program: dict[str, list[Record]] = {}
    for record in latest:
        by_program.setdefault(record.program, []).append(record)
    verdicts = judge_all(everything)
    sections = {
        "Goals, and what is reached": goals_section(verdicts),
        "What one would take instead": choices_section(by_program.get("choices", [])),
        "How it grows": growth_section(by_program.get("growth", [])),
        "Statement by statement": statements_section(by_program.get("engine", [])),
        "Spark, NATS, HTTP": systems_section(by_program),
        "From nothing to the first answer": starting_section(by_program.get("startup", [])),
        "The papers, reproduced": papers_section(by_program),
        "How it was measured": RULES
        + "\n"
        + measured_section([r for r in latest if r.program != "runs"], by_program.get("runs", [])),
    }
    body = "\n".join(f"## {heading}\n\n{text}" for heading, text in sections.items())
    runs = by_program.get("runs", [])
    programs = set(by_program) - {"runs"}
    intro = INTRO.format(quick=_took(runs, "quick", programs), full=_took(runs, "full", programs))
    return f"{intro}\n{headline(verdicts, latest)}\n{body}".rstrip() + "\n"


def _took(runs: list[Record], size: str, programs: set[str]) -> str:
    """How long the newest runs took together; nothing while a program has not been run so."""
    seconds = {record.subject: record.median for record in runs if record.case.endswith(f", {size}")}
    if not programs or not programs <= set(seconds):
        return ""
    return f" ({sum(seconds[name] for name in programs) / 60:.0f} minutes)"
