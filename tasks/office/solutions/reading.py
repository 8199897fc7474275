"""How the solutions read a world: workbooks, tables, documents, PDFs, mail, chat and calendar, with ordinary libraries.

A copy of this module lies beside each `solve.py`; it knows the places of a sandbox (`/filesystem`, `/.apps_data`) and
nothing about any world.
"""

from __future__ import annotations

import csv
import json
import mailbox
import os
import re
from datetime import date, datetime
from email.header import decode_header, make_header
from email.utils import format_datetime, make_msgid
from pathlib import Path
from typing import Any

__all__ = [
    "APPS", "ROOT", "answer", "chat", "columns_text", "docx_text", "events", "find_mail", "first_groups",
    "first_number", "first_text", "long_date", "mail_body", "mails", "money", "pdf_lines", "post", "replace_text",
    "rows_of_csv", "send_mail", "sheet", "table",
]  # fmt: skip

ROOT = Path(os.environ.get("OFFICE_ROOT", "/")) / "filesystem"
APPS = Path(os.environ.get("OFFICE_ROOT", "/")) / ".apps_data"


def answer(text: str) -> None:
    """Hands over the final answer."""
    target = Path(os.environ.get("OFFICE_ROOT", "/")) / "logs/agent/answer.txt"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")


def sheet(path: str, name: str) -> list[list[Any]]:
    """All rows of a sheet, as values."""
    from openpyxl import load_workbook

    book = load_workbook(ROOT / path, data_only=True)
    return [list(row) for row in book[name].iter_rows(values_only=True)]


def table(path: str, name: str, first: str) -> list[dict[str, Any]]:
    """The rows below the head that starts with the cell `first`, as dicts, up to the first row without a first cell."""
    rows = sheet(path, name)
    start = next(n for n, row in enumerate(rows) if row and row[0] == first)
    out = []
    for row in rows[start + 1 :]:
        if row[0] is None:
            break
        out.append(dict(zip(rows[start], row, strict=False)))
    return out


def rows_of_csv(path: str) -> list[dict[str, str]]:
    with (ROOT / path).open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def docx_text(path: str) -> str:
    """Paragraphs and table rows in reading order, one a line; cells are separated by ` | `."""
    from docx import Document
    from docx.table import Table

    lines = []
    for block in Document(str(ROOT / path)).iter_inner_content():
        if isinstance(block, Table):
            lines += [" | ".join(cell.text for cell in row.cells) for row in block.rows]
        else:
            lines.append(block.text)
    return "\n".join(lines)


def pdf_lines(path: str) -> list[str]:
    """Lines across the whole width of each page."""
    import pdfplumber

    with pdfplumber.open(ROOT / path) as pdf:
        return [line for page in pdf.pages for line in (page.extract_text() or "").splitlines()]


def columns_text(path: str) -> str:
    """The text of a PDF set in two columns, left column first."""
    import pdfplumber

    parts = []
    with pdfplumber.open(ROOT / path) as pdf:
        for page in pdf.pages:
            middle = page.width / 2
            for box in ((0, 0, middle, page.height), (middle, 0, page.width, page.height)):
                parts.append(page.crop(box).extract_text() or "")
    return re.sub(r"\s+", " ", " ".join(parts))


def mails() -> list[Any]:
    """All messages, oldest first."""
    path = next(APPS.joinpath("mail").glob("**/*.mbox"))
    return list(mailbox.mbox(path, create=False))


def mail_body(message: Any) -> str:
    payload = message.get_payload(decode=True)
    return payload.decode("utf-8") if isinstance(payload, bytes) else str(payload)


def find_mail(subject: str, text: str = "") -> Any:
    """The last message whose subject and body contain these words."""
    found = [
        m for m in mails() if subject in str(make_header(decode_header(str(m["Subject"])))) and text in mail_body(m)
    ]
    if not found:
        raise LookupError(f"no mail about {subject!r} that says {text!r}")
    return found[-1]


