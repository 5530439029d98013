"""All results, of whatever shape, as records; and those of the last commit."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.instrument.adapters import ADAPTERS
from benchmarks.instrument.records import Record

FOLDER = Path(__file__).resolve().parents[1] / "results"


def save(records: Iterable[Record], folder: Path = FOLDER) -> None:
    """Add records to the file of their program. Cost: linear."""
    folder.mkdir(exist_ok=True)
    for record in records:
        with (folder / f"{record.program}.jsonl").open("a") as lines:
            lines.write(json.dumps(record.to_json(), ensure_ascii=False) + "\n")


def read_all(folder: Path = FOLDER) -> list[Record]:
    """Every record of every program, in the order of the files. Cost: linear."""
    paths = sorted([*folder.glob("*.jsonl"), *folder.glob("*.json")])
    return [record for path in paths for record in parse(path.stem, path.read_text())]


def read_committed(folder: Path = FOLDER) -> list[Record]:
    """The same as of the last commit; nothing where there is none."""
    listed = _git(folder, "ls-tree", "--name-only", "HEAD", "./")
    names = [name for name in listed.split() if name.endswith((".jsonl", ".json"))]
    return [
        record
        for name in names
        for record in parse(Path(name).stem, _git(folder, "show", f"HEAD:./{Path(name).name}"))
    ]


def known_cases(program: str, surroundings: Mapping[str, Any]) -> set[str]:
    """Cases that the commit at hand has already, of runs as quick as this one: others have other sizes."""
    return {
        record.case
        for record in read_all()
        if record.program == program
        and record.commit == surroundings["commit"]
        and record.is_quick == surroundings["quick"]
    }


def newest(records: Iterable[Record]) -> dict[tuple[str, str, str, str], Record]:
    """Of each measurement the last, but of a whole run rather than a quick one; of equals, the last written.

    Cost: linear.
    """
    found: dict[tuple[str, str, str, str], Record] = {}
    for record in records:
        known = found.get(record.key)
        if known is None or known.rank <= record.rank:
            found[record.key] = record
    return found


def parse(program: str, text: str) -> list[Record]:
    """What a file of results says. A line that is no record is what the program wrote in its own shape."""
    if not text.strip():
        return []
    lines = (
        [json.loads(line) for line in text.splitlines()] if not text.startswith("{\n") else [json.loads(text)]
    )
    return [record for line in lines for record in _records(program, line)]


def _records(program: str, line: dict[str, Any]) -> list[Record]:
    if "figures" in line and "subject" in line:
        return [Record.of_json(line)]
    adapter = ADAPTERS.get(program)
    return [] if adapter is None else adapter(line)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""
