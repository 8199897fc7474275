"""`python3 -m envkit.harnesses.archipelago.servers`: the server process over stdio.

Options win over the published environment variables (`APP_FS_ROOT`, `APP_APPS_DATA_ROOT`, `USE_INDIVIDUAL_TOOLS`, and
those of the apps), which win over the defaults.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    settings = dict(os.environ)
    # One thread is all that a process which forks may have; commands of the agent's get the environment as it was.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    from envkit.harnesses.archipelago.servers import catalog

    parser = argparse.ArgumentParser(prog="envkit.harnesses.archipelago.servers", description=__doc__)
    parser.add_argument(
        "--apps",
        help=f"comma-separated, of: {', '.join(catalog.APPS)} (default: the first nine), or "
        "modules that declare an APP",
    )
    parser.add_argument("--mode", choices=("meta", "individual"))
    parser.add_argument("--root", help="the folder that agents call /")
    parser.add_argument("--apps-data", help="the folder of the apps' state")
    parser.add_argument("--timeout-s", type=float, default=600.0, help="the longest a call may take")
    parser.add_argument("--memory-mb", type=int, default=1536, help="memory of one call beyond the server's")
    args = parser.parse_args(argv)
    try:
        apps = catalog.chosen(args.apps.split(",") if args.apps else None)
    except ValueError as error:
        parser.error(str(error))
    transport = settings.get("MCP_TRANSPORT", "stdio")
    if transport != "stdio":
        parser.error(f"MCP_TRANSPORT={transport} is not served here, only stdio; `envkit gateway` serves HTTP")
    # What the protocol is spoken on is kept away from anything that prints.
    fd_in, fd_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    if stat.S_ISFIFO(os.fstat(2).st_mode):
        os.set_blocking(2, False)  # a client that reads no stderr must not bring everything to a stop

    from envkit.harnesses.archipelago.servers import lean

    lean.slim()
    try:
        with lean.deferred():
            import mcp.types
        import mcp.server.lowlevel.server  # noqa: F401 imported here for the sake of what they cost
    except (ImportError, AttributeError):
        lean.undo()
    import asyncio
    from pathlib import Path

    from envkit.harnesses.archipelago.servers.host import Options, serve

    lean.restore()
    individual = args.mode == "individual" or (args.mode is None and _true(settings.get("USE_INDIVIDUAL_TOOLS", "")))
    # The published switch of these two has another name.
    apart = ("edgar", "fmp") if args.mode is None and _true(settings.get("GUI_ENABLED", "")) else ()
    options = Options(
        apps=apps,
        mode="individual" if individual else "meta",
        individual=apart,
        filesystem=Path(args.root or settings.get("APP_FS_ROOT") or "/filesystem"),
        apps_data=Path(args.apps_data or settings.get("APP_APPS_DATA_ROOT") or "/.apps_data"),
        timeout_s=args.timeout_s,
        memory_mb=args.memory_mb,
        settings=settings,
    )
    asyncio.run(serve(options, fd_in, fd_out))
    return 0


def _true(text: str) -> bool:
    return text.strip().casefold() in ("1", "true", "yes", "on")


if __name__ == "__main__":
    sys.exit(main())
