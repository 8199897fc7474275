"""The supervisor as one file: its modules' sources put together, or compiled for the interpreter that will run it.

A bundle is a Python source file that any Python >= 3.8 can run. Compiling it takes 30 ms, so providers that know the
interpreter keep a compiled one, made by that interpreter and named by the content of the sources.
"""

from __future__ import annotations

import hashlib
import subprocess
from functools import lru_cache
from pathlib import Path

from envkit.failure import Boundary, EnvkitError, FailureKind
from envkit.sandbox.cache import cached, identity

__all__ = ["compiled", "source"]

_FOLDER = Path(__file__).parent / "supervisor"
#: In the order of their imports.
_MODULES = ("wire", "loop", "tree", "child", "jobs", "unpack", "pack", "main")

_BOOT = """\
import sys
def _boot(modules):
    kind = type(sys)
    for name in ("envkit", "envkit.sandbox", "envkit.sandbox.supervisor"):
        sys.modules[name] = kind(name)
    package = sys.modules["envkit.sandbox.supervisor"]
    for name, code in modules:
        module = kind(package.__name__ + "." + name)
        sys.modules[module.__name__] = module
        setattr(package, name, module)
        exec(code, module.__dict__)
    package.main.main()
"""

# Runs in the other interpreter: reads (name, source) pairs as a literal, writes a .pyc.
_COMPILE = r"""
import importlib.util, marshal, sys
modules = eval(sys.stdin.buffer.read(), {"__builtins__": {}})
boot = modules.pop(0)[1]
blobs = [(name, marshal.dumps(compile(text, "<supervisor %s>" % name, "exec", dont_inherit=True, optimize=2)))
         for name, text in modules]
text = boot + "import marshal\n_boot([(n, marshal.loads(c)) for n, c in %r])\n" % blobs
code = compile(text, "<supervisor>", "exec", dont_inherit=True, optimize=2)
sys.stdout.buffer.write(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
"""


@lru_cache(maxsize=1)
def _sources() -> tuple[tuple[str, str], ...]:
    return tuple((name, (_FOLDER / f"{name}.py").read_text(encoding="utf-8")) for name in _MODULES)


@lru_cache(maxsize=1)
def source() -> bytes:
    """The bundle as source, for interpreters that we only meet inside."""
    return (_BOOT + f"_boot({list(_sources())!r})\n").encode()


@lru_cache(maxsize=4)
def fingerprint() -> str:
    """Changes whenever the supervisor does."""
    return hashlib.sha256(source()).hexdigest()[:16]


@lru_cache(maxsize=4)
def compiled(python: str) -> bytes:
    """The bundle as a .pyc of the interpreter at `python`. Raises `EnvkitError(SANDBOX_START)` where that can't run."""
    return cached("supervisor", f"{fingerprint()}:{identity(python)}", lambda: _compile(python))


def _compile(python: str) -> bytes:
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _COMPILE],
            input=repr([("", _BOOT), *_sources()]).encode(),
            capture_output=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", b"") or b""
        raise EnvkitError(
            f"{python} can't compile the supervisor: {error}; {detail.decode(errors='replace')[-2000:]}",
            kind=FailureKind.SANDBOX_START,
            boundary=Boundary.SANDBOX,
        ) from error
    return done.stdout
