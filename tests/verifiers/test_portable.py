"""The packed checks: the same verdict as inside envkit, from a plain Python and a folder."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from envkit.verifiers import ChecksVerifier
from envkit.verifiers.portable import APPLICATION, build_application, modules, write_tests
from envkit.verifiers.portable_main import answer_of

Request = Callable[..., Any]
BOX = ".apps_data/mail/a.mbox"
OLD = b"From x\nMessage-ID: <1@x>\nFrom: a@b.c\nTo: d@e.f\nSubject: Old\n\nOld\n\n"
SENT = OLD + b"From x\nMessage-ID: <2@x>\nFrom: a@b.c\nTo: g@h.i\nSubject: New\n\nFees are EUR 5k\n\n"
TOML = """
schema_version = "1"
[[check]]
id = "answer"
kind = "answer"
number = {value = 6.2, label = "total"}
[[check]]
id = "cell"
kind = "cell"
path = "m.xlsx"
cell = "A3"
value = 6.2
is_formula = true
[[check]]
id = "mail"
kind = "mail"
to = ["g@h.i"]
number = {value = 5000, unit = "EUR"}
[[check]]
id = "rest"
kind = "unchanged"
paths = ["/filesystem/**"]
[[check]]
id = "link"
kind = "text"
path = "link.txt"
contains = ["root"]
"""


def model(total: object = "=A1-A2") -> bytes:
    book = openpyxl.Workbook()
    for row, value in enumerate((12.4, 6.2, total), start=1):
        book.active.cell(row, 1, value)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def run(root: Path, application: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(application), "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd="/")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "answer", "reward"),
    [
        ({"filesystem/m.xlsx": model(), "filesystem/a.txt": b"a", BOX: SENT}, "The total is 6.2", 0.8),
        ({"filesystem/m.xlsx": model(6.2), "filesystem/a.txt": b"b", BOX: SENT + SENT}, "The total is 6.3", 0.0),
        ({"filesystem/m.xlsx": b"junk", "filesystem/a.txt": b"a"}, None, 0.2),
    ],
)
async def test_the_verdict_is_the_same(
    request_for: Request, tmp_path: Path, files: Mapping[str, bytes], answer: str | None, reward: float
) -> None:
    world = {"filesystem/a.txt": b"a", BOX: OLD}
    request = request_for({"verifier.toml": TOML}, final=files, initial=world, answer=answer)
    native = await ChecksVerifier().verify(request)
    root = tmp_path / "container"
    tests = root / "tests"
    tests.mkdir(parents=True)
    (tests / "verifier.toml").write_text(TOML)
    written = write_tests(tests, tmp_path / "world")
    assert [p.name for p in written] == ["test.sh", APPLICATION, "initial.tar"]
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "filesystem/link.txt").symlink_to("/etc/passwd")
    (root / "logs/agent").mkdir(parents=True)
    if answer is not None:
        (root / "logs/agent/answer.txt").write_text(answer)
    done = run(root, tests / APPLICATION)
    assert done.returncode == 0, done.stderr
    assert json.loads((root / "logs/verifier/reward.json").read_text()) == {"reward": reward}
    criteria = json.loads((root / "logs/verifier/criteria.json").read_text())["criteria"]
    expected = [c.model_dump(mode="json") for c in native.criteria]
    # The live tree has a link that the archive has not; both judge it as failed.
    assert [c for c in criteria if c["id"] != "link"] == [c for c in expected if c["id"] != "link"]
    assert native.reward == reward


@pytest.mark.slow
def test_without_a_verdict_there_is_no_reward_file(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "verifier.toml").write_text(TOML)
    (tests / APPLICATION).write_bytes(build_application())
    verifier_logs = tmp_path / "logs/verifier"
    verifier_logs.mkdir(parents=True)
    (verifier_logs / "reward.json").write_text('{"reward": 1}')  # planted
    done = run(tmp_path, tests / APPLICATION)
    assert done.returncode == 1
    assert "no verdict" in done.stderr
    assert not (verifier_logs / "reward.json").exists()
    (tests / "verifier.toml").write_text("x = 1")
    done = run(tmp_path, tests / APPLICATION)
    assert done.returncode == 2
    assert "unknown key" in done.stderr
    assert not (verifier_logs / "reward.json").exists()


@pytest.mark.slow
def test_the_application_is_reproducible_and_holds_only_what_judges() -> None:
    first = build_application()
    build_application.cache_clear()
    assert build_application() == first
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        names = set(archive.namelist())
    assert {
        "__main__.py",
        "envkit/__init__.py",
        "envkit/verifiers/kinds/workbook.py",
        "envkit/office/problem.py",
    } <= names
    held = modules()
    assert not [m for m in held if m.startswith(("envkit.sandbox", "envkit.task", "envkit.trial", "envkit.cli"))]
    assert "envkit.verifiers.script_verifier" not in held
    assert "envkit.verifiers.portable" not in held


def test_where_the_answer_comes_from(tmp_path: Path) -> None:
    def trajectory(*steps: object) -> None:
        (tmp_path / "trajectory.json").write_text(json.dumps({"schema_version": "ATIF-v1.8", "steps": steps}))

    assert answer_of(tmp_path) is None
    call = {"source": "agent", "message": "calling", "tool_calls": [{"tool_call_id": "1"}]}
    trajectory({"source": "user", "message": "q"}, call, {"source": "agent", "message": "It is 5."})
    assert answer_of(tmp_path) == "It is 5."
    trajectory({"source": "agent", "message": [{"type": "text", "text": "It is"}, {"type": "text", "text": "6."}]})
    assert answer_of(tmp_path) == "It is\n6."
    trajectory({"source": "agent", "message": "It is 5."}, call)
    assert answer_of(tmp_path) is None
    (tmp_path / "trajectory.json").write_text("[")
    assert answer_of(tmp_path) is None
    (tmp_path / "answer.txt").write_text("It is 7.")
    assert answer_of(tmp_path) == "It is 7."
