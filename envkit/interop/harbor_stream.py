"""Our supervisor's connection over nothing but commands that run to their end: all that Harbor's environments offer.

Inside, the supervisor reads from a FIFO that a keeper holds open and writes to a file that only grows. Outside, a
writer puts bytes into the FIFO, a command at a time, and a reader asks for what is behind its position, waiting inside
for a while where nothing is. So everything that the sandbox protocol promises (streams, deadlines that kill inside,
complete snapshots) holds in any environment of Harbor's whose image has a POSIX shell and Python 3.8; what a turn costs
more is the round trips. What an environment puts around a command's output (banners, warnings) is told from the bytes;
output that was cut or changed ends the connection, as everything does that keeps a reader or writer from its work.
Knows Harbor's `exec` and `upload_file` only.
"""

from __future__ import annotations

import asyncio
import base64
import re
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.sandbox.buffered import BufferedTransport

__all__ = ["HarborStream", "command"]

#: Bytes of one read, before they are encoded; and of a write that fits a command line.
_READ, _WRITE = 3 << 20, 48 << 10
#: Seconds that a read waits inside for something to come, and between two looks there.
_WAIT_S, _LOOK_S = 20, 0.02
#: How long a command of ours may take beyond that.
_SLACK_S = 60
#: What a read says: the bytes between brackets, and behind them "!" where the supervisor had ended before they were
#: read. Other programs of the environment may say something before and after it.
_FRAMED = re.compile(r"envkit<([A-Za-z0-9+/=\s]*)>(!?)")
#: Whether the supervisor lives: its keeper tells its end, unless it was killed as well. Without /proc it is believed.
_ALIVE = '[ ! -e gone ] && { [ ! -s pid ] || [ ! -d /proc/1 ] || [ -d "/proc/$(cat pid)" ]; }'


async def command(environment: Any, text: str, *, limit_s: int, user: str | None) -> str:
    """Runs a command of ours to its end and returns what it said.

    Raises:
        EnvkitError: It failed, or the environment did.
    """
    try:
        async with asyncio.timeout(limit_s + _SLACK_S):
            done = await environment.exec(text, timeout_sec=limit_s, user=user)
    except Exception as error:
        raise EnvkitError(
            f"the environment could not run a command: {type(error).__name__}: {error}",
            kind=FailureKind.SANDBOX_ERROR,
            boundary=Boundary.SANDBOX,
        ) from error
    if done.return_code != 0:
        said = (done.stderr or done.stdout or "").strip()[-2000:]
        raise EnvkitError(
            f"a command of the sandbox's own ended with {done.return_code}: {said or 'it said nothing'}",
            kind=FailureKind.SANDBOX_ERROR,
            boundary=Boundary.SANDBOX,
        )
    return str(done.stdout or "")


class HarborStream(BufferedTransport):
    """The connection as a transport.

    Args:
        folder: Where the FIFO `in` and the file `out` are, inside.
        received: Called with what the supervisor wrote.
        lost: Called once, when the connection ended.
    """

    def __init__(
        self,
        environment: Any,
        folder: str,
        user: str | None,
        received: Callable[[bytes], None],
        lost: Callable[[Exception | None], None],
    ) -> None:
        super().__init__(lost)
        self._environment, self._folder, self._user = environment, folder, user
        self._received = received
        self.tasks = [asyncio.create_task(self.guarded(loop)) for loop in (self._read, self.forward)]

    async def _read(self) -> None:
        at = 0
        looks = int(_WAIT_S / _LOOK_S)
        while True:
            # Whether it has ended is looked at before its bytes: what it wrote last is read all the same.
            text = (
                f"cd {self._folder} && [ -f out ] || exit 3; n=0; "
                f"while [ $(wc -c <out) -le {at} ] && {_ALIVE} && [ $n -lt {looks} ]; "
                f"do sleep {_LOOK_S}; n=$((n+1)); done; e=; {{ {_ALIVE}; }} || e='!'; printf 'envkit<'; "
                f"tail -c +{at + 1} out | head -c {_READ} | base64 -w0; printf '>%s' \"$e\""
            )
            said = await command(self._environment, text, limit_s=_WAIT_S + _SLACK_S, user=self._user)
            data, ended = _framed(said)
            at += len(data)
            if data:
                self._received(data)
            elif ended:
                self.end(None)
                return

    async def put(self, piece: bytes) -> None:
        """See `BufferedTransport`."""
        target = f"{self._folder}/in"
        if len(piece) <= _WRITE:
            text = base64.b64encode(piece).decode()
            await command(self._environment, f"printf %s {text} | base64 -d >{target}", limit_s=600, user=self._user)
            return
        with tempfile.TemporaryDirectory(prefix="envkit-") as folder:
            path = Path(folder) / "piece"
            await asyncio.to_thread(path.write_bytes, piece)
            await put(self._environment, path, f"{self._folder}/piece")
        text = f"cat {shlex.quote(self._folder)}/piece >{target} && rm -f {self._folder}/piece"
        await command(self._environment, text, limit_s=600, user=self._user)


def _framed(said: str) -> tuple[bytes, bool]:
    """The bytes of a read, and whether the supervisor had ended. Raises `EnvkitError` for what is no answer to it."""
    found = _FRAMED.search(said)
    try:
        if found is not None:
            return base64.b64decode("".join(found[1].split()), validate=True), bool(found[2])
        why = "it has no end" if "envkit<" in said else "it is another one"
    except ValueError as error:
        why = str(error)
    raise EnvkitError(
        f"the environment changed or cut the output of a command of the sandbox's own ({why}); expected base64 between "
        f"brackets, found {len(said):,} characters: {said[:80]!r}",
        kind=FailureKind.SANDBOX_ERROR,
        boundary=Boundary.SANDBOX,
    )


async def put(environment: Any, path: Path, target: str) -> None:
    """Uploads one file. Raises `EnvkitError` where the environment can't."""
    try:
        await environment.upload_file(path, target)
    except Exception as error:
        raise EnvkitError(
            f"the environment could not take a file: {type(error).__name__}: {error}",
            kind=FailureKind.SANDBOX_ERROR,
            boundary=Boundary.SANDBOX,
        ) from error
