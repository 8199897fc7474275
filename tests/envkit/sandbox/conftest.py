"""Real sandboxes, as root and as an unprivileged user: `run(body)` gives `body` a started sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from envkit.failure import CapabilityError
from envkit.sandbox import bwrap
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider, LocalSandbox

NOBODY = 65534
USERS = ["root", "nobody"] if os.geteuid() == 0 else ["user"]

Body = Callable[[LocalSandbox], Awaitable[None]]
Run = Callable[..., None]


@pytest.fixture(scope="session", autouse=True)
def _bubblewrap() -> None:
    try:
        bwrap.find(os.geteuid() == 0)
    except CapabilityError as error:
        pytest.fail(str(error))


@pytest.fixture(scope="session")
def provider() -> LocalProvider:
    """Without the office packages: what is tested here does not need them."""
    return LocalProvider(office=False)


@pytest.fixture
async def sandbox(provider: LocalProvider):  # type: ignore[no-untyped-def]
    async with provider.create(SandboxSpec()) as started:
        yield started


async def _with_sandbox(body: Body, spec: SandboxSpec) -> None:
    async with LocalProvider(office=False).create(spec) as sandbox:
        await body(sandbox)


def _as_nobody(work: Callable[[], None], home: str) -> None:
    """Runs `work` in a forked child that has given up root, and fails with the child's own traceback.

    Forked, not started anew: the interpreter that runs the tests may lie where no other user can read it.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.environ["ENVKIT_HOME"] = home
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            bwrap.find.cache_clear()
            work()
        except BaseException:  # noqa: BLE001 - reported to the parent
            os.write(writer, traceback.format_exc().encode()[-60000:])
        finally:
            os._exit(0)
    os.close(writer)
    words = b""
    while piece := os.read(reader, 65536):
        words += piece
    os.close(reader)
    os.waitpid(pid, 0)
    if words:
        pytest.fail(words.decode(), pytrace=False)


@pytest.fixture(scope="session")
def nobody_home() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="envkit-test-home-", dir="/var/tmp")
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _runner(user: str, home: str) -> Run:
    def runner(body: Body, **spec: object) -> None:
        wanted = SandboxSpec(**spec)  # type: ignore[arg-type]
        if user == "nobody":
            _as_nobody(lambda: asyncio.run(_with_sandbox(body, wanted)), home)
        else:
            asyncio.run(_with_sandbox(body, wanted))

    return runner


@pytest.fixture(params=[pytest.param(user, marks=pytest.mark.slow if user == "nobody" else ()) for user in USERS])
def run(request: pytest.FixtureRequest, nobody_home: str) -> Run:
    """`run(body, **spec)`: starts a sandbox of that spec and awaits `body(sandbox)`. As nobody only among the slow."""
    return _runner(request.param, nobody_home)


@pytest.fixture(params=USERS)
def run_as_each(request: pytest.FixtureRequest, nobody_home: str) -> Run:
    """`run`, as each user every time: for what root and others do differently."""
    return _runner(request.param, nobody_home)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder on the host that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="envkit-test-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
