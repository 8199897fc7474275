"""Older and other office formats, read as what they are today.

Spreadsheets (xls, xlsb, ods) through calamine: values, types and visibility of sheets, but no formulas or styles.
Texts and decks (doc, odt, rtf, ppt, odp) through LibreOffice, when it is installed, which turns them into docx and
pptx; without it they are UNSUPPORTED, and say so. `modern` does that in a confined child of its own, with a profile of
its own, and is therefore called outside of other children. Used by the diff, verifiers and the tool servers.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import io
import os
import resource
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from envkit.deadline import Deadline
from envkit.office.deck import Deck, read_deck
from envkit.office.document import Document, read_document
from envkit.office.gate import MAX_FILE_BYTES, OLE, admit
from envkit.office.jail import OUT_OF_MEMORY, Ended, Jail, Limits
from envkit.office.problem import Problem, Unreadable
from envkit.office.workbook import Workbook, read_workbook

__all__ = [
    "CONVERTED", "have_office", "modern", "read_doc", "read_legacy_workbook", "read_odp", "read_odt", "read_ppt",
    "read_rtf",
]  # fmt: skip

#: Extension -> the one it is converted to.
CONVERTED = {"doc": "docx", "dot": "docx", "odt": "docx", "rtf": "docx", "ppt": "pptx", "pps": "pptx", "odp": "pptx"}
#: Cells of one sheet's used area; calamine holds it whole.
MAX_AREA = 4_000_000
MAX_CONVERTED_BYTES = 96 << 20


def read_legacy_workbook(data: bytes) -> Workbook:
    """Reads an xls, xlsb or ods file. Raises `Unreadable`, `ImportError` where python-calamine is not installed."""
    import python_calamine as calamine

    if not data:
        raise Unreadable(Problem.EMPTY, "it has 0 bytes")
    if not data.startswith((OLE, b"PK\x03\x04")):
        raise Unreadable(Problem.NOT_THIS_FORMAT, f"it is no xls, xlsb or ods workbook: it begins with {data[:8]!r}")
    admit(data)
    try:
        sheets = _sheets(calamine, data)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise Unreadable(Problem.CORRUPT, f"it is broken: {str(error)[:200]}") from None
    if not sheets:
        raise Unreadable(Problem.CORRUPT, "it has no sheet")
    return read_workbook(_written(sheets))


def _sheets(calamine: Any, data: bytes) -> list[tuple[str, str, list[list[Any]], tuple[int, int]]]:
    """Name, visibility, rows and first cell of each sheet."""
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
    except calamine.PasswordError as error:
        raise Unreadable(Problem.ENCRYPTED, "it is protected with a password") from error
    except (calamine.CalamineError, ValueError, OSError) as error:
        if "password" in str(error).lower() or "encrypt" in str(error).lower():
            raise Unreadable(Problem.ENCRYPTED, "it is protected with a password") from error
        raise Unreadable(Problem.CORRUPT, f"it is broken, or no workbook: {error}") from error
    sheets: list[tuple[str, str, list[list[Any]], tuple[int, int]]] = []
    try:
        for meta in book.sheets_metadata:
            if meta.typ is not calamine.SheetTypeEnum.WorkSheet:
                continue
            sheet = book.get_sheet_by_name(meta.name)
            if sheet.height * sheet.width > MAX_AREA:
                raise Unreadable(Problem.TOO_BIG, f"sheet {meta.name!r} spans {sheet.height} x {sheet.width} cells")
            hidden = {"Hidden": "hidden", "VeryHidden": "very_hidden"}.get(str(meta.visible).rpartition(".")[2], "")
            start = sheet.start or (0, 0)
            sheets.append((meta.name, hidden, sheet.to_python(skip_empty_area=True), start))
    except (calamine.CalamineError, ValueError, OSError) as error:
        raise Unreadable(Problem.CORRUPT, f"it is broken: {error}") from error
    return sheets


def _written(sheets: list[tuple[str, str, list[list[Any]], tuple[int, int]]]) -> bytes:
    """The values as an xlsx file: one reader makes the model of workbooks, whatever they come from."""
    import xlsxwriter  # type: ignore[import-untyped]

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True, "strings_to_numbers": False, "remove_timezone": True})
    moment, day, clock = (
        book.add_format({"num_format": code}) for code in ("yyyy-mm-dd hh:mm:ss", "yyyy-mm-dd", "hh:mm:ss")
    )
    for number, (name, hidden, rows, (top, left)) in enumerate(sheets):
        sheet = book.add_worksheet(name[:31])
        if hidden and number:
            sheet.hide() if hidden == "hidden" else sheet.very_hidden()
        for r, row in enumerate(rows, top):
            for c, value in enumerate(row, left):
                if value == "" or value is None:
                    continue
                if isinstance(value, bool):
                    sheet.write_boolean(r, c, value)
                elif isinstance(value, int | float):
                    sheet.write_number(r, c, value)
                elif isinstance(value, dt.datetime):
                    sheet.write_datetime(r, c, value, moment)
                elif isinstance(value, dt.date):
                    sheet.write_datetime(r, c, value, day)
                elif isinstance(value, dt.time | dt.timedelta):
                    sheet.write_datetime(r, c, value, clock)
                else:
                    sheet.write_string(r, c, str(value)[:32_767])
    book.close()
    return out.getvalue()


@lru_cache(maxsize=1)
def have_office() -> str | None:
    """The path of LibreOffice's program, None where it is not installed."""
    return shutil.which("soffice") or shutil.which("libreoffice")


