"""What files hold, laid out for a page; and both versions of one by way of the worker."""

from __future__ import annotations

import sys
from pathlib import Path

import make_run
import pytest

from envkit.failure import EnvkitError
from envkit.office.problem import Unreadable
from envkit.view.content import align, render
from envkit.view.files import FileReader, changed_files


def test_grids_lines_and_pictures() -> None:
    files = make_run.world_files(1)
    grid = render("Forecast.xlsx", files["Forecast.xlsx"])
    assert [sheet["name"] for sheet in grid["sheets"]] == ["Summary", "Assumptions"]
    cells = {(r, c): (value, formula) for r, c, value, formula in grid["sheets"][0]["cells"]}
    assert cells[1, 2] == ("Revenue", None)
    assert cells[14, 2][1] == "=SUM(B2:B13)"
    lines = render("memo.docx", files["memo.docx"])["lines"]
    assert lines[0] == ("h1", "Forecast 2026")
    picture = render("chart.png", files["chart.png"])
    assert picture["url"].startswith("data:image/jpeg;base64,")
    assert render("notes.txt", files["notes.txt"])["lines"][0] == ("line", "001 note about figure 37")
    assert render("t.csv", b"a,b\n1,2\n")["sheets"][0]["cells"][-1] == [2, 2, "2", None]
    assert render("empty.txt", b"")["lines"] == []
    with pytest.raises(Unreadable):
        render("x.bin", b"\0\1\2")


def test_a_huge_text_is_bounded() -> None:
    found = render("x.log", ("y" * 50_000 + "\n").encode() * 3 + b"z\n" * 30_000)
    assert len(found["lines"]) == 20_000
    assert found["more"] == 10_003
    assert len(found["lines"][0][1]) < 5_000


def test_rows_pair_what_changed() -> None:
    before = [("line", t) for t in ("a", "b", "c", "d")]
    after = [("line", t) for t in ("a", "B", "d", "e")]
    assert align(before, after) == [
        (0, 0, "same"), (1, 1, "changed"), (2, None, "removed"), (3, 2, "same"), (None, 3, "added")
    ]  # fmt: skip
    assert [tag for *_, tag in align([], after)] == ["added"] * 4
    many = [("line", str(n)) for n in range(7_000)]
    assert len(align(many, many[:-1])) == 7_000, "too many to be aligned stand by their number"


def test_what_changed_is_listed_with_work_before_apps(rich: tuple[Path, list[str]]) -> None:
    attempt = rich[0] / "trials" / rich[1][0] / "attempt-1"
    found = {file["path"]: file["change"] for file in changed_files(attempt)["files"] if file["type"] == "file"}
    assert found["filesystem/Forecast.xlsx"] == "changed"
    assert found["filesystem/reply.md"] == "added"


@pytest.mark.slow
async def test_the_worker_gives_both_sides_with_findings(
    rich: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVKIT_HOME", str(tmp_path))
    run, ids = rich
    attempt, task = run / "trials" / ids[0] / "attempt-1", str(run.parent / "task")
    reader = FileReader()
    try:
        book = await reader.file(attempt, "", "filesystem/Forecast.xlsx", task, "another digest")
        assert {finding["where"] for finding in book["findings"]} >= {"Summary!B12", "Summary!F2", "Assumptions!B1"}
        assert book["before"]["kind"] == book["after"]["kind"] == "grid"
        assert any("another today" in note for note in book["notes"])
        notes = await reader.file(attempt, "", "filesystem/notes.txt", task, None)
        tags = [tag for *_, tag in notes["rows"]]
        assert (tags.count("changed"), tags.count("added"), tags.count("removed")) == (1, 1, 1)
        reply = await reader.file(attempt, "", "filesystem/reply.md", task, None)
        assert reply["before"] is None
        raw = await reader.raw(attempt, "", "filesystem/notes.txt", task, "before")
        assert raw == make_run.world_files(0)["notes.txt"]
        gone = await reader.file(attempt, "", "filesystem/chart.png", "office/nobody-knows-this", None)
        assert gone["before"] is None
        assert gone["after"]["kind"] == "picture"
        assert any("not to be had" in note for note in gone["notes"])
        with pytest.raises(FileNotFoundError):
            await reader.file(attempt, "", "filesystem/../../result.json", task, None)
    finally:
        await reader.close()


@pytest.mark.slow
async def test_a_worker_that_hangs_or_dies_is_started_anew(
    rich: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, ids = rich
    attempt = run / "trials" / ids[0] / "attempt-1"
    monkeypatch.setenv("ENVKIT_HOME", str(tmp_path))
    real = sys.executable
    fake = tmp_path / "python"
    reader = FileReader(timeout_s=2.0)
    for script, said in (("sleep 60", "given up"), ("exit 3", "died")):
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(fake))
        with pytest.raises(EnvkitError, match=said):
            await reader.file(attempt, "", "filesystem/notes.txt", "office/x", None)
    monkeypatch.setattr(sys, "executable", real)
    patient = FileReader()
    try:
        found = await patient.file(attempt, "", "filesystem/notes.txt", "office/x", None)
        assert found["after"]["kind"] == "lines"
    finally:
        await patient.close()
