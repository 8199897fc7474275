"""Files and states that attack whoever reads them. The agent's file fails its check and says why; nothing else
suffers."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from envkit.verifiers.jail import Limits

pytestmark = pytest.mark.slow  # limits are waited for

Judge = Callable[..., Any]
GOOD = 'kind = "text"\npath = "good.txt"\ncontains = ["fine"]'
XLSX = 'kind = "cell"\npath = "m.xlsx"\ncell = "A1"\nvalue = 1'


def workbook() -> bytes:
    book = openpyxl.Workbook()
    book.active["A1"] = 1
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def repacked(parts: dict[str, bytes]) -> bytes:
    """A sound workbook with some parts replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook())) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, parts.get(name, old.read(name)))
    return out.getvalue()


SHEET = "xl/worksheets/sheet1.xml"
MAIN = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
ENTITIES = (
    b'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    b'<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><worksheet xmlns="' + MAIN + b'"><sheetData>'
    b'<row r="1"><c r="A1" t="inlineStr"><is><t>&c;</t></is></c></row></sheetData></worksheet>'
)
EXTERNAL = (
    b'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY a SYSTEM "file:///etc/passwd">]><worksheet xmlns="'
    + MAIN
    + b'"><sheetData>'
    b'<row r="1"><c r="A1" t="inlineStr"><is><t>&a;</t></is></c></row></sheetData></worksheet>'
)
DEEP = b'<worksheet xmlns="' + MAIN + b'">' + b"<sheetData>" * 30_000 + b"</sheetData>" * 30_000 + b"</worksheet>"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("empty", b"", "is empty"),
        ("text", b"just text", "not this format"),
        ("cut off", workbook()[:3000], "is corrupt"),
        ("zip bomb", repacked({SHEET: b"<worksheet>" + b" " * (90 << 20)}), "zip bomb"),
        ("large part", repacked({SHEET: os.urandom(1024) * (100 << 10)}), "too big"),
        ("entity bomb", repacked({SHEET: ENTITIES}), "is corrupt"),
        ("external entity", repacked({SHEET: EXTERNAL}), "is corrupt"),
        ("deep xml", repacked({SHEET: DEEP}), "is corrupt"),
        ("no xml", repacked({SHEET: b"\x00\x01"}), "is corrupt"),
        ("impossible cell",
        repacked({SHEET: b'<worksheet xmlns="' + MAIN + b'"><c r="ZZZ99999999"><v>1</v></c></worksheet>'}),
        "impossible"),
        ("another office file", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "unsupported"),
        ("password", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "encrypted"),
    ],
)  # fmt: skip
def test_a_hostile_workbook_fails_its_check_alone(judge: Judge, name: str, data: bytes, said: str) -> None:
    judged = judge(XLSX, GOOD, final={"filesystem/m.xlsx": data, "filesystem/good.txt": b"fine"})
    assert judged.outcomes == "fp", name
    assert said in judged["0"].message
    assert "root:" not in judged["0"].message


def test_formats_are_told_by_content_not_by_name(judge: Judge) -> None:
    final = {"filesystem/m.docx": workbook(), "filesystem/m.pptx": workbook(), "filesystem/m.pdf": workbook()}
    judged = judge(
        'kind = "document"\npath = "m.docx"\ncontains = ["x"]',
        'kind = "deck"\npath = "m.pptx"\ncontains = ["x"]',
        'kind = "pdf"\npath = "m.pdf"\ncontains = ["x"]',
        'kind = "file"\npath = "m.docx"',
        final=final,
    )
    assert judged.outcomes == "ffff"
    assert all("not this format" in judged[str(n)].message for n in range(4))


@pytest.mark.slow
def test_memory_and_time_are_bounded(judge: Judge) -> None:
    row = b"<row>" + b"".join(b"<c><v>%d</v></c>" % (n * 7919 % 99991) for n in range(1000)) + b"</row>"
    # Far more than what a long-lived process has lying free: the limit counts from what it has at the start.
    big = repacked({SHEET: b'<worksheet xmlns="' + MAIN + b'"><sheetData>' + row * 900 + b"</sheetData></worksheet>"})
    final = {"filesystem/m.xlsx": big, "filesystem/good.txt": b"fine"}
    judged = judge(XLSX, XLSX, GOOD, final=final, limits=Limits(memory_mb=8))
    assert judged.outcomes == "ffp"
    assert "memory" in judged["0"].message
    judged = judge(XLSX, XLSX, GOOD, final=final, limits=Limits(cpu_s=0.8))
    assert judged.outcomes == "ffp"
    assert "processor time" in judged["0"].message
    assert judged["1"].message == judged["0"].message  # not opened again


def test_a_large_sparse_file_is_not_read(judge: Judge, tmp_path: Path) -> None:
    hole = tmp_path / "hole"
    with hole.open("wb") as file:
        file.truncate(200 << 20)
    info = tarfile.TarInfo("filesystem/m.xlsx")
    info.size = 200 << 20
    archive = tmp_path / "big.tar"
    with tarfile.open(archive, "w") as tar, hole.open("rb") as stream:
        tar.addfile(info, stream)
    from envkit.deadline import Deadline
    from envkit.verifiers.run import Subject, judge_all_sync
    from envkit.verifiers.schema import parse_checks

    checks = parse_checks(f'schema_version = "1"\n[[check]]\nid = "a"\n{XLSX}\n').check
    (criterion,) = judge_all_sync(checks, Subject.of(archive, None, None), Deadline.after(60))
    assert criterion.outcome == "failed"
    assert "too big" in criterion.message
    archive.unlink()
    hole.unlink()


