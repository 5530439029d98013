"""The `tocsin` command: dispatches to a subcommand.

Only the module of the subcommand that runs is imported, so that help is fast.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from tocsin import __version__

#: Subcommand, the module whose `main(arguments)` runs it, and its line of help.
COMMANDS = {
    "run": ("tocsin.cli.run", "run a job on Spark"),
    "simulate": ("tocsin.cli.simulate", "compare ways to reach subscribers on a simulated network"),
    "serve": ("tocsin.cli.serve", "serve standing queries over HTTP and WebSockets, with a page"),
    "status": ("tocsin.cli.status", "show how a job is doing"),
    "validate": ("tocsin.cli.validate", "check a job file without running it"),
    "warm": ("tocsin.cli.warm", "compile ahead what statements need"),
    "watch": ("tocsin.cli.watch", "run standing queries over files or standard input, print what changes"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in COMMANDS:
        module = import_module(COMMANDS[given[0]][0])
        return int(module.main(given[1:]))
    _parser().parse_args(given or ["--help"])
    return 0


def _parser() -> argparse.ArgumentParser:
    """The parser of arguments before a subcommand; it also refuses unknown subcommands."""
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {help_line}" for name, (_, help_line) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="tocsin",
        description="Standing SQL queries, maintained exactly over streams.",
        epilog=f"commands:\n{listed}\n\nSee `tocsin COMMAND --help`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tocsin {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help=", ".join(COMMANDS))
    return parser
