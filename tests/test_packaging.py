"""The built wheel holds `envkit` and nothing else, with everything the package needs at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # a wheel is built and installed

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("wheel")
    # A copy, so that setuptools' own build folder neither leaks into the repository nor into the wheel.
    source = out / "source"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(source)], check=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(out), str(source)],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def test_nothing_but_envkit_is_installed(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"envkit"}


def test_every_package_of_the_repository_is_in_the_wheel(wheel: list[str]) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    expected = set()
    for path in tracked:
        top = path.split("/")[0]
        if top == "envkit":
            expected.add(path)
        elif top in ("harnesses", "verifiers", "tasks", "backends"):
            expected.add(f"envkit/{path}")
    assert expected - set(wheel) == set(), "folders without __init__.py are left out of the wheel"
    assert "envkit/py.typed" in wheel
    assets = {f"envkit/view/assets/{path.name}" for path in (ROOT / "envkit" / "view" / "assets").iterdir()}
    assert assets - set(wheel) == set(), "the viewer's page is in the wheel"


def test_no_tests_or_benchmarks_are_installed(wheel: list[str]) -> None:
    ours = [name for name in wheel if not name.startswith("envkit/tasks/packs/templates/")]  # of new packs, their own
    assert [name for name in ours if "tests/" in name or "benchmarks/" in name] == []
