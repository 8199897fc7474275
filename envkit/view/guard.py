"""Who may ask the viewer: requests to this machine's own name, with the secret of the address, that only read.

A page of another site must not read runs through the user's browser: a request with a foreign `Host` (DNS rebinding),
without the token, with another method than GET or HEAD, or sent by another site is refused before anything looks at it.
Answers carry headers by which the browser runs nothing but our own scripts, sends no referrer and frames nothing.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "Guard", "policy"]

_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def policy(*, scripts: Iterable[str] = (), styles: Iterable[str] = ()) -> str:
    """A content security policy: our own files alone, and what stands in the page if its hash is named."""
    ours = {"script-src": scripts, "style-src": styles}
    named = "; ".join(" ".join([kind, "'self'", *(f"'{one}'" for one in hashes)]) for kind, hashes in ours.items())
    return (
        f"default-src 'none'; {named}; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


HEADERS = {
    "Content-Security-Policy": policy(),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware. What it lets through is mounted below `/<token>`.

    Args:
        token: Compared in constant time.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await PlainTextResponse(refusal[1], refusal[0], HEADERS)(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, answer)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in _HOSTS:
            return 421, "envkit view answers to 127.0.0.1 and localhost only\n"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "envkit view only reads\n"
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            return 403, "asked for by another site\n"
        first = scope["path"].removeprefix("/").partition("/")[0]
        if not hmac.compare_digest(unquote(first).encode("utf-8", "surrogatepass"), self._token):
            return 404, "nothing here: open the whole address that `envkit view` printed\n"
        return None


def _name(host: str) -> str:
    """A Host header's name without its port; "" for what is none."""
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, ""
    return name.lower() if not port or (port.isascii() and port.isdigit()) else ""
