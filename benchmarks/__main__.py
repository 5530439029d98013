"""`python -m benchmarks [name …] [--quick]`: run the named programs, or all of them."""

from __future__ import annotations

import argparse
import importlib
import pkgutil

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
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of: {', '.join(programs())}")
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute each")
    parser.add_argument("--list", action="store_true", help="list the programs and stop")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in programs()]
    if unknown:
        parser.error(f"no program {', '.join(unknown)}; there are: {', '.join(programs())}")
    if options.list:
        print("\n".join(programs()))
        return
    for name in options.names or programs():
        importlib.import_module(f"benchmarks.{name}").main(options.quick)


if __name__ == "__main__":
    main()
