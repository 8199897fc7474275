"""Makes one `InsideModule` out of several source files, so that what runs inside is written like any other package.

The parts keep their relative imports: the bundle registers a package of its own in the sandbox's interpreter, loads
the parts into it in the given order, and offers the public functions of the last one.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from envkit.sandbox.base import InsideModule

__all__ = ["reading", "searching", "writing"]

_LOADER = """\
import sys, types
package = types.ModuleType({name!r})
package.__path__ = []
sys.modules[{name!r}] = package
for part, source in {parts!r}:
    module = types.ModuleType({name!r} + "." + part)
    module.__package__ = {name!r}
    sys.modules[module.__name__] = module
    exec(compile(source, "<%s/%s.py>" % ({name!r}, part), "exec"), module.__dict__)
    setattr(package, part, module)
globals().update((k, v) for k, v in vars(module).items() if not k.startswith("_"))
"""


@cache
def _bundle(name: str, *parts: str) -> InsideModule:
    folder = files(__package__).joinpath("inside")
    sources = [(part, folder.joinpath(f"{part}.py").read_text(encoding="utf-8")) for part in parts]
    return InsideModule(name=name, source=_LOADER.format(name=name, parts=sources))


def reading() -> InsideModule:
    """`read`."""
    return _bundle("envkit_opencode_reading", "paths", "reading")


def writing() -> InsideModule:
    """`write` and `edit`."""
    return _bundle("envkit_opencode_writing", "paths", "strategies", "writing")


def searching() -> InsideModule:
    """`glob` and `grep`."""
    return _bundle(
        "envkit_opencode_searching", "paths", "globs", "walking", "unicode_classes", "rust_regex", "searching"
    )
