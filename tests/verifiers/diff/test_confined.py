"""The diff of files that attack whoever reads them: through the command, whole folders at once, and file by file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from envkit.office.parse import ParseLimits
from envkit.verifiers.diff import Change, Finding, diff_bytes, diff_folders, diff_paths

MAX_RSS_MB = 512
MAIN = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SHEET = "xl/worksheets/sheet1.xml"
#: Where the first side is always this small sound workbook, or a sound file of another type.
BOMB = b'<worksheet xmlns="' + MAIN + b'">' + b" " * (90 << 20) + b"</worksheet>"
ENTITIES = (
    b'<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
    + b']><worksheet xmlns="' + MAIN + b'"><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>&j;</t></is></c></row>'
    b"</sheetData></worksheet>"
)  # fmt: skip


def workbook(rows: int = 1, odd: int | None = None) -> bytes:
    import xlsxwriter

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    sheet = book.add_worksheet()
    for row in range(rows):
        sheet.write_row(row, 0, [f"name {row}", row * 1.5, row % 7, "y" if row == odd else "x"])
    book.close()
    return out.getvalue()


def pdf(pages: int = 1, odd: int | None = None, password: str | None = None) -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out, invariant=1, encrypt=password)
    for page in range(pages):
        for line in range(20):
            text = f"page {page} line {line} some words here"
            canvas.drawString(72, 720 - line * 20, text + (" odd" if (page, line) == (odd, 3) else ""))
        canvas.showPage()
    canvas.save()
    return out.getvalue()


def repacked(part: bytes) -> bytes:
    """A sound workbook with another sheet part."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook())) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, part if name == SHEET else old.read(name))
    return out.getvalue()


FAR = (
    b'<worksheet xmlns="' + MAIN + b'"><sheetData><row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    b"</worksheet>"
)
ENCRYPTED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le")
#: name -> sound version, hostile version, what must be said of it (None: the diff itself is what it comes to).
HOSTILE: dict[str, tuple[bytes, bytes, str | None]] = {
    "bomb.xlsx": (workbook(), repacked(BOMB), "too big"),
    "entities.xlsx": (workbook(), repacked(ENTITIES), "corrupt"),
    "far.xlsx": (workbook(), repacked(FAR), None),
    "cut.xlsx": (workbook(), workbook()[:3000], "corrupt"),
    "locked.xlsx": (workbook(), ENCRYPTED, "encrypted"),
    "really-a-pdf.xlsx": (workbook(), pdf(), "not this format"),
    "cut.pdf": (pdf(), pdf()[:700], "corrupt"),
    "locked.pdf": (pdf(), pdf(password="secret"), "encrypted"),
    "really-a-workbook.docx": (b"no docx either", workbook(), "not this format"),
    "really-a-workbook.pptx": (b"", workbook(), "not this format"),
    "nested.json": (b"[]", b"[" * 200_000, "corrupt"),
    "bomb.zip": (repacked(FAR), repacked(BOMB), "too big"),
}  # fmt: skip


#: Runs a command from a small process: a child's peak begins with what the process that started it has in memory.
MEASURED = (
    "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode; "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=sys.stderr); sys.exit(code)"
)


def run_command(before: Path, after: Path) -> tuple[int, list[dict[str, Any]], int]:
    """Exit status, findings and the most memory (MiB) that the command or a child of its had."""
    command = [sys.executable, "-m", "envkit.cli.main", "diff", str(before), str(after), "--json"]
    done = subprocess.run([sys.executable, "-c", MEASURED, *command], capture_output=True, check=False)
    return done.returncode, json.loads(done.stdout), int(done.stderr.split()[-1])


