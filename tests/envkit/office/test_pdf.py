"""PDFs as models: reading order, tables, and what stands beside the text."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen import canvas

from envkit.office.parse import ParseLimits, parse
from envkit.office.pdf import Pdf, read_pdf
from envkit.office.problem import Problem, Unreadable


def drawn(draw: Callable[[Any], None], **options: Any) -> bytes:
    out = io.BytesIO()
    page = canvas.Canvas(out, pagesize=A4, **options)
    draw(page)
    page.showPage()
    page.save()
    return out.getvalue()


LEFT = ["Revenue grew in every quarter", "of the year, led by the north", "where two new sites had been", "opened."]
RIGHT = [
    "Costs rose more slowly than did",
    "sales, so that the margin was a",
    "bit better than planned, by half",
    "a point.",
]


def columns(page: Any) -> None:
    page.setFont("Helvetica-Bold", 18)
    page.drawCentredString(300, 780, "Annual report of the whole group")
    page.setFont("Helvetica", 11)
    for n, (a, b) in enumerate(zip(LEFT, RIGHT, strict=True)):
        page.drawString(60, 700 - 14 * n, a)
        page.drawString(320, 693 - 14 * n, b)  # not on the same lines
    page.drawString(60, 600, "Signed by the board, with a line that runs across the whole width of the page.")


def test_columns_are_read_one_after_the_other() -> None:
    (page,) = read_pdf(drawn(columns)).pages
    texts = [block.text for block in page.blocks]
    assert texts == [
        "Annual report of the whole group", " ".join(LEFT), " ".join(RIGHT),
        "Signed by the board, with a line that runs across the whole width of the page.",
    ]  # fmt: skip
    assert [w.text for w in page.words][:4] == ["Annual", "report", "of", "the"]
    word = page.words[6]
    assert word.text == "Revenue"
    assert word.left == pytest.approx(60, abs=1)
    assert word.top == pytest.approx(A4[1] - 700 - 10, abs=4)


ROWS = [
    ("Item", "Qty", "Price"),
    ("Pump station", "2", "1,200.00"),
    ("Valve", "14", "89.50"),
    ("Total", "", "3,653.00"),
]


def ruled(page: Any) -> None:
    page.drawString(60, 750, "Order 4711")
    for n in range(5):
        page.line(60, 700 - 20 * n, 360, 700 - 20 * n)
    for x in (60, 360):
        page.line(x, 700, x, 620)
    page.line(200, 700, 200, 640)  # not through the last row: its first two cells are one
    page.line(280, 700, 280, 620)
    for n, row in enumerate(ROWS):
        for x, text in zip((64, 204, 284), row, strict=True):
            page.drawString(x, 686 - 20 * n, text)
    page.drawString(60, 590, "Payable in thirty days.")


def borderless(page: Any) -> None:
    page.drawString(60, 750, "Order 4711")
    for n, row in enumerate(ROWS[:3]):
        for x, text in zip((64, 204, 284), row, strict=True):
            page.drawString(x, 706 - 16 * n, text)
    page.drawString(60, 590, "Payable in thirty days.")


def boxes(page: Any) -> None:
    for n, row in enumerate(ROWS):
        for x, width, text in zip((60, 200, 280), (140, 80, 80), row, strict=True):
            page.rect(x, 680 - 20 * n, width, 20, fill=0)
            page.drawString(x + 4, 686 - 20 * n, text)


@pytest.mark.parametrize(
    ("draw", "rows", "by_rules"), [(ruled, ROWS, True), (borderless, ROWS[:3], False), (boxes, ROWS, True)]
)
def test_tables(draw: Any, rows: list[tuple[str, ...]], by_rules: bool) -> None:
    (page,) = read_pdf(drawn(draw)).pages
    (table,) = page.tables
    assert table.rows == tuple(rows)
    assert table.ruled == by_rules
    if draw is not boxes:
        assert [b.text for b in page.blocks] == ["Order 4711", "Payable in thirty days."]
        assert page.by_blocks.startswith("Order 4711\fItem  Qty  Price\n")


def test_prose_and_lists_are_no_tables() -> None:
    def draw(page: Any) -> None:
        for n, text in enumerate(["first we measure everything twice", "then we cut", "and then we sand it down"]):
            page.drawString(60, 700 - 16 * n, "•")
            page.drawString(80, 700 - 16 * n, text)

    (page,) = read_pdf(drawn(draw)).pages
    assert page.tables == ()
    assert len(page.blocks) == 3
    assert "•" in page.blocks[0].text
    (page,) = read_pdf(drawn(columns)).pages
    assert page.tables == ()


def marked(page: Any) -> None:
    page.setTitle("Offer")
    page.setAuthor("Ann Example")
    page.setSubject("")
    page.drawString(60, 700, "See our site")
    page.linkURL("https://example.org/a", (60, 695, 130, 712))
    page.textAnnotation("please check", (200, 700, 220, 720))
    page.bookmarkPage("one")
    page.addOutlineEntry("Chapter 1", "one", level=0)
    page.bookmarkPage("two")
    page.addOutlineEntry("Section 1.1", "two", level=1)
    page.acroForm.textfield(name="client", value="Acme", x=60, y=600, width=100, height=20)
    page.acroForm.checkbox(name="agree", checked=True, x=60, y=560)
    page.acroForm.choice(name="size", value="M", options=["S", "M", "L"], x=60, y=520, width=60, height=20)


def test_what_stands_beside_the_text() -> None:
    pdf = read_pdf(drawn(marked))
    assert pdf.metadata == (("Title", "Offer"), ("Author", "Ann Example"))
    assert [(o.level, o.title, o.page) for o in pdf.outline] == [(1, "Chapter 1", 1), (2, "Section 1.1", 1)]
    assert {f.name: (f.kind, f.value) for f in pdf.fields} == {
        "client": ("text", "Acme"), "agree": ("checkbox", "Yes"), "size": ("combo", "M"),
    }  # fmt: skip
    assert {(a.kind, a.text, a.target) for a in pdf.pages[0].annotations} == {
        ("link", "", "https://example.org/a"), ("text", "please check", ""),
    }  # fmt: skip


def test_attachments() -> None:
    import pypdfium2

    document = pypdfium2.PdfDocument(drawn(ruled))
    document.new_attachment("terms.txt").set_data(b"thirty days")
    out = io.BytesIO()
    document.save(out)
    (held,) = read_pdf(out.getvalue()).attachments
    assert (held.name, held.size, held.data) == ("terms.txt", 11, b"thirty days")


def test_pictures_need_ocr_and_double_strokes_are_one() -> None:
    def picture(page: Any) -> None:
        from PIL import Image
        from reportlab.lib.utils import ImageReader

        page.drawImage(ImageReader(Image.new("RGB", (40, 40), "red")), 50, 50, 300, 300)

    def bold(page: Any) -> None:
        for shift in (0, 0.3):
            page.drawString(60 + shift, 700, "Bookkeeper of committees")

    pdf = read_pdf(drawn(picture))
    assert pdf.needs_ocr == (1,)
    assert pdf.pages[0].pictures[0].box == pytest.approx((50, A4[1] - 350, 350, A4[1] - 50), abs=0.5)
    assert read_pdf(drawn(bold)).by_lines == "Bookkeeper of committees"


def test_turned_pages_read_as_they_are_shown() -> None:
    def draw(page: Any) -> None:
        page.setPageRotation(90)
        page.rotate(90)
        for n, text in enumerate(("first line", "second line")):
            page.drawString(100, -100 - 20 * n, text)

    (page,) = read_pdf(drawn(draw)).pages
    assert page.by_lines == "first line\nsecond line"
    first, line, second, _ = page.words
    assert 0 < first.left < line.left < page.width
    assert 0 < first.top < second.top < page.height
    assert first.right - first.left > first.bottom - first.top


@pytest.mark.parametrize("read", [read_pdf, lambda data: parse(data, read_pdf)])
def test_files_that_can_t_be_read(read: Callable[[bytes], Pdf]) -> None:
    sound = drawn(ruled)
    locked = drawn(ruled, encrypt=StandardEncryption("secret", canPrint=0))
    for data, problem in ((b"", Problem.EMPTY), (b"x", Problem.NOT_THIS_FORMAT), (b"%PDF-1.4\n", Problem.CORRUPT),
                          (sound[:700], Problem.CORRUPT), (locked, Problem.ENCRYPTED)):  # fmt: skip
        with pytest.raises(Unreadable) as caught:
            read(data)
        assert caught.value.problem is problem
    assert len(read(drawn(ruled, encrypt=StandardEncryption("", "owner"))).pages) == 1


@pytest.mark.slow
def test_a_thousand_pages_are_read_within_bounds() -> None:
    out = io.BytesIO()
    page = canvas.Canvas(out)
    for number in range(1000):
        for line in range(40):
            page.drawString(50, 800 - 15 * line, f"Line {line} of page {number}: the quick brown fox jumps over it")
        page.showPage()
    page.save()
    pdf = parse(out.getvalue(), read_pdf, ParseLimits(memory_mb=400, cpu_s=90, wall_s=110))
    assert len(pdf.pages) == 1000
    assert pdf.pages[999].by_lines.splitlines()[39].startswith("Line 39 of page 999")


def test_half_a_surrogate_pair_in_the_metadata_costs_that_entry_alone() -> None:
    import io

    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out, invariant=1, pageCompression=0)
    canvas.setTitle("A TITLE THAT IS REPLACED")
    canvas.setAuthor("Somebody")
    canvas.drawString(72, 700, "text")
    canvas.save()
    text = "(A TITLE THAT IS REPLACED)"
    half = "<FEFFD800" + "0041" * 4 + ">"
    data = out.getvalue().replace(text.encode(), half.ljust(len(text)).encode())
    assert half.encode() in data
    document = read_pdf(data)
    assert "Title" not in dict(document.metadata)
    assert dict(document.metadata)["Author"] == "Somebody"
