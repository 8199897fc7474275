"""Modal's SDK as we use it: bounded calls with errors that say what to do, and a process's streams as a transport.

The SDK runs its own event loop in a thread of its own; every call here is awaited from ours, has an end, and raises an
`EnvkitError` whatever the SDK or the service came up with. A client belongs to the process that made it: a forked one
makes its own. Nothing here is imported before a sandbox at Modal is asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from envkit.deadline import Deadline
from envkit.failure import Boundary, CapabilityError, DeadlineExceeded, EnvkitError, FailureKind
from envkit.sandbox.buffered import BufferedTransport

__all__ = ["CALL_S", "Gone", "ModalStream", "ask", "client", "configured", "sdk"]

T = TypeVar("T")
CALL_S = 60.0
INSTALL = "Install the SDK: pip install 'envkit-rl[modal]'"
SIGN_IN = "Sign in with `modal token new`, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
#: Written at once; the SDK refuses to hold more than 16 MiB.
_PIECE = 4 << 20

_clients: dict[tuple[int, str, str], Any] = {}


class Gone(EnvkitError):
    """The service does not know the sandbox, image or app."""

    kind = FailureKind.SANDBOX_ERROR
    boundary = Boundary.SANDBOX


def sdk() -> Any:
    """The `modal` package. Raises `CapabilityError` where it is not installed."""
    try:
        import modal
    except ImportError as error:
        raise CapabilityError(f"sandbox 'modal' needs Modal's SDK for Python. {INSTALL}") from error
    return modal


def configured() -> bool:
    """Whether the SDK is installed and has credentials; asks nobody."""
    try:
        sdk()
    except CapabilityError:
        return False
    from modal.config import config

    return any(config.get(key) for key in ("token_id", "oauth_refresh_token"))


async def client() -> Any:
    """This process's client. Raises `CapabilityError` without SDK or credentials."""
    modal = sdk()
    from modal.config import config

    token = str(config.get("token_id") or "")
    key = (os.getpid(), str(config.get("server_url")), token)
    if key not in _clients:
        if not configured():
            raise CapabilityError(f"sandbox 'modal' has no credentials. {SIGN_IN}.")
        if token:
            made = modal.Client.from_credentials.aio(token, str(config.get("token_secret") or ""))
        else:
            made = modal.Client.from_env.aio()
        _clients[key] = await ask("connect to Modal", made)
    return _clients[key]


async def ask(what: str, call: Awaitable[T], end: Deadline | None = None) -> T:
    """Awaits a call of the SDK.

    Args:
        what: As in "can't {what}".
        end: At most `CALL_S` where it is not given.

    Raises:
        CapabilityError: No credentials, or the service refuses the request as such: no retry helps.
        Gone: It does not know what was named.
        EnvkitError: SANDBOX_ERROR with the service's words: unreachable, overloaded, nonsense, or no answer in time.
    """
    from modal import exception

    end = end or Deadline.after(CALL_S, f"the {CALL_S:g} s of a call")
    try:
        return await end.wait(call)
    except (asyncio.CancelledError, EnvkitError) as error:
        if isinstance(error, DeadlineExceeded):
            raise _failed(what, f"Modal did not answer before {end.what} had passed") from None
        raise
    except exception.AuthError as error:
        raise CapabilityError(f"can't {what}: Modal refuses the credentials ({_words(error)}). {SIGN_IN}.") from error
    except exception.NotFoundError as error:
        raise Gone(f"can't {what}: {_words(error)}") from error
    except exception.ImageBuildError as error:
        raise _failed(what, f"the image can't be built: {_words(error)}") from error
    except exception.ConflictError as error:
        raise Gone(f"can't {what}: {_words(error)}") from error
    except (exception.InvalidError, exception.PermissionDeniedError, exception.UnimplementedError) as error:
        raise CapabilityError(f"can't {what}: Modal refuses: {_words(error)}") from error
    except Exception as error:  # the capture point: what a service or its SDK comes up with
        raise _failed(what, f"{type(error).__name__}: {_words(error)}") from error


def _words(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip()[-3000:]


def _failed(what: str, why: str) -> EnvkitError:
    return EnvkitError(f"can't {what}: {why}", kind=FailureKind.SANDBOX_ERROR, boundary=Boundary.SANDBOX)


class ModalStream(BufferedTransport):
    """A process at Modal as a transport: what is written is its stdin; its stdout and stderr are handed on.

    Args:
        process: The SDK's handle, in bytes.
        out, err: Called with what arrives.
        lost: Called once when the streams have ended, with what ended them.
        why: Awaited before `lost`: asks what became of the sandbox.
    """

    def __init__(
        self,
        process: Any,
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
        lost: Callable[[Exception | None], None],
        why: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(lost, _PIECE)
        self._process = process
        self._out, self._err, self._why = out, err, why
        self._words = asyncio.create_task(self._read_errors())
        self.tasks = [asyncio.create_task(self._read()), self._words, asyncio.create_task(self._write())]

    async def send(self, data: bytes, end: Deadline) -> None:
        """Writes ahead of everything else and waits until it is taken; only before the first `write`."""
        view = memoryview(data)
        for at in range(0, len(view), _PIECE):
            self._process.stdin.write(bytes(view[at : at + _PIECE]))
            await ask("send a sandbox what it needs", self._process.stdin.drain.aio(), end)

    async def put(self, piece: bytes) -> None:
        for at in range(0, len(piece), _PIECE):
            self._process.stdin.write(piece[at : at + _PIECE])
            await self._process.stdin.drain.aio()

    async def _write(self) -> None:
        try:
            await self.forward()
        except Exception as error:  # noqa: BLE001 - the capture point: whatever the SDK raises, the stream is lost
            await self._ended(error)

    async def _read(self) -> None:
        try:
            async for piece in self._process.stdout:
                self._out(piece)
        except Exception as error:  # noqa: BLE001 - as above
            await self._ended(error)
        else:
            await self._ended(None)

    async def _read_errors(self) -> None:
        with contextlib.suppress(Exception):  # the last words are a courtesy
            async for piece in self._process.stderr:
                self._err(piece)

    async def _ended(self, error: Exception | None) -> None:
        if self._closing:
            return
        with contextlib.suppress(TimeoutError):  # its last words come on a stream of their own
            await asyncio.wait_for(asyncio.shield(self._words), 1.0)
        with contextlib.suppress(EnvkitError):
            await self._why()
        self.end(error)
