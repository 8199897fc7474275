"""Single edits of PDFs: the same report set by reportlab with one thing otherwise, or by pypdf in the file itself."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pypdf
import pypdf.annotations
from PIL import Image as Picture
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.units import cm
from reportlab.platypus import Image, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from diff_edits.edit import Edit, Expected

SUFFIX = "pdf"
Spec = list[list[Any]]

_TEXT = """turbine harbour ledger survey invoice quarter margin pump valve contract tender budget memo review audit site
crew north south grid heat loss meter permit claim bond lease freight rail depot fleet notice clause annex"""
WORDS = _TEXT.split()


def sentence(seed: int, count: int) -> str:
    chosen = [WORDS[(seed * 7 + n * n * 3 + n * seed) % len(WORDS)] for n in range(count)]
    return " ".join(chosen).capitalize() + "."


def report() -> Spec:
    """Pages of (kind, content) pairs."""
    pages: Spec = []
    for number in range(1, 5):
        page: list[Any] = [("h", f"Part {number}: {sentence(number, 4)}")]
        page += [("p", " ".join(sentence(number * 10 + n, 14) for _ in range(1))) for n in range(4)]
        if number in (2, 3):
            rows = [["Item", "Units", "Amount"]]
            rows += [
                [f"{WORDS[number * 5 + r].title()} {r}", str(r * 7 + number), f"{r * 1311 / 4:,.2f}"]
                for r in range(1, 7)
            ]
            page.append(("table" if number == 2 else "plain", rows))
        page.append(("p", sentence(number * 31, 30)))
        pages.append(page)
    return pages


def written(pages: Spec, *, title: str = "Report", footer: str = "Internal", invariant: int = 1) -> bytes:
    out = io.BytesIO()
    styles = getSampleStyleSheet()

    def frame(canvas: Any, document: Any) -> None:
        canvas.setFont("Helvetica", 8)
        canvas.drawString(2 * cm, 1 * cm, f"{footer} - page {document.page} of {len(pages)}")
        if document.page == 1:
            canvas.acroForm.textfield(name="reviewer", value="Ann", x=400, y=20, width=100, height=16)
            canvas.acroForm.checkbox(name="approved", checked=False, x=520, y=20)

    story: list[Any] = []
    for page in pages:
        for kind, content in page:
            if kind == "h":
                story.append(Paragraph(content, styles["Heading1"]))
            elif kind == "p":
                story.append(Paragraph(content, styles["BodyText"]))
            elif kind == "picture":
                data = io.BytesIO()
                Picture.new("RGB", (60, 40), content).save(data, "PNG")
                story.append(Image(data, 120, 80))
            else:
                table = Table(content, colWidths=[150, 90, 110][: len(content[0])] or None)
                if kind == "table":
                    table.setStyle(TableStyle([("GRID", (0, 0), (-1, -1), 0.5, colors.black)]))
                story += [Spacer(1, 10), table, Spacer(1, 10)]
        story.append(PageBreak())
    document = SimpleDocTemplate(out, pagesize=A4, title=title, author="Office", invariant=invariant)
    document.build(story[:-1], onFirstPage=frame, onLaterPages=frame)
    return out.getvalue()


def samples() -> dict[str, bytes]:
    return {"report": written(report())}


def set_anew(change: Callable[[Spec], None], *expected: tuple[str, str | None], **options: Any) -> Edit:
    """The report set again with a change of its content."""

    def edit(_: bytes) -> tuple[bytes, Expected]:
        pages = copy.deepcopy(report())
        change(pages)
        return written(pages, **options), list(expected)

    return edit


def in_file(change: Callable[[pypdf.PdfWriter], None], *expected: tuple[str, str | None]) -> Edit:
    """A change of the file by pypdf."""

    def edit(data: bytes) -> tuple[bytes, Expected]:
        writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
        change(writer)
        out = io.BytesIO()
        writer.write(out)
        return out.getvalue(), list(expected)

    return edit


def put(page: int, item: int, content: Any) -> Callable[[Spec], None]:
    def change(pages: Spec) -> None:
        pages[page][item] = (pages[page][item][0], content)

    return change


def cell(page: int, row: int, column: int, text: str) -> Callable[[Spec], None]:
    def change(pages: Spec) -> None:
        table = next(content for kind, content in pages[page] if kind in ("table", "plain"))
        table[row][column] = text

    return change


def rows(page: int, change: Callable[[list[list[str]]], Any]) -> Callable[[Spec], None]:
    def apply(pages: Spec) -> None:
        change(next(content for kind, content in pages[page] if kind in ("table", "plain")))

    return apply


def _nothing(pages: Spec) -> None:
    pass


def _swap(pages: Spec) -> None:
    pages[0][1], pages[0][4] = pages[0][4], pages[0][1]


def _note(writer: pypdf.PdfWriter) -> None:
    writer.add_annotation(0, pypdf.annotations.Text(rect=(50, 550, 200, 650), text="please check"))


def _link(writer: pypdf.PdfWriter) -> None:
    writer.add_annotation(1, pypdf.annotations.Link(rect=(50, 550, 200, 650), url="https://example.org/"))


def _fill(writer: pypdf.PdfWriter) -> None:
    writer.update_page_form_field_values(writer.pages[0], {"reviewer": "Bob"}, auto_regenerate=False)


def _tick(writer: pypdf.PdfWriter) -> None:
    writer.update_page_form_field_values(writer.pages[0], {"approved": "/Yes"}, auto_regenerate=False)


def _mark(writer: pypdf.PdfWriter) -> None:
    writer.add_outline_item("Part one", page_number=0)


def _turn(writer: pypdf.PdfWriter) -> None:
    writer.pages[3].mediabox.upper_right = (500, 842)
    writer.pages[3].cropbox.upper_right = (500, 842)


def _edit_word(pages: Spec) -> None:
    kind, text = pages[0][2]
    pages[0][2] = (kind, text.replace(text.split()[3], "seventeen", 1))


NEW = "A wholly new paragraph about the freight contract and its bonds, which nobody has written before."
EDITS: dict[str, Edit] = {
    "word of a paragraph": set_anew(_edit_word, ("paragraph.text", "p.1 ¶3")),
    "paragraph inserted": set_anew(lambda p: p[0].insert(2, ("p", NEW)), ("paragraph", None)),
    "paragraph removed": set_anew(lambda p: p[1].pop(2), ("paragraph", "p.2 ¶3")),
    "paragraph appended": set_anew(lambda p: p[3].append(("p", NEW)), ("paragraph", None)),
    "paragraphs swapped": set_anew(_swap, ("paragraph.order", None), ("paragraph.order", None)),
    "heading": set_anew(put(2, 0, "Part 3: all about rails"), ("paragraph.text", "p.3 ¶1")),
    "number in prose": set_anew(put(0, 5, "The margin rose to 12.4 percent of all revenue in the quarter."),
                                ("paragraph.text", None)),
    "cell of a ruled table": set_anew(cell(1, 3, 2, "9,999.00"), ("table.cell", "p.2 table 1 row 4 column 3")),
    "cell of a borderless table": set_anew(cell(2, 2, 1, "77"), ("table.cell", "p.3 table 1 row 3 column 2")),
    "header of a table": set_anew(cell(1, 0, 1, "Pieces"), ("table.cell", "p.2 table 1 row 1 column 2")),
    "row inserted": set_anew(rows(1, lambda t: t.insert(3, ["Crane 9", "5", "77,000.00"])), ("table.row", None)),
    "row removed": set_anew(rows(1, lambda t: t.pop(4)), ("table.row", "p.2 table 1 row 5")),
    "row of a borderless table": set_anew(
        rows(2, lambda t: t.append(["Crane 9", "5", "77,000.00"])), ("table.row", None)),
    "column removed": set_anew(rows(1, lambda t: [r.pop(1) for r in t]), ("table.column", "p.2 table 1 column 2")),
    "table inserted": set_anew(
        lambda p: p[0].append(("table", [["Depot", "Crew"], ["Lyon", "14"], ["Ghent", "31"]])), ("table", None)),
    "table removed": set_anew(lambda p: p[1].pop(5), ("table", "p.2 table 1")),
    "page inserted": set_anew(
        lambda p: p.insert(2, [("h", "An interlude"), ("p", NEW), ("p", sentence(977, 20))]), ("page", "p.3")),
    "page removed": set_anew(lambda p: p.pop(1), ("page", "p.2")),
    "picture inserted": set_anew(lambda p: p[0].append(("picture", "navy")), ("page.pictures", "p.1")),
    "footer": set_anew(_nothing, *[("paragraph.text", None)] * 4, footer="Public"),
    "title": set_anew(_nothing, ("metadata.title", "Title"), title="Final report"),
    "metadata in the file": in_file(lambda w: w.add_metadata({"/Subject": "Costs"}), ("metadata.subject", "Subject")),
    "note": in_file(_note, ("annotation", "p.1 text")),
    "link": in_file(_link, ("annotation", "p.2 link")),
    "form field filled": in_file(_fill, ("field.value", "field reviewer")),
    "box ticked": in_file(_tick, ("field.value", "field approved")),
    "bookmark": in_file(_mark, ("outline", None)),
    "attachment": in_file(lambda w: w.add_attachment("a.txt", b"hello") and None, ("attachment", "attachment a.txt")),
    "page cut to another size": in_file(_turn, ("page.size", "p.4")),
}  # fmt: skip


def _saved(data: bytes) -> bytes:
    out = io.BytesIO()
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.compress_identical_objects()
    writer.write(out)
    return out.getvalue()


def _by_pdfium(data: bytes) -> bytes:
    import pypdfium2

    out = io.BytesIO()
    document = pypdfium2.PdfDocument(data)
    document.save(out)
    document.close()
    return out.getvalue()


RESAVES: dict[str, Callable[[bytes], bytes]] = {
    "pypdf": _saved,
    "pdfium": _by_pdfium,
    "reportlab at another time": lambda _: written(report(), invariant=0),
}
