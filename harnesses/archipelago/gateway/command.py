"""`envkit gateway`: serves one fresh world to agents that speak Archipelago's environment contract, until stopped."""

from __future__ import annotations

import argparse
import os
import socket
import sys

from envkit.cli.options import plugin
from envkit.failure import UserError

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on; 0 takes a free one (8080)")
    parser.add_argument("--sandbox", default="local", metavar="NAME[:k=v,...]", help="where the world lives (local)")
    parser.add_argument("--token-env", metavar="NAME", help="environment variable with a token that clients must send")
    parser.add_argument("--call-timeout-s", type=float, default=600.0, help="the longest a tool call may take (600)")
    parser.add_argument("--memory-mb", type=int, default=4096, help="memory of the world (4096)")
    parser.add_argument("--disk-mb", type=int, default=4096, help="room for its files (4096)")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGINT or SIGTERM. Raises `UserError` for what can't be served."""
    import uvicorn

    from envkit import plugins
    from envkit.harnesses.archipelago.gateway.place import Place
    from envkit.harnesses.archipelago.gateway.server import make_app
    from envkit.sandbox.base import SandboxSpec

    token = None
    if args.token_env is not None:
        token = os.environ.get(args.token_env)
        if not token:
            raise UserError(f"--token-env: the environment variable {args.token_env} is not set")
    elif args.host not in ("127.0.0.1", "::1", "localhost"):
        raise UserError(
            f"--host {args.host}: whoever reaches the gateway can run programs in its world; set --token-env"
        )
    named = plugin(args.sandbox, "--sandbox")
    provider = plugins.construct("sandboxes", named.name, named.options)
    spec = SandboxSpec(memory_mb=args.memory_mb, disk_mb=args.disk_mb, side_disk_mb=1024)
    app = make_app(lambda: Place(provider, spec, call_timeout_s=args.call_timeout_s), token=token)
    config = uvicorn.Config(app, args.host, args.port, log_level="warning", timeout_graceful_shutdown=10)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                port = self.servers[0].sockets[0].getsockname()[1]
                print(f"listening on http://{args.host}:{port} (MCP at /mcp/)", file=sys.stderr, flush=True)

    server = Server(config)
    server.run()
    return 0 if server.started else 1
