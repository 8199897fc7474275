"""One HTTP request to a model endpoint: bounded in time and size, with every way it can break named.

Connections are kept and reused (HTTP/1.1). Nothing is retried here; `chat_client` decides that. Nothing of the request
gets into an error's text, so that no key does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import httpx

from envkit.failure import UserError

__all__ = ["Broken", "Reply", "Transport", "TransportFault"]


class TransportFault(StrEnum):
    """How a request can break before there is an answer."""

    CONNECT = "connect"  # nobody there: refused, no such host, TLS
    TIMEOUT = "timeout"  # there, but silent or too slow
    CUT = "cut"  # the connection ended in the middle, or did not speak HTTP
    TOO_LARGE = "too large"  # the answer goes beyond what is read


class Broken(Exception):
    """A request that got no answer."""

    def __init__(self, fault: TransportFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer, read whole. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """A client for one endpoint.

    Args:
        connect_timeout_s: Until the connection stands.
        read_timeout_s: The longest silence while an answer is awaited or read.
        max_bytes: The largest body that is read, after decompression.
    """

    def __init__(self, url: str, *, connect_timeout_s: float, read_timeout_s: float, max_bytes: int) -> None:
        self._url = url
        self._max_bytes = max_bytes
        self._client = httpx.AsyncClient(
            http1=True,
            http2=False,
            follow_redirects=False,
            timeout=httpx.Timeout(read_timeout_s, connect=connect_timeout_s, pool=connect_timeout_s),
            limits=httpx.Limits(max_connections=4, max_keepalive_connections=2, keepalive_expiry=120.0),
        )

    async def post(self, body: bytes, headers: Mapping[str, str], *, timeout_s: float | None) -> Reply:
        """Sends one request and reads the answer.

        Args:
            timeout_s: For the whole of it, so that an answer that drips byte by byte ends too.

        Raises:
            Broken: There is no whole answer.
            UserError: The URL can't be used.
        """
        try:
            async with asyncio.timeout(timeout_s) as scope:
                return await self._post(body, headers)
        except TimeoutError:
            if scope.expired():
                raise Broken(TransportFault.TIMEOUT, f"no whole answer within {timeout_s:.0f} s") from None
            raise
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise UserError(f"base_url can't be used: {error}") from error
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise Broken(TransportFault.CONNECT, f"can't connect: {_said(error)}") from error
        except httpx.TimeoutException as error:
            raise Broken(TransportFault.TIMEOUT, f"the endpoint fell silent ({type(error).__name__})") from error
        except httpx.DecodingError as error:
            raise Broken(TransportFault.CUT, f"the answer's compression is broken: {_said(error)}") from error
        except httpx.TransportError as error:
            raise Broken(TransportFault.CUT, f"the connection broke: {_said(error)}") from error

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        async with self._client.stream("POST", self._url, content=body, headers=dict(headers)) as response:
            declared = response.headers.get("content-length", "")
            if declared.isdecimal() and int(declared) > self._max_bytes:
                raise self._too_large()
            pieces: list[bytes] = []
            size = 0
            async for piece in response.aiter_bytes():
                size += len(piece)
                if size > self._max_bytes:
                    raise self._too_large()
                pieces.append(piece)
            return Reply(response.status_code, dict(response.headers.items()), b"".join(pieces))

    def _too_large(self) -> Broken:
        return Broken(TransportFault.TOO_LARGE, f"the answer is larger than {self._max_bytes} bytes")


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
