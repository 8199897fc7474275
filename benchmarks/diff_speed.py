"""How fast files are read and compared, against a plain load by the usual library in the same run.

    python benchmarks/diff_speed.py [--type xlsx] [--cells 600000] [--corpus ../shared/corpus] [--json]

For every type that the diff knows: megabytes per second of processor time for our reader over the corpus's readable
files of the type and one large generated file; the same files loaded by openpyxl, python-docx, python-pptx,
pdfplumber, or what else people would take; the ratio of the two; and the time of a diff of each file with itself
read twice. Exits 1 when the workbook of many cells takes more than 3 s to read. Types that LibreOffice converts are
left out: its time is not ours.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import sys
import time
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envkit.office.problem import Unreadable
from envkit.verifiers.diff.types import type_of

CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))
#: Files of one type that are read; the smallest ones first would flatter fixed costs, so it is every n-th.
MAX_FILES = 40


def _openpyxl(data: bytes) -> object:
    import openpyxl

    return openpyxl.load_workbook(io.BytesIO(data))


def _docx(data: bytes) -> object:
    import docx

    return [p.text for p in docx.Document(io.BytesIO(data)).paragraphs]


def _pptx(data: bytes) -> object:
    import pptx

    slides = pptx.Presentation(io.BytesIO(data)).slides
    return [s.text_frame.text for slide in slides for s in slide.shapes if s.has_text_frame]


def _pdf(data: bytes) -> object:
    import pdfplumber

    with pdfplumber.open(io.BytesIO(data)) as pdf:
        return [page.extract_text() for page in pdf.pages]


def _csv(data: bytes) -> object:
    import csv

    return list(csv.reader(io.StringIO(data.decode("utf-8", "replace"))))


def _eml(data: bytes) -> object:
    import email
    import email.policy

    message = email.message_from_bytes(data, policy=email.policy.default)
    return [(dict(part.items()), part.get_content()) for part in message.walk() if not part.is_multipart()]


def _mbox(data: bytes) -> object:
    import mailbox
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return [(dict(m.items()), m.get_payload(decode=True)) for m in mailbox.mbox(file.name)]


def _ics(data: bytes) -> object:
    import icalendar

    return [dict(event) for event in icalendar.Calendar.from_ical(data).walk("VEVENT")]


def _markdown(data: bytes) -> object:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").parse(data.decode("utf-8", "replace"))


def _yaml(data: bytes) -> object:
    import yaml

    return yaml.safe_load(data)


def _sqlite(data: bytes) -> object:
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.deserialize(data)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables]


def _image(data: bytes) -> object:
    from PIL import Image

    return Image.open(io.BytesIO(data)).convert("RGB")


def _zip(data: bytes) -> object:
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [archive.read(name) for name in archive.namelist()]


def _xls(data: bytes) -> object:
    import python_calamine

    book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
    return [book.get_sheet_by_name(name).to_python() for name in book.sheet_names]


#: One extension per type, and how others load it.
PLAIN: dict[str, Callable[[bytes], object]] = {
    "xlsx": _openpyxl, "docx": _docx, "pptx": _pptx, "pdf": _pdf, "csv": _csv, "eml": _eml, "mbox": _mbox, "ics": _ics,
    "md": _markdown, "txt": lambda data: data.decode("utf-8", "replace").splitlines(), "json": json.loads,
    "jsonl": lambda data: [json.loads(line) for line in data.splitlines()], "yaml": _yaml,
    "toml": lambda data: tomllib.loads(data.decode()), "sqlite": _sqlite, "png": _image, "zip": _zip, "xls": _xls,
}  # fmt: skip
#: What each of them is called in the table.
NAMES = {
    "xlsx": "openpyxl", "docx": "python-docx", "pptx": "python-pptx", "pdf": "pdfplumber", "csv": "csv",
    "eml": "email", "mbox": "mailbox", "ics": "icalendar", "md": "markdown-it", "txt": "str", "json": "json",
    "jsonl": "json", "yaml": "PyYAML", "toml": "tomllib", "sqlite": "sqlite3", "png": "Pillow", "zip": "zipfile",
    "xls": "calamine",
}  # fmt: skip


def _mail(number: int) -> bytes:
    from email.message import EmailMessage

    message = EmailMessage()
    message["From"], message["To"] = f"Ada <a{number}@x.example>", "Bob <b@x.example>"
    message["Subject"], message["Message-ID"] = f"Grüße {number}", f"<{number}@x.example>"
    message.set_content("\n".join(f"Line {line} of message {number}." for line in range(40)))
    return message.as_bytes()


def large(suffix: str) -> bytes | None:
    """A generated file of the type, of a megabyte or so; None where the corpus has to do."""
    rows = [{"id": n, "name": f"name {n % 997}", "price": n / 8, "tags": ["a", f"t{n % 13}"]} for n in range(12_000)]
    match suffix:
        case "csv":
            return "".join(f"{r['id']},{r['name']},{r['price']},open\n" for r in rows * 3).encode()
        case "txt":
            return "".join(f"{r['id']} went to {r['name']} for {r['price']}\n" for r in rows * 3).encode()
        case "md":
            parts = (
                f"## Part {n}\n\nSome *text* of {n}.\n\n- one\n- two\n\n|a|b|\n|-|-|\n|{n}|x|\n\n" for n in range(4000)
            )
            return "".join(parts).encode()
        case "json":
            return json.dumps(rows, indent=1).encode()
        case "jsonl":
            return "\n".join(json.dumps(row) for row in rows).encode()
        case "yaml":
            return "".join(
                f"- id: {r['id']}\n  name: {r['name']}\n  price: {r['price']}\n" for r in rows[:4000]
            ).encode()
        case "toml":
            return "".join(
                f'[[row]]\nid = {r["id"]}\nname = "{r["name"]}"\nprice = {r["price"]}\n' for r in rows
            ).encode()
        case "eml":
            return _mail(1)
        case "mbox":
            return b"".join(b"From a Thu Jan  1 00:00:00 2026\n" + _mail(n) + b"\n" for n in range(800))
        case "ics":
            lines = ("BEGIN:VEVENT", "UID:{0}", "DTSTART:20260101T{1:02}0000Z", "DTEND:20260101T{1:02}3000Z",
                     "SUMMARY:E {0}", "END:VEVENT", "")  # fmt: skip
            event = "\r\n".join(lines)
            body = "".join(event.format(n, n % 24) for n in range(4000))
            return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n{body}END:VCALENDAR\r\n".encode()
        case "sqlite":
            import sqlite3

            connection = sqlite3.connect(":memory:")
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, price REAL)")
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(r["id"], r["name"], r["price"]) for r in rows])
            connection.commit()
            return connection.serialize()
        case "png":
            from PIL import Image

            out = io.BytesIO()
            Image.effect_noise((1200, 900), 40).convert("RGB").save(out, "PNG")
            return out.getvalue()
        case "zip":
            import zipfile

            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                for n in range(200):
                    archive.writestr(f"folder {n % 7}/file {n}.txt", f"line of {n}\n" * 400)
            return out.getvalue()
    return None


def many_cells(count: int) -> bytes:
    """A workbook of so many cells: texts, numbers, dates, percentages and formulas."""
    import xlsxwriter

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    sheet, percent = book.add_worksheet("Data"), book.add_format({"num_format": "0.0%"})
    date = book.add_format({"num_format": "yyyy-mm-dd"})
    for row in range(count // 12):
        sheet.write_row(row, 0, [f"name {row % 5000}", f"place {row * 7 % 900}", "open"])
        sheet.write_number(row, 3, 45000 + row % 900, date)
        sheet.write_number(row, 4, row % 97 / 97, percent)
        sheet.write_row(row, 5, [row * k / 8 for k in range(1, 7)])
        sheet.write_formula(row, 11, f"=F{row + 1}*G{row + 1}", None, 0)
    book.close()
    return out.getvalue()


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the processor seconds."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def measure(suffix: str, files: dict[str, bytes]) -> dict[str, float]:
    """Sums over the files that both sides can read."""
    kind = type_of(f"x.{suffix}")
    assert kind is not None
    read, diff, plain = kind.read, kind.diff, PLAIN[suffix]
    out = {"files": 0.0, "megabytes": 0.0, "read_s": 0.0, "plain_s": 0.0, "diff_s": 0.0}
    with contextlib.suppress(Exception):  # whatever is imported when first used
        small = min(files.values(), key=len)
        read(small), plain(small)
    for data in files.values():
        try:
            model, ours = timed(lambda data=data: read(data))
            _, theirs = timed(lambda data=data: plain(data))
        except Unreadable:
            continue
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            continue  # the other library can't read it
        twin = read(data)
        _, compared = timed(lambda model=model, twin=twin: diff(model, twin))
        for key, value in (("files", 1), ("megabytes", len(data) / 1e6), ("read_s", ours), ("plain_s", theirs),
                           ("diff_s", compared)):  # fmt: skip
            out[key] += value
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", choices=sorted(PLAIN))
    parser.add_argument("--cells", type=int, default=600_000, help="of the generated workbook")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    results: dict[str, dict[str, float]] = {}
    if not args.json:
        print(f"{'':<22}{'files':>6}{'MB':>8}{'read s':>9}{'MB/s':>8}{'plain s':>9}{'plain/read':>12}{'diff s':>9}")
    for suffix in [args.type] if args.type else PLAIN:
        paths = sorted(args.corpus.rglob(f"*.{suffix}")) if args.corpus.is_dir() else []
        chosen = paths[:: max(1, len(paths) // MAX_FILES)]
        sets = {f"{suffix}, corpus": {str(p): p.read_bytes() for p in chosen}}
        made = many_cells(args.cells) if suffix == "xlsx" else large(suffix)
        if made is not None:
            sets[f"{suffix}, {args.cells} cells" if suffix == "xlsx" else f"{suffix}, generated"] = {"made": made}
        for name, files in sets.items():
            if not files:
                continue
            results[name] = row = measure(suffix, files)
            if not args.json:
                _print(name, suffix, row)
    many = results.get(f"xlsx, {args.cells} cells", {}).get("read_s", 0.0)
    slow = args.cells >= 600_000 and many > MAX_READ_S
    if args.json:
        print(json.dumps(results, indent=1))
    elif many:
        print(f"{args.cells} cells: {many:.2f} s, {'too slow, ' if slow else ''}bound {MAX_READ_S:g} s")
    return 1 if slow else 0


#: Processor seconds that the workbook of 600,000 cells may take.
MAX_READ_S = 3.0


def _print(name: str, suffix: str, row: dict[str, float]) -> None:
    speed, ratio = row["megabytes"] / max(row["read_s"], 1e-9), row["plain_s"] / max(row["read_s"], 1e-9)
    print(
        f"{name:<22}{row['files']:>6.0f}{row['megabytes']:>8.2f}{row['read_s']:>9.3f}{speed:>8.2f}{row['plain_s']:>9.3f}"
        f"{ratio:>11.1f}x{row['diff_s']:>9.3f}  {NAMES[suffix]}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
