"""The supervisor as it travels: old Pythons can read it, it imports nothing that costs time, and it is one file."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import envkit.sandbox
from envkit.failure import EnvkitError
from envkit.sandbox import bundle

FOLDER = Path(envkit.sandbox.__file__ or "").parent / "supervisor"
MODULES = sorted(FOLDER.glob("*.py"))
#: All of them built in or tiny; `selectors`, `signal`, `socket`, `json`, `tarfile` each take longer than the rest.
CHEAP = {
    "__future__",
    "errno",
    "fcntl",
    "gc",
    "heapq",
    "os",
    "resource",
    "select",
    "stat",
    "struct",
    "sys",
    "time",
    "_signal",
}
ON_DEMAND = {"_ctypes", "ctypes", "traceback"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_python_38_and_imports_little(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []  # for the type checker only
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    ours = {name for name in imported if name.startswith("envkit.sandbox.supervisor")}
    assert imported - ours <= CHEAP | ON_DEMAND


def test_every_module_is_in_the_bundle():
    assert {path.stem for path in MODULES} - {"__init__"} == set(bundle._MODULES)


@pytest.mark.parametrize("kind", ["source", "compiled"])
def test_the_bundle_runs_by_itself(tmp_path, kind):
    path = tmp_path / ("s.py" if kind == "source" else "s.pyc")
    path.write_bytes(bundle.source() if kind == "source" else bundle.compiled(sys.executable))
    done = subprocess.run([sys.executable, "-I", "-S", str(path), "99"], capture_output=True, text=True, check=False)
    assert "Bad file descriptor" in done.stderr  # it got as far as its connection


def test_an_interpreter_that_is_none_is_named(tmp_path):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho broken >&2; exit 1\n")
    program.chmod(0o755)
    with pytest.raises(EnvkitError, match="broken"):
        bundle.compiled(str(program))