def modern(data: bytes, suffix: str, wall_s: float = 90.0) -> tuple[bytes, str]:
    """A file of a type in `CONVERTED` as docx or pptx, and that extension.

    Raises:
        Unreadable: LibreOffice is not installed (UNSUPPORTED), can't read it, or takes too long.
    """
    program = have_office()
    target = CONVERTED[suffix]
    if program is None:
        raise Unreadable(Problem.UNSUPPORTED, f"{suffix} files are read with LibreOffice, which is not installed")
    if not data:
        raise Unreadable(Problem.EMPTY, "it has 0 bytes")
    admit(data, MAX_FILE_BYTES)
    with tempfile.TemporaryDirectory(prefix="envkit-office-") as name:
        folder = Path(name)
        folder.chmod(0o777)  # the child is nobody
        (folder / f"in.{suffix}").write_bytes(data)
        (folder / f"in.{suffix}").chmod(0o644)
        chunks: list[bytes] = []
        limits = Limits(memory_mb=4096, cpu_s=wall_s, open_files=1024, written_mb=256)
        jail = Jail(lambda: None, lambda jail: _convert(jail, program, folder, suffix, target), limits,
                    max_output=2 * MAX_CONVERTED_BYTES)  # fmt: skip
        ended = jail.run(Deadline.after(wall_s), chunks.append)
        return _opened(chunks, ended), target


def read_doc(data: bytes) -> Document:
    """Reads a doc file by way of docx. Raises `Unreadable`."""
    return read_document(modern(data, "doc")[0])


def read_odt(data: bytes) -> Document:
    """Reads an odt file by way of docx. Raises `Unreadable`."""
    return read_document(modern(data, "odt")[0])


def read_rtf(data: bytes) -> Document:
    """Reads an rtf file by way of docx. Raises `Unreadable`."""
    return read_document(modern(data, "rtf")[0])


def read_ppt(data: bytes) -> Deck:
    """Reads a ppt file by way of pptx. Raises `Unreadable`."""
    return read_deck(modern(data, "ppt")[0])


def read_odp(data: bytes) -> Deck:
    """Reads an odp file by way of pptx. Raises `Unreadable`."""
    return read_deck(modern(data, "odp")[0])


def _opened(chunks: list[bytes], ended: Ended) -> bytes:
    if ended.timed_out:
        raise Unreadable(Problem.TIMEOUT, "LibreOffice did not finish reading it in time")
    if ended.too_much or ended.status == OUT_OF_MEMORY:
        raise Unreadable(Problem.TOO_BIG, "converting it takes more than is allowed")
    if ended.status or not chunks or chunks[-1] != b".":
        raise Unreadable(Problem.CORRUPT, f"LibreOffice can't read it ({ended.text})")
    return base64.b64decode(b"".join(chunks[:-1]))


def _convert(jail: Jail, program: str, folder: Path, suffix: str, target: str) -> None:
    """In the child: converts, and sends the result. A profile of its own: LibreOffice serves one call per profile."""
    # Its shared libraries map gigabytes that are never touched; memory is bounded by the limit on data instead.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))
    (folder / "home").mkdir()
    done = subprocess.run(
        [program, f"-env:UserInstallation=file://{folder}/profile", "--headless", "--norestore", "--convert-to", target,
         "--outdir", str(folder / "out"), str(folder / f"in.{suffix}")],
        cwd=folder, env={"HOME": str(folder / "home"), "PATH": os.defpath, "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    made = folder / "out" / f"in.{target}"
    if done.returncode or not made.exists() or made.stat().st_size > MAX_CONVERTED_BYTES:
        raise SystemExit(f"no result, status {done.returncode}")
    data = made.read_bytes()
    for start in range(0, len(data), 3 << 18):
        jail.say(base64.b64encode(data[start : start + (3 << 18)]))
    jail.say(b".")
