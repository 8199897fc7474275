"""Files as text for a judge, by what they hold. The default of `JudgeContext.render`.

Tables keep their addresses, slides their numbers, pages theirs, so that a rationale can name places. Run in the
confined child (`reading.py`): parsers of files that an agent wrote don't run anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envkit.office.gate import admit
from envkit.office.problem import Problem, Unreadable

__all__ = ["render_file"]

#: Cells of one sheet, and messages of one mailbox, that are rendered; how many more there are is said.
MAX_CELLS = 20_000
MAX_MESSAGES = 2_000
_PICTURES = ("png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "ico", "heic")


def render_file(path: str, data: bytes) -> str:
    """The text of a file.

    Args:
        path: Its name decides what it is read as.

    Raises:
        Unreadable: It is broken, too much to unpack, or not of a kind that has text.
    """
    admit(data)
    suffix = path.rsplit("/", 1)[-1].rpartition(".")[2].lower()
    renderer = _RENDERERS.get(suffix)
    if renderer is not None:
        return renderer(data)
    if suffix in _PICTURES:
        raise Unreadable(Problem.UNSUPPORTED, f"it is a picture of {len(data)} bytes, which is not shown as text")
    return _text(data)


def _text(data: bytes) -> str:
    from envkit.office.table import decode_text

    return decode_text(data)


def _workbook(data: bytes) -> str:
    from envkit.office.workbook import column_letters, read_workbook

    book = read_workbook(data)
    lines: list[str] = []
    for sheet in book.sheets:
        hidden = "" if sheet.visible else f" ({sheet.state})"
        lines.append(f"## Sheet {sheet.name}{hidden}, {len(sheet.cells)} filled cells")
        row = 0
        parts: list[str] = []
        for address in sheet.ordered[:MAX_CELLS]:
            if address[0] != row:
                lines += [f"{row}: " + " | ".join(parts)] if parts else []
                row, parts = address[0], []
            cell = sheet.cells[address]
            text = f"{column_letters(address[1])}={book.value(sheet, address)}"
            parts.append(text if cell.formula is None else f"{text} [={cell.formula.lstrip('=')}]")
        lines += [f"{row}: " + " | ".join(parts)] if parts else []
        if len(sheet.cells) > MAX_CELLS:
            lines.append(f"[...] {len(sheet.cells) - MAX_CELLS} further cells")
    return "\n".join(lines)


def _document(data: bytes) -> str:
    from envkit.office.document import read_document

    document = read_document(data)
    lines: list[str] = []
    for paragraph in document.paragraphs:
        if paragraph.in_table or not paragraph.text.strip():
            continue
        mark = "" if paragraph.level is None else "#" * max(1, paragraph.level) + " "
        lines.append(mark + paragraph.text)
    for number, table in enumerate(document.tables, start=1):
        lines.append(f"## Table {number}")
        lines += [" | ".join(row) for row in table.rows]
    for title, texts in (
        ("Headers and footers", document.headers_footers),
        ("Footnotes", document.footnotes),
        ("Comments", document.comments),
        ("Tracked insertions (part of the text above)", document.insertions),
        ("Tracked deletions (no longer part of it)", document.deletions),
    ):
        if texts:
            lines += [f"## {title}", *texts]
    if document.pictures:
        lines.append(f"## Pictures: {document.pictures}")
    return "\n".join(lines)


def _deck(data: bytes) -> str:
    from envkit.office.deck import read_deck

    lines: list[str] = []
    for slide in read_deck(data).slides:
        lines.append(f"## Slide {slide.number}: {slide.title}" + (" (hidden)" if slide.hidden else ""))
        lines += [text for text in slide.texts if text.strip() and text != slide.title]
        if slide.charts or slide.pictures:
            lines.append(f"({slide.charts} charts, {slide.pictures} pictures)")
        if slide.notes.strip():
            lines += ["Notes:", slide.notes]
    return "\n".join(lines)


def _pdf(data: bytes) -> str:
    from envkit.office.pdf import read_pdf

    lines: list[str] = []
    for page in read_pdf(data).pages:
        lines.append(f"## Page {page.number}" + (" (a picture without text)" if page.scanned else ""))
        lines.append(page.by_lines)
    return "\n".join(lines)


def _mailbox(data: bytes) -> str:
    from envkit.office.mail import read_mbox

    return "\n\n".join(_mails(data, read_mbox))


def _mail(data: bytes) -> str:
    from envkit.office.mail import read_message

    return "\n\n".join(_mails(data, lambda content: (read_message(content),)))


def _mails(data: bytes, read: Callable[[bytes], tuple[object, ...]]) -> Iterator[str]:
    from envkit.office.mail import Message

    found = read(data)
    skipped = max(0, len(found) - MAX_MESSAGES)
    if skipped:
        yield f"[...] {skipped} earlier messages"
    for number, message in enumerate(found[skipped:], start=skipped + 1):
        assert isinstance(message, Message)
        head = [f"## Message {number}: {message.subject}", f"From: {message.sender}", f"Date: {message.date}"]
        for name, people in (("To", message.to), ("Cc", message.cc), ("Bcc", message.bcc)):
            head += [f"{name}: {', '.join(people)}"] if people else []
        head += [f"Attachments: {', '.join(message.attachments)}"] if message.attachments else []
        yield "\n".join([*head, "", message.body])


_RENDERERS: dict[str, Callable[[bytes], str]] = {
    "xlsx": _workbook,
    "xlsm": _workbook,
    "docx": _document,
    "docm": _document,
    "pptx": _deck,
    "pptm": _deck,
    "pdf": _pdf,
    "mbox": _mailbox,
    "eml": _mail,
}
