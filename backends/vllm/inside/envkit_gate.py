"""A gate before vLLM's token endpoints: closed until the engine holds the weights that it shall sample from.

A server that comes up again holds the model's first weights and no label, and clients know its address. Until whoever
keeps it has given it the newest weights and opens the gate (`POST /envkit/open`), requests for tokens are answered with
503 and `Retry-After`, which clients take as "come back later". ASGI middleware; imports nothing.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Gate"]

_OPEN, _CLOSE = "/envkit/open", "/envkit/close"
_SHUT_OUT = ("/inference/v1/generate", "/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages")


class Gate:
    """See the module; `vllm serve --middleware envkit_gate.Gate`."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._opened = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "") if scope["type"] == "http" else ""
        if path in (_OPEN, _CLOSE) and scope["method"] == "POST":
            self._opened = path == _OPEN
            await _answer(send, 200, b'{"status": "ok"}')
        elif not self._opened and path in _SHUT_OUT:
            await _answer(send, 503, b'{"error": "this engine waits for its weights"}')
        else:
            await self._app(scope, receive, send)


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
