"""What runs inside the sandbox: our own code as a folder of compiled modules, and how the server process is started.

The folder holds what the servers import of envkit and nothing else (found by following their imports), laid out as the
package `envkit`, compiled by the interpreter that will run it, with the tool lists as data so that a start imports no
app. It is named by its content, made once per machine under a lock, and shown inside read-only; the packages it needs
are in the sandbox's runtime. Used by the harness: `with_servers` before the sandbox is made, `start_servers` after.
"""

from __future__ import annotations

import ast
import datetime as dt
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from envkit import __version__
from envkit.failure import CapabilityError, EnvkitError, FailureKind
from envkit.home import envkit_home
from envkit.sandbox.cache import cached, reachable_by_others
from envkit.sandbox.runtime import REQUIREMENTS, Runtime, ensure_runtime

if TYPE_CHECKING:
    from envkit.sandbox.base import Process, Sandbox, SandboxSpec

__all__ = ["INSIDE", "command", "ensure_bundle", "start_relay", "start_servers", "with_servers"]

#: Where the folder is shown inside.
INSIDE = "/opt/envkit"
_ROOTS = ("envkit.harnesses.archipelago.servers", "envkit.harnesses.archipelago.relay", "envkit.office")
#: Packages that only collect names for users of the whole: inside, empty ones stand for them.
_EMPTY = ("envkit", "envkit.harnesses", "envkit.harnesses.archipelago", "envkit.sandbox")
#: A change of how a folder is made.
_FORMAT = 1
_SERVE = "serve.py"
_RELAY = "relay.py"
_BUILD_S = 300.0
_SCRIPTS = {
    _SERVE: "from envkit.harnesses.archipelago.servers.__main__ import main\nraise SystemExit(main())\n",
    _RELAY: "from envkit.harnesses.archipelago.relay import main\nraise SystemExit(main())\n",
}


def with_servers(spec: SandboxSpec) -> SandboxSpec:
    """The sandbox's spec with our code shown inside. Makes the folder where it is missing (seconds, once).

    Raises:
        CapabilityError: It, or the runtime with the packages, can't be made.
    """
    folder = ensure_bundle()
    return spec.model_copy(update={"readonly": {**spec.readonly, INSIDE: str(folder)}})


