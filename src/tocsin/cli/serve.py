"""`tocsin serve`: run the gateway."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tocsin.cli.failures import BAD_USAGE, OK

#: Packages that the gateway needs beyond the core.
GATEWAY_PACKAGES = (
    "alembic",
    "prometheus_client",
    "pydantic",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "websockets",
)


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        from tocsin.errors import Error
        from tocsin.gateway.http.logs import configure
        from tocsin.gateway.http.server import Settings
        from tocsin.gateway.http.serving import first_key, serve
    except ModuleNotFoundError as failure:
        if (failure.name or "").split(".")[0] not in GATEWAY_PACKAGES:
            raise
        print(f"{failure.name} is not installed; this needs: pip install 'tocsin[gateway]'", file=sys.stderr)
        return BAD_USAGE
    if options.nats is not None and find_spec("nats") is None:
        print("nats is not installed; --nats needs: pip install 'tocsin[gateway,network]'", file=sys.stderr)
        return BAD_USAGE
    configure(options.log_level)
    settings = Settings(
        Path(options.folder),
        database=options.database,
        origins=tuple(options.origin),
        body_limit=options.body_limit,
        retained=options.retain,
        recent=options.recent,
        max_limit=options.max_limit,
        nats=options.nats,
        root=options.root,
    )
    try:
        key = first_key(settings, always=options.new_key)
        if key is not None:
            print(f"A key with all scopes, shown only once:\n{key}", flush=True)
        if not options.new_key:
            serve(settings, options.host, options.port)
    except (Error, OSError) as failure:
        print(failure, file=sys.stderr)
        return BAD_USAGE
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tocsin serve",
        description="Serve standing queries over HTTP, WebSockets and server-sent events, with a page.",
    )
    parser.add_argument("--folder", default="tocsin-data", help="folder of all data (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8787, help="port to listen on (default: %(default)s)")
    parser.add_argument("--database", help="registry: postgresql://host/name (default: SQLite in the folder)")
    parser.add_argument(
        "--origin", action="append", default=[], help="another origin whose pages may connect; repeatable"
    )
    parser.add_argument(
        "--body-limit", type=int, default=16 << 20, help="maximum bytes of a request (default: %(default)s)"
    )
    parser.add_argument(
        "--retain", type=int, default=256, help="updates retained per subscription (default: %(default)s)"
    )
    parser.add_argument(
        "--recent",
        type=int,
        default=10,
        help="latest matches retained per subscription (default: %(default)s)",
    )
    parser.add_argument(
        "--max-limit", type=int, default=10_000, help="largest LIMIT of a statement (default: %(default)s)"
    )
    parser.add_argument(
        "--nats", help="follow a job over NATS: nats://host:port, several separated by commas"
    )
    parser.add_argument(
        "--root", default="tocsin", help="the job's sink path, with --nats (default: %(default)s)"
    )
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    parser.add_argument("--new-key", action="store_true", help="print a new key with all scopes, and stop")
    return parser
