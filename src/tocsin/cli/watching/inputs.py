"""Opens the inputs of `tocsin watch`: chooses the format of a file and the name of its source."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

from tocsin.cli.failures import UsageFailure
from tocsin.cli.watching.blocks import Input
from tocsin.cli.watching.parquet import ParquetInput
from tocsin.cli.watching.texts import TextInput

FORMATS = ("csv", "jsonl", "parquet")

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def open_input(path: str, *, format_name: str | None, follow: bool, names: list[str] | None) -> Input:
    """Open a file, or standard input if `path` is `-`. `names` are the columns of CSV without a header."""
    label = "standard input" if path == "-" else path
    if os.path.isdir(path):
        raise UsageFailure(f"{path} is a directory; name its files")
    try:
        descriptor = os.dup(sys.stdin.fileno()) if path == "-" else os.open(path, os.O_RDONLY)
    except OSError as failure:
        raise UsageFailure(f"{path}: {failure.strerror}") from None
    is_pipe = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    suffix = Path(path).suffix.lower()
    chosen = format_name or _SUFFIXES.get(suffix)
    if chosen == "parquet":
        if is_pipe or follow:
            os.close(descriptor)
            raise UsageFailure(f"{label}: Parquet is read from whole files, not from a pipe or with --follow")
        return ParquetInput(label, descriptor)
    delimiter = "\t" if suffix == ".tsv" else ","
    return TextInput(
        label, descriptor, chosen, is_pipe=is_pipe, follow=follow, delimiter=delimiter, names=names
    )


def source_name(path: str) -> str | None:
    """The source name derived from a file's name; None for standard input and other pipes."""
    if path == "-" or not os.path.isfile(path):
        return None
    name = re.sub(r"\W", "_", Path(path).stem)
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"