async def start_servers(
    sandbox: Sandbox,
    *,
    apps: Sequence[str] | None = None,
    mode: Literal["meta", "individual"] = "meta",
    timeout_s: float = 600.0,
    now: dt.datetime | None = None,
    since_s: float | None = None,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Starts the server process, which speaks MCP on its standard streams.

    Args:
        apps: By name; None for the nine standard ones.
        timeout_s: The longest a call may take, where its request's `_meta` (`envkit/timeout_s`) says nothing.
        now: What the model is told the time is; mail and chat are dated by it. None: the clock's.
        since_s: The reading of `time.monotonic()` at which it was `now`; give the same at a restart.
        env: Published environment variables of the apps.

    Raises:
        EnvkitError: It can't be started (`SETUP_FAILED`).
        SandboxDied: See `Sandbox.spawn`.
    """
    arguments = ["--mode", mode, "--timeout-s", f"{timeout_s:g}"]
    # A call's own limit, below the sandbox's: then it is told what happened, where the kernel would only kill.
    arguments += ["--memory-mb", str(max(256, sandbox.spec.memory_mb * 3 // 4))]
    if apps is not None:
        arguments += ["--apps", ",".join(apps)]
    settings = dict(env or {})
    if now is not None:
        settings["ENVKIT_NOW"] = now.isoformat()
        settings["ENVKIT_EPOCH"] = repr(time.monotonic() if since_s is None else since_s)
    return await sandbox.spawn([*command(_SERVE), *arguments], env=settings, cwd=sandbox.spec.workdir)


async def start_relay(
    sandbox: Sandbox, *, url: str, sse: bool = False, headers: Mapping[str, str] | None = None
) -> Process:
    """Starts a process that passes MCP messages between its standard streams and an HTTP server inside the sandbox.

    Args:
        sse: Whether it speaks the older transport of two endpoints.
        headers: Sent with every request; handed over in the environment, not on the command line.
    """
    settings = {"ENVKIT_RELAY_HEADERS": json.dumps(dict(headers or {}))}
    return await sandbox.spawn([*command(_RELAY), "--sse" if sse else "--http", url], env=settings)


def command(script: str = _SERVE, folder: str = INSIDE, interpreter: str | None = None) -> list[str]:
    """How a script of the folder is run: without what a user of the sandbox may have put into Python's way."""
    return [interpreter or ensure_runtime().interpreter.path, "-s", "-E", "-B", f"{folder}/{script}"]


@lru_cache(maxsize=1)
def ensure_bundle() -> Path:
    """The folder, made where it is missing.

    Raises:
        CapabilityError: It can't be made; the message has the interpreter's own words.
    """
    runtime = ensure_runtime()
    # Reading and following all sources takes a second; for sources that have not changed the answer is kept.
    key = repr((_FORMAT, __version__, runtime.interpreter.tag, REQUIREMENTS, _fingerprint()))
    place = envkit_home() / "bundles" / cached("servers", key, lambda: _name(runtime).encode()).decode()
    if not place.is_dir():
        files = _files()
        place.parent.mkdir(mode=0o755, exist_ok=True)
        fd = os.open(place.parent / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not place.is_dir():
                _build(runtime, files, place)
        finally:
            os.close(fd)
    if os.geteuid() == 0 and not reachable_by_others(place):
        raise CapabilityError(
            f"the servers' code at {place} can't be read by the users of sandboxes; set ENVKIT_HOME to a folder that "
            "every user can enter, such as /var/lib/envkit"
        )
    return place


def _name(runtime: Runtime) -> str:
    digest = hashlib.sha256(repr((_FORMAT, __version__, REQUIREMENTS)).encode())
    for name, content in _files().items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return f"py{runtime.interpreter.tag}-{digest.hexdigest()[:16]}"


def _fingerprint() -> str:
    """Changes when any source that might belong into the folder does: names, sizes and times of all of ours."""
    digest = hashlib.sha256()
    for module in ("envkit", "envkit.harnesses.archipelago"):
        found = _source(module)
        assert found is not None
        waiting = [str(found[0].parent)]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.is_dir():
                        if entry.name != "__pycache__":
                            waiting.append(entry.path)
                    else:
                        about = entry.stat()
                        digest.update(f"{entry.path}\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _build(runtime: Runtime, files: Mapping[str, bytes], place: Path) -> None:
    for half in place.parent.glob(".half-*"):  # we hold the lock: whoever made it is dead
        shutil.rmtree(half, ignore_errors=True)
    half = Path(tempfile.mkdtemp(prefix=".half-", dir=place.parent))
    half.chmod(0o755)
    try:
        for name, content in files.items():
            target = half / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        python = [runtime.interpreter.path, "-I"]
        catalog = f"import sys; sys.path[:0] = {[str(half), str(runtime.packages)]!r}\n" + _CATALOG
        _run("list the tools", [*python, "-B", "-c", catalog])
        # Never checked against the sources again: nobody can change them.
        _run(
            "compile the code", [*python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(half)]
        )
        half.rename(place)
    finally:
        shutil.rmtree(half, ignore_errors=True)


_CATALOG = """\
from pathlib import Path
from envkit.harnesses.archipelago.servers import catalog
catalog.save(Path(catalog.__file__).parent)
"""


def _run(what: str, argv: list[str]) -> None:
    try:
        subprocess.run(argv, capture_output=True, text=True, timeout=_BUILD_S, check=True, umask=0o022, cwd="/")
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", None) or str(error))[-3000:]
        raise CapabilityError(f"can't {what} of the tool servers for the inside of sandboxes: {words}") from error


# -- what belongs into it


@lru_cache(maxsize=1)
def _files() -> dict[str, bytes]:
    """Path in the folder -> content: the roots, all that they import of envkit, and their data files."""
    files: dict[str, bytes] = {name: text.encode() for name, text in _SCRIPTS.items()}
    for name in _EMPTY:
        files[f"{name.replace('.', '/')}/__init__.py"] = b""
    files["envkit/__init__.py"] = f"__version__ = {__version__!r}\n".encode()
    waiting = [name for root in _ROOTS for name in _below(root)]
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        found = _source(name)
        if found is None:
            continue
        path, is_package = found
        target = f"{name.replace('.', '/')}/__init__.py" if is_package else f"{name.replace('.', '/')}.py"
        if name in _EMPTY:
            continue
        files[target] = path.read_bytes()
        if is_package:
            files |= _data(path.parent, name)
        for imported in _imports(files[target], name, is_package):
            parts = imported.split(".")
            for count in range(1, len(parts) + 1):
                part = ".".join(parts[:count])
                if part not in seen:
                    seen.add(part)
                    waiting.append(part)
    return dict(sorted(files.items()))


def _below(root: str) -> Iterator[str]:
    """A package with all its modules, or a module."""
    found = _source(root)
    if found is None:
        raise EnvkitError(f"module {root} is missing from this installation", kind=FailureKind.SETUP_FAILED)
    yield root
    path, is_package = found
    if not is_package:
        return
    for inner in sorted(path.parent.rglob("*.py")):
        parts = inner.relative_to(path.parent).with_suffix("").parts
        yield ".".join([root, *(part for part in parts if part != "__init__")])


@lru_cache(maxsize=1024)
def _source(name: str) -> tuple[Path, bool] | None:
    """The file of a module of ours; None for what is no module (a name imported from one)."""
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin), spec.submodule_search_locations is not None


def _data(folder: Path, name: str) -> dict[str, bytes]:
    """What lies beside a package's modules."""
    return {
        f"{name.replace('.', '/')}/{path.name}": path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix not in (".py", ".pyc", ".pyi")
    }


def _imports(source: bytes, name: str, is_package: bool) -> Iterator[str]:
    """What a module imports of envkit, at its top or in a function, but not for the type checker alone."""
    for node in _nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "envkit")
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                parts = parts[: len(parts) - node.level + (1 if is_package else 0)]
                base = ".".join([*parts, base] if base else parts)
            if base.split(".")[0] == "envkit":
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield other
                yield from _nodes(other)
            continue
        yield child
        yield from _nodes(child)
