"""Worlds: equal bytes in every process, files that open, workbooks whose shown values are what their formulas yield."""

from __future__ import annotations

import hashlib
import json
import mailbox
import os
import subprocess
import sys
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from envkit.office.workbook import read_workbook
from envkit.tasks.office import OfficePack
from envkit.tasks.office.catalog import TASKS, WORLDS

FAST = ("morven",)
ALL = [pytest.param(w, marks=() if w in FAST else pytest.mark.slow) for w in sorted(WORLDS)]

_DIGEST = """
import hashlib, importlib, json, sys
files = importlib.import_module(f"envkit.tasks.office.worlds.{sys.argv[1]}").build().files
print(json.dumps({path: hashlib.sha256(data).hexdigest() for path, data in files.items()}, sort_keys=True))
"""


def _digests(module: str, seed: str) -> dict[str, str]:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo" if seed == "1" else "America/New_York"}
    command = [sys.executable, "-c", _DIGEST, module]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    digests: dict[str, str] = json.loads(out.stdout)
    return digests


@pytest.mark.slow
@pytest.mark.parametrize("world", ALL)
def test_two_processes_build_the_same_bytes(world: str) -> None:
    module = WORLDS[world].module
    first = _digests(module, "1")
    assert first == _digests(module, "7")
    built = OfficePack().build_world(world)
    assert first == {p: hashlib.sha256((built / p).read_bytes()).hexdigest() for p in first}


@pytest.mark.parametrize("world", ALL)
def test_a_world_has_every_kind_of_file(world: str) -> None:
    root = OfficePack().build_world(world)
    files = [path for path in (root / "filesystem").rglob("*") if path.is_file()]
    assert len(files) >= 15
    assert {".pdf", ".xlsx", ".docx", ".pptx", ".csv"} <= {path.suffix for path in files}
    assert list((root / ".apps_data/calendar").glob("*.ics"))
    assert list((root / ".apps_data/chat/Groups").iterdir())


@pytest.mark.parametrize("world", ALL)
def test_shown_values_are_what_the_formulas_yield(world: str) -> None:
    formulas = 0
    for path in sorted((OfficePack().build_world(world) / "filesystem").rglob("*.xlsx")):
        book = read_workbook(path.read_bytes())
        for sheet in book.sheets:
            for address, cell in sheet.cells.items():
                if cell.formula is None:
                    continue
                formulas += 1
                shown, right = (book.value(sheet, address, source) for source in ("cached", "recalculated"))
                where = f"{path.name}!{sheet.name}!{address} {cell.formula}"
                if isinstance(shown, float | int) and isinstance(right, float | int):
                    assert shown == pytest.approx(right, rel=1e-9, abs=1e-6), where
                else:
                    assert shown == right, where
    assert formulas >= 20


@pytest.mark.parametrize("world", ALL)
def test_mail_and_chat_read_as_they_were_written(world: str) -> None:
    root = OfficePack().build_world(world)
    path = next((root / ".apps_data/mail").glob("*.mbox"))
    messages = list(mailbox.mbox(path, create=False))
    ids = [m["Message-ID"] for m in messages]
    assert len(set(ids)) == len(ids) >= 10
    for message in messages:
        assert message["Date"]
        assert message["From"]
        assert message["To"]
        assert message["In-Reply-To"] is None or message["In-Reply-To"] in ids
        for attachment in filter(None, (message["X-Attachments"] or "").split(",")):
            assert (root / "filesystem" / attachment).is_file(), attachment
    for posts in (root / ".apps_data/chat/Groups").glob("*/messages.json"):
        topics = [m["topic_id"] for m in json.loads(posts.read_text())["messages"]]
        roots = {m["message_id"].rsplit("/", 1)[1] for m in json.loads(posts.read_text())["messages"]}
        assert set(topics) <= roots


def test_a_built_world_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_HOME", str(tmp_path))
    pack = OfficePack()
    first = pack.build_world("morven")
    stamp = (first / "filesystem/House/Rates.csv").stat().st_mtime_ns
    assert pack.build_world("morven") == first
    assert (first / "filesystem/House/Rates.csv").stat().st_mtime_ns == stamp


@pytest.mark.parametrize("world", ALL)
def test_the_day_that_a_task_is_set_on_is_not_before_what_lies_in_its_world(world: str) -> None:
    pack = OfficePack()
    task = pack.load(next(name for name, entry in TASKS.items() if entry.world == world))
    now = task.metadata.now
    assert now is not None
    box = mailbox.mbox(next((pack.world(task) / ".apps_data/mail").glob("*.mbox")))
    dates = [parsedate_to_datetime(message["Date"]) for message in box]
    assert now - timedelta(days=7) < max(dates) <= now
