"""The stream over Harbor's commands, in an environment that runs them here: both ways, whatever it makes of them."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from envkit.failure import EnvkitError
from envkit.interop import harbor_stream
from envkit.interop.harbor_stream import HarborStream


@pytest.fixture(autouse=True)
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harbor_stream, "_WAIT_S", 1)


@dataclass
class Done:
    return_code: int
    stdout: str | None
    stderr: str | None = ""


@dataclass
class Environment:
    """Harbor's `exec` and `upload_file`; `changes` is what it makes of a command's output."""

    changes: Callable[[str], str | None] = str

    async def exec(self, command: str, timeout_sec: int | None = None, user: str | None = None) -> Done:
        shell = await asyncio.create_subprocess_exec("sh", "-c", command, stdout=-1, stderr=-1, start_new_session=True)
        try:
            out, err = await shell.communicate()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, 9)
            await shell.wait()
            raise
        return Done(shell.returncode or 0, self.changes(out.decode()), err.decode())

    async def upload_file(self, source: Path, target: str) -> None:
        shutil.copy(source, target)


class Place:
    """A stream, its folder, and what came of it."""

    def __init__(self, folder: Path, environment: Environment | None = None) -> None:
        self.folder = folder
        os.mkfifo(folder / "in")
        (folder / "out").touch()
        self.inlet = os.open(folder / "in", os.O_RDWR | os.O_NONBLOCK)
        self.got = b""
        self.told: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        lost = self.told.set_result
        self.stream = HarborStream(environment or Environment(), str(folder), None, self._received, lost)

    def _received(self, data: bytes) -> None:
        self.got += data

    def say(self, data: bytes) -> None:
        with (self.folder / "out").open("ab") as out:
            out.write(data)

    async def lost(self) -> Exception | None:
        try:
            return await asyncio.wait_for(self.told, 60)
        finally:
            os.close(self.inlet)
            self.stream.abort()


async def test_bytes_go_both_ways_through_banners_and_line_ends(tmp_path: Path) -> None:
    place = Place(tmp_path, Environment(lambda said: f"Welcome to <box>!\n{said}\r\nbye!"))
    data = bytes(range(256)) * 100
    place.say(data)
    place.stream.write(b"into the FIFO")
    heard = b""
    while not heard:
        with suppress(BlockingIOError):
            heard = os.read(place.inlet, 100)
        await asyncio.sleep(0.02)
    assert heard == b"into the FIFO"
    place.say(b"the last words")
    (tmp_path / "gone").write_text("0")
    assert await place.lost() is None
    assert place.got == data + b"the last words"


@pytest.mark.parametrize(
    "changes",
    [
        lambda said: "no base64 at all!",
        lambda said: said[: len(said) // 2],
        lambda said: said.replace("envkit<", "envkit<A"),
        lambda said: said.replace("Q", "\u00c4"),
        lambda said: "",
        lambda said: None,
    ],
)
async def test_output_that_was_cut_or_changed_ends_the_connection(
    tmp_path: Path, changes: Callable[[str], str | None]
) -> None:
    place = Place(tmp_path, Environment(changes))
    place.say(b"AAAA" * 100)
    error = await place.lost()
    assert isinstance(error, EnvkitError)
    assert "output" in str(error)
    assert not place.got


async def test_a_supervisor_that_was_killed_with_its_keeper_is_missed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    ended = subprocess.Popen(["true"])
    ended.wait()
    place.say(b"before")
    (tmp_path / "pid").write_text(str(ended.pid))
    assert await place.lost() is None
    assert place.got == b"before"


async def test_a_folder_that_is_gone_ends_the_connection(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    place = Place(tmp_path / "inner")
    (tmp_path / "inner").rename(tmp_path / "elsewhere")
    place.say = lambda data: None  # type: ignore[method-assign]
    assert isinstance(await place.lost(), EnvkitError)