@pytest.mark.slow
def test_a_folder_of_hostile_files_by_the_command(tmp_path: Path) -> None:
    for side in (0, 1):
        (tmp_path / str(side)).mkdir()
        for name, contents in HOSTILE.items():
            (tmp_path / str(side) / name).write_bytes(contents[side])
        (tmp_path / str(side) / "zz-fine.csv").write_bytes(b"a,b\n1,%d\n" % side)
    status, findings, memory = run_command(tmp_path / "0", tmp_path / "1")
    assert status == 1
    assert memory <= MAX_RSS_MB
    for name, (_, _, said) in HOSTILE.items():
        mine = [finding for finding in findings if finding["path"] == name]
        if said is None:
            assert mine, name
            assert all(finding["kind"] != "file.unreadable" for finding in mine), name
        else:
            (found,) = mine
            assert found["kind"] == "file.unreadable", name
            assert said in found["after"], name
    (fine,) = [finding for finding in findings if finding["path"] == "zz-fine.csv"]
    assert (fine["before"], fine["after"]) == ("0", "1")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_large_files_by_the_command(tmp_path: Path) -> None:
    files = {
        "rows.xlsx": (workbook(100_000), workbook(100_000, odd=5000), "Sheet1!D5001"),
        "pages.pdf": (pdf(1000), pdf(1000, odd=500), "p.501 ¶1"),
    }
    for name, (before, after, where) in files.items():
        for side, data in (("before", before), ("after", after)):
            (tmp_path / side).mkdir(exist_ok=True)
            (tmp_path / side / name).write_bytes(data)
        status, findings, memory = run_command(tmp_path / "before" / name, tmp_path / "after" / name)
        assert status == 1
        assert [finding["where"] for finding in findings] == [where]
        assert memory <= MAX_RSS_MB


def problems(finding: Finding) -> tuple[str, str]:
    assert finding.kind == "file.unreadable"
    assert finding.change is Change.UNREADABLE
    return finding.before or "", finding.after or ""


#: In a process of its own: what an older one has freed, its children may use again before a limit counts.
SMALL_MEMORY = """
import sys
from pathlib import Path
from envkit.office.parse import ParseLimits
from envkit.verifiers.diff import diff_bytes
small, large = (Path(path).read_bytes() for path in sys.argv[1:])
(found,) = diff_bytes("m.xlsx", small, large, limits=ParseLimits(memory_mb=6))
print(found.kind, found.before, found.after, sep="|")
"""


@pytest.mark.slow
def test_the_side_that_brings_the_child_down_is_named(tmp_path: Path) -> None:
    small, large = workbook(), workbook(12_000)
    paths = (tmp_path / "small.xlsx", tmp_path / "large.xlsx")
    for path, data in zip(paths, (small, large), strict=True):
        path.write_bytes(data)
    command = [sys.executable, "-c", SMALL_MEMORY, *map(str, paths)]
    kind, before, after = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().split("|")
    assert (kind, before) == ("file.unreadable", "readable")
    assert "memory" in after
    (found,) = diff_bytes("m.xlsx", large, small, limits=ParseLimits(cpu_s=0.1))
    assert "processor time" in problems(found)[0]
    assert problems(found)[1] == "readable"


@pytest.mark.slow
def test_both_can_be_read_but_not_compared() -> None:
    def text(odd: int) -> bytes:
        return b"".join(b"%d\n" % (line * odd % 99_991) for line in range(20_000))

    found = diff_bytes("a.log", text(7), text(11), limits=ParseLimits(result_mb=0, wall_s=30))
    (only,) = found
    assert problems(only) == ("readable", "readable")
    assert "not compared" in only.message


def test_names_and_things_of_all_sorts(tmp_path: Path) -> None:
    for side in ("a", "b"):
        folder = tmp_path / side
        folder.mkdir()
        (folder / os.fsdecode(b"caf\xe9\n.txt")).write_text(f"one line\nof side {side}\n")
        os.mkfifo(folder / "pipe.txt")
        (folder / "loop").symlink_to(folder)
    found, *more = diff_folders(tmp_path / "a", tmp_path / "b")
    assert not more
    assert found.path == "caf\\xe9\\n.txt"
    json.dumps(found.model_dump(mode="json")).encode()
    with pytest.raises(Exception, match="a pipe or a device"):
        diff_paths(tmp_path / "a" / "pipe.txt", tmp_path / "b" / "pipe.txt")


def test_many_files_keep_their_order_and_no_child_lingers(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for number in range(16):
            (tmp_path / side / f"{number:02}.csv").write_text(f"x\n{number}{side}\n")
    found = diff_folders(tmp_path / "a", tmp_path / "b")
    assert [f.path for f in found] == [f"{n:02}.csv" for n in range(16)]
    assert [f.before for f in found] == [f"{n}a" for n in range(16)]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
