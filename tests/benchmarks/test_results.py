"""Results of every shape as records: what programs write, what a commit holds, what is newest."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.instrument.adapters import ADAPTERS
from benchmarks.instrument.comparing import changes
from benchmarks.instrument.floors import Floor, judge
from benchmarks.instrument.results import FOLDER, newest, parse, read_all, read_committed, save

from tests.benchmarks.samples import FIRST, LATER, record

MACHINE = {"when": FIRST, "numpy_scan_ms": 0.9, "numpy_scan_ms_after": 0.6, "compile_s": {"engine": 1.5}}

LINES: dict[str, list[dict[str, Any]]] = {
    "thresholds": [
        {"workload": "static 1-d", "queries": 1000, "elements": 50, "rival": "engine", "batch": 100,
         "is_sampled": False, "elements_played": 50, "us_per_element": [0.2, 0.1, 0.3], "median_us": 0.2,
         "build_s": 0.5, "bytes_per_query": 38, "matured": 3},
    ],
    "ranges": [
        {"what": "speed", "way": "Paint-Dense", "k": 10, "rows": 1000, "events_per_s": [5, 7, 6]},
        {"what": "affected", "k": 1, "found": 443.8, "expected": 444.1, "tolerance": 0.1},
        {"what": "publish", "batch": 10, "publish_s": [0.1], "write_s": [0.2], "changes": [3], "ratio": 0.5},
        {"what": "boxes", "kind": "SUM", "subscriptions": 9, "single_us": 1.0, "scan_single_us": 2.0,
         "batch_us": 3.0, "scan_batch_us": 4.0},
        {"what": "batch", "way": "Online", "k": 10, "sent": 5, "received": 7},
    ],
    "windows": [
        {"workload": "IND", "queries": 10, "k": 20, "rows": 100, "rate": 5, "dimensions": 4,
         "rival": "engine", "cycles": 7, "median_ms": 2.0, "least_ms": 1.0, "most_ms": 3.0,
         "register_s": 0.1, "megabytes": 1.0, "cycles_before": 100},
    ],
    "matching": [
        {"workload": "planted", "subscriptions": 10, "rival": "scan", "top": 1, "build_s": 0.1,
         "bytes_each": 9.0, "us": [1.0, 3.0, 2.0], "matches": 1.0, "numpy_scan_ms_before": 0.7},
    ],
    "engine": [
        {"what": "registration", "subscriptions": 10, "seconds": [0.1, 0.2], "bytes_each": 80.0},
        {"what": "events", "kind": "top-k", "subscriptions": 10, "batch": 1, "events_per_s": [5.0],
         "scan_events_per_s": [10.0]},
    ],
    "network": [
        {"what": "loopback", "subscriptions": 10, "messages": 5, "delivered": 3, "wrong": 0,
         "is_killed": True, "messages_per_s": 100},
        {"what": "simulate", "approach": "Unicast", "seconds": 1.0, "subscriptions": 10, "events": 5,
         "link_bytes": 9.0, "sent": 2.0},
        {"what": "simulate", "approach": "network and zones", "seconds": 1.0},
    ],
    "pipeline": [
        {"subscriptions": 10, "batches": [{"rows": 100, "seconds": 2.0}, {"rows": 100, "seconds": 4.0}],
         "few": {"subscriptions": 5, "events_per_s": 100.0, "plain_events_per_s": 2.0}},
    ],
    "gateway": [
        {"runs": [{"subscribers": 10, "rows_per_second": 5, "deliveries": 3, "p50_ms": 1.0, "p99_ms": 2.0,
                   "worst_ms": 3.0}]},
    ],
}  # fmt: skip


@pytest.mark.parametrize("program", LINES)
def test_what_a_program_writes_becomes_records(program: str) -> None:
    lines = "\n".join(json.dumps({**line, "machine": MACHINE}) for line in LINES[program])
    found = parse(program, lines)
    assert found
    assert {each.program for each in found} == {program}
    assert all(each.scan_ms == 0.6 and each.when == FIRST for each in found)
    assert len({each.key for each in found}) == len(found)


def test_every_program_with_a_shape_of_its_own_is_tried_here() -> None:
    assert set(LINES) == set(ADAPTERS)


def test_figures_and_times_arrive() -> None:
    line = {**LINES["thresholds"][0], "machine": MACHINE}
    (found,) = parse("thresholds", json.dumps(line))
    assert found.case == "static 1-d, 1,000 queries"
    assert found.subject == "engine, batches of 100"
    assert found.figures == (0.2, 0.1, 0.3)
    assert (found.build_s, found.compile_s, found.bytes_each) == (0.5, 1.5, 38)


def test_a_gateway_run_is_one_indented_object() -> None:
    text = json.dumps({**LINES["gateway"][0], "machine": MACHINE}, indent=2)
    assert [each.median for each in parse("gateway", text)] == [1.0, 2.0, 3.0]


def test_a_program_that_is_not_known_and_an_empty_file_give_nothing() -> None:
    assert parse("nobody", '{"a": 1}') == []
    assert parse("thresholds", "") == []


def test_of_each_measurement_the_newest() -> None:
    known = [record("a", 2.0, when=LATER), record("a", 1.0, when=FIRST), record("b", 3.0)]
    assert sorted(each.median for each in newest(known).values()) == [2.0, 3.0]


def test_a_quick_run_does_not_stand_in_for_a_whole_one() -> None:
    whole = record("a", 1.0)
    quick = replace(whole, figures=(9.0,), machine={"when": LATER, "quick": True})
    assert newest([whole, quick])[whole.key] is whole
    assert newest([quick])[quick.key] is quick
    verdict = judge([Floor("Sample", "sample", "a case", "a", floor=1.0, limit=5.0)], [whole, quick], 0.25)[0]
    assert verdict.own is whole
    assert not changes([quick], [whole])


def test_records_are_added_to_the_file_of_their_program(tmp_path: Path) -> None:
    save([record("a", 1.0)], tmp_path)
    save([record("b", 2.0, program="other")], tmp_path)
    save([record("c", 3.0)], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.jsonl", "sample.jsonl"]
    assert [each.subject for each in read_all(tmp_path)] == ["b", "a", "c"]


def test_the_last_commit_is_read_as_it_was(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *names, *arguments], check=True, capture_output=True)

    folder = tmp_path / "results"
    save([record("a", 1.0)], folder)
    git("init")
    git("add", ".")
    git("commit", "-m", "results")
    save([record("a", 2.0, when=LATER)], folder)
    assert [each.median for each in read_committed(folder)] == [1.0]
    assert [each.median for each in read_all(folder)] == [1.0, 2.0]


def test_outside_of_a_clone_nothing_is_committed(tmp_path: Path) -> None:
    save([record("a", 1.0)], tmp_path)
    assert read_committed(tmp_path) == []


def test_the_results_of_the_project_can_be_read() -> None:
    found = read_all(FOLDER)
    assert {"thresholds", "ranges", "windows", "matching"} <= {each.program for each in found}
