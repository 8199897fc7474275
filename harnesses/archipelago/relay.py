"""Runs inside the sandbox: passes MCP messages between standard streams and an HTTP server on the loopback.

A task may bring tool servers that listen inside its sandbox, where nothing outside can connect. Each line of input is
one message, posted as it is; whatever comes back, as JSON or as an event stream, is one line of output. A thread per
request, since a call may take long and others must not wait for it. Both transports of MCP: streamable HTTP, and the
older one of an event stream beside an endpoint.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urljoin, urlsplit

__all__ = ["Relay", "main"]

_CONNECT_S = 10.0
#: Longer than any call: its end is the client's to decide.
_ANSWER_S = 3600.0
_RETRY_S = 1.0


class Relay:
    """One connection to one server.

    Args:
        headers: Sent with every request.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, sse: bool) -> None:
        self._url = url
        self._headers = dict(headers)
        self._sse = sse
        self._session: str | None = None
        self._version: str | None = None
        self._endpoint: queue.Queue[str] = queue.Queue()
        self._post_to = url
        self._writing = threading.Lock()

    def run(self, lines: Iterator[bytes]) -> int:
        """Passes on every line until there are no more. Returns an exit status."""
        if self._sse:
            threading.Thread(target=self._listen_old, daemon=True).start()
            try:
                self._post_to = self._endpoint.get(timeout=_CONNECT_S)
            except queue.Empty:
                print(f"relay: {self._url} named no endpoint within {_CONNECT_S:g} s", file=sys.stderr, flush=True)
                return 1
        for line in lines:
            if not line.strip():
                continue
            message = _loaded(line)
            if self._session is None and not self._sse:
                self._post(line, message)  # the handshake: what follows needs the session it gives
                continue
            if isinstance(message, dict) and message.get("method") == "notifications/initialized" and not self._sse:
                self._post(line, message)
                threading.Thread(target=self._listen, daemon=True).start()
                continue
            threading.Thread(target=self._post, args=(line, message), daemon=True).start()
        self._goodbye()
        return 0

    # -- out

    def _post(self, line: bytes, message: Any) -> None:
        wanted = message.get("id") if isinstance(message, dict) and "method" in message else None
        try:
            connection, response = self._request("POST", self._post_to, line)
            with contextlib.closing(connection):
                self._session = response.headers.get("Mcp-Session-Id") or self._session
                if response.status >= 400:
                    text = response.read(2000).decode(errors="replace")
                    self._refused(wanted, f"the server answered {response.status} {response.reason}: {text}")
                elif "text/event-stream" in (response.headers.get("Content-Type") or ""):
                    for _, data in _events(response):
                        self._said(data)
                elif not self._sse:
                    self._said(response.read())
        except (OSError, http.client.HTTPException) as error:
            self._refused(wanted, f"the server can't be reached: {error}")

    def _request(
        self, method: str, url: str, body: bytes | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "localhost", parts.port, timeout=_ANSWER_S)
        headers = {"Accept": "application/json, text/event-stream", **self._headers}
        if method == "GET":
            headers["Accept"] = "text/event-stream"
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._session is not None:
            headers["Mcp-Session-Id"] = self._session
        if self._version is not None:
            headers["MCP-Protocol-Version"] = self._version
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request(method, path, body, headers)
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    # -- in

    def _listen(self) -> None:
        """What the server says unasked; servers without that say so, and that is that."""
        while True:
            try:
                connection, response = self._request("GET", self._url, None)
                with contextlib.closing(connection):
                    if response.status != 200:
                        return
                    for _, data in _events(response):
                        self._said(data)
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(_RETRY_S)

    def _listen_old(self) -> None:
        try:
            connection, response = self._request("GET", self._url, None)
            with contextlib.closing(connection):
                if response.status != 200:
                    print(f"relay: {self._url} answered {response.status}", file=sys.stderr, flush=True)
                    os._exit(1)
                for event, data in _events(response):
                    if event == "endpoint":
                        self._endpoint.put(urljoin(self._url, data.decode(errors="replace").strip()))
                    else:
                        self._said(data)
        except (OSError, http.client.HTTPException) as error:
            print(f"relay: {self._url}: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # without its stream the server can't answer any more

    def _said(self, data: bytes) -> None:
        message = _loaded(data)
        if message is None:
            return
        for each in message if isinstance(message, list) else [message]:
            result = each.get("result") if isinstance(each, dict) else None
            if isinstance(result, dict) and isinstance(result.get("protocolVersion"), str):
                self._version = result["protocolVersion"]
            self._write(each)

    def _refused(self, wanted: Any, why: str) -> None:
        print(f"relay: {why}", file=sys.stderr, flush=True)
        if wanted is not None:
            self._write({"jsonrpc": "2.0", "id": wanted, "error": {"code": -32603, "message": why}})

    def _write(self, message: Any) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._writing:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def _goodbye(self) -> None:
        if self._session is not None and not self._sse:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection, response = self._request("DELETE", self._url, None)
                with contextlib.closing(connection):
                    response.read()


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data) if data.strip() else None
    except ValueError:
        return None


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, bytes]]:
    """The events of a stream: (name, data)."""
    event = "message"
    data: list[bytes] = []
    while True:
        line = response.readline()
        if not line:
            return
        line = line.rstrip(b"\r\n")
        if not line:
            if data:
                yield event, b"\n".join(data)
            event, data = "message", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value.decode(errors="replace")


def main(argv: Sequence[str] | None = None) -> int:
    """`relay (--http | --sse) URL`, headers as a JSON object in ENVKIT_RELAY_HEADERS."""
    kind, url = list(sys.argv[1:] if argv is None else argv)
    headers = json.loads(os.environ.get("ENVKIT_RELAY_HEADERS") or "{}")
    try:
        return Relay(url, headers, sse=kind == "--sse").run(iter(sys.stdin.buffer.readline, b""))
    except BrokenPipeError:
        return 0
