"""`python -m benchmarks [name …] [--quick]`: run programs, compare with the last commit, hold the floors."""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import sys

import benchmarks

#: Modules here that are no programs.
HELPERS = ("__main__", "machine")


def programs() -> list[str]:
    """Every program: a file with a `main(quick)`. Packages hold their parts."""
    return sorted(
        module.name
        for module in pkgutil.iter_modules(benchmarks.__path__)
        if not module.ispkg and module.name not in HELPERS
    )


def main() -> None:
    """Run what was asked for; the exit code is 1 if a program failed or a ratio is below its floor."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of: {', '.join(programs())}")
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute each")
    parser.add_argument("--resume", action="store_true", help="leave out points that this commit has")
    parser.add_argument("--list", action="store_true", help="list the programs and stop")
    parser.add_argument(
        "--check", action="store_true", help="run nothing: hold the floors over the newest results"
    )
    parser.add_argument(
        "--report", action="store_true", help="run nothing: write docs/benchmarks.md from the results"
    )
    parser.add_argument("--inside", action="store_true", help="run here, not in a process for each program")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in programs()]
    if unknown:
        parser.error(f"no program {', '.join(unknown)}; there are: {', '.join(programs())}")
    if options.list:
        print("\n".join(programs()))
    elif options.report:
        importlib.import_module("benchmarks.report.writing").write()
    elif options.check:
        sys.exit(not importlib.import_module("benchmarks.instrument.running").check_all())
    elif options.inside:
        for name in options.names:
            run_here(name, options.quick, options.resume)
    else:
        running = importlib.import_module("benchmarks.instrument.running")
        sys.exit(not running.run_all(options.names or programs(), options.quick, options.resume))


def run_here(name: str, quick: bool, resume: bool) -> None:
    """Run a program in this process."""
    function = importlib.import_module(f"benchmarks.{name}").main
    more = {"resume": resume} if "resume" in inspect.signature(function).parameters else {}
    # All that was imported is looked through only now.
    with importlib.import_module("benchmarks.instrument.repeats").little_garbage():
        function(quick, **more)


if __name__ == "__main__":
    main()
