"""Import rules: the core knows no wing, a wing only the core, and inside the core imports point down."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WINGS = ("harnesses", "verifiers", "tasks", "backends")

#: What a wing may import of another.
BETWEEN_WINGS = {("tasks", "verifiers")}

#: The core's floors, ground floor first. A module imports its own floor and those below.
FLOORS = [
    {"failure", "deadline", "messages", "home", "plugins", "loop", "scrub", "storage", "regular_file"},
    {"task", "office", "tokens", "engine", "sandbox", "atif", "atif_schema", "snapshot"},
    {"harness", "verifier", "pack", "backend"},
    {"registry", "directory_pack", "worlds", "behaviours", "overlap"},
    {"env", "episode", "work", "proxy", "policy"},
    {"making"},
    {"gym", "pool"},
    {"trial"},
    {"report", "view", "check", "regrade", "export", "interop", "backend_contract"},
    {"cli"},
]


@functools.cache
def imports(path: Path) -> tuple[tuple[str, bool], ...]:
    """Every envkit module a file imports, and whether only a type checker does."""
    found: list[tuple[str, bool]] = []
    todo: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while todo:
        node, guarded = todo.pop()
        if isinstance(node, ast.Import):
            found += [(alias.name, guarded) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [f"envkit.{alias.name}" for alias in node.names] if node.module == "envkit" else [node.module]
            found += [(name, guarded) for name in names]
        typing_only = {*node.body} if isinstance(node, ast.If) and _checks_types(node.test) else set()
        # imports are statements: expressions, which are most of a file, hold none
        todo += [
            (child, guarded or child in typing_only)
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, ast.expr)
        ]
    return tuple(found)


def _checks_types(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", files("envkit"), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_core_imports_no_wing(path: Path) -> None:
    wings = [name for name, _ in imports(path) if name.startswith(tuple(f"envkit.{w}" for w in WINGS))]
    assert not wings


@pytest.mark.parametrize("wing", WINGS)
def test_a_wing_imports_only_the_core(wing: str) -> None:
    for path in files(wing):
        for name, _ in imports(path):
            for other in WINGS:
                if other != wing and name.startswith(f"envkit.{other}"):
                    assert (wing, other) in BETWEEN_WINGS, f"{path.relative_to(ROOT)} imports {name}"


def test_inside_the_core_imports_point_down() -> None:
    floor = {module: number for number, modules in enumerate(FLOORS) for module in modules}
    for path in files("envkit"):
        parts = path.relative_to(ROOT / "envkit").with_suffix("").parts
        own = parts[0]
        if own == "__init__":
            continue  # the public face, which only re-exports
        assert own in floor, f"{path.relative_to(ROOT)} stands on no floor; name it in FLOORS"
        for name, typing_only in imports(path):
            if not name.startswith("envkit.") or typing_only:
                continue
            other = name.split(".")[1]
            if other in floor:
                assert floor[other] <= floor[own], f"{path.relative_to(ROOT)} (floor {floor[own]}) imports {name}"


def test_importing_envkit_is_light() -> None:
    code = (
        "import sys, time; t = time.perf_counter(); import envkit; s = time.perf_counter() - t; "
        "heavy = [m for m in ('torch', 'vllm', 'ray', 'docker', 'modal', 'boto3', 'gymnasium', 'numpy', 'openpyxl') "
        "if m in sys.modules]; print(s, heavy); sys.exit(bool(heavy) or s > 2.0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_public_name_exists() -> None:
    import envkit

    for name in envkit.__all__:
        assert getattr(envkit, name) is not None
