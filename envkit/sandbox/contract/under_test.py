"""A provider under test, and how a test of the contract runs: in an event loop of its own, with an end."""

from __future__ import annotations

import asyncio
import functools
import io
import re
import tarfile
import tomllib
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from envkit import plugins
from envkit.failure import UserError
from envkit.sandbox.base import Capabilities, InsideModule, Sandbox, SandboxProvider, SandboxSpec

__all__ = ["CALLS", "Contract", "behaviour", "members_of", "processes", "tar_of"]

_TEST_S = 100.0
#: Small, so that a memory limit is reached fast and a machine holds several.
_SPEC: dict[str, Any] = {"memory_mb": 256, "disk_mb": 64, "side_disk_mb": 16}

CALLS = InsideModule(
    "contract_calls",
    "import os, sys, time\n"
    "state = []\n"
    "def echo(value): return value\n"
    "def count(): state.append(1); return len(state)\n"
    "def fail(): raise KeyError('nope')\n"
    "def die(): os.kill(os.getpid(), 9)\n"
    "def spin(): time.sleep(1000)\n"
    "def big(size): return 'x' * size\n"
    "def talk(): print('noise', flush=True); return 'said'\n"
    "def where(): return [os.getcwd(), os.getuid(), os.environ.get('FOO')]\n"
    "def odd(): return {1, 2}\n",
)


def _named(text: str) -> tuple[str, dict[str, Any]]:
    """Name and options out of `NAME:k=v,...` or `module:Class:k=v,...`; values as TOML has them, else text."""
    match = re.match(r"([^:=]+(?::[A-Za-z_]\w*)?)(?::([A-Za-z_]\w*=.*))?$", text)
    if match is None:
        raise UserError(f"--envkit-provider: expected NAME, NAME:k=v,... or module:Class, found {text!r}")
    name, pairs = match[1], match[2] or ""
    options: dict[str, Any] = {}
    for key, value in re.findall(r"(\w+)=(.*?)(?=,\w+=|$)", pairs):
        try:
            options[key] = tomllib.loads(f"v = {value}")["v"]
        except tomllib.TOMLDecodeError:
            options[key] = value
    return name, options


class Contract:
    """The provider named, made anew for each test."""

    def __init__(self, name: str) -> None:
        self.provider: SandboxProvider = plugins.construct("sandboxes", *_named(name))
        self.can: Capabilities = self.provider.capabilities()

    def spec(self, **fields: Any) -> SandboxSpec:
        return SandboxSpec(**{**_SPEC, **fields})

    def create(self, **fields: Any) -> Sandbox:
        return self.provider.create(self.spec(**fields))

    def needs(self, *, limit: str | None = None, python: bool = False, isolated: bool = False) -> None:
        """Skips the test where the provider says that it can't do this."""
        name = self.provider.name
        if limit is not None and limit not in self.can.limits:
            pytest.skip(f"provider {name!r} does not limit {limit}")
        if python and not self.can.python:
            pytest.skip(f"provider {name!r} has no Python inside")
        if isolated and not self.can.isolated:
            pytest.skip(f"provider {name!r} isolates nothing")


def behaviour(body: Callable[[Contract], Awaitable[None]]) -> Callable[[Contract], None]:
    """Makes a test of the contract out of a coroutine function."""

    @functools.wraps(body)
    def test(contract: Contract) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(_TEST_S):
                await body(contract)

        asyncio.run(bounded())

    return test


def tar_of(*members: Any, form: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar of (name, content or None for a folder, {TarInfo fields})."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, errors="surrogateescape") as tar:
        for name, content, *fields in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            else:
                info.size = len(content)
            for key, value in (fields[0] if fields else {}).items():
                setattr(info, key, value)
            if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                info.size = 0
            tar.addfile(info, io.BytesIO(content or b""))
    return out.getvalue()


async def members_of(sandbox: Sandbox, *paths: str) -> dict[str, Any]:
    """A snapshot's members by name, each once."""
    data = b"".join([piece async for piece in sandbox.snapshot(*([paths] if paths else []))])
    found: dict[str, Any] = {}
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as tar:
        for member in tar.getmembers():
            assert member.name not in found
            content = tar.extractfile(member) if member.isreg() else None
            found[member.name] = SimpleNamespace(
                type=member.type,
                linkname=member.linkname,
                mode=member.mode,
                mtime=member.mtime,
                content=content.read() if content is not None else None,
            )
    return found


_LIST = (
    "for d in /proc/[0-9]*; do p=${d#/proc/}; [ $p = $$ ] && continue; "
    "{ tr '\\0' ' ' <$d/cmdline; echo; } 2>/dev/null; done"
)


async def processes(sandbox: Sandbox, mark: str) -> int:
    """How many processes inside have `mark` in their command line."""
    listed = await sandbox.exec(["sh", "-c", _LIST])
    return sum(mark.encode() in line for line in listed.stdout.splitlines())
