"""The command line of a program that can measure some of its workloads, by their numbers."""

from __future__ import annotations

import argparse


def numbered(program: str, description: str | None) -> argparse.ArgumentParser:
    """Takes numbers, `--quick` and `--list`."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{program}", description=description)
    parser.add_argument("numbers", nargs="*", type=int, metavar="number", help="workloads to take")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--list", action="store_true", help="number the workloads and stop")
    return parser
