"""What `envkit doctor` says of this harness: whether the servers start inside a sandbox, and what code finds there.

One sandbox is started, the servers in it shake hands and list their tools, and `code_exec` imports the packages that
tasks are written against. Everything is gone afterwards.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded, EnvkitError
from envkit.harnesses.archipelago import bundle
from envkit.harnesses.archipelago.connection import CallRefused, CallTimeout, Connection, ServerGone
from envkit.harnesses.archipelago.link import ProcessLink
from envkit.sandbox.base import ProviderReport, SandboxSpec
from envkit.sandbox.local import LocalProvider

if TYPE_CHECKING:
    from envkit.sandbox.local import LocalSandbox

__all__ = ["PACKAGES", "report"]

#: What code execution must be able to import: a missing package costs turns.
PACKAGES = ("pandas", "numpy", "openpyxl", "docx", "pptx", "pdfplumber", "pypdf", "matplotlib")
_READY_S = 60.0
#: One that is broken hides no other, and an interpreter that does not start has found nothing.
_TRIES = """\
import importlib
for name in {names!r}:
    try:
        importlib.import_module(name)
        print("found:" + name)
    except Exception as error:
        print(name, error)
"""
_IMPORT_S = 120.0


def report() -> ProviderReport:
    """Usable means that every server lists its tools and every package can be imported."""
    return asyncio.run(_report())


async def _report() -> ProviderReport:
    details: dict[str, str] = {}
    try:
        place = LocalProvider().create(bundle.with_servers(SandboxSpec()))
        async with place as sandbox:
            remedy = await _look(sandbox, details)
    except (EnvkitError, OSError) as error:
        details.setdefault("tool servers", "can't be started")
        remedy = str(error)
    return ProviderReport("archipelago", remedy is None, details, remedy)


async def _look(sandbox: LocalSandbox, details: dict[str, str]) -> str | None:
    """Fills in the details; returns what to do, if anything is."""
    began_s = time.monotonic()
    link = ProcessLink(await bundle.start_servers(sandbox))
    connection = Connection("apps", link)
    try:
        tools = await connection.open(Deadline.after(_READY_S, "the servers' start"))
        details["tool servers"] = f"{len(tools)} tools, ready in {time.monotonic() - began_s:.1f} s"
        code = next(tool.name for tool in tools if tool.name.endswith("code_exec"))
        script = f"python3 - <<'EOF'\n{_TRIES.format(names=PACKAGES)}EOF"
        result = await connection.call(code, {"request": {"code": script}}, _IMPORT_S)
    except (ServerGone, DeadlineExceeded, CallTimeout, CallRefused) as error:
        details.setdefault("tool servers", "do not start")
        return f"{error}; {await link.last_words()}"
    finally:
        await connection.close()
    found = str((result.structuredContent or {}).get("output", "")).split()
    missing = [name for name in PACKAGES if f"found:{name}" not in found]
    details["code execution"] = f"can't import {', '.join(missing)}" if missing else ", ".join(PACKAGES)
    return "`python -m envkit.sandbox.runtime` builds the packages anew" if missing else None
