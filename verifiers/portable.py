"""Typed checks for other programs: packs them so that a task directory runs under Harbor as it is.

`write_tests` puts three files beside a task's `verifier.toml`: `test.sh`, which Harbor runs; `envkit-verify.pyz`, a
zip application made of exactly the modules of ours that judging needs (no fork of them); and `initial.tar` where
checks compare with the initial state. All are the same bytes for the same input. Third-party packages
(`REQUIREMENTS`) come from the image.
"""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from envkit.verifiers.diff.types import TYPES
from envkit.verifiers.initial import gather, needs_of, to_archive
from envkit.verifiers.kinds import JUDGES
from envkit.verifiers.schema import Checks, load_checks

__all__ = [
    "APPLICATION",
    "REQUIREMENTS",
    "build_application",
    "initial_archive",
    "modules",
    "test_script",
    "write_tests",
]

APPLICATION = "envkit-verify.pyz"
#: What the image must have beside Python >= 3.11, in the form that pip takes.
REQUIREMENTS = (
    "pydantic>=2.11,<3",
    "lxml>=5",
    "pypdfium2>=5.0,<6",
    "formualizer==0.13.0",
    "tzdata",
)
_ENTRY = "envkit.verifiers.portable_main"
_MAIN = f"from {_ENTRY} import main\n\nraise SystemExit(main())\n"
_PACKAGE = '"""The part of envkit that judges typed checks."""\n'
_EPOCH = (1980, 1, 1, 0, 0, 0)


def _source(module: str) -> tuple[str, bytes]:
    """A module's path in the archive and its source."""
    if module == "envkit":
        return "envkit/__init__.py", _PACKAGE.encode()
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"module {module} is not installed")
    name = module.replace(".", "/") + ("/__init__.py" if spec.submodule_search_locations is not None else ".py")
    return name, Path(spec.origin).read_bytes()


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _imports(source: bytes) -> set[str]:
    """The modules of ours that a source imports, inside functions too, but not for type checking alone."""
    found: set[str] = set()
    todo: list[ast.AST] = [ast.parse(source)]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        children: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if _is_type_checking(node):
            assert isinstance(node, ast.If)
            children = node.orelse
        todo.extend(children)
    return {name for name in found if name.split(".")[0] == "envkit"}


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def modules() -> tuple[str, ...]:
    """The modules of ours that judging needs, sorted: what the entry point and the judges import, and their
    packages."""
    # Differs and readers of types are named in a table, not imported.
    named = (name.partition(":")[0] for kind in TYPES for name in (kind.reader, kind.differ))
    todo, seen = [_ENTRY, *named, *(module for module, _ in JUDGES.values())], {"envkit"}
    while todo:
        module = todo.pop()
        if module in seen or not _exists(module):
            continue
        seen.add(module)
        todo.append(module.rpartition(".")[0])
        todo += _imports(_source(module)[1])
    return tuple(sorted(seen))


@lru_cache(maxsize=1)
def build_application() -> bytes:
    """The zip application: the same bytes for the same sources, whatever built it."""
    entries = {"__main__.py": _MAIN.encode(), **dict(_source(module) for module in modules())}
    out = io.BytesIO()
    out.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(out, "a") as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            # Stored: compressed bytes differ between versions of the compressor.
            info.compress_type = zipfile.ZIP_STORED
            info.create_system = 3
            archive.writestr(info, entries[name])
    return out.getvalue()


def test_script() -> str:
    """The text of `tests/test.sh`. Python runs isolated: nothing in the working directory or the user's site takes
    part."""
    return f"#!/bin/bash\nset -eu\nexec python3 -I /tests/{APPLICATION}\n"


def initial_archive(checks: Checks, world: Path | None) -> bytes | None:
    """What the checks need of the initial state, as an archive; None where they need nothing of it or there is none.

    Raises:
        Unreadable: The world can't be read, or the checks need too much of it.
    """
    needs = needs_of(checks.check)
    if not needs:
        return None
    tree = gather(needs, world)
    return None if tree is None else to_archive(tree)


def write_tests(tests: Path, world: Path | None) -> tuple[Path, ...]:
    """Writes `test.sh`, the application and, where needed, `initial.tar` beside `tests/verifier.toml`.

    Args:
        world: The folder of the initial state, holding `filesystem/` and `.apps_data/`.

    Returns:
        The files written.

    Raises:
        UserError: verifier.toml is missing or broken.
    """
    checks = load_checks(tests / "verifier.toml")
    script, application, initial = tests / "test.sh", tests / APPLICATION, tests / "initial.tar"
    script.write_text(test_script(), encoding="utf-8")
    script.chmod(0o755)
    application.write_bytes(build_application())
    archive = initial_archive(checks, world)
    if archive is None:
        initial.unlink(missing_ok=True)
        return script, application
    initial.write_bytes(archive)
    return script, application, initial