def send_mail(
    sender: str, to: list[str], subject: str, body: str, when: datetime, *,
    cc: list[str] | None = None, reply_to: str = "", attachments: list[str] | None = None,
) -> None:  # fmt: skip
    """Appends a sent message to the mailbox."""
    path = next(APPS.joinpath("mail").glob("**/*.mbox"))
    message = mailbox.mboxMessage()
    message["Message-ID"] = make_msgid(domain=sender.split("@")[1].rstrip(">"))
    message["Date"] = format_datetime(when)
    message["From"], message["To"], message["Subject"] = sender, ", ".join(to), subject
    if cc:
        message["Cc"] = ", ".join(cc)
    if reply_to:
        message["In-Reply-To"] = message["References"] = reply_to
    if attachments:
        message["X-Attachments"] = ",".join(attachments)
    message.set_payload(body, "utf-8")
    box = mailbox.mbox(path)
    box.add(message)
    box.flush()


def chat(space: str) -> list[dict[str, Any]]:
    """The messages of a space, by its display name."""
    return json.loads((_space(space) / "messages.json").read_text())["messages"]  # type: ignore[no-any-return]


def post(space: str, name: str, address: str, text: str, when: datetime, topic: str = "") -> None:
    """Posts a message; `topic` is the thread it answers in."""
    folder = _space(space)
    path = folder / "messages.json"
    data = json.loads(path.read_text())
    own = f"n{len(data['messages']):010d}"
    stamp = f"{when:%A, %B} {when.day}, {when.year} at {when:%I:%M:%S %p} UTC"
    data["messages"].append({
        "creator": {"name": name, "email": address, "user_type": "Human"}, "created_date": stamp, "text": text,
        "topic_id": topic or own, "message_id": f"{folder.name.split(' ', 1)[1]}/{topic or own}/{own}",
    })  # fmt: skip
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def _space(space: str) -> Path:
    for info in sorted(APPS.glob("chat/Groups/*/group_info.json")):
        if json.loads(info.read_text())["name"] == space:
            return info.parent
    raise LookupError(f"no chat space named {space!r}")


def events() -> list[dict[str, str]]:
    """The events of the calendar: property names (with parameters cut off) to values; attendees joined by commas."""
    text = next(APPS.joinpath("calendar").glob("**/*.ics")).read_text().replace("\r\n", "\n").replace("\n ", "")
    out = []
    for block in re.findall(r"BEGIN:VEVENT\n(.*?)END:VEVENT", text, re.S):
        event: dict[str, str] = {}
        for line in block.splitlines():
            name, _, value = line.partition(":")
            key = name.split(";")[0]
            event[key] = f"{event[key]},{value}" if key == "ATTENDEE" and key in event else value
        out.append(event)
    return out


def first_groups(pattern: str, *texts: str) -> tuple[str, ...]:
    """The groups of the pattern in the first of these texts that has it. Raises `LookupError` where none does."""
    for text in texts:
        if found := re.search(pattern, text):
            return found.groups()
    raise LookupError(f"{pattern!r} not found in {texts!r}")


def first_text(pattern: str, text: str) -> str:
    """The pattern's first group. Raises `LookupError` where the text does not have it."""
    return first_groups(pattern, text)[0]


def first_number(pattern: str, text: str) -> float:
    """The number in the pattern's first group."""
    return money(first_text(pattern, text))


def long_date(day: date) -> str:
    """A date as letters write it: 3 April 2026."""
    return f"{day.day} {day:%B %Y}"


def replace_text(paragraph: Any, pattern: str, text: str) -> None:
    """Replaces within a paragraph of a document or a slide, keeping the format of its first run."""
    old = "".join(run.text for run in paragraph.runs)
    new = re.sub(pattern, text, old)
    if new != old:
        paragraph.runs[0].text = new
        for run in paragraph.runs[1:]:
            run.text = ""


def money(text: str) -> float:
    """The number in a text such as `GBP 1,234.50`."""
    found = re.search(r"-?\d[\d,]*(?:\.\d+)?", text)
    if not found:
        raise ValueError(f"no number in {text!r}")
    return float(found.group().replace(",", ""))