@pytest.mark.slow
def test_what_earlier_checks_have_read_costs_later_ones_nothing(judge: Judge) -> None:
    """Two workbooks that each fit into the memory allowed, and not both at once."""
    row = b"<row>" + b"".join(b"<c><v>%d</v></c>" % (n * 7919 % 99991) for n in range(1000)) + b"</row>"
    big = repacked({SHEET: b'<worksheet xmlns="' + MAIN + b'"><sheetData>' + row * 100 + b"</sheetData></worksheet>"})
    names = ("m.xlsx", "n.xlsx")
    checks = [f'kind = "cell"\npath = "{name}"\ncell = "B1"\nvalue = 7919' for name in names]
    final = {f"filesystem/{name}": big for name in names}
    assert judge(*checks, final=final, limits=Limits(memory_mb=44)).outcomes == "pp"


def member(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data)
    return info, data


def test_links_stay_inside(judge: Judge) -> None:
    def text(path: str, word: str) -> str:
        return f'kind = "text"\npath = "{path}"\ncontains = ["{word}"]'

    final = [
        member("filesystem/real.txt", data=b"fine"),
        member("filesystem/rel", tarfile.SYMTYPE, "real.txt"),
        member("filesystem/abs", tarfile.SYMTYPE, "/filesystem/real.txt"),
        member("filesystem/hard", tarfile.LNKTYPE, "filesystem/real.txt"),
        member("filesystem/out", tarfile.SYMTYPE, "/etc/passwd"),
        member("filesystem/up", tarfile.SYMTYPE, "../../../../etc/passwd"),
        member("filesystem/loop", tarfile.SYMTYPE, "loop"),
        member("filesystem/dir", tarfile.DIRTYPE),
        member("filesystem/dir/back", tarfile.SYMTYPE, ".."),
        member("filesystem/etc", tarfile.SYMTYPE, "/etc"),
        member("filesystem/fifo", tarfile.FIFOTYPE),
        member(".apps_data/x.txt", data=b"fine"),
        member("filesystem/apps", tarfile.SYMTYPE, "../.apps_data/x.txt"),
    ]
    judged = judge(
        text("rel", "fine"), text("abs", "fine"), text("hard", "fine"), text("dir/back/real.txt", "fine"),
        text("apps", "fine"),
        text("out", "root"), text("up", "root"), text("loop", "x"), text("etc/passwd", "root"), text("fifo", "x"),
        text("dir", "x"),
        final=final,
    )  # fmt: skip
    assert judged.outcomes == "ppppp" + "ffffff"
    assert "leads out" in judged["5"].message


@pytest.mark.parametrize(
    "forged",
    [
        [member("filesystem/good.txt", data=b"fine"), member("filesystem/good.txt", data=b"fine")],
        [member("filesystem/good.txt", data=b"bad"), member("./filesystem/good.txt", data=b"fine")],
        [member("filesystem/good.txt", data=b"bad"), member("filesystem/good.txt", tarfile.SYMTYPE, "other.txt")],
    ],
)
def test_a_state_with_a_path_twice_judges_nobody(judge: Judge, forged: Any) -> None:
    judged = judge(GOOD, final=forged)
    assert judged.outcomes == "m"
    assert judged["0"].failure.kind == "sandbox_error"


@pytest.mark.parametrize("name", ["/filesystem/good.txt", "filesystem/../filesystem/good.txt"])
def test_a_state_with_a_name_that_no_snapshot_yields_judges_nobody(judge: Judge, name: str) -> None:
    judged = judge(GOOD, final=[member("filesystem/good.txt", data=b"fine"), member(name, data=b"fine")])
    assert judged.outcomes == "m"
    assert judged["0"].failure.kind == "sandbox_error"


def test_what_lies_outside_of_the_trees_is_not_looked_at(judge: Judge) -> None:
    assert judge(GOOD, final=[member("good.txt", data=b"fine"), member("other/good.txt", data=b"fine")]).outcomes == "f"


@pytest.mark.parametrize("keep", [0, 100, 600, 1030, 1536])
def test_a_cut_off_archive_judges_nobody(tmp_path: Path, keep: int) -> None:
    from envkit.deadline import Deadline
    from envkit.verifiers.run import Subject, judge_all_sync
    from envkit.verifiers.schema import parse_checks

    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for info, data in [member("filesystem/good.txt", data=b"fine"), member("filesystem/more.txt", data=b"x")]:
            tar.addfile(info, io.BytesIO(data))
    archive = tmp_path / "cut.tar"
    archive.write_bytes(whole.getvalue()[:keep])
    checks = parse_checks(f'schema_version = "1"\n[[check]]\nid = "a"\n{GOOD}\n').check
    (criterion,) = judge_all_sync(checks, Subject.of(archive, None, None), Deadline.after(60))
    assert criterion.outcome == "missing"
